/* What becomes of packed chunks in a store: uploads, ranges, rot, room that is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/collect.h"
#include "storage/container/container_cache.h"
#include "storage/content_reader.h"
#include "support/mem_store.h"

enum { DATA_BYTES = 6 << 20, THREADS = 4, QUEUE = 64, BLOCK_LOG2 = 12, BLOCK_BYTES = 1 << 12 };

static const enum chunk_codec CODECS[] = {CHUNK_LZ4, CHUNK_ZSTD};
enum { CODEC_COUNT = sizeof(CODECS) / sizeof(CODECS[0]) };

static uint8_t *mixed; /* first half: words, second half: noise */

static struct mem_store *
store_of(enum chunk_codec codec)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);

    mem->store.form = (struct container_form){.codec = codec, .block_log2 = BLOCK_LOG2};
    return mem;
}

static struct manifest *
manifest_of(struct mem_store *mem, const struct digest *id)
{
    struct manifest *manifest;
    struct err err = {0};

    assert_int_equal(store_manifest(&mem->store, id, &manifest, &err), 0);
    return manifest;
}

/* Exactly the range comes out, or the code of what went wrong. */
static enum err_code
read_range(struct mem_store *mem, const struct digest *id, uint64_t off, size_t len)
{
    AUTO_FREE uint8_t *back = mem_alloc(len + 1);
    struct content_reader *reader;
    struct err err = {0};
    size_t at = 0, got = 0;

    if (content_reader_open(&mem->store, id, (struct byte_range){off, len}, &reader, &err) < 0)
        return err.code;
    while (content_reader_read(reader, back + at, len + 1 - at, &got, &err) == 0 && got > 0)
        at += got;
    content_reader_free(reader);
    if (err.code != ERR_NONE)
        return err.code;
    assert_int_equal(at, len);
    assert_memory_equal(back, mixed + off, len);
    return ERR_NONE;
}

static void
test_what_pays_is_packed_and_what_does_not_stays_raw(void **state)
{
    (void)state;
    for (unsigned c = 0; c < CODEC_COUNT; c++) {
        struct mem_store *mem = store_of(CODECS[c]);
        struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
        struct manifest *manifest = manifest_of(mem, &id);

        for (size_t i = 0; i < manifest->chunk_count; i++) {
            const struct manifest_entry *entry = &manifest->entries[i];

            if (entry->off + entry->chunk.size_bytes <= DATA_BYTES / 2)
                assert_int_equal(entry->chunk.codec, CODECS[c]);
            else if (entry->off >= DATA_BYTES / 2)
                assert_int_equal(entry->chunk.codec, CHUNK_RAW);
        }
        assert_true(mem_backend_bytes(mem->backend) < DATA_BYTES * 3 / 4);
        assert_int_equal(read_range(mem, &id, 0, DATA_BYTES), ERR_NONE);
        manifest_unref(manifest);
        mem_store_free(mem);
    }
}

static void
test_a_content_is_the_same_whatever_packs_it_and_is_stored_once(void **state)
{
    struct mem_store *mem = store_of(CHUNK_RAW);
    struct digest id = mem_store_add(mem, mixed, DATA_BYTES / 4);
    uint64_t stored_bytes = mem_backend_bytes(mem->backend);

    (void)state;
    for (unsigned c = 0; c < CODEC_COUNT; c++) {
        struct digest again;
        uint64_t packed = metric_value(METRIC_CHUNK_ENCODE_LZ4_PACKED) +
                          metric_value(METRIC_CHUNK_ENCODE_ZSTD_PACKED);

        mem->store.form.codec = CODECS[c];
        again = mem_store_add(mem, mixed, DATA_BYTES / 4);
        assert_true(digest_eq(&id, &again));
        assert_int_equal(mem_backend_bytes(mem->backend), stored_bytes);
        assert_int_equal(metric_value(METRIC_CHUNK_ENCODE_LZ4_PACKED) +
                             metric_value(METRIC_CHUNK_ENCODE_ZSTD_PACKED),
                         packed); /* what is known is never packed */
    }
    assert_int_equal(read_range(mem, &id, 0, DATA_BYTES / 4), ERR_NONE);
    mem_store_free(mem);
}

static void
test_a_range_costs_the_blocks_it_covers(void **state)
{
    struct mem_store *mem = store_of(CHUNK_LZ4);
    struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
    struct manifest *manifest = manifest_of(mem, &id);
    uint64_t edge = manifest->entries[1].off, before;

    (void)state;
    before = metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4);
    assert_int_equal(read_range(mem, &id, 5 * BLOCK_BYTES - 1, 2), ERR_NONE);
    assert_int_equal(metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4) - before, 2);
    before = metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4);
    assert_int_equal(read_range(mem, &id, 5 * BLOCK_BYTES, BLOCK_BYTES), ERR_NONE);
    assert_int_equal(metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4) - before, 1);
    before = metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4);
    assert_int_equal(read_range(mem, &id, edge - 1, 2), ERR_NONE); /* of two chunks */
    assert_int_equal(metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4) - before, 2);
    manifest_unref(manifest);
    mem_store_free(mem);
}

