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
#include "support/mem_store.h"

enum { NOISE_BYTES = 5 << 20, THREADS = 2, QUEUE = 64, DEADLINE_US = 20000000 };

static uint8_t *noise;

/* A new store that holds the noise. */
struct fixture {
    struct mem_store *mem;
    struct digest id;
    struct manifest *manifest;
};

static void
set_up(struct fixture *fix, unsigned thread_count, size_t queue_cap)
{
    struct err err = {0};

    fix->mem = mem_store_new(thread_count, queue_cap);
    fix->id = mem_store_add(fix->mem, noise, NOISE_BYTES);
    assert_int_equal(store_manifest(&fix->mem->store, &fix->id, &fix->manifest, &err), 0);
}

static void
tear_down(struct fixture *fix)
{
    manifest_unref(fix->manifest);
    mem_store_free(fix->mem);
}

static const struct digest *
chunk_id(const struct fixture *fix, size_t at)
{
    return &fix->manifest->entries[at].chunk.id;
}

static struct content_reader *
open_range(struct fixture *fix, uint64_t off, uint64_t len)
{
    struct content_reader *reader;
    struct err err = {0};

    if (content_reader_open(&fix->mem->store, &fix->id, (struct byte_range){off, len}, &reader,
                            &err) < 0)
        fail_msg("%s", err.msg);
    return reader;
}

/* Reads to the end or the first error, and checks every byte that comes out. */
static enum err_code
read_on(struct content_reader *reader, uint64_t off, size_t cap, uint64_t *ret_len)
{
    AUTO_FREE uint8_t *part = mem_alloc(cap);
    struct err err = {0};
    size_t got;

    *ret_len = 0;
    for (;;) {
        if (content_reader_read(reader, part, cap, &got, &err) < 0)
            return err.code;
        if (got == 0)
            return ERR_NONE;
        assert_memory_equal(part, noise + off + *ret_len, got);
        *ret_len += got;
    }
}

static void
assert_range(struct fixture *fix, uint64_t off, uint64_t len, size_t cap)
{
    struct content_reader *reader = open_range(fix, off, len);
    uint64_t got;

    assert_int_equal(read_on(reader, off, cap, &got), ERR_NONE);
    assert_int_equal(got, len);
    content_reader_free(reader);
}

static void
test_the_whole_comes_out_in_any_portions(void **state)
{
    static const size_t caps[] = {1000, 65536, 262144, NOISE_BYTES + 1};
    struct fixture fix;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
        assert_range(&fix, 0, NOISE_BYTES, caps[i]);
    tear_down(&fix);
}

static void
test_ranges_are_exact_at_every_edge_of_a_chunk(void **state)
{
    struct fixture fix;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    for (size_t i = 0; i < fix.manifest->chunk_count; i++) {
        uint64_t edge = fix.manifest->entries[i].off;

        for (uint64_t off = edge > 0 ? edge - 1 : 0; off <= edge + 1; off++) {
            uint64_t rest = NOISE_BYTES - off;

            assert_range(&fix, off, 0, 10);
            assert_range(&fix, off, 1, 10);
            assert_range(&fix, off, 2, 1);
            assert_range(&fix, off, rest < 400000 ? rest : 400000, 262144);
            assert_range(&fix, 0, off, 262144);
            assert_range(&fix, off, rest, 262144);
        }
    }
    tear_down(&fix);
}

static void
test_a_range_reads_only_the_chunks_it_covers(void **state)
{
    struct fixture fix;
    unsigned before;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    before = mem_backend_calls(fix.mem->backend, MEM_READ);
    assert_range(&fix, fix.manifest->entries[3].off, fix.manifest->entries[3].chunk.size_bytes,
                 65536);
    assert_int_equal(mem_backend_calls(fix.mem->backend, MEM_READ), before + 1);
    tear_down(&fix);
}

