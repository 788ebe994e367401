#include "dav/dav.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "dav/dav_xml.h"

enum { MKCOL_BODY_MAX = 64 << 10 }; /* only to tell that there is one */

/* An address has no year 10000. */
#define MTIME_MOST_SECS UINT64_C(253402300799)

static const char ALLOW[] =
    "OPTIONS, GET, HEAD, PUT, PATCH, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, REPORT, "
    "LOCK, UNLOCK";

struct dav *
dav_new(struct files *files, const struct config *config)
{
    struct dav *dav = mem_zalloc(sizeof(*dav));

    dav->files = files;
    dav->config = config;
    return dav;
}

void
dav_free(struct dav *dav)
{
    free(dav);
}

static int
options_finish(struct request *request, struct err *err)
{
    (void)err;
    reply_status(request, 200);
    reply_header(request, "DAV", "1, 2, 3, sabredav-partialupdate");
    reply_header(request, "Allow", "%s", ALLOW);
    reply_header(request, "MS-Author-Via", "DAV"); /* Windows and Office ask for it */
    reply_header(request, "Accept-Ranges", "bytes");
    reply_header(request, "Accept-Patch", "application/x-sabredav-partialupdate");
    return 0;
}

static const struct handler options_handler = {.finish = options_finish};

void
dav_routes(struct dav *dav, struct router *router)
{
    const struct route routes[] = {
        {.methods = HTTP_BIT(HTTP_OPTIONS), .handler = &options_handler, .open = true},
        {.methods = HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_HEAD), .handler = &dav_get_handler},
        {.methods = HTTP_BIT(HTTP_PUT), .handler = &dav_put_handler, .body = BODY_STREAM},
        {.methods = HTTP_BIT(HTTP_PATCH), .handler = &dav_update_handler, .body = BODY_STREAM},
        {.methods = HTTP_BIT(HTTP_DELETE), .handler = &dav_delete_handler},
        {.methods = HTTP_BIT(HTTP_COPY) | HTTP_BIT(HTTP_MOVE), .handler = &dav_transfer_handler},
        {.methods = HTTP_BIT(HTTP_LOCK),
         .handler = &dav_lock_handler,
         .body = BODY_COLLECT,
         .body_max = DAV_XML_BODY_MAX},
        {.methods = HTTP_BIT(HTTP_UNLOCK), .handler = &dav_unlock_handler},
        {.methods = HTTP_BIT(HTTP_MKCOL),
         .handler = &dav_mkcol_handler,
         .body = BODY_COLLECT,
         .body_max = MKCOL_BODY_MAX},
        {.methods = HTTP_BIT(HTTP_PROPFIND),
         .handler = &dav_find_handler,
         .body = BODY_COLLECT,
         .body_max = DAV_XML_BODY_MAX},
        {.methods = HTTP_BIT(HTTP_REPORT),
         .handler = &dav_report_handler,
         .body = BODY_COLLECT,
         .body_max = DAV_XML_BODY_MAX},
        {.methods = HTTP_BIT(HTTP_PROPPATCH),
         .handler = &dav_patch_handler,
         .body = BODY_COLLECT,
         .body_max = DAV_XML_BODY_MAX},
    };
    /* Windows asks the root first, wherever the share lies. */
    const struct route root = {.prefix = "=/",
                               .methods = HTTP_BIT(HTTP_OPTIONS),
                               .handler = &options_handler,
                               .ctx = dav,
                               .open = true};

    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
        struct route route = routes[i];

        route.prefix = "/webdav";
        route.ctx = dav;
        router_add(router, &route, 1);
    }
    router_add(router, &root, 1);
}

/* ---- what comes in ---- */

