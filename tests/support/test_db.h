/*
 * test_db: a real PostgreSQL for unit tests. One private server a program, started by
 * pg_embedded in a temporary folder; one fresh, migrated schema a test (making a database takes
 * ten times as long).
 *
 *   cmocka_unit_test_setup_teardown(test_x, test_db_open, test_db_close), ...
 *   return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
 */
#ifndef OXI_SUPPORT_TEST_DB_H
#define OXI_SUPPORT_TEST_DB_H

#include <stdint.h>

#include "meta/pg_embedded.h"
#include "meta/pg_pool.h"
#include "support/test_dir.h"

int test_db_start(void **state);
int test_db_stop(void **state);

struct test_db {
    char conninfo[384];
    struct pg_pool *pool; /* of 8 connections */
};

/* *state becomes a struct test_db *. */
int test_db_open(void **state);
int test_db_close(void **state);

/* The same without the migrations and for tests that want more than one. */
struct test_db *test_db_new(bool migrated);
void test_db_free(struct test_db *db);

/* Runs SQL text, or ends the test. */
void test_db_script(struct test_db *db, const char *sql);
/* The number that a query of one row and column gives. sql: a literal, as for pg_run(). */
int64_t test_db_number(struct test_db *db, const char *sql);

#endif
