#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/text.h"

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

static void
test_hex_goes_there_and_back(void **state)
{
    unsigned char in[256];
    unsigned char out[256];
    char hex[513];

    (void)state;
    for (int i = 0; i < 256; i++)
        in[i] = (unsigned char)i;
    text_hex(hex, in, 256);
    assert_memory_equal(hex, "000102", 6);
    assert_string_equal(hex + 508, "feff");
    assert_true(text_unhex(out, 256, slice_of(hex)));
    assert_memory_equal(in, out, 256);
    assert_true(text_unhex(out, 2, SLICE("aBCd")));
    assert_memory_equal(out, "\xab\xcd", 2);
}

static void
test_unhex_refuses_wrong_lengths_and_letters(void **state)
{
    static const char *const bad[] = {"", "a", "abc", "abcde", "abcdef", "abcg", "ab:d", " bcd"};
    unsigned char out[2];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(text_unhex(out, 2, slice_of(bad[i])));
    assert_true(text_unhex(out, 0, SLICE("")));
}

static void
test_base64_decodes_the_vectors_of_rfc_4648(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"Zm9vYmFy", "foobar"},
    };
    struct slice out;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(text_base64_decode(slice_of(cases[i].in), &arena, &out));
        assert_true(slice_is(out, cases[i].out));
        assert_int_equal(out.data[out.len], 0);
    }
    assert_true(text_base64_decode(SLICE("+/+/"), &arena, &out));
    assert_true(slice_is(out, "\xfb\xff\xbf"));
}

static void
test_base64_refuses_what_is_malformed(void **state)
{
    static const char *const bad[] = {
        "Z",         "Zg",   "Zg=",  "Zg===", "Z===",     "====",  "Zm9v\n", " Zm9v",
        "Zm9v Zm9v", "Zm-_", "Zh==", "Zm9=",  "Zg==Zg==", "Zm9v=", "=Zm9",   "Zm\xc3\xa4",
    };
    struct slice out;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (text_base64_decode(slice_of(bad[i]), &arena, &out))
            fail_msg("%s was taken", bad[i]);
    }
    assert_false(text_base64_decode((struct slice){"Zm9\0", 4}, &arena, &out));
}

static void
test_base64_knows_exactly_64_letters(void **state)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct slice out;

    (void)state;
    for (int c = 0; c < 256; c++) {
        const char *letter = c ? strchr(letters, c) : NULL;

        for (int at = 0; at < 4; at++) {
            char in[4] = {'Z', 'm', '9', 'v'};
            bool taken;

            in[at] = (char)c;
            taken = text_base64_decode((struct slice){in, 4}, &arena, &out);
            assert_int_equal(taken, letter != NULL);
        }
    }
    for (int i = 0; i < 64; i++) {
        char in[4] = {'A', 'A', 'A', letters[i]};

        assert_true(text_base64_decode((struct slice){in, 4}, &arena, &out));
        assert_int_equal(out.data[2], i);
    }
}

static void
test_percent_encoding_leaves_only_unreserved_characters(void **state)
{
    AUTO_BUF struct buf out = {.max = 1000};

    (void)state;
    text_percent_encode(&out, SLICE("aZ09-._~ /%#?&+<>\"'\xc3\xa4\x7f"));
    assert_string_equal(out.data, "aZ09-._~%20%2F%25%23%3F%26%2B%3C%3E%22%27%C3%A4%7F");
}

static void
test_percent_decoding_happens_once(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"", ""},       {"abc", "abc"},         {"a%20b", "a b"}, {"%2541", "%41"},
        {"a+b", "a+b"}, {"%c3%A4", "\xc3\xa4"}, {"%25", "%"},     {"%2e%2E", ".."},
    };
    static const char *const bad[] = {"%", "%4", "a%", "a%4", "%zz", "%4g", "%-1", "% 1", "%%41"};
    struct slice out;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(text_percent_decode(slice_of(cases[i].in), &arena, &out));
        assert_true(slice_is(out, cases[i].out));
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(text_percent_decode(slice_of(bad[i]), &arena, &out));
    assert_true(text_percent_decode(SLICE("a%00b"), &arena, &out));
    assert_int_equal(out.len, 3);
}

static void
test_every_byte_survives_encoding_and_decoding(void **state)
{
    AUTO_BUF struct buf encoded = {.max = 1000};
    struct slice out;
    char bytes[256];

    (void)state;
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    text_percent_encode(&encoded, (struct slice){bytes, 256});
    assert_true(text_percent_decode(buf_slice(&encoded), &arena, &out));
    assert_true(slice_eq(out, (struct slice){bytes, 256}));
}

