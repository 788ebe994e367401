#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/precond.h"

struct list_case {
    const char *list;
    bool weak;
    bool found;
};

/* Held against "abc". */
static const struct list_case cases[] = {
    {"\"abc\"", false, true},
    {"\"x\", \"abc\"", false, true},
    {"\"x\",\"abc\",\"y\"", false, true},
    {"  \"abc\"  ", false, true},
    {"W/\"abc\"", false, false},
    {"W/\"abc\"", true, true},
    {"\"x\", W/\"abc\"", true, true},
    {"abc", false, false},
    {"JoplinIgnore-45661", true, false},
    {"JoplinIgnore-1, \"abc\"", true, true},
    {"\"a,b\", \"abc\"", false, true},
    {"\"ab", false, false},
    {"\"abc", false, false},
    {"", true, false},
    {",,,", true, false},
    {"W/", true, false},
    {"\"ABC\"", true, false},
};

static void
test_lists_of_tags_are_searched_tag_by_tag(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(precond_list_has(slice_of(cases[i].list), SLICE("\"abc\""), cases[i].weak),
                         cases[i].found);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_tags_are_searched_tag_by_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
