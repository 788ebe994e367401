/* range: the Range header, RFC 9110 section 14.2; a single range of bytes. */
#ifndef OXI_HTTP_RANGE_H
#define OXI_HTTP_RANGE_H

#include <stdint.h>

#include "storage/content_reader.h"

enum range_result {
    RANGE_WHOLE, /* none, another unit, malformed, or several: send everything */
    RANGE_PART,
    RANGE_UNSATISFIABLE, /* 416 */
};

enum range_result range_parse(const char *header, uint64_t size_bytes,
                              struct byte_range *ret_range);

#endif
