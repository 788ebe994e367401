#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/container/container.h"
#include "storage/container/container_head.h"
#include "storage/container/container_thread.h"
#include "support/packed.h"

enum { PLAIN_BYTES = 300001, PAGE = 4096, THREADS = 16 };

static const enum chunk_codec CODECS[] = {CHUNK_LZ4, CHUNK_ZSTD};

struct fixture {
    struct packed packed;
    struct packed_source *source; /* of the handle */
    struct container *container;
};

static struct fixture
open_tuned(enum packed_data kind, enum chunk_codec codec, unsigned block_log2,
           const struct container_tuning *tuning)
{
    struct fixture fix = {
        .packed = packed_of(packed_data(kind, PLAIN_BYTES), PLAIN_BYTES, codec, block_log2),
    };
    struct packed *packed = mem_alloc(sizeof(*packed)); /* the source keeps the address */
    struct err err = {0};

    *packed = fix.packed;
    fix.source = packed_source_new(packed);
    assert_int_equal(
        container_open(&fix.source->base, &packed->chunk, tuning, &fix.container, &err), 0);
    fix.source->calls = 0;
    fix.source->asked_bytes = 0;
    return fix;
}

static struct fixture
open_packed(enum packed_data kind, enum chunk_codec codec, unsigned block_log2)
{
    return open_tuned(kind, codec, block_log2, &container_tuning_default);
}

static void
close_packed(struct fixture *fix)
{
    struct packed *packed = (struct packed *)fix->source->packed;

    container_unref(fix->container);
    packed_release(packed);
    free(packed);
}

static enum err_code
read_range(struct fixture *fix, uint64_t off, size_t len)
{
    AUTO_FREE uint8_t *dst =
        mem_alloc(len + 1); /* of its own, so that a byte too many is noticed */
    struct err err = {0};
    int rc = container_read(fix->container, off, dst, len, &err);

    assert_int_equal(rc, err.code == ERR_NONE ? 0 : -1);
    if (rc == 0)
        assert_memory_equal(dst, fix->packed.plain + off, len);
    return err.code;
}

static void
test_any_range_is_that_of_the_plain_bytes(void **state)
{
    uint32_t random = 12345;

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        for (unsigned log2 = 12; log2 <= 16; log2++) {
            struct fixture fix = open_packed(PACKED_MIXED, CODECS[c], log2);

            assert_int_equal(read_range(&fix, 0, PLAIN_BYTES), ERR_NONE);
            assert_int_equal(read_range(&fix, PLAIN_BYTES - 1, 1), ERR_NONE);
            for (unsigned i = 0; i < 300; i++) {
                uint64_t off, len;

                random = random * 1664525 + 1013904223;
                off = (random >> 4) % PLAIN_BYTES;
                random = random * 1664525 + 1013904223;
                len = (random >> 4) % (i % 2 == 0 ? 5000 : 150000);
                len = len < PLAIN_BYTES - off ? len : PLAIN_BYTES - off;
                assert_int_equal(read_range(&fix, off, len), ERR_NONE);
            }
            close_packed(&fix);
        }
    }
}

static void
test_a_range_outside_of_the_chunk_is_refused_and_an_empty_one_asks_nobody(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_LZ4, 12);

    (void)state;
    assert_int_equal(read_range(&fix, 0, PLAIN_BYTES + 1), ERR_INVALID);
    assert_int_equal(read_range(&fix, PLAIN_BYTES + 1, 0), ERR_INVALID);
    assert_int_equal(read_range(&fix, UINT64_MAX, 2), ERR_INVALID);
    assert_int_equal(read_range(&fix, PLAIN_BYTES, 0), ERR_NONE);
    assert_int_equal(fix.source->calls, 0);
    close_packed(&fix);
}

