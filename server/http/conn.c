/*
 * One request, in the steps in which libmicrohttpd 0.9.75 calls us. The library calls from one of
 * its own threads, one call at a time per connection; everything that may wait runs on a worker
 * while the connection is suspended. The library calls the handler
 *
 *   - with the head (no data). While we stay suspended and queue nothing it repeats this call
 *     after each resume, before it asks the client to go on (100 Continue): so an upload is
 *     refused here before its body. An answer queued here closes the connection, hence requests
 *     without a body are never answered here;
 *   - with pieces of the body;
 *   - once more without data when the request is complete, repeated after each resume until an
 *     answer is queued.
 *
 *            no body                        BODY_STREAM, BODY_COLLECT
 *     HEAD ----------> WHOLE         HEAD --> (begin on a worker) --> BEGUN
 *                        |                                             |  refused: ANSWER, or,
 *                (begin, finish on                                     v  when the body is small
 *                   a worker)                                        BODY and not asked for, the
 *                        |                                             |  body is dropped first
 *                        v                (take on a worker as pieces come; then finish)
 *                      ANSWER <---------------------------------------+
 *
 * The body of an upload goes through a bounded queue. The callback copies and goes on; it suspends
 * only when the queue is full. A worker is called when a quarter is filled, takes what is there,
 * and leaves; so a slow client holds its queue and no worker.
 */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "http/gate.h"
#include "http/head.h"
#include "http/send.h"

enum {
    /* Taken at once by a worker; below that it waits for more. */
    QUEUE_WAKE_BYTES = BODY_QUEUE_BYTES / 4,
    /* A worker leaves after that much, so that more uploads than workers share them fairly. */
    TURN_BYTES = 4 * BODY_QUEUE_BYTES,
    /* An unwanted body up to this size is read before the refusal, so that the client surely
     * gets it; above it the connection is cut. */
    DRAIN_REFUSED_BYTES = 1 << 20,
    /* The same for an upload that fails half-way: no answer can be queued before its end. */
    DRAIN_FAILED_BYTES = 256 << 20,
    /* A body where none is expected. */
    STRAY_BODY_BYTES = 64 * 1024,
};

static int refuse(struct request *request, struct err *err);

static const struct handler refuse_handler = {.finish = refuse};
static const struct route refuse_open = {.prefix = "", .handler = &refuse_handler, .open = true};
static const struct route refuse_closed = {.prefix = "", .handler = &refuse_handler};

/* --- birth and death --- */

void *
conn_on_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct conn_env *env = cls;
    struct conn *conn = mem_zalloc(sizeof(*conn));

    conn->env = env;
    conn->mhd = mhd;
    conn->raw_target = mem_strdup(uri);
    conn->request.id = atomic_fetch_add(&env->next_id, 1) + 1;
    conn->request.conn = conn;
    arena_init(&conn->request.arena);
    buf_init(&conn->request.body, 0);
    pthread_mutex_init(&conn->lock, NULL);
    atomic_fetch_add(&env->active, 1);
    metric_gauge_add(METRIC_HTTP_REQUESTS_ACTIVE, 1);
    return conn;
}

static void
conn_free(void *arg)
{
    struct conn *conn = arg;
    struct conn_env *env = conn->env;
    struct request *request = &conn->request;

    log_set_request(request->id);
    if (conn->begun && request->route->handler->drop)
        request->route->handler->drop(request);
    reply_status(request, 0); /* lets go of a body that was never sent */
    buf_release(&request->body);
    body_release(&conn->queue);
    arena_release(&request->arena);
    pthread_mutex_destroy(&conn->lock);
    free(conn->raw_target);
    free(conn);
    log_set_request(0);
    metric_gauge_add(METRIC_HTTP_REQUESTS_ACTIVE, -1);
    atomic_fetch_sub(&env->active, 1);
}

