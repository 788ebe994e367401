#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sodium.h>

#include "base/rand.h"
#include "service/password.h"

static const struct config CHEAP = {.hash_memory_cost_kib = 8192, .hash_time_cost = 1};

static int
start(void **state)
{
    struct err err = {0};

    (void)state;
    return rand_start(&err);
}

static void
test_a_hash_matches_the_password_it_was_made_of_and_no_other(void **state)
{
    char hash[USER_HASH_MAX + 1];
    struct err err = {0};
    bool matches;

    (void)state;
    assert_int_equal(password_hash(&CHEAP, SLICE("correct horse"), hash, &err), 0);
    assert_int_equal(password_matches(SLICE("correct horse"), hash, &matches, &err), 0);
    assert_true(matches);
    assert_int_equal(password_matches(SLICE("correct hors"), hash, &matches, &err), 0);
    assert_false(matches);
    assert_int_equal(password_matches(SLICE(""), hash, &matches, &err), 0);
    assert_false(matches);
}

static void
test_one_password_has_another_hash_each_time(void **state)
{
    char first[USER_HASH_MAX + 1], second[USER_HASH_MAX + 1];
    struct err err = {0};

    (void)state;
    assert_int_equal(password_hash(&CHEAP, SLICE("correct horse"), first, &err), 0);
    assert_int_equal(password_hash(&CHEAP, SLICE("correct horse"), second, &err), 0);
    assert_string_not_equal(first, second);
}

static void
test_passwords_have_8_to_1024_bytes(void **state)
{
    char text[PASSWORD_MOST_BYTES + 1];
    char hash[USER_HASH_MAX + 1];
    struct err err = {0};

    (void)state;
    memset(text, 'p', sizeof(text));
    assert_int_equal(password_hash(&CHEAP, (struct slice){text, 7}, hash, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    err = (struct err){0};
    assert_int_equal(password_hash(&CHEAP, (struct slice){text, sizeof(text)}, hash, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(password_hash(&CHEAP, (struct slice){text, 8}, hash, &err), 0);
    assert_int_equal(password_hash(&CHEAP, (struct slice){text, 1024}, hash, &err), 0);
}

/* An unknown name must not be known by its answer coming sooner. */
static void
test_the_hash_of_nobody_costs_what_others_do_and_matches_nothing(void **state)
{
    char hash[USER_HASH_MAX + 1];
    struct err err = {0};
    bool matches = true;

    (void)state;
    password_hash_of_nobody(&CHEAP, hash);
    assert_int_equal(crypto_pwhash_str_needs_rehash(hash, CHEAP.hash_time_cost,
                                                    (size_t)CHEAP.hash_memory_cost_kib * 1024),
                     0);
    assert_int_equal(password_matches(SLICE("correct horse"), hash, &matches, &err), 0);
    assert_false(matches);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hash_matches_the_password_it_was_made_of_and_no_other),
        cmocka_unit_test(test_one_password_has_another_hash_each_time),
        cmocka_unit_test(test_passwords_have_8_to_1024_bytes),
        cmocka_unit_test(test_the_hash_of_nobody_costs_what_others_do_and_matches_nothing),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
