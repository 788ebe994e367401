/*
 * buf: growable bytes with a ceiling. Writers do not check each call: once the ceiling is hit the
 * buffer takes no more and remembers it, and buf_check() reports it at the end.
 */
#ifndef OXI_BASE_BUF_H
#define OXI_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Borrowed bytes; not terminated. */
struct slice {
    const char *data;
    size_t len;
};

#define SLICE(str) ((struct slice){(str), sizeof(str) - 1})

struct slice slice_of(const char *str); /* NULL gives an empty slice */
bool slice_eq(struct slice a, struct slice b);
bool slice_is(struct slice a, const char *str);
bool slice_starts(struct slice a, const char *prefix);
struct slice slice_trim(struct slice a); /* blanks and tabs on both sides */

/* data[len] is always 0 once anything was written, so text may be read as a C string. */
struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max;
    bool over;
};

void buf_init(struct buf *buf, size_t max);
void buf_release(struct buf *buf);
void buf_clear(struct buf *buf); /* empty, memory kept */
void buf_add(struct buf *buf, const void *data, size_t len);
void buf_adds(struct buf *buf, const char *str);
void buf_addc(struct buf *buf, char c);
void buf_add_slice(struct buf *buf, struct slice s);
void buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct slice buf_slice(const struct buf *buf);
/* ERR_TOO_LARGE when something did not fit. */
int buf_check(const struct buf *buf, struct err *err);

#define AUTO_BUF __attribute__((cleanup(buf_release)))

#endif
