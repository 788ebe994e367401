#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/test_db.h"

/* --- values --- */

static struct pg_conn *
connect_to(struct test_db *db)
{
    struct pg_conn *conn = NULL;
    struct err err = {0};

    if (pg_connect(db->conninfo, &conn, &err) < 0)
        fail_msg("%s", err.msg);
    return conn;
}

static struct pg_rows *
run(struct pg_conn *conn, const char *sql, const struct pg_params *params)
{
    struct pg_rows *rows = NULL;
    struct err err = {0};

    if (pg_run(conn, sql, params, &rows, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
    return rows;
}

static void
test_values_come_back_as_they_were_sent(void **state)
{
    static const char SQL[] = "select $1::bigint, $2::boolean, $3::text, $4::bytea, $5::bytea,"
                              " $6::timestamptz, $7::bigint, $8::text, $9::bigint, -3::smallint,"
                              " -70000::integer";
    struct pg_conn *conn = connect_to(*state);
    struct digest digest = digest_of("x", 1);
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, INT64_MIN);
    pg_add_bool(&params, true);
    pg_add_text(&params, "a\u00e4\U0001f600'\\");
    pg_add_bytes(&params, "\0\1\377", 3);
    pg_add_digest(&params, &digest);
    pg_add_time(&params, INT64_C(-1234567890123456));
    pg_add_null(&params);
    pg_add_text(&params, NULL);
    pg_add_int(&params, INT64_MAX);
    rows = run(conn, SQL, &params);
    assert_int_equal(pg_int(rows, 0, 0), INT64_MIN);
    assert_int_equal(pg_int(rows, 0, 1), 1);
    assert_string_equal(pg_text(rows, 0, 2), "a\u00e4\U0001f600'\\");
    digest = pg_digest(rows, 0, 4);
    assert_memory_equal(digest.bytes, digest_of("x", 1).bytes, DIGEST_BYTES);
    assert_int_equal(pg_time(rows, 0, 5), INT64_C(-1234567890123456));
    assert_true(pg_is_null(rows, 0, 6));
    assert_true(pg_is_null(rows, 0, 7));
    assert_int_equal(pg_int(rows, 0, 8), INT64_MAX);
    assert_int_equal(pg_int(rows, 0, 9), -3);
    assert_int_equal(pg_int(rows, 0, 10), -70000);
    pg_close(conn);
}

static void
test_arrays_arrive_in_order_also_empty_ones(void **state)
{
    static const char SQL[] =
        "select array_to_string($1::bigint[], ','), array_to_string($2::text[], '|'),"
        " cardinality($3::bytea[]), encode(($4::bytea[])[2], 'hex')";
    struct pg_conn *conn = connect_to(*state);
    struct digest digests[] = {digest_of("a", 1), digest_of("b", 1)};
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    char hex[DIGEST_HEX_SIZE];

    pg_add_int_array(&params, (int64_t[]){3, -1, 2}, 3);
    pg_add_text_array(&params, (char *[]){"x,y", "", "\u00fc"}, 3);
    pg_add_digest_array(&params, NULL, 0);
    pg_add_digest_array(&params, digests, 2);
    rows = run(conn, SQL, &params);
    assert_string_equal(pg_text(rows, 0, 0), "3,-1,2");
    assert_string_equal(pg_text(rows, 0, 1), "x,y||\u00fc");
    assert_int_equal(pg_int(rows, 0, 2), 0);
    digest_hex(hex, &digests[1]);
    assert_string_equal(pg_text(rows, 0, 3), hex);
    pg_close(conn);
}

static void
test_the_session_keeps_its_promises(void **state)
{
    struct test_db db = {.pool = NULL};
    struct pg_conn *conn;
    AUTO_ROWS struct pg_rows *rows = NULL;

    snprintf(db.conninfo, sizeof(db.conninfo), "%.200s options='%s'",
             ((struct test_db *)*state)->conninfo,
             "-c synchronous_commit=off -c timezone=Asia/Tokyo");
    conn = connect_to(&db);
    rows = run(conn,
               "select current_setting('synchronous_commit'), current_setting('timezone'),"
               " current_setting('client_encoding'), current_setting('application_name')",
               NULL);
    assert_string_equal(pg_text(rows, 0, 0), "on");
    assert_string_equal(pg_text(rows, 0, 1), "UTC");
    assert_string_equal(pg_text(rows, 0, 2), "UTF8");
    assert_string_equal(pg_text(rows, 0, 3), "oxicloudd");
    pg_close(conn);
}

/* --- errors --- */

static void
test_sqlstates_become_codes(void **state)
{
    static const struct {
        const char *state;
        enum err_code code;
    } table[] = {
        {"40P01", ERR_BUSY},      {"40001", ERR_BUSY},        {"23505", ERR_EXISTS},
        {"53100", ERR_QUOTA},     {"53200", ERR_UNAVAILABLE}, {"23514", ERR_INTERNAL},
        {"54000", ERR_TOO_LARGE}, {"57014", ERR_UNAVAILABLE}, {"XX001", ERR_CORRUPT},
        {"23503", ERR_CONFLICT},  {"58030", ERR_IO},
    };
    struct pg_conn *conn = connect_to(*state);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct err err = {0};
        char sql[128];

        snprintf(sql, sizeof(sql), "do $$ begin raise exception 'no' using errcode = '%s'; end $$",
                 table[i].state);
        assert_int_equal(pg_script(conn, sql, &err), -1);
        assert_int_equal(err.code, table[i].code);
        assert_non_null(strstr(err.msg, table[i].state));
        assert_false(pg_is_broken(conn));
        assert_int_equal(pg_may_repeat(conn), table[i].code == ERR_BUSY);
    }
    pg_close(conn);
}

