#include "dav/dav_ask.h"

#include <string.h>

#include "base/text.h"

static bool
is_asked(const struct dav_ask *ask, const struct dav_xml *element)
{
    for (size_t i = 0; i < ask->count; i++) {
        if (strcmp(ask->names[i].name, element->name) == 0 &&
            strcmp(ask->names[i].ns, element->ns) == 0)
            return true;
    }
    return false;
}

static int
add_names(struct dav_ask *ask, const struct dav_xml *list, struct arena *arena, struct err *err)
{
    ask->names = arena_alloc(arena, DAV_ASK_NAMES_MAX * sizeof(*ask->names));
    for (const struct dav_xml *e = dav_xml_first(list); e; e = dav_xml_after(e)) {
        const struct dav_live *live = dav_live_find(e->ns, e->name);

        if (is_asked(ask, e))
            continue;
        if (ask->count == DAV_ASK_NAMES_MAX)
            return err_set(err, ERR_TOO_LARGE, "more than %d properties asked for",
                           DAV_ASK_NAMES_MAX);
        ask->names[ask->count++] = (struct dav_ask_name){e->ns, e->name, live};
        ask->wants_dead = ask->wants_dead || !live;
        ask->wants_usage = ask->wants_usage || (live && live->wants_usage);
        ask->wants_locks = ask->wants_locks || (live && live->wants_locks);
    }
    return 0;
}

int
dav_ask_list(const struct dav_xml *list, struct arena *arena, struct dav_ask *ret_ask,
             struct err *err)
{
    *ret_ask = (struct dav_ask){.kind = DAV_ASK_PROP};
    return add_names(ret_ask, list, arena, err);
}

int
dav_ask_body(struct slice body, struct arena *arena, struct dav_ask *ret_ask, struct err *err)
{
    const struct dav_xml *root;
    const struct dav_xml *list;

    *ret_ask = (struct dav_ask){.kind = DAV_ASK_ALLPROP, .wants_dead = true, .wants_locks = true};
    if (body.len == 0)
        return 0;
    if (dav_xml_parse(body, arena, &root, err) < 0)
        return -1;
    if (!dav_xml_is(root, "propfind"))
        return err_set(err, ERR_INVALID, "the body is no DAV:propfind");
    if ((list = dav_xml_child(root, "prop")))
        return dav_ask_list(list, arena, ret_ask, err);
    if (dav_xml_child(root, "propname")) {
        ret_ask->kind = DAV_ASK_PROPNAME;
        ret_ask->wants_usage = true;
        return 0;
    }
    if (!dav_xml_child(root, "allprop"))
        return err_set(err, ERR_INVALID, "neither prop, propname nor allprop is asked for");
    list = dav_xml_child(root, "include");
    return list ? add_names(ret_ask, list, arena, err) : 0;
}

/* ---- how tersely ---- */

/* The part before a sign, or all of it; *rest is what stands behind the sign. */
static struct slice
cut(struct slice *rest, char at)
{
    const char *found = rest->len > 0 ? memchr(rest->data, at, rest->len) : NULL;
    struct slice head = {rest->data, found ? (size_t)(found - rest->data) : rest->len};
    size_t used = head.len + (found ? 1 : 0);

    rest->data += used;
    rest->len -= used;
    return slice_trim(head);
}

static bool
is_return_minimal(struct slice preference)
{
    struct slice pair = cut(&preference, ';'); /* parameters mean nothing here */
    struct slice name = cut(&pair, '=');
    struct slice value = slice_trim(pair);

    if (value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"')
        value = (struct slice){value.data + 1, value.len - 2};
    return text_eq_nocase(name, SLICE("return")) && text_eq_nocase(value, SLICE("minimal"));
}

static bool
prefers_minimal(const struct request *request)
{
    struct slice rest = slice_of(request_header(request, "Prefer"));

    while (rest.len > 0) {
        if (is_return_minimal(cut(&rest, ',')))
            return true;
    }
    return false;
}

bool
dav_ask_is_minimal(const struct request *request)
{
    struct slice brief = slice_trim(slice_of(request_header(request, "Brief")));

    return text_eq_nocase(brief, SLICE("t")) || prefers_minimal(request);
}

void
dav_ask_applied(struct request *request)
{
    if (prefers_minimal(request))
        reply_header(request, "Preference-Applied", "return=minimal");
}
