/*
 * range: the Range header, RFC 9110 section 14.2: one or several ranges of bytes.
 *
 * Ranges are kept in the order they were asked for; those that lie past the end are left out. A
 * header that is malformed, of another unit, or of more than RANGE_PARTS_MAX ranges is ignored,
 * as the RFC allows. Ranges that together ask for more than twice the file overlap without need
 * and are refused (section 17.15).
 */
#ifndef OXI_HTTP_RANGE_H
#define OXI_HTTP_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "storage/content_reader.h"

enum { RANGE_PARTS_MAX = 64 };

enum range_result {
    RANGE_WHOLE, /* none, or to be ignored: send everything */
    RANGE_PARTS,
    RANGE_UNSATISFIABLE, /* 416 */
};

struct range_list {
    struct byte_range parts[RANGE_PARTS_MAX]; /* each at least one byte, inside the content */
    size_t count;
};

/* The list is set when the result is RANGE_PARTS. header may be NULL. */
enum range_result range_parse(const char *header, uint64_t size_bytes,
                              struct range_list *ret_ranges);

#endif