void
conn_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode why)
{
    struct conn_env *env = cls;
    struct conn *conn = *con_cls;
    struct err err = {0};

    (void)mhd;
    (void)why;
    *con_cls = NULL;
    if (!conn)
        return;

    pthread_mutex_lock(&conn->lock);
    conn->gone = true;
    bool working = conn->working;
    pthread_mutex_unlock(&conn->lock);

    if (working)
        return; /* the worker that has it frees it */
    /* Dropping may wait for the disk (blobs of a broken upload are removed): not on this thread. */
    if (!conn->begun || workers_submit(env->workers, conn_free, conn, &err) < 0)
        conn_free(conn);
}

/* --- on a worker --- */

static int
refuse(struct request *request, struct err *err)
{
    if (request->method == HTTP_OTHER) {
        reply_text(request, 501, "the method is not known here");
        return 0;
    }
    if (request->allowed == 0)
        return err_set(err, ERR_NOT_FOUND, "there is nothing here");
    reply_text(request, 405, "the method is not allowed here");
    reply_allow(request);
    return 0;
}

static int
begin(struct conn *conn, struct err *err)
{
    struct request *request = &conn->request;
    const struct route *route = request->route;

    if (!route->open && gate_check(request, conn->env->auth, err) < 0)
        return -1;
    if (route->prefix[0] == '/' &&
        path_parse(route_rest(route, request->target), &request->arena, &request->path, err) < 0)
        return -1;
    conn->begun = true;
    return route->handler->begin ? route->handler->begin(request, err) : 0;
}

static void
finish(struct conn *conn)
{
    struct request *request = &conn->request;
    struct err err = {0};

    if (request->route->handler->finish(request, &err) < 0)
        reply_error(request, &err);
    else if (request->reply.status == 0)
        reply_status(request, 500);
    send_prepare(conn);
}

/* The end of a worker's turn on a suspended connection. */
static void
give_back(struct conn *conn, enum conn_step step)
{
    pthread_mutex_lock(&conn->lock);
    conn->step = step;
    conn->working = false;
    pthread_mutex_unlock(&conn->lock);
    log_set_request(0);
    conn_resume(conn->env, conn->mhd); /* the request may be gone from here on */
}

static void
begin_job(void *arg)
{
    struct conn *conn = arg;
    struct err err = {0};

    log_set_request(conn->request.id);
    if (begin(conn, &err) < 0)
        reply_error(&conn->request, &err);
    conn->failed = conn->request.reply.status != 0; /* begin may have replied by itself */
    give_back(conn, CONN_BEGUN);
}

static void
whole_job(void *arg)
{
    struct conn *conn = arg;
    struct err err = {0};

    log_set_request(conn->request.id);
    if (begin(conn, &err) < 0)
        reply_error(&conn->request, &err);
    else if (conn->request.reply.status == 0)
        finish(conn);
    give_back(conn, CONN_ANSWER);
}

/* Takes what is queued, up to one turn's worth. The lock is held on entry and on return, and not
 * while the handler works. */
static int
take_turn(struct conn *conn, struct err *err)
{
    const struct handler *handler = conn->request.route->handler;
    size_t done = 0;
    const uint8_t *data;
    size_t len;

    while (done < TURN_BYTES && !conn->gone && (len = body_peek(&conn->queue, &data)) > 0) {
        pthread_mutex_unlock(&conn->lock);
        int result = handler->take(&conn->request, data, len, err);
        pthread_mutex_lock(&conn->lock);

        if (result < 0)
            return -1;
        body_taken(&conn->queue, len);
        done += len;
        if (conn->waiting && body_room(&conn->queue) >= conn->queue.cap / 2) {
            conn->waiting = false;
            conn_resume(conn->env, conn->mhd);
        }
    }
    return 0;
}

/* Nothing more is taken: what is queued and what still comes is dropped. Under the lock. */
static void
fail_body(struct conn *conn, const struct err *err)
{
    reply_error(&conn->request, err);
    conn->failed = true;
    conn->queue.taken = conn->queue.written;
    if (conn->waiting) {
        conn->waiting = false;
        conn_resume(conn->env, conn->mhd);
    }
}

static void take_job(void *arg);

