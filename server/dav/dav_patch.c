/*
 * PROPPATCH, RFC 4918 section 9.2: all instructions in the order they stand, or none of them. When
 * one of them cannot be, the answer names it with its own status and the others with 424.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_ask.h"
#include "dav/dav_guard.h"
#include "dav/dav_props.h"
#include "dav/dav_xml.h"

enum {
    VALUES_MAX_BYTES = 1 << 20, /* of all properties of a request */
    CHANGES_MAX = 1000,
    LANG_MAX = 100,
    ANSWER_MAX_BYTES = 4 << 20,
};

struct patch {
    struct request *request;
    struct dav_xml const *root;
    struct prop *asked; /* every instruction, for the answer */
    int *statuses;      /* of each: 0, or why it cannot be */
    struct prop *props; /* those that are stored */
    size_t asked_count;
    size_t prop_count;
    size_t value_bytes;
    int64_t mtime_us;
    bool refused;
};

static int
add_value(struct patch *patch, const struct dav_xml *element, struct prop *prop, struct err *err)
{
    AUTO_BUF struct buf value = {.max = VALUES_MAX_BYTES - patch->value_bytes};

    dav_xml_inner(&value, element);
    if (buf_check(&value, err) < 0)
        return err_wrap(err, "property %.100s", element->name);
    patch->value_bytes += value.len;
    prop->value = arena_strndup(&patch->request->arena, value.len > 0 ? value.data : "", value.len);
    return 0;
}

/* The status of an instruction that can be is 0. */
static int
judge(struct patch *patch, const struct dav_xml *element, bool set, bool *ret_stored)
{
    const struct dav_mtime_prop *mtime_prop = dav_mtime_prop_find(element->ns, element->name);

    *ret_stored = true;
    if (mtime_prop && set) {
        struct slice value = slice_trim(dav_xml_text(element));

        *ret_stored = mtime_prop->stored;
        if (mtime_prop->parse(value, &patch->mtime_us) || !mtime_prop->strict)
            return 0;
        return 409; /* RFC 4918 section 9.2.1: a value that makes no sense for the property */
    }
    return dav_prop_is_protected(element->ns, element->name) ? 403 : 0;
}

