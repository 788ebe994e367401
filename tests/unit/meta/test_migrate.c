#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "meta/migrate.h"
#include "support/test_db.h"

static int
open_empty(void **state)
{
    *state = test_db_new(false);
    return 0;
}

static int
migrate(struct test_db *db, struct err *err)
{
    int applied_count;

    return migrate_run(db->conninfo, &applied_count, err) < 0 ? -1 : applied_count;
}

static void
test_each_migration_runs_once(void **state)
{
    struct test_db *db = *state;
    struct err err = {0};

    assert_int_equal(migrate(db, &err), migration_file_count);
    assert_int_equal(migrate(db, &err), 0);
    assert_int_equal(test_db_number(db, "select count(*) from schema_migrations"),
                     migration_file_count);
    assert_int_equal(test_db_number(db, "select count(*) from nodes"), 0);
}

static void
test_a_migration_that_was_edited_is_refused(void **state)
{
    struct test_db *db = *state;
    struct err err = {0};

    assert_int_equal(migrate(db, &err), migration_file_count);
    test_db_script(db, "update schema_migrations set checksum = '\\x00' where number = 1");
    assert_int_equal(migrate(db, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
}

static void
test_a_newer_database_is_refused(void **state)
{
    struct test_db *db = *state;
    struct err err = {0};

    assert_int_equal(migrate(db, &err), migration_file_count);
    test_db_script(db, "insert into schema_migrations values (9000, '9000_later', '')");
    assert_int_equal(migrate(db, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.msg, "newer"));
    assert_non_null(strstr(err.msg, "9000_later"));
}

static void
test_a_database_that_lacks_a_migration_in_between_is_refused(void **state)
{
    struct test_db *db = *state;
    struct err err = {0};

    assert_int_equal(migrate(db, &err), migration_file_count);
    test_db_script(db, "delete from schema_migrations where number = 2");
    assert_int_equal(migrate(db, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.msg, "0002_scrub"));
    assert_int_equal(test_db_number(db, "select count(*) from schema_migrations where number = 2"),
                     0);
}

static void
test_a_migration_that_fails_leaves_nothing(void **state)
{
    struct test_db *db = *state;
    struct err err = {0};

    test_db_script(db, "create table chunks (x bigint)"); /* in the way, after some of it ran */
    assert_int_equal(migrate(db, &err), -1);
    assert_non_null(strstr(err.msg, migration_files[0].name));
    assert_int_equal(test_db_number(db, "select count(*) from schema_migrations"), 0);
    test_db_script(db, "drop table chunks");
    assert_int_equal(migrate(db, &err), migration_file_count);
}

static void *
migrate_thread(void *arg)
{
    struct err err = {0};

    return (void *)(intptr_t)migrate(arg, &err);
}

static void
test_nodes_that_start_together_migrate_once(void **state)
{
    pthread_t threads[4];
    intptr_t total = 0;

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, migrate_thread, *state);
    for (int i = 0; i < 4; i++) {
        void *applied;

        pthread_join(threads[i], &applied);
        assert_true((intptr_t)applied >= 0);
        total += (intptr_t)applied;
    }
    assert_int_equal(total, migration_file_count);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_empty, test_db_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_migration_runs_once),
        TEST(test_a_migration_that_was_edited_is_refused),
        TEST(test_a_newer_database_is_refused),
        TEST(test_a_database_that_lacks_a_migration_in_between_is_refused),
        TEST(test_a_migration_that_fails_leaves_nothing),
        TEST(test_nodes_that_start_together_migrate_once),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
