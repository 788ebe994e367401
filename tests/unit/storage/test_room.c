#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storage/room.h"
#include "support/mem_backend.h"

struct fixture {
    struct blob_backend *backend;
    struct room *room;
    struct err err;
};

static int
setup(void **state)
{
    struct fixture *fix = mem_zalloc(sizeof(*fix));

    fix->backend = mem_backend_new(1);
    mem_backend_set_free(fix->backend, 1000, ERR_NONE);
    fix->room = room_new(fix->backend, 100);
    *state = fix;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *fix = *state;

    room_free(fix->room);
    blob_free(fix->backend);
    free(fix);
    return 0;
}

static enum err_code
claim(struct fixture *fix, struct room_claim *claim, uint64_t bytes)
{
    fix->err = (struct err){0};
    (void)room_claim(fix->room, claim, bytes, &fix->err);
    return fix->err.code;
}

static enum err_code
take(struct fixture *fix, struct room_claim *claim, uint64_t bytes)
{
    fix->err = (struct err){0};
    (void)room_take(fix->room, claim, bytes, &fix->err);
    return fix->err.code;
}

static void
test_what_others_announced_is_not_promised_twice(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0}, two = {0};

    assert_int_equal(claim(fix, &one, 901), ERR_QUOTA);
    assert_int_equal(claim(fix, &one, 600), ERR_NONE);
    assert_int_equal(claim(fix, &two, 301), ERR_QUOTA);
    assert_int_equal(claim(fix, &two, 300), ERR_NONE);
    room_release(fix->room, &one);
    room_release(fix->room, &one);
    assert_int_equal(claim(fix, &one, 600), ERR_NONE);
    assert_int_equal(claim(fix, &one, UINT64_MAX), ERR_QUOTA);
}

static void
test_what_has_come_is_counted_once(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0}, two = {0};

    assert_int_equal(claim(fix, &one, 600), ERR_NONE);
    assert_int_equal(take(fix, &one, 600), ERR_NONE);
    assert_int_equal(claim(fix, &two, 300), ERR_NONE);
    room_release(fix->room, &two);
    mem_backend_set_free(fix->backend, 400, ERR_NONE); /* it is written */
    assert_int_equal(claim(fix, &two, 301), ERR_QUOTA);
    assert_int_equal(claim(fix, &two, 300), ERR_NONE);
    room_release(fix->room, &one);
}

static void
test_an_upload_under_way_ends_at_the_reserve(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0};

    assert_int_equal(claim(fix, &one, 0), ERR_NONE);
    assert_int_equal(take(fix, &one, 500), ERR_NONE);
    assert_false(room_is_low(fix->room));
    mem_backend_set_free(fix->backend, 99, ERR_NONE);
    assert_int_equal(take(fix, &one, 401), ERR_QUOTA);
    assert_true(room_is_low(fix->room));
    assert_int_equal(claim(fix, &(struct room_claim){0}, 0), ERR_QUOTA);
    mem_backend_set_free(fix->backend, 1000, ERR_NONE);
    assert_int_equal(claim(fix, &(struct room_claim){0}, 0), ERR_NONE);
    assert_false(room_is_low(fix->room));
}

static void
test_bytes_that_were_stored_already_end_no_upload(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0};

    assert_int_equal(claim(fix, &one, 800), ERR_NONE);
    for (int i = 0; i < 100; i++)
        assert_int_equal(take(fix, &one, 800), ERR_NONE); /* and as much is free as before */
}

static void
test_a_backend_that_cannot_say_is_not_watched_and_one_that_fails_is_heard(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0};

    mem_backend_set_free(fix->backend, 0, ERR_NOT_FOUND);
    assert_int_equal(claim(fix, &one, UINT64_MAX / 2), ERR_NONE);
    assert_int_equal(take(fix, &one, 1 << 30), ERR_NONE);
    room_release(fix->room, &one);
    room_free(fix->room);
    fix->room = room_new(fix->backend, 100);
    mem_backend_set_free(fix->backend, 0, ERR_UNAVAILABLE);
    assert_int_equal(claim(fix, &one, 1), ERR_UNAVAILABLE);
    assert_int_equal(one.coming_bytes, 0);
    mem_backend_set_free(fix->backend, 1000, ERR_NONE);
    assert_int_equal(claim(fix, &one, 1), ERR_NONE);
}

static void
test_where_no_room_is_watched_all_is_let_through(void **state)
{
    struct fixture *fix = *state;
    struct room_claim one = {0};

    assert_int_equal(room_claim(NULL, &one, UINT64_MAX, &fix->err), 0);
    assert_int_equal(room_take(NULL, &one, 1, &fix->err), 0);
    room_release(NULL, &one);
    assert_false(room_is_low(NULL));
}

#define ROOM_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(test_what_others_announced_is_not_promised_twice),
        ROOM_TEST(test_what_has_come_is_counted_once),
        ROOM_TEST(test_an_upload_under_way_ends_at_the_reserve),
        ROOM_TEST(test_bytes_that_were_stored_already_end_no_upload),
        ROOM_TEST(test_a_backend_that_cannot_say_is_not_watched_and_one_that_fails_is_heard),
        ROOM_TEST(test_where_no_room_is_watched_all_is_let_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
