#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "meta/user_repo.h"
#include "support/test_db.h"

/* One connection without a transaction: every call stands alone. */
struct fixture {
    struct test_db *db;
    struct pg_conn *conn;
    struct err err;
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s", #call, f->err.msg);                                                 \
    } while (0)

#define FAILS(call, wanted)                                                                        \
    do {                                                                                           \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(f->err.code, (wanted));                                                   \
        f->err = (struct err){0};                                                                  \
    } while (0)

static struct fixture fixture;

static int
open_fixture(void **state)
{
    struct fixture *f = &fixture;

    memset(f, 0, sizeof(*f));
    f->db = test_db_new(true);
    OK(pg_connect(f->db->conninfo, &f->conn, &f->err));
    *state = f;
    return 0;
}

static int
close_fixture(void **state)
{
    struct fixture *f = *state;

    pg_close(f->conn);
    test_db_free(f->db);
    return 0;
}

static int64_t
add(struct fixture *f, const char *name, int64_t quota_bytes)
{
    int64_t id;

    OK(user_repo_add(f->conn, name, "hash", quota_bytes, &id, &f->err));
    return id;
}

/* --- accounts --- */

static void
test_a_user_is_found_as_it_was_added(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "J\u00f6rg", 500);
    struct user user;

    OK(user_repo_find(f->conn, "J\u00f6rg", &user, &f->err));
    assert_int_equal(user.id, id);
    assert_string_equal(user.name, "J\u00f6rg");
    assert_string_equal(user.password_hash, "hash");
    assert_int_equal(user.quota_bytes, 500);
    assert_int_equal(user.used_bytes, 0);
    assert_int_not_equal(user.space_id, 0);
    assert_false(user.disabled);
    assert_in_range(user.created_us, clock_now_us() - 60000000, clock_now_us() + 60000000);
    FAILS(user_repo_find(f->conn, "j\u00f6rg", &user, &f->err), ERR_NOT_FOUND);
    FAILS(user_repo_add(f->conn, "J\u00f6rg", "x", -1, &id, &f->err), ERR_EXISTS);
}

static void
test_a_user_can_be_changed(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "a", 500);
    struct user user;

    OK(user_repo_set_password(f->conn, id, "other", &f->err));
    OK(user_repo_set_disabled(f->conn, id, true, &f->err));
    OK(user_repo_set_quota(f->conn, id, -1, &f->err));
    OK(user_repo_find(f->conn, "a", &user, &f->err));
    assert_string_equal(user.password_hash, "other");
    assert_true(user.disabled);
    assert_int_equal(user.quota_bytes, -1);
    OK(user_repo_set_quota(f->conn, id, 0, &f->err));
    OK(user_repo_find(f->conn, "a", &user, &f->err));
    assert_int_equal(user.quota_bytes, 0);
    FAILS(user_repo_set_disabled(f->conn, id + 1, true, &f->err), ERR_NOT_FOUND);
    FAILS(user_repo_remove(f->conn, id + 1, &f->err), ERR_NOT_FOUND);
}

