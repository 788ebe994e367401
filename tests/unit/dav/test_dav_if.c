#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dav/dav_if.h"

enum { BROKEN = -1, NO = 0, YES = 1 };

/* A world in which the token urn:held is held on the request's resource, and urn:other on the one
 * tagged </other>; their entity tags are "now" and "there". */
static bool
ask(void *ctx, const struct dav_if_list *list, const struct dav_if_condition *condition)
{
    bool other = list->tagged && slice_is(list->tag, "/other");

    (void)ctx;
    if (list->tagged && !other)
        return false;
    if (condition->kind == DAV_IF_TOKEN)
        return slice_is(condition->value, other ? "urn:other" : "urn:held");
    return slice_is(condition->value, other ? "\"there\"" : "\"now\"");
}

static int
verdict(struct slice header)
{
    struct arena arena;
    struct dav_if parsed;
    struct err err = {0};
    int result = BROKEN;

    arena_init(&arena);
    if (dav_if_parse(header, &arena, &parsed, &err) == 0)
        result = dav_if_holds(&parsed, ask, NULL) ? YES : NO;
    else
        assert_int_equal(err.code, ERR_INVALID);
    arena_release(&arena);
    return result;
}

struct row {
    const char *header;
    int want;
};

static void
check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int got = verdict(slice_of(rows[i].header));

        if (got != rows[i].want)
            fail_msg("%s: got %d, want %d", rows[i].header, got, rows[i].want);
    }
}

static void
test_lists_are_alternatives_and_conditions_must_all_hold(void **state)
{
    static const struct row ROWS[] = {
        {"(<urn:held>)", YES},
        {"(<urn:gone>)", NO},
        {"([\"now\"])", YES},
        {"([\"old\"])", NO},
        {"(<urn:held> [\"now\"])", YES},
        {"(<urn:held> [\"old\"])", NO},
        {"(<urn:held>[\"now\"])", YES},
        {"(<urn:gone>) (<urn:held>)", YES},
        {"(<urn:gone>)([\"old\"])", NO},
        {"([\"old\"]) ([\"older\"]) ([\"now\"])", YES},
        {"  ( <urn:held>\t[ \"now\" ] )  ", YES},
    };

    (void)state;
    check_rows(ROWS, sizeof(ROWS) / sizeof(*ROWS));
}

static void
test_not_turns_one_condition_around(void **state)
{
    static const struct row ROWS[] = {
        {"(Not <DAV:no-lock>)", YES},
        {"(<DAV:no-lock>)", NO},
        {"(not<DAV:no-lock>)", YES},
        {"(NOT [\"old\"])", YES},
        {"(Not [\"now\"])", NO},
        {"(Not <urn:held> [\"now\"])", NO},
        {"([\"old\"] Not <DAV:no-lock>)", NO},
        {"([\"old\"]) (Not <DAV:no-lock>)", YES},
        {"(Not <urn:gone> Not <urn:lost>)", YES},
        {"(Not)", BROKEN},
        {"(Not Not <urn:held>)", BROKEN},
        {"Not (<urn:held>)", BROKEN},
    };

    (void)state;
    check_rows(ROWS, sizeof(ROWS) / sizeof(*ROWS));
}

static void
test_a_tag_names_the_resource_of_the_lists_behind_it(void **state)
{
    static const struct row ROWS[] = {
        {"</other> (<urn:other>)", YES},
        {"</other>(<urn:other>)", YES},
        {"</other> (<urn:held>)", NO},
        {"</other> ([\"there\"])", YES},
        {"</other> ([\"old\"]) ([\"there\"])", YES},
        {"</third> ([\"there\"]) </other> ([\"there\"])", YES},
        {"</third> ([\"now\"])", NO},
        {"</third> (Not <urn:held>)", YES},
        {"<http://host/x> (<urn:gone>) </other> (<urn:other> [\"there\"])", YES},
        {"(<urn:held>) </other> (<urn:other>)", BROKEN}, /* no tag, then one */
        {"</other> </third> (<urn:held>)", BROKEN},
        {"</other>", BROKEN},
        {"</other> (<urn:other>) </third>", BROKEN},
    };

    (void)state;
    check_rows(ROWS, sizeof(ROWS) / sizeof(*ROWS));
}

