/* MKCOL, DELETE, COPY, MOVE: RFC 4918 sections 9.3, 9.6, 9.8, 9.9. */
#include "dav/dav.h"
#include "dav/dav_guard.h"

/* ---- MKCOL ---- */

static int
mkcol_finish(struct request *request, struct err *err)
{
    struct dav_guard *conditions;
    struct files_guard guard;
    struct node node;

    if (request->body.len > 0) {
        reply_text(request, 415, "a folder is made without a body");
        return 0;
    }
    if (dav_guard_new(request, NULL, true, &conditions, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (files_make_folder(dav_of(request)->files, &request->principal, &request->path, &guard,
                          &node, err) < 0)
        return dav_guard_refuse(conditions, err);
    reply_status(request, 201);
    return 0;
}

const struct handler dav_mkcol_handler = {.finish = mkcol_finish};

/* ---- DELETE ---- */

static int
delete_finish(struct request *request, struct err *err)
{
    enum dav_depth depth;
    struct dav_guard *conditions;
    struct files_guard guard;

    if (request->path.depth == 0)
        return err_set(err, ERR_DENIED, "the root cannot be deleted");
    if (dav_depth(request, DAV_DEPTH_INFINITY, &depth, err) < 0 ||
        dav_guard_new(request, NULL, depth == DAV_DEPTH_INFINITY, &conditions, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (files_remove(dav_of(request)->files, &request->principal, &request->path, &guard, err) < 0)
        return dav_guard_refuse(conditions, err);
    reply_status(request, 204);
    return 0;
}

const struct handler dav_delete_handler = {.finish = delete_finish};

/* ---- COPY, MOVE ---- */

/* Anything but DAV_HERE has been answered. */
static int
read_destination(struct request *request, struct path *ret_path, enum dav_place *ret_place,
                 struct err *err)
{
    const char *header = request_header(request, "Destination");

    if (!header)
        return err_set(err, ERR_INVALID, "there is no Destination");
    if (dav_resolve(request, slice_of(header), ret_place, ret_path, err) < 0)
        return err_wrap(err, "destination");
    if (*ret_place == DAV_ELSEWHERE)
        reply_text(request, 502, "the destination is on another server");
    if (*ret_place == DAV_OUTSIDE)
        return err_set(err, ERR_DENIED, "the destination is outside of this tree");
    return 0;
}

/* Depth 0 copies a folder without what is in it; a folder cannot move that way. */
static int
read_depth(struct request *request, struct files_transfer *transfer, bool *ret_whole,
           struct err *err)
{
    enum dav_depth depth;

    if (dav_depth(request, DAV_DEPTH_INFINITY, &depth, err) < 0)
        return -1;
    transfer->shallow = transfer->kind == FILES_COPY && depth == DAV_DEPTH_0;
    *ret_whole = depth == DAV_DEPTH_INFINITY || transfer->shallow;
    return 0;
}

static int
transfer_finish(struct request *request, struct err *err)
{
    struct path target;
    struct files_transfer transfer = {
        .kind = request->method == HTTP_COPY ? FILES_COPY : FILES_MOVE,
        .source = &request->path,
        .target = &target,
        .mtime_us = dav_mtime(request),
    };
    struct dav_guard *conditions;
    enum dav_place place;
    struct node node;
    bool created;
    bool whole;

    if (read_destination(request, &target, &place, err) < 0)
        return -1;
    if (place != DAV_HERE)
        return 0;
    if (request->path.depth == 0)
        return err_set(err, ERR_DENIED, "the root cannot be copied or moved");
    if (dav_overwrite(request, &transfer.overwrite, err) < 0 ||
        read_depth(request, &transfer, &whole, err) < 0 ||
        dav_guard_new(request, &target, whole, &conditions, err) < 0)
        return -1;
    transfer.source_guard = dav_guard_source(conditions);
    transfer.target_guard = dav_guard_target(conditions);
    if (files_transfer(dav_of(request)->files, &request->principal, &transfer, &node, &created,
                       err) < 0)
        return dav_guard_refuse(conditions, err);
    reply_status(request, created ? 201 : 204);
    dav_mtime_accepted(request, transfer.mtime_us);
    return 0;
}

const struct handler dav_transfer_handler = {.finish = transfer_finish};
