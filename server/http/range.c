#include "http/range.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

/* A position. Digits that do not fit in 64 bits are a position past every end. */
static bool
parse_position(struct slice text, uint64_t *ret_value)
{
    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    if (!text_parse_u64(text, UINT64_MAX, ret_value))
        *ret_value = UINT64_MAX;
    return true;
}

static enum range_result
suffix_range(uint64_t count, uint64_t size_bytes, struct byte_range *ret_range)
{
    if (count == 0 || size_bytes == 0)
        return RANGE_UNSATISFIABLE;
    ret_range->len = count < size_bytes ? count : size_bytes;
    ret_range->off = size_bytes - ret_range->len;
    return RANGE_PART;
}

enum range_result
range_parse(const char *header, uint64_t size_bytes, struct byte_range *ret_range)
{
    static const char unit[] = "bytes=";
    struct slice text = slice_of(header);
    uint64_t first, last = UINT64_MAX;

    if (text.len < sizeof(unit) - 1 ||
        !text_eq_nocase((struct slice){text.data, sizeof(unit) - 1}, SLICE(unit)))
        return RANGE_WHOLE;
    text = slice_trim((struct slice){text.data + sizeof(unit) - 1, text.len - sizeof(unit) + 1});

    const char *dash = memchr(text.data, '-', text.len);

    if (!dash || memchr(text.data, ',', text.len))
        return RANGE_WHOLE;

    struct slice left = {text.data, (size_t)(dash - text.data)};
    struct slice right = {dash + 1, text.len - left.len - 1};

    if (left.len == 0)
        return parse_position(right, &last) ? suffix_range(last, size_bytes, ret_range)
                                            : RANGE_WHOLE;
    if (!parse_position(left, &first) || (right.len && !parse_position(right, &last)) ||
        last < first)
        return RANGE_WHOLE;
    if (first >= size_bytes)
        return RANGE_UNSATISFIABLE;
    if (last >= size_bytes)
        last = size_bytes - 1;
    *ret_range = (struct byte_range){first, last - first + 1};
    return RANGE_PART;
}
