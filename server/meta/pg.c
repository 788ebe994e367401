/*
 * Statements on one connection. What has to go to the server for one pg_run() travels together,
 * in libpq's pipeline mode: BEGIN, when a transaction was asked for and nothing was sent yet; the
 * preparation of the statement, the first time; the statement. So a transaction costs one round
 * trip less and a new connection does not pay twice for each statement.
 */
#include "meta/pg.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

enum { HANG_ASK_MS = 3000 };

struct pg_conn {
    PGconn *pq;
    char *conninfo; /* to ask whether the server is still there */
    bool broken;
    bool hung;      /* it was, and gave no answer */
    bool begin_due; /* BEGIN goes along with the next statement */
    bool may_repeat;
    const char **prepared; /* texts; the name on the server is "s<index>" */
    size_t prepared_count;
    size_t prepared_cap;
};

struct pg_rows {
    PGresult *res;
};

/* --- errors --- */

struct state_row {
    const char *prefix; /* of the SQLSTATE; the first match counts */
    enum err_code code;
    bool broken;     /* this connection is of no more use */
    bool may_repeat; /* the transaction is */
};

static const struct state_row state_table[] = {
    {"08", ERR_UNAVAILABLE, true, false},     /* connection exception */
    {"57P", ERR_UNAVAILABLE, true, false},    /* shutdown, crash, starting up */
    {"57014", ERR_UNAVAILABLE, false, false}, /* cancelled by an operator */
    {"25006", ERR_UNAVAILABLE, true, false},  /* read-only: a standby after a failover */
    {"40", ERR_BUSY, false, true},            /* deadlock, serialisation */
    {"55P03", ERR_BUSY, false, true},         /* lock not available */
    {"23505", ERR_EXISTS, false, false},
    {"23503", ERR_CONFLICT, false, false},
    {"53100", ERR_QUOTA, false, false},    /* disk full */
    {"53", ERR_UNAVAILABLE, false, false}, /* other resources */
    {"54", ERR_TOO_LARGE, false, false},   /* program limits, as the size of an index row */
    {"22021", ERR_INVALID, false, false},  /* not UTF-8 */
    {"58030", ERR_IO, false, false},
    {"XX001", ERR_CORRUPT, false, false},
    {"XX002", ERR_CORRUPT, false, false},
};

static const struct state_row *
find_state(const char *state)
{
    static const struct state_row other = {"", ERR_INTERNAL, false, false};

    for (size_t i = 0; i < sizeof(state_table) / sizeof(state_table[0]); i++)
        if (strncmp(state, state_table[i].prefix, strlen(state_table[i].prefix)) == 0)
            return &state_table[i];
    return &other;
}

/* libpq ends its messages with a line break and may give several lines. */
static int
set_gone(const char *message, struct err *err)
{
    char line[200];
    size_t len = 0;

    for (; *message != '\0' && len < sizeof(line) - 1; message++)
        line[len++] = *message == '\n' || *message == '\t' ? ' ' : *message;
    while (len > 0 && line[len - 1] == ' ')
        len--;
    line[len] = '\0';
    return err_set(err, ERR_UNAVAILABLE, "database: %s", len > 0 ? line : "no connection");
}

