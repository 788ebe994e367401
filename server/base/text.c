#include "base/text.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char HEX_LOWER[] = "0123456789abcdef";
static const char HEX_UPPER[] = "0123456789ABCDEF";

void
text_hex(char *dst, const void *data, size_t len)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++) {
        dst[2 * i] = HEX_LOWER[bytes[i] >> 4];
        dst[2 * i + 1] = HEX_LOWER[bytes[i] & 15];
    }
    dst[2 * len] = 0;
}

static int
digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool
text_unhex(void *dst, size_t len, struct slice hex)
{
    unsigned char *bytes = dst;

    if (hex.len % 2 != 0 || hex.len / 2 != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = digit_of(hex.data[2 * i]);
        int low = digit_of(hex.data[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static size_t
ascii_prefix(struct slice in)
{
    size_t i = 0;

    while (i < in.len && (unsigned char)in.data[i] < 0x80)
        i++;
    return i;
}

/*
 * libsodium's decoder is strict about padding and stray bits, and takes constant time; but it
 * takes some bytes above 127 for letters.
 */
bool
text_base64_decode(struct slice in, struct arena *arena, struct slice *ret_out)
{
    size_t cap = in.len / 4 * 3 + 3;
    char *out = arena_alloc(arena, cap + 1);
    size_t len = 0;

    if (ascii_prefix(in) != in.len)
        return false;
    if (in.len > 0 && sodium_base642bin((unsigned char *)out, cap, in.data, in.len, NULL, &len,
                                        NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return false;
    out[len] = 0;
    *ret_out = (struct slice){out, len};
    return true;
}

static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void
text_percent_encode(struct buf *out, struct slice in)
{
    size_t start = 0;

    for (size_t i = 0; i < in.len; i++) {
        unsigned char c = (unsigned char)in.data[i];

        if (is_unreserved(in.data[i]))
            continue;
        buf_add(out, in.data + start, i - start);
        buf_add(out, (char[3]){'%', HEX_UPPER[c >> 4], HEX_UPPER[c & 15]}, 3);
        start = i + 1;
    }
    if (in.len > start)
        buf_add(out, in.data + start, in.len - start);
}

void
text_percent_encode_path(struct buf *out, struct slice in)
{
    while (in.len > 0) {
        const char *slash = memchr(in.data, '/', in.len);
        size_t len = slash ? (size_t)(slash - in.data) : in.len;

        text_percent_encode(out, (struct slice){in.data, len});
        if (slash)
            buf_addc(out, '/');
        in.data += len + (slash ? 1 : 0);
        in.len -= len + (slash ? 1 : 0);
    }
}

bool
text_percent_decode(struct slice in, struct arena *arena, struct slice *ret_out)
{
    char *out = arena_alloc(arena, in.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < in.len; i++) {
        int high;
        int low;

        if (in.data[i] != '%') {
            out[len++] = in.data[i];
            continue;
        }
        if (in.len - i < 3)
            return false;
        high = digit_of(in.data[i + 1]);
        low = digit_of(in.data[i + 2]);
        if (high < 0 || low < 0)
            return false;
        out[len++] = (char)(high << 4 | low);
        i += 2;
    }
    out[len] = 0;
    *ret_out = (struct slice){out, len};
    return true;
}

static const char *
xml_escape_of(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void
text_xml_escape(struct buf *out, struct slice in)
{
    size_t start = 0;

    for (size_t i = 0; i < in.len; i++) {
        const char *escape = xml_escape_of(in.data[i]);

        if (!escape)
            continue;
        buf_add(out, in.data + start, i - start);
        buf_adds(out, escape);
        start = i + 1;
    }
    if (in.len > start)
        buf_add(out, in.data + start, in.len - start);
}

bool
text_is_utf8(struct slice in)
{
    size_t at = ascii_prefix(in);

    while (at < in.len) {
        utf8proc_int32_t point;
        size_t left = in.len - at < 4 ? in.len - at : 4;
        utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)in.data + at,
                                                (utf8proc_ssize_t)left, &point);

        if (len <= 0)
            return false;
        at += (size_t)len;
    }
    return true;
}

int
text_nfc(struct slice in, struct arena *arena, struct slice *ret_out, struct err *err)
{
    utf8proc_uint8_t *composed = NULL;
    utf8proc_ssize_t len;

    if (ascii_prefix(in) == in.len) { /* ASCII is its own normal form */
        char *copy = arena_alloc(arena, in.len + 1);

        if (in.len > 0)
            memcpy(copy, in.data, in.len);
        copy[in.len] = 0;
        *ret_out = (struct slice){copy, in.len};
        return 0;
    }
    if (!text_is_utf8(in))
        return err_set(err, ERR_INVALID, "text is not valid UTF-8");
    len = utf8proc_map((const utf8proc_uint8_t *)in.data, (utf8proc_ssize_t)in.len, &composed,
                       UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (len < 0)
        return err_set(err, ERR_INVALID, "normalise text: %s", utf8proc_errmsg(len));
    *ret_out = (struct slice){arena_dup(arena, composed, (size_t)len + 1), (size_t)len};
    free(composed);
    return 0;
}

bool
text_parse_u64(struct slice in, uint64_t most, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (in.len == 0)
        return false;
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] < '0' || in.data[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(in.data[i] - '0'), &value))
            return false;
    }
    if (value > most)
        return false;
    *ret_value = value;
    return true;
}

bool
text_parse_size(struct slice in, uint64_t most, uint64_t *ret_value)
{
    static const char UNITS[] = "KMGT";
    uint64_t unit = 1;
    uint64_t value;
    const char *letter;

    if (in.len == 0)
        return false;
    letter = memchr(UNITS, in.data[in.len - 1], sizeof(UNITS) - 1);
    if (letter) {
        unit <<= 10 * (letter - UNITS + 1);
        in.len--;
    }
    if (!text_parse_u64(in, UINT64_MAX, &value) || __builtin_mul_overflow(value, unit, &value) ||
        value > most)
        return false;
    *ret_value = value;
    return true;
}

/* tolower() would ask the locale. */
static char
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool
text_eq_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    }
    return true;
}

