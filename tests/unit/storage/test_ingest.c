#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/content_reader.h"
#include "storage/dedup.h"
#include "support/mem_store.h"

enum { NOISE_BYTES = 20 << 20, PIECE_BYTES = 50000, THREADS = 4, QUEUE = 64 };

static uint8_t *noise; /* 20 MiB: three batches */

static int
push_all(struct ingest *ingest, const uint8_t *data, size_t len, size_t piece, struct err *err)
{
    for (size_t off = 0; off < len; off += piece) {
        if (ingest_push(ingest, data + off, len - off < piece ? len - off : piece, err) < 0)
            return -1;
    }
    return 0;
}

/* What any way of pushing the data must come to. */
static struct digest
expected_id(const uint8_t *data, size_t len, size_t *ret_chunk_count)
{
    AUTO_FREE uint8_t *packed = mem_array(len / 4096 + 2, MANIFEST_RECORD_BYTES);
    struct chunker chunker;
    size_t off = 0, size, count = 0;

    chunker_init(&chunker, &chunker_store_sizes);
    while ((size = chunker_cut(&chunker, data + off, len - off, true, NULL)) > 0) {
        struct digest id = digest_of(data + off, size);

        manifest_pack(packed + count++ * MANIFEST_RECORD_BYTES, &id, (uint32_t)size);
        off += size;
    }
    *ret_chunk_count = count;
    return digest_of(packed, count * MANIFEST_RECORD_BYTES);
}

static void
finish_and_keep(struct mem_store *mem, struct ingest *ingest, struct digest *ret_id)
{
    const struct ingest_content *content;
    AUTO_FREE size_t *losers = NULL;
    size_t loser_count;
    struct err err = {0};

    if (ingest_finish(ingest, &content, &err) < 0)
        fail_msg("%s", err.msg);
    losers = mem_array(content->written_count + 1, sizeof(*losers));
    if (mem_index_register(mem->index, content, losers, &loser_count, &err) < 0)
        fail_msg("%s", err.msg);
    *ret_id = content->content_id;
    ingest_keep(ingest, losers, loser_count);
    ingest_free(ingest);
}

static void
assert_stored(struct mem_store *mem, const struct digest *id, const uint8_t *data, size_t len)
{
    AUTO_FREE uint8_t *back = mem_alloc(len + 1);
    struct content_reader *reader;
    struct err err = {0};
    size_t off = 0, got;

    if (content_reader_open(&mem->store, id, (struct byte_range){0, len}, &reader, &err) < 0)
        fail_msg("%s", err.msg);
    do {
        if (content_reader_read(reader, back + off, len + 1 - off, &got, &err) < 0)
            fail_msg("%s", err.msg);
        off += got;
    } while (got > 0);
    content_reader_free(reader);
    assert_int_equal(off, len);
    assert_true(len == 0 || memcmp(back, data, len) == 0);
}

static void
test_any_pushing_gives_the_same_content(void **state)
{
    static const struct {
        size_t len, piece;
        uint64_t expected_bytes;
    } cases[] = {
        {0, 1, 0},
        {0, 1, UINT64_MAX},
        {1, 1, 1},
        {4096, 4096, 4096},
        {65537, 7, UINT64_MAX},
        {NOISE_BYTES, NOISE_BYTES, NOISE_BYTES},
        {NOISE_BYTES, PIECE_BYTES, UINT64_MAX},
        {NOISE_BYTES - 1, 65536, 4096},  /* more than was announced */
        {3000001, 4096, UINT64_MAX - 1}, /* absurdly less */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mem_store *mem = mem_store_new(THREADS, QUEUE);
        struct ingest *ingest = ingest_new(&mem->store, cases[i].expected_bytes);
        struct err err = {0};
        struct digest id, expected;
        size_t chunk_count;

        expected = expected_id(noise, cases[i].len, &chunk_count);
        assert_int_equal(push_all(ingest, noise, cases[i].len, cases[i].piece, &err), 0);
        finish_and_keep(mem, ingest, &id);
        assert_true(digest_eq(&id, &expected));
        assert_int_equal(mem_backend_count(mem->backend), chunk_count);
        if (mem->store.form.codec == CHUNK_RAW)
            assert_int_equal(mem_backend_bytes(mem->backend), cases[i].len);
        assert_stored(mem, &id, noise, cases[i].len);
        mem_store_free(mem);
    }
}

