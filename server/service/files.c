/*
 * Each change is one work function, run by pg_pool_transact: lock the space, resolve, check,
 * ask the guard, change, stamp. It may run several times, so it leaves its result in its job and
 * the public function copies it out after the commit.
 */
#include "service/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "service/lock_check.h"
#include "service/tree.h"

/* What most work functions need. */
struct job {
    struct files *files;
    const struct principal *principal;
    const struct path *path;
    const struct files_guard *guard;
    struct node node; /* the result */
};

/* --- look --- */

static int
stat_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct job *job = ctx;
    AUTO_PLACE struct place place = {0};

    if (tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        place_want_node(&place, err) < 0)
        return -1;
    job->node = *place_node(&place);
    return 0;
}

int
files_stat(struct files *files, const struct principal *principal, const struct path *path,
           struct node *ret_node, struct err *err)
{
    struct job job = {.files = files, .principal = principal, .path = path};

    if (pg_pool_run(files->pool, stat_work, &job, err) < 0)
        return -1;
    *ret_node = job.node;
    return 0;
}

struct props_job {
    const int64_t *node_ids;
    size_t node_count;
    struct arena *arena;
    struct prop *props;
    size_t count;
};

static int
props_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct props_job *job = ctx;

    return prop_repo_list(conn, job->node_ids, job->node_count, job->arena, &job->props,
                          &job->count, err);
}

int
files_props(struct files *files, const int64_t *node_ids, size_t count, struct arena *arena,
            struct prop **ret_props, size_t *ret_count, struct err *err)
{
    struct props_job job = {.node_ids = node_ids, .node_count = count, .arena = arena};

    if (count > 0 && pg_pool_run(files->pool, props_work, &job, err) < 0)
        return -1;
    *ret_props = job.props;
    *ret_count = job.count;
    return 0;
}

struct usage_job {
    int64_t space_id;
    struct space space;
};

static int
usage_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct usage_job *job = ctx;

    return node_repo_get_space(conn, job->space_id, &job->space, err);
}

int
files_usage(struct files *files, const struct principal *principal, uint64_t *ret_used_bytes,
            int64_t *ret_quota_bytes, struct err *err)
{
    struct usage_job job = {.space_id = principal->space_id};

    if (pg_pool_run(files->pool, usage_work, &job, err) < 0)
        return -1;
    *ret_used_bytes = job.space.used_bytes;
    *ret_quota_bytes = files->config->enable_user_storage_quotas ? job.space.quota_bytes : -1;
    return 0;
}

void
files_etag(const struct node *node, char dst[FILES_ETAG_SIZE])
{
    char hex[DIGEST_HEX_SIZE];

    if (node->kind == NODE_FILE) {
        digest_hex(hex, &node->content_id);
        snprintf(dst, FILES_ETAG_SIZE, "\"%.32s-%" PRIx64 "\"", hex, (uint64_t)node->content_seq);
    } else {
        snprintf(dst, FILES_ETAG_SIZE, "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)node->id,
                 (uint64_t)node->seq);
    }
}

/* --- change --- */

static int
make_folder_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct job *job = ctx;
    struct space space;
    AUTO_PLACE struct place place = {0};
    struct node *node = &job->node;

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0)
        return -1;
    if (place_node(&place))
        return err_set(err, ERR_EXISTS, "there is something of that name already");
    if (place_want_parent(&place, err) < 0 ||
        access_check(job->principal, place_parent(&place), ACCESS_WRITE, err) < 0 ||
        lock_check_change(conn, job->principal, &space, &place, LOCK_NEED_CREATE, job->guard, err) <
            0)
        return -1;

    *node = (struct node){.space_id = space.id,
                          .parent_id = place_parent(&place)->id,
                          .kind = NODE_FOLDER,
                          .mtime_us = clock_now_us(),
                          .seq = space.seq};
    node->created_us = node->mtime_us;
    snprintf(node->name, sizeof(node->name), "%s", path_last(job->path));
    if (node_repo_insert(conn, node, err) < 0)
        return -1;
    return tree_stamp(conn, &place, false, space.seq, err);
}

int
files_make_folder(struct files *files, const struct principal *principal, const struct path *path,
                  const struct files_guard *guard, struct node *ret_node, struct err *err)
{
    struct job job = {.files = files, .principal = principal, .path = path, .guard = guard};

    if (tree_transact(files, make_folder_work, &job, "making the folder", err) < 0)
        return -1;
    *ret_node = job.node;
    return 0;
}

/* Into the trash, under the path that people knew it by. */
static int
trash_place(struct pg_conn *conn, const struct place *place, int64_t seq, struct err *err)
{
    struct arena arena;
    int rc;

    arena_init(&arena);
    rc = node_repo_trash(conn, place_node(place), tree_path_text(place->path, &arena), seq, err);
    FAULT_POINT("trash.node");
    arena_release(&arena);
    return rc;
}

