#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/path.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

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

static struct path
parsed(const char *raw)
{
    struct path path;
    struct err err = {0};

    if (path_parse(slice_of(raw), &arena, &path, &err) < 0)
        fail_msg("%s: %s", raw, err.msg);
    return path;
}

static void
test_paths_are_split_and_decoded_once(void **state)
{
    static const struct {
        const char *raw;
        size_t depth;
        const char *names[3];
        bool slash;
    } cases[] = {
        {"", 0, {NULL}, false},
        {"/", 0, {NULL}, true},
        {"///", 0, {NULL}, true},
        {"/a", 1, {"a"}, false},
        {"a", 1, {"a"}, false},
        {"/a/", 1, {"a"}, true},
        {"//a///b//", 2, {"a", "b"}, true},
        {"/a%20b/c%23", 2, {"a b", "c#"}, false},
        {"/%2541", 1, {"%41"}, false},
        {"/a+b", 1, {"a+b"}, false},
        {"/a%CC%88", 1, {"a\xcc\x88"}, false},
        {"/\xc3\xa4", 1, {"\xc3\xa4"}, false},
        {"/%20lead/end%20/dot.", 3, {" lead", "end ", "dot."}, false},
        {"/.../..a/a..", 3, {"...", "..a", "a.."}, false},
        {"/.hidden", 1, {".hidden"}, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct path path = parsed(cases[i].raw);

        assert_int_equal(path.depth, cases[i].depth);
        assert_int_equal(path.trailing_slash, cases[i].slash);
        for (size_t k = 0; k < path.depth; k++)
            assert_string_equal(path.names[k], cases[i].names[k]);
    }
}

static void
test_hostile_paths_are_refused(void **state)
{
    static const char *const bad[] = {
        "/.",         "/..",        "/a/../b", "/a/./b",  "/%2e",
        "/%2E%2e",    "/..%2f",     "/a%2Fb",  "/a%2f",   "/%00",
        "/a%00b",     "/a%",        "/a%4",    "/a%zz",   "/%0a",
        "/a%0D%0Ab",  "/a%1f",      "/a%7F",   "/%C2%85", "/%C2%9f",
        "/%EF%BF%BE", "/%EF%BF%BF", "/%ff",    "/%c0%af", "/%c0%ae%c0%ae",
        "/%ed%a0%80", "/a%c3",      "/\t",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct path path = {.depth = 77};
        struct err err = {0};

        if (path_parse(slice_of(bad[i]), &arena, &path, &err) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(path.depth, 77);
    }
}

static void
test_a_raw_zero_byte_ends_nothing(void **state)
{
    struct path path;
    struct err err = {0};

    (void)state;
    assert_int_equal(path_parse((struct slice){"/a\0b", 4}, &arena, &path, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void
test_neighbours_of_forbidden_characters_are_fine(void **state)
{
    static const char *const good[] = {"/%C2%A0", "/%EF%BF%BD", "/%C3%80", "/~", "/%EF%BC%8F"};

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(parsed(good[i]).depth, 1);
}

static int
parse_name_of(char c, size_t count, struct err *err)
{
    AUTO_BUF struct buf raw = {.max = 1 << 20};
    struct path path;

    buf_addc(&raw, '/');
    for (size_t i = 0; i < count; i++)
        buf_addc(&raw, c);
    return path_parse(buf_slice(&raw), &arena, &path, err);
}

static void
test_a_name_has_at_most_255_bytes(void **state)
{
    static const size_t long_counts[] = {256, 4096, 4097, 20000, 900000};
    struct err err = {0};

    (void)state;
    assert_int_equal(parse_name_of('x', 255, &err), 0);
    for (size_t i = 0; i < COUNT(long_counts); i++) {
        assert_int_equal(parse_name_of('x', long_counts[i], &err), -1);
        assert_int_equal(err.code, ERR_TOO_LARGE);
    }
}

static void
test_a_name_has_at_most_255_bytes_as_it_is_written(void **state)
{
    AUTO_BUF struct buf in = {.max = 2000};
    struct err err = {0};
    char *name;

    (void)state;
    for (int i = 0; i < 85; i++) /* 255 bytes, though 170 when composed */
        buf_adds(&in, "a\xcc\x88");
    assert_int_equal(path_name(buf_slice(&in), &arena, &name, &err), 0);
    assert_int_equal(strlen(name), 255);
    buf_addc(&in, 'a');
    assert_int_equal(path_name(buf_slice(&in), &arena, &name, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
}

static int
parse_depth(size_t depth, struct err *err)
{
    AUTO_BUF struct buf raw = {.max = 1 << 20};
    struct path path;

    for (size_t i = 0; i < depth; i++)
        buf_adds(&raw, "/a");
    return path_parse(buf_slice(&raw), &arena, &path, err);
}

static void
test_a_path_has_at_most_256_names(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(parse_depth(PATH_MAX_DEPTH, &err), 0);
    assert_int_equal(parse_depth(PATH_MAX_DEPTH + 1, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_int_equal(parse_depth(100000, &err), -1);
}

static void
test_single_names_follow_the_same_rules(void **state)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "/", "a\nb", "\x7f", "\xff"};
    struct err err = {0};
    char *name;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(path_name(slice_of(bad[i]), &arena, &name, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_int_equal(path_name(SLICE("50% off"), &arena, &name, &err), 0);
    assert_string_equal(name, "50% off");
    assert_int_equal(path_name((struct slice){NULL, 0}, &arena, &name, &err), -1);
}

static void
test_hrefs_read_back_as_the_same_path(void **state)
{
    static const char *const raws[] = {"/", "/a", "/50%25%20off/%23%3F%26%3C", "/%C3%A4/b%2B"};

    (void)state;
    for (size_t i = 0; i < COUNT(raws); i++) {
        AUTO_BUF struct buf href = {.max = 1000};
        struct path path = parsed(raws[i]);

        path_href(&href, &path, false);
        assert_string_equal(href.data, raws[i]);
    }
}

static void
test_a_collection_has_one_final_slash(void **state)
{
    AUTO_BUF struct buf href = {.max = 1000};
    struct path root = parsed("/");
    struct path folder = parsed("/a/b");

    (void)state;
    path_href(&href, &root, true);
    assert_string_equal(href.data, "/");
    buf_clear(&href);
    path_href(&href, &folder, true);
    assert_string_equal(href.data, "/a/b/");
}

static void
test_within_means_whole_names(void **state)
{
    static const struct {
        const char *inner;
        const char *outer;
        bool within;
    } cases[] = {
        {"/", "/", true},      {"/a", "/", true},     {"/a", "/a/", true},
        {"/a/b", "/a", true},  {"/ab", "/a", false},  {"/", "/a", false},
        {"/a", "/a/b", false}, {"/A/b", "/a", false}, {"/a%CC%88/x", "/%C3%A4", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct path inner = parsed(cases[i].inner);
        struct path outer = parsed(cases[i].outer);

        assert_int_equal(path_is_within(&inner, &outer), cases[i].within);
    }
}

static void
test_the_last_name_of_the_root_is_none(void **state)
{
    struct path root = parsed("/");
    struct path file = parsed("/a/b");

    (void)state;
    assert_null(path_last(&root));
    assert_string_equal(path_last(&file), "b");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_split_and_decoded_once),
        cmocka_unit_test(test_hostile_paths_are_refused),
        cmocka_unit_test(test_a_raw_zero_byte_ends_nothing),
        cmocka_unit_test(test_neighbours_of_forbidden_characters_are_fine),
        cmocka_unit_test(test_a_name_has_at_most_255_bytes),
        cmocka_unit_test(test_a_name_has_at_most_255_bytes_as_it_is_written),
        cmocka_unit_test(test_a_path_has_at_most_256_names),
        cmocka_unit_test(test_single_names_follow_the_same_rules),
        cmocka_unit_test(test_hrefs_read_back_as_the_same_path),
        cmocka_unit_test(test_a_collection_has_one_final_slash),
        cmocka_unit_test(test_within_means_whole_names),
        cmocka_unit_test(test_the_last_name_of_the_root_is_none),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
