#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "http/range.h"

enum { RANGES_MOST = 4 };

struct range_case {
    const char *header;
    uint64_t size;
    enum range_result result;
    struct byte_range ranges[RANGES_MOST]; /* up to one of no length */
};

static const struct range_case cases[] = {
    {NULL, 100, RANGE_WHOLE, {}},
    {"", 100, RANGE_WHOLE, {}},
    {"bytes=0-0", 100, RANGE_PARTS, {{0, 1}}},
    {"Bytes=0-0", 100, RANGE_PARTS, {{0, 1}}},
    {"bytes=12-15", 100, RANGE_PARTS, {{12, 4}}},
    {"bytes=95-", 100, RANGE_PARTS, {{95, 5}}},
    {"bytes= 95-", 100, RANGE_PARTS, {{95, 5}}},
    {"bytes=98-500", 100, RANGE_PARTS, {{98, 2}}},
    {"bytes=99-99", 100, RANGE_PARTS, {{99, 1}}},
    {"bytes=100-", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=100-100", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=-3", 100, RANGE_PARTS, {{97, 3}}},
    {"bytes=-500", 100, RANGE_PARTS, {{0, 100}}},
    {"bytes=-0", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=0-", 0, RANGE_UNSATISFIABLE, {}},
    {"bytes=-1", 0, RANGE_UNSATISFIABLE, {}},
    {"bytes=9-5", 100, RANGE_WHOLE, {}},
    {"bytes=-", 100, RANGE_WHOLE, {}},
    {"bytes=abc", 100, RANGE_WHOLE, {}},
    {"bytes=0x1-0x5", 100, RANGE_WHOLE, {}},
    {"bytes=+1-5", 100, RANGE_WHOLE, {}},
    {"bytes=1 -5", 100, RANGE_WHOLE, {}},
    {"lines=1-2", 100, RANGE_WHOLE, {}},
    {"npt=0-", 100, RANGE_WHOLE, {}},
    {"bytes=0-99999999999999999999999", 100, RANGE_PARTS, {{0, 100}}},
    {"bytes=99999999999999999999-", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=-99999999999999999999", 100, RANGE_PARTS, {{0, 100}}},
    {"bytes=0-18446744073709551615", UINT64_MAX, RANGE_PARTS, {{0, UINT64_MAX}}},
    /* several */
    {"bytes=0-1,10-11", 100, RANGE_PARTS, {{0, 2}, {10, 2}}},
    {"bytes=10-11 , 0-1", 100, RANGE_PARTS, {{10, 2}, {0, 2}}},
    {"bytes=0-0,-1,50-", 100, RANGE_PARTS, {{0, 1}, {99, 1}, {50, 50}}},
    {"bytes=0-9,5-14", 100, RANGE_PARTS, {{0, 10}, {5, 10}}},
    {"bytes=,0-0,,\t,1-1,", 100, RANGE_PARTS, {{0, 1}, {1, 1}}},
    {"bytes=,", 100, RANGE_WHOLE, {}},
    {"bytes=", 100, RANGE_WHOLE, {}},
    {"bytes=0-0,x", 100, RANGE_WHOLE, {}},
    {"bytes=0-0,5-2", 100, RANGE_WHOLE, {}},
    {"bytes=0-0,100-200", 100, RANGE_PARTS, {{0, 1}}},
    {"bytes=100-,200-,-0", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=0-0,-1", 1, RANGE_PARTS, {{0, 1}, {0, 1}}},
    {"bytes=0-0,0-0,0-0", 1, RANGE_UNSATISFIABLE, {}},
    {"bytes=0-,0-", 100, RANGE_PARTS, {{0, 100}, {0, 100}}},
    {"bytes=0-,0-,0-0", 100, RANGE_UNSATISFIABLE, {}},
    {"bytes=0-,0-,0-", INT64_MAX, RANGE_UNSATISFIABLE, {}},
};

static void
test_headers_become_the_ranges_they_mean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct range_case *c = &cases[i];
        struct range_list list = {.count = 0};
        size_t count = 0;

        assert_int_equal(range_parse(c->header, c->size, &list), c->result);
        if (c->result != RANGE_PARTS)
            continue;
        for (; count < RANGES_MOST && c->ranges[count].len > 0; count++) {
            assert_int_equal(list.parts[count].off, c->ranges[count].off);
            assert_int_equal(list.parts[count].len, c->ranges[count].len);
        }
        assert_int_equal(list.count, count);
    }
}

/* "bytes=0-0,2-2,4-4" and so on: count ranges of one byte, none of them beside another. */
static char *
single_bytes(size_t count)
{
    struct buf text = {.max = 64 * 1024};

    buf_adds(&text, "bytes=");
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%zu-%zu,", 2 * i, 2 * i);
    return text.data;
}

static void
test_more_ranges_than_the_most_are_ignored(void **state)
{
    AUTO_FREE char *most = single_bytes(RANGE_PARTS_MAX);
    AUTO_FREE char *more = single_bytes(RANGE_PARTS_MAX + 1);
    AUTO_FREE char *flood = single_bytes(5000);
    struct range_list list;

    (void)state;
    assert_int_equal(range_parse(most, 100000, &list), RANGE_PARTS);
    assert_int_equal(list.count, RANGE_PARTS_MAX);
    assert_int_equal(list.parts[RANGE_PARTS_MAX - 1].off, 2 * (RANGE_PARTS_MAX - 1));
    assert_int_equal(range_parse(more, 100000, &list), RANGE_WHOLE);
    assert_int_equal(range_parse(flood, 100000, &list), RANGE_WHOLE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_become_the_ranges_they_mean),
        cmocka_unit_test(test_more_ranges_than_the_most_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
