#include "service/locks.h"

#include "unit/service/fixture.h"

/* What a request would submit: up to two tokens; NULL: none. */
struct shown {
    char *list[2];
    struct lock_tokens tokens;
    struct files_guard guard;
};

static const struct files_guard *
show(struct fixture *fix, struct shown *shown, const char *first, const char *second)
{
    *shown = (struct shown){.list = {(char *)first, (char *)second}};
    shown->tokens.tokens = shown->list;
    shown->tokens.count = (first != NULL) + (second != NULL);
    shown->tokens.arena = &fix->arena;
    shown->guard.tokens = &shown->tokens;
    return &shown->guard;
}

/* ret_token may be NULL. */
static enum err_code
take_as(struct fixture *fix, const struct principal *who, const char *text, bool shared, bool deep,
        const char **ret_token)
{
    struct path path = path_of(fix, text);
    struct lock_wish wish = {.shared = shared, .deep = deep, .owner = "<D:x/>"};
    struct shown shown;
    struct lock lock;
    bool created;
    int rc = locks_take(&fix->files, who, &path, &wish, show(fix, &shown, NULL, NULL), &lock,
                        &created, &fix->err);

    if (rc == 0 && ret_token)
        *ret_token = lock.token;
    return outcome(fix, rc);
}

static enum err_code
take(struct fixture *fix, const char *text, bool deep, const char **ret_token)
{
    return take_as(fix, &fix->me, text, false, deep, ret_token);
}

static enum err_code
ended(struct fixture *fix, const struct principal *who, const char *text, const char *token)
{
    struct path path = path_of(fix, text);
    struct shown shown;

    return outcome(
        fix, locks_end(&fix->files, who, &path, token, show(fix, &shown, NULL, NULL), &fix->err));
}

static enum err_code
put_showing(struct fixture *fix, const char *text, const char *first, const char *second)
{
    struct shown shown;

    return put_guarded(fix, text, "new", show(fix, &shown, first, second), NULL);
}

static enum err_code
transferred(struct fixture *fix, enum files_transfer_kind kind, const char *source,
            const char *target, const char *first, const char *second)
{
    struct path from = path_of(fix, source);
    struct path to = path_of(fix, target);
    struct shown shown;
    const struct files_guard *guard = show(fix, &shown, first, second);
    struct files_transfer transfer = {.kind = kind,
                                      .source = &from,
                                      .target = &to,
                                      .overwrite = true,
                                      .mtime_us = -1,
                                      .source_guard = *guard,
                                      .target_guard = *guard};
    struct node node;
    bool created;

    return outcome(fix,
                   files_transfer(&fix->files, &fix->me, &transfer, &node, &created, &fix->err));
}

static size_t
lock_count(struct fixture *fix, const char *text)
{
    struct node node;
    struct lock *locks;
    size_t count = 99;

    assert_int_equal(stat_node(fix, text, &node), ERR_NONE);
    assert_int_equal(locks_of(&fix->files, &node.id, 1, &fix->arena, &locks, &count, &fix->err), 0);
    return count;
}

/* Somebody else who may write in the same space, as nobody can so far. */
static struct principal
somebody(struct fixture *fix)
{
    struct principal mine = fix->me;
    struct principal other;

    assert_int_equal(fixture_user((void *[]){fix}), 0);
    other = fix->me;
    fix->me = mine;
    other.space_id = mine.space_id;
    return other;
}

static void
test_a_token_of_ours_is_known_by_its_form(void **state)
{
    struct fixture *fix = *state;
    const char *token;

    assert_int_equal(take(fix, "/f", false, &token), ERR_NONE);
    assert_true(locks_is_token(slice_of(token)));
    assert_false(locks_is_token(SLICE("opaquelocktoken:")));
    assert_false(locks_is_token(SLICE("DAV:no-lock")));
    assert_false(locks_is_token(SLICE("opaquelocktoken:00000000-0000-4000-8000-00000000deaX")));
    assert_false(locks_is_token((struct slice){0}));
}

static void
test_somebody_elses_token_opens_nothing(void **state)
{
    struct fixture *fix = *state;
    struct principal other = somebody(fix);
    const char *mine, *theirs;

    assert_int_equal(put(fix, "/f", "old"), ERR_NONE);
    assert_int_equal(take_as(fix, &other, "/f", true, false, &theirs), ERR_NONE);
    assert_int_equal(put_showing(fix, "/f", theirs, NULL), ERR_LOCKED);
    assert_int_equal(take_as(fix, &fix->me, "/f", true, false, &mine), ERR_NONE);
    assert_int_equal(put_showing(fix, "/f", theirs, NULL), ERR_LOCKED);
    assert_int_equal(put_showing(fix, "/f", mine, NULL), ERR_NONE);
}

static void
test_only_its_owner_ends_a_lock(void **state)
{
    struct fixture *fix = *state;
    struct principal other = somebody(fix);
    const char *token;

    assert_int_equal(take(fix, "/f", false, &token), ERR_NONE);
    assert_int_equal(ended(fix, &other, "/f", token), ERR_DENIED);
    assert_int_equal(put(fix, "/f", "x"), ERR_LOCKED);
    assert_int_equal(ended(fix, &fix->me, "/f", token), ERR_NONE);
    assert_int_equal(ended(fix, &fix->me, "/f", token), ERR_CONFLICT);
    assert_int_equal(put(fix, "/f", "x"), ERR_NONE);
}