/* Random bytes are stored as they are: 16 blocks of 4 KiB are exactly a batch. */
static void
test_neighbours_are_asked_for_together_and_no_byte_twice(void **state)
{
    struct fixture fix = open_packed(PACKED_RANDOM, CHUNK_LZ4, 12);
    uint64_t head_bytes = fix.packed.chunk.stored_bytes - PLAIN_BYTES;

    (void)state;
    assert_int_equal(read_range(&fix, 100, (size_t)40 * PAGE), ERR_NONE); /* 41 blocks */
    assert_int_equal(fix.source->calls, 3);
    assert_int_equal(fix.source->asked_bytes, 41 * PAGE);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fix.source->log[i].off, head_bytes + (uint64_t)i * 16 * PAGE);
        assert_int_equal(fix.source->log[i].len, (i < 2 ? 16 : 9) * PAGE);
    }
    close_packed(&fix);
}

static void
test_a_range_costs_the_blocks_it_covers(void **state)
{
    struct fixture fix = open_packed(PACKED_RANDOM, CHUNK_LZ4, 16);

    (void)state;
    assert_int_equal(read_range(&fix, 70000, 10), ERR_NONE);
    assert_int_equal(fix.source->asked_bytes, 65536);
    assert_int_equal(read_range(&fix, PLAIN_BYTES - 3, 3), ERR_NONE);
    assert_int_equal(fix.source->asked_bytes, 65536 + PLAIN_BYTES % 65536);
    close_packed(&fix);
}

static void
test_well_packed_blocks_all_come_at_once(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_LZ4, 12);

    (void)state;
    assert_int_equal(read_range(&fix, 0, PLAIN_BYTES), ERR_NONE);
    assert_int_equal(fix.source->calls, 1);
    close_packed(&fix);
}

static void
test_without_batches_each_block_is_asked_for(void **state)
{
    struct container_tuning tuning = container_tuning_default;
    struct fixture fix;

    (void)state;
    tuning.batch_bytes = 0;
    fix = open_tuned(PACKED_TILE, CHUNK_ZSTD, 12, &tuning);
    assert_int_equal(read_range(&fix, 0, (size_t)10 * PAGE), ERR_NONE);
    assert_int_equal(fix.source->calls, 10);
    close_packed(&fix);
    tuning.batch_bytes = 256 << 10;
    tuning.is_unpooled = true;
    fix = open_tuned(PACKED_RANDOM, CHUNK_ZSTD, 12, &tuning);
    assert_int_equal(read_range(&fix, 0, (size_t)64 * PAGE), ERR_NONE);
    assert_int_equal(fix.source->calls, 1);
    close_packed(&fix);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void
test_a_bad_copy_in_memory_is_read_again_alone(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct fixture fix = open_packed(PACKED_RANDOM, CODECS[c], 12);
        uint64_t head_bytes = fix.packed.chunk.stored_bytes - PLAIN_BYTES;

        fix.source->bad_off = head_bytes + 5 * PAGE + 17;
        fix.source->bad_forgets = CONTAINER_RETRIES;
        assert_int_equal(read_range(&fix, 0, (size_t)16 * PAGE), ERR_NONE);
        assert_int_equal(fix.source->calls, 1 + CONTAINER_RETRIES);
        assert_int_equal(fix.source->forgets, CONTAINER_RETRIES);
        for (unsigned i = 1; i <= CONTAINER_RETRIES; i++) {
            assert_int_equal(fix.source->log[i].off, head_bytes + 5 * PAGE);
            assert_int_equal(fix.source->log[i].len, PAGE);
        }
        close_packed(&fix);
    }
}

