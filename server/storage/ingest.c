/*
 * Two stages with one batch between them. Receiving copies what is pushed into the batch that
 * fills and finds the cuts; settling names the chunks of a full batch, asks which are known and
 * writes the others. Settling is a job of the store's workers and overlaps the filling of the next
 * batch:
 *
 *                 submitted             a worker or the owner takes it
 *   SETTLE_IDLE ------------> SETTLE_QUEUED ------------> SETTLE_RUNNING ------> SETTLE_IDLE
 *
 * An owner that has to wait takes a queued settle itself, so it only ever waits for a thread that
 * runs and never for a place in a queue. The job left behind finds nothing to do; it holds a
 * reference, because by then the upload may be over.
 *
 * Chunks are packed by the thread that writes them, between naming and writing: so no known chunk
 * is ever packed, and packing one overlaps the writing of others and the filling of the next batch.
 *
 * A chunk in the middle of being received moves to the front of the next batch: that, and the way
 * into the batch, are the only copies.
 *
 * Until they are registered the blobs of an upload are kept by their age only: a sweep leaves
 * alone what changed less than a lease ago. So half a lease after the last time, leases are
 * renewed and blobs synced, which counts as a change; and an upload that missed its whole lease
 * gives up.
 */
#include "storage/ingest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "storage/container/container_pack.h"
#include "storage/dedup.h"

enum {
    FIRST_BYTES = 64 << 10, /* of a batch whose upload has no announced length */
    SPARE_BYTES = 64 << 10, /* what the least batch has beyond the largest chunk */
    COPY_BYTES = 128 << 10, /* copied, then cut while still in the processor's cache */
    HASH_RUN_CHUNKS = 16,   /* hashed together by one thread; enough to keep its lanes filled */
    HASH_RUNS_MAX = INGEST_BATCH_CHUNKS / HASH_RUN_CHUNKS,
};

struct piece {
    size_t off;
    size_t len;
};

struct batch {
    uint8_t *data;
    size_t cap;
    size_t len;
    size_t open_off; /* of the chunk that has no end yet */
    size_t chunk_count;
    struct piece chunks[INGEST_BATCH_CHUNKS];
};

enum settle_state { SETTLE_IDLE, SETTLE_QUEUED, SETTLE_RUNNING };

enum ingest_fate { FATE_REMOVE, FATE_REGISTERED, FATE_UNKNOWN };

struct ingest {
    struct store *store;
    uint64_t expected_bytes; /* UINT64_MAX: unknown */
    uint64_t claimed_bytes;  /* of the store's ingest memory */
    uint64_t size_bytes;
    uint64_t blob_mark;
    struct chunker chunker;
    struct batch batches[2];
    struct batch *filling;
    enum ingest_fate fate;

    pthread_mutex_t lock;
    pthread_cond_t settled;
    unsigned ref_count; /* the owner and jobs; under lock, like the next two */
    enum settle_state state;
    struct batch *settling;

    /* Belong to whoever settles; to the owner while the state is IDLE. */
    struct err failure;
    struct dedup dedup;
    int64_t renewed_us;
    uint8_t *packed;
    size_t packed_cap; /* records */
    size_t chunk_count;
    struct stored_chunk *written;
    size_t written_cap;
    size_t written_count;

    struct digest *distinct_ids;
    struct ingest_content content;
};

/* A batch holds one chunk at least. */
static size_t
least_batch(const struct store *store)
{
    return store->sizes.most_bytes + SPARE_BYTES;
}

/* What an upload cannot do without. One alone always gets it. */
static bool
claim_memory(struct store *store, uint64_t bytes)
{
    uint64_t before = atomic_fetch_add(&store->ingest_claimed_bytes, bytes);

    if (before == 0 || before + bytes <= store->ingest_memory_bytes)
        return true;
    atomic_fetch_sub(&store->ingest_claimed_bytes, bytes);
    return false;
}

struct ingest *
ingest_new(struct store *store, uint64_t expected_bytes)
{
    size_t least = least_batch(store);
    uint64_t claimed_bytes = expected_bytes < least ? expected_bytes : least;
    struct ingest *ingest;

    if (!claim_memory(store, claimed_bytes))
        return NULL;
    ingest = mem_zalloc(sizeof(*ingest));
    ingest->store = store;
    ingest->expected_bytes = expected_bytes;
    ingest->claimed_bytes = claimed_bytes;
    ingest->filling = &ingest->batches[0];
    ingest->ref_count = 1;
    ingest->blob_mark = blob_mark(store->backend);
    ingest->renewed_us = clock_mono_us();
    pthread_mutex_init(&ingest->lock, NULL);
    pthread_cond_init(&ingest->settled, NULL);
    chunker_init(&ingest->chunker, &store->sizes);
    dedup_init(&ingest->dedup, store);
    atomic_fetch_add(&store->ingest_count, 1);
    metric_gauge_add(METRIC_UPLOADS_ACTIVE, 1);
    return ingest;
}

