#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/body.h"

static void
test_a_short_body_gets_a_queue_of_its_length(void **state)
{
    struct body body;

    (void)state;
    body_start(&body, 10);
    assert_int_equal(body.cap, 10);
    assert_int_equal(body_copy_in(&body, "0123456789abc", 13), 10);
    body_release(&body);
}

static void
test_a_full_queue_takes_nothing(void **state)
{
    struct body body;

    (void)state;
    body_start(&body, 4);
    body_written(&body, body_copy_in(&body, "abcd", 4));
    assert_int_equal(body_room(&body), 0);
    assert_int_equal(body_copy_in(&body, "e", 1), 0);
    body_release(&body);
}

/* Every byte comes out once and in order, whatever the sizes of the pieces on either side. */
static void
test_bytes_keep_their_order_around_the_end_of_the_ring(void **state)
{
    enum { TOTAL = 100000 };
    struct body body;
    size_t in = 0, out = 0;
    uint8_t piece[97];

    (void)state;
    body_start(&body, 1009);
    while (out < TOTAL) {
        size_t len = 1 + in % sizeof(piece);

        if (len > TOTAL - in)
            len = TOTAL - in;
        for (size_t i = 0; i < len; i++)
            piece[i] = (uint8_t)((in + i) * 31 % 251);
        len = body_copy_in(&body, piece, len);
        body_written(&body, len);
        in += len;

        const uint8_t *data;
        size_t got = body_peek(&body, &data);

        if (got > 61)
            got = 61;
        for (size_t i = 0; i < got; i++)
            assert_int_equal(data[i], (uint8_t)((out + i) * 31 % 251));
        body_taken(&body, got);
        out += got;
    }
    assert_int_equal(body_queued(&body), 0);
    body_release(&body);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_body_gets_a_queue_of_its_length),
        cmocka_unit_test(test_a_full_queue_takes_nothing),
        cmocka_unit_test(test_bytes_keep_their_order_around_the_end_of_the_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