static bool
is_fatal(const PGresult *res)
{
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

    return severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

/* Says what went wrong with the last thing done; res may be NULL. */
static int
set_failed(struct pg_conn *conn, const PGresult *res, struct err *err)
{
    const char *state = res == NULL ? NULL : PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *words = res == NULL ? NULL : PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const struct state_row *row;

    if (PQstatus(conn->pq) == CONNECTION_BAD)
        conn->broken = true;
    if (state == NULL) { /* libpq itself: nothing came back */
        conn->broken = true;
        return set_gone(conn->hung ? "the server hangs" : PQerrorMessage(conn->pq), err);
    }
    row = find_state(state);
    conn->broken = conn->broken || row->broken || is_fatal(res);
    conn->may_repeat = row->may_repeat;
    return err_set(err, conn->broken ? ERR_UNAVAILABLE : row->code, "database: %s (%s)",
                   words == NULL ? "failed" : words, state);
}

static bool
is_good(const PGresult *res)
{
    switch (PQresultStatus(res)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY: return true;
    default: return false;
    }
}

/* --- connecting --- */

static void
ignore_notice(void *arg, const PGresult *res)
{
    const char *words = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    (void)arg;
    log_debug("database notice: text=\"%s\"", words == NULL ? "" : words);
}

/*
 * The statements here are all keyed, and tables grow faster than they are analysed: a plan that
 * was made, and kept, when a table had one page must not read a million rows later. A database
 * that was told not to flush at commit would break our promise to clients.
 */
static const char SQL_SESSION[] = "set timezone = 'UTC'; set enable_seqscan = off; set jit = off;"
                                  "set default_transaction_isolation = 'read committed';"
                                  "select set_config('synchronous_commit', 'on', false)"
                                  " where current_setting('synchronous_commit') = 'off'";

int
pg_connect(const char *conninfo, struct pg_conn **ret_conn, struct err *err)
{
    /* What stands before dbname is a default, what stands after it is not up to conninfo. */
    static const char *const keywords[] = {
        "connect_timeout",  "keepalives_idle",  "keepalives_interval",
        "keepalives_count", "tcp_user_timeout", "dbname",
        "application_name", "client_encoding",  NULL};
    const char *const values[] = {"3",      "30",        "10",   "3", "30000",
                                  conninfo, "oxicloudd", "UTF8", NULL};
    struct pg_conn *conn = mem_zalloc(sizeof(*conn));

    conn->conninfo = mem_strdup(conninfo);
    conn->pq = PQconnectdbParams(keywords, values, 1);
    if (conn->pq == NULL || PQstatus(conn->pq) != CONNECTION_OK) {
        (void)set_gone(conn->pq == NULL ? "" : PQerrorMessage(conn->pq), err);
        pg_close(conn);
        return -1;
    }
    PQsetNoticeReceiver(conn->pq, ignore_notice, NULL);
    if (pg_script(conn, SQL_SESSION, err) < 0) {
        pg_close(conn);
        return -1;
    }
    *ret_conn = conn;
    return 0;
}

void
pg_close(struct pg_conn *conn)
{
    if (conn == NULL)
        return;
    PQfinish(conn->pq);
    free(conn->prepared);
    free(conn->conninfo);
    free(conn);
}

bool
pg_is_broken(const struct pg_conn *conn)
{
    return conn->broken;
}

bool
pg_may_repeat(const struct pg_conn *conn)
{
    return conn->may_repeat;
}

/* --- running --- */

/* All as libpq wants it; arrays get their place now that their buffer no longer moves. */
struct call {
    int count;
    Oid types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int lens[PG_PARAMS_MAX];
    int formats[PG_PARAMS_MAX];
};

static void
make_call(const struct pg_params *params, struct call *call)
{
    call->count = params == NULL ? 0 : params->count;
    for (int i = 0; i < call->count; i++) {
        call->types[i] = params->types[i];
        call->values[i] = params->array_at[i] == 0 ? params->values[i]
                                                   : params->arrays.data + params->array_at[i] - 1;
        call->lens[i] = params->lens[i];
        call->formats[i] = 1;
    }
}

/* Its index, or prepared_count. */
static size_t
find_prepared(const struct pg_conn *conn, const char *sql)
{
    size_t i = 0;

    while (i < conn->prepared_count && conn->prepared[i] != sql)
        i++;
    return i;
}

static void
remember_prepared(struct pg_conn *conn, const char *sql)
{
    conn->prepared = mem_grow(conn->prepared, &conn->prepared_cap, conn->prepared_count + 1,
                              sizeof(*conn->prepared));
    conn->prepared[conn->prepared_count++] = sql;
}

static bool
server_answers(const struct pg_conn *conn)
{
    static const char *const keywords[] = {"connect_timeout", "dbname", NULL};
    const char *const values[] = {"3", conn->conninfo, NULL};

    return PQpingParams(keywords, values, 1) == PQPING_OK;
}

/*
 * PQgetResult() that does not wait for ever. A statement may take its time, so there is no limit
 * to that; but a server that takes no new connection either will not answer this one.
 */
static PGresult *
await_result(struct pg_conn *conn)
{
    while (PQisBusy(conn->pq)) {
        struct pollfd input = {.fd = PQsocket(conn->pq), .events = POLLIN};
        int ready = poll(&input, 1, HANG_ASK_MS);

        if (ready == 0 && !server_answers(conn)) {
            conn->hung = conn->broken = true;
            return NULL;
        }
        if (ready > 0 && !PQconsumeInput(conn->pq))
            break; /* the result says what is wrong */
    }
    return PQgetResult(conn->pq);
}

/* The last result of what was sent, or the first that is an error. */
static PGresult *
await_last(struct pg_conn *conn)
{
    PGresult *kept = NULL, *res;

    while ((res = await_result(conn)) != NULL) {
        if (kept == NULL || is_good(kept)) {
            PQclear(kept);
            kept = res;
        } else {
            PQclear(res);
        }
    }
    if (!conn->hung)
        return kept;
    PQclear(kept);
    return NULL;
}

static PGresult *
run_words(struct pg_conn *conn, const char *sql)
{
    return PQsendQuery(conn->pq, sql) ? await_last(conn) : NULL;
}

/* The answer to one command of a pipeline, and the NULL that follows it. */
static PGresult *
next_result(struct pg_conn *conn)
{
    PGresult *res = await_result(conn);

    if (res != NULL && PQresultStatus(res) != PGRES_PIPELINE_SYNC)
        PQclear(await_result(conn));
    return res;
}

static bool
send_pipeline(struct pg_conn *conn, const char *sql, const char *name, bool prepare,
              const struct call *call)
{
    if (!PQenterPipelineMode(conn->pq))
        return false;
    if (conn->begin_due && !PQsendQueryParams(conn->pq, "begin", 0, NULL, NULL, NULL, NULL, 1))
        return false;
    if (prepare && !PQsendPrepare(conn->pq, name, sql, call->count, call->types))
        return false;
    return PQsendQueryPrepared(conn->pq, name, call->count, call->values, call->lens, call->formats,
                               1) &&
           PQpipelineSync(conn->pq);
}

/* Returns the result of the statement, or of what failed before it. */
static PGresult *
read_pipeline(struct pg_conn *conn, const char *sql, bool prepare)
{
    int steps = (conn->begin_due ? 1 : 0) + (prepare ? 1 : 0) + 1;
    PGresult *kept = NULL;

    for (int i = 0; i < steps; i++) {
        PGresult *res = next_result(conn);

        if (i == steps - 2 && prepare && res != NULL && is_good(res))
            remember_prepared(conn, sql);
        if (kept == NULL && (res == NULL || i == steps - 1 || !is_good(res)))
            kept = res;
        else
            PQclear(res);
        if (res == NULL)
            return kept; /* the connection is gone */
    }
    PQclear(next_result(conn)); /* the sync */
    return kept;
}

static PGresult *
run_pipeline(struct pg_conn *conn, const char *sql, const char *name, bool prepare,
             const struct call *call)
{
    PGresult *res = NULL;

    if (send_pipeline(conn, sql, name, prepare, call))
        res = read_pipeline(conn, sql, prepare);
    if (res == NULL || !PQexitPipelineMode(conn->pq))
        conn->broken = true;
    conn->begin_due = false;
    return res;
}

int
pg_run(struct pg_conn *conn, const char *sql, const struct pg_params *params,
       struct pg_rows **ret_rows, struct err *err)
{
    size_t at = find_prepared(conn, sql);
    bool prepare = at == conn->prepared_count;
    struct call call;
    char name[24];
    PGresult *res;

    if (params != NULL && buf_check(&params->arrays, err) < 0)
        return -1;
    conn->may_repeat = false;
    snprintf(name, sizeof(name), "s%zu", at);
    make_call(params, &call);
    metric_add(METRIC_DB_QUERIES, 1);
    if (prepare || conn->begin_due)
        res = run_pipeline(conn, sql, name, prepare, &call);
    else
        res =
            PQsendQueryPrepared(conn->pq, name, call.count, call.values, call.lens, call.formats, 1)
                ? await_last(conn)
                : NULL;
    if (res == NULL || !is_good(res)) {
        (void)set_failed(conn, res, err);
        PQclear(res);
        return -1;
    }
    if (ret_rows == NULL) {
        PQclear(res);
        return 0;
    }
    *ret_rows = mem_alloc(sizeof(**ret_rows));
    (*ret_rows)->res = res;
    return 0;
}

int
pg_script(struct pg_conn *conn, const char *sql, struct err *err)
{
    PGresult *res;
    int result = 0;

    conn->may_repeat = false;
    res = run_words(conn, sql);
    if (res == NULL || !is_good(res))
        result = set_failed(conn, res, err);
    PQclear(res);
    return result;
}

/* --- transactions --- */

void
pg_begin(struct pg_conn *conn)
{
    conn->begin_due = true;
}

int
pg_commit(struct pg_conn *conn, struct err *err)
{
    PGresult *res;
    int result = 0;

    conn->may_repeat = false;
    if (conn->begin_due) { /* nothing was done */
        conn->begin_due = false;
        return 0;
    }
    res = run_words(conn, "commit");
    if (res == NULL || !is_good(res))
        result = set_failed(conn, res, err);
    else if (strcmp(PQcmdStatus(res), "COMMIT") != 0)
        result = err_set(err, ERR_INTERNAL, "commit after a statement that failed");
    PQclear(res);
    return result;
}

void
pg_rollback(struct pg_conn *conn)
{
    struct err ignored = {0}; /* a connection that cannot even do that is closed */

    conn->begin_due = false;
    if (conn->broken || PQtransactionStatus(conn->pq) == PQTRANS_IDLE)
        return;
    if (pg_script(conn, "rollback", &ignored) < 0)
        conn->broken = true;
}

/* --- rows --- */

void
pg_rows_free(struct pg_rows **rows)
{
    if (*rows == NULL)
        return;
    PQclear((*rows)->res);
    free(*rows);
    *rows = NULL;
}

int
pg_count(const struct pg_rows *rows)
{
    return PQntuples(rows->res);
}

int64_t
pg_affected(const struct pg_rows *rows)
{
    return strtoll(PQcmdTuples(rows->res), NULL, 10);
}

bool
pg_is_null(const struct pg_rows *rows, int row, int col)
{
    return PQgetisnull(rows->res, row, col) != 0;
}

int64_t
pg_int(const struct pg_rows *rows, int row, int col)
{
    const uint8_t *data = (const uint8_t *)PQgetvalue(rows->res, row, col);
    int len = PQgetlength(rows->res, row, col);
    uint64_t value = 0;

    for (int i = 0; i < len && i < 8; i++)
        value = value << 8 | data[i];
    if (len == 4)
        return (int32_t)value;
    return len == 2 ? (int16_t)value : (int64_t)value;
}

char *
pg_text(const struct pg_rows *rows, int row, int col)
{
    return PQgetvalue(rows->res, row, col);
}

int64_t
pg_time(const struct pg_rows *rows, int row, int col)
{
    int64_t value = pg_int(rows, row, col);

    if (value > INT64_MAX - PG_EPOCH_US) /* infinity */
        return INT64_MAX;
    return pg_is_null(rows, row, col) ? 0 : value + PG_EPOCH_US;
}

struct digest
pg_digest(const struct pg_rows *rows, int row, int col)
{
    struct digest digest = {0};

    if (PQgetlength(rows->res, row, col) == DIGEST_BYTES)
        memcpy(digest.bytes, PQgetvalue(rows->res, row, col), DIGEST_BYTES);
    return digest;
}
