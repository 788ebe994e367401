#include "fixture.h"

#include "base/log.h"
#include "service/verify.h"

struct report {
    struct verify_result result;
    char *text; /* all lines; in the arena */
};

struct lines {
    struct fixture *fix;
    char *text;
};

static void
keep_line(void *ctx, const char *line)
{
    struct lines *lines = ctx;

    lines->text = arena_printf(&lines->fix->arena, "%s%s\n", lines->text, line);
}

static struct report
verify(struct fixture *fix, bool deep, bool repair)
{
    struct lines lines = {fix, arena_strdup(&fix->arena, "")};
    struct report report = {0};

    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(verify_run(fix->pool, &fix->store, deep, repair, keep_line, &lines,
                                &report.result, &fix->err),
                     0);
    report.text = lines.text;
    return report;
}

static void
assert_says(const struct report *report, const char *words)
{
    if (!strstr(report->text, words))
        fail_msg("\"%s\" is not in:\n%s", words, report->text);
}

static int64_t
quarantined(struct fixture *fix)
{
    return test_db_number(fix->db, "select count(*) from chunks where quarantined_at is not null");
}

static struct digest
chunk_of(const char *bytes)
{
    return digest_of(bytes, strlen(bytes));
}

static void
assert_clean(struct fixture *fix)
{
    struct report report = verify(fix, true, false);

    assert_string_equal(report.text, "");
    assert_int_equal(report.result.chunks_damaged + report.result.chunks_missing, 0);
    assert_int_equal(report.result.references_wrong + report.result.spaces_wrong, 0);
}

static void
test_a_good_store_has_no_findings_and_is_noted(void **state)
{
    struct fixture *fix = *state;

    put(fix, "/a", "alpha");
    put(fix, "/b", "beta");
    assert_clean(fix);
    assert_int_equal(
        test_db_number(fix->db, "select count(*) from chunks where verified_at is null"), 0);
}

static void
test_a_flipped_bit_is_found_named_and_healed(void **state)
{
    struct fixture *fix = *state;
    struct digest bad = chunk_of("will be flipped");
    struct report report;

    make(fix, "/folder");
    put(fix, "/folder/file", "will be flipped");
    put(fix, "/other", "is good");
    mem_backend_flip(fix->backend, &bad);
    assert_int_equal(verify(fix, false, false).result.chunks_damaged, 0);
    report = verify(fix, true, false);
    assert_int_equal(report.result.chunks_damaged, 1);
    assert_says(&report, "/folder/file: hurt by chunk");
    assert_null(strstr(report.text, "/other"));
    assert_int_equal(quarantined(fix), 1);
    report = verify(fix, false, true); /* repair does not make it good */
    assert_int_equal(report.result.chunks_damaged, 1);
    assert_says(&report, "in quarantine");
    report = verify(fix, true, true);
    assert_int_equal(report.result.chunks_damaged, 1);
    assert_int_equal(report.result.chunks_released, 0);
    put(fix, "/folder/file", "will be flipped");
    assert_string_equal(what(fix, "/folder/file"), "will be flipped");
    assert_clean(fix);
}

static void
test_a_missing_or_short_blob_is_found_without_reading(void **state)
{
    struct fixture *fix = *state;
    struct digest lost = chunk_of("will be lost"), cut = chunk_of("will be cut");
    struct report report;

    put(fix, "/lost", "will be lost");
    put(fix, "/cut", "will be cut");
    removed(fix, "/cut"); /* it may be restored, so it counts */
    mem_backend_lose(fix->backend, &lost);
    mem_backend_truncate(fix->backend, &cut);
    report = verify(fix, false, false);
    assert_int_equal(report.result.chunks_missing, 1);
    assert_int_equal(report.result.chunks_damaged, 1);
    assert_says(&report, "/lost: hurt by chunk");
    assert_says(&report, "/cut (in the trash): hurt by chunk");
    put(fix, "/lost", "will be lost");
    put(fix, "/again", "will be cut");
    assert_clean(fix);
}

static void
test_a_chunk_that_is_good_again_leaves_quarantine_by_a_deep_repair_only(void **state)
{
    struct fixture *fix = *state;
    struct digest bad = chunk_of("flips twice");
    struct report report;

    put(fix, "/file", "flips twice");
    mem_backend_flip(fix->backend, &bad);
    assert_int_equal(verify(fix, true, false).result.chunks_damaged, 1);
    mem_backend_flip(fix->backend, &bad);
    report = verify(fix, true, false);
    assert_int_equal(report.result.chunks_damaged, 0);
    assert_says(&report, "good again");
    assert_int_equal(quarantined(fix), 1);
    verify(fix, false, true);
    assert_int_equal(quarantined(fix), 1);
    report = verify(fix, true, true);
    assert_int_equal(report.result.chunks_released, 1);
    assert_int_equal(quarantined(fix), 0);
    assert_clean(fix);
}

static void
test_a_bad_read_that_is_good_again_is_no_finding(void **state)
{
    struct fixture *fix = *state;
    struct digest bad = chunk_of("only in memory");

    put(fix, "/file", "only in memory");
    mem_backend_flip_cached(fix->backend, &bad);
    assert_clean(fix);
    mem_backend_fail(fix->backend, MEM_READ, 1, 2, ERR_IO);
    assert_clean(fix);
    assert_int_equal(quarantined(fix), 0);
}

static void
test_used_bytes_are_recounted_and_set_right(void **state)
{
    struct fixture *fix = *state;
    struct report report;

    put(fix, "/file", "nine byte");
    put(fix, "/trashed", "four");
    removed(fix, "/trashed");
    assert_int_equal(verify(fix, false, false).result.spaces_wrong, 0);
    test_db_script(fix->db, "update spaces set used_bytes = used_bytes + 1");
    report = verify(fix, false, true);
    assert_true(report.result.spaces_wrong > 0);
    assert_says(&report, "wrong used bytes");
    assert_clean(fix);
}

static void
test_a_storage_that_is_away_ends_the_run_and_blames_no_chunk(void **state)
{
    struct fixture *fix = *state;
    struct lines lines = {fix, arena_strdup(&fix->arena, "")};
    struct verify_result result;

    put(fix, "/file", "out of reach");
    mem_backend_fail(fix->backend, MEM_READ, 1, 1000000, ERR_UNAVAILABLE);
    assert_int_equal(
        verify_run(fix->pool, &fix->store, true, true, keep_line, &lines, &result, &fix->err), -1);
    assert_int_equal(fix->err.code, ERR_UNAVAILABLE);
    fix->err = (struct err){0};
    mem_backend_fail(fix->backend, MEM_READ, 1, 0, ERR_NONE);
    assert_int_equal(quarantined(fix), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_a_good_store_has_no_findings_and_is_noted),
        SERVICE_TEST(test_a_flipped_bit_is_found_named_and_healed),
        SERVICE_TEST(test_a_missing_or_short_blob_is_found_without_reading),
        SERVICE_TEST(test_a_chunk_that_is_good_again_leaves_quarantine_by_a_deep_repair_only),
        SERVICE_TEST(test_a_bad_read_that_is_good_again_is_no_finding),
        SERVICE_TEST(test_used_bytes_are_recounted_and_set_right),
        SERVICE_TEST(test_a_storage_that_is_away_ends_the_run_and_blames_no_chunk),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
