/* Giving back chunks by proof, and condemning blobs. */
#include <pthread.h>

#include "base/clock.h"
#include "uploads.h"

static const char SQL_CHUNKS[] = "select count(*) from chunks";
static const char SQL_SWEPT[] = "select count(*) from swept";
static const char SQL_LOOSE[] = "select count(*) from chunks where unreferenced_at is not null";

/* An upload whose file was deleted: its chunks wait to be collected. */
static void
leave_chunks(struct test_db *db, struct chunk_index *index, struct upload *upload, const int *seeds,
             size_t count)
{
    make_upload(upload, seeds, count);
    attach(db, upload);
    unref(db, upload);
    collect_contents(index, 0);
}

/* --- proof --- */

static void
test_a_chunk_whose_count_is_wrong_survives_and_is_counted_again(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload one, two;
    struct chunk_drift drift;

    make_upload(&one, (int[]){1, 2, 1, 2}, 4);
    make_upload(&two, (int[]){2, 3}, 2);
    attach(db, &one);
    attach(db, &two);
    test_db_script(db, "update chunks set refs = 0, unreferenced_at = now() - interval '1 day'");
    assert_int_equal(collect_all(index, 0), 0);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 3);
    assert_int_equal(test_db_number(db, SQL_LOOSE), 0);
    drift = verify(db, false);
    assert_int_equal(drift.chunks_wrong, 0);
    assert_int_equal(drift.chunks_missing, 0);
}

static void
test_of_wrong_and_right_counts_only_the_right_ones_are_collected(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload kept, gone;
    int seeds[15];

    for (int i = 0; i < 15; i++)
        seeds[i] = i;
    make_upload(&kept, seeds, 8);
    attach(db, &kept);
    leave_chunks(db, index, &gone, seeds + 4, 11);
    test_db_script(db, "update chunks set refs = 0, unreferenced_at = now() where refs = 1");
    assert_int_equal(collect_all(index, 0), 7);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 8);
    assert_int_equal(verify(db, false).chunks_wrong, 0);
    assert_int_equal(verify(db, false).chunks_missing, 0);
}

static void
test_a_chunk_that_is_attached_after_its_proof_is_not_collected(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct proved_chunk proved[PROVED_AT_ONCE];
    struct upload gone, next;

    leave_chunks(db, index, &gone, (int[]){1, 2, 3}, 3);
    assert_int_equal(prove(index, 0, proved), 3);
    make_upload(&next, (int[]){2, 4}, 2);
    attach(db, &next);
    assert_int_equal(collect_proved(index, proved, 3), 2);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 2);
    assert_int_equal(verify(db, false).chunks_missing, 0);
}

/* The count is 0 again, and the moment may be the same one. */
static void
test_a_proof_does_not_outlive_an_attach_that_was_undone(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct proved_chunk proved[PROVED_AT_ONCE];
    struct upload gone, next;

    leave_chunks(db, index, &gone, (int[]){1}, 1);
    assert_int_equal(prove(index, 0, proved), 1);
    make_upload(&next, (int[]){1, 2}, 2);
    attach(db, &next);
    test_db_script(db, "update chunks set refs = 0, unreferenced_at = '2000-01-01'");
    assert_int_equal(collect_proved(index, proved, 1), 0);
    assert_int_equal(collect_all(index, 0), 0); /* a content names it: its count is put right */
    assert_int_equal(test_db_number(db, SQL_LOOSE), 0);
}

static void
test_a_chunk_that_is_leased_after_its_proof_is_not_collected(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct proved_chunk proved[PROVED_AT_ONCE];
    struct upload gone, next;

    leave_chunks(db, index, &gone, (int[]){1, 2}, 2);
    assert_int_equal(prove(index, 0, proved), 2);
    assert_int_equal(lease_upload(index, &next, (int[]){1}, 1), 1);
    assert_int_equal(collect_proved(index, proved, 2), 1);
    attach(db, &next);
    assert_int_equal(verify(db, false).chunks_missing, 0);
}

static void
test_an_attach_under_way_is_not_waited_for_and_not_overlooked(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct proved_chunk proved[PROVED_AT_ONCE];
    struct upload gone, next;
    struct pg_conn *conn = NULL;
    struct err err = {0};

    leave_chunks(db, index, &gone, (int[]){1, 2}, 2);
    make_upload(&next, (int[]){1}, 1);
    assert_int_equal(pg_connect(db->conninfo, &conn, &err), 0);
    pg_begin(conn);
    assert_int_equal(work_attach(conn, &next, &err), 0);
    assert_int_equal(prove(index, 0, proved), 2); /* as far as anybody can see */
    assert_int_equal(collect_proved(index, proved, 2), 1);
    assert_int_equal(pg_commit(conn, &err), 0);
    pg_close(conn);
    assert_int_equal(collect_proved(index, proved, 2), 0);
    assert_int_equal(verify(db, false).chunks_missing, 0);
}

/* --- condemned blobs --- */

static struct blob_key
key_of(const struct upload *upload, size_t i)
{
    return (struct blob_key){upload->written[i].id, upload->written[i].generation};
}

struct sweeper {
    struct chunk_index *index;
    struct blob_key key;
    bool named;
    int rc;
    struct err err;
};

