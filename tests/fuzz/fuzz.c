#include "fuzz/fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { HREF_MAX = 1 << 20 };

struct slice
fuzz_line(struct slice *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    struct slice line = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
    size_t used = line.len + (end ? 1 : 0);

    *rest = (struct slice){rest->data + used, rest->len - used};
    return line;
}

void
fuzz_check_err(const struct err *err)
{
    size_t len = strnlen(err->msg, sizeof(err->msg));

    CHECK(err->code > ERR_NONE && err->code < ERR_CODE_COUNT);
    CHECK(len > 0 && len < sizeof(err->msg));
    CHECK(!memchr(err->msg, '\n', len));
}

static void
check_name(const char *name)
{
    struct slice text = slice_of(name);

    CHECK(text.len >= 1 && text.len <= PATH_NAME_MAX_BYTES);
    CHECK(text_is_utf8(text));
    CHECK(!slice_is(text, ".") && !slice_is(text, ".."));
    for (size_t i = 0; i < text.len; i++)
        CHECK((unsigned char)text.data[i] >= 0x20 && text.data[i] != 0x7f && text.data[i] != '/');
}

static void
check_same(const struct path *a, const struct path *b)
{
    CHECK(a->depth == b->depth);
    CHECK(path_is_within(a, b) && path_is_within(b, a));
}

void
fuzz_check_path(const struct path *path)
{
    AUTO_BUF struct buf href = {.max = HREF_MAX};
    struct arena arena;
    struct path again;
    struct err err = {0};

    CHECK(path->depth <= PATH_MAX_DEPTH && path->names[path->depth] == NULL);
    for (size_t i = 0; i < path->depth; i++)
        check_name(path->names[i]);

    path_href(&href, path, path->trailing_slash);
    CHECK(buf_check(&href, &err) == 0 && href.data[0] == '/');
    for (size_t i = 0; i < href.len; i++)
        CHECK(href.data[i] > ' ' && href.data[i] < 0x7f);

    arena_init(&arena);
    CHECK(path_parse(buf_slice(&href), &arena, &again, &err) == 0);
    check_same(path, &again);
    CHECK(again.trailing_slash == (path->trailing_slash || path->depth == 0));
    arena_release(&arena);
}
