/*
 * PATCH as sabre/dav defines it: the body is written over a part of a file, which X-Update-Range
 * names. Where the part does not fit, 416.
 */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_guard.h"
#include "http/digest_fields.h"
#include "service/update.h"

struct patch {
    struct update *update;
    struct dav_guard *guard;
    struct digest_check *check;
};

/* "bytes=3-" or "bytes=3-6"; the last position only confirms the length of the body. */
static int
read_from_begin(struct slice text, const char *dash, struct update_request *update, struct err *err)
{
    struct slice left = {text.data, (size_t)(dash - text.data)};
    struct slice right = {dash + 1, text.len - left.len - 1};
    uint64_t last;

    update->place = UPDATE_AT;
    if (!text_parse_u64(left, INT64_MAX, &update->off))
        return err_set(err, ERR_INVALID, "X-Update-Range is no range");
    if (right.len == 0)
        return 0;
    if (!text_parse_u64(right, INT64_MAX, &last))
        return err_set(err, ERR_INVALID, "X-Update-Range is no range");
    if (last < update->off || last - update->off + 1 != update->size_bytes)
        return err_set(err, ERR_RANGE, "the range has another length than the body");
    return 0;
}

/* "append", "bytes=3-6", "bytes=3-" or "bytes=-4". */
static int
read_range(const char *header, struct update_request *update, struct err *err)
{
    static const char unit[] = "bytes=";
    struct slice text = slice_trim(slice_of(header));
    const char *dash;

    update->place = UPDATE_FROM_END;
    if (text_eq_nocase(text, SLICE("append")))
        return 0;
    if (text.len < sizeof(unit) - 1 ||
        !text_eq_nocase((struct slice){text.data, sizeof(unit) - 1}, SLICE(unit)))
        return err_set(err, ERR_INVALID, "X-Update-Range is neither append nor a range of bytes");
    text = (struct slice){text.data + sizeof(unit) - 1, text.len - sizeof(unit) + 1};
    dash = text.len > 0 ? memchr(text.data, '-', text.len) : NULL;
    if (!dash)
        return err_set(err, ERR_INVALID, "X-Update-Range is no range");
    if (dash != text.data)
        return read_from_begin(text, dash, update, err);
    if (!text_parse_u64((struct slice){dash + 1, text.len - 1}, INT64_MAX, &update->off))
        return err_set(err, ERR_INVALID, "X-Update-Range is no range");
    return 0;
}

static bool
is_partial_update(const struct request *request)
{
    struct slice type = slice_of(request_header(request, "Content-Type"));
    const char *semicolon = type.len > 0 ? memchr(type.data, ';', type.len) : NULL;

    if (semicolon)
        type.len = (size_t)(semicolon - type.data);
    return text_eq_nocase(slice_trim(type), SLICE("application/x-sabredav-partialupdate"));
}

/* A reply made here is the answer. */
static int
check_head(struct request *request, struct update_request *update, struct err *err)
{
    const char *range = request_header(request, "X-Update-Range");

    if (!is_partial_update(request)) {
        reply_text(request, 415,
                   "the only patch understood is of the type "
                   "application/x-sabredav-partialupdate");
        reply_header(request, "Accept-Patch", "application/x-sabredav-partialupdate");
        return 0;
    }
    if (!range)
        return err_set(err, ERR_INVALID, "X-Update-Range is missing");
    if (!request_header(request, "Content-Length")) {
        reply_text(request, 411, "Content-Length is needed");
        return 0;
    }
    update->size_bytes = request->content_length;
    return read_range(range, update, err);
}

static int
patch_begin(struct request *request, struct err *err)
{
    struct update_request update = {
        .path = &request->path, .principal = &request->principal, .mtime_us = dav_mtime(request)};
    struct patch patch = {0};

    if (check_head(request, &update, err) < 0)
        return -1;
    if (request->reply.status != 0)
        return 0;
    if (dav_guard_new(request, NULL, true, &patch.guard, err) < 0 ||
        digest_check_new(request, &patch.check, err) < 0)
        return -1;
    update.guard = dav_guard_source(patch.guard);
    if (update_begin(dav_of(request)->files, &update, &patch.update, err) < 0)
        return dav_guard_refuse(patch.guard, err);
    request->state = arena_dup(&request->arena, &patch, sizeof(patch));
    return 0;
}

/* Everything is given back before the client hears of a failure: it may try again at once. */
static int
patch_fail(struct patch *patch)
{
    update_free(patch->update);
    patch->update = NULL;
    return -1;
}

static int
patch_take(struct request *request, const void *data, size_t len, struct err *err)
{
    struct patch *patch = request->state;

    if (!patch)
        return 0; /* refused: what still comes is dropped */
    digest_check_add(patch->check, data, len);
    return update_take(patch->update, data, len, err) < 0 ? patch_fail(patch) : 0;
}

static int
patch_finish(struct request *request, struct err *err)
{
    struct patch *patch = request->state;
    struct sha256 sum;
    struct node node;

    if (!patch)
        return 0;
    if (digest_check_end(patch->check, &sum, err) < 0)
        return patch_fail(patch);
    if (update_finish(patch->update, &node, err) < 0) {
        (void)patch_fail(patch);
        return dav_guard_refuse(patch->guard, err);
    }
    reply_status(request, 204);
    dav_entity_headers(request, &node);
    dav_mtime_accepted(request, dav_mtime(request));
    return 0;
}

static void
patch_drop(struct request *request)
{
    struct patch *patch = request->state;

    if (patch)
        patch_fail(patch);
    request->state = NULL;
}

const struct handler dav_update_handler = {
    .begin = patch_begin,
    .take = patch_take,
    .finish = patch_finish,
    .drop = patch_drop,
};
