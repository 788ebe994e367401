#include "unit/service/fixture.h"

#include "service/file_sha256.h"
#include "service/update.h"

struct part {
    enum update_place place;
    uint64_t off;
    const char *bytes;
};

static struct update_request
request_of(struct fixture *fix, struct path *path, const struct part *part)
{
    return (struct update_request){.path = path,
                                   .principal = &fix->me,
                                   .place = part->place,
                                   .off = part->off,
                                   .size_bytes = strlen(part->bytes),
                                   .mtime_us = -1};
}

/* Begin, take, finish; between the last two `meanwhile` happens. */
static enum err_code
update(struct fixture *fix, const char *text, const struct part *part,
       void (*meanwhile)(struct fixture *fix))
{
    struct path path = path_of(fix, text);
    struct update_request request = request_of(fix, &path, part);
    struct update *update = NULL;
    struct node node;
    int rc = update_begin(&fix->files, &request, &update, &fix->err);

    if (rc == 0)
        rc = update_take(update, part->bytes, strlen(part->bytes), &fix->err);
    if (rc == 0 && meanwhile)
        meanwhile(fix);
    if (rc == 0)
        rc = update_finish(update, &node, &fix->err);
    update_free(update);
    return outcome(fix, rc);
}

static void
test_a_part_is_written_and_the_rest_stays(void **state)
{
    static const struct {
        struct part part;
        const char *result;
    } cases[] = {
        {{UPDATE_AT, 0, "ab"}, "ab23456789"},          {{UPDATE_AT, 4, "ab"}, "0123ab6789"},
        {{UPDATE_AT, 8, "ab"}, "01234567ab"},          {{UPDATE_AT, 9, "ab"}, "012345678ab"},
        {{UPDATE_AT, 10, "ab"}, "0123456789ab"},       {{UPDATE_FROM_END, 0, "ab"}, "0123456789ab"},
        {{UPDATE_FROM_END, 4, "ab"}, "012345ab89"},    {{UPDATE_FROM_END, 10, "ab"}, "ab23456789"},
        {{UPDATE_FROM_END, 1, "abc"}, "012345678abc"}, {{UPDATE_AT, 3, ""}, "0123456789"},
    };
    struct fixture *fix = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
        assert_int_equal(update(fix, "/f", &cases[i].part, NULL), ERR_NONE);
        assert_string_equal(what(fix, "/f"), cases[i].result);
    }
}

static void
test_a_part_outside_of_the_file_is_refused(void **state)
{
    static const struct part parts[] = {{UPDATE_AT, 11, "a"},
                                        {UPDATE_FROM_END, 11, "a"},
                                        {UPDATE_AT, UINT64_MAX, "a"},
                                        {UPDATE_FROM_END, UINT64_MAX, "a"}};
    struct fixture *fix = *state;

    assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_int_equal(update(fix, "/f", &parts[i], NULL), ERR_RANGE);
    assert_string_equal(what(fix, "/f"), "0123456789");
}

static void
test_only_a_file_that_is_there_can_be_updated(void **state)
{
    struct fixture *fix = *state;
    struct part part = {UPDATE_FROM_END, 0, "x"};

    assert_int_equal(make(fix, "/folder"), ERR_NONE);
    assert_int_equal(update(fix, "/folder", &part, NULL), ERR_EXISTS);
    assert_int_equal(update(fix, "/missing", &part, NULL), ERR_NOT_FOUND);
    assert_string_equal(what(fix, "/missing"), "-");
}

static void
write_something_else(struct fixture *fix)
{
    assert_int_equal(put(fix, "/f", "theirs"), ERR_NONE);
}

static void
write_the_same(struct fixture *fix)
{
    assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
}

static void
remove_it(struct fixture *fix)
{
    assert_int_equal(removed(fix, "/f"), ERR_NONE);
}

static void
test_a_change_meanwhile_is_a_conflict_and_stays(void **state)
{
    static const struct {
        void (*meanwhile)(struct fixture *fix);
        const char *result;
    } cases[] = {
        {write_something_else, "theirs"}, {write_the_same, "0123456789"}, {remove_it, "-"}};
    struct fixture *fix = *state;
    struct part part = {UPDATE_AT, 3, "abc"};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
        assert_int_equal(update(fix, "/f", &part, cases[i].meanwhile), ERR_CONFLICT);
        assert_string_equal(what(fix, "/f"), cases[i].result);
    }
}

static int
refuse(void *ctx, const struct node *node, struct err *err)
{
    unsigned *calls = ctx;

    assert_non_null(node);
    ++*calls;
    return err_set(err, ERR_PRECONDITION, "no");
}

