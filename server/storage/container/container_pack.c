#include "storage/container/container_pack.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/container/codec.h"
#include "storage/container/container_block.h"
#include "storage/container/container_thread.h"

enum {
    SAVING_LEAST_SHIFT = 4, /* a sixteenth, of a block or of all */
    SAMPLE_BYTES = 4096,
    SAMPLE_COUNT = 3,
    SAMPLED_LEAST_BYTES = 4 * SAMPLE_COUNT * SAMPLE_BYTES, /* smaller ones are just packed */
    SAMPLE_SAVING_LEAST_PERCENT = 5,
    SAMPLE_LEVEL = 1, /* the fastest of either codec */
};

/* In the order of the rows of each codec in metrics.h. */
enum decision { DECISION_PACKED, DECISION_SAMPLES, DECISION_SIZE, DECISION_COUNT };

static void
count_decision(enum chunk_codec codec, enum decision decision)
{
    metric_add((enum metric_counter)(METRIC_CHUNK_ENCODE_LZ4_PACKED +
                                     (codec - CHUNK_LZ4) * DECISION_COUNT + (int)decision),
               1);
}

size_t
container_pack_bound(size_t plain_len, unsigned block_log2)
{
    return container_head_bytes(container_head_block_count((uint32_t)plain_len, block_log2)) +
           plain_len;
}

/* Beginning, middle and end. Films, pictures and archives are told apart from the rest by these
 * at a fraction of what packing them costs; a chunk that packs only between the samples is not
 * found, which loses room and nothing else. */
static bool
do_samples_pack(enum chunk_codec codec, const uint8_t *plain, size_t len)
{
    struct container_thread *thread = container_thread_own();
    uint8_t *room = container_thread_take(thread, SAMPLE_BYTES);
    size_t packed_len = 0;

    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        size_t off = (len - SAMPLE_BYTES) / (SAMPLE_COUNT - 1) * i;
        size_t packed =
            codec_pack(codec, SAMPLE_LEVEL, plain + off, SAMPLE_BYTES, room, SAMPLE_BYTES);

        packed_len += packed > 0 ? packed : SAMPLE_BYTES;
    }
    container_thread_give(thread, room, SAMPLE_BYTES);
    return packed_len * 100 <=
           (size_t)SAMPLE_COUNT * SAMPLE_BYTES * (100 - SAMPLE_SAVING_LEAST_PERCENT);
}

/* Stored as it is unless packing saves enough; what it takes. */
static size_t
pack_block(const struct container_form *form, const uint8_t *plain, size_t len, uint8_t *dst)
{
    size_t most = len - (len >> SAVING_LEAST_SHIFT);
    /* At least a byte less in any case: equal lengths mean "as it is". */
    size_t cap = most < len ? most : len - 1;
    size_t packed = cap > 0 ? codec_pack(form->codec, form->level, plain, len, dst, cap) : 0;

    if (packed > 0)
        return packed;
    memcpy(dst, plain, len);
    return len;
}

/* The blocks and their entries behind each other; where they end, 0 once that is past `most`. */
static size_t
pack_blocks(const struct container_form *form, const struct container_head *head,
            const uint8_t *plain, size_t most, uint8_t *dst)
{
    size_t off = container_head_bytes(head->block_count);

    for (uint32_t i = 0; i < head->block_count && off <= most; i++) {
        size_t len = container_head_plain_len(head, i);
        size_t stored = pack_block(form, plain, len, dst + off);

        container_head_write_entry(dst, i, (uint32_t)stored,
                                   container_head_block_check(dst + off, stored));
        off += stored;
        plain += len;
    }
    return off <= most ? off : 0;
}

size_t
container_pack(const struct container_form *form, const struct digest *chunk_id, const void *plain,
               size_t len, uint8_t *dst)
{
    struct container_head head = {
        .codec = form->codec,
        .block_log2 = form->block_log2,
        .plain_bytes = (uint32_t)len,
    };
    size_t most, stored;
    bool is_forced;

    if (!codec_is_known(form->codec) || len == 0 || len > CONTAINER_PLAIN_MOST)
        return 0;
    is_forced = FAULT_CALL("container.pays", form->is_forced ? 0 : -1) == 0;
    most = is_forced ? SIZE_MAX : len - (len >> SAVING_LEAST_SHIFT);
    if (!is_forced && len >= SAMPLED_LEAST_BYTES &&
        !do_samples_pack(form->codec, plain, len)) {
        count_decision(form->codec, DECISION_SAMPLES);
        return 0;
    }
    head.block_count = container_head_block_count(head.plain_bytes, head.block_log2);
    stored = pack_blocks(form, &head, plain, most, dst);
    count_decision(form->codec, stored > 0 ? DECISION_PACKED : DECISION_SIZE);
    if (stored == 0)
        return 0;
    head.stored_bytes = (uint32_t)stored;
    container_head_write(dst, &head, chunk_id);
    return stored;
}

static int
unpack_blocks(const struct container_head *head, const struct container_block *blocks,
              const uint8_t *stored, uint8_t *dst, struct err *err)
{
    for (uint32_t i = 0; i < head->block_count; i++) {
        const uint8_t *block = stored + blocks[i].off;
        enum container_fault fault = CONTAINER_SOUND;

        if (!container_block_is_sound(&blocks[i], block))
            fault = CONTAINER_FAULT_CHECK;
        else if (!container_block_unpack(head, blocks, i, block, dst))
            fault = CONTAINER_FAULT_DECODE;
        if (fault != CONTAINER_SOUND)
            return err_set(err, ERR_CORRUPT, "block %u %s", i, container_fault_text(fault));
        dst += container_head_plain_len(head, i);
    }
    return 0;
}

int
container_unpack(const struct stored_chunk *chunk, const void *stored, void *dst,
                 struct container_tally *tally, struct err *err)
{
    AUTO_FREE struct container_block *blocks = NULL;
    int64_t start_ns = tally != NULL && tally->is_timed ? clock_mono_ns() : 0;
    struct container_head head;

    if (container_head_parse(stored, chunk->stored_bytes, chunk, &head, err) < 0)
        return -1;
    blocks = mem_array((size_t)head.block_count + 1, sizeof(*blocks));
    if (container_head_parse_index(&head, stored, blocks, err) < 0)
        return -1;
    if (tally != NULL)
        tally->blocks = head.block_count; /* not added: another try covers no other blocks */
    if (unpack_blocks(&head, blocks, stored, dst, err) < 0)
        return -1;
    if (tally != NULL)
        tally->output_bytes = chunk->size_bytes;
    if (tally != NULL && tally->is_timed)
        tally->decode_ns += clock_mono_ns() - start_ns;
    return 0;
}
