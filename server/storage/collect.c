#include "storage/collect.h"

#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/container/container_cache.h"

enum { BATCH_KEYS = 500, PROOF_CHUNKS = 65536, REMOVES_AT_ONCE = 8, PREFIX_COUNT = 256 };

struct removal {
    struct store *store;
    const struct blob_key *keys;
    const uint32_t *stored_bytes;
    bool is_sweep;
    atomic_uint_fast64_t blob_count;
    atomic_uint_fast64_t blob_bytes;
};

/* A blob that cannot be removed now has no row, so a later sweep finds it. */
static void
remove_one(void *ctx, size_t i)
{
    struct removal *removal = ctx;
    struct err err = {0};

    FAULT_POINT(removal->is_sweep ? "sweep.remove" : "collect.remove");
    container_cache_drop(removal->store->containers, &removal->keys[i]);
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

static int
collect_contents(struct store *store, int64_t grace_secs, const _Atomic bool *stop, struct err *err)
{
    size_t count = 1;

    while (count > 0 && !atomic_load(stop))
        if (chunk_index_collect_contents(store->index, grace_secs, &count, err) < 0)
            return -1;
    return 0;
}

/* Rows, then blobs. *ret_gone: how many rows. */
static int
collect_batch(struct store *store, const struct proved_chunk *chunks, size_t count,
              struct collect_result *result, size_t *ret_gone, struct err *err)
{
    struct blob_key keys[BATCH_KEYS];
    uint32_t stored_bytes[BATCH_KEYS];
    bool gone[BATCH_KEYS];
    struct removal removal = {.store = store, .keys = keys, .stored_bytes = stored_bytes};
    struct collect_result before = *result;
    size_t gone_count = 0;

    if (chunk_index_collect(store->index, chunks, count, gone, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (!gone[i])
            continue;
        keys[gone_count] = chunks[i].key;
        stored_bytes[gone_count++] = chunks[i].stored_bytes;
    }
    remove_batch(&removal, gone_count, result);
    metric_add(METRIC_COLLECTED_CHUNKS, result->blob_count - before.blob_count);
    metric_add(METRIC_COLLECTED_BYTES, result->blob_bytes - before.blob_bytes);
    *ret_gone = gone_count;
    return 0;
}

/* One proof serves many batches, because it costs a look through all manifests. */
static int
collect_proved(struct store *store, const struct proved_chunk *chunks, size_t count,
               const _Atomic bool *stop, struct collect_result *result, size_t *ret_gone,
               struct err *err)
{
    *ret_gone = 0;
    for (size_t at = 0; at < count && !atomic_load(stop); at += BATCH_KEYS) {
        size_t batch_count = count - at < BATCH_KEYS ? count - at : BATCH_KEYS;
        size_t gone;

        if (collect_batch(store, chunks + at, batch_count, result, &gone, err) < 0)
            return -1;
        *ret_gone += gone;
    }
    return 0;
}

/* Again when there are more than one proof takes, or when something came in between. */
static int
collect_chunks(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
               struct collect_result *result, struct err *err)
{
    AUTO_FREE struct proved_chunk *chunks = mem_array(PROOF_CHUNKS, sizeof(*chunks));
    size_t count = 0, gone = 1;

    while (gone > 0 && !atomic_load(stop)) {
        if (chunk_index_prove(store->index, grace_secs, chunks, PROOF_CHUNKS, &count, err) < 0 ||
            collect_proved(store, chunks, count, stop, result, &gone, err) < 0)
            return -1;
    }
    return 0;
}

int
collect_garbage(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                struct collect_result *ret_result, struct err *err)
{
    *ret_result = (struct collect_result){0};
    if (collect_contents(store, grace_secs, stop, err) < 0 ||
        collect_chunks(store, grace_secs, stop, ret_result, err) < 0)
        return err_wrap(err, "collect");
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

/* Drops what a row names from the batch. */
static void
drop_named(struct sweep *sweep, const bool *named)
{
    size_t count = 0;

    for (size_t i = 0; i < sweep->count; i++) {
        if (named[i])
            continue;
        sweep->keys[count] = sweep->keys[i];
        sweep->stored_bytes[count++] = sweep->stored_bytes[i];
    }
    sweep->count = count;
}

/* Mostly that is all of them; only about the others more is asked. */
static int
find_unnamed(struct sweep *sweep, struct err *err)
{
    struct chunk_index *index = sweep->store->index;
    bool named[BATCH_KEYS];

    if (chunk_index_named(index, sweep->keys, sweep->count, named, err) < 0)
        return -1;
    drop_named(sweep, named);
    if (sweep->is_preview || sweep->count == 0)
        return 0;
    if (chunk_index_condemn(index, sweep->keys, sweep->count, named, err) < 0)
        return -1;
    FAULT_POINT("sweep.condemned");
    drop_named(sweep, named);
    return 0;
}

static void
count_batch(struct sweep *sweep)
{
    sweep->result->blob_count += sweep->count;
    for (size_t i = 0; i < sweep->count; i++)
        sweep->result->blob_bytes += sweep->stored_bytes[i];
}

static int
sweep_batch(struct sweep *sweep, struct err *err)
{
    struct removal removal = {
        .store = sweep->store,
        .keys = sweep->keys,
        .stored_bytes = sweep->stored_bytes,
        .is_sweep = true,
    };
    uint64_t before = sweep->result->blob_count;

    FAULT_POINT("sweep.listed");
    if (find_unnamed(sweep, err) < 0)
        return err_wrap(err, "sweep");
    if (sweep->is_preview) {
        count_batch(sweep);
    } else {
        remove_batch(&removal, sweep->count, sweep->result);
        metric_add(METRIC_SWEPT_BLOBS, sweep->result->blob_count - before);
    }
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

/*
 * The blobs of an upload under way have no row yet, and nobody knows of every upload on every
 * node; but each gives up when it has not touched its blobs for a lease. Twice that, because the
 * one that looks in its last moment still has to sync. Clocks may be wrong and set: what is old by
 * mistake is condemned before it is removed, and the upload that wrote it fails.
 */
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
