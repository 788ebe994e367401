/*
 * The pool keeps idle connections on a stack, so that the most recently used is used again and
 * stays warm.
 *
 * When the database is away only one thread at a time tries to connect, and not more often than
 * every retry_ms; all others wait for it, for a connection given back, or for their time to be
 * over. A connection that breaks takes the idle ones with it: after a restart of the server all
 * of them are dead, and after anything else a few new ones cost little.
 */
#include "meta/pg_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/rand.h"

enum {
    RETRY_MS = 200,     /* between two attempts to connect */
    TRIES = 5,          /* of a transaction */
    DEAD_IN_A_ROW = 64, /* idle connections found dead in one call; more is no accident */
    PAUSE_LEAST_US = 1000,
    PAUSE_MOST_US = 20000, /* times the number of tries so far */
};

struct pg_pool {
    char *conninfo;
    unsigned max_connections;
    int64_t wait_ms;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under the mutex */
    struct pg_conn **idle;
    unsigned idle_count;
    unsigned open_count; /* idle, in use, being made */
    bool away;           /* the last attempt to connect failed */
    bool probing;        /* and somebody is making the next */
    int64_t retry_at_us;
    struct err last_err; /* of that attempt */
    bool was_connected;
};

/* A connection out of the pool, for one work function. */
struct loan {
    struct pg_conn *conn;
    bool fresh; /* made for this loan: nobody used it before */
};

struct pg_pool *
pg_pool_new(const char *conninfo, unsigned max_connections, int64_t wait_ms)
{
    struct pg_pool *pool = mem_zalloc(sizeof(*pool));

    pool->conninfo = mem_strdup(conninfo);
    pool->max_connections = max_connections < 1 ? 1 : max_connections;
    pool->wait_ms = wait_ms;
    pool->idle = mem_array(pool->max_connections, sizeof(struct pg_conn *));
    pthread_mutex_init(&pool->mutex, NULL);
    clock_cond_init(&pool->changed);
    return pool;
}

void
pg_pool_free(struct pg_pool *pool)
{
    if (pool == NULL)
        return;
    for (unsigned i = 0; i < pool->idle_count; i++)
        pg_close(pool->idle[i]);
    metric_gauge_add(METRIC_DB_CONNECTIONS, -(int64_t)pool->idle_count);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->idle);
    free(pool->conninfo);
    free(pool);
}

/* --- taking --- */

static int64_t
left_ms(int64_t until_us)
{
    int64_t left_us = until_us - clock_mono_us();

    return left_us <= 0 ? 0 : left_us / 1000 + 1;
}

/* Under the mutex: may this thread make a connection now? */
static bool
may_connect(const struct pg_pool *pool)
{
    if (pool->open_count >= pool->max_connections)
        return false;
    return !pool->away || (!pool->probing && clock_mono_us() >= pool->retry_at_us);
}

/* Under the mutex, which is free while it connects. */
static int
connect_one(struct pg_pool *pool, struct pg_conn **ret_conn, struct err *err)
{
    bool is_probe = pool->away;
    int result;

    pool->open_count++;
    pool->probing = pool->probing || is_probe;
    pthread_mutex_unlock(&pool->mutex);
    result = pg_connect(pool->conninfo, ret_conn, err);
    pthread_mutex_lock(&pool->mutex);
    if (is_probe)
        pool->probing = false;
    if (result < 0) {
        pool->open_count--;
        pool->away = true;
        pool->retry_at_us = clock_mono_us() + RETRY_MS * 1000;
        pool->last_err = *err;
    } else {
        if (pool->away && pool->was_connected)
            log_info("database is back");
        pool->away = false;
        pool->was_connected = true;
        metric_gauge_add(METRIC_DB_CONNECTIONS, 1);
    }
    pthread_cond_broadcast(&pool->changed);
    return result;
}

/* Under the mutex: until something changes, the next attempt is due, or the time is over. */
static void
wait_for_change(struct pg_pool *pool, int64_t until_us)
{
    int64_t wait_ms = left_ms(until_us);
    struct timespec deadline;

    if (pool->away && !pool->probing && left_ms(pool->retry_at_us) < wait_ms)
        wait_ms = left_ms(pool->retry_at_us);
    deadline = clock_deadline(wait_ms);
    pthread_cond_timedwait(&pool->changed, &pool->mutex, &deadline);
}

static int
take_until(struct pg_pool *pool, int64_t until_us, struct loan *loan, struct err *err)
{
    LOCK_SCOPE(&pool->mutex);

    for (;;) {
        struct err ignored = {0}; /* kept in last_err */

        if (pool->idle_count > 0) {
            *loan = (struct loan){pool->idle[--pool->idle_count], false};
            return 0;
        }
        if (may_connect(pool) && connect_one(pool, &loan->conn, &ignored) == 0) {
            loan->fresh = true;
            return 0;
        }
        if (left_ms(until_us) == 0)
            break;
        if (pool->idle_count == 0 && !may_connect(pool))
            wait_for_change(pool, until_us);
    }
    if (!pool->away)
        return err_set(err, ERR_BUSY, "no free database connection within %lld ms",
                       (long long)pool->wait_ms);
    *err = pool->last_err;
    return -1;
}