static void
test_damage_that_stays_is_an_error_with_the_name_of_the_chunk(void **state)
{
    struct fixture fix = open_packed(PACKED_MIXED, CHUNK_LZ4, 12);
    char hex[DIGEST_HEX_SIZE];
    uint8_t dst[PAGE];
    struct err err = {0};

    (void)state;
    fix.source->bad_off = fix.packed.chunk.stored_bytes - 1;
    fix.source->bad_forgets = CONTAINER_RETRIES + 1;
    assert_int_equal(container_read(fix.container, PLAIN_BYTES - 1, dst, 1, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    digest_hex(hex, &fix.packed.chunk.id);
    assert_non_null(strstr(err.msg, hex));
    assert_int_equal(fix.source->calls, 1 + CONTAINER_RETRIES);
    assert_int_equal(read_range(&fix, 0, PAGE), ERR_NONE); /* the others are good */
    close_packed(&fix);
}

static void
test_failing_reads_and_bad_bytes_have_one_budget(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_LZ4, 12);

    (void)state;
    fix.source->fail_code = ERR_IO;
    fix.source->fail_count = 2; /* the batch, and once more */
    fix.source->bad_off = fix.packed.chunk.stored_bytes - 1;
    fix.source->bad_forgets = 3;
    assert_int_equal(read_range(&fix, PLAIN_BYTES - 1, 1), ERR_NONE);
    assert_int_equal(fix.source->calls, 4);
    fix.source->fail_count = 2;
    fix.source->bad_forgets = 4;
    assert_int_equal(read_range(&fix, PLAIN_BYTES - 1, 1), ERR_CORRUPT);
    fix.source->bad_forgets = 0;
    fix.source->fail_count = 4;
    assert_int_equal(read_range(&fix, PLAIN_BYTES - 1, 1), ERR_IO);
    assert_int_equal(fix.source->fail_count, 0);
    close_packed(&fix);
}

static void
test_what_no_retry_can_mend_is_passed_on_at_once(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_LZ4, 12);

    (void)state;
    fix.source->fail_code = ERR_NOT_FOUND;
    fix.source->fail_count = 1;
    assert_int_equal(read_range(&fix, 0, 1), ERR_NOT_FOUND);
    assert_int_equal(fix.source->calls, 1);
    assert_int_equal(fix.source->forgets, 0);
    close_packed(&fix);
}

/* The check is right, the bytes are none of the codec's: asked for again all the same. */
static void
test_a_block_that_does_not_unpack_is_read_again_too(void **state)
{
    uint64_t before = metric_value(METRIC_CHUNK_READ_RETRIES_ZSTD_DECODE);
    struct container_tuning tuning = container_tuning_default;
    struct fixture fix;

    (void)state;
    tuning.is_unchecked = true; /* so that only the codec can notice */
    fix = open_tuned(PACKED_TILE, CHUNK_ZSTD, 16, &tuning);
    fix.source->bad_off = container_head_bytes(5); /* the magic of the first frame */
    fix.source->bad_forgets = 2;
    assert_int_equal(read_range(&fix, 0, 1), ERR_NONE);
    assert_int_equal(metric_value(METRIC_CHUNK_READ_RETRIES_ZSTD_DECODE) - before, 2);
    close_packed(&fix);
}

static void
test_a_bad_head_is_read_again_and_then_refused(void **state)
{
    struct packed packed = packed_of(packed_data(PACKED_TILE, 9000), 9000, CHUNK_LZ4, 12);
    uint64_t before = metric_value(METRIC_CHUNK_REREADS);

    (void)state;
    for (unsigned bad = CONTAINER_RETRIES; bad <= CONTAINER_RETRIES + 1; bad++) {
        struct packed_source *source = packed_source_new(&packed);
        struct container *container = NULL;
        struct err err = {0};

        source->bad_off = 60;
        source->bad_forgets = bad;
        if (container_open(&source->base, &packed.chunk, &container_tuning_default, &container,
                           &err) == 0)
            container_unref(container);
        assert_int_equal(err.code, bad == CONTAINER_RETRIES ? ERR_NONE : ERR_CORRUPT);
    }
    assert_int_equal(metric_value(METRIC_CHUNK_REREADS) - before, 2 * CONTAINER_RETRIES);
    packed_release(&packed);
}

/* Every byte of the file damaged in turn: refused when it is opened or when it is read, never
 * taken for good. */
static void
test_no_damaged_byte_gets_through_a_handle(void **state)
{
    struct packed packed =
        packed_of(packed_data(PACKED_MIXED, 8192 + 100), 8192 + 100, CHUNK_ZSTD, 12);

    (void)state;
    for (uint64_t at = 0; at < packed.chunk.stored_bytes; at++) {
        struct packed_source *source = packed_source_new(&packed);
        struct container *container;
        uint8_t dst[8192 + 100];
        struct err err = {0};

        source->bad_off = at;
        source->bad_forgets = 100;
        if (container_open(&source->base, &packed.chunk, &container_tuning_default, &container,
                           &err) == 0) {
            assert_int_equal(container_read(container, 0, dst, sizeof(dst), &err), -1);
            container_unref(container);
        }
        assert_int_equal(err.code, at == 8 ? ERR_INTERNAL : ERR_CORRUPT);
    }
    packed_release(&packed);
}