static void
test_only_its_owner_refreshes_a_lock(void **state)
{
    struct fixture *fix = *state;
    struct principal other = somebody(fix);
    struct path path = path_of(fix, "/f");
    struct shown shown;
    struct lock *locks;
    const char *token;
    size_t count;

    assert_int_equal(take(fix, "/f", false, &token), ERR_NONE);
    assert_int_equal(
        outcome(fix, locks_refresh(&fix->files, &other, &path, LOCKS_TIMEOUT_ANY,
                                   show(fix, &shown, token, NULL), &locks, &count, &fix->err)),
        ERR_PRECONDITION);
    assert_int_equal(
        outcome(fix, locks_refresh(&fix->files, &fix->me, &path, 77, show(fix, &shown, token, NULL),
                                   &locks, &count, &fix->err)),
        ERR_NONE);
    assert_int_equal(count, 1);
    assert_int_equal(locks[0].timeout_secs, 77);
    assert_string_equal(locks[0].path, "/f");
    assert_string_equal(locks[0].owner, "<D:x/>");
}

static void
test_a_refusal_names_each_lock_in_the_way_once(void **state)
{
    struct fixture *fix = *state;
    struct path path = path_of(fix, "/d");
    struct shown shown;

    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(make(fix, "/d/e"), ERR_NONE);
    assert_int_equal(take_as(fix, &fix->me, "/d/e/f", true, false, NULL), ERR_NONE);
    assert_int_equal(take_as(fix, &fix->me, "/d/e/f", true, false, NULL), ERR_NONE);
    assert_int_equal(take_as(fix, &fix->me, "/d", true, false, NULL), ERR_NONE);
    assert_int_equal(outcome(fix, files_remove(&fix->files, &fix->me, &path,
                                               show(fix, &shown, NULL, NULL), &fix->err)),
                     ERR_LOCKED);
    assert_int_equal(shown.tokens.blocker_count, 2);
    assert_string_equal(shown.tokens.blockers[0].path, "/d");
    assert_int_equal(shown.tokens.blockers[0].kind, NODE_FOLDER);
    assert_false(shown.tokens.blockers[0].below);
    assert_string_equal(shown.tokens.blockers[1].path, "/d/e/f");
    assert_true(shown.tokens.blockers[1].below);
    assert_string_equal(what(fix, "/d/e/f"), "");
}

static void
test_the_root_of_a_space_can_be_locked(void **state)
{
    struct fixture *fix = *state;
    const char *token;

    assert_int_equal(put(fix, "/f", "x"), ERR_NONE);
    assert_int_equal(take(fix, "/", true, &token), ERR_NONE);
    assert_int_equal(put(fix, "/f", "y"), ERR_LOCKED);
    assert_int_equal(make(fix, "/d"), ERR_LOCKED);
    assert_int_equal(put_showing(fix, "/f", token, NULL), ERR_NONE);
    assert_int_equal(lock_count(fix, "/f"), 1);
}

static void
test_a_move_needs_the_tokens_of_both_ends(void **state)
{
    struct fixture *fix = *state;
    const char *from, *to;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(make(fix, "/b"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "x"), ERR_NONE);
    assert_int_equal(take(fix, "/a", false, &from), ERR_NONE);
    assert_int_equal(take(fix, "/b", false, &to), ERR_NONE);
    assert_int_equal(transferred(fix, FILES_MOVE, "/a/f", "/b/f", NULL, NULL), ERR_LOCKED);
    assert_int_equal(transferred(fix, FILES_MOVE, "/a/f", "/b/f", from, NULL), ERR_LOCKED);
    assert_int_equal(transferred(fix, FILES_MOVE, "/a/f", "/b/f", to, NULL), ERR_LOCKED);
    assert_int_equal(transferred(fix, FILES_COPY, "/a/f", "/b/g", to, NULL), ERR_NONE);
    assert_int_equal(transferred(fix, FILES_MOVE, "/a/f", "/b/f", from, to), ERR_NONE);
    assert_int_equal(lock_count(fix, "/b"), 1);
}

static void
test_a_replaced_tree_leaves_only_the_lock_on_its_own_address(void **state)
{
    struct fixture *fix = *state;
    const char *on_tree, *on_member;

    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(put(fix, "/d/f", "x"), ERR_NONE);
    assert_int_equal(make(fix, "/n"), ERR_NONE);
    assert_int_equal(put(fix, "/n/f", "y"), ERR_NONE);
    assert_int_equal(take(fix, "/d", false, &on_tree), ERR_NONE);
    assert_int_equal(take(fix, "/d/f", false, &on_member), ERR_NONE);
    assert_int_equal(transferred(fix, FILES_COPY, "/n", "/d", on_tree, on_member), ERR_NONE);
    assert_string_equal(what(fix, "/d/f"), "y");
    assert_int_equal(lock_count(fix, "/d"), 1);
    assert_int_equal(lock_count(fix, "/d/f"), 0);
    assert_int_equal(ended(fix, &fix->me, "/d", on_tree), ERR_NONE);
    assert_int_equal(ended(fix, &fix->me, "/d/f", on_member), ERR_CONFLICT);
}

