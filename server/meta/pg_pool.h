/*
 * pg_pool: a bounded pool of connections, reconnecting by itself. A connection is never held
 * across disk or socket waits; callers pass a function and get it back when the function returns.
 */
#ifndef OXI_META_PG_POOL_H
#define OXI_META_PG_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/pg.h"

struct pg_pool;

/* Connects lazily. max_connections >= 1; wait_ms: the longest wait for a free or new one. */
struct pg_pool *pg_pool_new(const char *conninfo, unsigned max_connections, int64_t wait_ms);
void pg_pool_free(struct pg_pool *pool); /* NULL is welcome; nobody may still use it */

/* A work function may run more than once: it must not keep effects outside of the database. */
typedef int (*pg_work)(struct pg_conn *conn, void *ctx, struct err *err);

/*
 * One statement, or several that need no transaction. Repeated once on a fresh connection when
 * the first turns out to be dead. ERR_UNAVAILABLE: no database within wait_ms; ERR_BUSY: no free
 * connection within wait_ms.
 */
int pg_pool_run(struct pg_pool *pool, pg_work work, void *ctx, struct err *err);

enum pg_outcome {
    PG_ROLLED_BACK, /* nothing happened */
    PG_COMMITTED,   /* durable */
    PG_UNKNOWN,     /* the connection was lost while COMMIT was under way */
};

/*
 * BEGIN, work, COMMIT; ROLLBACK when work fails. Deadlocks, serialisation failures and
 * connections lost before COMMIT was sent are tried again, at most 5 times with short random
 * pauses. ret_outcome may be NULL.
 */
int pg_pool_transact(struct pg_pool *pool, pg_work work, void *ctx, enum pg_outcome *ret_outcome,
                     struct err *err);

/* Asks the database something trivial on a pooled connection. */
int pg_pool_ping(struct pg_pool *pool, struct err *err);

#endif
