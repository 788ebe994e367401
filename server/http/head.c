#include "http/head.h"

#include <string.h>

#include "base/text.h"

/* What one walk over all headers finds. */
struct framing {
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    bool bad_name;
    struct slice length;
    struct slice encoding;
};

static bool
is_name(struct slice name)
{
    if (name.len == 0)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.data[i] <= ' ' || name.data[i] == 0x7f)
            return false;
    return true;
}

static enum MHD_Result
on_header(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct framing *framing = cls;
    struct slice name = slice_of(key);

    (void)kind;
    if (!is_name(name))
        framing->bad_name = true;
    else if (text_eq_nocase(name, SLICE("Host")))
        framing->hosts++;
    else if (text_eq_nocase(name, SLICE("Content-Length"))) {
        framing->lengths++;
        framing->length = slice_trim(slice_of(value));
    } else if (text_eq_nocase(name, SLICE("Transfer-Encoding"))) {
        framing->encodings++;
        framing->encoding = slice_trim(slice_of(value));
    }
    return MHD_YES;
}

static int
read_length(struct conn *conn, const struct framing *framing, bool is_http10, struct err *err)
{
    struct request *request = &conn->request;

    if (framing->lengths > 1 || framing->encodings > 1)
        return err_set(err, ERR_INVALID, "the length of the body is given twice");
    if (framing->lengths && framing->encodings)
        return err_set(err, ERR_INVALID, "Content-Length together with Transfer-Encoding");
    if (framing->encodings && is_http10) /* some proxy in between may not have understood it */
        return err_set(err, ERR_INVALID, "Transfer-Encoding in HTTP/1.0");
    if (framing->encodings) {
        if (!text_eq_nocase(framing->encoding, SLICE("chunked")))
            return err_set(err, ERR_INVALID, "the only transfer coding understood is chunked");
        request->content_length = UINT64_MAX;
    } else if (framing->lengths &&
               !text_parse_u64(framing->length, INT64_MAX, &request->content_length)) {
        return err_set(err, ERR_INVALID, "Content-Length is no length");
    }
    return 0;
}

/* The part of "http://host/path?query" that starts at the path; the target itself otherwise. */
static struct slice
without_authority(struct slice target)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i]);

        if (target.len < len ||
            !text_eq_nocase((struct slice){target.data, len}, slice_of(schemes[i])))
            continue;

        const char *slash = memchr(target.data + len, '/', target.len - len);

        if (!slash)
            return SLICE("/");
        return (struct slice){slash, target.len - (size_t)(slash - target.data)};
    }
    return target;
}

static int
read_target(struct conn *conn, struct err *err)
{
    struct request *request = &conn->request;
    struct slice target = without_authority(slice_of(conn->raw_target));

    if (slice_is(target, "*") && request->method == HTTP_OPTIONS)
        target = SLICE("/");
    if (target.len == 0 || target.data[0] != '/')
        return err_set(err, ERR_INVALID, "the request target is no path");

    const char *mark = memchr(target.data, '?', target.len);

    if (mark) {
        size_t len = (size_t)(mark - target.data);

        request->query = (struct slice){mark + 1, target.len - len - 1};
        target.len = len;
    }
    request->target = target;
    return 0;
}

static void
read_peer(struct conn *conn)
{
    struct request *request = &conn->request;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *peer = info ? info->client_addr : NULL;
    const char *proto;

    conn->peer_trusted = proxy_trusts(conn->env->proxies, peer);
    proxy_client(conn->env->proxies, peer, request_header(request, "X-Forwarded-For"),
                 request->address, sizeof(request->address));
    proto = conn->peer_trusted ? request_header(request, "X-Forwarded-Proto") : NULL;
    request->scheme =
        proto && text_eq_nocase(slice_trim(slice_of(proto)), SLICE("https")) ? "https" : "http";
}

int
head_read(struct conn *conn, const char *method, const char *version, struct err *err)
{
    struct request *request = &conn->request;
    struct framing framing = {0};
    bool is_http10 = strcmp(version, "HTTP/1.0") == 0;
    const char *expect;

    request->method = http_method_of(method);
    read_peer(conn);
    MHD_get_connection_values(conn->mhd, MHD_HEADER_KIND, on_header, &framing);

    if (framing.bad_name)
        return err_set(err, ERR_INVALID, "a header name is malformed");
    if (framing.hosts > 1 || (framing.hosts == 0 && !is_http10))
        return err_set(err, ERR_INVALID, "exactly one Host header is needed");
    if (read_length(conn, &framing, is_http10, err) < 0 || read_target(conn, err) < 0)
        return -1;

    expect = request_header(request, "Expect");
    conn->expects_continue =
        expect && text_eq_nocase(slice_trim(slice_of(expect)), SLICE("100-continue"));
    return 0;
}
