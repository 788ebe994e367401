#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "base/text.h"

/* FIPS 180-4, examples. */
static void
test_the_examples_of_the_standard_come_out(void **state)
{
    static const struct {
        const char *text;
        const char *hex;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[2 * SHA256_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        struct slice text = slice_of(examples[i].text);
        struct sha256_state sum_state;
        struct sha256 sum;

        sha256_init(&sum_state);
        sha256_add(&sum_state, text.data, text.len / 2);
        sha256_add(&sum_state, text.data + text.len / 2, text.len - text.len / 2);
        sum = sha256_end(&sum_state);
        text_hex(hex, sum.bytes, SHA256_BYTES);
        assert_string_equal(hex, examples[i].hex);
    }
}

static void
test_base64_has_the_padding_that_digest_fields_need(void **state)
{
    struct sha256 sum = {{0}};
    char text[SHA256_BASE64_SIZE];

    (void)state;
    for (int i = 0; i < SHA256_BYTES; i++)
        sum.bytes[i] = (uint8_t)(0xf8 + i);
    sha256_base64(text, &sum);
    assert_string_equal(text, "+Pn6+/z9/v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc=");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_examples_of_the_standard_come_out),
        cmocka_unit_test(test_base64_has_the_padding_that_digest_fields_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
