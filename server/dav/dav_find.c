/*
 * PROPFIND, RFC 4918 section 9.1. The answer is made page by page while the client takes it: a
 * folder of any size costs one page of children and, when dead properties are wanted, theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_props.h"
#include "dav/dav_xml.h"

enum {
    NAMES_MAX = 500,             /* asked for in one request */
    PAGE_SOFT_BYTES = 256 << 10, /* a page ends with the response that passes this */
    HREF_MAX = 1 << 20,
};

enum ask_kind { ASK_ALLPROP, ASK_PROPNAME, ASK_PROP };

struct ask_name {
    const char *ns;
    const char *name;
    const struct dav_live *live; /* or NULL */
};

struct ask {
    enum ask_kind kind;
    struct ask_name *names; /* for allprop: those of include */
    size_t count;
    bool wants_dead;
    bool wants_usage;
};

/* Lives as long as the answer, which may be longer than the request: holds all it needs. */
struct find_pager {
    struct reply_pager base;
    struct files *files;
    struct arena arena;
    struct ask ask;
    struct dav_subject subject; /* the node in it changes from response to response */
    struct node self;
    struct buf self_href;
    bool started;
    bool children;
    struct dav_walk walk;
    struct arena props_arena; /* dead properties of the nodes at hand, ordered by node */
    struct prop *props;
    size_t prop_count;
};

/* ---- what is asked ---- */

static bool
is_asked(const struct ask *ask, const struct dav_xml *element)
{
    for (size_t i = 0; i < ask->count; i++) {
        if (strcmp(ask->names[i].name, element->name) == 0 &&
            strcmp(ask->names[i].ns, element->ns) == 0)
            return true;
    }
    return false;
}

static int
add_names(struct ask *ask, const struct dav_xml *list, struct arena *arena, struct err *err)
{
    ask->names = arena_alloc(arena, NAMES_MAX * sizeof(*ask->names));
    for (const struct dav_xml *e = dav_xml_first(list); e; e = dav_xml_after(e)) {
        const struct dav_live *live = dav_live_find(e->ns, e->name);

        if (is_asked(ask, e))
            continue;
        if (ask->count == NAMES_MAX)
            return err_set(err, ERR_TOO_LARGE, "more than %d properties asked for", NAMES_MAX);
        ask->names[ask->count++] = (struct ask_name){e->ns, e->name, live};
        ask->wants_dead = ask->wants_dead || !live;
        ask->wants_usage = ask->wants_usage || (live && live->wants_usage);
    }
    return 0;
}

static int
read_ask(struct slice body, struct arena *arena, struct ask *ask, struct err *err)
{
    const struct dav_xml *root;
    const struct dav_xml *list;

    *ask = (struct ask){.kind = ASK_ALLPROP, .wants_dead = true};
    if (body.len == 0)
        return 0;
    if (dav_xml_parse(body, arena, &root, err) < 0)
        return -1;
    if (!dav_xml_is(root, "propfind"))
        return err_set(err, ERR_INVALID, "the body is no DAV:propfind");
    if ((list = dav_xml_child(root, "prop"))) {
        ask->kind = ASK_PROP;
        ask->wants_dead = false;
        return add_names(ask, list, arena, err);
    }
    if (dav_xml_child(root, "propname")) {
        ask->kind = ASK_PROPNAME;
        ask->wants_usage = true;
        return 0;
    }
    if (!dav_xml_child(root, "allprop"))
        return err_set(err, ERR_INVALID, "neither prop, propname nor allprop is asked for");
    list = dav_xml_child(root, "include");
    return list ? add_names(ask, list, arena, err) : 0;
}

/* ---- one response ---- */

/* The dead properties of a node: a run in props. */
static size_t
find_props(const struct find_pager *pager, int64_t node_id, const struct prop **ret_props)
{
    size_t low = 0;
    size_t high = pager->prop_count;
    size_t count = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (pager->props[mid].node_id < node_id)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_props = pager->props + low;
    while (low + count < pager->prop_count && pager->props[low + count].node_id == node_id)
        count++;
    return count;
}

