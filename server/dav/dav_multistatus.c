#include "dav/dav_multistatus.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_xml.h"
#include "service/locks.h"

enum { HREF_MAX = 1 << 20 };

/* ---- one property ---- */

/* The dead properties of a node: a run in props. */
static size_t
find_props(const struct dav_multistatus *multi, int64_t node_id, const struct prop **ret_props)
{
    size_t low = 0;
    size_t high = multi->prop_count;
    size_t count = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (multi->props[mid].node_id < node_id)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_props = multi->props + low;
    while (low + count < multi->prop_count && multi->props[low + count].node_id == node_id)
        count++;
    return count;
}

static const struct prop *
find_prop(const struct prop *props, size_t count, const struct dav_ask_name *asked)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(props[i].name, asked->name) == 0 && strcmp(props[i].ns, asked->ns) == 0)
            return &props[i];
    }
    return NULL;
}

/* What has nothing inside is one tag: most of it stands in every response of a long answer. */
static void
write_live(struct buf *out, const struct dav_live *live, const struct dav_subject *subject)
{
    size_t inside;

    dav_xml_start(out, DAV_NS, live->name, "");
    inside = out->len;
    live->write(out, subject);
    if (out->len > inside || out->over) {
        dav_xml_end(out, DAV_NS, live->name);
    } else {
        out->len--;
        buf_adds(out, "/>");
    }
}

static void
write_dead(struct buf *out, const struct prop *prop)
{
    dav_xml_start(out, prop->ns, prop->name, prop->lang ? prop->lang : "");
    buf_adds(out, prop->value);
    dav_xml_end(out, prop->ns, prop->name);
}

static bool
is_there(const struct dav_ask_name *asked, const struct dav_subject *subject,
         const struct prop *props, size_t prop_count)
{
    return asked->live ? asked->live->exists(subject) : find_prop(props, prop_count, asked) != NULL;
}

static void
write_asked(struct buf *out, const struct dav_ask_name *asked, const struct dav_subject *subject,
            const struct prop *props, size_t prop_count)
{
    if (asked->live)
        write_live(out, asked->live, subject);
    else
        write_dead(out, find_prop(props, prop_count, asked));
}

/* The locks that cover a node: a run in locks. */
static void
find_locks(struct dav_multistatus *multi, int64_t node_id)
{
    size_t low = 0;
    size_t high = multi->lock_count;
    size_t end;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (multi->locks[mid].subject_id < node_id)
            low = mid + 1;
        else
            high = mid;
    }
    for (end = low; end < multi->lock_count && multi->locks[end].subject_id == node_id;)
        end++;
    multi->subject.locks = multi->locks + low;
    multi->subject.lock_count = end - low;
}

/* ---- the properties of one node ---- */

static void
write_all(struct buf *out, const struct dav_subject *subject, const struct prop *props,
          size_t prop_count, bool names_only)
{
    size_t count;
    const struct dav_live *live = dav_live_all(&count);

    for (size_t i = 0; i < count; i++) {
        if (!live[i].exists(subject))
            continue;
        if (names_only)
            dav_xml_empty(out, DAV_NS, live[i].name);
        else if (!live[i].on_request)
            write_live(out, &live[i], subject);
    }
    for (size_t i = 0; i < prop_count; i++) {
        if (names_only)
            dav_xml_empty(out, props[i].ns, props[i].name);
        else
            write_dead(out, &props[i]);
    }
}

/* What allprop tells anyway is not told again for its include. */
static bool
is_told(const struct dav_ask *ask, const struct dav_ask_name *asked)
{
    return ask->kind == DAV_ASK_ALLPROP && (!asked->live || !asked->live->on_request);
}

static void
write_missing(struct buf *out, const struct dav_ask *ask, const bool *found)
{
    buf_adds(out, "<D:propstat><D:prop>");
    for (size_t i = 0; i < ask->count; i++) {
        if (!found[i])
            dav_xml_empty(out, ask->names[i].ns, ask->names[i].name);
    }
    buf_adds(out, "</D:prop>");
    dav_xml_status(out, 404);
    buf_adds(out, "</D:propstat>");
}

