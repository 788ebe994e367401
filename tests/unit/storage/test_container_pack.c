#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "storage/container/codec.h"
#include "storage/container/container_head.h"
#include "storage/container/container_pack.h"
#include "support/packed.h"

static const enum chunk_codec CODECS[] = {CHUNK_LZ4, CHUNK_ZSTD};

static enum err_code
unpack(const struct packed *packed, uint8_t *dst)
{
    struct err err = {0};
    int rc = container_unpack(&packed->chunk, packed->stored, dst, NULL, &err);

    assert_int_equal(rc, err.code == ERR_NONE ? 0 : -1);
    return err.code;
}

static enum err_code
unpack_anywhere(const struct packed *packed)
{
    AUTO_FREE uint8_t *dst = mem_alloc(packed->chunk.size_bytes);
    enum err_code code = unpack(packed, dst);

    if (code == ERR_NONE)
        assert_memory_equal(dst, packed->plain, packed->chunk.size_bytes);
    return code;
}

static void
test_every_kind_of_bytes_comes_back_with_every_codec_and_block_size(void **state)
{
    static const size_t LENGTHS[] = {1, 63, 4095, 4096, 4097, 65535, 65537, 300001};

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        for (unsigned log2 = 12; log2 <= 16; log2++) {
            for (unsigned i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
                enum packed_data kind = (enum packed_data)(i % PACKED_DATA_COUNT);
                struct packed packed =
                    packed_of(packed_data(kind, LENGTHS[i]), LENGTHS[i], CODECS[c], log2);

                assert_int_equal(unpack_anywhere(&packed), ERR_NONE);
                packed_release(&packed);
            }
        }
    }
}

static void
test_every_level_unpacks_alike(void **state)
{
    enum { LEN = 20000 };

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        for (int level = 0; level <= CODEC_LZ4_LEVEL_MOST; level += 3) {
            uint8_t *plain = packed_data(PACKED_MIXED, LEN);
            struct packed packed = packed_of(plain, LEN, CODECS[c], 13);
            struct container_form form = {.codec = CODECS[c], .level = level, .block_log2 = 13};
            size_t stored;

            free(packed.stored);
            packed.stored = mem_alloc(container_pack_bound(LEN, 13));
            stored = container_pack(&form, &packed.chunk.id, plain, LEN, packed.stored);
            assert_true(stored > 0);
            packed.chunk.stored_bytes = (uint32_t)stored;
            assert_int_equal(unpack_anywhere(&packed), ERR_NONE);
            packed_release(&packed);
        }
    }
}

/* Three blocks: one that packs, one that does not, and a short one. */
static struct packed
small(enum chunk_codec codec)
{
    return packed_of(packed_data(PACKED_MIXED, 8192 + 100), 8192 + 100, codec, 12);
}

static void
test_every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct packed packed = small(CODECS[c]);
        uint8_t dst[8192 + 100];

        for (size_t bit = 0; bit < (size_t)packed.chunk.stored_bytes * 8; bit++) {
            enum err_code code;

            packed.stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
            code = unpack(&packed, dst);
            if (bit / 8 == 8) /* might be a version to come, and is not blamed on the disk */
                assert_int_equal(code, ERR_INTERNAL);
            else
                assert_int_equal(code, ERR_CORRUPT);
            packed.stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(unpack(&packed, dst), ERR_NONE);
        packed_release(&packed);
    }
}

/* Also when the row has the length that is left. */
static void
test_every_truncation_is_noticed(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct packed packed = small(CODECS[c]);
        uint8_t dst[8192 + 100];

        while (packed.chunk.stored_bytes-- > 0) {
            AUTO_FREE uint8_t *shorter = mem_alloc(packed.chunk.stored_bytes + 1);
            struct err err = {0};

            memcpy(shorter, packed.stored, packed.chunk.stored_bytes);
            assert_int_equal(container_unpack(&packed.chunk, shorter, dst, NULL, &err), -1);
            assert_int_equal(err.code, ERR_CORRUPT);
            if (packed.chunk.stored_bytes == 0)
                break;
        }
        packed_release(&packed);
    }
}