/* ---- counters ------------------------------------------------------------------------------- */

struct counted {
    uint64_t output, stored, blocks, batches, checks;
};

static struct counted
counted_now(void)
{
    return (struct counted){
        .output = metric_value(METRIC_CHUNK_READ_OUTPUT_BYTES_LZ4),
        .stored = metric_value(METRIC_CHUNK_READ_STORED_BYTES_LZ4),
        .blocks = metric_value(METRIC_CHUNK_READ_BLOCKS_LZ4),
        .batches = metric_value(METRIC_CHUNK_READ_BATCHES_LZ4),
        .checks = metric_value(METRIC_CHUNK_READ_RETRIES_LZ4_CHECK),
    };
}

static void
test_a_read_is_counted_exactly_whether_it_succeeds_or_not(void **state)
{
    struct fixture fix = open_packed(PACKED_RANDOM, CHUNK_LZ4, 12);
    struct counted before = counted_now(), after;

    (void)state;
    assert_int_equal(read_range(&fix, 10, (size_t)20 * PAGE), ERR_NONE); /* 21 blocks */
    after = counted_now();
    assert_int_equal(after.output - before.output, 20 * PAGE);
    assert_int_equal(after.stored - before.stored, 21 * PAGE);
    assert_int_equal(after.blocks - before.blocks, 21);
    assert_int_equal(after.batches - before.batches, 2);
    assert_int_equal(after.checks - before.checks, 0);
    before = after;
    fix.source->bad_off = fix.packed.chunk.stored_bytes - PLAIN_BYTES;
    fix.source->bad_forgets = 100;
    assert_int_equal(read_range(&fix, 0, (size_t)2 * PAGE), ERR_CORRUPT);
    after = counted_now();
    assert_int_equal(after.output - before.output, 0);
    assert_int_equal(after.stored - before.stored, (2 + CONTAINER_RETRIES) * PAGE);
    assert_int_equal(after.blocks - before.blocks, 2);
    assert_int_equal(after.batches - before.batches, 1 + CONTAINER_RETRIES);
    assert_int_equal(after.checks - before.checks, CONTAINER_RETRIES);
    close_packed(&fix);
}

static uint64_t
sample_count(void)
{
    AUTO_BUF struct buf out = {0};
    const char *line;

    buf_init(&out, 1 << 20);
    metrics_render(&out);
    line = strstr(out.data,
                  "oxicloud_chunk_read_duration_seconds_count{codec=\"zstd\",status=\"ok\"}");
    assert_non_null(line);
    return strtoull(strchr(line, ' '), NULL, 10);
}

static void
test_one_read_in_1024_is_timed(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_ZSTD, 12);
    uint64_t before = sample_count();
    uint8_t dst[16];
    struct err err = {0};

    (void)state;
    for (unsigned i = 0; i < 3 * 1024; i++)
        assert_int_equal(container_read(fix.container, 0, dst, sizeof(dst), &err), 0);
    assert_int_equal(sample_count() - before, 3);
    close_packed(&fix);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct crew {
    struct container *container;
    const uint8_t *plain;
    unsigned reads; /* of each thread */
    unsigned first; /* page of the next thread */
    bool is_wrong;  /* under lock */
    pthread_mutex_t lock;
};

static void *
read_pages(void *arg)
{
    struct crew *crew = arg;
    uint8_t page[PAGE];
    unsigned at;

    pthread_mutex_lock(&crew->lock);
    at = crew->first++;
    pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i < crew->reads; i++) {
        uint64_t off = (uint64_t)((at + i * 7) % (PLAIN_BYTES / PAGE)) * PAGE;
        struct err err = {0};

        if (container_read(crew->container, off, page, PAGE, &err) < 0 ||
            memcmp(page, crew->plain + off, PAGE) != 0) {
            pthread_mutex_lock(&crew->lock);
            crew->is_wrong = true;
            pthread_mutex_unlock(&crew->lock);
        }
    }
    return NULL;
}

