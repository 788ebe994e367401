/*
 * text: the encodings of HTTP, URIs, XML and HTML, and Unicode. Pure functions.
 */
#ifndef OXI_BASE_TEXT_H
#define OXI_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

/* dst holds 2 * len + 1 bytes; lower case. */
void text_hex(char *dst, const void *data, size_t len);
/* Exactly 2 * len digits, any case; false for anything else. */
bool text_unhex(void *dst, size_t len, struct slice hex);

/* RFC 4648 section 4, padding demanded; false when malformed. Result in the arena. */
bool text_base64_decode(struct slice in, struct arena *arena, struct slice *ret_out);

/* RFC 3986: everything but unreserved characters is escaped, upper-case hex. `/` too. */
void text_percent_encode(struct buf *out, struct slice in);
/* The same for names with slashes between them, which stay. */
void text_percent_encode_path(struct buf *out, struct slice in);
/* Decodes each %XX once; false for a broken escape. Bytes 0 and '/' may come out: see path.c. */
bool text_percent_decode(struct slice in, struct arena *arena, struct slice *ret_out);

/* & < > " ' escaped; safe in text and attributes of XML and HTML. */
void text_xml_escape(struct buf *out, struct slice in);

/* Valid UTF-8 without surrogates and over-long forms. */
bool text_is_utf8(struct slice in);
/* Unicode normalisation form C of valid UTF-8. ERR_INVALID for text that is none. */
int text_nfc(struct slice in, struct arena *arena, struct slice *ret_out, struct err *err);

/* Decimal without sign or blanks, whole input, at most `most`; false otherwise. */
bool text_parse_u64(struct slice in, uint64_t most, uint64_t *ret_value);
/* "64", "8K", "10M", "2G", "1T": powers of 1024; false otherwise. */
bool text_parse_size(struct slice in, uint64_t most, uint64_t *ret_value);

/* ASCII only. */
bool text_eq_nocase(struct slice a, struct slice b);

#endif
