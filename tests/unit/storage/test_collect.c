#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "storage/collect.h"
#include "support/mem_store.h"

enum { NOISE_BYTES = 2 << 20, THREADS = 4, QUEUE = 64, DAY_SECS = 86400 };

static uint8_t *noise;
static const _Atomic bool go_on = false, stop_now = true;

static struct collect_result
collect(struct mem_store *mem, int64_t grace_secs)
{
    struct collect_result result;
    struct err err = {0};

    if (collect_garbage(&mem->store, grace_secs, &go_on, &result, &err) < 0)
        fail_msg("%s", err.msg);
    return result;
}

static struct collect_result
sweep(struct mem_store *mem, int64_t grace_secs)
{
    struct collect_result result;
    struct err err = {0};

    if (collect_sweep(&mem->store, grace_secs, &go_on, &result, &err) < 0)
        fail_msg("%s", err.msg);
    return result;
}

/* A crashed upload: blobs without rows. */
static void
leave_blobs(struct mem_store *mem, const uint8_t *data, size_t len)
{
    struct ingest *ingest = ingest_new(&mem->store, len);
    const struct ingest_content *content;
    struct err err = {0};

    assert_int_equal(ingest_push(ingest, data, len, &err), 0);
    assert_int_equal(ingest_finish(ingest, &content, &err), 0);
    ingest_leave(ingest);
    ingest_free(ingest);
}

static void
test_what_nothing_names_is_collected_after_the_grace(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id = mem_store_add(mem, noise, NOISE_BYTES);
    struct collect_result result;
    size_t chunk_count = mem_backend_count(mem->backend);
    uint64_t stored_bytes = mem_backend_bytes(mem->backend);

    (void)state;
    assert_int_equal(collect(mem, 0).blob_count, 0);
    mem_index_release(mem->index, &id);
    assert_int_equal(collect(mem, DAY_SECS).blob_count, 0);
    mem_index_advance(mem->index, DAY_SECS); /* the contents go, which leaves the chunks alone */
    assert_int_equal(collect(mem, DAY_SECS).blob_count, 0);
    mem_index_advance(mem->index, DAY_SECS);
    result = collect(mem, DAY_SECS);
    assert_int_equal(result.blob_count, chunk_count);
    assert_int_equal(result.blob_bytes, stored_bytes);
    assert_int_equal(mem_backend_count(mem->backend), 0);
    assert_int_equal(mem_index_chunk_count(mem->index), 0);
    mem_store_free(mem);
}

static void
test_a_lease_keeps_a_chunk_from_the_collector(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id = mem_store_add(mem, noise, 50000), chunk = digest_of(noise, 50000);
    struct err err = {0};
    bool known;

    (void)state;
    mem_index_release(mem->index, &id);
    assert_int_equal(chunk_index_lease(mem->index, &chunk, 1, 100, &known, &err), 0);
    assert_true(known);
    assert_int_equal(collect(mem, 0).blob_count, 0);
    mem_index_advance(mem->index, 101);
    assert_int_equal(collect(mem, 0).blob_count, 1);
    mem_store_free(mem);
}

static void
test_contents_that_share_chunks_are_collected_apart(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest half = mem_store_add(mem, noise, NOISE_BYTES / 2);
    uint64_t half_bytes = mem_backend_bytes(mem->backend);
    struct digest whole = mem_store_add(mem, noise, NOISE_BYTES);

    (void)state;
    mem_index_release(mem->index, &whole);
    mem_index_advance(mem->index, 2 * MEM_STORE_LEASE_SECS);
    assert_true(collect(mem, 0).blob_count > 0);
    assert_int_equal(mem_backend_bytes(mem->backend), half_bytes);
    mem_index_release(mem->index, &half);
    assert_true(collect(mem, 0).blob_count > 0);
    assert_int_equal(mem_backend_count(mem->backend), 0);
    mem_store_free(mem);
}

static void
test_a_sweep_removes_old_blobs_without_rows_only(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    size_t named_count, left_count;

    (void)state;
    mem_store_add(mem, noise, NOISE_BYTES / 2);
    named_count = mem_backend_count(mem->backend);
    leave_blobs(mem, noise + NOISE_BYTES / 2, NOISE_BYTES / 2);
    left_count = mem_backend_count(mem->backend) - named_count;
    assert_int_equal(sweep(mem, DAY_SECS).blob_count, 0);
    mem_backend_age(mem->backend, DAY_SECS + 60);
    assert_int_equal(sweep(mem, DAY_SECS).blob_count, left_count);
    assert_int_equal(mem_backend_count(mem->backend), named_count);
    mem_store_free(mem);
}

