/*
 * router: a table of method, prefix, handler.
 *
 * A handler is a few steps. Each runs on a worker, which may wait for the disk or the database but
 * never for the client:
 *   begin   once, when the head is there and the caller is known, before the body is asked for;
 *           this is where an upload is refused (optional);
 *   take    for streamed bodies, with each piece, in order;
 *   finish  when the body is complete: makes the reply.
 * A -1 from any of them becomes an error reply. A client that goes away before finish simply ends
 * the request. drop runs once at the end of every request for which begin, take or finish ran,
 * and frees request->state.
 */
#ifndef OXI_HTTP_ROUTER_H
#define OXI_HTTP_ROUTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "http/request.h"

enum route_body {
    BODY_NONE,    /* one that comes all the same is read and dropped, up to a small limit */
    BODY_COLLECT, /* into request->body, at most body_max bytes (413) */
    BODY_STREAM,  /* handed to take */
};

struct handler {
    int (*begin)(struct request *request, struct err *err);
    int (*take)(struct request *request, const void *data, size_t len, struct err *err);
    int (*finish)(struct request *request, struct err *err);
    void (*drop)(struct request *request);
};

struct route {
    const char *prefix; /* "/webdav": itself and all below it; "=/health": exactly that */
    unsigned methods;   /* HTTP_BIT()s */
    const struct handler *handler;
    void *ctx; /* request->ctx */
    enum route_body body;
    size_t body_max;
    bool open;      /* needs no login */
    bool immediate; /* open, without begin, and finish waits for nothing: it runs on the
                              * library's thread and answers when every worker is stuck */
};

struct router;
struct router *router_new(void);
void router_free(struct router *router);
/* Rows are copied; strings and handlers are borrowed. Before the server starts. */
void router_add(struct router *router, const struct route *routes, size_t count);

struct router_match {
    const struct route *route; /* NULL: no row for that method */
    unsigned methods;          /* that have a row at this path; 0: nothing is there */
    bool open;                 /* none of those rows needs a login */
};

/* The row for a raw path and method; the longest prefix wins. */
struct router_match router_find(const struct router *router, struct slice target,
                                enum http_method method);

/* The part of the target below the row's prefix. */
struct slice route_rest(const struct route *route, struct slice target);

#endif
