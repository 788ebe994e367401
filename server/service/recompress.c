#include "service/recompress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "meta/chunk_repo.h"
#include "storage/chunk_check.h"
#include "storage/container/container_cache.h"
#include "storage/container/container_pack.h"

enum {
    BATCH_CHUNKS = 64,  /* 16 MiB on average; one transaction, one round of syncs */
    CHUNKS_AT_ONCE = 4, /* each takes three times its size while it is rewritten */
    SAY_INTERVAL_US = 2000000,
};

enum fate { FATE_LEFT, FATE_WRITTEN, FATE_FAILED };

struct recompress {
    struct pg_pool *pool;
    struct store *store;
    const struct container_form *form;
    uint64_t rate_bytes;
    int64_t next_us; /* monotonic: the next batch may begin */
    void (*say)(void *ctx, const char *line);
    void *ctx;
    int64_t said_us;
    struct recompress_result *result;

    struct stored_chunk chunks[BATCH_CHUNKS];
    size_t count;
    const struct digest *after;
    struct digest last; /* of the batch before */
    uint64_t mark;      /* of the backend, before the first put of the batch */
    struct stored_chunk packed[BATCH_CHUNKS]; /* of the same index */
    enum fate fates[BATCH_CHUNKS];
    struct err errs[BATCH_CHUNKS];

    /* those that were written, without holes */
    struct stored_chunk olds[BATCH_CHUNKS];
    struct stored_chunk news[BATCH_CHUNKS];
    bool switched[BATCH_CHUNKS];
    size_t written_count;
};

static struct blob_key
key_of(const struct stored_chunk *chunk)
{
    return (struct blob_key){.id = chunk->id, .generation = chunk->generation};
}

/* ---- one chunk ------------------------------------------------------------------------------ */

/* Nothing is written anew that is not what its name says. */
static int
read_plain(struct store *store, const struct stored_chunk *chunk, void *plain, struct err *err)
{
    struct digest id;

    if (chunk_check_read(store, chunk, plain, err) < 0)
        return -1;
    id = digest_of(plain, chunk->size_bytes);
    if (!digest_eq(&id, &chunk->id))
        return err_set(err, ERR_CORRUPT, "its bytes have another id");
    return 0;
}

/* The only copy will be this one. */
static int
check_packed(const struct stored_chunk *chunk, const uint8_t *packed, const uint8_t *plain,
             struct err *err)
{
    AUTO_FREE uint8_t *back = mem_alloc(chunk->size_bytes);

    if (container_unpack(chunk, packed, back, NULL, err) == 0 &&
        memcmp(back, plain, chunk->size_bytes) == 0)
        return 0;
    return err_set(err, ERR_INTERNAL, "a packed chunk does not unpack to what it was");
}

/* Sets *ret_stored to NULL when the chunk stays as it is. The bytes are the thread's or plain. */
static int
pack(const struct recompress *run, const struct stored_chunk *old, const uint8_t *plain,
     struct stored_chunk *ret_chunk, const uint8_t **ret_stored, struct err *err)
{
    const struct container_form *form = run->form;
    size_t bound = container_pack_bound(old->size_bytes, form->block_log2);
    uint8_t *room = container_thread_whole(container_thread_own(), bound);
    size_t stored_bytes = container_pack(form, &old->id, plain, old->size_bytes, room);

    *ret_chunk = *old;
    ret_chunk->generation = rand_u64();
    ret_chunk->codec = stored_bytes > 0 ? form->codec : CHUNK_RAW;
    ret_chunk->stored_bytes = stored_bytes > 0 ? (uint32_t)stored_bytes : old->size_bytes;
    *ret_stored = stored_bytes > 0 ? room : plain;
    if (ret_chunk->codec == CHUNK_RAW) {
        if (old->codec == CHUNK_RAW)
            *ret_stored = NULL;
    } else if (check_packed(ret_chunk, room, plain, err) < 0) {
        return -1;
    }
    return 0;
}

