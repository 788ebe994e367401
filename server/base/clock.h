/*
 * clock: moments, deadlines and dates. Wall-clock moments are microseconds since 1970 (UTC);
 * monotonic ones have no meaning beyond their differences.
 */
#ifndef OXI_BASE_CLOCK_H
#define OXI_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"

int64_t clock_now_us(void);
int64_t clock_mono_us(void);
int64_t clock_mono_ns(void);
/* For pthread_cond_timedwait on a condition made with clock_cond_init(). */
struct timespec clock_deadline(int64_t timeout_ms);
void clock_cond_init(pthread_cond_t *cond); /* CLOCK_MONOTONIC */

enum { CLOCK_HTTP_SIZE = 30, CLOCK_ISO_SIZE = 21 };

/* IMF-fixdate, RFC 9110 section 5.6.7: "Fri, 14 Jul 2017 02:40:00 GMT". Whole seconds. */
void clock_http_date(char dst[CLOCK_HTTP_SIZE], int64_t at_us);
/* All three forms of RFC 9110 section 5.6.7; false when it is none. */
bool clock_parse_http_date(struct slice in, int64_t *ret_at_us);
/* RFC 3339: "2017-07-14T02:40:00Z". */
void clock_iso_date(char dst[CLOCK_ISO_SIZE], int64_t at_us);

#endif
