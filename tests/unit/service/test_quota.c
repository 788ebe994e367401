#include "unit/service/fixture.h"

#include <pthread.h>

#include "base/metrics.h"

/* A user who may store so many bytes. */
static void
limit(struct fixture *fix, int64_t quota_bytes)
{
    fix->config.enable_user_storage_quotas = true;
    assert_int_equal(users_set_quota(fix->pool, fix->me.name, quota_bytes, &fix->err), 0);
}

static enum err_code
begin(struct fixture *fix, const char *text, uint64_t size_bytes, struct files_claim *claim)
{
    struct path path = path_of(fix, text);

    return outcome(
        fix, files_may_write(&fix->files, &fix->me, &path, size_bytes, NULL, claim, &fix->err));
}

/* The rest of an upload that has begun. */
static enum err_code
end(struct fixture *fix, const char *text, const char *bytes, struct files_claim *claim)
{
    struct path path = path_of(fix, text);
    struct ingest *ingest = ingest_new(&fix->store, strlen(bytes));
    struct files_write write = {.path = &path, .mtime_us = -1, .claim = claim};
    struct node node;
    bool created;
    int rc = -1;

    if (files_take(&fix->files, claim, strlen(bytes), &fix->err) == 0 &&
        ingest_push(ingest, bytes, strlen(bytes), &fix->err) == 0 &&
        ingest_finish(ingest, &write.content, &fix->err) == 0)
        rc = files_write(&fix->files, &fix->me, &write, ingest, &node, &created, &fix->err);
    ingest_free(ingest);
    files_release(&fix->files, claim);
    return outcome(fix, rc);
}

static int64_t
reservations(struct fixture *fix)
{
    return test_db_number(fix->db, "select count(*) from reservations");
}

static uint64_t
used(struct fixture *fix)
{
    uint64_t used_bytes;
    int64_t quota_bytes;

    assert_int_equal(files_usage(&fix->files, &fix->me, &used_bytes, &quota_bytes, &fix->err), 0);
    return used_bytes;
}

static void
test_what_an_upload_reserved_no_other_gets(void **state)
{
    struct fixture *fix = *state;
    struct files_claim one = {0}, two = {0};

    limit(fix, 10);
    assert_int_equal(begin(fix, "/a", 6, &one), ERR_NONE);
    assert_int_equal(begin(fix, "/b", 5, &two), ERR_QUOTA);
    assert_int_equal(put(fix, "/b", "12345"), ERR_QUOTA);
    assert_int_equal(begin(fix, "/b", 4, &two), ERR_NONE);
    assert_int_equal(reservations(fix), 2);
    assert_int_equal(used(fix), 0);
    assert_int_equal(end(fix, "/a", "123456", &one), ERR_NONE);
    assert_int_equal(end(fix, "/b", "1234", &two), ERR_NONE);
    assert_int_equal(used(fix), 10);
    assert_int_equal(reservations(fix), 0);
}

static void
test_an_upload_that_fails_gives_its_reservation_back(void **state)
{
    static const enum err_code CODES[] = {ERR_QUOTA, ERR_BUSY, ERR_UNAVAILABLE, ERR_IO};
    static const enum mem_call CALLS[] = {MEM_PUT, MEM_SYNC};
    struct fixture *fix = *state;
    size_t blobs = mem_backend_count(fix->backend);

    limit(fix, 30);
    assert_int_equal(put(fix, "/kept", "kept"), ERR_NONE);
    for (int i = 0; i < 8; i++) {
        struct files_claim one = {0};

        assert_int_equal(begin(fix, "/a", 20, &one), ERR_NONE);
        mem_backend_fail(fix->backend, CALLS[i % 2], 1, 1, CODES[i / 2]);
        assert_int_equal(end(fix, "/a", "bytes that are new..", &one), CODES[i / 2]);
        assert_int_equal(reservations(fix), 0);
        assert_int_equal(mem_backend_count(fix->backend), blobs + 1);
        assert_string_equal(what(fix, "/a"), "-");
        assert_string_equal(what(fix, "/kept"), "kept");
    }
    assert_int_equal(used(fix), 4);
}

static void
test_a_reservation_that_has_expired_counts_no_more_and_goes(void **state)
{
    struct fixture *fix = *state;
    struct files_claim one = {0}, two = {0};

    limit(fix, 10);
    assert_int_equal(begin(fix, "/a", 6, &one), ERR_NONE);
    test_db_script(fix->db, "update reservations set expires_at = now()");
    assert_int_equal(begin(fix, "/b", 7, &two), ERR_NONE);
    assert_int_equal(reservations(fix), 1);
    assert_int_equal(end(fix, "/a", "123456", &one), ERR_QUOTA);
    assert_int_equal(end(fix, "/b", "1234567", &two), ERR_NONE);
    assert_int_equal(used(fix), 7);
}