static void
test_what_finish_hands_out_is_durable_sorted_and_complete(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *ingest = ingest_new(&mem->store, UINT64_MAX);
    const struct ingest_content *content;
    struct err err = {0};

    (void)state;
    assert_int_equal(push_all(ingest, noise, NOISE_BYTES, PIECE_BYTES, &err), 0);
    assert_int_equal(ingest_finish(ingest, &content, &err), 0);
    assert_int_equal(mem_backend_unsynced_count(mem->backend), 0);
    assert_int_equal(content->size_bytes, NOISE_BYTES);
    assert_int_equal(content->distinct_count, content->chunk_count);
    assert_int_equal(content->written_count, content->chunk_count);
    for (size_t i = 0; i < content->written_count; i++) {
        assert_true(digest_eq(&content->written[i].id, &content->distinct_ids[i]));
        assert_int_equal(content->written[i].codec, mem->store.form.codec);
        if (content->written[i].codec == CHUNK_RAW)
            assert_int_equal(content->written[i].stored_bytes, content->written[i].size_bytes);
        if (i > 0)
            assert_true(digest_cmp(&content->distinct_ids[i - 1], &content->distinct_ids[i]) < 0);
    }
    ingest_free(ingest);
    assert_int_equal(mem_backend_count(mem->backend), 0); /* never registered */
    mem_store_free(mem);
}

static void
test_a_duplicate_writes_nothing(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest first = mem_store_add(mem, noise, NOISE_BYTES), second;
    unsigned puts = mem_backend_calls(mem->backend, MEM_PUT);
    unsigned syncs = mem_backend_calls(mem->backend, MEM_SYNC);

    (void)state;
    second = mem_store_add(mem, noise, NOISE_BYTES);
    assert_true(digest_eq(&first, &second));
    assert_int_equal(mem_backend_calls(mem->backend, MEM_PUT), puts);
    assert_int_equal(mem_backend_calls(mem->backend, MEM_SYNC), syncs);
    mem_store_free(mem);
}

static void
test_one_changed_byte_writes_few_chunks(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    AUTO_FREE uint8_t *changed = mem_alloc(NOISE_BYTES);
    struct digest id;
    size_t before;

    (void)state;
    mem_store_add(mem, noise, NOISE_BYTES);
    before = mem_backend_count(mem->backend);
    memcpy(changed, noise, NOISE_BYTES);
    changed[NOISE_BYTES / 2] ^= 1;
    id = mem_store_add(mem, changed, NOISE_BYTES);
    assert_in_range(mem_backend_count(mem->backend) - before, 1, 3);
    assert_stored(mem, &id, changed, NOISE_BYTES);
    mem_store_free(mem);
}

static void
test_repeated_chunks_are_written_once(void **state)
{
    enum { ZERO_BYTES = 50 << 20 };
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    AUTO_FREE uint8_t *zeros = mem_zalloc(ZERO_BYTES);
    struct digest id = mem_store_add(mem, zeros, ZERO_BYTES);

    (void)state;
    assert_int_equal(mem_backend_count(mem->backend), 1);
    assert_int_equal(mem_index_chunk_count(mem->index), 1);
    assert_stored(mem, &id, zeros, ZERO_BYTES);
    mem_store_free(mem);
}

/* The failure may come at any later step; it comes, and nothing stays. */
static void
expect_failure(struct mem_store *mem, enum err_code code)
{
    struct ingest *ingest = ingest_new(&mem->store, UINT64_MAX);
    const struct ingest_content *content;
    struct err err = {0};

    if (push_all(ingest, noise, NOISE_BYTES, PIECE_BYTES, &err) == 0)
        assert_int_equal(ingest_finish(ingest, &content, &err), -1);
    assert_int_equal(err.code, code);
    ingest_free(ingest);
    assert_int_equal(mem_backend_count(mem->backend), 0);
}

static void
test_a_put_that_fails_leaves_nothing(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    unsigned puts;

    (void)state;
    mem_store_add(mem, noise, NOISE_BYTES);
    puts = mem_backend_calls(mem->backend, MEM_PUT);
    mem_store_free(mem);
    for (unsigned nth = 1; nth <= puts; nth += nth < 3 ? 1 : 13) {
        mem = mem_store_new(THREADS, QUEUE);
        mem_backend_fail(mem->backend, MEM_PUT, nth, 1, ERR_QUOTA);
        expect_failure(mem, ERR_QUOTA);
        mem_store_free(mem);
    }
}

static void
test_a_sync_that_fails_leaves_nothing(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);

    (void)state;
    mem_backend_fail(mem->backend, MEM_SYNC, 1, 1, ERR_IO);
    expect_failure(mem, ERR_IO);
    mem_store_free(mem);
}

static void
test_an_index_that_fails_leaves_nothing(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct mem_store *mem = mem_store_new(THREADS, QUEUE);

        mem_index_fail(mem->index, MEM_LEASE, nth, 1, ERR_UNAVAILABLE);
        expect_failure(mem, ERR_UNAVAILABLE);
        mem_store_free(mem);
    }
}

