#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct slice
slice_of(const char *str)
{
    return (struct slice){str, str ? strlen(str) : 0};
}

bool
slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool
slice_is(struct slice a, const char *str)
{
    return slice_eq(a, slice_of(str));
}

bool
slice_starts(struct slice a, const char *prefix)
{
    size_t len = strlen(prefix);

    return a.len >= len && (len == 0 || memcmp(a.data, prefix, len) == 0);
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice
slice_trim(struct slice a)
{
    while (a.len > 0 && is_blank(a.data[0])) {
        a.data++;
        a.len--;
    }
    while (a.len > 0 && is_blank(a.data[a.len - 1]))
        a.len--;
    return a;
}

void
buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void
buf_release(struct buf *buf)
{
    free(buf->data);
    buf_init(buf, buf->max);
}

void
buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->over = false;
    if (buf->data)
        buf->data[0] = 0;
}

/* Makes room for len more bytes and the 0 behind them; false, for good, above the ceiling. */
static bool
reserve(struct buf *buf, size_t len)
{
    size_t need;
    size_t cap;

    if (buf->over || len > buf->max - buf->len || __builtin_add_overflow(buf->len, len, &need) ||
        __builtin_add_overflow(need, (size_t)1, &need)) {
        buf->over = true;
        return false;
    }
    if (need <= buf->cap)
        return true;
    cap = buf->cap < 64 ? 64 : buf->cap;
    while (cap < need && !__builtin_mul_overflow(cap, (size_t)2, &cap))
        ;
    if (cap < need || cap - 1 > buf->max)
        cap = buf->max + 1 > need ? buf->max + 1 : need;
    buf->data = mem_realloc(buf->data, cap);
    buf->cap = cap;
    return true;
}

void
buf_add(struct buf *buf, const void *data, size_t len)
{
    if (!reserve(buf, len))
        return;
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = 0;
}

void
buf_adds(struct buf *buf, const char *str)
{
    buf_add(buf, str, strlen(str));
}

void
buf_addc(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void
buf_add_slice(struct buf *buf, struct slice s)
{
    buf_add(buf, s.data, s.len);
}

void
buf_printf(struct buf *buf, const char *fmt, ...)
{
    char small[256];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof(small)) {
        buf_add(buf, small, (size_t)len);
        return;
    }
    if (len < 0 || !reserve(buf, (size_t)len)) {
        buf->over = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)len;
}

struct slice
buf_slice(const struct buf *buf)
{
    return (struct slice){buf->data, buf->len};
}

int
buf_check(const struct buf *buf, struct err *err)
{
    if (buf->over)
        return err_set(err, ERR_TOO_LARGE, "more than %zu bytes", buf->max);
    return 0;
}
