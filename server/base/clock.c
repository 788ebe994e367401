#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define US_PER_SEC INT64_C(1000000)

/* Seconds at the ends of the years 0001 and 9999, beyond which the formats have no room. */
#define LEAST_SECS (-INT64_C(62135596800))
#define MOST_SECS INT64_C(253402300799)

static const char WEEKDAYS[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
static const char MONTHS[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static int64_t
read_clock(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * US_PER_SEC + now.tv_nsec / 1000;
}

int64_t
clock_now_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t
clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t
clock_mono_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * US_PER_SEC + now.tv_nsec;
}

struct timespec
clock_deadline(int64_t timeout_ms)
{
    const int64_t most_ms = INT64_C(1000) * 60 * 60 * 24 * 365 * 100;
    struct timespec at;

    if (timeout_ms < 0)
        timeout_ms = 0;
    if (timeout_ms > most_ms)
        timeout_ms = most_ms;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += timeout_ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

void
clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* Rounded down, also before 1970, and kept within four-digit years. */
static void
break_down(int64_t at_us, struct tm *tm)
{
    int64_t secs = at_us / US_PER_SEC - (at_us % US_PER_SEC < 0);
    time_t at;

    if (secs < LEAST_SECS)
        secs = LEAST_SECS;
    if (secs > MOST_SECS)
        secs = MOST_SECS;
    at = secs;
    gmtime_r(&at, tm);
}

/* The remainders change nothing; they tell the compiler how wide each number can get. */
void
clock_http_date(char dst[CLOCK_HTTP_SIZE], int64_t at_us)
{
    struct tm tm;

    break_down(at_us, &tm);
    snprintf(dst, CLOCK_HTTP_SIZE, "%.3s, %02u %s %04u %02u:%02u:%02u GMT", WEEKDAYS[tm.tm_wday],
             (unsigned)tm.tm_mday % 100, MONTHS[tm.tm_mon], (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

void
clock_iso_date(char dst[CLOCK_ISO_SIZE], int64_t at_us)
{
    struct tm tm;

    break_down(at_us, &tm);
    snprintf(dst, CLOCK_ISO_SIZE, "%04u-%02u-%02uT%02u:%02u:%02uZ",
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100);
}

/*
 * A date is matched against a pattern of letters, each with a fixed meaning:
 *   a short weekday, A long weekday, b month, d day (2 digits), e day (blank or digit, digit),
 *   Y year (4 digits), y year (2 digits), H M S time; anything else stands for itself.
 * The weekday must be one, but need not be the right one: the rest says it already.
 */
static const char *const HTTP_PATTERNS[] = {
    "a, d b Y H:M:S GMT",
    "A, d-b-y H:M:S GMT",
    "a b e H:M:S Y",
};

static bool
take_digits(struct slice *in, size_t count, int *ret_value)
{
    int value = 0;

    if (in->len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (in->data[i] < '0' || in->data[i] > '9')
            return false;
        value = value * 10 + (in->data[i] - '0');
    }
    in->data += count;
    in->len -= count;
    *ret_value = value;
    return true;
}

static bool
take_weekday(struct slice *in, bool is_long)
{
    for (size_t i = 0; i < 7; i++) {
        size_t len = is_long ? strlen(WEEKDAYS[i]) : 3;

        if (in->len >= len && memcmp(in->data, WEEKDAYS[i], len) == 0) {
            in->data += len;
            in->len -= len;
            return true;
        }
    }
    return false;
}

static bool
take_month(struct slice *in, int *ret_month)
{
    for (int i = 0; i < 12; i++) {
        if (slice_starts(*in, MONTHS[i])) {
            in->data += 3;
            in->len -= 3;
            *ret_month = i;
            return true;
        }
    }
    return false;
}

/* RFC 9110: a two-digit year that would be more than 50 years ahead means the past. */
static bool
take_short_year(struct slice *in, int *ret_year)
{
    struct tm now;
    int this_year;
    int year;

    if (!take_digits(in, 2, &year))
        return false;
    break_down(clock_now_us(), &now);
    this_year = now.tm_year + 1900;
    year += this_year / 100 * 100;
    if (year > this_year + 50)
        year -= 100;
    *ret_year = year - 1900;
    return true;
}

static bool
take_field(struct slice *in, char field, struct tm *tm)
{
    switch (field) {
    case 'a':
    case 'A': return take_weekday(in, field == 'A');
    case 'b': return take_month(in, &tm->tm_mon);
    case 'e':
        if (in->len > 0 && in->data[0] == ' ') {
            in->data++;
            in->len--;
            return take_digits(in, 1, &tm->tm_mday);
        }
        return take_digits(in, 2, &tm->tm_mday);
    case 'd': return take_digits(in, 2, &tm->tm_mday);
    case 'Y':
        if (!take_digits(in, 4, &tm->tm_year))
            return false;
        tm->tm_year -= 1900;
        return true;
    case 'y': return take_short_year(in, &tm->tm_year);
    case 'H': return take_digits(in, 2, &tm->tm_hour);
    case 'M': return take_digits(in, 2, &tm->tm_min);
    default: return take_digits(in, 2, &tm->tm_sec);
    }
}

static bool
match(struct slice in, const char *pattern, struct tm *tm)
{
    const char *gmt = strstr(pattern, "GMT");

    *tm = (struct tm){0};
    for (const char *p = pattern; *p; p++) {
        if ((!gmt || p < gmt) && strchr("aAbdeYyHMS", *p)) {
            if (!take_field(&in, *p, tm))
                return false;
        } else {
            if (in.len == 0 || in.data[0] != *p)
                return false;
            in.data++;
            in.len--;
        }
    }
    return in.len == 0;
}

static bool
is_real(const struct tm *tm)
{
    static const int DAYS[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = tm->tm_year + 1900;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int days = DAYS[tm->tm_mon] + (tm->tm_mon == 1 && leap);

    return year >= 1 && tm->tm_mday >= 1 && tm->tm_mday <= days && tm->tm_hour <= 23 &&
           tm->tm_min <= 59 && tm->tm_sec <= 60; /* 60: a leap second */
}

bool
clock_parse_http_date(struct slice in, int64_t *ret_at_us)
{
    struct tm tm;

    in = slice_trim(in);
    for (size_t i = 0; i < sizeof(HTTP_PATTERNS) / sizeof(HTTP_PATTERNS[0]); i++) {
        int64_t secs;

        if (!match(in, HTTP_PATTERNS[i], &tm) || !is_real(&tm))
            continue;
        secs = timegm(&tm);
        *ret_at_us = (secs < MOST_SECS ? secs : MOST_SECS) * US_PER_SEC; /* a last leap second */
        return true;
    }
    return false;
}
