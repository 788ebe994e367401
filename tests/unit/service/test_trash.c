#include "unit/service/fixture.h"

/* The entry that lay at this path; id 0: none. */
static struct trash_entry
entry_of(struct fixture *fix, const char *path)
{
    struct trash_entry entries[20];
    size_t count;

    assert_int_equal(
        trash_list(&fix->files, &fix->me, 0, &fix->arena, entries, 20, &count, &fix->err), 0);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].path, path) == 0)
            return entries[i];
    return (struct trash_entry){0};
}

static const char *
restored(struct fixture *fix, int64_t node_id)
{
    char *path = NULL;

    if (outcome(fix, trash_restore(&fix->files, &fix->me, node_id, &fix->arena, &path,
                                   &fix->err)) != ERR_NONE)
        return "-";
    return path;
}

static void
test_what_was_deleted_comes_back_to_its_place(void **state)
{
    struct fixture *fix = *state;
    struct trash_entry entry;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(make(fix, "/a/b"), ERR_NONE);
    assert_int_equal(put(fix, "/a/b/f", "12345"), ERR_NONE);
    assert_int_equal(removed(fix, "/a/b"), ERR_NONE);
    entry = entry_of(fix, "/a/b");
    assert_int_equal(entry.kind, NODE_FOLDER);
    assert_int_equal(entry.bytes, 5);
    assert_string_equal(restored(fix, entry.node_id), "/a/b");
    assert_string_equal(what(fix, "/a/b/f"), "12345");
    assert_string_equal(restored(fix, entry.node_id), "-");
}

static void
test_a_taken_name_gets_a_mark(void **state)
{
    struct fixture *fix = *state;
    static const char *const WHERE[] = {"/a.tar.txt", "/a.tar (restored).txt",
                                        "/a.tar (restored 2).txt", "/a.tar (restored 3).txt"};

    for (int i = 0; i < 4; i++) {
        int64_t node_id;

        assert_int_equal(put(fix, "/a.tar.txt", "old"), ERR_NONE);
        assert_int_equal(removed(fix, "/a.tar.txt"), ERR_NONE);
        node_id = entry_of(fix, "/a.tar.txt").node_id;
        if (i > 0)
            assert_int_equal(put(fix, "/a.tar.txt", "new"), ERR_NONE);
        assert_string_equal(restored(fix, node_id), WHERE[i]);
        if (i == 0)
            continue;
        assert_string_equal(what(fix, "/a.tar.txt"), "new");
    }
    assert_string_equal(what(fix, "/a.tar%20(restored%203).txt"), "old");
}

static void
test_hidden_and_long_names_get_their_mark_too(void **state)
{
    struct fixture *fix = *state;
    char name[260] = "/", *at = name + 1;
    const char *where;

    for (int i = 0; i < 127; i++, at += 2)
        memcpy(at, "\xc3\xa4", 2);
    assert_int_equal(put(fix, name, "old"), ERR_NONE);
    assert_int_equal(removed(fix, name), ERR_NONE);
    assert_int_equal(put(fix, name, "new"), ERR_NONE);
    where = restored(fix, entry_of(fix, name).node_id);
    assert_true(strlen(where) <= 1 + PATH_NAME_MAX_BYTES);
    assert_non_null(strstr(where, "\xa4 (restored)"));

    assert_int_equal(put(fix, "/.rc", "old"), ERR_NONE);
    assert_int_equal(removed(fix, "/.rc"), ERR_NONE);
    assert_int_equal(put(fix, "/.rc", "new"), ERR_NONE);
    assert_string_equal(restored(fix, entry_of(fix, "/.rc").node_id), "/.rc (restored)");
}

static void
test_what_has_no_folder_any_more_comes_back_to_the_root(void **state)
{
    struct fixture *fix = *state;
    int64_t file_id;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/a/f"), ERR_NONE);
    file_id = entry_of(fix, "/a/f").node_id;
    assert_int_equal(removed(fix, "/a"), ERR_NONE);
    assert_string_equal(restored(fix, file_id), "/f");
    assert_string_equal(what(fix, "/f"), "1");
}

static void
test_what_was_deleted_follows_its_folder(void **state)
{
    struct fixture *fix = *state;
    struct path from = path_of(fix, "/a"), to = path_of(fix, "/b");
    struct files_transfer move = {
        .kind = FILES_MOVE, .source = &from, .target = &to, .mtime_us = -1};
    struct node node;
    bool created;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/a/f"), ERR_NONE);
    assert_int_equal(files_transfer(&fix->files, &fix->me, &move, &node, &created, &fix->err), 0);
    assert_string_equal(restored(fix, entry_of(fix, "/a/f").node_id), "/b/f");
}

static void
test_the_trash_of_another_user_cannot_be_reached(void **state)
{
    struct fixture *fix = *state;
    struct principal me;
    int64_t node_id;

    assert_int_equal(put(fix, "/f", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/f"), ERR_NONE);
    node_id = entry_of(fix, "/f").node_id;
    me = fix->me;
    fixture_user(state);
    assert_string_equal(restored(fix, node_id), "-");
    fix->me = me;
    assert_string_equal(restored(fix, node_id), "/f");
}

static void
test_emptying_gives_back_the_bytes(void **state)
{
    struct fixture *fix = *state;
    uint64_t purged, used;
    int64_t quota;

    assert_int_equal(make(fix, "/a"), ERR_NONE);
    assert_int_equal(put(fix, "/a/f", "12345"), ERR_NONE);
    assert_int_equal(put(fix, "/kept", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/a"), ERR_NONE);
    assert_int_equal(files_usage(&fix->files, &fix->me, &used, &quota, &fix->err), 0);
    assert_int_equal(used, 6);
    assert_int_equal(trash_empty(&fix->files, &fix->me, &purged, &fix->err), 0);
    assert_int_equal(purged, 2);
    assert_int_equal(files_usage(&fix->files, &fix->me, &used, &quota, &fix->err), 0);
    assert_int_equal(used, 1);
    assert_int_equal(entry_of(fix, "/a").node_id, 0);
    assert_string_equal(what(fix, "/kept"), "1");
}

static void
test_only_what_lay_there_long_enough_expires(void **state)
{
    struct fixture *fix = *state;
    const _Atomic bool stop = true;
    uint64_t purged;

    assert_int_equal(put(fix, "/f", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/f"), ERR_NONE);
    assert_int_equal(trash_expire(&fix->files, 1, NULL, &purged, &fix->err), 0);
    assert_int_equal(entry_of(fix, "/f").node_id != 0, true);
    assert_int_equal(trash_expire(&fix->files, 0, &stop, &purged, &fix->err), 0);
    assert_int_equal(purged, 0);
    assert_int_equal(trash_expire(&fix->files, 0, NULL, &purged, &fix->err), 0);
    assert_true(purged >= 1);
    assert_int_equal(entry_of(fix, "/f").node_id, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_what_was_deleted_comes_back_to_its_place),
        SERVICE_TEST(test_a_taken_name_gets_a_mark),
        SERVICE_TEST(test_hidden_and_long_names_get_their_mark_too),
        SERVICE_TEST(test_what_has_no_folder_any_more_comes_back_to_the_root),
        SERVICE_TEST(test_what_was_deleted_follows_its_folder),
        SERVICE_TEST(test_the_trash_of_another_user_cannot_be_reached),
        SERVICE_TEST(test_emptying_gives_back_the_bytes),
        SERVICE_TEST(test_only_what_lay_there_long_enough_expires),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
