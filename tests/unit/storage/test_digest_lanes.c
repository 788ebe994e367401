/* Both widths, on any processor that has AVX2: the wide form is compiled for it here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors wider than the registers */
#define LANES_8_FEATURE "avx2"
#include "storage/digest_lanes.c"

enum { MESSAGES_MAX = 70, BYTES_MAX = 70 * 1024 };

static uint8_t *bytes;

static void
check(size_t width, const size_t *lens, size_t count)
{
    struct slice messages[MESSAGES_MAX];
    struct digest digests[MESSAGES_MAX];

    for (size_t i = 0; i < count; i++)
        messages[i] = (struct slice){(char *)bytes + i, lens[i]};
    digest_lanes_run(width, messages, count, digests);
    for (size_t i = 0; i < count; i++) {
        struct digest one = digest_of(messages[i].data, messages[i].len);

        assert_memory_equal(digests[i].bytes, one.bytes, DIGEST_BYTES);
    }
}

static void
check_all(const size_t *lens, size_t count)
{
    if (digest_lanes_width() == 1)
        skip();
    check(4, lens, count);
    check(8, lens, count);
}

static void
every_length_around_the_blocks_gives_what_libsodium_gives(void **state)
{
    (void)state;
    for (size_t first = 0; first < 400; first += MESSAGES_MAX) {
        size_t lens[MESSAGES_MAX];

        for (size_t i = 0; i < MESSAGES_MAX; i++)
            lens[i] = first + i;
        check_all(lens, MESSAGES_MAX);
    }
}

static void
fewer_messages_than_lanes_and_more(void **state)
{
    static const size_t lens[MESSAGES_MAX] = {1000, 5, 0, 128, 129, 70000, 256, 255, 31, 4096};

    (void)state;
    for (size_t count = 1; count <= 20; count++)
        check_all(lens, count);
}

static void
lengths_at_random(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20; round++) {
        size_t lens[MESSAGES_MAX];

        for (size_t i = 0; i < MESSAGES_MAX; i++)
            lens[i] = (size_t)rand() % (BYTES_MAX - MESSAGES_MAX);
        check_all(lens, MESSAGES_MAX);
    }
}

static int
fill(void **state)
{
    (void)state;
    bytes = malloc(BYTES_MAX);
    assert_non_null(bytes);
    srand(7);
    for (size_t i = 0; i < BYTES_MAX; i++)
        bytes[i] = (uint8_t)rand();
    return 0;
}

static int
empty(void **state)
{
    (void)state;
    free(bytes);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_around_the_blocks_gives_what_libsodium_gives),
        cmocka_unit_test(fewer_messages_than_lanes_and_more),
        cmocka_unit_test(lengths_at_random),
    };

    return cmocka_run_group_tests(tests, fill, empty);
}