/* A response has one propstat at least: RFC 8144 section 2.1 wants an empty one rather. */
static void
write_propstats(struct buf *out, const struct dav_multistatus *multi)
{
    const struct dav_ask *ask = &multi->ask;
    const struct prop *props;
    size_t prop_count = find_props(multi, multi->subject.node->id, &props);
    bool found[DAV_ASK_NAMES_MAX];
    size_t missing = 0;
    bool tells_missing;

    for (size_t i = 0; i < ask->count; i++) {
        found[i] = is_there(&ask->names[i], &multi->subject, props, prop_count);
        missing += !found[i];
    }
    tells_missing = missing > 0 && !ask->is_minimal;
    if (!tells_missing || missing < ask->count || ask->kind != DAV_ASK_PROP) {
        buf_adds(out, "<D:propstat><D:prop>");
        if (ask->kind != DAV_ASK_PROP)
            write_all(out, &multi->subject, props, prop_count, ask->kind == DAV_ASK_PROPNAME);
        for (size_t i = 0; i < ask->count; i++) {
            if (found[i] && !is_told(ask, &ask->names[i]))
                write_asked(out, &ask->names[i], &multi->subject, props, prop_count);
        }
        buf_adds(out, "</D:prop>");
        dav_xml_status(out, 200);
        buf_adds(out, "</D:propstat>");
    }
    if (tells_missing)
        write_missing(out, ask, found);
}

/* ---- responses ---- */

/* Percent-encoded, so that nothing is left to escape for XML. */
static void
write_href(struct buf *out, const struct dav_multistatus *multi, struct slice folder,
           const char *name, bool is_folder)
{
    buf_adds(out, "<D:href>");
    buf_add_slice(out, buf_slice(&multi->root_href));
    text_percent_encode_path(out, folder);
    if (name) {
        text_percent_encode(out, slice_of(name));
        if (is_folder)
            buf_addc(out, '/');
    }
    buf_adds(out, "</D:href>");
}

static void
write_response(struct dav_multistatus *multi, struct buf *out, struct slice folder,
               const struct node *node, const char *name)
{
    multi->subject.node = node;
    find_locks(multi, node->id);
    buf_adds(out, "<D:response>");
    write_href(out, multi, folder, name, node->kind == NODE_FOLDER);
    write_propstats(out, multi);
    buf_adds(out, "</D:response>\n");
}

void
dav_multistatus_root(struct dav_multistatus *multi, struct buf *out, const struct node *node)
{
    write_response(multi, out, (struct slice){0}, node, NULL);
}

void
dav_multistatus_member(struct dav_multistatus *multi, struct buf *out, struct slice folder,
                       const struct node *node)
{
    write_response(multi, out, folder, node, node->name);
}

void
dav_multistatus_removal(struct dav_multistatus *multi, struct buf *out, struct slice folder,
                        const struct removal *removal)
{
    buf_adds(out, "<D:response>");
    write_href(out, multi, folder, removal->name, removal->kind == NODE_FOLDER);
    dav_xml_status(out, 404);
    buf_adds(out, "</D:response>\n");
}

/* ---- what they are made from ---- */

static const char *
last_segment(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');

    return slash ? slash + 1 : prefix;
}

void
dav_multistatus_init(struct dav_multistatus *multi, struct request *request)
{
    *multi = (struct dav_multistatus){.files = dav_of(request)->files};
    arena_init(&multi->arena);
    arena_init(&multi->props_arena);
    buf_init(&multi->root_href, HREF_MAX);
    multi->subject.root_name = arena_strdup(&multi->arena, last_segment(request->route->prefix));
    multi->subject.prefix = arena_strdup(&multi->arena, dav_prefix(request));
    multi->subject.quota_bytes = -1;
}

void
dav_multistatus_release(struct dav_multistatus *multi)
{
    buf_release(&multi->root_href);
    arena_release(&multi->props_arena);
    arena_release(&multi->arena);
}

int
dav_multistatus_begin(struct dav_multistatus *multi, struct request *request,
                      const struct node *root, struct err *err)
{
    multi->ask.is_minimal = dav_ask_is_minimal(request);
    multi->space_locked = root->space_locked;
    dav_href(&multi->root_href, request, &request->path, root->kind == NODE_FOLDER);
    if (!multi->ask.wants_usage)
        return 0;
    return files_usage(multi->files, &request->principal, &multi->subject.used_bytes,
                       &multi->subject.quota_bytes, err);
}

static int
load_locks(struct dav_multistatus *multi, const int64_t *ids, size_t count, struct err *err)
{
    if (!multi->ask.wants_locks || !multi->space_locked)
        return 0;
    return locks_of(multi->files, ids, count, &multi->props_arena, &multi->locks,
                    &multi->lock_count, err);
}

int
dav_multistatus_load(struct dav_multistatus *multi, const struct node *nodes, size_t count,
                     struct err *err)
{
    AUTO_FREE int64_t *ids = NULL;

    arena_release(&multi->props_arena);
    arena_init(&multi->props_arena);
    multi->props = NULL;
    multi->locks = NULL;
    multi->prop_count = multi->lock_count = 0;
    if (count == 0)
        return 0;
    ids = mem_array(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = nodes[i].id;
    if (load_locks(multi, ids, count, err) < 0)
        return -1;
    if (!multi->ask.wants_dead)
        return 0;
    return files_props(multi->files, ids, count, &multi->props_arena, &multi->props,
                       &multi->prop_count, err);
}
