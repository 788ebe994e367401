/*
 * fuzz_destination: what Destination and the tags of If refer to. The first line of the input is
 * the reference, the others are headers of the request (Host, X-Forwarded-Host); the server is
 * also known as https://files.example.
 */
#include <string.h>

#include "dav/dav.h"
#include "fuzz/fake_mhd.h"
#include "fuzz/fuzz.h"
#include "http/conn.h"

enum { HREF_MAX = 1 << 20 };

static const struct route ROUTE = {.prefix = "/webdav"};

/* A place here has an href, which is the same place. */
static void
check_href(struct request *request, const struct path *path)
{
    AUTO_BUF struct buf href = {.max = HREF_MAX};
    enum dav_place place;
    struct path again;
    struct err err = {0};

    fuzz_check_path(path);
    buf_adds(&href, "https://files.example:443");
    dav_href(&href, request, path, path->trailing_slash);
    CHECK(dav_resolve(request, buf_slice(&href), &place, &again, &err) == 0);
    CHECK(place == DAV_HERE);
    CHECK(path_is_within(path, &again) && path_is_within(&again, path));
}

static void
check_reference(struct request *request, struct slice reference)
{
    enum dav_place place;
    struct path path;
    struct err err = {0};

    if (dav_resolve(request, reference, &place, &path, &err) < 0) {
        CHECK(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        fuzz_check_err(&err);
    } else if (place == DAV_HERE) {
        CHECK(memmem(reference.data, reference.len, "/webdav", 7));
        check_href(request, &path);
    } else {
        CHECK(place == DAV_OUTSIDE || place == DAV_ELSEWHERE);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char base_url[] = "https://files.example/";
    static struct config config = {.base_url = base_url};
    static struct conn_env env = {.config = &config};
    struct slice rest = {(const char *)data, len};
    struct slice reference = fuzz_line(&rest);
    struct MHD_Connection mhd;
    struct conn conn = {.env = &env, .mhd = &mhd, .peer_trusted = true};

    conn.request.conn = &conn;
    conn.request.route = &ROUTE;
    conn.request.scheme = "http";
    arena_init(&conn.request.arena);
    fake_mhd_init(&mhd, rest, &conn.request.arena);
    check_reference(&conn.request, reference);
    arena_release(&conn.request.arena);
    return 0;
}
