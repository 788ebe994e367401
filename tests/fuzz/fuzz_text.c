/*
 * fuzz_text: the encodings that paths, headers and properties are made of. The input is one text,
 * read in each way.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

static void
check_percent(struct slice in, struct arena *arena)
{
    AUTO_BUF struct buf encoded = {.max = 1 << 20};
    struct slice out;

    if (text_percent_decode(in, arena, &out))
        CHECK(out.len <= in.len && out.data[out.len] == 0);
    text_percent_encode(&encoded, in);
    CHECK(encoded.len >= in.len && !encoded.over);
    CHECK(text_percent_decode(buf_slice(&encoded), arena, &out));
    CHECK(slice_eq(in, out));
}

/* Composing what is composed changes nothing: names would else be equal or not by their history. */
static void
check_nfc(struct slice in, struct arena *arena)
{
    struct slice once;
    struct slice twice;
    struct err err = {0};

    if (text_nfc(in, arena, &once, &err) < 0) {
        fuzz_check_err(&err);
        return;
    }
    CHECK(text_is_utf8(in) && text_is_utf8(once));
    CHECK(text_nfc(once, arena, &twice, &err) == 0);
    CHECK(slice_eq(once, twice));
}

static void
check_numbers(struct slice in, struct arena *arena)
{
    const uint64_t most = UINT64_C(1) << 50;
    const char *str = arena_strndup(arena, in.data, in.len);
    uint64_t value;

    if (text_parse_u64(in, UINT64_MAX, &value)) {
        CHECK(strspn(str, "0123456789") == in.len);
        CHECK(value == strtoull(str, NULL, 10));
    }
    CHECK(!text_parse_u64(in, most, &value) || value <= most);
    CHECK(!text_parse_size(in, most, &value) || value <= most);
}

static void
check_base64(struct slice in, struct arena *arena)
{
    struct slice out;

    if (text_base64_decode(in, arena, &out)) {
        CHECK(in.len % 4 == 0 && out.len <= in.len / 4 * 3);
        CHECK(out.data[out.len] == 0);
    }
}

static void
check_xml_escape(struct slice in)
{
    AUTO_BUF struct buf out = {.max = 1 << 20};

    text_xml_escape(&out, in);
    CHECK(out.len >= in.len && !out.over);
    CHECK(out.len == 0 || !memchr(out.data, '<', out.len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct slice in = {(const char *)data, len};
    struct arena arena;

    arena_init(&arena);
    check_percent(in, &arena);
    check_nfc(in, &arena);
    check_numbers(in, &arena);
    check_base64(in, &arena);
    check_xml_escape(in);
    arena_release(&arena);
    return 0;
}
