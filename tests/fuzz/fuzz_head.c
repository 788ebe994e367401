/*
 * fuzz_head: the head of a request. The first line of the input is "METHOD target VERSION", the
 * others are headers; the peer is a trusted proxy.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/text.h"
#include "fuzz/fake_mhd.h"
#include "fuzz/fuzz.h"
#include "http/head.h"

/* What two programs may read differently must not have been accepted. */
static void
check_framing(const struct conn *conn)
{
    const struct request *request = &conn->request;
    unsigned lengths = 0, codings = 0, hosts = 0;

    for (size_t i = 0; i < conn->mhd->count; i++) {
        struct slice name = slice_of(conn->mhd->headers[i].name);

        lengths += text_eq_nocase(name, SLICE("Content-Length"));
        codings += text_eq_nocase(name, SLICE("Transfer-Encoding"));
        hosts += text_eq_nocase(name, SLICE("Host"));
        CHECK(name.len > 0 && strcspn(name.data, " \t\r\v\f") == name.len);
    }
    CHECK(lengths + codings <= 1 && hosts <= 1);
    CHECK((request->content_length == UINT64_MAX) == (codings == 1));
    CHECK(codings == 1 || request->content_length <= INT64_MAX);
    CHECK(lengths + codings == 1 || request->content_length == 0);
}

static void
check_target(const struct conn *conn)
{
    const struct request *request = &conn->request;

    CHECK(request->target.len > 0 && request->target.data[0] == '/');
    CHECK(!memchr(request->target.data, '?', request->target.len));
    if (request->query.data)
        CHECK(request->query.data[-1] == '?' && request->query.data[request->query.len] == 0);
}

static void
check_peer(const struct conn *conn)
{
    const struct request *request = &conn->request;
    unsigned char address[16];

    CHECK(conn->peer_trusted);
    CHECK(slice_is(slice_of(request->scheme), "http") ||
          slice_is(slice_of(request->scheme), "https"));
    CHECK(memchr(request->address, 0, sizeof(request->address)) != NULL);
    if (request->address[0] != '[')
        CHECK(inet_pton(AF_INET, request->address, address) == 1 ||
              inet_pton(AF_INET6, request->address, address) == 1);
}

static struct slice
next_word(struct slice *line)
{
    const char *blank = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    struct slice word = {line->data, blank ? (size_t)(blank - line->data) : line->len};
    size_t used = word.len + (blank ? 1 : 0);

    *line = (struct slice){line->data + used, line->len - used};
    return word;
}

static void
read_head(struct conn *conn, struct slice head)
{
    struct arena *arena = &conn->request.arena;
    struct slice line = fuzz_line(&head);
    struct slice method = next_word(&line);
    struct slice target = next_word(&line);
    struct err err = {0};

    conn->raw_target = arena_strndup(arena, target.data, target.len);
    fake_mhd_init(conn->mhd, head, arena);
    if (head_read(conn, arena_strndup(arena, method.data, method.len),
                  arena_strndup(arena, line.data, line.len), &err) < 0) {
        CHECK(err.code == ERR_INVALID);
        fuzz_check_err(&err);
        return;
    }
    check_framing(conn);
    check_target(conn);
    check_peer(conn);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct proxy_networks *proxies;
    static struct conn_env env;
    struct MHD_Connection mhd;
    struct conn conn = {.env = &env, .mhd = &mhd};
    struct err err = {0};

    if (!proxies)
        CHECK(proxy_parse("127.0.0.0/8,10.0.0.0/8", &proxies, &err) == 0);
    env.proxies = proxies;
    conn.request.conn = &conn;
    arena_init(&conn.request.arena);
    read_head(&conn, (struct slice){(const char *)data, len});
    arena_release(&conn.request.arena);
    return 0;
}
