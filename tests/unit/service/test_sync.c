#include "unit/service/fixture.h"

#include "service/sync.h"
#include "service/walk.h"

static enum err_code
moved(struct fixture *fix, const char *from, const char *to)
{
    struct path source = path_of(fix, from);
    struct path target = path_of(fix, to);
    struct files_transfer transfer = {.kind = FILES_MOVE,
                                      .source = &source,
                                      .target = &target,
                                      .overwrite = true,
                                      .mtime_us = -1};
    struct node node;
    bool created;

    return outcome(fix,
                   files_transfer(&fix->files, &fix->me, &transfer, &node, &created, &fix->err));
}

static struct sync_mark
mark_of(struct fixture *fix)
{
    struct node root;

    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    return sync_mark_of(&root);
}

/* What is told, in order: "-name" gone, "name" there, names behind the folders they are in. */
static const char *
told(struct fixture *fix, struct sync_mark *mark, bool *ret_more)
{
    AUTO_BUF struct buf text = {.max = 10000};
    struct change_range range;
    struct node root;
    struct walk walk;
    bool known;

    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    assert_int_equal(
        sync_range(&fix->files, &fix->me, &root, mark, true, &range, &known, ret_more, &fix->err),
        0);
    if (!known)
        return "refused";
    walk_init(&walk, &fix->files, &fix->me, &root, &range, true);
    while (walk_next(&walk, &fix->err) == 0 && walk.count > 0) {
        for (size_t i = 0; i < walk.count; i++)
            buf_printf(&text, "%s%s%s ", walk.step == WALK_REMOVALS ? "-" : "",
                       walk.folder.data ? walk.folder.data : "",
                       walk.step == WALK_REMOVALS ? walk.removals[i].name : walk.nodes[i].name);
    }
    assert_int_equal(fix->err.code, ERR_NONE);
    walk_release(&walk);
    *mark = sync_mark_after(&range);
    return arena_strdup(&fix->arena, text.len ? text.data : "");
}

static void
test_a_mark_leads_from_change_to_change(void **state)
{
    struct fixture *fix = *state;
    struct sync_mark mark = {0};
    bool more;

    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(put(fix, "/d/f", "1"), ERR_NONE);
    assert_string_equal(told(fix, &mark, &more), "d d/f ");
    assert_string_equal(told(fix, &mark, &more), "");
    assert_int_equal(put(fix, "/g", "1"), ERR_NONE);
    assert_int_equal(removed(fix, "/d/f"), ERR_NONE);
    assert_string_equal(told(fix, &mark, &more), "d g -d/f ");
    assert_false(more);
}

static void
test_what_was_moved_away_and_back_is_gone_and_there(void **state)
{
    struct fixture *fix = *state;
    struct sync_mark mark;
    bool more;

    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(put(fix, "/d/f", "1"), ERR_NONE);
    mark = mark_of(fix);
    assert_int_equal(moved(fix, "/d", "/e"), ERR_NONE);
    assert_int_equal(moved(fix, "/e", "/d"), ERR_NONE);
    assert_string_equal(told(fix, &mark, &more), "-d ");
    assert_true(more);
    assert_string_equal(told(fix, &mark, &more), "d d/f ");
    assert_false(more);
}

static void
test_what_comes_after_the_range_is_left_for_the_next(void **state)
{
    struct fixture *fix = *state;
    struct change_range range = {0};
    struct node root;
    struct walk walk;

    assert_int_equal(put(fix, "/a", "1"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    range.until_seq = range.removed_until = root.seq;
    walk_init(&walk, &fix->files, &fix->me, &root, &range, true);
    assert_int_equal(put(fix, "/b", "1"), ERR_NONE);
    assert_int_equal(moved(fix, "/a", "/c"), ERR_NONE);
    assert_int_equal(walk_next(&walk, &fix->err), 0);
    assert_int_equal(walk.count, 0);
    walk_release(&walk);
}

static void
test_marks_that_cannot_be_are_refused(void **state)
{
    static const struct sync_mark OTHERS[] = {{1000, 1000}, {1, 3}, {2, 1}, {-1, 0}};
    struct fixture *fix = *state;
    bool more;

    for (int i = 0; i < 4; i++)
        assert_int_equal(put(fix, "/f", "1"), ERR_NONE);
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(*OTHERS); i++) {
        struct sync_mark mark = OTHERS[i];

        assert_string_equal(told(fix, &mark, &more), "refused");
    }
}

static void
test_whoever_missed_what_is_forgotten_begins_anew(void **state)
{
    struct fixture *fix = *state;
    struct sync_mark before, after;
    _Atomic bool stop = false;
    uint64_t count;
    bool more;

    assert_int_equal(put(fix, "/f", "1"), ERR_NONE);
    before = mark_of(fix);
    assert_int_equal(removed(fix, "/f"), ERR_NONE);
    after = mark_of(fix);
    assert_int_equal(sync_forget(&fix->files, 1, &stop, &count, &fix->err), 0);
    assert_int_equal(count, 0);
    assert_int_equal(sync_forget(&fix->files, 0, &stop, &count, &fix->err), 0);
    assert_true(count >= 1);
    assert_string_equal(told(fix, &before, &more), "refused");
    assert_int_equal(put(fix, "/g", "1"), ERR_NONE);
    assert_string_equal(told(fix, &after, &more), "g ");
}

static void
test_a_walk_counts_no_further_than_asked(void **state)
{
    struct fixture *fix = *state;
    struct node root;
    uint64_t count;

    assert_int_equal(make(fix, "/d"), ERR_NONE);
    assert_int_equal(put(fix, "/d/f", "1"), ERR_NONE);
    assert_int_equal(put(fix, "/d/g", "1"), ERR_NONE);
    assert_int_equal(stat_node(fix, "/", &root), ERR_NONE);
    assert_int_equal(walk_count(&fix->files, &fix->me, &root, 100, &count, &fix->err), 0);
    assert_int_equal(count, 3);
    assert_int_equal(walk_count(&fix->files, &fix->me, &root, 2, &count, &fix->err), 0);
    assert_int_equal(count, 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_a_mark_leads_from_change_to_change),
        SERVICE_TEST(test_what_was_moved_away_and_back_is_gone_and_there),
        SERVICE_TEST(test_what_comes_after_the_range_is_left_for_the_next),
        SERVICE_TEST(test_marks_that_cannot_be_are_refused),
        SERVICE_TEST(test_whoever_missed_what_is_forgotten_begins_anew),
        SERVICE_TEST(test_a_walk_counts_no_further_than_asked),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
