#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"

/* The value of the line that begins with `sample` and a blank. */
static double
value_of(const char *text, const char *sample)
{
    size_t len = strlen(sample);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, sample, len) == 0 && line[len] == ' ')
            return strtod(line + len + 1, NULL);
    }
    fail_msg("there is no %s", sample);
    return -1;
}

static void
render(struct buf *out)
{
    struct err err = {0};

    buf_init(out, 1 << 20);
    metrics_render(out);
    assert_int_equal(buf_check(out, &err), 0);
}

static void
test_every_metric_exists_from_the_first_scrape(void **state)
{
    AUTO_BUF struct buf out = {0};

    (void)state;
    render(&out);
    assert_int_equal((int)value_of(out.data, "oxicloud_http_requests_total{class=\"5xx\"}"), 0);
    assert_int_equal((int)value_of(out.data, "oxicloud_blob_put_seconds_count"), 0);
    assert_int_equal((int)value_of(out.data, "oxicloud_workers_busy"), 0);
    assert_null(strstr(out.data, "(null)"));
}

static void
test_counters_and_gauges_show_their_values(void **state)
{
    AUTO_BUF struct buf out = {0};

    (void)state;
    metric_add(METRIC_HTTP_REQUESTS_2XX, 2);
    metric_add(METRIC_INGEST_BYTES, UINT64_C(1) << 40);
    metric_gauge_set(METRIC_DB_CONNECTIONS, 7);
    metric_gauge_add(METRIC_DB_CONNECTIONS, -9);
    render(&out);
    assert_true(value_of(out.data, "oxicloud_http_requests_total{class=\"2xx\"}") == 2);
    assert_true(value_of(out.data, "oxicloud_ingest_bytes_total") == 1099511627776.0);
    assert_true(value_of(out.data, "oxicloud_db_connections") == -2);
    assert_int_equal(metric_value(METRIC_HTTP_REQUESTS_2XX), 2);
    metric_gauge_set(METRIC_DB_CONNECTIONS, 0);
}

static void
test_histograms_are_cumulative_and_in_seconds(void **state)
{
    AUTO_BUF struct buf out = {0};

    (void)state;
    metric_observe_us(METRIC_SYNC_SECONDS, -5);
    metric_observe_us(METRIC_SYNC_SECONDS, 100);
    metric_observe_us(METRIC_SYNC_SECONDS, 101);
    metric_observe_us(METRIC_SYNC_SECONDS, 60000000);
    metric_observe_us(METRIC_SYNC_SECONDS, 60000001);
    render(&out);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_bucket{le=\"0.0001\"}") == 2);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_bucket{le=\"0.00025\"}") == 3);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_bucket{le=\"30\"}") == 3);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_bucket{le=\"60\"}") == 4);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_bucket{le=\"+Inf\"}") == 5);
    assert_true(value_of(out.data, "oxicloud_sync_seconds_count") == 5);
    assert_non_null(strstr(out.data, "oxicloud_sync_seconds_sum 120.000202000\n"));
}

static void
test_the_process_is_described(void **state)
{
    AUTO_BUF struct buf out = {0};
    double now = (double)clock_now_us() / 1e6;
    double start;

    (void)state;
    render(&out);
    assert_true(value_of(out.data, "process_resident_memory_bytes") > 100000);
    start = value_of(out.data, "process_start_time_seconds");
    assert_true(start > now - 3600 && start < now + 5);
}

/* Families are whole and announced once; lines end in a number. */
static void
test_the_text_keeps_to_the_format(void **state)
{
    AUTO_BUF struct buf out = {0};
    char family[128] = "";
    char *at;
    char *line;

    (void)state;
    render(&out);
    at = out.data;
    while ((line = strsep(&at, "\n")) && *line) {
        char type[32];
        char *blank = strrchr(line, ' ');
        char *end;

        assert_non_null(blank);
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127s", family), 1);
            assert_true(strlen(line) > strlen(family) + 10);
            line = strsep(&at, "\n");
            assert_non_null(line);
            assert_memory_equal(line, "# TYPE ", 7);
            assert_memory_equal(line + 7, family, strlen(family));
            assert_int_equal(sscanf(line + 7 + strlen(family), " %31s", type), 1);
            assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                        strcmp(type, "histogram") == 0);
            assert_int_equal(strcmp(type, "counter") == 0,
                             strcmp(family + strlen(family) - 6, "_total") == 0);
            continue;
        }
        assert_int_not_equal(line[0], '#');
        assert_memory_equal(line, family, strlen(family));
        (void)strtod(blank + 1, &end);
        assert_int_equal(*end, 0);
    }
}

static void
test_no_family_is_announced_twice(void **state)
{
    AUTO_BUF struct buf out = {0};

    (void)state;
    render(&out);
    for (const char *p = strstr(out.data, "# TYPE "); p; p = strstr(p + 1, "# TYPE ")) {
        char head[160];

        assert_int_equal(sscanf(p, "# TYPE %150s", head), 1);
        for (const char *q = strstr(p + 1, "# TYPE "); q; q = strstr(q + 1, "# TYPE ")) {
            char other[160];

            assert_int_equal(sscanf(q, "# TYPE %150s", other), 1);
            assert_string_not_equal(head, other);
        }
    }
}

static void *
count_much(void *arg)
{
    for (int i = 0; i < 50000; i++) {
        metric_add(METRIC_BLOB_PUTS, 1);
        metric_gauge_add(METRIC_UPLOADS_ACTIVE, i % 2 ? -1 : 1);
        metric_observe_us(METRIC_LEASE_SECONDS, i);
    }
    return arg;
}

static void
test_threads_lose_no_counts(void **state)
{
    AUTO_BUF struct buf out = {0};
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    render(&out);
    assert_int_equal(metric_value(METRIC_BLOB_PUTS), 200000);
    assert_true(value_of(out.data, "oxicloud_uploads_active") == 0);
    assert_true(value_of(out.data, "oxicloud_lease_seconds_count") == 200000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_metric_exists_from_the_first_scrape),
        cmocka_unit_test(test_counters_and_gauges_show_their_values),
        cmocka_unit_test(test_histograms_are_cumulative_and_in_seconds),
        cmocka_unit_test(test_the_process_is_described),
        cmocka_unit_test(test_the_text_keeps_to_the_format),
        cmocka_unit_test(test_no_family_is_announced_twice),
        cmocka_unit_test(test_threads_lose_no_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