static void
test_a_range_outside_is_invalid(void **state)
{
    static const struct byte_range ranges[] = {
        {NOISE_BYTES + 1, 0}, {0, NOISE_BYTES + 1}, {NOISE_BYTES, 1},
        {1, UINT64_MAX},      {UINT64_MAX, 1},      {UINT64_MAX, 0},
    };
    struct fixture fix;
    struct content_reader *reader;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct err err = {0};

        assert_int_equal(content_reader_open(&fix.mem->store, &fix.id, ranges[i], &reader, &err),
                         -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_range(&fix, NOISE_BYTES, 0, 1);
    tear_down(&fix);
}

static void
test_an_unknown_content_is_not_found(void **state)
{
    struct fixture fix;
    struct digest id = digest_of("unknown", 7);
    struct content_reader *reader;
    struct err err = {0};

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    assert_int_equal(
        content_reader_open(&fix.mem->store, &id, (struct byte_range){0, 0}, &reader, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    tear_down(&fix);
}

static void
test_the_empty_content_ends_at_once(void **state)
{
    struct fixture fix;
    struct digest id;
    struct content_reader *reader;
    enum content_reader_state reader_state;
    struct err err = {0};
    char byte;
    size_t len;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    id = mem_store_add(fix.mem, "", 0);
    assert_int_equal(
        content_reader_open(&fix.mem->store, &id, (struct byte_range){0, 0}, &reader, &err), 0);
    assert_int_equal(content_reader_poll(reader, &byte, 1, &reader_state, &len, &err), 0);
    assert_int_equal(reader_state, CONTENT_READER_END);
    assert_int_equal(len, 0);
    content_reader_free(reader);
    tear_down(&fix);
}

typedef void (*damage_fn)(struct blob_backend *be, const struct digest *id);

/* The chunks before the bad one come out, of the bad one and after it nothing. */
static void
expect_broken_off(damage_fn damage, unsigned reads_of_it)
{
    struct fixture fix;
    struct content_reader *reader;
    uint64_t failed = metric_value(METRIC_CHUNK_CORRUPT), rereads, got;

    for (size_t bad = 0; bad < 4; bad += 3) {
        set_up(&fix, THREADS, QUEUE);
        rereads = metric_value(METRIC_CHUNK_REREADS);
        damage(fix.mem->backend, chunk_id(&fix, bad));
        reader = open_range(&fix, 0, NOISE_BYTES);
        assert_int_equal(read_on(reader, 0, 262144, &got), ERR_CORRUPT);
        assert_int_equal(got, fix.manifest->entries[bad].off);
        assert_int_equal(read_on(reader, 0, 262144, &got), ERR_CORRUPT); /* and so it stays */
        assert_int_equal(got, 0);
        content_reader_free(reader);
        assert_int_equal(metric_value(METRIC_CHUNK_REREADS) - rereads, reads_of_it - 1);
        tear_down(&fix);
    }
    assert_int_equal(metric_value(METRIC_CHUNK_CORRUPT) - failed, 2);
}

static void
test_a_flipped_bit_never_leaves(void **state)
{
    (void)state;
    expect_broken_off(mem_backend_flip, 3);
}

static void
test_a_truncated_blob_never_leaves(void **state)
{
    (void)state;
    expect_broken_off(mem_backend_truncate, 3);
}

static void
test_a_missing_blob_is_corrupt_and_not_missing_content(void **state)
{
    (void)state;
    expect_broken_off(mem_backend_lose, 1);
}

static void
test_a_bad_copy_in_memory_is_read_again(void **state)
{
    struct fixture fix;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    mem_backend_flip_cached(fix.mem->backend, chunk_id(&fix, 2));
    assert_range(&fix, 0, NOISE_BYTES, 262144);
    tear_down(&fix);
}

static void
test_a_read_that_fails_twice_is_tried_a_third_time(void **state)
{
    struct fixture fix;
    struct content_reader *reader;
    uint64_t got, whole;

    (void)state;
    set_up(&fix, 1, QUEUE);
    whole = fix.manifest->entries[0].chunk.size_bytes;
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 2, ERR_IO);
    assert_range(&fix, 0, whole, 10);
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 3, ERR_IO);
    reader = open_range(&fix, 0, whole);
    assert_int_equal(read_on(reader, 0, 10, &got), ERR_IO);
    content_reader_free(reader);
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 1, ERR_UNAVAILABLE);
    reader = open_range(&fix, 0, 10);
    assert_int_equal(read_on(reader, 0, 10, &got), ERR_UNAVAILABLE);
    content_reader_free(reader);
    tear_down(&fix);
}