/* ---- settling ------------------------------------------------------------------------------- */

struct settle_run {
    struct ingest *ingest;
    const struct batch *batch;
    size_t by_length[INGEST_BATCH_CHUNKS]; /* indexes into batch->chunks */
    size_t hash_runs;
    struct digest ids[INGEST_BATCH_CHUNKS];
    enum dedup_verdict verdicts[INGEST_BATCH_CHUNKS];
    size_t new_chunks[INGEST_BATCH_CHUNKS]; /* indexes into batch->chunks */
    size_t new_count;
    struct stored_chunk *new_blobs; /* one for each of new_chunks */
    pthread_mutex_t lock;
    struct err err; /* under lock */
};

static int
by_length_falling(const void *a, const void *b, void *ctx)
{
    const struct batch *batch = ctx;
    size_t left = batch->chunks[*(const size_t *)a].len;
    size_t right = batch->chunks[*(const size_t *)b].len;

    return (left < right) - (left > right);
}

/* The longest first, dealt out in turn: lanes and threads end at about the same time. */
static void
hash_run(void *ctx, size_t i)
{
    struct settle_run *run = ctx;
    const struct batch *batch = run->batch;
    struct slice messages[INGEST_BATCH_CHUNKS];
    struct digest ids[INGEST_BATCH_CHUNKS];
    size_t count = 0;
    size_t at = i; /* below chunk_count */

    do {
        struct piece piece = batch->chunks[run->by_length[at]];

        messages[count++] = (struct slice){(const char *)batch->data + piece.off, piece.len};
    } while ((at += run->hash_runs) < batch->chunk_count);
    digest_of_each(messages, count, ids);
    for (size_t j = 0; j < count; j++)
        run->ids[run->by_length[i + j * run->hash_runs]] = ids[j];
}

static void
hash_batch(struct settle_run *run)
{
    size_t count = run->batch->chunk_count;

    for (size_t i = 0; i < count; i++)
        run->by_length[i] = i;
    qsort_r(run->by_length, count, sizeof(*run->by_length), by_length_falling, (void *)run->batch);
    run->hash_runs = (count + HASH_RUN_CHUNKS - 1) / HASH_RUN_CHUNKS;
    workers_each(run->ingest->store->workers, run->hash_runs, HASH_RUNS_MAX, hash_run, run);
}

static bool
run_failed(struct settle_run *run)
{
    LOCK_SCOPE(&run->lock);
    return run->err.code != ERR_NONE;
}

/* Only what is not stored yet comes here. The packed copy is the thread's, so there are never more
 * of them than threads. */
static const uint8_t *
pack_chunk(const struct store *store, struct stored_chunk *blob, const uint8_t *plain)
{
    const struct container_form *form = &store->form;
    uint8_t *packed;
    size_t stored_bytes;

    if (form->codec == CHUNK_RAW)
        return plain;
    packed = container_thread_whole(container_thread_own(),
                                    container_pack_bound(blob->size_bytes, form->block_log2));
    stored_bytes = container_pack(form, &blob->id, plain, blob->size_bytes, packed);
    if (stored_bytes == 0)
        return plain;
    blob->codec = form->codec;
    blob->stored_bytes = (uint32_t)stored_bytes;
    return packed;
}

static void
put_chunk(void *ctx, size_t i)
{
    struct settle_run *run = ctx;
    struct stored_chunk *blob = &run->new_blobs[i];
    struct blob_key key = {blob->id, blob->generation};
    const uint8_t *data = run->batch->data + run->batch->chunks[run->new_chunks[i]].off;
    struct err err = {0};

    if (run_failed(run))
        return;
    data = pack_chunk(run->ingest->store, blob, data);
    blob->check = digest_check(data, blob->stored_bytes);
    FAULT_POINT("ingest.put.before");
    if (blob_put(run->ingest->store->backend, &key, data, blob->stored_bytes, &err) == 0) {
        FAULT_POINT("ingest.put.after");
        return;
    }
    LOCK_SCOPE(&run->lock);
    if (run->err.code == ERR_NONE)
        run->err = err;
}