static int
add_change(struct patch *patch, const struct dav_xml *element, bool set, struct err *err)
{
    struct prop prop = {.ns = (char *)element->ns,
                        .name = (char *)element->name,
                        .lang = (char *)element->lang}; /* borrowed: nobody writes to them */
    bool stored;
    int status;

    if (patch->asked_count == CHANGES_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d properties", CHANGES_MAX);
    if (strlen(element->lang) > LANG_MAX)
        return err_set(err, ERR_INVALID, "xml:lang is no language");
    status = judge(patch, element, set, &stored);
    if (set && stored && add_value(patch, element, &prop, err) < 0)
        return -1;
    patch->refused = patch->refused || status != 0;
    patch->statuses[patch->asked_count] = status;
    patch->asked[patch->asked_count++] = prop;
    if (stored)
        patch->props[patch->prop_count++] = prop;
    return 0;
}

/* Each set or remove holds one prop, which holds the properties. */
static int
add_instruction(struct patch *patch, const struct dav_xml *instruction, struct err *err)
{
    bool set = dav_xml_is(instruction, "set");
    const struct dav_xml *list = dav_xml_child(instruction, "prop");

    if (!set && !dav_xml_is(instruction, "remove"))
        return 0; /* section 17: what is not known is passed over */
    if (!list)
        return err_set(err, ERR_INVALID, "a set or remove without DAV:prop");
    for (const struct dav_xml *e = dav_xml_first(list); e; e = dav_xml_after(e)) {
        if (add_change(patch, e, set, err) < 0)
            return -1;
    }
    return 0;
}

static int
read_patch(struct patch *patch, struct err *err)
{
    struct arena *arena = &patch->request->arena;

    if (dav_xml_parse(buf_slice(&patch->request->body), arena, &patch->root, err) < 0)
        return -1;
    if (!dav_xml_is(patch->root, "propertyupdate"))
        return err_set(err, ERR_INVALID, "the body is no DAV:propertyupdate");
    patch->asked = arena_zalloc(arena, CHANGES_MAX * sizeof(*patch->asked));
    patch->props = arena_zalloc(arena, CHANGES_MAX * sizeof(*patch->props));
    patch->statuses = arena_zalloc(arena, CHANGES_MAX * sizeof(*patch->statuses));
    for (const struct dav_xml *e = dav_xml_first(patch->root); e; e = dav_xml_after(e)) {
        if (add_instruction(patch, e, err) < 0)
            return -1;
    }
    if (patch->asked_count == 0)
        return err_set(err, ERR_INVALID, "no property is set or removed");
    return 0;
}

/* Those that could have been have failed for the others' sake. */
static int
answer_status(const struct patch *patch, size_t i)
{
    if (!patch->refused)
        return 200;
    return patch->statuses[i] != 0 ? patch->statuses[i] : 424;
}

/* A property that several instructions name is told once. */
static bool
is_told(const struct patch *patch, size_t at, int status)
{
    for (size_t i = 0; i < at; i++) {
        if (answer_status(patch, i) == status &&
            strcmp(patch->asked[i].name, patch->asked[at].name) == 0 &&
            strcmp(patch->asked[i].ns, patch->asked[at].ns) == 0)
            return true;
    }
    return false;
}

static void
write_propstat(struct buf *out, const struct patch *patch, int status)
{
    bool any = false;

    for (size_t i = 0; i < patch->asked_count; i++) {
        if (answer_status(patch, i) != status || is_told(patch, i, status))
            continue;
        if (!any)
            buf_adds(out, "<D:propstat><D:prop>");
        any = true;
        dav_xml_empty(out, patch->asked[i].ns, patch->asked[i].name);
    }
    if (!any)
        return;
    buf_adds(out, "</D:prop>");
    dav_xml_status(out, status);
    if (status == 403)
        buf_adds(out, "<D:error><D:cannot-modify-protected-property/></D:error>");
    buf_adds(out, "</D:propstat>");
}

static int
answer(const struct patch *patch, const struct node *node, struct err *err)
{
    static const int STATUSES[] = {200, 403, 409, 424};
    struct request *request = patch->request;
    AUTO_BUF struct buf out = {.max = ANSWER_MAX_BYTES};

    buf_adds(&out, DAV_XML_HEAD "<D:multistatus xmlns:D=\"DAV:\">\n<D:response><D:href>");
    dav_href(&out, request, &request->path, node->kind == NODE_FOLDER);
    buf_adds(&out, "</D:href>");
    for (size_t i = 0; i < sizeof(STATUSES) / sizeof(*STATUSES); i++)
        write_propstat(&out, patch, STATUSES[i]);
    buf_adds(&out, "</D:response>\n</D:multistatus>\n");
    if (buf_check(&out, err) < 0)
        return -1;
    reply_bytes(request, 207, DAV_XML_TYPE, &out);
    return 0;
}

static int
patch_finish(struct request *request, struct err *err)
{
    struct patch patch = {.request = request, .mtime_us = -1};
    struct dav_guard *conditions;
    struct files_guard guard;
    struct node node;

    if (read_patch(&patch, err) < 0 || dav_stat(request, &node, err) < 0 ||
        dav_guard_new(request, NULL, true, &conditions, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (patch.refused ? files_may_patch(dav_of(request)->files, &request->principal, &request->path,
                                        &guard, err) < 0
                      : files_patch(dav_of(request)->files, &request->principal, &request->path,
                                    patch.props, patch.prop_count, patch.mtime_us, &guard, err) < 0)
        return dav_guard_refuse(conditions, err);
    if (dav_ask_is_minimal(request) && !patch.refused)
        reply_status(request, 200); /* RFC 8144 section 2.2: nothing went otherwise than asked */
    else if (answer(&patch, &node, err) < 0)
        return -1;
    dav_ask_applied(request);
    return 0;
}

const struct handler dav_patch_handler = {.finish = patch_finish};
