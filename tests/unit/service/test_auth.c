#include "unit/service/fixture.h"

#include <pthread.h>

#include "base/metrics.h"
#include "service/auth.h"

#define ADDRESS "192.0.2.1"

static struct auth *
new_auth(struct fixture *fix)
{
    fix->config.auth_cache_secs = 60;
    fix->config.lockout_max_failures = 3;
    fix->config.lockout_duration_secs = 900;
    fix->config.rate_limit_login_max = 100;
    fix->config.rate_limit_login_window_secs = 60;
    return auth_new(&fix->config, fix->pool);
}

static enum err_code
login_from(struct fixture *fix, struct auth *auth, const char *name, const char *password,
           const char *address)
{
    struct principal principal;
    int rc =
        auth_password(auth, slice_of(name), slice_of(password), address, &principal, &fix->err);

    if (rc == 0) {
        assert_int_equal(principal.user_id, fix->me.user_id);
        assert_int_equal(principal.space_id, fix->me.space_id);
        assert_string_equal(principal.name, fix->me.name);
    }
    return outcome(fix, rc);
}

/* Each test has a user of its own, so the address may be the same. */
static enum err_code
login(struct fixture *fix, struct auth *auth, const char *password)
{
    return login_from(fix, auth, fix->me.name, password, ADDRESS);
}

static void
test_the_right_password_lets_in_and_costs_one_hash(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    uint64_t before = metric_value(METRIC_AUTH_HASHES);
    struct principal principal;

    assert_int_equal(auth_recall(auth, slice_of(fix->me.name), SLICE(PASSWORD), &principal), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    assert_int_equal(metric_value(METRIC_AUTH_HASHES) - before, 1);
    assert_int_equal(auth_recall(auth, slice_of(fix->me.name), SLICE(PASSWORD), &principal), 1);
    assert_int_equal(principal.user_id, fix->me.user_id);
    auth_free(auth);
}

static void
test_a_wrong_pair_is_computed_once_and_locks_nobody(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    uint64_t before = metric_value(METRIC_AUTH_HASHES);
    struct principal principal;

    for (int i = 0; i < 10; i++)
        assert_int_equal(login(fix, auth, "an old password"), ERR_LOGIN);
    assert_int_equal(metric_value(METRIC_AUTH_HASHES) - before, 1);
    assert_int_equal(
        auth_recall(auth, slice_of(fix->me.name), SLICE("an old password"), &principal), 0);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    auth_free(auth);
}

static void
test_guessing_locks_the_account_for_the_address_only(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);

    assert_int_equal(login(fix, auth, "guess one"), ERR_LOGIN);
    assert_int_equal(login(fix, auth, "guess two"), ERR_LOGIN);
    assert_int_equal(login(fix, auth, "guess three"), ERR_LOGIN);
    assert_int_equal(login(fix, auth, "guess four"), ERR_TOO_MANY);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_TOO_MANY);
    assert_int_equal(login_from(fix, auth, fix->me.name, PASSWORD, "192.0.2.77"), ERR_NONE);
    auth_free(auth);
}

static void
test_a_login_forgives_earlier_failures(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);

    fix->config.auth_cache_secs = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(login(fix, auth, "a slip"), ERR_LOGIN);
        assert_int_equal(login(fix, auth, "another slip"), ERR_LOGIN);
        assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    }
    auth_free(auth);
}

static void
test_an_address_may_not_go_through_many_accounts(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    static const char *const NAMES[] = {"anna", "bert", "carl", "dora"};

    fix->config.rate_limit_login_max = 4;
    for (int i = 0; i < 4; i++)
        assert_int_equal(login_from(fix, auth, NAMES[i], "12345678", "192.0.2.99"), ERR_LOGIN);
    assert_int_equal(login_from(fix, auth, fix->me.name, PASSWORD, "192.0.2.99"), ERR_TOO_MANY);
    auth_free(auth);
}

static void
test_unknown_and_impossible_names_cost_a_hash_and_look_alike(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    uint64_t before = metric_value(METRIC_AUTH_HASHES);
    char long_name[500];

    memset(long_name, 'n', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = 0;
    assert_int_equal(login_from(fix, auth, "nobody", PASSWORD, "192.0.2.3"), ERR_LOGIN);
    assert_int_equal(login_from(fix, auth, long_name, PASSWORD, "192.0.2.4"), ERR_LOGIN);
    assert_int_equal(login_from(fix, auth, "\xff\xfe", PASSWORD, "192.0.2.5"), ERR_LOGIN);
    assert_int_equal(login_from(fix, auth, "", PASSWORD, "192.0.2.6"), ERR_LOGIN);
    assert_int_equal(metric_value(METRIC_AUTH_HASHES) - before, 4);
    auth_free(auth);
}

static void
test_the_bounds_of_name_and_password_do_not_blur(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    struct principal principal;
    char name[USER_NAME_MAX + 1 + sizeof(PASSWORD)];

    assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    snprintf(name, sizeof(name), "%s%c", fix->me.name, PASSWORD[0]);
    assert_int_equal(auth_recall(auth, slice_of(name), slice_of(&PASSWORD[1]), &principal), 0);
    auth_free(auth);
}

static void
test_a_disabled_user_stays_outside(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);

    assert_int_equal(users_set_disabled(fix->pool, fix->me.name, true, &fix->err), 0);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_LOGIN);
    assert_int_equal(users_set_disabled(fix->pool, fix->me.name, false, &fix->err), 0);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    auth_free(auth);
}

