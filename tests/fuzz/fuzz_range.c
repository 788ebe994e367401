/*
 * fuzz_range: the Range header. The first line of the input is the size of the content, the rest
 * the value of the header.
 */
#include "base/mem.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "http/range.h"

static void
check_list(const struct range_list *list, uint64_t size_bytes)
{
    CHECK(list->count >= 1 && list->count <= RANGE_PARTS_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const struct byte_range *part = &list->parts[i];
        uint64_t end;

        CHECK(part->len >= 1);
        CHECK(!__builtin_add_overflow(part->off, part->len, &end) && end <= size_bytes);
    }
}

/* Nothing but these letters can make a list of ranges. */
static void
check_letters(const char *header)
{
    CHECK(text_eq_nocase((struct slice){header, 6}, SLICE("bytes=")));
    for (const char *c = header + 6; *c; c++)
        CHECK((*c >= '0' && *c <= '9') || *c == '-' || *c == ',' || *c == ' ' || *c == '\t');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct slice rest = {(const char *)data, len};
    struct slice line = fuzz_line(&rest);
    struct range_list list;
    struct arena arena;
    uint64_t size_bytes;
    const char *header;

    if (!text_parse_u64(line, UINT64_MAX, &size_bytes))
        return 0;
    arena_init(&arena);
    header = arena_strndup(&arena, rest.data, rest.len);
    switch (range_parse(header, size_bytes, &list)) {
    case RANGE_PARTS:
        check_list(&list, size_bytes);
        check_letters(header);
        break;
    case RANGE_UNSATISFIABLE: check_letters(header); break;
    case RANGE_WHOLE: break;
    }
    arena_release(&arena);
    return 0;
}