static const struct prop *
find_prop(const struct prop *props, size_t count, const struct ask_name *asked)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(props[i].name, asked->name) == 0 && strcmp(props[i].ns, asked->ns) == 0)
            return &props[i];
    }
    return NULL;
}

static void
write_live(struct buf *out, const struct dav_live *live, const struct dav_subject *subject)
{
    dav_xml_start(out, DAV_NS, live->name, "");
    live->write(out, subject);
    dav_xml_end(out, DAV_NS, live->name);
}

static void
write_dead(struct buf *out, const struct prop *prop)
{
    dav_xml_start(out, prop->ns, prop->name, prop->lang ? prop->lang : "");
    buf_adds(out, prop->value);
    dav_xml_end(out, prop->ns, prop->name);
}

static bool
is_there(const struct ask_name *asked, const struct dav_subject *subject, const struct prop *props,
         size_t prop_count)
{
    return asked->live ? asked->live->exists(subject) : find_prop(props, prop_count, asked) != NULL;
}

static void
write_asked(struct buf *out, const struct ask_name *asked, const struct dav_subject *subject,
            const struct prop *props, size_t prop_count)
{
    if (asked->live)
        write_live(out, asked->live, subject);
    else
        write_dead(out, find_prop(props, prop_count, asked));
}

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
is_told(const struct ask *ask, const struct ask_name *asked)
{
    return ask->kind == ASK_ALLPROP && (!asked->live || !asked->live->on_request);
}

static void
write_missing(struct buf *out, const struct ask *ask, const bool *found)
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

static void
write_propstats(struct buf *out, const struct find_pager *pager)
{
    const struct ask *ask = &pager->ask;
    const struct prop *props;
    size_t prop_count = find_props(pager, pager->subject.node->id, &props);
    bool found[NAMES_MAX];
    size_t missing = 0;

    for (size_t i = 0; i < ask->count; i++) {
        found[i] = is_there(&ask->names[i], &pager->subject, props, prop_count);
        missing += !found[i];
    }
    if (missing == 0 || missing < ask->count || ask->kind != ASK_PROP) {
        buf_adds(out, "<D:propstat><D:prop>");
        if (ask->kind != ASK_PROP)
            write_all(out, &pager->subject, props, prop_count, ask->kind == ASK_PROPNAME);
        for (size_t i = 0; i < ask->count; i++) {
            if (found[i] && !is_told(ask, &ask->names[i]))
                write_asked(out, &ask->names[i], &pager->subject, props, prop_count);
        }
        buf_adds(out, "</D:prop>");
        dav_xml_status(out, 200);
        buf_adds(out, "</D:propstat>");
    }
    if (missing > 0)
        write_missing(out, ask, found);
}

/* name: of a child, or NULL for the folder or file that was asked about. */
static void
write_response(struct buf *out, struct find_pager *pager, const struct node *node, const char *name)
{
    pager->subject.node = node;
    buf_adds(out, "<D:response><D:href>");
    buf_add_slice(out, buf_slice(&pager->self_href)); /* percent-encoded: nothing left to escape */
    if (name) {
        text_percent_encode(out, slice_of(name));
        if (node->kind == NODE_FOLDER)
            buf_addc(out, '/');
    }
    buf_adds(out, "</D:href>");
    write_propstats(out, pager);
    buf_adds(out, "</D:response>\n");
}

/* ---- the pages ---- */