/* Microseconds. */
static int64_t
run_crew(struct fixture *fix, unsigned thread_count, unsigned reads)
{
    struct crew crew = {
        .container = fix->container,
        .plain = fix->packed.plain,
        .reads = reads,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    pthread_t threads[THREADS];
    int64_t start_us = clock_mono_us();

    for (unsigned i = 0; i < thread_count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_pages, &crew), 0);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    assert_false(crew.is_wrong);
    pthread_mutex_destroy(&crew.lock);
    return clock_mono_us() - start_us;
}

/* No read is answered before all threads are in the source: a lock on the way would be seen. */
static void
test_sixteen_threads_are_in_the_source_at_once(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct fixture fix = open_packed(PACKED_MIXED, CODECS[c], 12);

        fix.source->meet_count = THREADS;
        (void)run_crew(&fix, THREADS, 1);
        assert_int_equal(fix.source->in_flight_most, THREADS);
        close_packed(&fix);
    }
}

/* One after the other they would take 16 times as long; the machine may be busy, so the best of a
 * few counts. */
static void
test_sixteen_threads_wait_together_for_a_slow_source(void **state)
{
    struct fixture fix = open_packed(PACKED_TILE, CHUNK_LZ4, 12);
    double best = THREADS;

    (void)state;
    fix.source->delay_us = 100;
    for (unsigned i = 0; i < 8 && best > 3; i++) {
        int64_t one_us = run_crew(&fix, 1, 200);
        double ratio = (double)run_crew(&fix, THREADS, 200) / (double)one_us;

        best = ratio < best ? ratio : best;
    }
    assert_true(best < (double)THREADS / 2);
    close_packed(&fix);
}

static void
test_a_thread_keeps_four_buffers_at_most(void **state)
{
    struct container_thread *thread = container_thread_own();
    uint8_t *taken[CONTAINER_BUFFERS_KEPT + 2];

    (void)state;
    for (unsigned i = 0; i < CONTAINER_BUFFERS_KEPT + 2; i++)
        taken[i] = container_thread_take(thread, CONTAINER_BUFFER_BYTES);
    for (unsigned i = 0; i < CONTAINER_BUFFERS_KEPT + 2; i++)
        container_thread_give(thread, taken[i], CONTAINER_BUFFER_BYTES);
    assert_int_equal(thread->buffer_count, CONTAINER_BUFFERS_KEPT);
    container_thread_give(thread, NULL, CONTAINER_BUFFER_BYTES);
    taken[0] = container_thread_take(thread, CONTAINER_BUFFER_BYTES + 1);
    container_thread_give(thread, taken[0], CONTAINER_BUFFER_BYTES + 1);
    assert_int_equal(thread->buffer_count, CONTAINER_BUFFERS_KEPT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_range_is_that_of_the_plain_bytes),
        cmocka_unit_test(test_a_range_outside_of_the_chunk_is_refused_and_an_empty_one_asks_nobody),
        cmocka_unit_test(test_neighbours_are_asked_for_together_and_no_byte_twice),
        cmocka_unit_test(test_a_range_costs_the_blocks_it_covers),
        cmocka_unit_test(test_well_packed_blocks_all_come_at_once),
        cmocka_unit_test(test_without_batches_each_block_is_asked_for),
        cmocka_unit_test(test_a_bad_copy_in_memory_is_read_again_alone),
        cmocka_unit_test(test_damage_that_stays_is_an_error_with_the_name_of_the_chunk),
        cmocka_unit_test(test_failing_reads_and_bad_bytes_have_one_budget),
        cmocka_unit_test(test_what_no_retry_can_mend_is_passed_on_at_once),
        cmocka_unit_test(test_a_block_that_does_not_unpack_is_read_again_too),
        cmocka_unit_test(test_a_bad_head_is_read_again_and_then_refused),
        cmocka_unit_test(test_no_damaged_byte_gets_through_a_handle),
        cmocka_unit_test(test_a_read_is_counted_exactly_whether_it_succeeds_or_not),
        cmocka_unit_test(test_one_read_in_1024_is_timed),
        cmocka_unit_test(test_sixteen_threads_are_in_the_source_at_once),
        cmocka_unit_test(test_sixteen_threads_wait_together_for_a_slow_source),
        cmocka_unit_test(test_a_thread_keeps_four_buffers_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