static void
test_a_container_of_another_chunk_is_refused(void **state)
{
    struct packed packed = small(CHUNK_LZ4);

    (void)state;
    packed.chunk.id.bytes[31] ^= 1;
    assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
    packed.chunk.id.bytes[31] ^= 1;
    packed.chunk.codec = CHUNK_ZSTD;
    assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
    packed.chunk.codec = CHUNK_LZ4;
    packed.chunk.size_bytes--;
    assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
    packed.chunk.size_bytes++;
    packed_release(&packed);
}

static void
test_an_unknown_version_or_codec_is_said_and_is_no_damage(void **state)
{
    struct packed packed = small(CHUNK_ZSTD);
    struct err err = {0};
    uint8_t dst[8192 + 100];

    (void)state;
    packed.stored[8] = 2;
    packed_seal(&packed);
    assert_int_equal(container_unpack(&packed.chunk, packed.stored, dst, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_non_null(strstr(err.msg, "version 2"));
    packed.stored[8] = 1;
    packed_seal(&packed);
    packed.chunk.codec = (enum chunk_codec)9;
    assert_int_equal(container_unpack(&packed.chunk, packed.stored, dst, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_non_null(strstr(err.msg, "codec 9"));
    packed_release(&packed);
}

/* A head whose check is right, made by somebody who means harm. */
static void
test_a_lying_index_is_refused(void **state)
{
    static const uint32_t LIES[] = {0, 1, 4097, 0x7fffffff, 0xfffffff0, 0xffffffff};

    (void)state;
    for (uint32_t block = 0; block < 3; block++) {
        for (unsigned i = 0; i < sizeof(LIES) / sizeof(LIES[0]); i++) {
            struct packed packed = small(CHUNK_LZ4);

            memcpy(packed.stored + 56 + (size_t)block * 8, &LIES[i], sizeof(LIES[i]));
            packed_seal(&packed);
            assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
            packed_release(&packed);
        }
    }
}

static void
test_lying_sizes_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } LIES[] = {{10, 11}, {10, 17}, {10, 255}, {10, 13}, {11, 1}, {20, 2}, {20, 4}, {23, 255}};

    (void)state;
    for (unsigned i = 0; i < sizeof(LIES) / sizeof(LIES[0]); i++) {
        struct packed packed = small(CHUNK_LZ4);

        packed.stored[LIES[i].at] = LIES[i].value;
        if (LIES[i].at != 23)
            packed_seal(&packed);
        assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
        packed_release(&packed);
    }
}

/* The check is that of bytes that no codec made. */
static void
test_a_block_that_does_not_unpack_is_refused(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct packed packed = small(CODECS[c]);
        uint8_t *block = packed.stored + container_head_bytes(3);
        uint32_t len, check;

        memcpy(&len, packed.stored + 56, sizeof(len));
        block[0] ^= 0xff;
        block[len - 1] ^= 0xff;
        check = container_head_block_check(block, len);
        memcpy(packed.stored + 60, &check, sizeof(check));
        packed_seal(&packed);
        assert_int_equal(unpack_anywhere(&packed), ERR_CORRUPT);
        packed_release(&packed);
    }
}

static size_t
pack_if_it_pays(enum chunk_codec codec, enum packed_data kind, size_t len, unsigned block_log2)
{
    struct container_form form = {.codec = codec, .block_log2 = block_log2};
    AUTO_FREE uint8_t *plain = packed_data(kind, len);
    AUTO_FREE uint8_t *stored = mem_alloc(container_pack_bound(len, block_log2));
    struct digest id = digest_of(plain, len);

    return container_pack(&form, &id, plain, len, stored);
}

static void
test_a_chunk_that_does_not_shrink_stays_raw(void **state)
{
    uint64_t by_samples = metric_value(METRIC_CHUNK_ENCODE_LZ4_SAMPLES);
    uint64_t by_size = metric_value(METRIC_CHUNK_ENCODE_LZ4_SIZE);
    uint64_t packed = metric_value(METRIC_CHUNK_ENCODE_LZ4_PACKED);

    (void)state;
    assert_int_equal(pack_if_it_pays(CHUNK_RAW, PACKED_ZERO, 300000, 14), 0);
    assert_int_equal(pack_if_it_pays(CHUNK_LZ4, PACKED_RANDOM, 300000, 14), 0);
    assert_int_equal(metric_value(METRIC_CHUNK_ENCODE_LZ4_SAMPLES) - by_samples, 1);
    assert_int_equal(pack_if_it_pays(CHUNK_LZ4, PACKED_RANDOM, 9000, 14), 0);
    assert_int_equal(pack_if_it_pays(CHUNK_LZ4, PACKED_ZERO, 60, 14),
                     0); /* the head alone is more */
    assert_int_equal(metric_value(METRIC_CHUNK_ENCODE_LZ4_SIZE) - by_size, 2);
    assert_true(pack_if_it_pays(CHUNK_LZ4, PACKED_MIXED, 300000, 14) > 0);
    assert_int_equal(metric_value(METRIC_CHUNK_ENCODE_LZ4_PACKED) - packed, 1);
}

/* The line between raw and packed is one sixteenth of the whole, head included. */
static void
test_a_container_is_a_sixteenth_smaller_at_least(void **state)
{
    enum { LEN = 64 * 1024 };
    AUTO_FREE uint8_t *plain = packed_data(PACKED_RANDOM, LEN);
    AUTO_FREE uint8_t *stored = mem_alloc(container_pack_bound(LEN, 12));
    struct container_form form = {.codec = CHUNK_LZ4, .block_log2 = 12};
    bool was_raw = false, was_packed = false;

    (void)state;
    for (size_t zeroes = 0; zeroes < LEN / 8; zeroes += 512) {
        struct digest id = digest_of(plain, LEN);
        size_t size = container_pack(&form, &id, plain, LEN, stored);

        assert_true(size <= LEN - LEN / 16);
        was_raw = was_raw || size == 0;
        was_packed = was_packed || size > 0;
        memset(plain + zeroes, 0, 512);
    }
    assert_true(was_raw && was_packed);
}

/*
 * Sizes by kind of bytes, against those of a format with a checksum behind each block and no way
 * to leave one unpacked: never more than one per cent above them, and within one per cent of the
 * plain size.
 */
static void
test_ratios_are_what_they_should_be(void **state)
{
    enum { LEN = 2 << 20 };
    static const double EXPECTED[PACKED_DATA_COUNT][4] = {
        /* LZ4 with 4 and 64 KiB, Zstandard with 4 and 64 KiB */
        [PACKED_RANDOM] = {1.0064, 1.0041, 1.0045, 1.0003},
        [PACKED_TILE] = {0.0240, 0.0052, 0.0225, 0.0015},
        [PACKED_MIXED] = {0.5152, 0.5056, 0.5135, 0.5031},
        [PACKED_ZERO] = {0.0084, 0.0043, 0.0067, 0.0005},
        [PACKED_ZERO_RANDOM] = {0.3412, 0.3384, 0.3394, 0.3352},
    };

    (void)state;
    for (unsigned kind = 0; kind < PACKED_DATA_COUNT; kind++) {
        for (unsigned i = 0; i < 4; i++) {
            size_t stored =
                pack_if_it_pays(CODECS[i / 2], (enum packed_data)kind, LEN, i % 2 == 0 ? 12 : 16);
            double ratio = stored > 0 ? (double)stored / LEN : 1;
            double expected = EXPECTED[kind][i];

            if (ratio > expected * 1.01 + 0.00005 || ratio < expected - 0.01)
                fail_msg("kind %u, column %u: %f instead of %f", kind, i, ratio, expected);
        }
    }
}

static void
test_unpacking_a_whole_chunk_is_counted_once(void **state)
{
    struct packed packed = small(CHUNK_LZ4);
    struct container_tally tally;
    uint8_t dst[8192 + 100];
    struct err err = {0};

    (void)state;
    container_tally_begin(&tally, container_thread_own(), 1);
    packed.stored[packed.chunk.stored_bytes - 1] ^= 1;
    assert_int_equal(container_unpack(&packed.chunk, packed.stored, dst, &tally, &err), -1);
    assert_int_equal(tally.blocks, 3);
    assert_int_equal(tally.output_bytes, 0);
    packed.stored[packed.chunk.stored_bytes - 1] ^= 1;
    assert_int_equal(container_unpack(&packed.chunk, packed.stored, dst, &tally, &err), 0);
    assert_int_equal(tally.blocks, 3);
    assert_int_equal(tally.output_bytes, sizeof(dst));
    assert_true(tally.decode_ns > 0);
    packed_release(&packed);
}

/* The bytes of the first block of code behind the mark, without offsets and comments. */
static size_t
example_bytes(uint8_t *dst, size_t cap)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    size_t len = 0;
    char *line, *rest;

    buf_init(&text, 1 << 20);
    assert_int_equal(fs_read_file("docs/blob-format.md", 1 << 20, &text, &err), 0);
    rest = strstr(text.data, "<!-- example -->");
    assert_non_null(rest);
    rest = strchr(rest, '\n') + 1;
    while ((line = strsep(&rest, "\n")) != NULL && line[0] != '<') {
        char *digits = strchr(line, ':');
        int skip;
        unsigned value;

        if (strncmp(line, "    ", 4) != 0 || digits == NULL)
            continue;
        assert_int_equal(strtoul(line, NULL, 16), len); /* the offset it says */
        for (digits++; sscanf(digits, " %2x%n", &value, &skip) == 1 && skip >= 3; digits += skip) {
            assert_true(len < cap);
            dst[len++] = (uint8_t)value;
            if (digits[skip] == ' ' && digits[skip + 1] == ' ')
                break;
        }
    }
    return len;
}