static void
test_a_preview_counts_what_the_sweep_then_removes(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct collect_result preview, swept;
    struct err err = {0};
    size_t count;

    (void)state;
    mem_store_add(mem, noise, NOISE_BYTES / 2);
    leave_blobs(mem, noise + NOISE_BYTES / 2, NOISE_BYTES / 2);
    mem_backend_age(mem->backend, DAY_SECS);
    count = mem_backend_count(mem->backend);
    assert_int_equal(collect_sweep_preview(&mem->store, 60, &go_on, &preview, &err), 0);
    assert_int_equal(mem_backend_count(mem->backend), count);
    swept = sweep(mem, 60);
    assert_true(swept.blob_count > 0);
    assert_int_equal(preview.blob_count, swept.blob_count);
    assert_int_equal(preview.blob_bytes, swept.blob_bytes);
    mem_store_free(mem);
}

/* The row names the new blob; the bad one is a blob that no row names. */
static void
test_a_blob_that_was_healed_away_is_swept(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest chunk = digest_of(noise, 50000);
    struct manifest *manifest;
    struct err err = {0};
    enum chunk_mark mark;
    struct digest id = mem_store_add(mem, noise, 50000);

    (void)state;
    assert_int_equal(store_manifest(&mem->store, &id, &manifest, &err), 0);
    struct blob_key key = {chunk, manifest->entries[0].chunk.generation};

    manifest_unref(manifest);
    assert_int_equal(chunk_index_quarantine(mem->index, &key, "a test", &mark, &err), 0);
    mem_store_add(mem, noise, 50000);
    assert_int_equal(mem_backend_count(mem->backend), 2);
    mem_backend_age(mem->backend, DAY_SECS);
    assert_int_equal(sweep(mem, 0).blob_count, 1);
    assert_int_equal(mem_backend_count(mem->backend), 1);
    assert_int_equal(collect(mem, 0).blob_count, 0);
    mem_store_free(mem);
}

static void
test_a_sweep_leaves_alone_what_is_younger_than_two_leases(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);

    (void)state;
    leave_blobs(mem, noise, 50000);
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS - 60);
    assert_int_equal(sweep(mem, 1).blob_count, 0);
    mem_backend_age(mem->backend, 120);
    assert_int_equal(sweep(mem, 1).blob_count, 1);
    leave_blobs(mem, noise, 50000);
    assert_int_equal(sweep(mem, 0).blob_count, 0); /* it might belong to an upload under way */
    mem_store_free(mem);
}