static void
test_xml_escapes_what_markup_is_made_of(void **state)
{
    AUTO_BUF struct buf out = {.max = 1000};

    (void)state;
    text_xml_escape(&out, SLICE("<a href=\"x\">'&amp;'</a>"));
    assert_string_equal(out.data, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;");
}

static void
test_utf8_is_told_from_what_only_looks_like_it(void **state)
{
    static const char *const good[] = {
        "",
        "abc",
        "\xc3\xa4",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xc2\x80",
    };
    static const char *const bad[] = {
        "\x80",  /* a tail alone */
        "a\xc3", /* cut short */
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc0\xaf", /* over-long */
        "\xc1\xbf",
        "\xe0\x80\xaf",
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\xaf",
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80", /* surrogates */
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", /* beyond the last */
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfe",
        "\xff",
        "\xc3\x28",
        "\xe2\x28\xa1",
        "abc\xe4"
        "def",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(text_is_utf8(slice_of(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(text_is_utf8(slice_of(bad[i])));
    assert_true(text_is_utf8((struct slice){"a\0b", 3}));
    assert_false(text_is_utf8((struct slice){"\xe2\x82\xac", 2}));
}

static void
test_nfc_composes_and_is_stable(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"a\xcc\x88", "\xc3\xa4"}, /* a + diaeresis */
        {"\xc3\xa4", "\xc3\xa4"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, /* Hangul */
        {"\xe2\x84\xaa", "K"},                                    /* Kelvin sign */
        {"\xef\xac\x81", "\xef\xac\x81"},                         /* a ligature is kept */
        {"q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87"},               /* marks are put in order */
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    struct err err = {0};
    struct slice once;
    struct slice twice;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(text_nfc(slice_of(cases[i].in), &arena, &once, &err), 0);
        assert_true(slice_is(once, cases[i].out));
        assert_int_equal(once.data[once.len], 0);
        assert_int_equal(text_nfc(once, &arena, &twice, &err), 0);
        assert_true(slice_eq(once, twice));
    }
    assert_int_equal(text_nfc(SLICE("a\xed\xa0\x80"), &arena, &once, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void
test_numbers_are_digits_and_nothing_else(void **state)
{
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "-1",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "1K",
                                      "a",
                                      "\xd9\xa1",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(text_parse_u64(slice_of(bad[i]), UINT64_MAX, &value));
    assert_int_equal(value, 7);
    assert_true(text_parse_u64(SLICE("18446744073709551615"), UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_true(text_parse_u64(SLICE("000"), 0, &value));
    assert_int_equal(value, 0);
    assert_true(text_parse_u64(SLICE("65535"), 65535, &value));
    assert_false(text_parse_u64(SLICE("65536"), 65535, &value));
}

static void
test_sizes_are_powers_of_1024_and_never_wrap(void **state)
{
    static const struct {
        const char *in;
        uint64_t value;
    } cases[] = {
        {"64", 64},
        {"8K", 8192},
        {"10M", 10485760},
        {"2G", UINT64_C(2147483648)},
        {"1T", UINT64_C(1099511627776)},
        {"0T", 0},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    static const char *const bad[] = {"",     "K",   "1k",        "1KB",
                                      "1 K",  "1P",  "K1",        "-1K",
                                      "1.5G", "1KK", "16777216T", "18446744073709551615K"};
    uint64_t value;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(text_parse_size(slice_of(cases[i].in), UINT64_MAX, &value));
        assert_true(value == cases[i].value);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(text_parse_size(slice_of(bad[i]), UINT64_MAX, &value));
    assert_false(text_parse_size(SLICE("2K"), 2047, &value));
    assert_true(text_parse_size(SLICE("2K"), 2048, &value));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex_goes_there_and_back),
        cmocka_unit_test(test_unhex_refuses_wrong_lengths_and_letters),
        cmocka_unit_test(test_base64_decodes_the_vectors_of_rfc_4648),
        cmocka_unit_test(test_base64_refuses_what_is_malformed),
        cmocka_unit_test(test_base64_knows_exactly_64_letters),
        cmocka_unit_test(test_percent_encoding_leaves_only_unreserved_characters),
        cmocka_unit_test(test_percent_decoding_happens_once),
        cmocka_unit_test(test_every_byte_survives_encoding_and_decoding),
        cmocka_unit_test(test_xml_escapes_what_markup_is_made_of),
        cmocka_unit_test(test_utf8_is_told_from_what_only_looks_like_it),
        cmocka_unit_test(test_nfc_composes_and_is_stable),
        cmocka_unit_test(test_numbers_are_digits_and_nothing_else),
        cmocka_unit_test(test_sizes_are_powers_of_1024_and_never_wrap),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