/* The manifest in the cache, and the one the reader holds, name the old generation. */
static void
test_a_chunk_written_anew_is_found_at_its_new_place(void **state)
{
    struct fixture fix;
    struct content_reader *reader;
    uint64_t got;

    (void)state;
    set_up(&fix, 1, QUEUE);
    mem_backend_hold_reads(fix.mem->backend, true);
    reader = open_range(&fix, 0, NOISE_BYTES);
    for (size_t i = 0; i < fix.manifest->chunk_count; i += 2) {
        mem_backend_move(fix.mem->backend, chunk_id(&fix, i), 4711 + i);
        mem_index_move(fix.mem->index, chunk_id(&fix, i), 4711 + i);
    }
    mem_backend_hold_reads(fix.mem->backend, false);
    assert_int_equal(read_on(reader, 0, 262144, &got), ERR_NONE);
    assert_int_equal(got, NOISE_BYTES);
    content_reader_free(reader);
    tear_down(&fix);
}

/* Reads all of it; the code of the end. */
static enum err_code
read_all(struct fixture *fix)
{
    struct content_reader *reader = open_range(fix, 0, NOISE_BYTES);
    uint64_t got;
    enum err_code code = read_on(reader, 0, 262144, &got);

    content_reader_free(reader);
    return code;
}

static void
test_a_chunk_that_fails_for_good_is_quarantined_once(void **state)
{
    static const damage_fn damages[] = {mem_backend_flip, mem_backend_truncate, mem_backend_lose};
    uint64_t marked = metric_value(METRIC_CHUNK_QUARANTINED);
    struct fixture fix;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        set_up(&fix, THREADS, QUEUE);
        damages[i](fix.mem->backend, chunk_id(&fix, 2));
        assert_int_equal(read_all(&fix), ERR_CORRUPT);
        assert_int_equal(mem_index_quarantined_count(fix.mem->index), 1);
        assert_int_equal(read_all(&fix), ERR_CORRUPT);
        assert_int_equal(metric_value(METRIC_CHUNK_QUARANTINED) - marked, i + 1);
        tear_down(&fix);
    }
}

static void
test_a_bad_read_that_is_good_again_quarantines_nothing(void **state)
{
    struct fixture fix;

    (void)state;
    set_up(&fix, 1, QUEUE);
    mem_backend_flip_cached(fix.mem->backend, chunk_id(&fix, 2));
    assert_int_equal(read_all(&fix), ERR_NONE);
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 2, ERR_IO);
    assert_int_equal(read_all(&fix), ERR_NONE);
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 1, ERR_UNAVAILABLE);
    assert_int_equal(read_all(&fix), ERR_UNAVAILABLE);
    mem_backend_fail(fix.mem->backend, MEM_READ, 1, 1, ERR_BUSY);
    assert_int_equal(read_all(&fix), ERR_BUSY);
    assert_int_equal(mem_index_quarantined_count(fix.mem->index), 0);
    tear_down(&fix);
}

