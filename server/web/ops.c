#include "web/ops.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

enum {
    READY_MAX_BYTES = 4096,
    METRICS_MAX_BYTES = 1 << 20,
    /* Anybody may ask whether we are ready, and asking costs a write: not more often than this. */
    READY_KEPT_US = 1000000,
};

/* What is needed to serve, and how trying it went. */
struct readiness {
    enum err_code database; /* ERR_NONE: well */
    enum err_code storage;
};

struct ops {
    struct pg_pool *pool;
    struct blob_backend *backend;
    struct room *room;

    pthread_mutex_t mutex; /* of the two below */
    struct readiness readiness;
    int64_t tried_us; /* monotonic; 0: never */
};

struct ops *
ops_new(struct pg_pool *pool, struct blob_backend *backend, struct room *room)
{
    struct ops *ops = mem_zalloc(sizeof(*ops));

    ops->pool = pool;
    ops->backend = backend;
    ops->room = room;
    pthread_mutex_init(&ops->mutex, NULL);
    return ops;
}

void
ops_free(struct ops *ops)
{
    if (!ops)
        return;
    pthread_mutex_destroy(&ops->mutex);
    free(ops);
}

/* --- /health: the process is there; nothing else is asked --- */

static int
health_finish(struct request *request, struct err *err)
{
    (void)err;
    reply_text(request, 200, "ok");
    reply_header(request, "Cache-Control", "no-store");
    return 0;
}

/* --- /ready --- */

static enum err_code
report(const char *part, int rc, const struct err *err)
{
    if (rc == 0)
        return ERR_NONE;
    log_warn("not ready: part=%s error=\"%s\"", part, err->msg);
    return err->code;
}

static struct readiness
try_parts(struct ops *ops)
{
    struct err database_err = {0}, storage_err = {0};
    int database_rc = pg_pool_ping(ops->pool, &database_err);
    int storage_rc = blob_health(ops->backend, &storage_err);

    return (struct readiness){.database = report("database", database_rc, &database_err),
                              .storage = report("storage", storage_rc, &storage_err)};
}

static bool
recall(struct ops *ops, struct readiness *ret_readiness)
{
    LOCK_SCOPE(&ops->mutex);
    *ret_readiness = ops->readiness;
    return ops->tried_us && clock_mono_us() - ops->tried_us < READY_KEPT_US;
}

static struct readiness
readiness_of(struct ops *ops)
{
    struct readiness readiness;

    if (recall(ops, &readiness))
        return readiness;
    readiness = try_parts(ops);
    LOCK_SCOPE(&ops->mutex);
    ops->readiness = readiness;
    ops->tried_us = clock_mono_us();
    return readiness;
}

static const char *
word_of(enum err_code code)
{
    return code == ERR_NONE ? "ok" : err_code_name(code);
}

/* A storage that is only full still serves reading and deleting. */
static bool
is_ready(const struct readiness *readiness)
{
    return readiness->database == ERR_NONE &&
           (readiness->storage == ERR_NONE || readiness->storage == ERR_QUOTA);
}

static int
ready_finish(struct request *request, struct err *err)
{
    struct ops *ops = request->ctx;
    struct readiness readiness = readiness_of(ops);
    bool ready = is_ready(&readiness);
    AUTO_BUF struct buf body = {.max = READY_MAX_BYTES};

    (void)err;
    buf_printf(&body, "{\"ready\":%s,\"database\":\"%s\",\"storage\":\"%s\",\"room\":\"%s\"}\n",
               ready ? "true" : "false", word_of(readiness.database), word_of(readiness.storage),
               room_is_low(ops->room) ? "low" : "ok");
    reply_bytes(request, ready ? 200 : 503, "application/json", &body);
    reply_header(request, "Cache-Control", "no-store");
    if (!ready)
        reply_header(request, "Retry-After", "2");
    return 0;
}

/* --- /metrics --- */

static int
metrics_finish(struct request *request, struct err *err)
{
    struct ops *ops = request->ctx;
    AUTO_BUF struct buf body = {.max = METRICS_MAX_BYTES};

    (void)room_is_low(ops->room); /* sets the gauge */
    metrics_render(&body);
    if (buf_check(&body, err) < 0)
        return -1;
    reply_bytes(request, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
    return 0;
}

/* --- / --- */

static const char LANDING[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head><meta charset=\"utf-8\"><title>oxicloudd</title></head>\n"
    "<body>\n"
    "<h1>oxicloudd</h1>\n"
    "<p>A file server. Its files are at <a href=\"/webdav/\">/webdav/</a>, for WebDAV clients "
    "and browsers.</p>\n"
    "<p>For operators: <a href=\"/health\">health</a>, <a href=\"/ready\">ready</a>, "
    "<a href=\"/metrics\">metrics</a>.</p>\n"
    "</body>\n"
    "</html>\n";

static int
landing_finish(struct request *request, struct err *err)
{
    AUTO_BUF struct buf body = {.max = sizeof(LANDING)};

    (void)err;
    buf_adds(&body, LANDING);
    reply_bytes(request, 200, "text/html; charset=utf-8", &body);
    reply_header(request, "Content-Security-Policy", "default-src 'none'");
    return 0;
}

static const struct handler health_handler = {.finish = health_finish};
static const struct handler ready_handler = {.finish = ready_finish};
static const struct handler metrics_handler = {.finish = metrics_finish};
static const struct handler landing_handler = {.finish = landing_finish};

void
ops_routes(struct ops *ops, struct router *router)
{
    /* OPTIONS of "/" is answered by dav/. */
    const struct {
        const char *prefix;
        const struct handler *handler;
        bool immediate;
    } rows[] = {
        {"=/health", &health_handler, true},
        {"=/ready", &ready_handler, false},
        {"=/metrics", &metrics_handler, true},
        {"=/", &landing_handler, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct route route = {.prefix = rows[i].prefix,
                                    .methods = HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_HEAD),
                                    .handler = rows[i].handler,
                                    .ctx = ops,
                                    .open = true,
                                    .immediate = rows[i].immediate};

        router_add(router, &route, 1);
    }
}