int
dav_depth(const struct request *request, enum dav_depth absent, enum dav_depth *ret_depth,
          struct err *err)
{
    static const struct {
        const char *word;
        enum dav_depth depth;
    } WORDS[] = {
        {"0", DAV_DEPTH_0},
        {"1", DAV_DEPTH_1},
        {"1,noroot", DAV_DEPTH_1}, /* of Windows; the root does no harm */
        {"infinity", DAV_DEPTH_INFINITY},
        {"infinity,noroot", DAV_DEPTH_INFINITY},
    };
    const char *header = request_header(request, "Depth");
    struct slice value = slice_trim(slice_of(header));

    if (!header) {
        *ret_depth = absent;
        return 0;
    }
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++) {
        if (text_eq_nocase(value, slice_of(WORDS[i].word))) {
            *ret_depth = WORDS[i].depth;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "Depth is neither 0 nor 1 nor infinity");
}

int
dav_overwrite(const struct request *request, bool *ret_overwrite, struct err *err)
{
    const char *header = request_header(request, "Overwrite");
    struct slice value = slice_trim(slice_of(header));

    if (!header || text_eq_nocase(value, SLICE("T")))
        *ret_overwrite = true;
    else if (text_eq_nocase(value, SLICE("F")))
        *ret_overwrite = false;
    else
        return err_set(err, ERR_INVALID, "Overwrite is neither T nor F");
    return 0;
}

static struct slice
cut(struct slice *rest, char at)
{
    const char *found = rest->len > 0 ? memchr(rest->data, at, rest->len) : NULL;
    struct slice head = {rest->data, found ? (size_t)(found - rest->data) : rest->len};
    size_t used = head.len + (found ? 1 : 0);

    rest->data += used;
    rest->len -= used;
    return head;
}

/* Digits after the point as microseconds; more than six are dropped. -1: not all are digits. */
static int64_t
fraction_us(struct slice digits)
{
    int64_t value = 0;
    int64_t unit = 100000;

    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return -1;
        value += unit * (digits.data[i] - '0');
        unit /= 10;
    }
    return value;
}

int64_t
dav_mtime(const struct request *request)
{
    struct slice rest = slice_trim(slice_of(request_header(request, "X-OC-Mtime")));
    struct slice whole = cut(&rest, '.');
    int64_t part = fraction_us(rest);
    uint64_t secs;

    if (!text_parse_u64(whole, MTIME_MOST_SECS, &secs) || secs == 0 || part < 0)
        return -1;
    return (int64_t)secs * 1000000 + part;
}

void
dav_mtime_accepted(struct request *request, int64_t mtime_us)
{
    if (mtime_us >= 0)
        reply_header(request, "X-OC-Mtime", "accepted");
}

static struct slice
without_default_port(struct slice authority)
{
    static const char *const PORTS[] = {":80", ":443", ":"};

    for (size_t i = 0; i < sizeof(PORTS) / sizeof(*PORTS); i++) {
        size_t len = strlen(PORTS[i]);

        if (authority.len > len &&
            memcmp(authority.data + authority.len - len, PORTS[i], len) == 0) {
            authority.len -= len;
            break;
        }
    }
    return authority;
}

/* Behind a proxy that ends TLS the client's scheme is not ours, so both default ports count. */
static bool
same_authority(struct slice a, struct slice b)
{
    return text_eq_nocase(without_default_port(a), without_default_port(b));
}

/* Cuts "scheme://user@host:port" off; false when the reference is not absolute. */
static bool
cut_authority(struct slice *reference, struct slice *ret_authority)
{
    struct slice rest = *reference;
    const char *at;
    size_t colon = 0;

    while (colon < rest.len && rest.data[colon] != ':' && rest.data[colon] != '/')
        colon++;
    if (colon == 0 || rest.len - colon < 3 || memcmp(rest.data + colon, "://", 3) != 0)
        return false;
    rest.data += colon + 3;
    rest.len -= colon + 3;
    ret_authority->data = rest.data;
    for (ret_authority->len = 0; ret_authority->len < rest.len; ret_authority->len++)
        if (rest.data[ret_authority->len] == '/')
            break;
    reference->data = rest.data + ret_authority->len;
    reference->len = rest.len - ret_authority->len;

    at = memrchr(ret_authority->data, '@', ret_authority->len);
    if (at) {
        ret_authority->len -= (size_t)(at + 1 - ret_authority->data);
        ret_authority->data = at + 1;
    }
    return true;
}

