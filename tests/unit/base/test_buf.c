#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void
test_what_was_added_reads_as_a_string(void **state)
{
    AUTO_BUF struct buf buf = {.max = 1000};
    struct err err = {0};

    (void)state;
    buf_adds(&buf, "a");
    assert_string_equal(buf.data, "a");
    buf_addc(&buf, 'b');
    buf_add_slice(&buf, SLICE("cd"));
    buf_printf(&buf, "%d-%s", 12, "x");
    assert_string_equal(buf.data, "abcd12-x");
    assert_int_equal(buf.len, 8);
    assert_int_equal(buf_check(&buf, &err), 0);
}

static void
test_adding_nothing_makes_an_empty_string(void **state)
{
    AUTO_BUF struct buf buf = {.max = 0};

    (void)state;
    buf_add(&buf, NULL, 0);
    assert_string_equal(buf.data, "");
    assert_false(buf.over);
}

static void
test_exactly_the_ceiling_fits_and_one_more_does_not(void **state)
{
    AUTO_BUF struct buf buf = {.max = 4};
    struct err err = {0};

    (void)state;
    buf_adds(&buf, "abcd");
    assert_int_equal(buf_check(&buf, &err), 0);
    buf_addc(&buf, 'e');
    assert_int_equal(buf_check(&buf, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_string_equal(buf.data, "abcd");
}

static void
test_after_the_ceiling_nothing_smaller_slips_in(void **state)
{
    AUTO_BUF struct buf buf = {.max = 4};

    (void)state;
    buf_adds(&buf, "abcde");
    buf_adds(&buf, "x");
    assert_int_equal(buf.len, 0);
    assert_true(buf.over);
    buf_clear(&buf);
    buf_adds(&buf, "x");
    assert_string_equal(buf.data, "x");
    assert_false(buf.over);
}

static void
test_long_formats_grow_the_buffer_and_respect_the_ceiling(void **state)
{
    AUTO_BUF struct buf buf = {.max = 4001};
    char text[2001];

    (void)state;
    memset(text, 'q', 2000);
    text[2000] = 0;
    buf_printf(&buf, "%s", text);
    buf_printf(&buf, "%s", text);
    assert_int_equal(buf.len, 4000);
    assert_int_equal(strlen(buf.data), 4000);
    buf_printf(&buf, "%s", text);
    assert_true(buf.over);
    assert_int_equal(buf.len, 4000);
    assert_true(buf.cap <= 4002);
}

static void
test_a_length_that_would_overflow_is_refused(void **state)
{
    AUTO_BUF struct buf buf = {.max = SIZE_MAX};

    (void)state;
    buf_adds(&buf, "abc");
    buf_add(&buf, "abc", SIZE_MAX - 2);
    assert_true(buf.over);
    assert_int_equal(buf.len, 3);
}

static void
test_bytes_with_zeros_are_kept(void **state)
{
    AUTO_BUF struct buf buf = {.max = 100};

    (void)state;
    buf_add(&buf, "a\0b", 3);
    assert_true(slice_eq(buf_slice(&buf), SLICE("a\0b")));
}

static void
test_many_small_pieces_arrive_whole(void **state)
{
    AUTO_BUF struct buf buf = {.max = 1 << 20};

    (void)state;
    for (int i = 0; i < 100000; i++)
        buf_addc(&buf, (char)('a' + i % 26));
    assert_int_equal(buf.len, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
}

static void
test_slices_compare_and_trim(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } trims[] = {
        {"", ""}, {" ", ""}, {" \t ", ""}, {"a", "a"}, {" a b\t", "a b"}, {"\na ", "\na"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(trims); i++)
        assert_true(slice_is(slice_trim(slice_of(trims[i].in)), trims[i].out));
    assert_int_equal(slice_of(NULL).len, 0);
    assert_true(slice_is(slice_of(NULL), ""));
    assert_true(slice_eq((struct slice){NULL, 0}, SLICE("")));
    assert_false(slice_eq(SLICE("ab"), SLICE("abc")));
    assert_true(slice_starts(SLICE("abc"), "ab"));
    assert_true(slice_starts(SLICE("abc"), ""));
    assert_false(slice_starts(SLICE("ab"), "abc"));
}

static void
test_an_arena_keeps_small_and_large_pieces_apart(void **state)
{
    struct arena arena;
    unsigned char *pieces[300];

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        size_t len = i % 50 == 0 ? 10000 : i;

        pieces[i] = arena_alloc(&arena, len);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i % 256), len);
    }
    for (size_t i = 0; i < COUNT(pieces); i++) {
        size_t len = i % 50 == 0 ? 10000 : i;

        for (size_t k = 0; k < len; k++)
            assert_int_equal(pieces[i][k], i % 256);
    }
    assert_string_equal(arena_printf(&arena, "%s-%d", "x", 5), "x-5");
    assert_string_equal(arena_strndup(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_strdup(&arena, ""), "");
    arena_release(&arena);
    arena_release(&arena);
}

static void
test_arrays_grow_to_what_is_needed(void **state)
{
    size_t cap = 0;
    int *numbers = NULL;

    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        numbers = mem_grow(numbers, &cap, i + 1, sizeof(*numbers));
        assert_true(cap > i);
        numbers[i] = (int)i;
    }
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    free(numbers);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_added_reads_as_a_string),
        cmocka_unit_test(test_adding_nothing_makes_an_empty_string),
        cmocka_unit_test(test_exactly_the_ceiling_fits_and_one_more_does_not),
        cmocka_unit_test(test_after_the_ceiling_nothing_smaller_slips_in),
        cmocka_unit_test(test_long_formats_grow_the_buffer_and_respect_the_ceiling),
        cmocka_unit_test(test_a_length_that_would_overflow_is_refused),
        cmocka_unit_test(test_bytes_with_zeros_are_kept),
        cmocka_unit_test(test_many_small_pieces_arrive_whole),
        cmocka_unit_test(test_slices_compare_and_trim),
        cmocka_unit_test(test_an_arena_keeps_small_and_large_pieces_apart),
        cmocka_unit_test(test_arrays_grow_to_what_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
