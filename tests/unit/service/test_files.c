#include "unit/service/fixture.h"

#include "service/walk.h"

/* --- looking --- */

static void
test_a_new_space_is_an_empty_folder(void **state)
{
    struct fixture *fix = *state;
    struct node root;
    uint64_t count;

    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    assert_int_equal(root.kind, NODE_FOLDER);
    assert_int_equal(walk_count(&fix->files, &fix->me, &root, 10, &count, &fix->err), 0);
    assert_int_equal(count, 0);
}

static void
test_a_walk_goes_by_names_and_down_when_it_is_deep(void **state)
{
    static const char *const WAY[] = {"a", "b", "c", "d"};
    struct fixture *fix = *state;
    struct walk walk;
    struct node root;
    size_t seen = 0;

    assert_int_equal(put(fix, "/b", "1"), ERR_NONE);
    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/d", "3"), ERR_NONE);
    assert_int_equal(put(fix, "/c", "2"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    for (int deep = 0; deep < 2; deep++, seen = 0) {
        walk_init(&walk, &fix->files, &fix->me, &root, &WALK_ALL, deep);
        do {
            assert_int_equal(walk_next(&walk, &fix->err), 0);
            for (size_t i = 0; i < walk.count; i++, seen++)
                assert_string_equal(walk.nodes[i].name, WAY[seen]);
        } while (walk.count > 0);
        assert_int_equal(seen, deep ? 4 : 3);
        walk_release(&walk);
    }
}

static void
test_the_tree_of_another_user_is_not_there(void **state)
{
    struct fixture *fix = *state;
    struct node root;
    uint64_t count;

    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    fix->me.space_id++;
    assert_int_equal(outcome(fix, walk_count(&fix->files, &fix->me, &root, 10, &count, &fix->err)),
                     ERR_NOT_FOUND);
}

static void
test_a_file_asked_for_like_a_folder_is_not_there(void **state)
{
    struct fixture *fix = *state;
    struct node node;

    assert_int_equal(put(fix, "/a", "1"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/a/", &node), ERR_NOT_FOUND);
    assert_int_equal(stat_node(fix, "/a/b", &node), ERR_NOT_FOUND);
    assert_int_equal(stat_node(fix, "/a", &node), ERR_NONE);
}

/* --- writing --- */

static void
test_a_file_comes_back_and_is_replaced(void **state)
{
    struct fixture *fix = *state;
    bool created;

    assert_int_equal(put_guarded(fix, "/a.txt", "one", NULL, &created), ERR_NONE);
    assert_true(created);
    assert_string_equal(what(fix, "/a.txt"), "one");
    assert_int_equal(put_guarded(fix, "/a.txt", "two!", NULL, &created), ERR_NONE);
    assert_false(created);
    assert_string_equal(what(fix, "/a.txt"), "two!");
    assert_int_equal(put(fix, "/a.txt", ""), ERR_NONE);
    assert_string_equal(what(fix, "/a.txt"), "");
}

static void
test_a_file_needs_a_folder_above_and_no_folder_in_its_place(void **state)
{
    struct fixture *fix = *state;
    static const struct {
        const char *path;
        enum err_code code;
    } CASES[] = {
        {"/none/a", ERR_CONFLICT}, {"/file/a", ERR_CONFLICT}, {"/folder", ERR_EXISTS},
        {"/folder/", ERR_EXISTS},  {"/new/", ERR_EXISTS},     {"/file/", ERR_EXISTS},
        {"/", ERR_EXISTS},         {"/folder/a", ERR_NONE},
    };

    assert_int_equal(make(fix, "/folder"), ERR_NONE);
    assert_int_equal(put(fix, "/file", "1"), ERR_NONE);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        assert_int_equal(may_write(fix, CASES[i].path, 1), CASES[i].code);
        assert_int_equal(put(fix, CASES[i].path, "2"), CASES[i].code);
    }
    assert_string_equal(what(fix, "/file"), "1");
    assert_string_equal(what(fix, "/folder"), "/");
}

static void
test_an_upload_that_is_refused_leaves_no_blob(void **state)
{
    struct fixture *fix = *state;
    size_t before = mem_backend_count(fix->backend);

    assert_int_equal(put(fix, "/none/a", "bytes that nobody has yet"), ERR_CONFLICT);
    assert_int_equal(mem_backend_count(fix->backend), before);
}

static void
test_quotas_hold_before_and_after_the_body(void **state)
{
    struct fixture *fix = *state;
    uint64_t used;
    int64_t quota;

    fix->config.enable_user_storage_quotas = true;
    assert_int_equal(users_set_quota(fix->pool, fix->me.name, 10, &fix->err), 0);
    assert_int_equal(put(fix, "/a", "12345678"), ERR_NONE);
    assert_int_equal(may_write(fix, "/b", 3), ERR_QUOTA);
    assert_int_equal(put(fix, "/b", "123"), ERR_QUOTA);
    assert_int_equal(put(fix, "/b", "12"), ERR_NONE);
    assert_int_equal(put(fix, "/a", "123456789"), ERR_QUOTA);
    assert_int_equal(put(fix, "/a", "1"), ERR_NONE);
    assert_int_equal(files_usage(&fix->files, &fix->me, &used, &quota, &fix->err), 0);
    assert_int_equal(used, 3);
    assert_int_equal(quota, 10);
}

static void
test_an_announced_size_above_the_limit_is_refused(void **state)
{
    struct fixture *fix = *state;
    uint64_t most = fix->config.max_upload_bytes;

    assert_int_equal(may_write(fix, "/a", most + 1), ERR_TOO_LARGE);
    assert_int_equal(may_write(fix, "/a", UINT64_MAX), ERR_NONE);
}

/* Lets through what is not there. */
static int
only_new(void *ctx, const struct node *node, struct err *err)
{
    ++*(int *)ctx;
    return node ? err_set(err, ERR_PRECONDITION, "it is there") : 0;
}

static void
test_a_guard_decides_and_nothing_is_touched(void **state)
{
    struct fixture *fix = *state;
    int asked = 0;
    struct files_guard guard = {.check = only_new, .ctx = &asked};
    struct path path = path_of(fix, "/a");

    assert_int_equal(put_guarded(fix, "/a", "one", &guard, NULL), ERR_NONE);
    assert_int_equal(put_guarded(fix, "/a", "two", &guard, NULL), ERR_PRECONDITION);
    assert_int_equal(outcome(fix, files_remove(&fix->files, &fix->me, &path, &guard, &fix->err)),
                     ERR_PRECONDITION);
    assert_string_equal(what(fix, "/a"), "one");
    assert_true(asked >= 3);
}

static void
test_every_change_gives_all_folders_above_a_new_etag(void **state)
{
    struct fixture *fix = *state;
    struct node before[3], after[3];
    char etag[2][FILES_ETAG_SIZE];
    static const char *const PATHS[] = {"/", "/a", "/other"};

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(make(fix, "/a/b"), ERR_NONE);
    assert_int_equal(make(fix, "/other"), ERR_NONE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stat_node(fix, PATHS[i], &before[i]), ERR_NONE);
    assert_int_equal(put(fix, "/a/b/f", "1"), ERR_NONE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stat_node(fix, PATHS[i], &after[i]), ERR_NONE);
        files_etag(&before[i], etag[0]);
        files_etag(&after[i], etag[1]);
        assert_int_equal(strcmp(etag[0], etag[1]) != 0, i < 2);
    }
}

static void
test_the_etag_of_a_file_stays_with_its_bytes(void **state)
{
    struct fixture *fix = *state;
    struct node node;
    char before[FILES_ETAG_SIZE], after[FILES_ETAG_SIZE];
    struct path from = path_of(fix, "/a"), to = path_of(fix, "/b");
    struct files_transfer move = {
        .kind = FILES_MOVE, .source = &from, .target = &to, .mtime_us = -1};
    bool created;

    assert_int_equal(put(fix, "/a", "1"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/a", &node), ERR_NONE);
    files_etag(&node, before);
    assert_int_equal(before[0], '"');
    assert_int_equal(files_transfer(&fix->files, &fix->me, &move, &node, &created, &fix->err), 0);
    files_etag(&node, after);
    assert_string_equal(before, after);
    assert_int_equal(put(fix, "/b", "2"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/b", &node), ERR_NONE);
    files_etag(&node, after);
    assert_string_not_equal(before, after);
}

/* --- folders --- */

static void
test_a_folder_is_made_only_where_it_can_be(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(make(fix, "/a/"), ERR_NONE);
    assert_int_equal(make(fix, "/a"), ERR_EXISTS);
    assert_int_equal(make(fix, "/"), ERR_EXISTS);
    assert_int_equal(put(fix, "/f", "1"), ERR_NONE);
    assert_int_equal(make(fix, "/f"), ERR_EXISTS);
    assert_int_equal(make(fix, "/f/"), ERR_EXISTS);
    assert_int_equal(make(fix, "/f/b"), ERR_CONFLICT);
    assert_int_equal(make(fix, "/none/b"), ERR_CONFLICT);
}

static void
test_what_is_removed_is_gone_with_all_below(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/none"), ERR_NOT_FOUND);
    assert_int_equal(removed(fix, "/a/f/"), ERR_NOT_FOUND);
    assert_int_equal(removed(fix, "/"), ERR_DENIED);
    assert_int_equal(removed(fix, "/a/"), ERR_NONE);
    assert_string_equal(what(fix, "/a"), "-");
    assert_string_equal(what(fix, "/a/f"), "-");
    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_string_equal(what(fix, "/a/f"), "-");
}

/* --- copy and move --- */

/*
 * The tree before each case: f, g, d/x, d/sub/y with their names in them, and e/x with "old".
 * at_source and at_target: see what().
 */
static const struct transfer_case {
    enum files_transfer_kind kind;
    const char *source;
    const char *target;
    bool overwrite;
    enum err_code code;
    bool created;
    const char *at_source;
    const char *at_target;
} TRANSFERS[] = {
    /* onto nothing */
    {FILES_COPY, "/f", "/n", false, ERR_NONE, true, "f", "f"},
    {FILES_MOVE, "/f", "/n", false, ERR_NONE, true, "-", "f"},
    {FILES_COPY, "/f", "/d/n", true, ERR_NONE, true, "f", "f"},
    {FILES_MOVE, "/d/x", "/n", true, ERR_NONE, true, "-", "x"},
    {FILES_COPY, "/d", "/n", false, ERR_NONE, true, "/", "/"},
    {FILES_MOVE, "/d", "/n", false, ERR_NONE, true, "-", "/"},
    {FILES_COPY, "/d/", "/e/n/", false, ERR_NONE, true, "/", "/"},
    {FILES_MOVE, "/d/sub", "/d/n", false, ERR_NONE, true, "-", "/"},
    /* file over file */
    {FILES_COPY, "/f", "/g", true, ERR_NONE, false, "f", "f"},
    {FILES_MOVE, "/f", "/g", true, ERR_NONE, false, "-", "f"},
    {FILES_COPY, "/f", "/g", false, ERR_PRECONDITION, false, "f", "g"},
    {FILES_MOVE, "/f", "/g", false, ERR_PRECONDITION, false, "f", "g"},
    /* file over folder */
    {FILES_COPY, "/f", "/e", true, ERR_NONE, false, "f", "f"},
    {FILES_MOVE, "/f", "/e", true, ERR_NONE, false, "-", "f"},
    {FILES_MOVE, "/f", "/e", false, ERR_PRECONDITION, false, "f", "/"},
    /* folder over file */
    {FILES_COPY, "/d", "/f", true, ERR_NONE, false, "/", "/"},
    {FILES_MOVE, "/d", "/f", true, ERR_NONE, false, "-", "/"},
    {FILES_COPY, "/d", "/f", false, ERR_PRECONDITION, false, "/", "f"},
    /* folder over folder */
    {FILES_COPY, "/d", "/e", true, ERR_NONE, false, "/", "/"},
    {FILES_MOVE, "/d", "/e", true, ERR_NONE, false, "-", "/"},
    {FILES_MOVE, "/d", "/e", false, ERR_PRECONDITION, false, "/", "/"},
    /* onto itself */
    {FILES_COPY, "/f", "/f", true, ERR_DENIED, false, "f", "f"},
    {FILES_MOVE, "/f", "/f", true, ERR_DENIED, false, "f", "f"},
    {FILES_MOVE, "/d", "/d/", true, ERR_DENIED, false, "/", "/"},
    /* into itself */
    {FILES_COPY, "/d", "/d/n", true, ERR_DENIED, false, "/", "-"},
    {FILES_MOVE, "/d", "/d/sub/n", true, ERR_DENIED, false, "/", "-"},
    {FILES_MOVE, "/d", "/d/sub/y", true, ERR_DENIED, false, "/", "y"},
    {FILES_MOVE, "/d", "/d/none/n", true, ERR_DENIED, false, "/", "-"},
    /* onto an ancestor */
    {FILES_COPY, "/d/sub/y", "/d", true, ERR_DENIED, false, "y", "/"},
    {FILES_MOVE, "/d/sub", "/d", true, ERR_DENIED, false, "/", "/"},
    {FILES_MOVE, "/d/sub", "/", true, ERR_DENIED, false, "/", "/"},
    {FILES_MOVE, "/f", "/", true, ERR_DENIED, false, "f", "/"},
    /* without a parent */
    {FILES_COPY, "/f", "/none/n", true, ERR_CONFLICT, false, "f", "-"},
    {FILES_MOVE, "/d", "/f/n", true, ERR_CONFLICT, false, "/", "-"},
    {FILES_MOVE, "/f", "/f/n", true, ERR_CONFLICT, false, "f", "-"},
    /* without a source */
    {FILES_COPY, "/none", "/f", true, ERR_NOT_FOUND, false, "-", "f"},
    {FILES_MOVE, "/f/", "/n", true, ERR_NOT_FOUND, false, "-", "-"},
    {FILES_MOVE, "/none", "/none/n", true, ERR_NOT_FOUND, false, "-", "-"},
    {FILES_COPY, "/", "/n", true, ERR_DENIED, false, "/", "-"},
    {FILES_MOVE, "/", "/n", true, ERR_DENIED, false, "/", "-"},
};

static void
plant(struct fixture *fix)
{
    assert_int_equal(put(fix, "/f", "f"), ERR_NONE);
    assert_int_equal(put(fix, "/g", "g"), ERR_NONE);
    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(put(fix, "/d/x", "x"), ERR_NONE);
    assert_int_equal(make(fix, "/d/sub"), ERR_NONE);
    assert_int_equal(put(fix, "/d/sub/y", "y"), ERR_NONE);
    assert_int_equal(make(fix, "/e"), ERR_NONE);
    assert_int_equal(put(fix, "/e/x", "old"), ERR_NONE);
}

static size_t
trash_size(struct fixture *fix)
{
    struct trash_entry entries[20];
    size_t count;

    assert_int_equal(
        trash_list(&fix->files, &fix->me, 0, &fix->arena, entries, 20, &count, &fix->err), 0);
    return count;
}

static void
run_transfer(struct fixture *fix, const struct transfer_case *c)
{
    struct path source = path_of(fix, c->source), target = path_of(fix, c->target);
    struct files_transfer transfer = {.kind = c->kind,
                                      .source = &source,
                                      .target = &target,
                                      .overwrite = c->overwrite,
                                      .mtime_us = -1};
    struct node root_before, root_after, node;
    bool created = false;

    assert_int_equal(stat_node(fix, "/", &root_before), ERR_NONE);
    assert_int_equal(
        outcome(fix, files_transfer(&fix->files, &fix->me, &transfer, &node, &created, &fix->err)),
        c->code);
    assert_int_equal(stat_node(fix, "/", &root_after), ERR_NONE);
    assert_string_equal(what(fix, c->source), c->at_source);
    assert_string_equal(what(fix, c->target), c->at_target);
    if (c->code != ERR_NONE) {
        assert_int_equal(root_before.seq, root_after.seq);
        assert_int_equal(trash_size(fix), 0);
        return;
    }
    assert_true(root_after.seq > root_before.seq);
    assert_int_equal(created, c->created);
    assert_string_equal(node.name, path_last(&target));
    assert_int_equal(trash_size(fix), created ? 0 : 1);
}

static void
test_copy_and_move_do_what_the_table_says(void **state)
{
    struct fixture *fix = *state;

    for (size_t i = 0; i < sizeof(TRANSFERS) / sizeof(TRANSFERS[0]); i++) {
        const struct transfer_case *c = &TRANSFERS[i];

        print_message("%s %s -> %s\n", c->kind == FILES_COPY ? "copy" : "move", c->source,
                      c->target);
        fixture_user(state);
        plant(fix);
        run_transfer(fix, c);
    }
}

static void
transfer(struct fixture *fix, enum files_transfer_kind kind, const char *from, const char *to,
         bool shallow, int64_t mtime_us, enum err_code code)
{
    struct path source = path_of(fix, from), target = path_of(fix, to);
    struct files_transfer job = {.kind = kind,
                                 .source = &source,
                                 .target = &target,
                                 .overwrite = true,
                                 .shallow = shallow,
                                 .mtime_us = mtime_us};
    struct node node;
    bool created;

    assert_int_equal(
        outcome(fix, files_transfer(&fix->files, &fix->me, &job, &node, &created, &fix->err)),
        code);
}

static void
test_a_folder_goes_with_all_below_and_replaces_all_below(void **state)
{
    struct fixture *fix = *state;

    plant(fix);
    transfer(fix, FILES_COPY, "/d", "/e", false, -1, ERR_NONE);
    assert_string_equal(what(fix, "/e/x"), "x");
    assert_string_equal(what(fix, "/e/sub/y"), "y");
    transfer(fix, FILES_MOVE, "/e", "/m", false, -1, ERR_NONE);
    assert_string_equal(what(fix, "/m/sub/y"), "y");
    assert_string_equal(what(fix, "/e/sub/y"), "-");
    assert_int_equal(put(fix, "/m/sub/y", "changed"), ERR_NONE);
    assert_string_equal(what(fix, "/d/sub/y"), "y");
}

static void
test_a_shallow_copy_is_an_empty_folder(void **state)
{
    struct fixture *fix = *state;

    plant(fix);
    transfer(fix, FILES_COPY, "/d", "/n", true, -1, ERR_NONE);
    assert_string_equal(what(fix, "/n"), "/");
    assert_string_equal(what(fix, "/n/x"), "-");
}

static void
test_the_time_of_change_is_kept_unless_another_is_given(void **state)
{
    struct fixture *fix = *state;
    struct node before, after;

    plant(fix);
    assert_int_equal(stat_node(fix, "/f", &before), ERR_NONE);
    transfer(fix, FILES_COPY, "/f", "/n", false, -1, ERR_NONE);
    assert_int_equal(stat_node(fix, "/n", &after), ERR_NONE);
    assert_int_equal(after.mtime_us, before.mtime_us);
    transfer(fix, FILES_MOVE, "/n", "/m", false, 1500000000000000, ERR_NONE);
    assert_int_equal(stat_node(fix, "/m", &after), ERR_NONE);
    assert_int_equal(after.mtime_us, 1500000000000000);
}

static void
test_a_copy_counts_against_the_quota_and_a_move_does_not(void **state)
{
    struct fixture *fix = *state;
    uint64_t used;
    int64_t quota;

    fix->config.enable_user_storage_quotas = true;
    assert_int_equal(users_set_quota(fix->pool, fix->me.name, 10, &fix->err), 0);
    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "1234"), ERR_NONE);
    transfer(fix, FILES_COPY, "/a", "/b", false, -1, ERR_NONE);
    transfer(fix, FILES_COPY, "/a", "/c", false, -1, ERR_QUOTA);
    transfer(fix, FILES_MOVE, "/a", "/c", false, -1, ERR_NONE);
    assert_int_equal(files_usage(&fix->files, &fix->me, &used, &quota, &fix->err), 0);
    assert_int_equal(used, 8);
}

/* --- properties --- */

static void
test_properties_are_set_and_removed_in_order(void **state)
{
    struct fixture *fix = *state;
    struct path path = path_of(fix, "/f");
    struct prop changes[] = {
        {.ns = "urn:x", .name = "a", .value = "1", .lang = "en"},
        {.ns = "", .name = "b", .value = "<i xmlns=\"\"/>", .lang = ""},
        {.ns = "urn:x", .name = "a", .value = NULL, .lang = ""},
        {.ns = "urn:x", .name = "never", .value = NULL, .lang = ""},
    };
    struct node node, after;
    struct prop *props;
    size_t count;

    assert_int_equal(put(fix, "/f", "f"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/f", &node), ERR_NONE);
    assert_int_equal(files_patch(&fix->files, &fix->me, &path, changes, 4, -1, NULL, &fix->err), 0);
    assert_int_equal(files_props(&fix->files, &node.id, 1, &fix->arena, &props, &count, &fix->err),
                     0);
    assert_int_equal(count, 1);
    assert_string_equal(props[0].name, "b");
    assert_string_equal(props[0].value, "<i xmlns=\"\"/>");
    assert_int_equal(stat_node(fix, "/f", &after), ERR_NONE);
    assert_true(after.seq > node.seq);
    assert_int_equal(after.content_seq, node.content_seq);
    assert_int_equal(after.mtime_us, node.mtime_us);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_a_new_space_is_an_empty_folder),
        SERVICE_TEST(test_a_walk_goes_by_names_and_down_when_it_is_deep),
        SERVICE_TEST(test_the_tree_of_another_user_is_not_there),
        SERVICE_TEST(test_a_file_asked_for_like_a_folder_is_not_there),
        SERVICE_TEST(test_a_file_comes_back_and_is_replaced),
        SERVICE_TEST(test_a_file_needs_a_folder_above_and_no_folder_in_its_place),
        SERVICE_TEST(test_an_upload_that_is_refused_leaves_no_blob),
        SERVICE_TEST(test_quotas_hold_before_and_after_the_body),
        SERVICE_TEST(test_an_announced_size_above_the_limit_is_refused),
        SERVICE_TEST(test_a_guard_decides_and_nothing_is_touched),
        SERVICE_TEST(test_every_change_gives_all_folders_above_a_new_etag),
        SERVICE_TEST(test_the_etag_of_a_file_stays_with_its_bytes),
        SERVICE_TEST(test_a_folder_is_made_only_where_it_can_be),
        SERVICE_TEST(test_what_is_removed_is_gone_with_all_below),
        SERVICE_TEST(test_copy_and_move_do_what_the_table_says),
        SERVICE_TEST(test_a_folder_goes_with_all_below_and_replaces_all_below),
        SERVICE_TEST(test_a_shallow_copy_is_an_empty_folder),
        SERVICE_TEST(test_the_time_of_change_is_kept_unless_another_is_given),
        SERVICE_TEST(test_a_copy_counts_against_the_quota_and_a_move_does_not),
        SERVICE_TEST(test_properties_are_set_and_removed_in_order),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
