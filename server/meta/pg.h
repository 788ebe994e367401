/*
 * pg: statements and their rows on one PostgreSQL connection; SQLSTATE into err code.
 * Statements are prepared once per connection, keyed by the address of their text (a static
 * const char SQL_...[]), sent and answered in binary. A connection is used by one thread at a
 * time. ERR_UNAVAILABLE: the connection is gone; ERR_BUSY: deadlock or serialisation, the whole
 * transaction may be repeated; ERR_EXISTS: unique violation; ERR_QUOTA: the database's disk is
 * full.
 */
#ifndef OXI_META_PG_H
#define OXI_META_PG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/pg_params.h"
#include "storage/digest.h"

struct pg_conn;

/* conninfo as libpq takes it. Sets application_name, UTF8, and timezone UTC. */
int pg_connect(const char *conninfo, struct pg_conn **ret_conn, struct err *err);
void pg_close(struct pg_conn *conn); /* NULL is welcome */
bool pg_is_broken(const struct pg_conn *conn);

struct pg_rows;
void pg_rows_free(struct pg_rows **rows);
#define AUTO_ROWS __attribute__((cleanup(pg_rows_free)))

/* params may be NULL. ret_rows may be NULL when the rows do not matter. */
int pg_run(struct pg_conn *conn, const char *sql, const struct pg_params *params,
           struct pg_rows **ret_rows, struct err *err);
/* Several statements without parameters, separated by ';' (migrations). */
int pg_script(struct pg_conn *conn, const char *sql, struct err *err);

/*
 * Transactions, for pg_pool and migrate. BEGIN travels with the first statement. A commit that
 * fails with the connection broken may have happened or not. A rollback that fails breaks the
 * connection; pg_rollback() is harmless outside of a transaction.
 */
void pg_begin(struct pg_conn *conn);
int pg_commit(struct pg_conn *conn, struct err *err);
void pg_rollback(struct pg_conn *conn);
/* The last statement failed by deadlock or serialisation: the transaction may be repeated. */
bool pg_may_repeat(const struct pg_conn *conn);

int pg_count(const struct pg_rows *rows);        /* rows */
int64_t pg_affected(const struct pg_rows *rows); /* INSERT, UPDATE, DELETE */
bool pg_is_null(const struct pg_rows *rows, int row, int col);
int64_t pg_int(const struct pg_rows *rows, int row, int col);  /* int2, int4, int8, bool; null: 0 */
char *pg_text(const struct pg_rows *rows, int row, int col);   /* borrowed, terminated */
int64_t pg_time(const struct pg_rows *rows, int row, int col); /* timestamptz -> us since 1970 */
struct digest pg_digest(const struct pg_rows *rows, int row, int col); /* 32 bytes */

#endif
