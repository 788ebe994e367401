#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/range.h"

struct range_case {
    const char *header;
    uint64_t size;
    enum range_result result;
    uint64_t off, len;
};

static const struct range_case cases[] = {
    {NULL, 100, RANGE_WHOLE, 0, 0},
    {"", 100, RANGE_WHOLE, 0, 0},
    {"bytes=0-0", 100, RANGE_PART, 0, 1},
    {"Bytes=0-0", 100, RANGE_PART, 0, 1},
    {"bytes=12-15", 100, RANGE_PART, 12, 4},
    {"bytes=95-", 100, RANGE_PART, 95, 5},
    {"bytes= 95-", 100, RANGE_PART, 95, 5},
    {"bytes=98-500", 100, RANGE_PART, 98, 2},
    {"bytes=99-99", 100, RANGE_PART, 99, 1},
    {"bytes=100-", 100, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=100-100", 100, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-3", 100, RANGE_PART, 97, 3},
    {"bytes=-500", 100, RANGE_PART, 0, 100},
    {"bytes=-0", 100, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-1", 0, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=9-5", 100, RANGE_WHOLE, 0, 0},
    {"bytes=-", 100, RANGE_WHOLE, 0, 0},
    {"bytes=abc", 100, RANGE_WHOLE, 0, 0},
    {"bytes=0x1-0x5", 100, RANGE_WHOLE, 0, 0},
    {"bytes=+1-5", 100, RANGE_WHOLE, 0, 0},
    {"bytes=1 -5", 100, RANGE_WHOLE, 0, 0},
    {"lines=1-2", 100, RANGE_WHOLE, 0, 0},
    {"npt=0-", 100, RANGE_WHOLE, 0, 0},
    {"bytes=0-1,10-11", 100, RANGE_WHOLE, 0, 0},
    {"bytes=0-99999999999999999999999", 100, RANGE_PART, 0, 100},
    {"bytes=99999999999999999999-", 100, RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-99999999999999999999", 100, RANGE_PART, 0, 100},
    {"bytes=0-18446744073709551615", UINT64_MAX, RANGE_PART, 0, UINT64_MAX},
};

static void
test_headers_become_the_range_they_mean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct range_case *c = &cases[i];
        struct byte_range range = {0};

        assert_int_equal(range_parse(c->header, c->size, &range), c->result);
        if (c->result == RANGE_PART) {
            assert_int_equal(range.off, c->off);
            assert_int_equal(range.len, c->len);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_become_the_range_they_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
