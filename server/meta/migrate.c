/*
 * All nodes of an installation may start at once; whoever holds the advisory lock migrates, the
 * others find nothing left to do. The lock belongs to the session and goes with it.
 */
#include "meta/migrate.h"

#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "meta/pg.h"
#include "storage/digest.h"

static void
close_conn(struct pg_conn **conn)
{
    pg_close(*conn);
}

#define AUTO_CONN __attribute__((cleanup(close_conn)))

/* The number is ours: "oxicloud" in ASCII. */
static const char SQL_LOCK[] = "select pg_advisory_lock(x'6f7869636c6f7564'::bigint)";

static const char SQL_TABLE[] = "create table if not exists schema_migrations ("
                                " number integer primary key,"
                                " name text not null,"
                                " checksum bytea not null,"
                                " applied_at timestamptz not null default now())";

static const char SQL_APPLIED[] =
    "select number, name, checksum from schema_migrations order by number";

static const struct migration_file *
find_file(int64_t number)
{
    for (size_t i = 0; i < migration_file_count; i++)
        if (migration_files[i].number == number)
            return &migration_files[i];
    return NULL;
}

static struct digest
checksum_of(const struct migration_file *file)
{
    return digest_of(file->sql, strlen(file->sql));
}

static int
check_row(const struct pg_rows *rows, int row, struct err *err)
{
    const struct migration_file *file = find_file(pg_int(rows, row, 0));
    struct digest stored = pg_digest(rows, row, 2);
    struct digest known;

    if (file == NULL)
        return err_set(err, ERR_CONFLICT,
                       "the database is newer than this program: it has migration %s; start a "
                       "version that knows it",
                       pg_text(rows, row, 1));
    known = checksum_of(file);
    if (!digest_eq(&stored, &known))
        return err_set(err, ERR_CONFLICT,
                       "migration %s is not the one that made this database (%s)", file->name,
                       pg_text(rows, row, 1));
    return 0;
}

/* A migration is written for what all before it have made, so none is made up for later. */
static int
check_gaps(const struct pg_rows *rows, int64_t last, struct err *err)
{
    for (size_t i = 0; i < migration_file_count && migration_files[i].number <= last; i++)
        if ((int)i >= pg_count(rows) || pg_int(rows, (int)i, 0) != migration_files[i].number)
            return err_set(err, ERR_CONFLICT,
                           "the database has migration number %lld and not %s, which comes before "
                           "it: another program has changed it",
                           (long long)last, migration_files[i].name);
    return 0;
}

/* *ret_last: the number of the newest that has run. */
static int
check_applied(struct pg_conn *conn, int64_t *ret_last, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_APPLIED, NULL, &rows, err) < 0)
        return -1;
    *ret_last = 0;
    for (int row = 0; row < pg_count(rows); row++) {
        if (check_row(rows, row, err) < 0)
            return -1;
        *ret_last = pg_int(rows, row, 0);
    }
    return check_gaps(rows, *ret_last, err);
}

static const char SQL_REMEMBER[] =
    "insert into schema_migrations (number, name, checksum) values ($1::bigint, $2, $3)";

static int
run_steps(struct pg_conn *conn, const struct migration_file *file, const struct pg_params *params,
          struct err *err)
{
    if (pg_run(conn, SQL_REMEMBER, params, NULL, err) < 0)
        return -1;
    FAULT_POINT("migrate.noted");
    if (pg_script(conn, file->sql, err) < 0)
        return -1;
    FAULT_POINT("migrate.script");
    return pg_commit(conn, err);
}

static int
apply(struct pg_conn *conn, const struct migration_file *file, struct err *err)
{
    struct digest checksum = checksum_of(file);
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, file->number);
    pg_add_text(&params, file->name);
    pg_add_digest(&params, &checksum);
    pg_begin(conn);
    if (run_steps(conn, file, &params, err) < 0) {
        pg_rollback(conn);
        return err_wrap(err, "migration %s", file->name);
    }
    FAULT_POINT("migrate.committed");
    log_info("database migrated: migration=%s", file->name);
    return 0;
}

int
migrate_run(const char *conninfo, int *ret_applied_count, struct err *err)
{
    AUTO_CONN struct pg_conn *conn = NULL;
    int64_t last;
    int applied_count = 0;

    if (pg_connect(conninfo, &conn, err) < 0)
        return -1;
    if (pg_run(conn, SQL_LOCK, NULL, NULL, err) < 0 || pg_script(conn, SQL_TABLE, err) < 0 ||
        check_applied(conn, &last, err) < 0)
        return err_wrap(err, "migrate");
    FAULT_POINT("migrate.locked");
    for (size_t i = 0; i < migration_file_count; i++) {
        if (migration_files[i].number <= last)
            continue;
        if (apply(conn, &migration_files[i], err) < 0)
            return -1;
        applied_count++;
    }
    *ret_applied_count = applied_count;
    return 0;
}