/* Half of its time has passed, which nobody waits for here. */
static void
let_half_pass(struct fixture *fix, struct files_claim *claim)
{
    test_db_script(fix->db, "update reservations set expires_at = now() + interval '140 seconds'");
    claim->quota.held_at_us -= INT64_C(151) * 1000000;
}

static void
test_an_upload_that_goes_on_prolongs_its_reservation(void **state)
{
    static const char SQL_LEFT[] =
        "select extract(epoch from expires_at - now())::bigint from reservations";
    struct fixture *fix = *state;
    struct files_claim claim = {0};
    int64_t before_us;

    limit(fix, 100);
    assert_int_equal(begin(fix, "/a", 60, &claim), ERR_NONE);
    assert_int_equal(files_take(&fix->files, &claim, 20, &fix->err), 0);
    let_half_pass(fix, &claim);
    before_us = claim.quota.held_at_us;
    assert_int_equal(files_take(&fix->files, &claim, 20, &fix->err), 0);
    assert_true(test_db_number(fix->db, SQL_LEFT) > 290);
    assert_true(claim.quota.held_at_us > before_us);
    assert_int_equal(claim.quota.held_bytes, 60);
    assert_int_equal(reservations(fix), 1);
    files_release(&fix->files, &claim);
    assert_int_equal(reservations(fix), 0);
}

/* It had expired before, and somebody else has taken the room. */
static void
test_a_reservation_that_cannot_be_prolonged_ends_the_upload(void **state)
{
    struct fixture *fix = *state;
    struct files_claim claim = {0}, other = {0};

    limit(fix, 100);
    assert_int_equal(begin(fix, "/a", 60, &claim), ERR_NONE);
    test_db_script(fix->db, "update reservations set expires_at = now() - interval '1 second'");
    assert_int_equal(begin(fix, "/b", 60, &other), ERR_NONE);
    claim.quota.held_at_us -= INT64_C(301) * 1000000;
    assert_int_equal(outcome(fix, files_take(&fix->files, &claim, 20, &fix->err)), ERR_QUOTA);
    files_release(&fix->files, &claim);
    assert_int_equal(reservations(fix), 1);
    files_release(&fix->files, &other);
}

static void
test_only_what_a_file_grows_by_is_reserved(void **state)
{
    struct fixture *fix = *state;
    struct files_claim one = {0}, two = {0};

    limit(fix, 10);
    assert_int_equal(put(fix, "/a", "12345678"), ERR_NONE);
    assert_int_equal(begin(fix, "/a", 10, &one), ERR_NONE);
    assert_int_equal(begin(fix, "/b", 1, &two), ERR_QUOTA);
    assert_int_equal(begin(fix, "/a", 8, &two), ERR_NONE);
    assert_int_equal(reservations(fix), 1);
    assert_int_equal(end(fix, "/a", "1234567890", &one), ERR_NONE);
    assert_int_equal(end(fix, "/a", "87654321", &two), ERR_NONE);
    assert_int_equal(used(fix), 8);
    assert_int_equal(reservations(fix), 0);
}

static void
test_an_upload_without_a_length_reserves_in_steps(void **state)
{
    enum { MIB = 1 << 20 };
    struct fixture *fix = *state;
    struct files_claim one = {0}, two = {0};

    limit(fix, 3 * MIB);
    assert_int_equal(begin(fix, "/a", UINT64_MAX, &one), ERR_NONE);
    assert_int_equal(reservations(fix), 0);
    assert_int_equal(outcome(fix, files_take(&fix->files, &one, 1000, &fix->err)), ERR_NONE);
    assert_int_equal(one.quota.held_bytes, MIB + 1000);
    assert_int_equal(begin(fix, "/b", 2 * MIB, &two), ERR_QUOTA);
    assert_int_equal(begin(fix, "/b", MIB, &two), ERR_NONE);
    for (int i = 1; i < 2048; i++)
        assert_int_equal(outcome(fix, files_take(&fix->files, &one, 1024, &fix->err)), ERR_NONE);
    assert_int_equal(one.quota.held_bytes, 2 * MIB);
    assert_int_equal(outcome(fix, files_take(&fix->files, &one, 1025, &fix->err)), ERR_QUOTA);
    files_release(&fix->files, &one);
    files_release(&fix->files, &two);
    assert_int_equal(reservations(fix), 0);
}