/* Cached manifests name the bad blobs until somebody meets them. */
static void
test_the_same_bytes_uploaded_again_heal_for_readers_old_and_new(void **state)
{
    static const damage_fn damages[] = {mem_backend_flip, mem_backend_truncate, mem_backend_lose};
    struct fixture fix;
    struct content_reader *reader;
    uint64_t got;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        set_up(&fix, THREADS, QUEUE);
        damages[i](fix.mem->backend, chunk_id(&fix, 0));
        damages[i](fix.mem->backend, chunk_id(&fix, 4));
        for (size_t at = 0; at < 5; at += 4) {
            reader = open_range(&fix, fix.manifest->entries[at].off,
                                fix.manifest->entries[at].chunk.size_bytes);
            assert_int_equal(read_on(reader, 0, 10, &got), ERR_CORRUPT);
            content_reader_free(reader);
        }
        assert_int_equal(mem_index_quarantined_count(fix.mem->index), 2);
        mem_backend_hold_reads(fix.mem->backend, true);
        reader = open_range(&fix, 0, NOISE_BYTES);
        mem_store_add(fix.mem, noise, NOISE_BYTES);
        mem_backend_hold_reads(fix.mem->backend, false);
        assert_int_equal(mem_index_quarantined_count(fix.mem->index), 0);
        assert_int_equal(read_on(reader, 0, 262144, &got), ERR_NONE);
        assert_int_equal(got, NOISE_BYTES);
        content_reader_free(reader);
        assert_int_equal(read_all(&fix), ERR_NONE);
        tear_down(&fix);
    }
}

static void
test_an_index_that_cannot_quarantine_changes_nothing_for_the_client(void **state)
{
    struct fixture fix;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    mem_backend_flip(fix.mem->backend, chunk_id(&fix, 0));
    mem_index_fail(fix.mem->index, MEM_QUARANTINE, 1, 1, ERR_UNAVAILABLE);
    assert_int_equal(read_all(&fix), ERR_CORRUPT);
    assert_int_equal(mem_index_quarantined_count(fix.mem->index), 0);
    assert_int_equal(read_all(&fix), ERR_CORRUPT);
    assert_int_equal(mem_index_quarantined_count(fix.mem->index), 1);
    tear_down(&fix);
}

static void
test_an_index_that_is_away_while_reloading_is_no_missing_content(void **state)
{
    struct fixture fix;
    struct content_reader *reader;
    uint64_t got;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    mem_backend_lose(fix.mem->backend, chunk_id(&fix, 0));
    mem_index_fail(fix.mem->index, MEM_LOAD_MANIFEST, 1, 100, ERR_UNAVAILABLE);
    reader = open_range(&fix, 0, 10);
    assert_int_equal(read_on(reader, 0, 10, &got), ERR_UNAVAILABLE);
    content_reader_free(reader);
    tear_down(&fix);
}

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    unsigned rings;
};

static void
bell_init(struct bell *bell)
{
    *bell = (struct bell){.lock = PTHREAD_MUTEX_INITIALIZER};
    clock_cond_init(&bell->rung);
}

static void
ring(void *arg)
{
    struct bell *bell = arg;

    LOCK_SCOPE(&bell->lock);
    bell->rings++;
    pthread_cond_broadcast(&bell->rung);
}

static void
await_ring(struct bell *bell, unsigned rings)
{
    struct timespec deadline = clock_deadline(DEADLINE_US / 1000);

    LOCK_SCOPE(&bell->lock);
    while (bell->rings < rings)
        assert_int_equal(pthread_cond_timedwait(&bell->rung, &bell->lock, &deadline), 0);
    assert_int_equal(bell->rings, rings);
}