static void
test_users_are_listed_in_pages(void **state)
{
    struct fixture *f = *state;
    struct user users[2];
    uint64_t total;
    size_t count;

    add(f, "a", -1);
    add(f, "b", -1);
    add(f, "c", -1);
    OK(user_repo_count(f->conn, &total, &f->err));
    assert_int_equal(total, 3);
    OK(user_repo_list(f->conn, 0, users, 2, &count, &f->err));
    assert_int_equal(count, 2);
    assert_string_equal(users[1].name, "b");
    OK(user_repo_list(f->conn, users[1].id, users, 2, &count, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(users[0].name, "c");
}

/* --- failed logins --- */

static void
fail_once(struct fixture *f, const char *account, const char *address, int64_t most)
{
    OK(user_repo_fail(f->conn, account, address, 60, most, 900, &f->err));
}

static void
look(struct fixture *f, int64_t *ret_count, int64_t *ret_locked_until_us)
{
    OK(user_repo_failures(f->conn, "a", "1.2.3.4", 60, ret_count, ret_locked_until_us, &f->err));
}

static void
test_failures_lock_when_there_are_too_many(void **state)
{
    struct fixture *f = *state;
    int64_t count, locked_until_us;

    look(f, &count, &locked_until_us);
    assert_int_equal(count, 0);
    assert_int_equal(locked_until_us, 0);
    for (int i = 1; i <= 3; i++) {
        look(f, &count, &locked_until_us);
        assert_int_equal(locked_until_us, 0);
        fail_once(f, "a", "1.2.3.4", 3);
        look(f, &count, &locked_until_us);
        assert_int_equal(count, i);
    }
    assert_in_range(locked_until_us, clock_now_us() + 800000000, clock_now_us() + 1000000000);
}

static void
test_failures_of_others_do_not_count(void **state)
{
    struct fixture *f = *state;
    int64_t count, locked_until_us;

    fail_once(f, "a", "9.9.9.9", 1);
    fail_once(f, "b", "1.2.3.4", 1);
    look(f, &count, &locked_until_us);
    assert_int_equal(count, 0);
    assert_int_equal(locked_until_us, 0);
    fail_once(f, "a", "1.2.3.4", 9);
    fail_once(f, "a", "1.2.3.4", 9);
    OK(user_repo_address_failures(f->conn, "1.2.3.4", 60, &count, &f->err));
    assert_int_equal(count, 3);
    OK(user_repo_forgive(f->conn, "a", "1.2.3.4", &f->err));
    OK(user_repo_address_failures(f->conn, "1.2.3.4", 60, &count, &f->err));
    assert_int_equal(count, 1);
}

static void
test_counting_begins_anew_after_the_window_or_a_lock(void **state)
{
    struct fixture *f = *state;
    int64_t count, locked_until_us;

    fail_once(f, "a", "1.2.3.4", 3);
    fail_once(f, "a", "1.2.3.4", 3);
    test_db_script(f->db, "update login_failures set first_at = now() - interval '61 seconds'");
    look(f, &count, &locked_until_us);
    assert_int_equal(count, 0);
    fail_once(f, "a", "1.2.3.4", 3);
    look(f, &count, &locked_until_us);
    assert_int_equal(count, 1);
    assert_int_equal(locked_until_us, 0);
    fail_once(f, "a", "1.2.3.4", 2);
    look(f, &count, &locked_until_us);
    assert_int_not_equal(locked_until_us, 0);
    test_db_script(f->db, "update login_failures set locked_until = now() - interval '1 second'");
    look(f, &count, &locked_until_us);
    assert_int_equal(count, 0);
    assert_int_equal(locked_until_us, 0);
    fail_once(f, "a", "1.2.3.4", 2);
    look(f, &count, &locked_until_us);
    assert_int_equal(count, 1);
    assert_int_equal(locked_until_us, 0);
}

static void
test_old_failures_are_removed_on_the_way(void **state)
{
    struct fixture *f = *state;

    fail_once(f, "old", "1.2.3.4", 3);
    fail_once(f, "locked", "1.2.3.4", 1);
    test_db_script(f->db, "update login_failures set first_at = now() - interval '3 days',"
                          " last_at = now() - interval '3 days'");
    fail_once(f, "a", "1.2.3.4", 3);
    assert_int_equal(test_db_number(f->db, "select count(*) from login_failures"), 2);
}

enum { THREADS = 6 };

static int
work_fail(struct pg_conn *conn, void *ctx, struct err *err)
{
    (void)ctx;
    return user_repo_fail(conn, "a", "1.2.3.4", 60, 1000, 900, err);
}

static void *
fail_many(void *arg)
{
    struct pg_pool *pool = arg;
    struct err err = {0};

    for (int i = 0; i < 20; i++)
        if (pg_pool_transact(pool, work_fail, NULL, NULL, &err) < 0)
            return "failed";
    return NULL;
}

static void
test_failures_at_the_same_moment_are_all_counted(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];
    int64_t count, locked_until_us;
    void *failed;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, fail_many, f->db->pool);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    look(f, &count, &locked_until_us);
    assert_int_equal(count, THREADS * 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_user_is_found_as_it_was_added),
        TEST(test_a_user_can_be_changed),
        TEST(test_users_are_listed_in_pages),
        TEST(test_failures_lock_when_there_are_too_many),
        TEST(test_failures_of_others_do_not_count),
        TEST(test_counting_begins_anew_after_the_window_or_a_lock),
        TEST(test_old_failures_are_removed_on_the_way),
        TEST(test_failures_at_the_same_moment_are_all_counted),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