static int
rewrite(struct recompress *run, size_t i, struct err *err)
{
    const struct stored_chunk *old = &run->chunks[i];
    struct stored_chunk *chunk = &run->packed[i];
    AUTO_FREE uint8_t *plain = mem_alloc(old->size_bytes);
    const uint8_t *stored;
    struct blob_key key;

    if (read_plain(run->store, old, plain, err) < 0 ||
        pack(run, old, plain, chunk, &stored, err) < 0)
        return -1;
    if (stored == NULL)
        return 0;
    chunk->check = digest_check(stored, chunk->stored_bytes);
    key = key_of(chunk);
    FAULT_POINT("recompress.put");
    if (blob_put(run->store->backend, &key, stored, chunk->stored_bytes, err) < 0)
        return -1;
    run->fates[i] = FATE_WRITTEN;
    return 0;
}

/* Runs on the store's workers; each i has places of its own. */
static void
rewrite_nth(void *ctx, size_t i)
{
    struct recompress *run = ctx;

    run->fates[i] = FATE_LEFT;
    run->errs[i] = (struct err){0};
    if (rewrite(run, i, &run->errs[i]) < 0)
        run->fates[i] = FATE_FAILED;
}

/* ---- a batch -------------------------------------------------------------------------------- */

static void
remove_blob(struct recompress *run, const struct stored_chunk *chunk)
{
    struct blob_key key = key_of(chunk);
    struct err err = {0};

    FAULT_POINT("recompress.remove");
    container_cache_drop(run->store->containers, &key);
    if (blob_remove(run->store->backend, &key, &err) < 0)
        log_warn("blob is left to the next sweep: %s", err.msg);
}

static void
remove_written(struct recompress *run)
{
    for (size_t i = 0; i < run->written_count; i++)
        remove_blob(run, &run->news[i]);
}

/* A bad chunk stays where it is, in quarantine. One that was collected or written anew meanwhile
 * is none. Anything else ends the run. */
static int
judge_failed(struct recompress *run, size_t i, struct err *err)
{
    bool is_bad;

    if (!chunk_check_is_bad(&run->errs[i])) {
        *err = run->errs[i];
        return -1;
    }
    if (chunk_check_quarantine(run->store, &run->chunks[i], &run->errs[i], &is_bad, err) < 0)
        return -1;
    run->result->bad += is_bad;
    return 0;
}

static int
judge(struct recompress *run, struct err *err)
{
    int rc = 0;

    run->written_count = 0;
    for (size_t i = 0; i < run->count; i++) {
        if (run->fates[i] != FATE_WRITTEN)
            continue;
        run->olds[run->written_count] = run->chunks[i];
        run->news[run->written_count++] = run->packed[i];
    }
    for (size_t i = 0; i < run->count && rc == 0; i++) {
        if (run->fates[i] == FATE_FAILED)
            rc = judge_failed(run, i, err);
        else if (run->fates[i] == FATE_LEFT)
            run->result->left++;
    }
    return rc;
}

static int
sync_written(struct recompress *run, struct err *err)
{
    struct blob_key keys[BATCH_CHUNKS];

    for (size_t i = 0; i < run->written_count; i++)
        keys[i] = key_of(&run->news[i]);
    FAULT_POINT("recompress.sync");
    return blob_sync(run->store->backend, keys, run->written_count, run->mark, err);
}

static int
switch_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct recompress *run = ctx;

    if (chunk_repo_switch(conn, run->olds, run->news, run->written_count, run->switched, err) < 0)
        return -1;
    FAULT_POINT("recompress.switched");
    return 0;
}

/* Readers that know the old place only find the new one when they miss it. */
static void
finish(struct recompress *run)
{
    for (size_t i = 0; i < run->written_count; i++) {
        remove_blob(run, run->switched[i] ? &run->olds[i] : &run->news[i]);
        if (!run->switched[i])
            continue;
        run->result->rewritten++;
        run->result->old_bytes += run->olds[i].stored_bytes;
        run->result->new_bytes += run->news[i].stored_bytes;
    }
}