static void
test_a_copy_takes_nothing_that_is_reserved(void **state)
{
    struct fixture *fix = *state;
    struct path source = path_of(fix, "/a"), target = path_of(fix, "/b");
    struct files_transfer transfer = {
        .kind = FILES_COPY, .source = &source, .target = &target, .mtime_us = -1};
    struct files_claim one = {0};
    struct node node;
    bool created;

    limit(fix, 10);
    assert_int_equal(put(fix, "/a", "1234"), ERR_NONE);
    assert_int_equal(begin(fix, "/c", 3, &one), ERR_NONE);
    assert_int_equal(
        outcome(fix, files_transfer(&fix->files, &fix->me, &transfer, &node, &created, &fix->err)),
        ERR_QUOTA);
    files_release(&fix->files, &one);
    assert_int_equal(
        outcome(fix, files_transfer(&fix->files, &fix->me, &transfer, &node, &created, &fix->err)),
        ERR_NONE);
    assert_int_equal(used(fix), 8);
}

static void
test_what_is_in_the_trash_counts_until_it_is_purged(void **state)
{
    struct fixture *fix = *state;
    uint64_t purged;

    limit(fix, 10);
    assert_int_equal(put(fix, "/a", "1234567"), ERR_NONE);
    assert_int_equal(removed(fix, "/a"), ERR_NONE);
    assert_int_equal(used(fix), 7);
    assert_int_equal(may_write(fix, "/b", 4), ERR_QUOTA);
    assert_int_equal(trash_empty(&fix->files, &fix->me, &purged, &fix->err), 0);
    assert_int_equal(used(fix), 0);
    assert_int_equal(may_write(fix, "/b", 10), ERR_NONE);
}

static uint64_t
queries_of_an_upload(struct fixture *fix, const char *text, const char *bytes)
{
    uint64_t before = metric_value(METRIC_DB_QUERIES);
    struct files_claim claim = {0};

    assert_int_equal(begin(fix, text, strlen(bytes), &claim), ERR_NONE);
    assert_int_equal(end(fix, text, bytes, &claim), ERR_NONE);
    return metric_value(METRIC_DB_QUERIES) - before;
}

static void
test_where_no_quota_is_in_force_nothing_more_is_asked(void **state)
{
    struct fixture *fix = *state;
    uint64_t without = queries_of_an_upload(fix, "/a", "queries: one");

    fix->config.enable_user_storage_quotas = true;
    assert_int_equal(queries_of_an_upload(fix, "/b", "queries: two"), without);
    limit(fix, 1000);
    assert_int_equal(queries_of_an_upload(fix, "/c", "queries: six"), without + 3);
}

enum { RACERS = 8, FITTING = 3 };

struct racer {
    struct fixture *fix;
    struct path path;
    pthread_barrier_t *gate;
    struct files_claim claim;
    struct err err;
};

static void *
race(void *arg)
{
    struct racer *racer = arg;

    pthread_barrier_wait(racer->gate);
    (void)files_may_write(&racer->fix->files, &racer->fix->me, &racer->path, 100, NULL,
                          &racer->claim, &racer->err);
    return NULL;
}

static void
test_of_many_at_the_edge_as_many_begin_as_fit(void **state)
{
    struct fixture *fix = *state;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    pthread_barrier_t gate;
    char name[] = "/r0";

    limit(fix, FITTING * 100 + 99);
    pthread_barrier_init(&gate, NULL, RACERS);
    for (int round = 0; round < 10; round++) {
        int began = 0;

        for (int i = 0; i < RACERS; i++) {
            name[2] = (char)('0' + i);
            racers[i] = (struct racer){.fix = fix, .path = path_of(fix, name), .gate = &gate};
            assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            began += racers[i].err.code == ERR_NONE;
            if (racers[i].err.code != ERR_NONE)
                assert_int_equal(racers[i].err.code, ERR_QUOTA);
        }
        assert_int_equal(began, FITTING);
        for (int i = 0; i < RACERS; i++)
            files_release(&fix->files, &racers[i].claim);
        assert_int_equal(reservations(fix), 0);
    }
    pthread_barrier_destroy(&gate);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_what_an_upload_reserved_no_other_gets),
        SERVICE_TEST(test_an_upload_that_fails_gives_its_reservation_back),
        SERVICE_TEST(test_a_reservation_that_has_expired_counts_no_more_and_goes),
        SERVICE_TEST(test_an_upload_that_goes_on_prolongs_its_reservation),
        SERVICE_TEST(test_a_reservation_that_cannot_be_prolonged_ends_the_upload),
        SERVICE_TEST(test_only_what_a_file_grows_by_is_reserved),
        SERVICE_TEST(test_an_upload_without_a_length_reserves_in_steps),
        SERVICE_TEST(test_a_copy_takes_nothing_that_is_reserved),
        SERVICE_TEST(test_what_is_in_the_trash_counts_until_it_is_purged),
        SERVICE_TEST(test_where_no_quota_is_in_force_nothing_more_is_asked),
        SERVICE_TEST(test_of_many_at_the_edge_as_many_begin_as_fit),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