static void
test_an_upload_whose_blobs_were_swept_fails(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *ingest = ingest_new(&mem->store, UINT64_MAX);
    const struct ingest_content *content;
    AUTO_FREE uint8_t *data = mem_store_noise(9, 20 << 20);
    struct err err = {0};

    (void)state;
    assert_int_equal(ingest_push(ingest, data, 20 << 20, &err), 0);
    assert_int_equal(ingest_push(ingest, data, 20 << 20, &err), 0); /* the first ones are settled */
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS + 60);   /* a clock that was set */
    assert_true(sweep(mem, 0).blob_count > 0);
    assert_int_equal(ingest_finish(ingest, &content, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    ingest_free(ingest);
    assert_int_equal(mem_backend_count(mem->backend), 0);
    mem_store_free(mem);
}

/* The clock is set between the last look at the blobs and the transaction. */
static void
test_an_upload_that_was_swept_at_the_last_moment_is_not_registered(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct ingest *ingest = ingest_new(&mem->store, NOISE_BYTES);
    const struct ingest_content *content;
    struct err err = {0};
    size_t losers[64], loser_count;

    (void)state;
    assert_int_equal(ingest_push(ingest, noise, NOISE_BYTES, &err), 0);
    assert_int_equal(ingest_finish(ingest, &content, &err), 0);
    assert_true(content->written_count <= 64);
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS + 60);
    assert_int_equal(sweep(mem, 0).blob_count, content->written_count);
    assert_int_equal(mem_index_register(mem->index, content, losers, &loser_count, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    ingest_free(ingest);
    mem_store_add(mem, noise, NOISE_BYTES); /* once more, under other names */
    assert_int_equal(sweep(mem, 0).blob_count, 0);
    mem_store_free(mem);
}

static void
test_what_cannot_be_condemned_is_not_swept(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct collect_result result;
    struct err err = {0};

    (void)state;
    leave_blobs(mem, noise, 50000);
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS + 60);
    mem_index_fail(mem->index, MEM_CONDEMN, 1, 1, ERR_BUSY);
    assert_int_equal(collect_sweep(&mem->store, 0, &go_on, &result, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(mem_backend_count(mem->backend), 1);
    assert_int_equal(sweep(mem, 0).blob_count, 1);
    mem_store_free(mem);
}

static void
test_a_proof_that_fails_deletes_nothing(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id = mem_store_add(mem, noise, NOISE_BYTES);
    size_t chunk_count = mem_backend_count(mem->backend);
    struct collect_result result;
    struct err err = {0};

    (void)state;
    mem_index_release(mem->index, &id);
    mem_index_fail(mem->index, MEM_PROVE, 1, 1, ERR_UNAVAILABLE);
    assert_int_equal(collect_garbage(&mem->store, 0, &go_on, &result, &err), -1);
    assert_int_equal(mem_backend_count(mem->backend), chunk_count);
    assert_int_equal(mem_index_chunk_count(mem->index), chunk_count);
    assert_int_equal(collect(mem, 0).blob_count, chunk_count);
    mem_store_free(mem);
}

static void
test_both_stop_when_told_to(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id = mem_store_add(mem, noise, 50000);
    struct collect_result result;
    struct err err = {0};

    (void)state;
    mem_index_release(mem->index, &id);
    leave_blobs(mem, noise + 60000, 50000);
    assert_int_equal(collect_garbage(&mem->store, 0, &stop_now, &result, &err), 0);
    assert_int_equal(result.blob_count, 0);
    assert_int_equal(collect_sweep(&mem->store, 0, &stop_now, &result, &err), 0);
    assert_int_equal(result.blob_count, 0);
    mem_store_free(mem);
}

static void
test_a_blob_that_cannot_be_removed_is_left_to_the_next_sweep(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct digest id = mem_store_add(mem, noise, 50000);

    (void)state;
    mem_index_release(mem->index, &id);
    mem_backend_fail(mem->backend, MEM_REMOVE, 1, 1, ERR_IO);
    assert_int_equal(collect(mem, 0).blob_count, 0);
    assert_int_equal(mem_index_chunk_count(mem->index), 0);
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS + 60);
    assert_int_equal(sweep(mem, 0).blob_count, 1);
    mem_store_free(mem);
}

static void
test_trouble_is_passed_on(void **state)
{
    struct mem_store *mem = mem_store_new(THREADS, QUEUE);
    struct collect_result result;
    struct err err = {0};

    (void)state;
    leave_blobs(mem, noise, 50000);
    mem_backend_age(mem->backend, 2 * MEM_STORE_LEASE_SECS + 60);
    mem_index_fail(mem->index, MEM_COLLECT, 1, 1, ERR_UNAVAILABLE);
    assert_int_equal(collect_garbage(&mem->store, 0, &go_on, &result, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    mem_index_fail(mem->index, MEM_NAMED, 1, 1, ERR_BUSY);
    assert_int_equal(collect_sweep(&mem->store, 0, &go_on, &result, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    mem_backend_fail(mem->backend, MEM_LIST, 1, 1, ERR_IO);
    assert_int_equal(collect_sweep(&mem->store, 0, &go_on, &result, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(mem_backend_count(mem->backend), 1);
    mem_store_free(mem);
}

static int
start(void **state)
{
    (void)state;
    noise = mem_store_noise(5, NOISE_BYTES);
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
        cmocka_unit_test(test_what_nothing_names_is_collected_after_the_grace),
        cmocka_unit_test(test_a_lease_keeps_a_chunk_from_the_collector),
        cmocka_unit_test(test_contents_that_share_chunks_are_collected_apart),
        cmocka_unit_test(test_a_sweep_removes_old_blobs_without_rows_only),
        cmocka_unit_test(test_a_preview_counts_what_the_sweep_then_removes),
        cmocka_unit_test(test_a_blob_that_was_healed_away_is_swept),
        cmocka_unit_test(test_a_sweep_leaves_alone_what_is_younger_than_two_leases),
        cmocka_unit_test(test_an_upload_whose_blobs_were_swept_fails),
        cmocka_unit_test(test_an_upload_that_was_swept_at_the_last_moment_is_not_registered),
        cmocka_unit_test(test_what_cannot_be_condemned_is_not_swept),
        cmocka_unit_test(test_a_proof_that_fails_deletes_nothing),
        cmocka_unit_test(test_both_stop_when_told_to),
        cmocka_unit_test(test_a_blob_that_cannot_be_removed_is_left_to_the_next_sweep),
        cmocka_unit_test(test_trouble_is_passed_on),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
