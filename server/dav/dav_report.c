/*
 * REPORT, RFC 3253 section 3.6, of which there is one: sync-collection, RFC 6578. A client says
 * with a token what it knows of a folder, and gets what has changed since, and a new token. Made
 * page by page as the answer to PROPFIND is. The token stands at the end, so an answer that is
 * broken off has none and tells its reader nothing that is not so.
 */
#include <stdlib.h>

#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_guard.h"
#include "dav/dav_multistatus.h"
#include "dav/dav_sync_token.h"
#include "dav/dav_xml.h"
#include "service/sync.h"
#include "service/walk.h"

enum { TOKEN_MAX = 1 << 20 };

/* Lives as long as the answer, which may be longer than the request: holds all it needs. */
struct report_pager {
    struct reply_pager base;
    struct dav_multistatus multi;
    struct node self;
    /* what is asked */
    struct slice token;
    bool deep;
    uint64_t most; /* responses; UINT64_MAX: as many as there are */
    /* what is told */
    bool more; /* there is something after the range */
    bool started;
    uint64_t told;
    struct walk walk;
    size_t at;          /* of the next in its batch */
    struct buf stopped; /* once `most` are told: the token to go on with */
};

/* ---- what is asked ---- */

/* Clients of early drafts have no sync-level, but a Depth. */
static int
read_level(const struct dav_xml *root, const struct request *request, bool *ret_deep,
           struct err *err)
{
    const struct dav_xml *level = dav_xml_child(root, "sync-level");
    struct slice word = level ? slice_trim(dav_xml_text(level)) : (struct slice){0};
    enum dav_depth depth;

    if (dav_depth(request, DAV_DEPTH_0, &depth, err) < 0)
        return -1;
    *ret_deep = level ? slice_is(word, "infinite") : depth == DAV_DEPTH_INFINITY;
    if (level ? depth != DAV_DEPTH_0 : depth == DAV_DEPTH_0)
        return err_set(err, ERR_INVALID, "sync-collection wants Depth: 0 and a DAV:sync-level");
    if (level && !*ret_deep && !slice_is(word, "1"))
        return err_set(err, ERR_INVALID, "DAV:sync-level is neither 1 nor infinite");
    return 0;
}

static int
read_limit(const struct dav_xml *root, uint64_t *ret_most, struct err *err)
{
    const struct dav_xml *limit = dav_xml_child(root, "limit");
    const struct dav_xml *count = limit ? dav_xml_child(limit, "nresults") : NULL;

    *ret_most = UINT64_MAX;
    if (!count)
        return 0;
    if (!text_parse_u64(slice_trim(dav_xml_text(count)), UINT64_MAX - 1, ret_most) ||
        *ret_most == 0)
        return err_set(err, ERR_INVALID, "DAV:nresults is no number above 0");
    return 0;
}

static int
read_report(struct report_pager *pager, const struct dav_xml *root, const struct request *request,
            struct err *err)
{
    const struct dav_xml *token = dav_xml_child(root, "sync-token");
    const struct dav_xml *list = dav_xml_child(root, "prop");

    if (!token || !list)
        return err_set(err, ERR_INVALID, "sync-collection without DAV:sync-token or DAV:prop");
    if (token->children && dav_xml_text(token).len == 0)
        return err_set(err, ERR_INVALID, "DAV:sync-token holds more than a token");
    pager->token = slice_trim(dav_xml_text(token));
    if (read_level(root, request, &pager->deep, err) < 0 || read_limit(root, &pager->most, err) < 0)
        return -1;
    return dav_ask_list(list, &pager->multi.arena, &pager->multi.ask, err);
}

/* ---- from where to where ---- */

static int
begin_walk(struct report_pager *pager, const struct request *request,
           const struct change_range *range)
{
    walk_init(&pager->walk, pager->multi.files, &request->principal, &pager->self, range,
              pager->deep);
    return 0;
}

/* A new range: from the token, or from nothing, until now. */
static int
begin_range(struct report_pager *pager, const struct request *request, const struct sync_mark *mark,
            bool *ret_known, struct err *err)
{
    struct change_range range;

    if (sync_range(pager->multi.files, &request->principal, &pager->self, mark, pager->deep, &range,
                   ret_known, &pager->more, err) < 0)
        return -1;
    return *ret_known ? begin_walk(pager, request, &range) : 0;
}

/* The range of an answer that ended at its limit. That of a folder which was replaced ends before
 * now, and so do others that are gone on with: what is after it is told with the next token. */
static int
go_on(struct report_pager *pager, const struct request *request, const struct dav_sync_token *token,
      bool *ret_known, struct err *err)
{
    if (sync_check(pager->multi.files, &request->principal, &pager->self, &token->range, ret_known,
                   err) < 0)
        return -1;
    if (!*ret_known)
        return 0;
    pager->more = token->range.removed_until > token->range.until_seq;
    (void)begin_walk(pager, request, &token->range);
    return walk_resume(&pager->walk, &request->path, token->step, &token->last, token->kind, err);
}

static int
begin(struct report_pager *pager, const struct request *request, bool *ret_known, struct err *err)
{
    struct dav_sync_token token;

    if (pager->token.len == 0)
        return begin_range(pager, request, NULL, ret_known, err);
    *ret_known = dav_sync_token_parse(pager->token, &pager->multi.arena, &token) &&
                 token.folder_id == pager->self.id;
    if (!*ret_known)
        return 0;
    if (token.goes_on)
        return go_on(pager, request, &token, ret_known, err);
    return begin_range(pager, request, &token.mark, ret_known, err);
}