static void
test_the_guard_of_the_caller_is_asked_before_the_body(void **state)
{
    struct fixture *fix = *state;
    struct part part = {UPDATE_AT, 3, "abc"};
    struct path path = path_of(fix, "/f");
    struct update_request request = request_of(fix, &path, &part);
    struct update *update = NULL;
    unsigned calls = 0;

    request.guard = (struct files_guard){.check = refuse, .ctx = &calls};
    assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
    assert_int_equal(outcome(fix, update_begin(&fix->files, &request, &update, &fix->err)),
                     ERR_PRECONDITION);
    assert_null(update);
    assert_int_equal(calls, 1);
}

static void
test_what_is_added_counts_and_nothing_stays_reserved(void **state)
{
    struct fixture *fix = *state;
    struct part fits = {UPDATE_AT, 8, "abcd"}, too_much = {UPDATE_FROM_END, 0, "abc"};

    assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
    fix->config.enable_user_storage_quotas = true;
    assert_int_equal(users_set_quota(fix->pool, fix->me.name, 14, &fix->err), 0);
    assert_int_equal(update(fix, "/f", &fits, NULL), ERR_NONE);
    assert_int_equal(update(fix, "/f", &too_much, NULL), ERR_QUOTA);
    assert_int_equal(update(fix, "/f", &fits, write_something_else), ERR_CONFLICT);
    assert_int_equal(test_db_number(fix->db, "select count(*) from reservations"), 0);
    assert_string_equal(what(fix, "/f"), "theirs");
}

static void
test_an_update_given_up_has_changed_nothing(void **state)
{
    struct fixture *fix = *state;
    struct part part = {UPDATE_AT, 3, "abc"};
    struct path path = path_of(fix, "/f");
    struct update_request request = request_of(fix, &path, &part);
    struct update *update = NULL;

    assert_int_equal(put(fix, "/f", "0123456789"), ERR_NONE);
    assert_int_equal(update_begin(&fix->files, &request, &update, &fix->err), 0);
    assert_int_equal(update_take(update, "ab", 2, &fix->err), 0);
    update_free(update);
    update_free(NULL);
    assert_string_equal(what(fix, "/f"), "0123456789");
}

/* --- the sha-256 of a file --- */

static void
check_sum(struct fixture *fix, const char *text, bool known, const char *bytes)
{
    struct sha256_state sum_state;
    struct sha256 expected, sum;
    struct node node;
    bool is_known = !known;

    sha256_init(&sum_state);
    sha256_add(&sum_state, bytes, strlen(bytes));
    expected = sha256_end(&sum_state);
    assert_int_equal(stat_node(fix, text, &node), ERR_NONE);
    assert_int_equal(file_sha256(&fix->files, &node, &is_known, &sum, &fix->err), 0);
    assert_int_equal(is_known, known);
    if (known)
        assert_memory_equal(sum.bytes, expected.bytes, SHA256_BYTES);
}

static void
test_a_sum_is_made_once_for_all_files_of_a_content(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(put(fix, "/a", "the same"), ERR_NONE);
    check_sum(fix, "/a", true, "the same");
    test_db_script(fix->db, "update contents set sha256 = sha256('of the row') where sha256 = "
                            "sha256('the same')");
    assert_int_equal(put(fix, "/b", "the same"), ERR_NONE);
    check_sum(fix, "/b", true, "of the row");
}

static void
test_only_so_many_sums_are_made_at_a_time(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(put(fix, "/a", "not known yet"), ERR_NONE);
    fix->files.sums_under_way = 2;
    check_sum(fix, "/a", false, "");
    assert_int_equal(fix->files.sums_under_way, 2);
    fix->files.sums_under_way = 1;
    check_sum(fix, "/a", true, "not known yet");
    fix->files.sums_under_way = 2;
    check_sum(fix, "/a", true, "not known yet");
    fix->files.sums_under_way = 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_a_part_is_written_and_the_rest_stays),
        SERVICE_TEST(test_a_part_outside_of_the_file_is_refused),
        SERVICE_TEST(test_only_a_file_that_is_there_can_be_updated),
        SERVICE_TEST(test_a_change_meanwhile_is_a_conflict_and_stays),
        SERVICE_TEST(test_the_guard_of_the_caller_is_asked_before_the_body),
        SERVICE_TEST(test_what_is_added_counts_and_nothing_stays_reserved),
        SERVICE_TEST(test_an_update_given_up_has_changed_nothing),
        SERVICE_TEST(test_a_sum_is_made_once_for_all_files_of_a_content),
        SERVICE_TEST(test_only_so_many_sums_are_made_at_a_time),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