static void
test_the_example_of_the_document_is_a_container(void **state)
{
    static const char LINE[] = "The quick brown fox jumps over the lazy dog.\n";
    char plain[sizeof(LINE) * 10] = "";
    char got[sizeof(plain)];
    uint8_t stored[1024];
    size_t len = example_bytes(stored, sizeof(stored));
    struct stored_chunk chunk = {.stored_bytes = (uint32_t)len, .codec = CHUNK_LZ4};
    struct err err = {0};

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        memcpy(plain + i * (sizeof(LINE) - 1), LINE, sizeof(LINE) - 1);
    chunk.size_bytes = (uint32_t)(10 * (sizeof(LINE) - 1));
    chunk.id = digest_of(plain, chunk.size_bytes);
    if (container_unpack(&chunk, stored, got, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_memory_equal(got, plain, chunk.size_bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_bytes_comes_back_with_every_codec_and_block_size),
        cmocka_unit_test(test_every_level_unpacks_alike),
        cmocka_unit_test(test_every_flipped_bit_is_noticed),
        cmocka_unit_test(test_every_truncation_is_noticed),
        cmocka_unit_test(test_a_container_of_another_chunk_is_refused),
        cmocka_unit_test(test_an_unknown_version_or_codec_is_said_and_is_no_damage),
        cmocka_unit_test(test_a_lying_index_is_refused),
        cmocka_unit_test(test_lying_sizes_are_refused),
        cmocka_unit_test(test_a_block_that_does_not_unpack_is_refused),
        cmocka_unit_test(test_a_chunk_that_does_not_shrink_stays_raw),
        cmocka_unit_test(test_a_container_is_a_sixteenth_smaller_at_least),
        cmocka_unit_test(test_ratios_are_what_they_should_be),
        cmocka_unit_test(test_unpacking_a_whole_chunk_is_counted_once),
        cmocka_unit_test(test_the_example_of_the_document_is_a_container),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
