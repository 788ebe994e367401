#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dav/dav_sync_token.h"

static struct arena arena;

static int
setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static void
test_a_mark_comes_back(void **state)
{
    struct sync_mark mark = {41, 42};
    AUTO_BUF struct buf text = {.max = 1000};
    struct dav_sync_token token;

    (void)state;
    dav_sync_token_write(&text, 7, &mark);
    assert_string_equal(text.data, "urn:oxicloudd:sync:7:41:42");
    assert_true(dav_sync_token_parse(buf_slice(&text), &arena, &token));
    assert_int_equal(token.folder_id, 7);
    assert_int_equal(token.mark.linked_seq, 41);
    assert_int_equal(token.mark.removed_seq, 42);
    assert_false(token.goes_on);
}

static void
check_part(enum walk_step step, enum node_kind kind)
{
    struct change_range range = {
        .after_seq = 1, .removed_after = 2, .until_seq = INT64_MAX - 1, .removed_until = INT64_MAX};
    AUTO_BUF struct buf text = {.max = 1000};
    struct dav_sync_token token;

    dav_sync_token_write_part(&text, 7, &range, step, kind, SLICE("a:b/c %/"), "d&\xc3\xa9");
    assert_true(dav_sync_token_parse(buf_slice(&text), &arena, &token));
    assert_true(token.goes_on);
    assert_memory_equal(&token.range, &range, sizeof(range));
    assert_int_equal(token.step, step);
    if (step == WALK_REMOVALS)
        assert_int_equal(token.kind, kind);
    assert_int_equal(token.last.depth, 3);
    assert_string_equal(token.last.names[0], "a:b");
    assert_string_equal(token.last.names[1], "c %");
    assert_string_equal(token.last.names[2], "d&\xc3\xa9");
}

static void
test_a_range_and_where_it_stopped_come_back(void **state)
{
    (void)state;
    check_part(WALK_MEMBERS, NODE_FILE);
    check_part(WALK_REMOVALS, NODE_FILE);
    check_part(WALK_REMOVALS, NODE_FOLDER);
}

static void
test_nothing_else_is_a_token(void **state)
{
    static const char *const OTHERS[] = {
        "",
        "urn:oxicloudd:sync:",
        "urn:oxicloudd:sync:1",
        "urn:oxicloudd:sync:1:2",
        "urn:oxicloudd:sync:1:2:",
        "urn:oxicloudd:sync:1:2:x",
        "urn:oxicloudd:sync:1:2:-3",
        "urn:oxicloudd:sync:1:2: 3",
        "urn:oxicloudd:sync:1:2:9223372036854775808",
        "urn:oxicloudd:sync:1:2:3:4",
        "urn:oxicloudd:sync:1:2:3:4:5",
        "urn:oxicloudd:sync:1:2:3:4:5:m",
        "urn:oxicloudd:sync:1:2:3:4:5:m:",
        "urn:oxicloudd:sync:1:2:3:4:5:m:/",
        "urn:oxicloudd:sync:1:2:3:4:5:x:a",
        "urn:oxicloudd:sync:1:2:3:4:5:m:a/../b",
        "urn:oxicloudd:sync:1:2:3:4:5:m:a%2Fb",
        "urn:oxicloudd:sync:1:2:3:4:5:m:a%",
        "URN:oxicloudd:sync:1:2:3",
        " urn:oxicloudd:sync:1:2:3",
    };
    struct dav_sync_token token;

    (void)state;
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(*OTHERS); i++)
        if (dav_sync_token_parse(slice_of(OTHERS[i]), &arena, &token))
            fail_msg("taken: %s", OTHERS[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mark_comes_back),
        cmocka_unit_test(test_a_range_and_where_it_stopped_come_back),
        cmocka_unit_test(test_nothing_else_is_a_token),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
