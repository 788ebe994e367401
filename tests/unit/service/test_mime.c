#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/mime.h"

static const struct {
    const char *name;
    const char *said;
    const char *type;
} CASES[] = {
    {"a.txt", NULL, "text/plain"},
    {"a.TXT", NULL, "text/plain"},
    {"photo.final.JpEg", "", "image/jpeg"},
    {"a.txt", "text/x-special", "text/x-special"},
    {"a.txt", "text/plain; charset=utf-8", "text/plain; charset=utf-8"},
    {"a.pdf", "application/octet-stream", "application/pdf"},
    {"a.pdf", "application/x-www-form-urlencoded", "application/pdf"},
    {"a.pdf", "Application/X-WWW-Form-Urlencoded ; charset=utf-8", "application/pdf"},
    {"a.pdf", "nonsense", "application/pdf"},
    {"a.pdf", "/nonsense", "application/pdf"},
    {"a.pdf", "text/", "application/pdf"},
    {"a.pdf", "text/html\r\nX-Evil: 1", "application/pdf"},
    {"a.pdf", "text/\xc3\xa4", "application/pdf"},
    {"noending", NULL, "application/octet-stream"},
    {"noending", "application/octet-stream", "application/octet-stream"},
    {".html", NULL, "application/octet-stream"},
    {"dot.", NULL, "application/octet-stream"},
    {"a.unheardof", NULL, "application/octet-stream"},
};

static void
test_the_clients_word_counts_when_it_is_one_and_the_name_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
        assert_string_equal(mime_of(CASES[i].name, CASES[i].said), CASES[i].type);
}

static void
test_a_type_too_long_for_its_column_is_not_taken(void **state)
{
    char said[300] = "text/";

    (void)state;
    for (size_t i = 5; i < sizeof(said) - 1; i++)
        said[i] = 'x';
    assert_string_equal(mime_of("a.css", said), "text/css");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_clients_word_counts_when_it_is_one_and_the_name_otherwise),
        cmocka_unit_test(test_a_type_too_long_for_its_column_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