/* The name the client used for us: the Host header, or what a proxy or base_url say. */
static bool
is_ours(struct request *request, struct slice authority)
{
    struct slice origin = slice_of(request_origin(request));
    struct slice origin_authority;

    if (same_authority(authority, slice_trim(slice_of(request_header(request, "Host")))))
        return true;
    return cut_authority(&origin, &origin_authority) && same_authority(authority, origin_authority);
}

/* Cuts "/cloud/webdav" off, where it ends a segment. */
static bool
cut_prefix(struct slice *path, const char *before, const char *prefix)
{
    size_t before_len = strlen(before);
    size_t len = before_len + strlen(prefix);

    if (!slice_starts(*path, before) ||
        !slice_starts((struct slice){path->data + before_len, path->len - before_len}, prefix) ||
        (path->len > len && path->data[len] != '/'))
        return false;
    path->data += len;
    path->len -= len;
    return true;
}

/* A proxy that takes a prefix away from the target may have left it in the headers or not. */
int
dav_resolve(struct request *request, struct slice reference, enum dav_place *ret_place,
            struct path *ret_path, struct err *err)
{
    struct slice rest = slice_trim(reference);
    struct slice authority;

    if (cut_authority(&rest, &authority)) {
        if (!is_ours(request, authority)) {
            *ret_place = DAV_ELSEWHERE;
            return 0;
        }
    } else if (rest.len == 0 || rest.data[0] != '/') {
        return err_set(err, ERR_INVALID, "neither a URL nor an absolute path");
    }
    if (rest.len > 0 && (memchr(rest.data, '?', rest.len) || memchr(rest.data, '#', rest.len)))
        return err_set(err, ERR_INVALID, "a resource has no query and no fragment");
    if (!cut_prefix(&rest, request_prefix(request), request->route->prefix) &&
        !cut_prefix(&rest, "", request->route->prefix)) {
        *ret_place = DAV_OUTSIDE;
        return 0;
    }
    if (path_parse(rest, &request->arena, ret_path, err) < 0)
        return -1;
    *ret_place = DAV_HERE;
    return 0;
}

/* ---- looking ---- */

int
dav_stat(const struct request *request, struct node *ret_node, struct err *err)
{
    struct node node;

    if (files_stat(dav_of(request)->files, &request->principal, &request->path, &node, err) < 0)
        return -1;
    if (node.kind == NODE_FILE && request->path.trailing_slash)
        return err_set(err, ERR_NOT_FOUND, "there is a file, not a folder");
    *ret_node = node;
    return 0;
}

/* ---- what goes out ---- */

const char *
dav_prefix(struct request *request)
{
    const char *before = request_prefix(request);

    return before[0] ? arena_printf(&request->arena, "%s%s", before, request->route->prefix)
                     : request->route->prefix;
}

void
dav_href(struct buf *out, struct request *request, const struct path *path, bool collection)
{
    buf_adds(out, dav_prefix(request));
    path_href(out, path, collection);
}

void
dav_entity_headers(struct request *request, const struct node *node)
{
    char etag[FILES_ETAG_SIZE];
    char date[CLOCK_HTTP_SIZE];

    files_etag(node, etag);
    reply_header(request, "ETag", "%s", etag);
    if (node->kind == NODE_FILE) {
        clock_http_date(date, node->mtime_us);
        reply_header(request, "Last-Modified", "%s", date);
    }
}

void
dav_reply_error(struct request *request, int status, const char *condition)
{
    AUTO_BUF struct buf body = {.max = 1024};

    buf_printf(&body, DAV_XML_HEAD "<D:error xmlns:D=\"DAV:\"><D:%s/></D:error>\n", condition);
    reply_bytes(request, status, DAV_XML_TYPE, &body);
}
