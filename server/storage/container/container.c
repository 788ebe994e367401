/*
 * A read goes through its blocks in batches: as many whole stored blocks as lie in
 * CONTAINER_BATCH_BYTES come with one call of the source, into a buffer of the thread's. Blocks
 * that are wanted whole unpack straight into the caller's memory, the first and the last one, when
 * only a part of them is wanted, by way of a second buffer. A third one is for reading again.
 */
#include "storage/container/container.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/container/container_block.h"
#include "storage/container/container_tally.h"
#include "storage/container/container_thread.h"

/* The first read of a head: all of it for chunks of 1 MiB and blocks of 4 KiB, and no more than
 * the page that is read anyway. */
enum { HEAD_GUESS_BYTES = 4096 };

struct container {
    _Atomic unsigned ref_count;
    struct stored_source *source;
    struct container_tuning tuning;
    struct stored_chunk chunk;
    struct container_head head;
    struct container_block blocks[];
};

const struct container_tuning container_tuning_default = {
    .batch_bytes = CONTAINER_BATCH_BYTES,
    .sample_interval = CONTAINER_SAMPLE_INTERVAL,
};

static int
name_chunk(const struct stored_chunk *chunk, struct err *err)
{
    char hex[DIGEST_HEX_SIZE];

    digest_hex(hex, &chunk->id);
    return err_wrap(err, "chunk %s", hex);
}

/* Another try may go better: the bytes in memory may be a bad copy, or the device had a moment. */
static bool
is_worth_a_retry(const struct err *err)
{
    return err->code == ERR_CORRUPT || err->code == ERR_IO || err->code == ERR_INTERNAL;
}

/* ---- the handle ----------------------------------------------------------------------------- */

/* Its first len bytes are in buffer already. */
static int
take_head(struct stored_source *source, const struct stored_chunk *chunk, uint8_t *buffer,
          size_t len, struct container **ret_container, struct err *err)
{
    struct container *container;
    struct container_head head;
    size_t head_bytes;

    if (container_head_parse(buffer, len, chunk, &head, err) < 0)
        return -1;
    head_bytes = container_head_bytes(head.block_count);
    if (head_bytes > len &&
        stored_source_read(source, len, buffer + len, head_bytes - len, err) < 0)
        return -1;
    container = mem_alloc(sizeof(*container) +
                          ((size_t)head.block_count + 1) * sizeof(container->blocks[0]));
    if (container_head_parse_index(&head, buffer, container->blocks, err) < 0) {
        free(container);
        return -1;
    }
    container->head = head;
    *ret_container = container;
    return 0;
}

static int
load_head(struct stored_source *source, const struct stored_chunk *chunk,
          struct container **ret_container, struct err *err)
{
    _Static_assert(CONTAINER_HEADER_BYTES + CONTAINER_CHECK_BYTES +
                           (CONTAINER_PLAIN_MOST >> CONTAINER_BLOCK_LOG2_LEAST) *
                               CONTAINER_ENTRY_BYTES <=
                       CONTAINER_BUFFER_BYTES,
                   "every head fits into a buffer");
    struct container_thread *thread = container_thread_own();
    uint8_t *buffer = container_thread_take(thread, CONTAINER_BUFFER_BYTES);
    size_t len = chunk->stored_bytes < HEAD_GUESS_BYTES ? chunk->stored_bytes : HEAD_GUESS_BYTES;
    int rc = stored_source_read(source, 0, buffer, len, err);

    if (rc == 0)
        rc = take_head(source, chunk, buffer, len, ret_container, err);
    container_thread_give(thread, buffer, CONTAINER_BUFFER_BYTES);
    return rc;
}

int
container_open(struct stored_source *source, const struct stored_chunk *chunk,
               const struct container_tuning *tuning, struct container **ret_container,
               struct err *err)
{
    struct container *container = NULL;

