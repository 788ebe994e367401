#include "support/test_db.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "meta/migrate.h"

enum { WAIT_MS = 10000 };

static struct {
    char *dir;
    struct pg_embedded *embedded;
    unsigned schema_count;
} server;

/* --- the server --- */

int
test_db_start(void **state)
{
    struct err err = {0};

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    server.dir = test_dir_make();
    if (rand_start(&err) < 0 || pg_embedded_start(server.dir, &server.embedded, &err) < 0) {
        fprintf(stderr, "test database: %s\n", err.msg);
        return -1;
    }
    return 0;
}

int
test_db_stop(void **state)
{
    (void)state;
    pg_embedded_stop(server.embedded);
    test_dir_remove(server.dir);
    return 0;
}

/* --- databases --- */

static void
run_on_server(const char *sql)
{
    struct pg_conn *conn = NULL;
    struct err err = {0};

    if (pg_connect(pg_embedded_conninfo(server.embedded), &conn, &err) < 0 ||
        pg_script(conn, sql, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
    pg_close(conn);
}

struct test_db *
test_db_new(bool migrated)
{
    struct test_db *db = mem_zalloc(sizeof(*db));
    struct err err = {0};
    char sql[64];
    int applied;

    snprintf(sql, sizeof(sql), "create schema test_%u", ++server.schema_count);
    run_on_server(sql);
    snprintf(db->conninfo, sizeof(db->conninfo), "%s options='-c search_path=test_%u'",
             pg_embedded_conninfo(server.embedded), server.schema_count);
    if (migrated && migrate_run(db->conninfo, &applied, &err) < 0)
        fail_msg("%s", err.msg);
    db->pool = pg_pool_new(db->conninfo, 8, WAIT_MS);
    return db;
}

void
test_db_free(struct test_db *db)
{
    pg_pool_free(db->pool);
    free(db);
}

int
test_db_open(void **state)
{
    *state = test_db_new(true);
    return 0;
}

int
test_db_close(void **state)
{
    test_db_free(*state);
    return 0;
}

/* --- asking --- */

static int
work_script(struct pg_conn *conn, void *ctx, struct err *err)
{
    return pg_script(conn, ctx, err);
}

void
test_db_script(struct test_db *db, const char *sql)
{
    struct err err = {0};

    if (pg_pool_run(db->pool, work_script, (void *)sql, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
}

struct number {
    const char *sql;
    int64_t value;
};

static int
work_number(struct pg_conn *conn, void *ctx, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;
    struct number *number = ctx;

    if (pg_run(conn, number->sql, NULL, &rows, err) < 0)
        return -1;
    assert_int_equal(pg_count(rows), 1);
    number->value = pg_int(rows, 0, 0);
    return 0;
}

int64_t
test_db_number(struct test_db *db, const char *sql)
{
    struct number number = {sql, 0};
    struct err err = {0};

    if (pg_pool_run(db->pool, work_number, &number, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
    return number.value;
}
