/*
 * The one transaction of an upload: content, node and sequence appear together or not at all. The
 * bytes are durable before it begins. Outcomes:
 *
 *   committed    the blobs are named by rows now; those that lost a race are removed
 *   rolled back  no row names them; the ingest removes them when it is freed
 *   unknown      nobody can say; they are left alone and the client is told to look
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/metrics.h"
#include "meta/chunk_repo.h"
#include "service/files.h"
#include "service/lock_check.h"
#include "service/mime.h"
#include "service/tree.h"

/* Both before the body and in the transaction: may a file stand here? */
static int
check_place(struct pg_conn *conn, const struct principal *principal, const struct space *space,
            const struct place *place, const struct files_guard *guard, struct err *err)
{
    const struct node *node = place_node(place);
    unsigned need = node ? LOCK_NEED_SELF : LOCK_NEED_CREATE;

    if (node && node->kind == NODE_FOLDER)
        return err_set(err, ERR_EXISTS, "there is a folder of that name");
    if (place_want_parent(place, err) < 0 ||
        access_check(principal, place_parent(place), ACCESS_WRITE, err) < 0)
        return -1;
    if (place->path->trailing_slash)
        return err_set(err, ERR_EXISTS, "a file's path does not end in a slash");
    return lock_check_change(conn, principal, space, place, need, guard, err);
}

static uint64_t
old_bytes_at(const struct place *place)
{
    return place_node(place) ? place_node(place)->size_bytes : 0;
}

/* --- before the body --- */

struct may_job {
    const struct principal *principal;
    const struct path *path;
    const struct files_guard *guard;
    struct space space;
    uint64_t old_bytes;
};

static int
may_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct may_job *job = ctx;
    AUTO_PLACE struct place place = {0};

    if (node_repo_get_space(conn, job->principal->space_id, &job->space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        check_place(conn, job->principal, &job->space, &place, job->guard, err) < 0)
        return -1;
    job->old_bytes = old_bytes_at(&place);
    return 0;
}

static int
too_large(const struct files *files, struct err *err)
{
    return err_set(err, ERR_TOO_LARGE, "a file may have %llu bytes at most",
                   (unsigned long long)files->config->max_upload_bytes);
}

/* An empty file needs no room. */
static int
claim_room(struct files *files, struct files_claim *claim, uint64_t size_bytes, struct err *err)
{
    if (size_bytes == 0)
        return 0;
    return room_claim(files->store->room, &claim->room, size_bytes == UINT64_MAX ? 0 : size_bytes,
                      err);
}

int
files_may_write(struct files *files, const struct principal *principal, const struct path *path,
                uint64_t size_bytes, const struct files_guard *guard, struct files_claim *claim,
                struct err *err)
{
    struct may_job job = {.principal = principal, .path = path, .guard = guard};

    if (size_bytes != UINT64_MAX && size_bytes > files->config->max_upload_bytes)
        return too_large(files, err);
    if (pg_pool_run(files->pool, may_work, &job, err) < 0)
        return -1;
    if (claim_room(files, claim, size_bytes, err) == 0 &&
        quota_reserve(files->pool, files->config, &job.space, job.old_bytes, size_bytes,
                      &claim->quota, err) == 0)
        return 0;
    files_release(files, claim);
    return -1;
}

int
files_take(struct files *files, struct files_claim *claim, size_t bytes, struct err *err)
{
    if (bytes > files->config->max_upload_bytes - claim->come_bytes)
        return too_large(files, err);
    claim->come_bytes += bytes;
    if (room_take(files->store->room, &claim->room, bytes, err) < 0)
        return -1;
    return quota_grow(files->pool, &claim->quota, claim->come_bytes, err);
}

void
files_release(struct files *files, struct files_claim *claim)
{
    quota_release(files->pool, &claim->quota);
    room_release(files->store->room, &claim->room);
}

/* --- after it --- */

struct write_job {
    struct files *files;
    const struct principal *principal;
    const struct files_write *write;
    int64_t now_us;
    size_t *losers;
    size_t loser_count;
    size_t healed_count;
    struct node node;
    bool created;
};

static int
attach(struct pg_conn *conn, struct write_job *job, struct err *err)
{
    job->loser_count = 0;
    if (chunk_repo_attach(conn, job->write->content, job->losers, &job->loser_count,
                          &job->healed_count, err) < 0)
        return -1;
    FAULT_POINT("register.attached");
    return 0;
}

/* References of the new content and the old one, in the order of their ids: two files that trade
 * their contents then cannot wait for each other. */
static int
exchange_contents(struct pg_conn *conn, struct write_job *job, const struct digest *old_id,
                  struct err *err)
{
    if (digest_cmp(old_id, &job->write->content->content_id) < 0) {
        if (chunk_repo_unref(conn, old_id, 1, err) < 0)
            return -1;
        FAULT_POINT("register.unreferenced");
        return attach(conn, job, err);
    }
    if (attach(conn, job, err) < 0)
        return -1;
    return chunk_repo_unref(conn, old_id, 1, err);
}

