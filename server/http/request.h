/*
 * request: one HTTP request as a handler sees it. A request is one thread at a time; nothing in
 * it is locked. Strings live in its arena.
 */
#ifndef OXI_HTTP_REQUEST_H
#define OXI_HTTP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "http/reply.h"
#include "service/principal.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_POST,
    HTTP_PATCH,
    HTTP_MKCOL,
    HTTP_COPY,
    HTTP_MOVE,
    HTTP_PROPFIND,
    HTTP_PROPPATCH,
    HTTP_LOCK,
    HTTP_UNLOCK,
    HTTP_REPORT,
    HTTP_METHOD_COUNT,
    HTTP_OTHER = HTTP_METHOD_COUNT, /* refused before any handler sees it */
};

#define HTTP_BIT(method) (1u << (method))

struct route;
struct conn; /* server.c: the library's side of the request */

struct request {
    uint64_t id;
    enum http_method method;
    struct slice target; /* raw path of the request target: no query, no authority */
    struct slice query;  /* after '?', or empty */
    const struct route *route;
    unsigned allowed; /* HTTP_BIT()s of the methods that exist at this path */
    void *ctx;        /* of the route */
    struct path path; /* below the route's prefix, decoded */
    struct arena arena;
    struct principal principal; /* when the route wants a login */
    char address[64];           /* of the client, behind trusted proxies the one they name */
    const char *scheme;         /* "http" or "https", as the client sees it */
    uint64_t content_length;    /* UINT64_MAX: chunked, unknown; 0: no body */
    struct buf body;            /* routes that collect it */
    struct reply reply;
    void *state; /* the handler's own */
    struct conn *conn;
};

/* NULL when absent. Of several with one name, the first. Names compare without case. */
const char *request_header(const struct request *request, const char *name);

/* "http://host:port" as the client sees us: base_url, else forwarded headers of a trusted proxy,
 * else scheme and Host. */
const char *request_origin(struct request *request);

/*
 * What clients put in front of our paths, "/cloud": of base_url, else X-Forwarded-Prefix of a
 * trusted proxy, which has taken it away. As it stands in a URL, without a slash at its end; ""
 * for none.
 */
const char *request_prefix(struct request *request);

const char *http_method_name(enum http_method method);
enum http_method http_method_of(const char *name);

#endif