static void
test_a_statement_that_fails_can_be_run_again(void **state)
{
    static const char SQL[] = "select 10 / $1::bigint";
    struct pg_conn *conn = connect_to(*state);

    for (int64_t i = 0; i < 3; i++) {
        AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
        AUTO_ROWS struct pg_rows *rows = NULL;
        struct err err = {0};

        pg_add_int(&params, i);
        assert_int_equal(pg_run(conn, SQL, &params, &rows, &err), i == 0 ? -1 : 0);
        if (i > 0)
            assert_int_equal(pg_int(rows, 0, 0), 10 / i);
    }
    pg_close(conn);
}

static void
test_a_statement_that_cannot_be_prepared_says_so(void **state)
{
    static const char SQL[] = "select nonsense from nowhere";
    struct pg_conn *conn = connect_to(*state);
    struct err err = {0};

    pg_begin(conn);
    assert_int_equal(pg_run(conn, SQL, NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_non_null(strstr(err.msg, "nowhere"));
    pg_rollback(conn);
    assert_false(pg_is_broken(conn));
    pg_rows_free(&(struct pg_rows *){run(conn, "select 1", NULL)});
    pg_close(conn);
}

static void
test_a_terminated_backend_breaks_the_connection(void **state)
{
    static const char SQL[] = "select pg_terminate_backend(pg_backend_pid()), pg_sleep(10)";
    struct pg_conn *conn = connect_to(*state);
    struct err err = {0};

    assert_int_equal(pg_run(conn, SQL, NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_true(pg_is_broken(conn));
    assert_int_equal(pg_run(conn, "select 1", NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    pg_close(conn);
}

/* --- pool --- */

struct script {
    const char *first;
    const char *second;
    int fail_after; /* 1: after first */
    int run_count;
    const char *once; /* run in the first try only, after `first` */
};

static int
work_script(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct script *script = ctx;

    script->run_count++;
    if (pg_run(conn, script->first, NULL, NULL, err) < 0)
        return -1;
    if (script->run_count == 1 && script->once != NULL &&
        pg_run(conn, script->once, NULL, NULL, err) < 0)
        return -1;
    if (script->fail_after == 1)
        return err_set(err, ERR_INVALID, "by wish");
    return script->second == NULL ? 0 : pg_run(conn, script->second, NULL, NULL, err);
}

static const char SQL_ADD[] = "insert into t values (1)";
static const char SQL_DIE[] = "select pg_terminate_backend(pg_backend_pid()), pg_sleep(10)";
static const char SQL_ROWS[] = "select count(*) from t";

static void
test_a_transaction_commits_or_leaves_nothing(void **state)
{
    struct test_db *db = *state;
    struct script good = {.first = SQL_ADD, .second = SQL_ADD};
    struct script bad = {.first = SQL_ADD, .fail_after = 1};
    enum pg_outcome outcome;
    struct err err = {0};

    test_db_script(db, "create table t (x bigint)");
    assert_int_equal(pg_pool_transact(db->pool, work_script, &good, &outcome, &err), 0);
    assert_int_equal(outcome, PG_COMMITTED);
    assert_int_equal(pg_pool_transact(db->pool, work_script, &bad, &outcome, &err), -1);
    assert_int_equal(outcome, PG_ROLLED_BACK);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(bad.run_count, 1);
    assert_int_equal(test_db_number(db, SQL_ROWS), 2);
}

static int
work_ignoring(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct err ignored = {0};

    (void)ctx;
    if (pg_run(conn, SQL_ADD, NULL, NULL, err) < 0)
        return -1;
    (void)pg_script(conn, "select 1 / 0", &ignored);
    return 0;
}

static void
test_a_failure_that_was_ignored_is_not_committed(void **state)
{
    struct test_db *db = *state;
    enum pg_outcome outcome;
    struct err err = {0};

    test_db_script(db, "create table t (x bigint)");
    assert_int_equal(pg_pool_transact(db->pool, work_ignoring, NULL, &outcome, &err), -1);
    assert_int_equal(outcome, PG_ROLLED_BACK);
    assert_int_equal(test_db_number(db, SQL_ROWS), 0);
}

static void
test_a_connection_lost_before_commit_is_tried_again(void **state)
{
    struct test_db *db = *state;
    struct script script = {.first = SQL_ADD, .once = SQL_DIE};
    enum pg_outcome outcome;
    struct err err = {0};

    test_db_script(db, "create table t (x bigint)");
    assert_int_equal(pg_pool_transact(db->pool, work_script, &script, &outcome, &err), 0);
    assert_int_equal(outcome, PG_COMMITTED);
    assert_int_equal(script.run_count, 2);
    assert_int_equal(test_db_number(db, SQL_ROWS), 1);
}

static void
test_a_connection_lost_in_commit_is_unknown(void **state)
{
    struct test_db *db = *state;
    struct script script = {.first = SQL_ADD};
    enum pg_outcome outcome;
    struct err err = {0};

    test_db_script(db, "create table t (x bigint);"
                       "create function die() returns trigger language plpgsql as $$ begin"
                       "  perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10);"
                       "  return null; end $$;"
                       "create constraint trigger dies after insert on t deferrable initially"
                       "  deferred for each row execute function die()");
    assert_int_equal(pg_pool_transact(db->pool, work_script, &script, &outcome, &err), -1);
    assert_int_equal(outcome, PG_UNKNOWN);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(script.run_count, 1);
    assert_int_equal(test_db_number(db, SQL_ROWS), 0);
}

/* Holds `left` connections at once, one inside the other. */
struct nest {
    struct pg_pool *pool;
    int left;
};

static int
work_nest(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct nest inner = *(struct nest *)ctx;

    if (pg_run(conn, "select 1", NULL, NULL, err) < 0)
        return -1;
    return --inner.left == 0 ? 0 : pg_pool_run(inner.pool, work_nest, &inner, err);
}

static void
test_several_dead_connections_in_a_row_are_passed_over(void **state)
{
    struct test_db *db = *state;
    struct pg_conn *admin = connect_to(db);
    struct nest nest = {db->pool, 8};
    struct err err = {0};

    assert_int_equal(pg_pool_run(db->pool, work_nest, &nest, &err), 0);
    assert_int_equal(pg_script(admin,
                               "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                               "where datname = current_database() and pid <> pg_backend_pid()",
                               &err),
                     0);
    assert_int_equal(pg_pool_ping(db->pool, &err), 0);
    assert_int_equal(pg_pool_run(db->pool, work_nest, &nest, &err), 0);
    pg_close(admin);
}

static void
test_a_pool_that_is_used_up_is_busy(void **state)
{
    struct test_db *db = *state;
    struct pg_pool *pool = pg_pool_new(db->conninfo, 2, 100);
    struct nest fits = {pool, 2};
    struct nest nest = {pool, 3};
    struct err err = {0};

    assert_int_equal(pg_pool_run(pool, work_nest, &fits, &err), 0);
    assert_int_equal(pg_pool_run(pool, work_nest, &nest, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    pg_pool_free(pool);
}

static void
test_no_database_is_unavailable_in_time(void **state)
{
    struct pg_pool *pool = pg_pool_new("host=/nonexistent", 2, 500);
    int64_t begun_us = clock_mono_us();
    struct err err = {0};

    (void)state;
    assert_int_equal(pg_pool_ping(pool, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_in_range(clock_mono_us() - begun_us, 500000, 5000000);
    pg_pool_free(pool);
}

/* --- deadlock --- */

struct rival {
    struct pg_pool *pool;
    pthread_barrier_t *barrier;
    const char *first;
    const char *second;
    int run_count;
    int result;
};

static int
work_rival(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct rival *rival = ctx;

    if (pg_run(conn, rival->first, NULL, NULL, err) < 0)
        return -1;
    if (rival->run_count++ == 0)
        pthread_barrier_wait(rival->barrier);
    return pg_run(conn, rival->second, NULL, NULL, err);
}

static void *
run_rival(void *arg)
{
    struct rival *rival = arg;
    struct err err = {0};

    rival->result = pg_pool_transact(rival->pool, work_rival, rival, NULL, &err);
    return NULL;
}

static void
test_a_deadlock_is_tried_again(void **state)
{
    static const char SQL_A[] = "update t set y = y + 1 where x = 1";
    static const char SQL_B[] = "update t set y = y + 1 where x = 2";
    struct test_db *db = *state;
    pthread_barrier_t barrier;
    struct rival rivals[] = {{db->pool, &barrier, SQL_A, SQL_B, 0, -1},
                             {db->pool, &barrier, SQL_B, SQL_A, 0, -1}};
    pthread_t threads[2];

    test_db_script(db, "create table t (x bigint, y bigint); insert into t values (1, 0), (2, 0)");
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_rival, &rivals[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(rivals[0].result, 0);
    assert_int_equal(rivals[1].result, 0);
    assert_int_equal(rivals[0].run_count + rivals[1].run_count, 3);
    assert_int_equal(test_db_number(db, "select sum(y)::bigint from t"), 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_db_open, test_db_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_values_come_back_as_they_were_sent),
        TEST(test_arrays_arrive_in_order_also_empty_ones),
        TEST(test_the_session_keeps_its_promises),
        TEST(test_sqlstates_become_codes),
        TEST(test_a_statement_that_fails_can_be_run_again),
        TEST(test_a_statement_that_cannot_be_prepared_says_so),
        TEST(test_a_terminated_backend_breaks_the_connection),
        TEST(test_a_transaction_commits_or_leaves_nothing),
        TEST(test_a_failure_that_was_ignored_is_not_committed),
        TEST(test_a_connection_lost_before_commit_is_tried_again),
        TEST(test_a_connection_lost_in_commit_is_unknown),
        TEST(test_several_dead_connections_in_a_row_are_passed_over),
        TEST(test_a_pool_that_is_used_up_is_busy),
        TEST(test_no_database_is_unavailable_in_time),
        TEST(test_a_deadlock_is_tried_again),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
