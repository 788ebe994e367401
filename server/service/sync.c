#include "service/sync.h"

#include "base/clock.h"
#include "meta/pg_pool.h"
#include "service/access.h"

enum { FORGET_BATCH = 1000 };

static const int64_t DAY_US = 86400 * INT64_C(1000000);

struct sync_mark
sync_mark_of(const struct node *folder)
{
    return (struct sync_mark){folder->seq, folder->seq};
}

struct sync_mark
sync_mark_after(const struct change_range *range)
{
    return (struct sync_mark){range->until_seq, range->removed_until};
}

struct look_job {
    int64_t space_id;
    struct change_range range;
    int64_t floor;
    int64_t replaced;
};

static int
look_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct look_job *job = ctx;

    return change_repo_look(conn, job->space_id, &job->range, &job->floor, &job->replaced, err);
}

static bool
is_possible(const struct sync_mark *mark, const struct node *folder)
{
    return mark->linked_seq >= 0 && mark->linked_seq <= mark->removed_seq &&
           mark->removed_seq - mark->linked_seq <= 1 && mark->removed_seq <= folder->seq;
}

int
sync_range(struct files *files, const struct principal *principal, const struct node *folder,
           const struct sync_mark *mark, bool deep, struct change_range *ret_range, bool *ret_known,
           bool *ret_more, struct err *err)
{
    static const struct sync_mark nothing = {0};
    struct sync_mark from = mark ? *mark : nothing;
    struct look_job job = {.space_id = folder->space_id,
                           .range = {.after_seq = from.linked_seq,
                                     .removed_after = from.removed_seq,
                                     .until_seq = folder->seq,
                                     .removed_until = folder->seq}};

    if (access_check(principal, folder, ACCESS_READ, err) < 0)
        return -1;
    *ret_more = false;
    *ret_known = is_possible(&from, folder);
    /* Who knows nothing, or all there is, has missed nothing that may be forgotten. */
    if (*ret_known && from.linked_seq > 0 && from.linked_seq < folder->seq) {
        if (pg_pool_run(files->pool, look_work, &job, err) < 0)
            return -1;
        *ret_known = from.removed_seq >= job.floor;
        if (deep && job.replaced > 0) {
            job.range.until_seq = job.replaced - 1;
            job.range.removed_until = job.replaced;
            *ret_more = true;
        }
    }
    *ret_range = job.range;
    return 0;
}

int
sync_check(struct files *files, const struct principal *principal, const struct node *folder,
           const struct change_range *range, bool *ret_known, struct err *err)
{
    struct sync_mark from = {range->after_seq, range->removed_after};
    struct sync_mark until = sync_mark_after(range);
    struct look_job job = {.space_id = folder->space_id, .range = *range};

    if (access_check(principal, folder, ACCESS_READ, err) < 0)
        return -1;
    *ret_known = is_possible(&from, folder) && is_possible(&until, folder) &&
                 from.linked_seq <= until.linked_seq;
    if (!*ret_known || from.linked_seq == 0)
        return 0;
    if (pg_pool_run(files->pool, look_work, &job, err) < 0)
        return -1;
    *ret_known = from.removed_seq >= job.floor;
    return 0;
}

/* ---- forgetting ---- */

struct forget_job {
    int64_t before_us;
    size_t count;
};

static int
forget_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct forget_job *job = ctx;

    return change_repo_forget(conn, job->before_us, FORGET_BATCH, &job->count, err);
}

int
sync_forget(struct files *files, uint64_t retention_days, const _Atomic bool *stop,
            uint64_t *ret_count, struct err *err)
{
    struct forget_job job = {.before_us = clock_now_us() - (int64_t)retention_days * DAY_US};
    uint64_t count = 0;

    do {
        if (pg_pool_transact(files->pool, forget_work, &job, NULL, err) < 0)
            return -1;
        count += job.count;
    } while (job.count == FORGET_BATCH && !*stop);
    *ret_count = count;
    return 0;
}