/* All of them are noted before the first is put, so that a failure removes every one. */
static void
note_new(struct ingest *ingest, struct settle_run *run)
{
    size_t first = ingest->written_count;

    for (size_t i = 0; i < run->batch->chunk_count; i++) {
        if (run->verdicts[i] == DEDUP_NEW)
            run->new_chunks[run->new_count++] = i;
    }
    ingest->written = mem_grow(ingest->written, &ingest->written_cap, first + run->new_count,
                               sizeof(*ingest->written));
    ingest->written_count += run->new_count;
    run->new_blobs = ingest->written + first;
    for (size_t i = 0; i < run->new_count; i++) {
        size_t at = run->new_chunks[i];
        uint32_t size_bytes = (uint32_t)run->batch->chunks[at].len;

        run->new_blobs[i] = (struct stored_chunk){
            .id = run->ids[at],
            .generation = rand_u64(),
            .size_bytes = size_bytes,
            .stored_bytes = size_bytes,
            .codec = CHUNK_RAW,
        };
    }
}

static void
note_records(struct ingest *ingest, const struct settle_run *run)
{
    const struct batch *batch = run->batch;

    ingest->packed = mem_grow(ingest->packed, &ingest->packed_cap,
                              ingest->chunk_count + batch->chunk_count, MANIFEST_RECORD_BYTES);
    for (size_t i = 0; i < batch->chunk_count; i++) {
        manifest_pack(ingest->packed + ingest->chunk_count++ * MANIFEST_RECORD_BYTES, &run->ids[i],
                      (uint32_t)batch->chunks[i].len);
    }
}

static void
count_batch(const struct settle_run *run)
{
    uint64_t known_count = 0, known_bytes = 0, bytes = 0;

    for (size_t i = 0; i < run->batch->chunk_count; i++) {
        bytes += run->batch->chunks[i].len;
        if (run->verdicts[i] == DEDUP_NEW)
            continue;
        known_count++;
        known_bytes += run->batch->chunks[i].len;
    }
    metric_add(METRIC_INGEST_BYTES, bytes);
    metric_add(METRIC_INGEST_CHUNKS, run->batch->chunk_count);
    metric_add(METRIC_INGEST_CHUNKS_KNOWN, known_count);
    metric_add(METRIC_INGEST_BYTES_KNOWN, known_bytes);
}

static int
sync_written(struct ingest *ingest, struct err *err)
{
    AUTO_FREE struct blob_key *keys = mem_array(ingest->written_count + 1, sizeof(*keys));
    int64_t start_us = clock_mono_us();

    for (size_t i = 0; i < ingest->written_count; i++)
        keys[i] = (struct blob_key){ingest->written[i].id, ingest->written[i].generation};
    FAULT_POINT("ingest.sync.before");
    if (blob_sync(ingest->store->backend, keys, ingest->written_count, ingest->blob_mark, err) < 0)
        return err_wrap(err, "sync upload");
    FAULT_POINT("ingest.sync.after");
    if (ingest->written_count > 0)
        metric_observe_us(METRIC_SYNC_SECONDS, clock_mono_us() - start_us);
    return 0;
}

static bool
is_renewal_due(const struct ingest *ingest)
{
    return clock_mono_us() - ingest->renewed_us > ingest->store->lease_secs * 1000000 / 2;
}

static int
renew_leases(struct ingest *ingest, struct err *err)
{
    int64_t now_us = clock_mono_us();

    /* Also when nothing was known: the blobs may look abandoned to a sweep by now. */
    if (now_us - ingest->renewed_us > ingest->store->lease_secs * 1000000)
        return err_set(err, ERR_BUSY, "upload took longer than its lease");
    if (dedup_renew(&ingest->dedup, err) < 0)
        return -1;
    ingest->renewed_us = now_us;
    return 0;
}

static int
settle_steps(struct ingest *ingest, struct settle_run *run, struct err *err)
{
    struct workers *workers = ingest->store->workers;

    hash_batch(run);
    FAULT_POINT("ingest.lease.before");
    if (dedup_classify(&ingest->dedup, run->ids, run->batch->chunk_count, run->verdicts, err) < 0)
        return -1;
    FAULT_POINT("ingest.lease.after");
    note_records(ingest, run);
    note_new(ingest, run);
    workers_each(workers, run->new_count, INGEST_WRITES_AT_ONCE, put_chunk, run);
    if (run->err.code != ERR_NONE) {
        *err = run->err;
        return err_wrap(err, "store chunk");
    }
    count_batch(run);
    return 0;
}

