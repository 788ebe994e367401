#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/err.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void
test_set_returns_minus_one_and_keeps_code_and_words(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(err_set(&err, ERR_LOCKED, "file %d is locked", 7), -1);
    assert_int_equal(err.code, ERR_LOCKED);
    assert_string_equal(err.msg, "file 7 is locked");
}

static void
test_wrap_puts_words_in_front_and_keeps_the_code(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, ERR_CORRUPT, "checksum differs");
    assert_int_equal(err_wrap(&err, "read blob %s", "3f9a"), -1);
    assert_int_equal(err_wrap(&err, "send"), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_string_equal(err.msg, "send: read blob 3f9a: checksum differs");
}

static void
test_errno_gives_code_and_lower_case_reason(void **state)
{
    static const struct {
        int errnum;
        enum err_code code;
    } cases[] = {
        {ENOENT, ERR_NOT_FOUND}, {EEXIST, ERR_EXISTS},     {ENOSPC, ERR_QUOTA}, {EDQUOT, ERR_QUOTA},
        {EMFILE, ERR_BUSY},      {EROFS, ERR_UNAVAILABLE}, {EIO, ERR_IO},       {EACCES, ERR_IO},
        {EINVAL, ERR_INTERNAL},  {987654, ERR_IO},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err err = {0};

        assert_int_equal(err_errno(&err, cases[i].errnum, "open %s", "x"), -1);
        assert_int_equal(err.code, cases[i].code);
        assert_memory_equal(err.msg, "open x: ", 8);
        assert_true(err.msg[8] >= 'a' && err.msg[8] <= 'z');
    }
}

static void
test_the_reason_survives_a_very_long_path(void **state)
{
    struct err err = {0};
    char path[5000];

    (void)state;
    memset(path, 'p', sizeof(path));
    path[sizeof(path) - 1] = 0;
    err_errno(&err, ENOSPC, "open %s", path);
    assert_non_null(strstr(err.msg, ": no space left on device"));
    assert_true(strlen(err.msg) < sizeof(err.msg));
}

static void
test_a_message_is_one_line(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, ERR_INVALID, "first\nsecond\r\n\x1b[31mred\n");
    assert_string_equal(err.msg, "first second   [31mred");
}

static void
test_a_message_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t pad = 240; pad < 256; pad++) {
        struct err err = {0};
        char text[300];
        size_t len;

        memset(text, 'a', pad);
        memcpy(text + pad,
               "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 19);
        err_set(&err, ERR_INVALID, "%s", text);
        len = strlen(err.msg);
        assert_true(len < sizeof(err.msg) && len + 4 > sizeof(err.msg));
        assert_int_equal((len - (pad < len ? pad : len)) % 3, 0);
    }
}

static void
test_the_old_message_may_be_an_argument(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, ERR_IO, "old");
    err_set(&err, ERR_IO, "new after %s", err.msg);
    assert_string_equal(err.msg, "new after old");
}

static void
test_every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < ERR_CODE_COUNT; a++) {
        assert_non_null(err_code_name((enum err_code)a));
        for (int b = 0; b < a; b++)
            assert_string_not_equal(err_code_name((enum err_code)a),
                                    err_code_name((enum err_code)b));
    }
    assert_string_equal(err_code_name((enum err_code)4711), "unknown");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_returns_minus_one_and_keeps_code_and_words),
        cmocka_unit_test(test_wrap_puts_words_in_front_and_keeps_the_code),
        cmocka_unit_test(test_errno_gives_code_and_lower_case_reason),
        cmocka_unit_test(test_the_reason_survives_a_very_long_path),
        cmocka_unit_test(test_a_message_is_one_line),
        cmocka_unit_test(test_a_message_is_cut_between_characters),
        cmocka_unit_test(test_the_old_message_may_be_an_argument),
        cmocka_unit_test(test_every_code_has_a_name_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