static void
test_what_is_in_the_trash_does_not_come_back_into_a_locked_folder(void **state)
{
    struct fixture *fix = *state;
    struct trash_entry entry;
    size_t count;
    char *path;

    assert_int_equal(put(fix, "/f", "x"), ERR_NONE);
    assert_int_equal(removed(fix, "/f"), ERR_NONE);
    assert_int_equal(take(fix, "/", false, NULL), ERR_NONE);
    assert_int_equal(
        trash_list(&fix->files, &fix->me, 0, &fix->arena, &entry, 1, &count, &fix->err), 0);
    assert_int_equal(outcome(fix, trash_restore(&fix->files, &fix->me, entry.node_id, &fix->arena,
                                                &path, &fix->err)),
                     ERR_LOCKED);
}

static int
fill_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct fixture *fix = ctx;
    static const char SQL_FILL[] =
        "insert into locks (token, node_id, space_id, user_id, shared, deep, owner, timeout_secs,"
        " expires_at) "
        "select 'urn:' || n.id || ':' || i, n.id, n.space_id, $2, true, false, '', 60,"
        " now() + interval '1 minute' "
        "from nodes n, generate_series(1, $3::bigint) i where n.space_id = $1 and n.name = 'held'";
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, fix->me.space_id);
    pg_add_int(&params, fix->me.user_id);
    pg_add_int(&params, LOCKS_PER_USER_MAX - 1);
    return pg_run(conn, SQL_FILL, &params, NULL, err);
}

static void
test_one_user_holds_so_many_locks_and_no_more(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(put(fix, "/held", ""), ERR_NONE);
    assert_int_equal(pg_pool_run(fix->pool, fill_work, fix, &fix->err), 0);
    assert_int_equal(take(fix, "/f", false, NULL), ERR_NONE);
    assert_int_equal(take(fix, "/g", false, NULL), ERR_QUOTA);
    assert_string_equal(what(fix, "/g"), "-");
}

static int
age_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    static const char SQL_AGE[] =
        "with aged as (update locks set expires_at = now() - interval '1 second'"
        "  where space_id = $1) "
        "update spaces set locked_until = now() - interval '1 second' where id = $1";
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, *(int64_t *)ctx);
    return pg_run(conn, SQL_AGE, &params, NULL, err);
}

static void
test_an_expired_lock_is_none_and_its_row_goes(void **state)
{
    struct fixture *fix = *state;
    const char *token;
    uint64_t count = 0;

    assert_int_equal(take(fix, "/f", false, &token), ERR_NONE);
    assert_int_equal(pg_pool_run(fix->pool, age_work, &fix->me.space_id, &fix->err), 0);
    assert_int_equal(lock_count(fix, "/f"), 0);
    assert_int_equal(put(fix, "/f", "x"), ERR_NONE);
    assert_int_equal(ended(fix, &fix->me, "/f", token), ERR_CONFLICT);
    assert_int_equal(locks_expire(&fix->files, &count, &fix->err), 0);
    assert_true(count >= 1);
    assert_int_equal(locks_expire(&fix->files, &count, &fix->err), 0);
    assert_int_equal(count, 0);
}

static void
test_the_space_says_whether_there_is_a_lock_at_all(void **state)
{
    struct fixture *fix = *state;
    struct node node;
    const char *token;

    assert_int_equal(stat_node(fix, "/", &node), ERR_NONE);
    assert_false(node.space_locked);
    assert_int_equal(take(fix, "/f", false, &token), ERR_NONE);
    assert_int_equal(stat_node(fix, "/", &node), ERR_NONE);
    assert_true(node.space_locked);
    assert_int_equal(ended(fix, &fix->me, "/f", token), ERR_NONE);
    assert_int_equal(stat_node(fix, "/", &node), ERR_NONE);
    assert_false(node.space_locked);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_a_token_of_ours_is_known_by_its_form),
        SERVICE_TEST(test_somebody_elses_token_opens_nothing),
        SERVICE_TEST(test_only_its_owner_ends_a_lock),
        SERVICE_TEST(test_only_its_owner_refreshes_a_lock),
        SERVICE_TEST(test_a_refusal_names_each_lock_in_the_way_once),
        SERVICE_TEST(test_the_root_of_a_space_can_be_locked),
        SERVICE_TEST(test_a_move_needs_the_tokens_of_both_ends),
        SERVICE_TEST(test_a_replaced_tree_leaves_only_the_lock_on_its_own_address),
        SERVICE_TEST(test_what_is_in_the_trash_does_not_come_back_into_a_locked_folder),
        SERVICE_TEST(test_one_user_holds_so_many_locks_and_no_more),
        SERVICE_TEST(test_an_expired_lock_is_none_and_its_row_goes),
        SERVICE_TEST(test_the_space_says_whether_there_is_a_lock_at_all),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