/* The way of a server: poll, and when there is nothing, be called. */
static void
poll_to_the_end(struct content_reader *reader)
{
    AUTO_FREE uint8_t *part = mem_alloc(100000);
    enum content_reader_state reader_state;
    struct bell bell;
    struct err err = {0};
    unsigned rings = 0;
    uint64_t off = 0;
    size_t len;

    bell_init(&bell);
    do {
        if (content_reader_poll(reader, part, 100000, &reader_state, &len, &err) < 0)
            fail_msg("%s", err.msg);
        if (reader_state == CONTENT_READER_WAIT) {
            assert_int_equal(len, 0);
            content_reader_notify(reader, ring, &bell);
            await_ring(&bell, ++rings);
        }
        assert_memory_equal(part, noise + off, len);
        off += len;
    } while (reader_state != CONTENT_READER_END);
    assert_int_equal(off, NOISE_BYTES);
}

static void
test_polling_and_notices_bring_everything(void **state)
{
    struct fixture fix;
    struct content_reader *reader;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    for (unsigned i = 0; i < 20; i++) {
        reader = open_range(&fix, 0, NOISE_BYTES);
        poll_to_the_end(reader);
        content_reader_free(reader);
    }
    tear_down(&fix);
}

static void
test_poll_never_waits_and_notify_calls_later(void **state)
{
    struct fixture fix;
    struct content_reader *reader;
    enum content_reader_state reader_state;
    struct bell bell;
    struct err err = {0};
    char part[10];
    size_t len;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    bell_init(&bell);
    mem_backend_hold_reads(fix.mem->backend, true);
    reader = open_range(&fix, 0, NOISE_BYTES);
    assert_int_equal(content_reader_poll(reader, part, 10, &reader_state, &len, &err), 0);
    assert_int_equal(reader_state, CONTENT_READER_WAIT);
    content_reader_notify(reader, ring, &bell);
    assert_int_equal(bell.rings, 0);
    mem_backend_hold_reads(fix.mem->backend, false);
    await_ring(&bell, 1);
    assert_int_equal(content_reader_poll(reader, part, 10, &reader_state, &len, &err), 0);
    assert_int_equal(reader_state, CONTENT_READER_BYTES);
    content_reader_notify(reader, ring, &bell); /* there is something: called at once */
    await_ring(&bell, 2);
    content_reader_free(reader);
    tear_down(&fix);
}

static void
test_a_reader_may_be_freed_while_it_fetches(void **state)
{
    struct fixture fix;
    struct bell bell;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    bell_init(&bell);
    mem_backend_hold_reads(fix.mem->backend, true);
    for (unsigned i = 0; i < 5; i++) {
        struct content_reader *reader = open_range(&fix, 0, NOISE_BYTES);

        content_reader_notify(reader, ring, &bell);
        content_reader_free(reader);
    }
    mem_backend_hold_reads(fix.mem->backend, false);
    assert_range(&fix, 0, NOISE_BYTES, 65536);
    tear_down(&fix);
    assert_int_equal(bell.rings, 0);
}

struct blocker {
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    bool hold;
    unsigned waiting;
};

static void
block(void *arg)
{
    struct blocker *blocker = arg;

    LOCK_SCOPE(&blocker->lock);
    blocker->waiting++;
    pthread_cond_broadcast(&blocker->let_go);
    while (blocker->hold)
        pthread_cond_wait(&blocker->let_go, &blocker->lock);
}

/* The one worker and the one place in the queue are taken by something that does not end. */
static void
test_a_full_queue_stops_no_reader(void **state)
{
    struct blocker blocker = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, 0};
    struct fixture fix;
    struct content_reader *reader;
    struct err err = {0};

    (void)state;
    set_up(&fix, 1, 1);
    assert_int_equal(workers_submit(fix.mem->store.workers, block, &blocker, &err), 0);
    pthread_mutex_lock(&blocker.lock);
    while (blocker.waiting == 0)
        pthread_cond_wait(&blocker.let_go, &blocker.lock);
    pthread_mutex_unlock(&blocker.lock);
    assert_int_equal(workers_submit(fix.mem->store.workers, block, &blocker, &err), 0);

    assert_range(&fix, 0, NOISE_BYTES, 262144);
    reader = open_range(&fix, 0, NOISE_BYTES);
    poll_to_the_end(reader);
    content_reader_free(reader);

    pthread_mutex_lock(&blocker.lock);
    blocker.hold = false;
    pthread_cond_broadcast(&blocker.let_go);
    pthread_mutex_unlock(&blocker.lock);
    tear_down(&fix);
}

