/*
 * pg: parameters, rows and statements on one PostgreSQL connection; SQLSTATE into err code.
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

#include "base/buf.h"
#include "base/err.h"
#include "storage/digest.h"

struct pg_conn;

/* conninfo as libpq takes it. Sets application_name, UTF8, and timezone UTC. */
int pg_connect(const char *conninfo, struct pg_conn **ret_conn, struct err *err);
void pg_close(struct pg_conn *conn); /* NULL is welcome */
bool pg_is_broken(const struct pg_conn *conn);

/* Values are borrowed until the statement has run; at most PG_PARAMS_MAX of them. */
enum { PG_PARAMS_MAX = 24, PG_ARRAYS_MAX_BYTES = 1 << 30 /* what the server takes in a value */ };
struct pg_params {
    int count;
    const char *values[PG_PARAMS_MAX];
    int lens[PG_PARAMS_MAX];
    unsigned types[PG_PARAMS_MAX];   /* type oids */
    uint64_t numbers[PG_PARAMS_MAX]; /* network order */
    struct buf arrays;               /* encoded arrays */
    size_t array_at[PG_PARAMS_MAX];  /* offset in arrays + 1, or 0 */
};

/* An owning local starts like this: whatever way the function is left, there is something to
 * release. */
#define PG_PARAMS_EMPTY                                                                            \
    {                                                                                              \
        .arrays = {.max = PG_ARRAYS_MAX_BYTES }                                                    \
    }
void pg_params_release(struct pg_params *params);
#define AUTO_PARAMS __attribute__((cleanup(pg_params_release)))

void pg_add_null(struct pg_params *params);
void pg_add_int(struct pg_params *params, int64_t value); /* bigint */
void pg_add_bool(struct pg_params *params, bool value);
void pg_add_text(struct pg_params *params, const char *value); /* NULL pointer: SQL null */
void pg_add_bytes(struct pg_params *params, const void *data, size_t len); /* bytea */
void pg_add_digest(struct pg_params *params, const struct digest *digest);
/* A moment in microseconds since 1970, as timestamptz. */
void pg_add_time(struct pg_params *params, int64_t at_us);
void pg_add_int_array(struct pg_params *params, const int64_t *values, size_t count);
void pg_add_digest_array(struct pg_params *params, const struct digest *values, size_t count);
void pg_add_text_array(struct pg_params *params, char *const *values, size_t count);

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
int64_t pg_int(const struct pg_rows *rows, int row, int col); /* int2, int4, int8, bool; null: 0 */
char *pg_text(const struct pg_rows *rows, int row, int col);         /* borrowed, terminated */
int64_t pg_time(const struct pg_rows *rows, int row, int col); /* timestamptz -> us since 1970 */
struct digest pg_digest(const struct pg_rows *rows, int row, int col); /* 32 bytes */

#endif