    for (unsigned retries = 0; load_head(source, chunk, &container, err) < 0; retries++) {
        if (!is_worth_a_retry(err) || retries == CONTAINER_RETRIES) {
            stored_source_free(source);
            return name_chunk(chunk, err);
        }
        metric_add(METRIC_CHUNK_REREADS, 1);
        stored_source_forget(source, 0, chunk->stored_bytes);
        *err = (struct err){0};
    }
    atomic_init(&container->ref_count, 1);
    container->source = source;
    container->tuning = *tuning;
    container->chunk = *chunk;
    *ret_container = container;
    return 0;
}

struct container *
container_ref(struct container *container)
{
    (void)atomic_fetch_add_explicit(&container->ref_count, 1, memory_order_relaxed);
    return container;
}

void
container_unref(struct container *container)
{
    if (container == NULL ||
        atomic_fetch_sub_explicit(&container->ref_count, 1, memory_order_acq_rel) > 1)
        return;
    stored_source_free(container->source);
    free(container);
}

const struct stored_chunk *
container_chunk(const struct container *container)
{
    return &container->chunk;
}

/* ---- a read --------------------------------------------------------------------------------- */

enum buffer { BUFFER_BATCH, BUFFER_PART, BUFFER_RETRY, BUFFER_COUNT };

struct read_run {
    struct container *container;
    struct container_thread *thread;
    uint64_t off; /* the range */
    size_t len;
    uint8_t *dst;
    uint8_t *buffers[BUFFER_COUNT]; /* each taken when it is needed */
    struct container_tally tally;
};

/* Batches that are larger than usual are measured, too. */
static size_t
buffer_bytes(const struct read_run *run)
{
    size_t batch_bytes = run->container->tuning.batch_bytes;

    return batch_bytes > CONTAINER_BUFFER_BYTES ? batch_bytes : CONTAINER_BUFFER_BYTES;
}

static uint8_t *
buffer_of(struct read_run *run, enum buffer which)
{
    if (run->buffers[which] != NULL)
        return run->buffers[which];
    run->buffers[which] = run->container->tuning.is_unpooled
                              ? mem_zalloc(buffer_bytes(run))
                              : container_thread_take(run->thread, buffer_bytes(run));
    return run->buffers[which];
}

static void
release_buffers(struct read_run *run)
{
    for (unsigned i = 0; i < BUFFER_COUNT; i++) {
        if (run->container->tuning.is_unpooled)
            free(run->buffers[i]);
        else
            container_thread_give(run->thread, run->buffers[i], buffer_bytes(run));
    }
}

/* The stored bytes of blocks first to end - 1. Counted when asked for, not when they come. */
static int
load(struct read_run *run, uint32_t first, uint32_t end, uint8_t *to, struct err *err)
{
    const struct container_block *blocks = run->container->blocks;
    size_t len = blocks[end].off - blocks[first].off;

    run->tally.batches++;
    run->tally.stored_bytes += len;
    return stored_source_read(run->container->source, blocks[first].off, to, len, err);
}

static enum container_fault
unpack(struct read_run *run, uint32_t i, const uint8_t *stored, uint8_t *to)
{
    const struct container *container = run->container;
    int64_t start_ns = run->tally.is_timed ? clock_mono_ns() : 0;
    bool is_good;

    if (!container->tuning.is_unchecked && !container_block_is_sound(&container->blocks[i], stored))
        return CONTAINER_FAULT_CHECK;
    is_good = container_block_unpack(&container->head, container->blocks, i, stored, to);
    if (run->tally.is_timed)
        run->tally.decode_ns += clock_mono_ns() - start_ns;
    return is_good ? CONTAINER_SOUND : CONTAINER_FAULT_DECODE;
}

/* Reads the block again, alone and from the device, until it is good: whatever was wrong with it,
 * the tries come out of one budget. */
