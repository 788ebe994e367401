/*
 * log: a line is put together on the stack and leaves in one write(2), so that lines of several
 * threads do not mix and nothing is allocated. What comes from outside cannot begin a line of its
 * own or steer a terminal.
 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { MESSAGE_SIZE = 1536, LINE_SIZE = 4096 };

static const struct {
    const char *name;
    int syslog;
} LEVELS[] = {
    [LOG_LEVEL_ERROR] = {"error", 3},
    [LOG_LEVEL_WARN] = {"warn", 4},
    [LOG_LEVEL_INFO] = {"info", 6},
    [LOG_LEVEL_DEBUG] = {"debug", 7},
};

static atomic_int max_level = LOG_LEVEL_INFO;
static _Thread_local uint64_t thread_request;
static pthread_once_t journal_once = PTHREAD_ONCE_INIT;
static bool to_journal;

/* systemd.exec(5): the variable is inherited, so it counts only when it names our own stderr. */
static void
find_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[64];

    if (!stream || fstat(STDERR_FILENO, &st) < 0)
        return;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    to_journal = slice_is(slice_of(stream), own);
}

void
log_set_level(enum log_level level)
{
    atomic_store(&max_level, (int)level);
}

void
log_set_request(uint64_t request_id)
{
    thread_request = request_id;
}

/* Must be escaped: C0, DEL, C1 (c2 80 to c2 9f), and every high byte when it is no UTF-8. */
static bool
is_unsafe(const char *at, bool is_utf8)
{
    unsigned char c = (unsigned char)at[0];

    if (c < 0x20 || c == 0x7f)
        return true;
    return c >= 0x80 && (!is_utf8 || (c == 0xc2 && (unsigned char)at[1] < 0xa0));
}

/* A message that was cut may end in half a character, which then shows as escapes. */
static size_t
escape(char *dst, size_t cap, const char *message)
{
    bool is_utf8 = text_is_utf8(slice_of(message));
    size_t len = 0;
    size_t hidden = 0; /* bytes still to be escaped whatever they are */

    for (const char *at = message; *at && cap - len > 5; at++) {
        unsigned char c = (unsigned char)*at;

        if (hidden == 0 && is_unsafe(at, is_utf8))
            hidden = is_utf8 && c >= 0x80 ? 2 : 1;
        if (hidden > 0) {
            hidden--;
            len += (size_t)(c == '\n' ? snprintf(dst + len, cap - len, "\\n")
                                      : snprintf(dst + len, cap - len, "\\x%02x", c));
        } else {
            dst[len++] = *at;
        }
    }
    return len;
}

static size_t
prefix(char *dst, size_t cap, enum log_level level)
{
    char date[CLOCK_ISO_SIZE];
    int64_t now_us;
    int len;

    pthread_once(&journal_once, find_journal);
    if (to_journal) {
        len = snprintf(dst, cap, "<%d>", LEVELS[level].syslog);
    } else {
        now_us = clock_now_us();
        clock_iso_date(date, now_us);
        len = snprintf(dst, cap, "%.19s.%03dZ %s ", date, (int)(now_us / 1000 % 1000),
                       LEVELS[level].name);
    }
    if (thread_request != 0)
        len += snprintf(dst + len, cap - (size_t)len, "req=%" PRIu64 " ", thread_request);
    return (size_t)len;
}

void
log_line(enum log_level level, const char *fmt, ...)
{
    char message[MESSAGE_SIZE];
    char line[LINE_SIZE];
    int saved_errno = errno;
    va_list args;
    size_t len;

    if ((int)level > atomic_load(&max_level))
        return;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    len = prefix(line, sizeof(line), level);
    len += escape(line + len, sizeof(line) - len - 1, message);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0) {
        /* there is no other place to complain */
    }
    errno = saved_errno;
}
