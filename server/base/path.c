/*
 * path: everything a client can write into a path goes through name_check() here, and nothing
 * behind this file looks at names again.
 */
#include "base/path.h"

#include <string.h>

#include "base/text.h"

/* C0 and DEL, C1 (c2 80 to c2 9f), and the two non-characters XML has no way to say. */
static bool
has_control(struct slice name)
{
    const unsigned char *bytes = (const unsigned char *)name.data;

    for (size_t i = 0; i < name.len; i++) {
        if (bytes[i] < 0x20 || bytes[i] == 0x7f)
            return true;
        if (bytes[i] == 0xc2 && i + 1 < name.len && bytes[i + 1] < 0xa0)
            return true;
        if (bytes[i] == 0xef && i + 2 < name.len && bytes[i + 1] == 0xbf && bytes[i + 2] >= 0xbe)
            return true;
    }
    return false;
}

static int
name_check(struct slice name, struct err *err)
{
    if (name.len == 0)
        return err_set(err, ERR_INVALID, "a name is empty");
    if (name.len > PATH_NAME_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a name has %zu bytes, at most %d are possible",
                       name.len, PATH_NAME_MAX_BYTES);
    if (slice_is(name, ".") || slice_is(name, ".."))
        return err_set(err, ERR_INVALID, "\".\" and \"..\" are no names");
    if (memchr(name.data, '/', name.len))
        return err_set(err, ERR_INVALID, "a name contains a slash");
    if (has_control(name))
        return err_set(err, ERR_INVALID, "a name contains a control character");
    return 0;
}

int
path_name(struct slice in, struct arena *arena, char **ret_name, struct err *err)
{
    /* Before anything reads it as text, so that no NUL can hide what follows it. */
    if (in.len > 0 && memchr(in.data, 0, in.len))
        return err_set(err, ERR_INVALID, "a name contains a NUL");
    if (!text_is_utf8(in))
        return err_set(err, ERR_INVALID, "a name is not valid UTF-8");
    if (name_check(in, err) < 0)
        return -1;
    *ret_name = arena_strndup(arena, in.data, in.len);
    return 0;
}

/* The next segment that is not empty; false at the end. */
static bool
next_segment(struct slice *rest, struct slice *ret_segment)
{
    const char *slash;

    while (rest->len > 0 && rest->data[0] == '/') {
        rest->data++;
        rest->len--;
    }
    if (rest->len == 0)
        return false;
    slash = memchr(rest->data, '/', rest->len);
    ret_segment->data = rest->data;
    ret_segment->len = slash ? (size_t)(slash - rest->data) : rest->len;
    rest->data += ret_segment->len;
    rest->len -= ret_segment->len;
    return true;
}

static int
parse_segment(struct slice raw, struct arena *arena, char **ret_name, struct err *err)
{
    struct slice decoded;

    if (raw.len / 3 > PATH_NAME_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a name is longer than %d bytes", PATH_NAME_MAX_BYTES);
    if (!text_percent_decode(raw, arena, &decoded))
        return err_set(err, ERR_INVALID, "a percent sign is not followed by two hex digits");
    return path_name(decoded, arena, ret_name, err);
}

int
path_parse(struct slice raw, struct arena *arena, struct path *ret_path, struct err *err)
{
    struct path path = {.trailing_slash = raw.len > 0 && raw.data[raw.len - 1] == '/'};
    struct slice rest = raw;
    struct slice segment;
    size_t depth = 0;

    while (next_segment(&rest, &segment))
        depth++;
    if (depth > PATH_MAX_DEPTH)
        return err_set(err, ERR_TOO_LARGE, "the path is %zu names deep, at most %d are possible",
                       depth, PATH_MAX_DEPTH);
    path.names = arena_alloc(arena, (depth + 1) * sizeof(*path.names));
    rest = raw;
    while (next_segment(&rest, &segment)) {
        if (parse_segment(segment, arena, &path.names[path.depth], err) < 0)
            return -1;
        path.depth++;
    }
    path.names[path.depth] = NULL;
    *ret_path = path;
    return 0;
}

void
path_href(struct buf *out, const struct path *path, bool collection)
{
    for (size_t i = 0; i < path->depth; i++) {
        buf_addc(out, '/');
        text_percent_encode(out, slice_of(path->names[i]));
    }
    if (collection || path->depth == 0)
        buf_addc(out, '/');
}

bool
path_is_within(const struct path *inner, const struct path *outer)
{
    if (inner->depth < outer->depth)
        return false;
    for (size_t i = 0; i < outer->depth; i++) {
        if (strcmp(inner->names[i], outer->names[i]) != 0)
            return false;
    }
    return true;
}

const char *
path_last(const struct path *path)
{
    return path->depth > 0 ? path->names[path->depth - 1] : NULL;
}