static void *
condemn(void *arg)
{
    struct sweeper *sweeper = arg;

    sweeper->rc =
        chunk_index_condemn(sweeper->index, &sweeper->key, 1, &sweeper->named, &sweeper->err);
    return NULL;
}

static const char SQL_BEGIN_CHANGE[] = "select pg_current_xact_id()::text::bigint";

/* A registering transaction that holds its space and has got no further. */
static struct pg_conn *
begin_registering(struct test_db *db)
{
    struct pg_conn *conn = NULL;
    struct err err = {0};

    assert_int_equal(pg_connect(db->conninfo, &conn, &err), 0);
    pg_begin(conn);
    assert_int_equal(pg_run(conn, SQL_BEGIN_CHANGE, NULL, NULL, &err), 0);
    return conn;
}

static void
wait_until_condemned(struct test_db *db)
{
    int64_t deadline_us = clock_mono_us() + 30 * 1000000;

    while (test_db_number(db, SQL_SWEPT) == 0)
        assert_true(clock_mono_us() < deadline_us);
}

static void
test_a_condemned_blob_is_not_registered(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload, again;
    struct sweeper sweeper = {.index = index};
    struct err err = {0};

    make_upload(&upload, (int[]){1, 2}, 2);
    sweeper.key = key_of(&upload, 1);
    condemn(&sweeper);
    assert_int_equal(sweeper.rc, 0);
    assert_false(sweeper.named);
    assert_int_equal(pg_pool_transact(db->pool, work_attach, &upload, NULL, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 0);
    make_upload(&again, (int[]){1, 2}, 2); /* the same chunks, other blobs */
    attach(db, &again);
    assert_int_equal(again.loser_count, 0);
    sweeper.key = key_of(&again, 0);
    condemn(&sweeper);
    assert_true(sweeper.named);
}

static void
test_a_sweep_waits_for_an_upload_that_had_not_seen_it(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct pg_conn *conn = begin_registering(db);
    struct sweeper sweeper = {.index = index};
    struct upload upload;
    struct err err = {0};
    pthread_t thread;

    make_upload(&upload, (int[]){1, 2}, 2);
    sweeper.key = key_of(&upload, 0);
    assert_int_equal(work_attach(conn, &upload, &err), 0);
    pthread_create(&thread, NULL, condemn, &sweeper);
    wait_until_condemned(db);
    assert_int_equal(pg_commit(conn, &err), 0);
    pthread_join(thread, NULL);
    pg_close(conn);
    assert_int_equal(sweeper.rc, 0);
    assert_true(sweeper.named);
}

static void
test_an_upload_that_holds_its_space_when_its_blob_is_swept_fails(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct pg_conn *conn = begin_registering(db);
    struct sweeper sweeper = {.index = index};
    struct upload upload;
    struct err err = {0};
    pthread_t thread;

    make_upload(&upload, (int[]){1, 2}, 2);
    sweeper.key = key_of(&upload, 0);
    pthread_create(&thread, NULL, condemn, &sweeper);
    wait_until_condemned(db);
    assert_int_equal(work_attach(conn, &upload, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    pg_rollback(conn);
    pthread_join(thread, NULL);
    pg_close(conn);
    assert_int_equal(sweeper.rc, 0);
    assert_false(sweeper.named);
}

static void
test_a_sweep_does_not_wait_for_ever(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct pg_conn *conn = begin_registering(db);
    struct sweeper sweeper = {.index = index};
    struct upload upload;

    make_upload(&upload, (int[]){1}, 1);
    sweeper.key = key_of(&upload, 0);
    condemn(&sweeper);
    pg_rollback(conn);
    pg_close(conn);
    assert_int_equal(sweeper.rc, -1);
    assert_int_equal(sweeper.err.code, ERR_BUSY);
    condemn(&sweeper);
    assert_int_equal(sweeper.rc, 0);
}

static void
test_what_was_condemned_is_forgotten_after_a_day(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct sweeper sweeper = {.index = index};
    struct upload upload;

    make_upload(&upload, (int[]){1, 2, 3}, 3);
    for (size_t i = 0; i < 3; i++) {
        sweeper.key = key_of(&upload, i);
        condemn(&sweeper);
        assert_int_equal(sweeper.rc, 0);
        if (i == 1)
            test_db_script(db, "update swept set at = now() - interval '25 hours'");
    }
    assert_int_equal(test_db_number(db, SQL_SWEPT), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_db_open, test_db_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_chunk_whose_count_is_wrong_survives_and_is_counted_again),
        TEST(test_of_wrong_and_right_counts_only_the_right_ones_are_collected),
        TEST(test_a_chunk_that_is_attached_after_its_proof_is_not_collected),
        TEST(test_a_proof_does_not_outlive_an_attach_that_was_undone),
        TEST(test_a_chunk_that_is_leased_after_its_proof_is_not_collected),
        TEST(test_an_attach_under_way_is_not_waited_for_and_not_overlooked),
        TEST(test_a_condemned_blob_is_not_registered),
        TEST(test_a_sweep_waits_for_an_upload_that_had_not_seen_it),
        TEST(test_an_upload_that_holds_its_space_when_its_blob_is_swept_fails),
        TEST(test_a_sweep_does_not_wait_for_ever),
        TEST(test_what_was_condemned_is_forgotten_after_a_day),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