static void
settle(struct ingest *ingest, const struct batch *batch)
{
    struct settle_run run;
    struct err *err = &ingest->failure;

    if (err->code != ERR_NONE || batch->chunk_count == 0)
        return;
    run.ingest = ingest;
    run.batch = batch;
    run.new_count = 0;
    run.err.code = ERR_NONE;
    pthread_mutex_init(&run.lock, NULL);
    (void)settle_steps(ingest, &run, err); /* stays in ingest->failure */
    pthread_mutex_destroy(&run.lock);
}

/* At most once in half a lease: what settled so far is as safe from a sweep as if it were new. */
static void
settle_and_renew(struct ingest *ingest, const struct batch *batch)
{
    struct err *err = &ingest->failure;

    settle(ingest, batch);
    if (err->code != ERR_NONE || !is_renewal_due(ingest))
        return;
    if (renew_leases(ingest, err) == 0)
        (void)sync_written(ingest, err); /* stays in ingest->failure */
}

/* ---- who settles ---------------------------------------------------------------------------- */

static void
unref_and_unlock(struct ingest *ingest)
{
    bool is_last = --ingest->ref_count == 0;

    pthread_mutex_unlock(&ingest->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&ingest->settled);
    pthread_mutex_destroy(&ingest->lock);
    free(ingest);
}

/* Called locked in the state QUEUED, returns locked in the state IDLE. */
static void
run_queued(struct ingest *ingest)
{
    struct batch *batch = ingest->settling;

    ingest->state = SETTLE_RUNNING;
    pthread_mutex_unlock(&ingest->lock);
    settle_and_renew(ingest, batch);
    pthread_mutex_lock(&ingest->lock);
    ingest->state = SETTLE_IDLE;
    pthread_cond_broadcast(&ingest->settled);
}

static void
settle_job(void *arg)
{
    struct ingest *ingest = arg;

    pthread_mutex_lock(&ingest->lock);
    if (ingest->state == SETTLE_QUEUED)
        run_queued(ingest);
    unref_and_unlock(ingest);
}

/* Until the state is IDLE; with `run` false a settle that has not begun is dropped. */
static void
join_settle(struct ingest *ingest, bool run)
{
    LOCK_SCOPE(&ingest->lock);
    if (ingest->state == SETTLE_QUEUED && run)
        run_queued(ingest);
    else if (ingest->state == SETTLE_QUEUED)
        ingest->state = SETTLE_IDLE;
    while (ingest->state != SETTLE_IDLE)
        pthread_cond_wait(&ingest->settled, &ingest->lock);
}

/* The state is IDLE. When the queue is full the batch settles here and now. */
static void
start_settle(struct ingest *ingest, struct batch *batch)
{
    struct err ignored = {0};

    pthread_mutex_lock(&ingest->lock);
    ingest->settling = batch;
    ingest->state = SETTLE_QUEUED;
    ingest->ref_count++;
    pthread_mutex_unlock(&ingest->lock);
    if (workers_submit(ingest->store->workers, settle_job, ingest, &ignored) == 0)
        return;
    pthread_mutex_lock(&ingest->lock);
    if (ingest->state == SETTLE_QUEUED) /* an earlier job may have come by and taken it */
        run_queued(ingest);
    unref_and_unlock(ingest); /* never the last: the owner is here */
}