/* ---- the pages ---- */

static void
note_stop(struct report_pager *pager, enum node_kind kind, const char *name)
{
    if (++pager->told == pager->most)
        dav_sync_token_write_part(&pager->stopped, pager->self.id, &pager->walk.range,
                                  pager->walk.step, kind, buf_slice(&pager->walk.folder), name);
}

static void
tell(struct report_pager *pager, struct buf *out)
{
    const struct walk *walk = &pager->walk;
    struct slice folder = buf_slice(&walk->folder);
    size_t at = pager->at++;

    if (walk->step == WALK_REMOVALS) {
        dav_multistatus_removal(&pager->multi, out, folder, &walk->removals[at]);
        note_stop(pager, walk->removals[at].kind, walk->removals[at].name);
    } else {
        dav_multistatus_member(&pager->multi, out, folder, &walk->nodes[at]);
        note_stop(pager, walk->nodes[at].kind, walk->nodes[at].name);
    }
}

/* RFC 6578 section 3.6. */
static void
end_answer(struct report_pager *pager, struct buf *out, bool stopped)
{
    struct sync_mark mark = sync_mark_after(&pager->walk.range);

    if (stopped || pager->more) {
        buf_adds(out, "<D:response><D:href>");
        buf_add_slice(out, buf_slice(&pager->multi.root_href));
        buf_adds(out, "</D:href>");
        dav_xml_status(out, 507);
        buf_adds(out, "<D:error><D:number-of-matches-within-limits/></D:error></D:response>\n");
    }
    buf_adds(out, "<D:sync-token>");
    if (stopped)
        buf_add_slice(out, buf_slice(&pager->stopped));
    else
        dav_sync_token_write(out, pager->self.id, &mark);
    buf_adds(out, "</D:sync-token>\n" DAV_MULTISTATUS_END);
}

static int
next_batch(struct report_pager *pager, struct err *err)
{
    const struct walk *walk = &pager->walk;

    pager->at = 0;
    if (walk_next(&pager->walk, err) < 0)
        return -1;
    if (walk->step == WALK_REMOVALS)
        return 0;
    return dav_multistatus_load(&pager->multi, walk->nodes, walk->count, err);
}

static int
report_page(struct reply_pager *base, struct buf *out, bool *ret_more, struct err *err)
{
    struct report_pager *pager = (struct report_pager *)base;
    struct walk *walk = &pager->walk;

    if (!pager->started)
        buf_adds(out, DAV_MULTISTATUS_START);
    pager->started = true;
    *ret_more = true;
    while (*ret_more && out->len < DAV_PAGE_SOFT_BYTES) {
        if (pager->at == walk->count && next_batch(pager, err) < 0)
            return -1;
        while (pager->at < walk->count && pager->told < pager->most &&
               out->len < DAV_PAGE_SOFT_BYTES)
            tell(pager, out);
        *ret_more = walk->count > 0 && (pager->told < pager->most || pager->at == walk->count);
    }
    if (!*ret_more)
        end_answer(pager, out, walk->count > 0);
    return buf_check(&pager->stopped, err) < 0 ? -1 : buf_check(out, err);
}

static void
report_free(struct reply_pager *base)
{
    struct report_pager *pager = (struct report_pager *)base;

    walk_release(&pager->walk);
    buf_release(&pager->stopped);
    dav_multistatus_release(&pager->multi);
    free(pager);
}

/* ---- the request ---- */

/* What is refused has an answer then, and *ret_known is false. */
static int
fill_pager(struct report_pager *pager, struct request *request, bool *ret_known, struct err *err)
{
    const struct dav_xml *root;

    *ret_known = false;
    if (dav_stat(request, &pager->self, err) < 0 ||
        dav_guard_read(request, &pager->self, err) < 0 ||
        dav_xml_parse(buf_slice(&request->body), &pager->multi.arena, &root, err) < 0)
        return -1;
    if (!dav_xml_is(root, "sync-collection") || pager->self.kind != NODE_FOLDER) {
        dav_reply_error(request, 403, "supported-report");
        return 0;
    }
    if (read_report(pager, root, request, err) < 0 || begin(pager, request, ret_known, err) < 0 ||
        dav_multistatus_begin(&pager->multi, request, &pager->self, err) < 0)
        return -1;
    if (!*ret_known)
        dav_reply_error(request, 403, "valid-sync-token");
    return 0;
}

static int
report_finish(struct request *request, struct err *err)
{
    struct report_pager *pager = mem_zalloc(sizeof(*pager));
    bool known;
    int rc;

    pager->base = (struct reply_pager){.page = report_page, .free = report_free};
    dav_multistatus_init(&pager->multi, request);
    buf_init(&pager->stopped, TOKEN_MAX);
    rc = fill_pager(pager, request, &known, err);
    if (rc < 0 || !known) {
        report_free(&pager->base);
        return rc;
    }
    reply_pages(request, 207, DAV_XML_TYPE, &pager->base);
    dav_ask_applied(request);
    return 0;
}

const struct handler dav_report_handler = {.finish = report_finish};