static int
remove_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct job *job = ctx;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        place_want_node(&place, err) < 0 ||
        access_check(job->principal, place_node(&place), ACCESS_WRITE, err) < 0 ||
        lock_check_change(conn, job->principal, &space, &place, LOCK_NEED_REMOVE, job->guard, err) <
            0 ||
        lock_check_removed(conn, &space, place_node(&place), err) < 0 ||
        trash_place(conn, &place, space.seq, err) < 0)
        return -1;
    return tree_stamp(conn, &place, false, space.seq, err);
}

int
files_remove(struct files *files, const struct principal *principal, const struct path *path,
             const struct files_guard *guard, struct err *err)
{
    struct job job = {.files = files, .principal = principal, .path = path, .guard = guard};

    if (path->depth == 0)
        return err_set(err, ERR_DENIED, "the root folder cannot be deleted");
    return tree_transact(files, remove_work, &job, "deleting", err);
}

/* --- copy and move --- */

struct transfer_job {
    struct files *files;
    const struct principal *principal;
    const struct files_transfer *transfer;
    struct node node;
    bool created;
};

/* Both ends of a transfer. */
struct ends {
    struct place source;
    struct place target;
};

static void
ends_release(struct ends *ends)
{
    place_release(&ends->source);
    place_release(&ends->target);
}

/* Is this node among the first count nodes of the place? */
static bool
has_node(const struct place *place, size_t count, const struct node *node)
{
    for (size_t i = 0; i < count; i++)
        if (place->nodes[i].id == node->id)
            return true;
    return false;
}

static int
check_ends(const struct transfer_job *job, const struct ends *ends, struct err *err)
{
    const struct files_transfer *transfer = job->transfer;
    const struct node *source = place_node(&ends->source);
    const struct node *target = place_node(&ends->target);
    bool moves = transfer->kind == FILES_MOVE;

    if (access_check(job->principal, source, moves ? ACCESS_WRITE : ACCESS_READ, err) < 0)
        return -1;
    if (target && target->id == source->id)
        return err_set(err, ERR_DENIED, "source and target are the same");
    if (has_node(&ends->target, ends->target.found, source) && source->kind == NODE_FOLDER)
        return err_set(err, ERR_DENIED, "a folder cannot go into itself");
    if (target && has_node(&ends->source, ends->source.found, target))
        return err_set(err, ERR_DENIED, "a folder cannot be replaced by what is in it");
    if (place_want_parent(&ends->target, err) < 0 ||
        access_check(job->principal, place_parent(&ends->target), ACCESS_WRITE, err) < 0)
        return -1;
    if (target && !transfer->overwrite)
        return err_set(err, ERR_PRECONDITION, "there is something at the target");
    return 0;
}

/* May the source go (or be read), may the target come? */
static int
check_locks(struct pg_conn *conn, const struct transfer_job *job, const struct space *space,
            const struct ends *ends, struct err *err)
{
    const struct files_transfer *transfer = job->transfer;
    unsigned source_need = transfer->kind == FILES_MOVE ? LOCK_NEED_REMOVE : LOCK_NEED_NOTHING;
    unsigned target_need = place_node(&ends->target) ? LOCK_NEED_REMOVE : LOCK_NEED_CREATE;

    if (lock_check_change(conn, job->principal, space, &ends->source, source_need,
                          &transfer->source_guard, err) < 0)
        return -1;
    return lock_check_change(conn, job->principal, space, &ends->target, target_need,
                             &transfer->target_guard, err);
}

static int
copy_node(struct pg_conn *conn, const struct transfer_job *job, const struct ends *ends,
          const struct space *space, int64_t *ret_node_id, struct err *err)
{
    const struct node *source = place_node(&ends->source);
    struct tree_totals totals = {.bytes = source->size_bytes};

    if (source->kind == NODE_FOLDER) {
        totals.bytes = 0;
        if (!job->transfer->shallow && node_repo_subtree(conn, source->id, &totals, err) < 0)
            return -1;
    }
    if (quota_settle(conn, job->files->config, space, 0, totals.bytes, NULL, err) < 0 ||
        node_repo_copy(conn, source->id, job->transfer->shallow, place_parent(&ends->target)->id,
                       path_last(job->transfer->target), space->seq, ret_node_id, err) < 0)
        return -1;
    return totals.bytes ? node_repo_use(conn, space->id, (int64_t)totals.bytes, err) : 0;
}

/* The target's place is free now. */
static int
bring_node(struct pg_conn *conn, struct transfer_job *job, const struct ends *ends,
           const struct space *space, struct err *err)
{
    const struct files_transfer *transfer = job->transfer;
    const struct node *source = place_node(&ends->source);
    int64_t node_id = source->id;

    if (transfer->kind == FILES_COPY) {
        if (copy_node(conn, job, ends, space, &node_id, err) < 0)
            return -1;
    } else if (lock_check_moved(conn, space, source, err) < 0 ||
               node_repo_move(conn, source->id, place_parent(&ends->target)->id,
                              path_last(transfer->target), space->seq, err) < 0 ||
               tree_stamp(conn, &ends->source, false, space->seq, err) < 0) {
        return -1;
    }
    FAULT_POINT("transfer.node");
    if (transfer->mtime_us >= 0 && node_repo_set_mtime(conn, node_id, transfer->mtime_us, err) < 0)
        return -1;
    if (tree_stamp(conn, &ends->target, false, space->seq, err) < 0)
        return -1;
    return node_repo_get(conn, node_id, &job->node, err);
}