static void
test_weak_and_odd_entity_tags_are_read_but_are_other_tags(void **state)
{
    static const struct row ROWS[] = {
        {"([W/\"now\"])", NO},       {"([\"\"])", NO},    {"([\"a]b)c\"])", NO},
        {"([\"now\" ])", YES},       {"([now])", BROKEN}, {"([\"now])", BROKEN},
        {"([\"now\")", BROKEN},      {"([])", BROKEN},    {"([w/\"now\"])", BROKEN},
        {"([\"a\" \"b\"])", BROKEN},
    };

    (void)state;
    check_rows(ROWS, sizeof(ROWS) / sizeof(*ROWS));
}

static void
test_what_is_not_the_grammar_is_refused(void **state)
{
    static const struct row ROWS[] = {
        {"", BROKEN},
        {"   ", BROKEN},
        {"(", BROKEN},
        {")", BROKEN},
        {"()", BROKEN},
        {"(<urn:held>", BROKEN},
        {"(<no-end", BROKEN},
        {"(<>)", BROKEN},
        {"(<no-scheme>)", BROKEN},
        {"(<:x>)", BROKEN},
        {"(<1a:x>)", BROKEN},
        {"(<urn:with blank>)", BROKEN},
        {"(<urn:a<b>)", BROKEN},
        {"nonsense", BROKEN},
        {"<urn:held>", BROKEN},
        {"\"now\"", BROKEN},
        {"[\"now\"]", BROKEN},
        {"(<urn:held>) rest", BROKEN},
        {"(<urn:held>),(<urn:held>)", BROKEN},
        {"((<urn:held>))", BROKEN},
        {"(<urn:held> (<urn:held>))", BROKEN},
    };

    (void)state;
    check_rows(ROWS, sizeof(ROWS) / sizeof(*ROWS));
}

static void
test_every_beginning_of_a_header_is_read_or_refused(void **state)
{
    static const char HEADER[] =
        "<http://h/a> (Not <urn:x> [W/\"a]b\"]) ([\"c\"]) </other> (<urn:other> [\"there\"])";

    (void)state;
    for (size_t len = 0; len < sizeof(HEADER); len++) {
        char *copy = mem_strndup(HEADER, len); /* so that a sanitizer sees a step too far */

        (void)verdict((struct slice){copy, len});
        free(copy);
    }
}

static void
fill(char *dst, const char *piece, size_t count)
{
    size_t len = strlen(piece);

    for (size_t i = 0; i < count; i++)
        memcpy(dst + i * len, piece, len);
    dst[count * len] = 0;
}

static void
test_the_number_of_conditions_is_bounded(void **state)
{
    static char text[16 * (DAV_IF_CONDITIONS_MAX + 1) + 1];
    struct arena arena;
    struct dav_if parsed;
    struct err err = {0};

    (void)state;
    arena_init(&arena);
    fill(text, "(<urn:x>)", DAV_IF_CONDITIONS_MAX);
    assert_int_equal(dav_if_parse(slice_of(text), &arena, &parsed, &err), 0);
    assert_int_equal(parsed.count, DAV_IF_CONDITIONS_MAX);
    fill(text, "(<urn:x>)", DAV_IF_CONDITIONS_MAX + 1);
    assert_int_equal(dav_if_parse(slice_of(text), &arena, &parsed, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    arena_release(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_alternatives_and_conditions_must_all_hold),
        cmocka_unit_test(test_not_turns_one_condition_around),
        cmocka_unit_test(test_a_tag_names_the_resource_of_the_lists_behind_it),
        cmocka_unit_test(test_weak_and_odd_entity_tags_are_read_but_are_other_tags),
        cmocka_unit_test(test_what_is_not_the_grammar_is_refused),
        cmocka_unit_test(test_every_beginning_of_a_header_is_read_or_refused),
        cmocka_unit_test(test_the_number_of_conditions_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
