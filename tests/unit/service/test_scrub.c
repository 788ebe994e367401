#include "fixture.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "service/scrub.h"

enum { DEADLINE_US = 20000000 };

/* Chunks that verify or scrub have read back since the start of the test. */
static const char SQL_VERIFIED[] = "select count(*) from chunks where verified_at is not null";
static const char SQL_QUARANTINED[] =
    "select count(*) from chunks where quarantined_at is not null";

static struct scrub *
start_scrub(struct fixture *fix, uint64_t rate_bytes)
{
    struct scrub *scrub = NULL;

    log_set_level(LOG_LEVEL_ERROR);
    fix->config.scrub_rate_bytes = rate_bytes;
    fix->config.scrub_interval_secs = 0;
    assert_int_equal(scrub_start(&fix->files, &scrub, &fix->err), 0);
    return scrub;
}

/* Polls, because nobody tells when a round is over. */
static void
await_number(struct fixture *fix, const char *sql, int64_t least)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_US;

    while (test_db_number(fix->db, sql) < least)
        if (clock_mono_us() > deadline_us)
            fail_msg("not in time: %s", sql);
}

static struct digest
chunk_of(const char *bytes)
{
    return digest_of(bytes, strlen(bytes));
}

static void
test_the_scrub_reads_back_everything_and_notes_it(void **state)
{
    struct fixture *fix = *state;
    struct scrub *scrub;
    uint64_t bytes = metric_value(METRIC_SCRUB_BYTES), bad = metric_value(METRIC_SCRUB_BAD);

    put(fix, "/a", "first");
    put(fix, "/b", "second");
    put(fix, "/c", "third one");
    test_db_script(fix->db, "update chunks set scrub_until = null");
    scrub = start_scrub(fix, 1 << 30);
    await_number(fix, SQL_VERIFIED, test_db_number(fix->db, "select count(*) from chunks"));
    scrub_stop(scrub);
    assert_true(metric_value(METRIC_SCRUB_BYTES) - bytes >= 20);
    assert_true(metric_value(METRIC_SCRUB_BAD) == bad);
    assert_int_equal(test_db_number(fix->db, SQL_QUARANTINED), 0);
}

static void
test_the_scrub_finds_what_has_rotten_and_an_upload_heals_it(void **state)
{
    struct fixture *fix = *state;
    struct digest flipped = chunk_of("to be flipped"), lost = chunk_of("to be lost");
    struct digest cached = chunk_of("flipped in memory only");
    struct scrub *scrub;

    put(fix, "/flipped", "to be flipped");
    put(fix, "/lost", "to be lost");
    put(fix, "/cached", "flipped in memory only");
    mem_backend_flip(fix->backend, &flipped);
    mem_backend_lose(fix->backend, &lost);
    mem_backend_flip_cached(fix->backend, &cached);
    scrub = start_scrub(fix, 1 << 30);
    await_number(fix, SQL_QUARANTINED, 2);
    scrub_stop(scrub);
    assert_int_equal(test_db_number(fix->db, SQL_QUARANTINED), 2);
    assert_string_equal(what(fix, "/cached"), "flipped in memory only");
    put(fix, "/flipped", "to be flipped");
    put(fix, "/elsewhere", "to be lost");
    assert_int_equal(test_db_number(fix->db, SQL_QUARANTINED), 0);
    assert_string_equal(what(fix, "/flipped"), "to be flipped");
    assert_string_equal(what(fix, "/lost"), "to be lost");
}

static void
test_the_scrub_keeps_to_its_rate_and_stops_at_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t chunks = metric_value(METRIC_SCRUB_CHUNKS);
    int64_t begun_us;
    struct scrub *scrub;

    put(fix, "/a", "one chunk");
    put(fix, "/b", "another chunk");
    scrub = start_scrub(fix, 1); /* a byte a second */
    begun_us = clock_mono_us();
    while (metric_value(METRIC_SCRUB_CHUNKS) == chunks)
        assert_true(clock_mono_us() - begun_us < DEADLINE_US);
    begun_us = clock_mono_us();
    scrub_stop(scrub);
    assert_true(clock_mono_us() - begun_us < 2000000);
    assert_true(metric_value(METRIC_SCRUB_CHUNKS) - chunks <= 2);
}

static void
test_a_storage_that_is_away_is_no_finding(void **state)
{
    struct fixture *fix = *state;
    int64_t begun_us = clock_mono_us();
    struct scrub *scrub;
    unsigned calls;

    put(fix, "/a", "still there");
    mem_backend_fail(fix->backend, MEM_READ, 1, 1000000, ERR_UNAVAILABLE);
    calls = mem_backend_calls(fix->backend, MEM_READ);
    scrub = start_scrub(fix, 1 << 30);
    while (mem_backend_calls(fix->backend, MEM_READ) == calls)
        assert_true(clock_mono_us() - begun_us < DEADLINE_US);
    scrub_stop(scrub);
    mem_backend_fail(fix->backend, MEM_READ, 1, 0, ERR_NONE);
    assert_int_equal(test_db_number(fix->db, SQL_QUARANTINED), 0);
    assert_string_equal(what(fix, "/a"), "still there");
}

static void
test_a_rate_of_nothing_means_no_scrub(void **state)
{
    struct fixture *fix = *state;

    assert_null(start_scrub(fix, 0));
    scrub_stop(NULL);
}

/* Nothing of the tests before is due. */
static int
fixture_fresh(void **state)
{
    struct fixture *fix = *state;

    test_db_script(fix->db, "update chunks set verified_at = null, scrub_until = null;"
                            "update chunks set scrub_until = now() + interval '1 day'");
    return fixture_user(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_fresh, fixture_check)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_scrub_keeps_to_its_rate_and_stops_at_once),
        TEST(test_the_scrub_finds_what_has_rotten_and_an_upload_heals_it),
        TEST(test_a_storage_that_is_away_is_no_finding),
        TEST(test_a_rate_of_nothing_means_no_scrub),
        SERVICE_TEST(test_the_scrub_reads_back_everything_and_notes_it),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