static int
take(struct pg_pool *pool, int64_t until_us, struct loan *loan, struct err *err)
{
    int64_t begun_us = clock_mono_us();
    int result = take_until(pool, until_us, loan, err);

    metric_observe_us(METRIC_DB_WAIT_SECONDS, clock_mono_us() - begun_us);
    if (result == 0)
        metric_gauge_add(METRIC_DB_CONNECTIONS_BUSY, 1);
    return result;
}

/* --- giving back --- */

static void
drop_all(struct pg_pool *pool, struct pg_conn *broken)
{
    AUTO_FREE struct pg_conn **dead = mem_array(pool->max_connections, sizeof(struct pg_conn *));
    unsigned dead_count = 0;

    dead[dead_count++] = broken;
    pthread_mutex_lock(&pool->mutex);
    while (pool->idle_count > 0)
        dead[dead_count++] = pool->idle[--pool->idle_count];
    pool->open_count -= dead_count;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < dead_count; i++)
        pg_close(dead[i]);
    metric_gauge_add(METRIC_DB_CONNECTIONS, -(int64_t)dead_count);
    metric_add(METRIC_DB_RECONNECTS, 1);
}

/* Says whether the connection was still good. */
static bool
give_back(struct pg_pool *pool, struct loan *loan)
{
    struct pg_conn *conn = TAKE(loan->conn);

    metric_gauge_add(METRIC_DB_CONNECTIONS_BUSY, -1);
    pg_rollback(conn);
    if (pg_is_broken(conn)) {
        drop_all(pool, conn);
        return false;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->idle[pool->idle_count++] = conn;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    return true;
}

/* --- running --- */

/*
 * How often to try again. An idle connection found dead says nothing about the database and does
 * not count; a fresh one that breaks does.
 */
struct patience {
    int tries;
    int dead;
};

static bool
try_again(struct patience *patience, bool was_fresh, bool was_broken, int most_tries)
{
    if (was_broken && !was_fresh)
        return ++patience->dead <= DEAD_IN_A_ROW;
    return ++patience->tries < most_tries;
}

int
pg_pool_run(struct pg_pool *pool, pg_work work, void *ctx, struct err *err)
{
    int64_t until_us = clock_mono_us() + pool->wait_ms * 1000;
    struct patience patience = {0};

    for (;;) {
        struct loan loan = {0};
        bool good;
        int result;

        if (take(pool, until_us, &loan, err) < 0)
            return -1;
        result = work(loan.conn, ctx, err);
        good = give_back(pool, &loan);
        if (result == 0)
            return 0;
        if (good || !try_again(&patience, loan.fresh, true, 2))
            return -1;
        metric_add(METRIC_DB_RETRIES, 1);
        *err = (struct err){0};
    }
}

static void
pause_a_moment(int tries)
{
    uint64_t most_us = (uint64_t)PAUSE_MOST_US * (uint64_t)tries;
    uint64_t pause_us = PAUSE_LEAST_US + rand_u64() % most_us;
    struct timespec pause = {0, (long)(pause_us * 1000)};

    (void)nanosleep(&pause, NULL); /* shorter, after a signal, is as good */
}

/* One try. *ret_again: nothing happened, and it may be tried again. */
static int
transact_once(struct pg_conn *conn, pg_work work, void *ctx, enum pg_outcome *ret_outcome,
              bool *ret_again, struct err *err)
{
    pg_begin(conn);
    if (work(conn, ctx, err) < 0) {
        *ret_again = pg_is_broken(conn) || pg_may_repeat(conn);
        return -1;
    }
    if (pg_commit(conn, err) == 0) {
        *ret_outcome = PG_COMMITTED;
        return 0;
    }
    if (pg_is_broken(conn))
        *ret_outcome = PG_UNKNOWN;
    else
        *ret_again = pg_may_repeat(conn);
    return -1;
}

static int
transact(struct pg_pool *pool, pg_work work, void *ctx, enum pg_outcome *ret_outcome,
         struct err *err)
{
    int64_t until_us = clock_mono_us() + pool->wait_ms * 1000;
    struct patience patience = {0};

    for (;;) {
        struct loan loan = {0};
        bool again = false;
        bool good;
        int result;

        if (take(pool, until_us, &loan, err) < 0)
            return -1;
        result = transact_once(loan.conn, work, ctx, ret_outcome, &again, err);
        good = give_back(pool, &loan);
        if (result == 0)
            return 0;
        if (!again || !try_again(&patience, loan.fresh, !good, TRIES))
            return -1;
        metric_add(METRIC_DB_RETRIES, 1);
        *err = (struct err){0};
        if (good)
            pause_a_moment(patience.tries);
    }
}

int
pg_pool_transact(struct pg_pool *pool, pg_work work, void *ctx, enum pg_outcome *ret_outcome,
                 struct err *err)
{
    enum pg_outcome outcome = PG_ROLLED_BACK;
    int result = transact(pool, work, ctx, &outcome, err);

    if (ret_outcome != NULL)
        *ret_outcome = outcome;
    return result;
}

static const char SQL_PING[] = "select 1";

static int
ping(struct pg_conn *conn, void *ctx, struct err *err)
{
    (void)ctx;
    return pg_run(conn, SQL_PING, NULL, NULL, err);
}

int
pg_pool_ping(struct pg_pool *pool, struct err *err)
{
    return pg_pool_run(pool, ping, NULL, err);
}
