/*
 * fuzz_precond: conditions of RFC 9110 section 13. The input is the headers of a request for a
 * file whose tag is "abc".
 */
#include <string.h>

#include "fuzz/fake_mhd.h"
#include "fuzz/fuzz.h"
#include "http/conn.h"
#include "http/precond.h"

static bool
asks(const struct request *request, const char *name)
{
    return request_header(request, name) != NULL;
}

static void
check_conditions(const struct request *request)
{
    static const struct precond_subject FILE_THERE = {true, "\"abc\"", 1500000000000000};
    static const struct precond_subject NOTHING = {.exists = false};
    enum precond_result there = precond_check(request, &FILE_THERE, true);
    enum precond_result absent = precond_check(request, &NOTHING, false);
    const char *match = request_header(request, "If-Match");

    /* 304 needs a condition that can say so; a match needs the tag or a star. */
    if (there == PRECOND_NOT_MODIFIED)
        CHECK(asks(request, "If-None-Match") || asks(request, "If-Modified-Since"));
    if (there == PRECOND_FAILED)
        CHECK(asks(request, "If-Match") || asks(request, "If-Unmodified-Since"));
    if (match && there != PRECOND_FAILED)
        CHECK(strstr(match, "\"abc\"") || strchr(match, '*'));
    CHECK(absent == (match ? PRECOND_FAILED : PRECOND_GO));
    if (!precond_range_holds(request, &FILE_THERE))
        CHECK(asks(request, "If-Range"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct MHD_Connection mhd;
    struct conn conn = {.mhd = &mhd};

    conn.request.conn = &conn;
    arena_init(&conn.request.arena);
    fake_mhd_init(&mhd, (struct slice){(const char *)data, len}, &conn.request.arena);
    check_conditions(&conn.request);
    arena_release(&conn.request.arena);
    return 0;
}