struct chain {
    struct content_reader *reader;
    struct bell bell;
    uint8_t part[100000];
    uint64_t off;
    bool failed;
};

/* Polls and asks for the next notice from within the notice, and frees the reader at the end. */
static void
pull(void *arg)
{
    struct chain *chain = arg;
    enum content_reader_state reader_state;
    struct err err = {0};
    size_t len;

    do {
        if (content_reader_poll(chain->reader, chain->part, sizeof(chain->part), &reader_state,
                                &len, &err) < 0 ||
            memcmp(chain->part, noise + chain->off, len) != 0) {
            chain->failed = true;
            reader_state = CONTENT_READER_END;
        }
        chain->off += len;
    } while (reader_state == CONTENT_READER_BYTES);
    if (reader_state == CONTENT_READER_WAIT) {
        content_reader_notify(chain->reader, pull, chain);
        return;
    }
    content_reader_free(chain->reader);
    ring(&chain->bell);
}

static void
test_a_notice_may_ask_for_the_next_and_free_the_reader(void **state)
{
    struct fixture fix;
    static struct chain chain;

    (void)state;
    set_up(&fix, THREADS, QUEUE);
    for (unsigned i = 0; i < 20; i++) {
        chain.off = 0;
        bell_init(&chain.bell);
        chain.reader = open_range(&fix, 0, NOISE_BYTES);
        content_reader_notify(chain.reader, pull, &chain);
        await_ring(&chain.bell, 1);
        assert_false(chain.failed);
        assert_int_equal(chain.off, NOISE_BYTES);
    }
    tear_down(&fix);
}

static int
start(void **state)
{
    (void)state;
    noise = mem_store_noise(3, NOISE_BYTES);
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
        cmocka_unit_test(test_the_whole_comes_out_in_any_portions),
        cmocka_unit_test(test_ranges_are_exact_at_every_edge_of_a_chunk),
        cmocka_unit_test(test_a_range_reads_only_the_chunks_it_covers),
        cmocka_unit_test(test_a_range_outside_is_invalid),
        cmocka_unit_test(test_an_unknown_content_is_not_found),
        cmocka_unit_test(test_the_empty_content_ends_at_once),
        cmocka_unit_test(test_a_flipped_bit_never_leaves),
        cmocka_unit_test(test_a_truncated_blob_never_leaves),
        cmocka_unit_test(test_a_missing_blob_is_corrupt_and_not_missing_content),
        cmocka_unit_test(test_a_bad_copy_in_memory_is_read_again),
        cmocka_unit_test(test_a_read_that_fails_twice_is_tried_a_third_time),
        cmocka_unit_test(test_a_chunk_written_anew_is_found_at_its_new_place),
        cmocka_unit_test(test_a_chunk_that_fails_for_good_is_quarantined_once),
        cmocka_unit_test(test_a_bad_read_that_is_good_again_quarantines_nothing),
        cmocka_unit_test(test_the_same_bytes_uploaded_again_heal_for_readers_old_and_new),
        cmocka_unit_test(test_an_index_that_cannot_quarantine_changes_nothing_for_the_client),
        cmocka_unit_test(test_an_index_that_is_away_while_reloading_is_no_missing_content),
        cmocka_unit_test(test_polling_and_notices_bring_everything),
        cmocka_unit_test(test_poll_never_waits_and_notify_calls_later),
        cmocka_unit_test(test_a_reader_may_be_freed_while_it_fetches),
        cmocka_unit_test(test_a_full_queue_stops_no_reader),
        cmocka_unit_test(test_a_notice_may_ask_for_the_next_and_free_the_reader),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