static int
failed(const struct ingest *ingest, struct err *err)
{
    if (ingest->failure.code == ERR_NONE)
        return 0;
    *err = ingest->failure;
    return -1;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static size_t
clamp(uint64_t value, size_t least, size_t most)
{
    if (value > most)
        value = most;
    return value < least ? least : (size_t)value;
}

/* What one batch may take now; it holds one chunk at least, so a full batch has a cut. */
static size_t
batch_limit(const struct ingest *ingest)
{
    unsigned uploads = atomic_load(&ingest->store->ingest_count);

    return clamp(ingest->store->ingest_memory_bytes / (2 * (uint64_t)uploads),
                 least_batch(ingest->store), INGEST_BATCH_BYTES);
}

/* So many uploads that there is no memory for two batches each. */
static bool
is_tight(const struct ingest *ingest)
{
    uint64_t uploads = atomic_load(&ingest->store->ingest_count);

    return 2 * uploads * least_batch(ingest->store) > ingest->store->ingest_memory_bytes;
}

/* How much more is to come, as far as one knows. */
static uint64_t
bytes_to_come(const struct ingest *ingest)
{
    if (ingest->expected_bytes == UINT64_MAX || ingest->expected_bytes <= ingest->size_bytes)
        return ingest->size_bytes < FIRST_BYTES ? FIRST_BYTES : ingest->size_bytes;
    return ingest->expected_bytes - ingest->size_bytes;
}

/* Room for at least one byte more; 0: the batch is full. */
static size_t
make_room(struct ingest *ingest)
{
    struct batch *batch = ingest->filling;
    size_t limit = batch_limit(ingest);
    uint64_t wanted;

    if (batch->len >= limit)
        return 0;
    if (batch->len < batch->cap)
        return (batch->cap < limit ? batch->cap : limit) - batch->len;
    if (__builtin_add_overflow(bytes_to_come(ingest), batch->len, &wanted) || wanted > limit)
        wanted = limit;
    batch->data = mem_realloc(batch->data, (size_t)wanted);
    batch->cap = (size_t)wanted;
    return batch->cap - batch->len;
}

/* An empty batch that begins with the tail of the full one. */
static void
begin_batch(struct ingest *ingest, struct batch *batch, const struct batch *full)
{
    size_t tail_len = full->len - full->open_off;
    size_t limit = batch_limit(ingest);
    size_t wanted = clamp(bytes_to_come(ingest), 1, limit - tail_len) + tail_len;

    if (batch->cap < wanted || batch->cap > limit) { /* more uploads than before: give back */
        free(batch->data);
        batch->data = mem_alloc(wanted);
        batch->cap = wanted;
    }
    memcpy(batch->data, full->data + full->open_off, tail_len);
    batch->len = tail_len;
    batch->open_off = 0;
    batch->chunk_count = 0;
}

/* Settles the full batch here and goes on in its memory, without another one. */
static int
turn_in_place(struct ingest *ingest, struct batch *batch, struct batch *other, struct err *err)
{
    size_t tail_len = batch->len - batch->open_off;

    free(other->data);
    *other = (struct batch){0};
    settle_and_renew(ingest, batch);
    if (failed(ingest, err) < 0)
        return -1;
    memmove(batch->data, batch->data + batch->open_off, tail_len);
    batch->len = tail_len;
    batch->open_off = 0;
    batch->chunk_count = 0;
    if (batch->cap > batch_limit(ingest)) {
        batch->cap = batch_limit(ingest);
        batch->data = mem_realloc(batch->data, batch->cap);
    }
    return 0;
}

/* The batch that fills is full: it settles, the other one fills. */
static int
turn_over(struct ingest *ingest, struct err *err)
{
    struct batch *full = ingest->filling;
    struct batch *next = &ingest->batches[full == &ingest->batches[0]];

    join_settle(ingest, true);
    if (failed(ingest, err) < 0)
        return -1;
    if (is_tight(ingest))
        return turn_in_place(ingest, full, next, err);
    begin_batch(ingest, next, full);
    ingest->filling = next;
    start_settle(ingest, full);
    return 0;
}

static int
cut_chunks(struct ingest *ingest, bool last, struct err *err)
{
    for (;;) {
        struct batch *batch;
        size_t len;

        if (ingest->filling->chunk_count == INGEST_BATCH_CHUNKS && turn_over(ingest, err) < 0)
            return -1;
        batch = ingest->filling;
        len = chunker_cut(&ingest->chunker, batch->data + batch->open_off,
                          batch->len - batch->open_off, last, NULL);
        if (len == 0)
            return 0;
        batch->chunks[batch->chunk_count++] = (struct piece){batch->open_off, len};
        batch->open_off += len;
    }
}

static int
push_some(struct ingest *ingest, const uint8_t *data, size_t len, size_t *ret_taken,
          struct err *err)
{
    size_t room = make_room(ingest);
    struct batch *batch;

    if (room == 0) {
        if (turn_over(ingest, err) < 0)
            return -1;
        room = make_room(ingest);
    }
    batch = ingest->filling;
    len = len < room ? len : room;
    len = len < COPY_BYTES ? len : COPY_BYTES;
    if (__builtin_add_overflow(ingest->size_bytes, (uint64_t)len, &ingest->size_bytes))
        return err_set(err, ERR_TOO_LARGE, "upload is longer than a length can be");
    memcpy(batch->data + batch->len, data, len);
    batch->len += len;
    *ret_taken = len;
    return cut_chunks(ingest, false, err);
}

int
ingest_push(struct ingest *ingest, const void *data, size_t len, struct err *err)
{
    const uint8_t *at = data;

    while (len > 0) {
        size_t taken = 0;

        if (push_some(ingest, at, len, &taken, err) < 0)
            return -1;
        at += taken;
        len -= taken;
    }
    return 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static int
compare_digests(const void *a, const void *b)
{
    return digest_cmp(a, b);
}

static int
compare_written(const void *a, const void *b)
{
    const struct stored_chunk *left = a, *right = b;

    return digest_cmp(&left->id, &right->id);
}

static void
free_batches(struct ingest *ingest)
{
    for (unsigned i = 0; i < 2; i++) {
        free(ingest->batches[i].data);
        ingest->batches[i] = (struct batch){0};
    }
}

static int
settle_rest(struct ingest *ingest, struct err *err)
{
    if (cut_chunks(ingest, true, err) < 0)
        return -1;
    join_settle(ingest, true);
    if (failed(ingest, err) < 0)
        return -1;
    settle(ingest, ingest->filling);
    free_batches(ingest);
    return failed(ingest, err);
}

static void
fill_content(struct ingest *ingest)
{
    size_t distinct_count = ingest->dedup.count;
    const uint8_t *packed = ingest->packed != NULL ? ingest->packed : (const uint8_t *)"";

    ingest->distinct_ids = mem_array(distinct_count + 1, sizeof(*ingest->distinct_ids));
    for (size_t i = 0; i < distinct_count; i++)
        ingest->distinct_ids[i] = ingest->dedup.entries[i].id;
    qsort(ingest->distinct_ids, distinct_count, sizeof(*ingest->distinct_ids), compare_digests);
    if (ingest->written_count > 0)
        qsort(ingest->written, ingest->written_count, sizeof(*ingest->written), compare_written);
    ingest->content = (struct ingest_content){
        .content_id = digest_of(packed, ingest->chunk_count * MANIFEST_RECORD_BYTES),
        .size_bytes = ingest->size_bytes,
        .chunk_count = ingest->chunk_count,
        .packed = packed,
        .distinct_count = distinct_count,
        .distinct_ids = ingest->distinct_ids,
        .written_count = ingest->written_count,
        .written = ingest->written,
    };
}

int
ingest_finish(struct ingest *ingest, const struct ingest_content **ret_content, struct err *err)
{
    if (settle_rest(ingest, err) < 0)
        return -1;
    if (is_renewal_due(ingest) && renew_leases(ingest, err) < 0)
        return -1;
    if (sync_written(ingest, err) < 0)
        return -1;
    fill_content(ingest);
    *ret_content = &ingest->content;
    return 0;
}

static void
remove_blob(struct ingest *ingest, size_t i)
{
    struct blob_key key = {ingest->written[i].id, ingest->written[i].generation};
    struct err err = {0};

    if (blob_remove(ingest->store->backend, &key, &err) < 0)
        log_warn("blob of an upload is left to the sweep: %s", err.msg);
}

static void
remove_written(void *ctx, size_t i)
{
    remove_blob(ctx, i);
}

void
ingest_keep(struct ingest *ingest, const size_t *losers, size_t loser_count)
{
    for (size_t i = 0; i < loser_count; i++)
        remove_blob(ingest, losers[i]);
    ingest->fate = FATE_REGISTERED;
}

void
ingest_leave(struct ingest *ingest)
{
    ingest->fate = FATE_UNKNOWN;
}

void
ingest_free(struct ingest *ingest)
{
    if (ingest == NULL)
        return;
    join_settle(ingest, false);
    if (ingest->fate == FATE_REMOVE)
        workers_each(ingest->store->workers, ingest->written_count, INGEST_WRITES_AT_ONCE,
                     remove_written, ingest);
    if (ingest->fate != FATE_REGISTERED)
        metric_add(METRIC_INGEST_FAILED, 1);
    metric_gauge_add(METRIC_UPLOADS_ACTIVE, -1);
    atomic_fetch_sub(&ingest->store->ingest_count, 1);
    atomic_fetch_sub(&ingest->store->ingest_claimed_bytes, ingest->claimed_bytes);
    free_batches(ingest);
    dedup_release(&ingest->dedup);
    free(ingest->packed);
    free(ingest->written);
    free(ingest->distinct_ids);
    pthread_mutex_lock(&ingest->lock);
    unref_and_unlock(ingest);
}