static int
mend(struct read_run *run, uint32_t i, enum container_fault fault, uint8_t *to, struct err *err)
{
    const struct container *container = run->container;
    uint8_t *stored = buffer_of(run, BUFFER_RETRY);
    uint32_t off = container->blocks[i].off;

    for (unsigned retries = 0; retries < CONTAINER_RETRIES; retries++) {
        run->tally.retries[fault]++;
        stored_source_forget(container->source, off, container->blocks[i + 1].off - off);
        *err = (struct err){0};
        fault = CONTAINER_FAULT_READ;
        if (load(run, i, i + 1, stored, err) == 0)
            fault = unpack(run, i, stored, to);
        else if (!is_worth_a_retry(err))
            return -1;
        if (fault == CONTAINER_SOUND)
            return 0;
    }
    if (fault == CONTAINER_FAULT_READ)
        return err_wrap(err, "block %u", i);
    return err_set(err, ERR_CORRUPT, "block %u %s", i, container_fault_text(fault));
}

/* stored is NULL when the batch could not be read. */
static int
unpack_or_mend(struct read_run *run, uint32_t i, const uint8_t *stored, uint8_t *to,
               struct err *err)
{
    enum container_fault fault = stored != NULL ? unpack(run, i, stored, to) : CONTAINER_FAULT_READ;

    return fault == CONTAINER_SOUND ? 0 : mend(run, i, fault, to, err);
}

/* What the range wants of block i, to where it wants it. */
static int
deliver(struct read_run *run, uint32_t i, const uint8_t *stored, struct err *err)
{
    const struct container_head *head = &run->container->head;
    uint64_t start = (uint64_t)i << head->block_log2;
    uint64_t end = start + container_head_plain_len(head, i);
    uint64_t from = start > run->off ? start : run->off;
    uint64_t until = end < run->off + run->len ? end : run->off + run->len;
    uint8_t *to = run->dst + (from - run->off);
    uint8_t *part;

    if (from == start && until == end)
        return unpack_or_mend(run, i, stored, to, err);
    part = buffer_of(run, BUFFER_PART);
    if (unpack_or_mend(run, i, stored, part, err) < 0)
        return -1;
    memcpy(to, part + (from - start), until - from);
    return 0;
}

/* One past the last block of the batch that begins with `first`: whole blocks only. */
static uint32_t
batch_end(const struct container *container, uint32_t first, uint32_t last)
{
    const struct container_block *blocks = container->blocks;
    uint64_t most = (uint64_t)blocks[first].off + container->tuning.batch_bytes;
    uint32_t end = first + 1;

    while (end <= last && blocks[end + 1].off <= most)
        end++;
    return end;
}

static int
read_batch(struct read_run *run, uint32_t first, uint32_t end, struct err *err)
{
    const struct container_block *blocks = run->container->blocks;
    uint8_t *batch = buffer_of(run, BUFFER_BATCH);
    bool is_loaded = load(run, first, end, batch, err) == 0;

    if (!is_loaded && !is_worth_a_retry(err))
        return -1;
    for (uint32_t i = first; i < end; i++) {
        const uint8_t *stored = batch + (blocks[i].off - blocks[first].off);

        if (deliver(run, i, is_loaded ? stored : NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int
read_blocks(struct read_run *run, struct err *err)
{
    unsigned block_log2 = run->container->head.block_log2;
    uint32_t block = (uint32_t)(run->off >> block_log2);
    uint32_t last = (uint32_t)((run->off + run->len - 1) >> block_log2);

    run->tally.blocks = last - block + 1;
    while (block <= last) {
        uint32_t end = batch_end(run->container, block, last);

        if (read_batch(run, block, end, err) < 0)
            return -1;
        block = end;
    }
    run->tally.output_bytes = run->len;
    return 0;
}

int
container_read(struct container *container, uint64_t off, void *dst, size_t len, struct err *err)
{
    struct read_run run = {
        .container = container,
        .thread = container_thread_own(),
        .off = off,
        .len = len,
        .dst = dst,
    };
    int rc;

    if (off > container->head.plain_bytes || len > container->head.plain_bytes - off)
        return err_set(err, ERR_INVALID, "a range outside of the chunk");
    if (len == 0)
        return 0;
    container_tally_begin(&run.tally, run.thread, container->tuning.sample_interval);
    rc = read_blocks(&run, err);
    release_buffers(&run);
    if (!container->tuning.is_uncounted)
        container_tally_publish(&run.tally, container->head.codec, rc == 0);
    return rc == 0 ? 0 : name_chunk(&container->chunk, err);
}