/* Where nobody can say whether the rows were switched, both blobs stay, and the sweep removes the
 * one that no row names. */
static int
switch_over(struct recompress *run, struct err *err)
{
    enum pg_outcome outcome = PG_ROLLED_BACK;
    int rc;

    if (sync_written(run, err) < 0) {
        remove_written(run);
        return -1;
    }
    FAULT_POINT("recompress.begin");
    rc = pg_pool_transact(run->pool, switch_work, run, &outcome, err);
    if (rc == 0) {
        FAULT_POINT("recompress.committed");
        finish(run);
    } else if (outcome == PG_ROLLED_BACK) {
        remove_written(run);
    }
    return rc;
}

static int
rewrite_batch(struct recompress *run, struct err *err)
{
    run->mark = blob_mark(run->store->backend);
    workers_each(run->store->workers, run->count, CHUNKS_AT_ONCE, rewrite_nth, run);
    if (judge(run, err) < 0) {
        remove_written(run);
        return -1;
    }
    return run->written_count > 0 ? switch_over(run, err) : 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int
next_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct recompress *run = ctx;

    return chunk_repo_unlike(conn, run->form->codec, run->after, run->chunks, BATCH_CHUNKS,
                             &run->count, err);
}

/* After a batch. What was not done in time is not made up for. */
static void
keep_rate(struct recompress *run)
{
    int64_t now_us = clock_mono_us(), wait_us;
    uint64_t bytes = 0;

    if (run->rate_bytes == 0)
        return;
    for (size_t i = 0; i < run->count; i++)
        bytes += run->chunks[i].size_bytes;
    run->next_us += (int64_t)((double)bytes / (double)run->rate_bytes * 1e6);
    wait_us = run->next_us - now_us;
    if (wait_us > 0)
        (void)nanosleep(&(struct timespec){wait_us / 1000000, wait_us % 1000000 * 1000}, NULL);
    else
        run->next_us = now_us;
}

/* Ids are spread evenly, so how far the last one is tells how far we are. */
static void
say_where(struct recompress *run)
{
    const struct recompress_result *result = run->result;
    unsigned percent = (run->last.bytes[0] * 256U + run->last.bytes[1]) * 100 / 65536;
    AUTO_FREE char *line = NULL;

    if (clock_mono_us() - run->said_us < SAY_INTERVAL_US)
        return;
    run->said_us = clock_mono_us();
    line = mem_printf("%u %%: %llu chunks rewritten, %llu bytes in place of %llu", percent,
                      (unsigned long long)result->rewritten, (unsigned long long)result->new_bytes,
                      (unsigned long long)result->old_bytes);
    run->say(run->ctx, line);
}

static int
rewrite_all(struct recompress *run, struct err *err)
{
    do {
        if (pg_pool_run(run->pool, next_work, run, err) < 0 || rewrite_batch(run, err) < 0)
            return -1;
        if (run->count > 0) {
            run->last = run->chunks[run->count - 1].id;
            run->after = &run->last;
        }
        say_where(run);
        keep_rate(run);
    } while (run->count == BATCH_CHUNKS);
    return 0;
}

int
recompress_run(struct pg_pool *pool, struct store *store, const struct container_form *form,
               uint64_t rate_bytes, void (*say)(void *ctx, const char *line), void *ctx,
               struct recompress_result *ret_result, struct err *err)
{
    AUTO_FREE struct recompress *run = mem_zalloc(sizeof(*run));

    *ret_result = (struct recompress_result){0};
    run->pool = pool;
    run->store = store;
    run->form = form;
    run->rate_bytes = rate_bytes;
    run->next_us = run->said_us = clock_mono_us();
    run->say = say;
    run->ctx = ctx;
    run->result = ret_result;
    return rewrite_all(run, err);
}