static void
describe(struct write_job *job, int64_t seq)
{
    const struct files_write *write = job->write;
    struct node *node = &job->node;

    node->content_id = write->content->content_id;
    node->size_bytes = write->content->size_bytes;
    node->mtime_us = write->mtime_us >= 0 ? write->mtime_us : job->now_us;
    node->seq = node->content_seq = seq;
    snprintf(node->mime, sizeof(node->mime), "%s", mime_of(node->name, write->mime));
}

static int
create_file(struct pg_conn *conn, struct write_job *job, const struct place *place,
            const struct space *space, struct err *err)
{
    job->node = (struct node){.space_id = space->id,
                              .parent_id = place_parent(place)->id,
                              .kind = NODE_FILE,
                              .created_us = job->now_us};
    snprintf(job->node.name, sizeof(job->node.name), "%s", path_last(place->path));
    describe(job, space->seq);
    if (attach(conn, job, err) < 0)
        return -1;
    return node_repo_insert(conn, &job->node, err);
}

static int
replace_file(struct pg_conn *conn, struct write_job *job, const struct place *place,
             const struct space *space, struct err *err)
{
    job->node = *place_node(place);
    describe(job, space->seq);
    if (exchange_contents(conn, job, &place_node(place)->content_id, err) < 0)
        return -1;
    FAULT_POINT("register.exchanged");
    return node_repo_set_content(conn, &job->node, err);
}

static int
write_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct write_job *job = ctx;
    uint64_t size_bytes = job->write->content->size_bytes;
    const struct node *old;
    struct space space;
    int64_t delta;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0)
        return -1;
    FAULT_POINT("register.locked");
    if (tree_resolve(conn, job->principal, job->write->path, &place, err) < 0 ||
        check_place(conn, job->principal, &space, &place, &job->write->guard, err) < 0 ||
        quota_settle(conn, job->files->config, &space, old_bytes_at(&place), size_bytes,
                     job->write->claim ? &job->write->claim->quota : NULL, err) < 0)
        return -1;
    FAULT_POINT("register.settled");

    old = place_node(&place);
    job->created = !old;
    if (old ? replace_file(conn, job, &place, &space, err) < 0
            : create_file(conn, job, &place, &space, err) < 0)
        return -1;
    FAULT_POINT("register.node");
    delta = (int64_t)(size_bytes - old_bytes_at(&place));
    if (delta != 0 && node_repo_use(conn, space.id, delta, err) < 0)
        return -1;
    FAULT_POINT("register.used");
    if (tree_stamp(conn, &place, false, space.seq, err) < 0)
        return -1;
    FAULT_POINT("register.stamped");
    return 0;
}

static int
settle(struct write_job *job, enum pg_outcome outcome, struct ingest *ingest, struct err *err)
{
    if (outcome == PG_COMMITTED) {
        if (job->write->claim)
            job->write->claim->quota.id = 0; /* ended with the transaction */
        FAULT_POINT("register.committed");
        metric_add(METRIC_CHUNK_HEALED, job->healed_count);
        ingest_keep(ingest, job->losers, job->loser_count);
        FAULT_POINT("register.kept");
        return 0;
    }
    if (outcome == PG_UNKNOWN) {
        ingest_leave(ingest);
        return err_set(err, ERR_UNAVAILABLE, "it is not known whether the file was written");
    }
    return -1;
}

int
files_write(struct files *files, const struct principal *principal, const struct files_write *write,
            struct ingest *ingest, struct node *ret_node, bool *ret_created, struct err *err)
{
    AUTO_FREE size_t *losers = mem_array(write->content->written_count + 1, sizeof(*losers));
    struct write_job job = {.files = files,
                            .principal = principal,
                            .write = write,
                            .now_us = clock_now_us(),
                            .losers = losers};
    enum pg_outcome outcome = PG_ROLLED_BACK;
    int64_t began_us = clock_mono_us();

    FAULT_POINT("register.before");
    (void)pg_pool_transact(files->pool, write_work, &job, &outcome, err); /* outcome says more */
    metric_observe_us(METRIC_COMMIT_SECONDS, clock_mono_us() - began_us);
    if (settle(&job, outcome, ingest, err) < 0)
        return -1;
    *ret_node = job.node;
    *ret_created = job.created;
    return 0;
}

/* --- without an upload --- */

/* An empty content has no chunks, so nothing had to be written before. */
int
tree_make_file(struct pg_conn *conn, const struct place *place, const struct space *space,
               struct node *ret_node, struct err *err)
{
    const struct ingest_content content = {.content_id = digest_of("", 0),
                                           .packed = (const uint8_t *)""};
    const struct files_write write = {.content = &content, .mtime_us = -1};
    size_t loser;
    struct write_job job = {.write = &write, .now_us = clock_now_us(), .losers = &loser};

    if (create_file(conn, &job, place, space, err) < 0)
        return -1;
    *ret_node = job.node;
    return tree_stamp(conn, place, false, space->seq, err);
}