/* Who has the request after a turn: nobody until more comes, the same queue of jobs again, or
 * this worker, for the end. Under the lock; true: this worker finishes it. */
static bool
after_turn(struct conn *conn)
{
    struct err err = {0};

    if (conn->ended && (conn->failed || body_queued(&conn->queue) == 0))
        return true;
    if (body_queued(&conn->queue) < QUEUE_WAKE_BYTES && !conn->ended) {
        conn->working = false;
        return false;
    }
    if (workers_submit(conn->env->workers, take_job, conn, &err) < 0) {
        fail_body(conn, &err);
        conn->working = false;
        return conn->ended;
    }
    return false;
}

static void
take_job(void *arg)
{
    struct conn *conn = arg;
    struct err err = {0};

    log_set_request(conn->request.id);
    pthread_mutex_lock(&conn->lock);
    if (!conn->failed && take_turn(conn, &err) < 0)
        fail_body(conn, &err);

    bool gone = conn->gone;
    bool ends = !gone && after_turn(conn);
    bool failed = conn->failed;

    pthread_mutex_unlock(&conn->lock);
    log_set_request(0);
    if (gone) {
        conn_free(conn);
    } else if (ends) {
        log_set_request(conn->request.id);
        if (!failed)
            finish(conn);
        give_back(conn, CONN_ANSWER);
    }
}

/* --- on a thread of the library --- */

/* Suspends and hands over. On failure the request fails with 503. */
static enum MHD_Result
hand_over(struct conn *conn, workers_fn job)
{
    struct err err = {0};

    pthread_mutex_lock(&conn->lock);
    conn->working = true;
    pthread_mutex_unlock(&conn->lock);
    conn_suspend(conn->env, conn->mhd);
    if (workers_submit(conn->env->workers, job, conn, &err) == 0)
        return MHD_YES;

    reply_error(&conn->request, &err);
    conn->failed = true;
    give_back(conn, CONN_ANSWER);
    return MHD_YES;
}

static size_t
body_most(const struct route *route)
{
    switch (route->body) {
    case BODY_COLLECT: return route->body_max;
    case BODY_STREAM: return SIZE_MAX;
    case BODY_NONE: break;
    }
    return STRAY_BODY_BYTES;
}

/* The decision is there: go on with the body, answer now, or drop the body and then answer. */
static enum MHD_Result
on_begun(struct conn *conn)
{
    struct request *request = &conn->request;

    if (conn->failed && (conn->expects_continue || request->content_length > DRAIN_REFUSED_BYTES)) {
        conn->step = CONN_ANSWER;
        return send_reply(conn);
    }
    conn->step = CONN_BODY;
    if (conn->failed)
        return MHD_YES;
    if (request->route->body == BODY_STREAM)
        body_start(&conn->queue, request->content_length);
    else
        buf_init(&request->body, body_most(request->route));
    return MHD_YES;
}

static enum MHD_Result
answer_now(struct conn *conn)
{
    conn->begun = true;
    finish(conn);
    conn->step = CONN_ANSWER;
    return send_reply(conn);
}

static enum MHD_Result
on_head(struct conn *conn, const char *method, const char *version)
{
    struct request *request = &conn->request;
    struct router_match match;
    struct err err = {0};

    conn->started_us = clock_mono_us();
    if (head_read(conn, method, version, &err) < 0) {
        reply_error(request, &err);
        request->reply.close = true;
        conn->step = CONN_ANSWER;
        return send_reply(conn);
    }
    match = router_find(conn->env->router, request->target, request->method);
    request->allowed = match.methods;
    request->route = match.route ? match.route : match.open ? &refuse_open : &refuse_closed;
    request->ctx = request->route->ctx;

    if (request->content_length == 0) {
        conn->step = CONN_WHOLE;
        return MHD_YES;
    }

    if (request->content_length != UINT64_MAX &&
        request->content_length > body_most(request->route)) {
        (void)err_set(&err, ERR_TOO_LARGE, "the body is too large for this request");
        reply_error(request, &err);
        conn->failed = true;
        return on_begun(conn);
    }
    return hand_over(conn, begin_job);
}

