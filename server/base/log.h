/*
 * log: one event a line on standard error, key=value. Level names follow syslog through the
 * "<N>" prefix when the journal reads it. The calling thread's request id, when set, is added.
 * An error is logged once, by whoever stops passing it on. Secrets are never logged.
 */
#ifndef OXI_BASE_LOG_H
#define OXI_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);  /* starts as info */
void log_set_request(uint64_t request_id); /* of this thread; 0: none */

/* Use as log_warn("sweep cut short: left=%zu", left). Control characters are escaped. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
