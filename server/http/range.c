#include "http/range.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum spec_result { SPEC_MALFORMED, SPEC_RANGE, SPEC_PAST_END };

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

static enum spec_result
suffix_range(struct slice digits, uint64_t size_bytes, struct byte_range *ret_range)
{
    uint64_t count;

    if (!parse_position(digits, &count))
        return SPEC_MALFORMED;
    if (count == 0 || size_bytes == 0)
        return SPEC_PAST_END;
    ret_range->len = count < size_bytes ? count : size_bytes;
    ret_range->off = size_bytes - ret_range->len;
    return SPEC_RANGE;
}

/* One of the elements between the commas. */
static enum spec_result
parse_spec(struct slice text, uint64_t size_bytes, struct byte_range *ret_range)
{
    const char *dash = text.len > 0 ? memchr(text.data, '-', text.len) : NULL;
    uint64_t first, last = UINT64_MAX;

    if (!dash)
        return SPEC_MALFORMED;

    struct slice left = {text.data, (size_t)(dash - text.data)};
    struct slice right = {dash + 1, text.len - left.len - 1};

    if (left.len == 0)
        return suffix_range(right, size_bytes, ret_range);
    if (!parse_position(left, &first) || (right.len && !parse_position(right, &last)) ||
        last < first)
        return SPEC_MALFORMED;
    if (first >= size_bytes)
        return SPEC_PAST_END;
    if (last >= size_bytes)
        last = size_bytes - 1;
    *ret_range = (struct byte_range){first, last - first + 1};
    return SPEC_RANGE;
}

/* The next element of a list, without the blanks around it. False: there is none. Empty elements
 * are passed over (RFC 9110 section 5.6.1.2). */
static bool
next_element(struct slice *list, struct slice *ret_element)
{
    while (list->len > 0) {
        const char *comma = memchr(list->data, ',', list->len);
        size_t len = comma ? (size_t)(comma - list->data) : list->len;
        size_t used = comma ? len + 1 : len;

        *ret_element = slice_trim((struct slice){list->data, len});
        *list = (struct slice){list->data + used, list->len - used};
        if (ret_element->len > 0)
            return true;
    }
    return false;
}

/* What all elements together ask for; the list holds the first of them. */
struct total {
    size_t spec_count;
    size_t range_count;
    uint64_t bytes; /* stays at its most */
};

/* False: one of them is malformed. */
static bool
parse_set(struct slice set, uint64_t size_bytes, struct range_list *ranges, struct total *total)
{
    struct slice element;

    while (next_element(&set, &element)) {
        struct byte_range range;

        total->spec_count++;
        switch (parse_spec(element, size_bytes, &range)) {
        case SPEC_MALFORMED: return false;
        case SPEC_PAST_END: break;
        case SPEC_RANGE:
            if (total->range_count < RANGE_PARTS_MAX)
                ranges->parts[ranges->count++] = range;
            total->range_count++;
            if (__builtin_add_overflow(total->bytes, range.len, &total->bytes))
                total->bytes = UINT64_MAX;
            break;
        }
    }
    return total->spec_count > 0;
}

/* Twice, because small files are asked for by clients that do not know how small they are:
 * "0-0,-1" of one byte. */
static bool
is_flood(const struct total *total, uint64_t size_bytes)
{
    return total->bytes > size_bytes && total->bytes - size_bytes > size_bytes;
}

enum range_result
range_parse(const char *header, uint64_t size_bytes, struct range_list *ret_ranges)
{
    static const char unit[] = "bytes=";
    struct slice text = slice_of(header);
    struct total total = {0};

    if (text.len < sizeof(unit) - 1 ||
        !text_eq_nocase((struct slice){text.data, sizeof(unit) - 1}, SLICE(unit)))
        return RANGE_WHOLE;
    text = (struct slice){text.data + sizeof(unit) - 1, text.len - sizeof(unit) + 1};
    ret_ranges->count = 0;
    if (!parse_set(text, size_bytes, ret_ranges, &total))
        return RANGE_WHOLE;
    if (total.range_count == 0 || is_flood(&total, size_bytes))
        return RANGE_UNSATISFIABLE;
    return total.spec_count > RANGE_PARTS_MAX ? RANGE_WHOLE : RANGE_PARTS;
}