static int
transfer_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct transfer_job *job = ctx;
    const struct files_transfer *transfer = job->transfer;
    struct space space;
    __attribute__((cleanup(ends_release))) struct ends ends = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, transfer->source, &ends.source, err) < 0 ||
        place_want_node(&ends.source, err) < 0 ||
        tree_resolve(conn, job->principal, transfer->target, &ends.target, err) < 0 ||
        check_ends(job, &ends, err) < 0 || check_locks(conn, job, &space, &ends, err) < 0)
        return -1;

    job->created = !place_node(&ends.target);
    if (!job->created && trash_place(conn, &ends.target, space.seq, err) < 0)
        return -1;
    if (bring_node(conn, job, &ends, &space, err) < 0)
        return -1;
    return job->created
               ? 0
               : lock_check_replaced(conn, &space, place_node(&ends.target), job->node.id, err);
}

int
files_transfer(struct files *files, const struct principal *principal,
               const struct files_transfer *transfer, struct node *ret_node, bool *ret_created,
               struct err *err)
{
    struct transfer_job job = {.files = files, .principal = principal, .transfer = transfer};
    const char *words = transfer->kind == FILES_COPY ? "copying" : "moving";

    if (transfer->source->depth == 0)
        return err_set(err, ERR_DENIED, "the root folder can be neither copied nor moved");
    if (tree_transact(files, transfer_work, &job, words, err) < 0)
        return -1;
    *ret_node = job.node;
    *ret_created = job.created;
    return 0;
}

/* --- properties --- */

struct patch_job {
    struct job base;
    const struct prop *props;
    size_t count;
    int64_t mtime_us;
};

/* A listing holds the properties of a page of nodes in memory, so there is a limit to them. */
static int
check_props_size(struct pg_conn *conn, int64_t node_id, struct err *err)
{
    uint64_t bytes;

    if (prop_repo_size(conn, node_id, &bytes, err) < 0)
        return -1;
    if (bytes > FILES_PROPS_MAX_BYTES)
        return err_set(err, ERR_QUOTA, "the properties of a file or folder may have %d bytes",
                       FILES_PROPS_MAX_BYTES);
    return 0;
}

static int
patch_props(struct pg_conn *conn, const struct patch_job *job, int64_t node_id, struct err *err)
{
    bool grows = false;

    for (size_t i = 0; i < job->count; i++) {
        struct prop prop = job->props[i];

        prop.node_id = node_id;
        grows = grows || prop.value;
        if (prop.value ? prop_repo_set(conn, &prop, err) < 0
                       : prop_repo_remove(conn, node_id, prop.ns, prop.name, err) < 0)
            return -1;
    }
    return grows ? check_props_size(conn, node_id, err) : 0;
}

/* place is zeroed. */
static int
find_to_patch(struct pg_conn *conn, const struct job *job, const struct space *space,
              struct place *place, struct err *err)
{
    if (tree_resolve(conn, job->principal, job->path, place, err) < 0 ||
        place_want_node(place, err) < 0 ||
        access_check(job->principal, place_node(place), ACCESS_WRITE, err) < 0)
        return -1;
    return lock_check_change(conn, job->principal, space, place, LOCK_NEED_SELF, job->guard, err);
}

static int
patch_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct patch_job *job = ctx;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->base.principal->space_id, &space, err) < 0 ||
        find_to_patch(conn, &job->base, &space, &place, err) < 0 ||
        patch_props(conn, job, place_node(&place)->id, err) < 0)
        return -1;
    if (job->mtime_us >= 0 &&
        node_repo_set_mtime(conn, place_node(&place)->id, job->mtime_us, err) < 0)
        return -1;
    return tree_stamp(conn, &place, true, space.seq, err);
}

int
files_patch(struct files *files, const struct principal *principal, const struct path *path,
            const struct prop *props, size_t count, int64_t mtime_us,
            const struct files_guard *guard, struct err *err)
{
    struct patch_job job = {
        .base = {.files = files, .principal = principal, .path = path, .guard = guard},
        .props = props,
        .count = count,
        .mtime_us = mtime_us,
    };

    return tree_transact(files, patch_work, &job, "changing the properties", err);
}

static int
may_patch_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct job *job = ctx;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_get_space(conn, job->principal->space_id, &space, err) < 0)
        return -1;
    return find_to_patch(conn, job, &space, &place, err);
}

int
files_may_patch(struct files *files, const struct principal *principal, const struct path *path,
                const struct files_guard *guard, struct err *err)
{
    struct job job = {.files = files, .principal = principal, .path = path, .guard = guard};

    return pg_pool_run(files->pool, may_patch_work, &job, err);
}
