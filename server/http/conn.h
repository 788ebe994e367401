/*
 * conn: one request from its first byte to its last, in the steps that libmicrohttpd calls it in.
 * The story is in conn.c. Private to http/.
 */
#ifndef OXI_HTTP_CONN_H
#define OXI_HTTP_CONN_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/workers.h"
#include "http/body.h"
#include "http/proxy.h"
#include "http/request.h"
#include "http/router.h"
#include "service/auth.h"

/* What all requests of a server share. */
struct conn_env {
    const struct config *config;
    const struct router *router;
    struct auth *auth;
    struct workers *workers;
    struct proxy_networks *proxies;
    _Atomic uint64_t next_id;
    _Atomic int64_t active;    /* requests that are not freed yet */
    _Atomic int64_t suspended; /* connections that wait for a worker */
    _Atomic bool draining;     /* answers close their connection */
    _Atomic bool stopping;     /* nothing is begun any more */
};

enum conn_step {
    CONN_HEAD,  /* the head is there, nothing decided */
    CONN_BEGUN, /* a worker has decided from the head whether the body may come */
    CONN_BODY,  /* the body comes in */
    CONN_WHOLE, /* all is there; the handler has not run */
    CONN_ANSWER /* the reply is made, or on its way */
};

struct conn {
    struct conn_env *env;
    struct MHD_Connection *mhd;
    struct request request;
    char *raw_target; /* as it came: with query, perhaps in absolute form */
    enum conn_step step;
    bool peer_trusted;
    bool expects_continue;
    bool begun;             /* a handler function ran: drop must */
    uint64_t dropped_bytes; /* of a body nobody wants */
    int64_t started_us;

    pthread_mutex_t lock; /* guards what follows */
    struct body queue;    /* streamed bodies */
    bool working;         /* a worker has the request, or will */
    bool waiting;         /* suspended until the queue has room */
    bool ended;           /* the body is complete */
    bool failed;          /* the reply is an error already; what still comes is dropped */
    bool gone;            /* the library has forgotten us; a worker frees */
};

/* The library's callbacks; cls is the struct conn_env. */
void *conn_on_target(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result conn_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_len, void **con_cls);
void conn_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode why);

/* Suspends (library threads) and resumes (any thread) a connection; counted. */
static inline void
conn_suspend(struct conn_env *env, struct MHD_Connection *mhd)
{
    atomic_fetch_add(&env->suspended, 1);
    MHD_suspend_connection(mhd);
}

static inline void
conn_resume(struct conn_env *env, struct MHD_Connection *mhd)
{
    MHD_resume_connection(mhd);
    atomic_fetch_sub(&env->suspended, 1);
}

#endif
