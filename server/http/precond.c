#include "http/precond.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

/*
 * Cuts the next element off a list of entity tags. Commas may stand inside the quotes, so the list
 * is walked tag by tag; what is no tag runs to the next comma.
 */
static struct slice
next_tag(struct slice *list)
{
    size_t at = 0, end;

    while (at < list->len &&
           (list->data[at] == ',' || list->data[at] == ' ' || list->data[at] == '\t'))
        at++;

    size_t start = at;

    if (list->len - at >= 2 && list->data[at] == 'W' && list->data[at + 1] == '/')
        at += 2;
    if (at < list->len && list->data[at] == '"') {
        const char *quote = memchr(list->data + at + 1, '"', list->len - at - 1);

        end = quote ? (size_t)(quote - list->data) + 1 : list->len;
    } else {
        const char *comma = memchr(list->data + at, ',', list->len - at);

        end = comma ? (size_t)(comma - list->data) : list->len;
    }

    struct slice tag = slice_trim((struct slice){list->data + start, end - start});

    *list = (struct slice){list->data + end, list->len - end};
    return tag;
}

static bool
tag_matches(struct slice tag, struct slice etag, bool weak)
{
    if (slice_starts(tag, "W/")) {
        if (!weak)
            return false;
        tag = (struct slice){tag.data + 2, tag.len - 2};
    }
    return slice_eq(tag, etag);
}

bool
precond_list_has(struct slice list, struct slice etag, bool weak)
{
    while (list.len > 0) {
        struct slice tag = next_tag(&list);

        if (tag.len > 0 && tag_matches(tag, etag, weak))
            return true;
    }
    return false;
}

static bool
tag_condition(const char *header, const struct precond_subject *subject, bool weak)
{
    struct slice list = slice_trim(slice_of(header));

    if (slice_is(list, "*"))
        return subject->exists;
    return subject->exists && subject->etag &&
           precond_list_has(list, slice_of(subject->etag), weak);
}

/* Whole seconds: that is all a date can say. -1 when the header is absent or no date. */
static int64_t
date_header(const struct request *request, const char *name)
{
    const char *header = request_header(request, name);
    int64_t at_us;

    if (!header || !clock_parse_http_date(slice_trim(slice_of(header)), &at_us))
        return -1;
    return at_us / 1000000;
}

enum precond_result
precond_check(const struct request *request, const struct precond_subject *subject, bool reading)
{
    const char *match = request_header(request, "If-Match");
    const char *none = request_header(request, "If-None-Match");
    int64_t mtime_secs = subject->mtime_us / 1000000;
    int64_t date;

    if (match) {
        if (!tag_condition(match, subject, false))
            return PRECOND_FAILED;
    } else if ((date = date_header(request, "If-Unmodified-Since")) >= 0) {
        if (subject->exists && mtime_secs > date)
            return PRECOND_FAILED;
    }

    if (none) {
        if (tag_condition(none, subject, true))
            return reading ? PRECOND_NOT_MODIFIED : PRECOND_FAILED;
    } else if (reading && (date = date_header(request, "If-Modified-Since")) >= 0) {
        if (subject->exists && mtime_secs <= date)
            return PRECOND_NOT_MODIFIED;
    }
    return PRECOND_GO;
}

bool
precond_range_holds(const struct request *request, const struct precond_subject *subject)
{
    const char *header = request_header(request, "If-Range");
    int64_t at_us;

    if (!header)
        return true;

    struct slice value = slice_trim(slice_of(header));

    if (clock_parse_http_date(value, &at_us))
        return at_us / 1000000 == subject->mtime_us / 1000000;
    return subject->etag && slice_eq(value, slice_of(subject->etag));
}