static void
test_ranges_across_packed_and_raw_chunks_are_exact(void **state)
{
    (void)state;
    for (unsigned c = 0; c < CODEC_COUNT; c++) {
        struct mem_store *mem = store_of(CODECS[c]);
        struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
        struct manifest *manifest = manifest_of(mem, &id);

        for (size_t i = 1; i < manifest->chunk_count; i++) {
            uint64_t edge = manifest->entries[i].off;

            for (uint64_t off = edge - 1; off <= edge + 1; off++) {
                assert_int_equal(read_range(mem, &id, off, 1), ERR_NONE);
                assert_int_equal(read_range(mem, &id, off - 5000, 10000), ERR_NONE);
            }
        }
        manifest_unref(manifest);
        mem_store_free(mem);
    }
}

static void
test_a_flipped_bit_of_a_packed_chunk_never_leaves_and_is_quarantined(void **state)
{
    (void)state;
    for (unsigned c = 0; c < CODEC_COUNT; c++) {
        struct mem_store *mem = store_of(CODECS[c]);
        struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
        struct manifest *manifest = manifest_of(mem, &id);
        const struct stored_chunk *chunk = &manifest->entries[0].chunk;
        enum err_code code = ERR_NONE;

        mem_backend_flip(mem->backend, &chunk->id);
        for (uint64_t off = 0; code == ERR_NONE && off < chunk->size_bytes; off += BLOCK_BYTES)
            code = read_range(mem, &id, off, 1); /* the block that has it, or the head */
        assert_int_equal(code, ERR_CORRUPT);
        assert_int_equal(mem_index_quarantined_count(mem->index), 1);
        assert_int_equal(read_range(mem, &id, 0, DATA_BYTES), ERR_CORRUPT);
        assert_int_equal(read_range(mem, &id, chunk->size_bytes, 1000000), ERR_NONE);
        (void)mem_store_add(mem, mixed, DATA_BYTES);
        assert_int_equal(mem_index_quarantined_count(mem->index), 0);
        assert_int_equal(read_range(mem, &id, 1, DATA_BYTES - 1), ERR_NONE);
        manifest_unref(manifest);
        mem_store_free(mem);
    }
}

static void
test_a_bad_copy_in_memory_is_read_again_by_ranges_too(void **state)
{
    struct mem_store *mem = store_of(CHUNK_ZSTD);
    struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
    struct manifest *manifest = manifest_of(mem, &id);

    (void)state;
    mem_backend_flip_cached(mem->backend, &manifest->entries[0].chunk.id);
    assert_int_equal(read_range(mem, &id, 10, 10), ERR_NONE);
    mem_backend_flip_cached(mem->backend, &manifest->entries[0].chunk.id);
    assert_int_equal(read_range(mem, &id, 0, DATA_BYTES), ERR_NONE);
    assert_int_equal(mem_index_quarantined_count(mem->index), 0);
    manifest_unref(manifest);
    mem_store_free(mem);
}

/* An open file would keep its room. */
static void
test_what_is_collected_is_not_held_open(void **state)
{
    struct mem_store *mem = store_of(CHUNK_LZ4);
    struct digest id = mem_store_add(mem, mixed, DATA_BYTES);
    const _Atomic bool stop = false;
    struct collect_result result;
    struct err err = {0};

    (void)state;
    assert_int_equal(read_range(mem, &id, 1, DATA_BYTES / 2), ERR_NONE);
    assert_true(container_cache_count(mem->store.containers) > 0);
    mem_index_release(mem->index, &id);
    mem_index_advance(mem->index, 2 * MEM_STORE_LEASE_SECS);
    assert_int_equal(collect_garbage(&mem->store, 0, &stop, &result, &err), 0);
    assert_int_equal(mem_backend_count(mem->backend), 0);
    assert_int_equal(container_cache_count(mem->store.containers), 0);
    mem_store_free(mem);
}

static int
start(void **state)
{
    (void)state;
    mixed = mem_store_noise(7, DATA_BYTES);
    for (size_t i = 0; i < DATA_BYTES / 2; i++) /* three letters of eight are not always the same */
        mixed[i] = i % 8 < 3 ? (uint8_t)(mixed[i] % 8 + 'a') : (uint8_t)('k' + i % 8);
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    free(mixed);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_pays_is_packed_and_what_does_not_stays_raw),
        cmocka_unit_test(test_a_content_is_the_same_whatever_packs_it_and_is_stored_once),
        cmocka_unit_test(test_a_range_costs_the_blocks_it_covers),
        cmocka_unit_test(test_ranges_across_packed_and_raw_chunks_are_exact),
        cmocka_unit_test(test_a_flipped_bit_of_a_packed_chunk_never_leaves_and_is_quarantined),
        cmocka_unit_test(test_a_bad_copy_in_memory_is_read_again_by_ranges_too),
        cmocka_unit_test(test_what_is_collected_is_not_held_open),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