static void
test_a_new_password_replaces_the_old_one_also_when_it_was_tried_before(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);

    assert_int_equal(login(fix, auth, "new words"), ERR_LOGIN);
    assert_int_equal(
        users_set_password(fix->pool, &fix->config, fix->me.name, SLICE("new words"), &fix->err),
        0);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_LOGIN);
    assert_int_equal(login(fix, auth, "new words"), ERR_NONE);
    auth_free(auth);
}

static void
test_a_database_that_is_away_is_no_wrong_password(void **state)
{
    struct fixture *fix = *state;
    struct pg_pool *pool = pg_pool_new("host=/nonexistent dbname=none", 1, 100);
    struct auth *auth = auth_new(&fix->config, pool);

    assert_int_equal(login(fix, auth, PASSWORD), ERR_UNAVAILABLE);
    auth_free(auth);
    pg_pool_free(pool);

    auth = auth_new(&fix->config, fix->pool);
    assert_int_equal(login(fix, auth, PASSWORD), ERR_NONE);
    auth_free(auth);
}

/* --- many at once --- */

enum { CROWD = 12 };

struct visitor {
    struct fixture *fix;
    struct auth *auth;
    pthread_barrier_t *start;
    enum err_code code;
};

static void *
visit(void *arg)
{
    struct visitor *visitor = arg;
    struct principal principal;
    struct err err = {0};

    pthread_barrier_wait(visitor->start);
    (void)auth_password(visitor->auth, slice_of(visitor->fix->me.name), SLICE(PASSWORD), ADDRESS,
                        &principal, &err);
    visitor->code = err.code;
    return NULL;
}

static void
test_a_crowd_with_one_pair_waits_for_one_hash(void **state)
{
    struct fixture *fix = *state;
    struct auth *auth = new_auth(fix);
    struct visitor visitors[CROWD];
    pthread_t threads[CROWD];
    pthread_barrier_t start;
    uint64_t before = metric_value(METRIC_AUTH_HASHES);

    pthread_barrier_init(&start, NULL, CROWD);
    for (int i = 0; i < CROWD; i++) {
        visitors[i] = (struct visitor){.fix = fix, .auth = auth, .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(visitors[i].code, ERR_NONE);
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(metric_value(METRIC_AUTH_HASHES) - before, 1);
    auth_free(auth);
}

/* --- users --- */

static void
test_names_and_passwords_have_rules(void **state)
{
    struct fixture *fix = *state;
    static const struct {
        const char *name;
        const char *password;
        enum err_code code;
    } CASES[] = {
        {"", PASSWORD, ERR_INVALID},         {"a:b", PASSWORD, ERR_INVALID},
        {"a/b", PASSWORD, ERR_INVALID},      {"a\nb", PASSWORD, ERR_INVALID},
        {"\xff", PASSWORD, ERR_INVALID},     {"short", "1234567", ERR_INVALID},
        {"j\xc3\xbcrg", PASSWORD, ERR_NONE}, {"ju\xcc\x88rg", PASSWORD, ERR_EXISTS},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
        assert_int_equal(outcome(fix, users_add(fix->pool, &fix->config, CASES[i].name,
                                                slice_of(CASES[i].password), -1, &fix->err)),
                         CASES[i].code);
}

static void
test_the_first_user_is_made_once(void **state)
{
    struct fixture *fix = *state;
    char password[USERS_FIRST_PASSWORD_SIZE];
    bool made = true;

    assert_int_equal(users_first(fix->pool, &fix->config, &made, password, &fix->err), 0);
    assert_false(made);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_the_right_password_lets_in_and_costs_one_hash),
        SERVICE_TEST(test_a_wrong_pair_is_computed_once_and_locks_nobody),
        SERVICE_TEST(test_guessing_locks_the_account_for_the_address_only),
        SERVICE_TEST(test_a_login_forgives_earlier_failures),
        SERVICE_TEST(test_an_address_may_not_go_through_many_accounts),
        SERVICE_TEST(test_unknown_and_impossible_names_cost_a_hash_and_look_alike),
        SERVICE_TEST(test_the_bounds_of_name_and_password_do_not_blur),
        SERVICE_TEST(test_a_disabled_user_stays_outside),
        SERVICE_TEST(test_a_new_password_replaces_the_old_one_also_when_it_was_tried_before),
        SERVICE_TEST(test_a_database_that_is_away_is_no_wrong_password),
        SERVICE_TEST(test_a_crowd_with_one_pair_waits_for_one_hash),
        SERVICE_TEST(test_names_and_passwords_have_rules),
        SERVICE_TEST(test_the_first_user_is_made_once),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
