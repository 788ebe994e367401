#include "service/trash.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "service/lock_check.h"
#include "service/tree.h"

enum { RESTORE_TRIES = 1000 };

static const int64_t DAY_US = 86400 * INT64_C(1000000);

/* --- list --- */

struct list_job {
    int64_t space_id;
    int64_t after_node_id;
    struct arena *arena;
    struct trash_entry *entries;
    size_t cap;
    size_t count;
};

static int
list_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct list_job *job = ctx;

    return node_repo_trash_list(conn, job->space_id, job->after_node_id, job->arena, job->entries,
                                job->cap, &job->count, err);
}

int
trash_list(struct files *files, const struct principal *principal, int64_t after_node_id,
           struct arena *arena, struct trash_entry *entries, size_t cap, size_t *ret_count,
           struct err *err)
{
    struct list_job job = {.space_id = principal->space_id,
                           .after_node_id = after_node_id,
                           .arena = arena,
                           .entries = entries,
                           .cap = cap};

    if (pg_pool_run(files->pool, list_work, &job, err) < 0)
        return -1;
    *ret_count = job.count;
    return 0;
}

/* --- restore --- */

struct restore_job {
    const struct principal *principal;
    int64_t node_id;
    struct arena *arena;
    char *path; /* the result */
};

/* "/a/b" into names, with room for one more; names hold no slash. */
static void
split_path(const char *text, struct arena *arena, struct path *ret_path)
{
    *ret_path = (struct path){
        .names = arena_zalloc(arena, (PATH_MAX_DEPTH + 2) * sizeof(*ret_path->names))};
    while (ret_path->depth < PATH_MAX_DEPTH) {
        size_t len;

        text += strspn(text, "/");
        len = strcspn(text, "/");
        if (len == 0)
            break;
        ret_path->names[ret_path->depth++] = arena_strndup(arena, text, len);
        text += len;
    }
}

/* Where it was, when one can still get there; else the root (depth 0). */
static int
find_folder(struct pg_conn *conn, const struct trash_entry *entry, struct arena *arena,
            struct path *ret_path, struct err *err)
{
    bool live = false;
    char *text;

    split_path("", arena, ret_path);
    if (entry->parent_id != 0 && node_repo_is_live(conn, entry->parent_id, &live, err) < 0)
        return -1;
    if (!live)
        return 0;
    if (node_repo_path(conn, entry->parent_id, arena, &text, err) < 0)
        return -1;
    split_path(text, arena, ret_path);
    return 0;
}

/* Keeps whole characters. */
static size_t
cut_utf8(const char *text, size_t len, size_t most)
{
    if (len <= most)
        return len;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

/* "a.txt", "a (restored).txt", "a (restored 2).txt", ... */
static char *
make_name(struct arena *arena, const char *name, unsigned try)
{
    const char *dot = strrchr(name, '.');
    size_t stem_len = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    const char *ending = name + stem_len;
    char mark[32] = "";
    size_t most;

    if (try == 0)
        return arena_strdup(arena, name);
    if (try == 1)
        snprintf(mark, sizeof(mark), " (restored)");
    else
        snprintf(mark, sizeof(mark), " (restored %u)", try);
    if (strlen(ending) > PATH_NAME_MAX_BYTES / 2) { /* not what people call an ending */
        stem_len = strlen(name);
        ending = "";
    }
    most = PATH_NAME_MAX_BYTES - strlen(mark) - strlen(ending);
    return arena_printf(arena, "%.*s%s%s", (int)cut_utf8(name, stem_len, most), name, mark, ending);
}

static int
restore_as(struct pg_conn *conn, struct restore_job *job, const struct space *space,
           const struct place *place, struct err *err)
{
    int64_t seq = space->seq;

    if (place_want_parent(place, err) < 0 ||
        access_check(job->principal, place_parent(place), ACCESS_WRITE, err) < 0 ||
        lock_check(conn, job->principal, space, place, LOCK_NEED_CREATE, NULL, err) < 0 ||
        node_repo_trash_restore(conn, job->node_id, place_parent(place)->id, path_last(place->path),
                                seq, err) < 0)
        return -1;
    FAULT_POINT("restore.node");
    if (tree_stamp(conn, place, false, seq, err) < 0)
        return -1;
    job->path = tree_path_text(place->path, job->arena);
    return 0;
}

static int
restore_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct restore_job *job = ctx;
    struct trash_entry entry;
    struct space space;
    struct path path;
    const char *name;

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        node_repo_trash_get(conn, space.id, job->node_id, job->arena, &entry, err) < 0 ||
        find_folder(conn, &entry, job->arena, &path, err) < 0)
        return -1;
    name = strrchr(entry.path, '/');
    name = name ? name + 1 : entry.path;
    path.depth++;
    for (unsigned try = 0; try < RESTORE_TRIES; try++) {
        AUTO_PLACE struct place place = {0};

        path.names[path.depth - 1] = make_name(job->arena, name, try);
        if (tree_resolve(conn, job->principal, &path, &place, err) < 0)
            return -1;
        if (!place_node(&place))
            return restore_as(conn, job, &space, &place, err);
    }
    return err_set(err, ERR_EXISTS, "no free name to restore it under");
}

int
trash_restore(struct files *files, const struct principal *principal, int64_t node_id,
              struct arena *arena, char **ret_path, struct err *err)
{
    struct restore_job job = {.principal = principal, .node_id = node_id, .arena = arena};

    if (pg_pool_transact(files->pool, restore_work, &job, NULL, err) < 0)
        return -1;
    FAULT_POINT("restore.committed");
    *ret_path = job.path;
    return 0;
}

/* --- purge --- */

struct purge_job {
    int64_t space_id;
    int64_t before_us;
    uint64_t purged;
    bool more;
};

static int
purge_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct purge_job *job = ctx;

    return node_repo_purge_step(conn, job->space_id, job->before_us, &job->purged, &job->more, err);
}

static int
purge(struct files *files, int64_t space_id, int64_t before_us, const _Atomic bool *stop,
      uint64_t *ret_purged, struct err *err)
{
    struct purge_job job = {.space_id = space_id, .before_us = before_us, .more = true};
    uint64_t purged = 0;

    while (job.more && !(stop && *stop)) {
        job.purged = 0;
        job.more = false;
        if (pg_pool_transact(files->pool, purge_work, &job, NULL, err) < 0)
            return -1;
        FAULT_POINT("purge.committed");
        purged += job.purged;
    }
    *ret_purged = purged;
    return 0;
}

int
trash_empty(struct files *files, const struct principal *principal, uint64_t *ret_purged,
            struct err *err)
{
    /* The database's clock may be ahead of ours. */
    return purge(files, principal->space_id, clock_now_us() + DAY_US, NULL, ret_purged, err);
}

int
trash_expire(struct files *files, uint64_t retention_days, const _Atomic bool *stop,
             uint64_t *ret_purged, struct err *err)
{
    int64_t before_us = clock_now_us() - (int64_t)retention_days * DAY_US;

    return purge(files, 0, before_us, stop, ret_purged, err);
}