static int
load_props(struct find_pager *pager, const struct node *nodes, size_t count, struct err *err)
{
    AUTO_FREE int64_t *ids = NULL;

    arena_release(&pager->props_arena);
    arena_init(&pager->props_arena);
    pager->props = NULL;
    pager->prop_count = 0;
    if (!pager->ask.wants_dead || count == 0)
        return 0;
    ids = mem_array(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = nodes[i].id;
    return files_props(pager->files, ids, count, &pager->props_arena, &pager->props,
                       &pager->prop_count, err);
}

static int
begin_answer(struct find_pager *pager, struct buf *out, struct err *err)
{
    if (load_props(pager, &pager->self, 1, err) < 0)
        return -1;
    buf_adds(out, DAV_XML_HEAD "<D:multistatus xmlns:D=\"DAV:\">\n");
    write_response(out, pager, &pager->self, NULL);
    pager->started = true;
    return 0;
}

static int
find_page(struct reply_pager *base, struct buf *out, bool *ret_more, struct err *err)
{
    struct find_pager *pager = (struct find_pager *)base;
    struct dav_walk *walk = &pager->walk;

    *ret_more = true;
    if (!pager->started && begin_answer(pager, out, err) < 0)
        return -1;
    while (pager->children && out->len < PAGE_SOFT_BYTES) {
        bool fresh;

        if (dav_walk_fill(walk, &fresh, err) < 0 ||
            (fresh && load_props(pager, walk->nodes, walk->count, err) < 0))
            return -1;
        if (walk->at == walk->count)
            pager->children = false;
        while (walk->at < walk->count && out->len < PAGE_SOFT_BYTES) {
            const struct node *node = &walk->nodes[walk->at++];

            write_response(out, pager, node, node->name);
        }
    }
    if (!pager->children) {
        buf_adds(out, "</D:multistatus>\n");
        *ret_more = false;
    }
    return buf_check(out, err);
}

static void
find_free(struct reply_pager *base)
{
    struct find_pager *pager = (struct find_pager *)base;

    dav_walk_release(&pager->walk);
    buf_release(&pager->self_href);
    arena_release(&pager->props_arena);
    arena_release(&pager->arena);
    free(pager);
}

/* ---- the request ---- */

static const char *
last_segment(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');

    return slash ? slash + 1 : prefix;
}

static struct find_pager *
pager_new(struct request *request)
{
    struct find_pager *pager = mem_zalloc(sizeof(*pager));

    pager->base = (struct reply_pager){.page = find_page, .free = find_free};
    pager->files = dav_of(request)->files;
    arena_init(&pager->arena);
    arena_init(&pager->props_arena);
    buf_init(&pager->self_href, HREF_MAX);
    pager->subject.root_name = arena_strdup(&pager->arena, last_segment(request->route->prefix));
    pager->subject.quota_bytes = -1;
    return pager;
}

static int
fill_pager(struct find_pager *pager, struct request *request, enum dav_depth depth, struct err *err)
{
    bool collection;

    if (read_ask(buf_slice(&request->body), &pager->arena, &pager->ask, err) < 0 ||
        dav_stat(request, &pager->self, err) < 0)
        return -1;
    if (pager->ask.wants_usage &&
        files_usage(pager->files, &request->principal, &pager->subject.used_bytes,
                    &pager->subject.quota_bytes, err) < 0)
        return -1;
    collection = pager->self.kind == NODE_FOLDER;
    dav_href(&pager->self_href, request, &request->path, collection);
    pager->children = collection && depth == DAV_DEPTH_1;
    dav_walk_init(&pager->walk, pager->files, &request->principal, &pager->self);
    return 0;
}

static int
find_finish(struct request *request, struct err *err)
{
    enum dav_depth depth;
    struct find_pager *pager;

    if (dav_depth(request, DAV_DEPTH_INFINITY, &depth, err) < 0)
        return -1;
    if (depth == DAV_DEPTH_INFINITY) {
        dav_reply_error(request, 403, "propfind-finite-depth");
        return 0;
    }
    pager = pager_new(request);
    if (fill_pager(pager, request, depth, err) < 0) {
        find_free(&pager->base);
        return -1;
    }
    reply_pages(request, 207, DAV_XML_TYPE, &pager->base);
    return 0;
}

const struct handler dav_find_handler = {.finish = find_finish};
