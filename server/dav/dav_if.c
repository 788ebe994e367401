/*
 *   If           = 1*( List ) / 1*( Resource-Tag 1*List )
 *   List         = "(" 1*( ["Not"] ( "<" absolute-URI ">" / "[" entity-tag "]" ) ) ")"
 *   Resource-Tag = "<" ( absolute-URI / path-absolute ) ">"
 *
 * Blanks may stand between any two parts.
 */
#include "dav/dav_if.h"

#include <string.h>

#include "base/text.h"

struct reader {
    struct slice rest;
    struct arena *arena;
    struct err *err;
    struct dav_if_condition *conditions; /* of all lists, one after the other */
    size_t condition_count;
};

static void
skip(struct reader *reader, size_t len)
{
    reader->rest.data += len;
    reader->rest.len -= len;
}

static char
peek(struct reader *reader)
{
    while (reader->rest.len > 0 && (reader->rest.data[0] == ' ' || reader->rest.data[0] == '\t'))
        skip(reader, 1);
    return reader->rest.len > 0 ? reader->rest.data[0] : 0;
}

static int
broken(struct reader *reader, const char *what)
{
    return err_set(reader->err, ERR_INVALID, "if header: %s", what);
}

/* "<...>" without blanks inside. */
static int
read_bracketed(struct reader *reader, struct slice *ret_inside)
{
    size_t len = 1;

    while (len < reader->rest.len && reader->rest.data[len] != '>') {
        if ((unsigned char)reader->rest.data[len] <= ' ' || reader->rest.data[len] == '<')
            return broken(reader, "a blank or \"<\" inside \"<...>\"");
        len++;
    }
    if (len >= reader->rest.len)
        return broken(reader, "\"<\" without \">\"");
    if (len == 1)
        return broken(reader, "\"<>\" is empty");
    *ret_inside = (struct slice){reader->rest.data + 1, len - 1};
    skip(reader, len + 1);
    return 0;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "scheme:": RFC 3986 section 3.1. */
static bool
has_scheme(struct slice uri)
{
    size_t len = 0;

    if (uri.len == 0 || !is_letter(uri.data[0]))
        return false;
    while (len < uri.len &&
           (is_letter(uri.data[len]) || (len > 0 && strchr("0123456789+-.", uri.data[len]))))
        len++;
    return len < uri.len && uri.data[len] == ':';
}

static int
read_token(struct reader *reader, struct dav_if_condition *condition)
{
    condition->kind = DAV_IF_TOKEN;
    if (read_bracketed(reader, &condition->value) < 0)
        return -1;
    return has_scheme(condition->value) ? 0 : broken(reader, "a state token is no URI");
}

/* "[" entity-tag "]"; the quotes delimit, so brackets may stand between them. */
static int
read_etag(struct reader *reader, struct dav_if_condition *condition)
{
    const char *start;
    const char *quote;

    condition->kind = DAV_IF_ETAG;
    skip(reader, 1);
    (void)peek(reader); /* passes over blanks */
    start = reader->rest.data;
    if (slice_starts(reader->rest, "W/"))
        skip(reader, 2);
    if (!slice_starts(reader->rest, "\""))
        return broken(reader, "an entity tag has no quotes");
    skip(reader, 1);
    quote = reader->rest.len > 0 ? memchr(reader->rest.data, '"', reader->rest.len) : NULL;
    if (!quote)
        return broken(reader, "an entity tag has no end");
    condition->value = (struct slice){start, (size_t)(quote + 1 - start)};
    skip(reader, (size_t)(quote + 1 - reader->rest.data));
    if (peek(reader) != ']')
        return broken(reader, "\"[\" without \"]\"");
    skip(reader, 1);
    return 0;
}

static int
read_condition(struct reader *reader)
{
    struct dav_if_condition *condition = &reader->conditions[reader->condition_count];

    if (reader->condition_count++ == DAV_IF_CONDITIONS_MAX)
        return err_set(reader->err, ERR_TOO_LARGE, "if header: more than %d conditions",
                       DAV_IF_CONDITIONS_MAX);
    if (reader->rest.len >= 3 &&
        text_eq_nocase((struct slice){reader->rest.data, 3}, SLICE("Not"))) {
        condition->negated = true;
        skip(reader, 3);
    }
    switch (peek(reader)) {
    case '<': return read_token(reader, condition);
    case '[': return read_etag(reader, condition);
    default: return broken(reader, "neither \"<token>\" nor \"[etag]\" in a list");
    }
}

static int
read_list(struct reader *reader, struct dav_if_list *list)
{
    size_t first = reader->condition_count;

    skip(reader, 1);
    while (peek(reader) != ')') {
        if (reader->rest.len == 0)
            return broken(reader, "a list has no end");
        if (read_condition(reader) < 0)
            return -1;
    }
    skip(reader, 1);
    list->conditions = reader->conditions + first;
    list->count = reader->condition_count - first;
    return list->count > 0 ? 0 : broken(reader, "a list is empty");
}

/* Bounds of what there can be: entity tags may hold brackets, so there may be less. */
static size_t
count_of(struct slice header, const char *openings)
{
    size_t count = 0;

    for (size_t i = 0; i < header.len; i++)
        count += header.data[i] && strchr(openings, header.data[i]);
    return count;
}

int
dav_if_parse(struct slice header, struct arena *arena, struct dav_if *ret_if, struct err *err)
{
    struct reader reader = {.rest = header, .arena = arena, .err = err};
    size_t list_cap = count_of(header, "(") + 1;
    size_t condition_cap = count_of(header, "<[") + 1;
    struct dav_if parsed = {.lists = arena_zalloc(arena, list_cap * sizeof(*parsed.lists))};
    struct slice tag = {0};
    bool tag_unused = false;
    char c;

    reader.conditions = arena_zalloc(arena, condition_cap * sizeof(*reader.conditions));
    while ((c = peek(&reader)) != 0) {
        if (c == '<') {
            if (tag_unused || (parsed.count > 0 && !tag.data))
                return broken(&reader, "a resource out of place");
            if (read_bracketed(&reader, &tag) < 0)
                return -1;
            tag_unused = true;
        } else if (c == '(') {
            struct dav_if_list *list = &parsed.lists[parsed.count++];

            list->tagged = tag.data != NULL;
            list->tag = tag;
            if (read_list(&reader, list) < 0)
                return -1;
            tag_unused = false;
        } else {
            return broken(&reader, "neither \"(\" nor \"<\"");
        }
    }
    if (parsed.count == 0 || tag_unused)
        return broken(&reader, "no list");
    *ret_if = parsed;
    return 0;
}

bool
dav_if_holds(const struct dav_if *header, dav_if_ask ask, void *ctx)
{
    for (size_t i = 0; i < header->count; i++) {
        const struct dav_if_list *list = &header->lists[i];
        size_t held = 0;

        while (held < list->count) {
            const struct dav_if_condition *condition = &list->conditions[held];

            if (ask(ctx, list, condition) == condition->negated)
                break;
            held++;
        }
        if (held == list->count)
            return true;
    }
    return false;
}
