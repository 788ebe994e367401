/*
 * fuzz_digest: digests that come with a request (RFC 9530, RFC 3230). The input is its headers.
 * Only what says the right sum, or nothing of sha-256, lets the body "abc" pass.
 */
#include <string.h>

#include "base/text.h"
#include "fuzz/fake_mhd.h"
#include "fuzz/fuzz.h"
#include "http/conn.h"
#include "http/digest_fields.h"

static const char SUM_OF_ABC[] = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

static bool
says_right_sum(const struct request *request)
{
    static const char *const FIELDS[] = {"Repr-Digest", "Content-Digest", "Digest"};

    for (size_t i = 0; i < sizeof(FIELDS) / sizeof(FIELDS[0]); i++) {
        const char *field = request_header(request, FIELDS[i]);

        if (field && strstr(field, SUM_OF_ABC))
            return true;
    }
    return false;
}

static void
check_sent(struct request *request)
{
    struct digest_check *check = NULL;
    struct sha256 sum;
    struct err err = {0};

    if (digest_check_new(request, &check, &err) < 0) {
        CHECK(err.code == ERR_INVALID);
        fuzz_check_err(&err);
        return;
    }
    digest_check_add(check, "a", 1);
    digest_check_add(check, "bc", 2);
    if (digest_check_end(check, &sum, &err) == 0) {
        CHECK(!check || says_right_sum(request));
    } else {
        CHECK(check && err.code == ERR_INVALID);
        fuzz_check_err(&err);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct MHD_Connection mhd;
    struct conn conn = {.mhd = &mhd};
    struct digest_wants wants;

    conn.request.conn = &conn;
    arena_init(&conn.request.arena);
    fake_mhd_init(&mhd, (struct slice){(const char *)data, len}, &conn.request.arena);
    check_sent(&conn.request);
    if (digest_wants_read(&conn.request, &wants))
        CHECK(wants.repr || wants.content || wants.old);
    arena_release(&conn.request.arena);
    return 0;
}
