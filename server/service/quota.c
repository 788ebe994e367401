#include "service/quota.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/rand.h"
#include "meta/quota_repo.h"

enum {
    /* Longer than a connection may be silent, short enough for who tries again after a crash. */
    HOLD_SECS = 300,
    /* Without a length: as much again as has come, within these. */
    STEP_LEAST_BYTES = 1 << 20,
    STEP_MOST_BYTES = 64 << 20,
};

bool
quota_is_in_force(const struct config *config, const struct space *space)
{
    return config->enable_user_storage_quotas && space->quota_bytes >= 0;
}

static uint64_t
growth(uint64_t old_bytes, uint64_t new_bytes)
{
    return new_bytes > old_bytes ? new_bytes - old_bytes : 0;
}

/* --- reserving --- */

struct hold_job {
    struct reservation reservation;
    bool in_force;
    uint64_t held_bytes;
};

static int
hold_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct hold_job *job = ctx;
    uint64_t used_bytes;
    int64_t quota_bytes;

    if (quota_repo_lock(conn, job->reservation.space_id, &used_bytes, &quota_bytes, err) < 0)
        return -1;
    job->in_force = quota_bytes >= 0;
    if (!job->in_force) /* any more */
        return 0;
    return quota_repo_reserve(conn, &job->reservation, quota_bytes - (int64_t)used_bytes,
                              &job->held_bytes, err);
}

static int64_t
draw_id(void)
{
    return (int64_t)(rand_u64() >> 1 | 1);
}

static int
hold_bytes(struct pg_pool *pool, struct quota_hold *hold, uint64_t needed_bytes,
           uint64_t wanted_bytes, struct err *err)
{
    struct hold_job job = {.reservation = {.space_id = hold->space_id,
                                           .needed_bytes = needed_bytes,
                                           .wanted_bytes = wanted_bytes,
                                           .ttl_secs = HOLD_SECS}};
    int64_t now_us = clock_mono_us();

    /* Noted before: whatever becomes of the transaction, quota_release() ends it. */
    if (hold->id == 0)
        hold->id = draw_id();
    job.reservation.id = hold->id;
    if (pg_pool_transact(pool, hold_work, &job, NULL, err) < 0)
        return -1;
    FAULT_POINT("quota.reserved");
    hold->in_force = job.in_force;
    hold->held_bytes = job.held_bytes;
    hold->held_at_us = now_us;
    return 0;
}

int
quota_reserve(struct pg_pool *pool, const struct config *config, const struct space *space,
              uint64_t old_bytes, uint64_t new_bytes, struct quota_hold *hold, struct err *err)
{
    uint64_t bytes = growth(old_bytes, new_bytes);

    hold->in_force = quota_is_in_force(config, space);
    hold->space_id = space->id;
    hold->old_bytes = old_bytes;
    if (!hold->in_force || bytes == 0 || new_bytes == UINT64_MAX)
        return 0;
    return hold_bytes(pool, hold, bytes, bytes, err);
}

static uint64_t
step_after(uint64_t bytes)
{
    if (bytes < STEP_LEAST_BYTES)
        return STEP_LEAST_BYTES;
    return bytes < STEP_MOST_BYTES ? bytes : STEP_MOST_BYTES;
}

int
quota_grow(struct pg_pool *pool, struct quota_hold *hold, uint64_t come_bytes, struct err *err)
{
    uint64_t needed_bytes = growth(hold->old_bytes, come_bytes);

    if (!hold->in_force || needed_bytes == 0)
        return 0;
    if (needed_bytes > hold->held_bytes)
        return hold_bytes(pool, hold, needed_bytes, needed_bytes + step_after(needed_bytes), err);
    if (clock_mono_us() - hold->held_at_us > HOLD_SECS * INT64_C(1000000) / 2)
        return hold_bytes(pool, hold, hold->held_bytes, hold->held_bytes, err);
    return 0;
}

static int
release_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return quota_repo_release(conn, *(const int64_t *)ctx, err);
}

void
quota_release(struct pg_pool *pool, struct quota_hold *hold)
{
    struct err ignored = {0}; /* it ends by itself, only later */

    if (hold->id != 0)
        (void)pg_pool_run(pool, release_work, &hold->id, &ignored);
    hold->id = 0;
}

/* --- settling --- */

int
quota_settle(struct pg_conn *conn, const struct config *config, const struct space *space,
             uint64_t old_bytes, uint64_t new_bytes, const struct quota_hold *hold, struct err *err)
{
    uint64_t bytes = growth(old_bytes, new_bytes), others_bytes, total_bytes;
    int64_t id = hold ? hold->id : 0;

    if (!quota_is_in_force(config, space) || (bytes == 0 && id == 0))
        return 0;
    if (quota_repo_settle(conn, space->id, id, &others_bytes, err) < 0)
        return -1;
    if (bytes == 0)
        return 0;
    if (__builtin_add_overflow(space->used_bytes, bytes, &total_bytes) ||
        __builtin_add_overflow(total_bytes, others_bytes, &total_bytes) ||
        total_bytes > (uint64_t)space->quota_bytes)
        return err_set(err, ERR_QUOTA, "the quota of %lld bytes is used up",
                       (long long)space->quota_bytes);
    return 0;
}