static void
test_a_failed_ingest_stays_failed(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *ingest = ingest_new(&mem->store, UINT64_MAX);
    const struct ingest_content *content;
    struct err err = {0};

    (void)state;
    mem_backend_fail(mem->backend, MEM_PUT, 1, 1, ERR_QUOTA);
    assert_int_equal(push_all(ingest, noise, NOISE_BYTES, PIECE_BYTES, &err), -1);
    for (unsigned i = 0; i < 3; i++) {
        (void)push_all(ingest, noise, NOISE_BYTES, PIECE_BYTES, &err);
        err.code = ERR_NONE;
        assert_int_equal(ingest_finish(ingest, &content, &err), -1);
        assert_int_equal(err.code, ERR_QUOTA);
    }
    ingest_free(ingest);
    mem_store_free(mem);
}

static void
test_a_client_that_vanishes_leaves_nothing(void **state)
{
    static const size_t lens[] = {0, 1, 100000, 2 << 20, 9 << 20, 17 << 20, NOISE_BYTES};
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    uint64_t failed = metric_value(METRIC_INGEST_FAILED);

    (void)state;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct ingest *ingest = ingest_new(&mem->store, NOISE_BYTES);
        struct err err = {0};

        assert_int_equal(push_all(ingest, noise, lens[i], PIECE_BYTES, &err), 0);
        ingest_free(ingest);
        assert_int_equal(mem_backend_count(mem->backend), 0);
    }
    assert_int_equal(metric_value(METRIC_INGEST_FAILED) - failed, sizeof(lens) / sizeof(lens[0]));
    mem_store_free(mem);
}

static void
test_leave_touches_nothing(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *ingest = ingest_new(&mem->store, 50000);
    const struct ingest_content *content;
    struct err err = {0};

    (void)state;
    assert_int_equal(ingest_push(ingest, noise, 50000, &err), 0);
    assert_int_equal(ingest_finish(ingest, &content, &err), 0);
    ingest_leave(ingest);
    ingest_free(ingest);
    assert_int_equal(mem_backend_count(mem->backend), 1);
    mem_store_free(mem);
}

static void
test_the_loser_of_a_race_removes_its_blobs(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *one = ingest_new(&mem->store, NOISE_BYTES);
    struct ingest *two = ingest_new(&mem->store, NOISE_BYTES);
    struct err err = {0};
    struct digest id;
    size_t chunk_count;

    (void)state;
    (void)expected_id(noise, NOISE_BYTES, &chunk_count);
    for (size_t off = 0; off < NOISE_BYTES; off += 1 << 20) {
        assert_int_equal(ingest_push(one, noise + off, 1 << 20, &err), 0);
        assert_int_equal(ingest_push(two, noise + off, 1 << 20, &err), 0);
    }
    finish_and_keep(mem, one, &id);
    finish_and_keep(mem, two, &id);
    assert_int_equal(mem_backend_count(mem->backend), chunk_count);
    assert_stored(mem, &id, noise, NOISE_BYTES);
    mem_store_free(mem);
}

static void *
add_in_a_thread(void *arg)
{
    mem_store_add(arg, noise, NOISE_BYTES);
    return NULL;
}

/* More uploads than workers, and hardly a queue. */
static void
test_many_uploads_at_once_share_few_workers(void **state)
{
    enum { UPLOADS = 6 };
    struct mem_store *mem = mem_store_new(1, 1);
    pthread_t threads[UPLOADS];
    size_t chunk_count;
    struct digest id;

    (void)state;
    id = expected_id(noise, NOISE_BYTES, &chunk_count);
    for (unsigned i = 0; i < UPLOADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_in_a_thread, mem), 0);
    for (unsigned i = 0; i < UPLOADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(mem_backend_count(mem->backend), chunk_count);
    assert_stored(mem, &id, noise, NOISE_BYTES);
    mem_store_free(mem);
}

static void
add_as_job(void *arg)
{
    mem_store_add(arg, noise, NOISE_BYTES);
}

/* Every worker is an upload that waits for a settle behind it in the queue. */
static void
test_an_upload_may_run_on_the_workers_it_uses(void **state)
{
    struct mem_store *mem = mem_store_new(2, QUEUE);
    struct err err = {0};
    size_t queued, running;

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(workers_submit(mem->store.workers, add_as_job, mem, &err), 0);
    do
        workers_load(mem->store.workers, &queued, &running);
    while (queued + running > 0);
    mem_store_free(mem);
}

static void
test_little_memory_gives_the_same_content(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id;

    (void)state;
    mem->store.ingest_memory_bytes = 1;
    id = mem_store_add(mem, noise, NOISE_BYTES);
    assert_stored(mem, &id, noise, NOISE_BYTES);
    mem_store_free(mem);
}

