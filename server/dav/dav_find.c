/*
 * PROPFIND, RFC 4918 section 9.1. The answer is made page by page while the client takes it: a
 * tree of any size costs one batch of nodes and, when dead properties are wanted, theirs.
 */
#include <stdlib.h>

#include "dav/dav.h"
#include "dav/dav_guard.h"
#include "dav/dav_multistatus.h"
#include "dav/dav_xml.h"
#include "service/walk.h"

/* Lives as long as the answer, which may be longer than the request: holds all it needs. */
struct find_pager {
    struct reply_pager base;
    struct dav_multistatus multi;
    struct node self;
    bool started;
    struct walk walk; /* at its end from the start when members are not asked for */
    size_t at;        /* of the next member in its batch */
};

static int
begin_answer(struct find_pager *pager, struct buf *out, struct err *err)
{
    if (dav_multistatus_load(&pager->multi, &pager->self, 1, err) < 0)
        return -1;
    buf_adds(out, DAV_MULTISTATUS_START);
    dav_multistatus_root(&pager->multi, out, &pager->self);
    pager->started = true;
    return 0;
}

static int
next_batch(struct find_pager *pager, struct err *err)
{
    pager->at = 0;
    if (walk_next(&pager->walk, err) < 0)
        return -1;
    return dav_multistatus_load(&pager->multi, pager->walk.nodes, pager->walk.count, err);
}

static int
find_page(struct reply_pager *base, struct buf *out, bool *ret_more, struct err *err)
{
    struct find_pager *pager = (struct find_pager *)base;
    struct walk *walk = &pager->walk;

    *ret_more = true;
    if (!pager->started && begin_answer(pager, out, err) < 0)
        return -1;
    while (*ret_more && out->len < DAV_PAGE_SOFT_BYTES) {
        if (pager->at == walk->count && next_batch(pager, err) < 0)
            return -1;
        while (pager->at < walk->count && out->len < DAV_PAGE_SOFT_BYTES)
            dav_multistatus_member(&pager->multi, out, buf_slice(&walk->folder),
                                   &walk->nodes[pager->at++]);
        *ret_more = walk->count > 0;
    }
    if (!*ret_more)
        buf_adds(out, DAV_MULTISTATUS_END);
    return buf_check(out, err);
}

static void
find_free(struct reply_pager *base)
{
    struct find_pager *pager = (struct find_pager *)base;

    walk_release(&pager->walk);
    dav_multistatus_release(&pager->multi);
    free(pager);
}

/* ---- the request ---- */

/* A whole tree is told only when it is small: that is looked up before anything is told. */
static int
may_tell(struct find_pager *pager, const struct request *request, enum dav_depth depth,
         bool *ret_may, struct err *err)
{
    uint64_t most = dav_of(request)->config->propfind_infinity_max;
    uint64_t count = 0;

    *ret_may = depth != DAV_DEPTH_INFINITY || pager->self.kind == NODE_FILE;
    if (*ret_may || most == 0)
        return 0;
    if (walk_count(pager->multi.files, &request->principal, &pager->self, most + 1, &count, err) <
        0)
        return -1;
    *ret_may = count <= most;
    return 0;
}

static int
fill_pager(struct find_pager *pager, struct request *request, enum dav_depth depth, bool *ret_may,
           struct err *err)
{
    struct dav_multistatus *multi = &pager->multi;

    if (dav_ask_body(buf_slice(&request->body), &multi->arena, &multi->ask, err) < 0 ||
        dav_stat(request, &pager->self, err) < 0 ||
        dav_guard_read(request, &pager->self, err) < 0 ||
        may_tell(pager, request, depth, ret_may, err) < 0)
        return -1;
    if (!*ret_may)
        return 0;
    if (pager->self.kind == NODE_FOLDER && depth != DAV_DEPTH_0)
        walk_init(&pager->walk, multi->files, &request->principal, &pager->self, &WALK_ALL,
                  depth == DAV_DEPTH_INFINITY);
    return dav_multistatus_begin(multi, request, &pager->self, err);
}

static int
find_finish(struct request *request, struct err *err)
{
    enum dav_depth depth;
    struct find_pager *pager;
    bool may;

    if (dav_depth(request, DAV_DEPTH_INFINITY, &depth, err) < 0)
        return -1;
    pager = mem_zalloc(sizeof(*pager));
    pager->base = (struct reply_pager){.page = find_page, .free = find_free};
    dav_multistatus_init(&pager->multi, request);
    if (fill_pager(pager, request, depth, &may, err) < 0) {
        find_free(&pager->base);
        return -1;
    }
    if (!may) {
        find_free(&pager->base);
        dav_reply_error(request, 403, "propfind-finite-depth");
        return 0;
    }
    reply_pages(request, 207, DAV_XML_TYPE, &pager->base);
    dav_ask_applied(request);
    return 0;
}

const struct handler dav_find_handler = {.finish = find_finish};