/* Queues what fits; calls a worker when it is worth one; suspends when the queue is full. */
static size_t
stream_piece(struct conn *conn, const char *data, size_t len)
{
    struct err err = {0};

    LOCK_SCOPE(&conn->lock);
    if (conn->failed)
        return len;

    size_t copied = body_copy_in(&conn->queue, data, len);

    body_written(&conn->queue, copied);

    bool full = copied < len;

    if (!conn->working && (full || body_queued(&conn->queue) >= QUEUE_WAKE_BYTES)) {
        conn->working = true;
        if (workers_submit(conn->env->workers, take_job, conn, &err) < 0) {
            conn->working = false;
            fail_body(conn, &err);
            return len;
        }
    }
    if (full) {
        /* Under the lock: the worker that makes room must not resume before we suspend. */
        conn->waiting = true;
        conn_suspend(conn->env, conn->mhd);
    }
    return copied;
}

static enum MHD_Result
on_piece(struct conn *conn, const char *data, size_t *data_len)
{
    struct request *request = &conn->request;
    size_t len = *data_len;
    struct err err = {0};

    pthread_mutex_lock(&conn->lock);
    bool failed = conn->failed;
    pthread_mutex_unlock(&conn->lock);

    if (!failed && request->route->body == BODY_STREAM) {
        size_t used = stream_piece(conn, data, len);

        metric_add(METRIC_HTTP_RECEIVED_BYTES, used);
        *data_len = len - used;
        return MHD_YES;
    }
    metric_add(METRIC_HTTP_RECEIVED_BYTES, len);
    *data_len = 0;
    if (!failed) {
        buf_add(&request->body, data, len);
        if (buf_check(&request->body, &err) < 0) {
            (void)err_set(&err, ERR_TOO_LARGE, "the body is too large for this request");
            reply_error(request, &err);
            conn->failed = true;
        }
        return MHD_YES;
    }
    conn->dropped_bytes += len;
    return conn->dropped_bytes <= DRAIN_FAILED_BYTES ? MHD_YES : MHD_NO;
}

static enum MHD_Result
on_body_end(struct conn *conn)
{
    struct err err = {0};

    pthread_mutex_lock(&conn->lock);
    conn->ended = true;
    if (conn->failed && !conn->working) {
        conn->step = CONN_ANSWER;
        pthread_mutex_unlock(&conn->lock);
        return send_reply(conn);
    }
    conn_suspend(conn->env, conn->mhd);
    if (!conn->working) {
        conn->working = true;
        if (workers_submit(conn->env->workers, take_job, conn, &err) < 0) {
            fail_body(conn, &err);
            pthread_mutex_unlock(&conn->lock);
            give_back(conn, CONN_ANSWER);
            return MHD_YES;
        }
    }
    pthread_mutex_unlock(&conn->lock);
    return MHD_YES;
}

enum MHD_Result
conn_on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                const char *version, const char *data, size_t *data_len, void **con_cls)
{
    struct conn_env *env = cls;
    struct conn *conn = *con_cls;
    enum MHD_Result result = MHD_NO;

    (void)mhd;
    (void)url; /* unescaped and ended at the first NUL; conn->raw_target is what came */
    if (!conn || atomic_load(&env->stopping))
        return MHD_NO;

    log_set_request(conn->request.id);
    switch (conn->step) {
    case CONN_HEAD: result = on_head(conn, method, version); break;
    case CONN_BEGUN: result = on_begun(conn); break;
    case CONN_BODY: result = *data_len ? on_piece(conn, data, data_len) : on_body_end(conn); break;
    case CONN_WHOLE:
        result = conn->request.route->immediate ? answer_now(conn) : hand_over(conn, whole_job);
        break;
    case CONN_ANSWER:
        if (*data_len)
            *data_len = 0;
        else
            result = send_reply(conn);
        break;
    }
    log_set_request(0);
    return result;
}