static void
test_uploads_beyond_the_memory_are_put_off(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *first, *second, *small;

    (void)state;
    mem->store.ingest_memory_bytes = 3 << 20;
    first = ingest_new(&mem->store, UINT64_MAX);
    second = ingest_new(&mem->store, 1 << 30);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(ingest_new(&mem->store, UINT64_MAX));
    small = ingest_new(&mem->store, 100000);
    assert_non_null(small);
    ingest_free(first);
    first = ingest_new(&mem->store, UINT64_MAX);
    assert_non_null(first);
    ingest_free(first);
    ingest_free(second);
    ingest_free(small);
    mem_store_free(mem);
}

/* Finishes an upload of known chunks this long after it began; how often the index was asked. */
static unsigned
leases_of_upload(int64_t lease_secs, int64_t wait_us)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    const struct ingest_content *content;
    struct ingest *ingest;
    int64_t deadline_us;
    struct err err = {0};
    unsigned asked;

    mem_store_add(mem, noise, 1 << 20);
    mem->store.lease_secs = lease_secs;
    asked = mem_index_asked(mem->index, MEM_LEASE);
    ingest = ingest_new(&mem->store, 1 << 20);
    deadline_us = clock_mono_us() + wait_us;
    assert_int_equal(ingest_push(ingest, noise, 1 << 20, &err), 0);
    while (clock_mono_us() < deadline_us)
        ;
    if (ingest_finish(ingest, &content, &err) < 0)
        fail_msg("%s", err.msg);
    asked = mem_index_asked(mem->index, MEM_LEASE) - asked;
    ingest_free(ingest);
    mem_store_free(mem);
    return asked;
}

static void
test_only_a_long_upload_renews_its_leases(void **state)
{
    (void)state;
    assert_int_equal(leases_of_upload(MEM_STORE_LEASE_SECS, 0), 1);
    assert_int_equal(leases_of_upload(3, 1600000), 2);
}

/* A lease of no time at all has always run out. */
static void
test_an_upload_that_missed_its_lease_gives_up(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);

    (void)state;
    mem->store.lease_secs = 0;
    expect_failure(mem, ERR_BUSY);
    mem_store_free(mem);
}

static void
test_losing_a_known_chunk_is_noticed_at_renewal(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    enum dedup_verdict verdicts[2];
    struct digest ids[2];
    struct dedup dedup;
    struct err err = {0};

    (void)state;
    mem_store_add(mem, noise, 1000);
    ids[0] = digest_of(noise, 1000);
    ids[1] = digest_of(noise, 999);
    dedup_init(&dedup, &mem->store);
    assert_int_equal(dedup_classify(&dedup, ids, 2, verdicts, &err), 0);
    assert_int_equal(verdicts[0], DEDUP_KNOWN);
    assert_int_equal(verdicts[1], DEDUP_NEW);
    assert_int_equal(dedup_renew(&dedup, &err), 0);
    assert_int_equal(dedup_classify(&dedup, ids, 2, verdicts, &err), 0);
    assert_int_equal(verdicts[0], DEDUP_REPEAT);
    assert_int_equal(verdicts[1], DEDUP_REPEAT);
    mem_index_lose(mem->index, &ids[0]);
    assert_int_equal(dedup_renew(&dedup, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    dedup_release(&dedup);
    mem_store_free(mem);
}

static int
start(void **state)
{
    (void)state;
    noise = mem_store_noise(42, NOISE_BYTES);
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    free(noise);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pushing_gives_the_same_content),
        cmocka_unit_test(test_what_finish_hands_out_is_durable_sorted_and_complete),
        cmocka_unit_test(test_a_duplicate_writes_nothing),
        cmocka_unit_test(test_one_changed_byte_writes_few_chunks),
        cmocka_unit_test(test_repeated_chunks_are_written_once),
        cmocka_unit_test(test_a_put_that_fails_leaves_nothing),
        cmocka_unit_test(test_a_sync_that_fails_leaves_nothing),
        cmocka_unit_test(test_an_index_that_fails_leaves_nothing),
        cmocka_unit_test(test_a_failed_ingest_stays_failed),
        cmocka_unit_test(test_a_client_that_vanishes_leaves_nothing),
        cmocka_unit_test(test_leave_touches_nothing),
        cmocka_unit_test(test_the_loser_of_a_race_removes_its_blobs),
        cmocka_unit_test(test_many_uploads_at_once_share_few_workers),
        cmocka_unit_test(test_an_upload_may_run_on_the_workers_it_uses),
        cmocka_unit_test(test_little_memory_gives_the_same_content),
        cmocka_unit_test(test_uploads_beyond_the_memory_are_put_off),
        cmocka_unit_test(test_only_a_long_upload_renews_its_leases),
        cmocka_unit_test(test_an_upload_that_missed_its_lease_gives_up),
        cmocka_unit_test(test_losing_a_known_chunk_is_noticed_at_renewal),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
