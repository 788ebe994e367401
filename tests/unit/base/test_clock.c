#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define US INT64_C(1000000)

static void
test_dates_are_written_in_both_forms(void **state)
{
    static const struct {
        int64_t at_us;
        const char *http;
        const char *iso;
    } cases[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"},
        {1500000000 * US, "Fri, 14 Jul 2017 02:40:00 GMT", "2017-07-14T02:40:00Z"},
        {1500000000 * US + 999999, "Fri, 14 Jul 2017 02:40:00 GMT", "2017-07-14T02:40:00Z"},
        {-1, "Wed, 31 Dec 1969 23:59:59 GMT", "1969-12-31T23:59:59Z"},
        {951782400 * US, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00Z"},
        {4102444800 * US, "Fri, 01 Jan 2100 00:00:00 GMT", "2100-01-01T00:00:00Z"},
        {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z"},
        {INT64_MIN, "Mon, 01 Jan 0001 00:00:00 GMT", "0001-01-01T00:00:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char http[CLOCK_HTTP_SIZE];
        char iso[CLOCK_ISO_SIZE];

        clock_http_date(http, cases[i].at_us);
        clock_iso_date(iso, cases[i].at_us);
        assert_string_equal(http, cases[i].http);
        assert_string_equal(iso, cases[i].iso);
    }
}

static void
test_all_three_forms_of_rfc_9110_are_read(void **state)
{
    static const struct {
        const char *in;
        int64_t secs;
    } cases[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Wed Nov 16 08:49:37 1994", 784975777},
        {" Sun, 06 Nov 1994 08:49:37 GMT ", 784111777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Wed, 31 Dec 1969 23:59:59 GMT", -1},
        {"Tue, 29 Feb 2000 00:00:00 GMT", 951782400},
        {"Fri, 30 Jun 2017 23:59:60 GMT", 1498867200},
        {"Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799)},
        {"Fri, 31 Dec 9999 23:59:60 GMT", INT64_C(253402300799)}, /* there is no room for more */
    };
    int64_t at_us;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!clock_parse_http_date(slice_of(cases[i].in), &at_us))
            fail_msg("%s was refused", cases[i].in);
        assert_true(at_us == cases[i].secs * US);
    }
}

static void
test_what_is_no_date_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "yesterday",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sux, 06 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Thu, 29 Feb 2001 00:00:00 GMT",
        "Thu, 29 Feb 1900 00:00:00 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 19940 08:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "1994-11-06T08:49:37Z",
    };
    int64_t at_us = 42;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (clock_parse_http_date(slice_of(bad[i]), &at_us))
            fail_msg("%s was taken", bad[i]);
    }
    assert_int_equal(at_us, 42);
}

static void
test_two_digit_years_lie_at_most_fifty_years_ahead(void **state)
{
    int64_t limit_us = clock_now_us() + INT64_C(51) * 366 * 86400 * US;

    (void)state;
    for (int year = 0; year < 100; year++) {
        char text[40];
        int64_t at_us;

        snprintf(text, sizeof(text), "Monday, 15-Jun-%02d 12:00:00 GMT", year);
        assert_true(clock_parse_http_date(slice_of(text), &at_us));
        assert_true(at_us < limit_us);
        assert_true(at_us > limit_us - INT64_C(102) * 366 * 86400 * US);
    }
}

static void
test_written_dates_read_back(void **state)
{
    (void)state;
    for (int64_t secs = -INT64_C(62135596800); secs < INT64_C(253402300800);
         secs += INT64_C(86399) * 97) {
        char text[CLOCK_HTTP_SIZE];
        int64_t at_us;

        clock_http_date(text, secs * US);
        assert_true(clock_parse_http_date(slice_of(text), &at_us));
        assert_true(at_us == secs * US);
    }
}

static void
test_the_monotonic_clock_never_goes_back(void **state)
{
    int64_t last = clock_mono_us();

    (void)state;
    for (int i = 0; i < 10000; i++) {
        int64_t now = clock_mono_us();

        assert_true(now >= last);
        last = now;
    }
}

static void
test_a_deadline_ends_a_wait(void **state)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    int64_t start = clock_mono_us();
    struct timespec at = clock_deadline(20);
    int result = 0;

    (void)state;
    clock_cond_init(&cond);
    pthread_mutex_lock(&mutex);
    while (result == 0)
        result = pthread_cond_timedwait(&cond, &mutex, &at);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
    assert_int_equal(result, ETIMEDOUT);
    assert_true(clock_mono_us() - start >= 20000);
}

static void
test_extreme_timeouts_make_valid_deadlines(void **state)
{
    static const int64_t timeouts[] = {INT64_MIN, -1, 0, 999, 1000, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        struct timespec at = clock_deadline(timeouts[i]);

        assert_true(at.tv_sec >= 0);
        assert_true(at.tv_nsec >= 0 && at.tv_nsec < 1000000000);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates_are_written_in_both_forms),
        cmocka_unit_test(test_all_three_forms_of_rfc_9110_are_read),
        cmocka_unit_test(test_what_is_no_date_is_refused),
        cmocka_unit_test(test_two_digit_years_lie_at_most_fifty_years_ahead),
        cmocka_unit_test(test_written_dates_read_back),
        cmocka_unit_test(test_the_monotonic_clock_never_goes_back),
        cmocka_unit_test(test_a_deadline_ends_a_wait),
        cmocka_unit_test(test_extreme_timeouts_make_valid_deadlines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
