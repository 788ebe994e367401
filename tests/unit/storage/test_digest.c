#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "storage/digest.h"

/* b2sum -l 256 of nothing and of "abc". */
static const char HEX_OF_NOTHING[] =
    "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";
static const char HEX_OF_ABC[] = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";

static void
test_a_digest_is_what_b2sum_prints(void **state)
{
    char hex[DIGEST_HEX_SIZE];
    struct digest digest = digest_of("abc", 3);

    (void)state;
    digest_hex(hex, &digest);
    assert_string_equal(hex, HEX_OF_ABC);
    digest = digest_of("", 0);
    digest_hex(hex, &digest);
    assert_string_equal(hex, HEX_OF_NOTHING);
}

static void
test_hex_is_read_back(void **state)
{
    struct digest digest = digest_of("abc", 3), again;

    (void)state;
    assert_true(digest_unhex(&again, HEX_OF_ABC, 64));
    assert_true(digest_eq(&digest, &again));
}

static void
test_what_is_no_digest_is_refused(void **state)
{
    struct digest digest;

    (void)state;
    assert_false(digest_unhex(&digest, HEX_OF_ABC, 63));
    assert_false(digest_unhex(&digest, HEX_OF_ABC, 62));
    assert_false(digest_unhex(&digest, "", 0));
    assert_false(digest_unhex(
        &digest, "gddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319", 64));
}

static void
test_digests_sort_by_bytes(void **state)
{
    struct digest low = {{1, 2}}, high = {{1, 0xff}};

    (void)state;
    assert_true(digest_cmp(&low, &high) < 0);
    assert_true(digest_cmp(&high, &low) > 0);
    assert_int_equal(digest_cmp(&low, &low), 0);
    assert_false(digest_eq(&low, &high));
}

/* XXH3_64bits of nothing, from its published test vectors. */
static void
test_the_check_is_xxh3(void **state)
{
    (void)state;
    assert_int_equal(digest_check("", 0), 0x2d06800538d394c2);
    assert_int_not_equal(digest_check("abc", 3), digest_check("abd", 3));
}

static int
start(void **state)
{
    struct err err = {0};

    (void)state;
    return rand_start(&err);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_digest_is_what_b2sum_prints),
        cmocka_unit_test(test_hex_is_read_back),
        cmocka_unit_test(test_what_is_no_digest_is_refused),
        cmocka_unit_test(test_digests_sort_by_bytes),
        cmocka_unit_test(test_the_check_is_xxh3),
    };

    return cmocka_run_group_tests(tests, start, NULL);
}
