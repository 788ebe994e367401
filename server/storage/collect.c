#include "storage/collect.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"

enum { BATCH_KEYS = 500, REMOVES_AT_ONCE = 8, PREFIX_COUNT = 256 };

struct removal {
    struct store *store;
    const struct blob_key *keys;
    const uint32_t *stored_bytes;
    const bool *kept; /* NULL: none is */
    atomic_uint_fast64_t blob_count;
    atomic_uint_fast64_t blob_bytes;
};

/* A blob that cannot be removed now has no row, so a later sweep finds it. */
static void
remove_one(void *ctx, size_t i)
{
    struct removal *removal = ctx;
    struct err err = {0};

    if (removal->kept != NULL && removal->kept[i])
        return;
    FAULT_POINT(removal->kept == NULL ? "collect.remove" : "sweep.remove");
    if (blob_remove(removal->store->backend, &removal->keys[i], &err) < 0) {
        log_warn("blob is left to the next sweep: %s", err.msg);
        return;
    }
    atomic_fetch_add(&removal->blob_count, 1);
    atomic_fetch_add(&removal->blob_bytes, removal->stored_bytes[i]);
}

static void
remove_batch(struct removal *removal, size_t count, struct collect_result *result)
{
    workers_each(removal->store->workers, count, REMOVES_AT_ONCE, remove_one, removal);
    result->blob_count += removal->blob_count;
    result->blob_bytes += removal->blob_bytes;
}

int
collect_garbage(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                struct collect_result *ret_result, struct err *err)
{
    struct blob_key keys[BATCH_KEYS];
    uint32_t stored_bytes[BATCH_KEYS];
    bool more = true;

    *ret_result = (struct collect_result){0};
    while (more && !atomic_load(stop)) {
        struct removal removal = {.store = store, .keys = keys, .stored_bytes = stored_bytes};
        struct collect_result batch = {0};
        size_t count;

        if (chunk_index_collect(store->index, grace_secs, keys, stored_bytes, BATCH_KEYS, &count,
                                &more, err) < 0)
            return err_wrap(err, "collect");
        remove_batch(&removal, count, &batch);
        metric_add(METRIC_COLLECTED_CHUNKS, batch.blob_count);
        metric_add(METRIC_COLLECTED_BYTES, batch.blob_bytes);
        ret_result->blob_count += batch.blob_count;
        ret_result->blob_bytes += batch.blob_bytes;
    }
    return 0;
}

struct sweep {
    struct store *store;
    const _Atomic bool *stop;
    bool is_preview;
    bool stopped;
    int64_t newest_us; /* what changed later is left alone */
    struct collect_result *result;
    size_t count;
    struct blob_key keys[BATCH_KEYS];
    uint32_t stored_bytes[BATCH_KEYS];
};

static void
count_batch(struct sweep *sweep, const bool *named)
{
    for (size_t i = 0; i < sweep->count; i++) {
        if (named[i])
            continue;
        sweep->result->blob_count++;
        sweep->result->blob_bytes += sweep->stored_bytes[i];
    }
    sweep->count = 0;
}

static int
sweep_batch(struct sweep *sweep, struct err *err)
{
    bool named[BATCH_KEYS];
    struct removal removal = {
        .store = sweep->store,
        .keys = sweep->keys,
        .stored_bytes = sweep->stored_bytes,
        .kept = named,
    };
    uint64_t before = sweep->result->blob_count;

    FAULT_POINT("sweep.listed");
    if (chunk_index_named(sweep->store->index, sweep->keys, sweep->count, named, err) < 0)
        return err_wrap(err, "sweep");
    if (sweep->is_preview) {
        count_batch(sweep, named);
        return 0;
    }
    remove_batch(&removal, sweep->count, sweep->result);
    metric_add(METRIC_SWEPT_BLOBS, sweep->result->blob_count - before);
    sweep->count = 0;
    return 0;
}

static int
sweep_blob(void *ctx, const struct blob_key *key, uint64_t stored_bytes, int64_t changed_at_us,
           struct err *err)
{
    struct sweep *sweep = ctx;

    if (atomic_load(sweep->stop)) {
        sweep->stopped = true;
        return -1; /* ends the listing; not an error */
    }
    if (changed_at_us > sweep->newest_us)
        return 0;
    sweep->keys[sweep->count] = *key;
    sweep->stored_bytes[sweep->count] =
        stored_bytes < UINT32_MAX ? (uint32_t)stored_bytes : UINT32_MAX;
    if (++sweep->count < BATCH_KEYS)
        return 0;
    return sweep_batch(sweep, err);
}

/* The blobs of an upload under way have no row yet, and nobody knows of every upload on every
 * node; but each gives up when it has not touched its blobs for a lease. Twice that, because the
 * one that looks in its last moment still has to sync, and we need time from looking to removing. */
static int64_t
sweep_age_secs(const struct store *store, int64_t grace_secs)
{
    return grace_secs > 2 * store->lease_secs ? grace_secs : 2 * store->lease_secs;
}

static int
walk_blobs(struct store *store, int64_t grace_secs, const _Atomic bool *stop, bool is_preview,
           struct collect_result *ret_result, struct err *err)
{
    struct sweep sweep = {
        .store = store,
        .stop = stop,
        .is_preview = is_preview,
        .newest_us = clock_now_us() - sweep_age_secs(store, grace_secs) * 1000000,
        .result = ret_result,
    };

    *ret_result = (struct collect_result){0};
    for (unsigned prefix = 0; prefix < PREFIX_COUNT && !atomic_load(stop); prefix++) {
        if (blob_list(store->backend, (uint8_t)prefix, sweep_blob, &sweep, err) < 0)
            return sweep.stopped ? 0 : -1;
        if (sweep_batch(&sweep, err) < 0)
            return -1;
    }
    return 0;
}

int
collect_sweep(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
              struct collect_result *ret_result, struct err *err)
{
    return walk_blobs(store, grace_secs, stop, false, ret_result, err);
}

int
collect_sweep_preview(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                      struct collect_result *ret_result, struct err *err)
{
    return walk_blobs(store, grace_secs, stop, true, ret_result, err);
}
