/* What a browser gets for a folder: a plain page of links, made like a PROPFIND in pages. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "dav/dav.h"
#include "service/walk.h"

enum { PAGE_SOFT_BYTES = 256 << 10, HREF_MAX = 1 << 20 };

/* Lives as long as the answer, which may be longer than the request: holds all it needs. */
struct listing {
    struct reply_pager base;
    struct walk walk;
    size_t at;        /* of the next member in its batch */
    struct buf href;  /* of the folder, with its slash */
    struct buf title; /* its name, escaped */
    bool is_root;
    bool started;
};

static void
write_head(struct buf *out, const struct listing *listing)
{
    buf_printf(out,
               "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
               "<title>%s</title></head>\n<body>\n<h1>%s</h1>\n<table>\n"
               "<tr><th>Name</th><th>Bytes</th><th>Changed</th></tr>\n",
               listing->title.data, listing->title.data);
    if (!listing->is_root)
        buf_printf(out, "<tr><td><a href=\"%s../\">..</a></td><td></td><td></td></tr>\n",
                   listing->href.data);
}

static void
write_row(struct buf *out, const struct listing *listing, const struct node *node)
{
    const char *slash = node->kind == NODE_FOLDER ? "/" : "";
    char date[CLOCK_ISO_SIZE];

    clock_iso_date(date, node->mtime_us);
    buf_adds(out, "<tr><td><a href=\"");
    buf_add_slice(out, buf_slice(&listing->href));
    text_percent_encode(out, slice_of(node->name));
    buf_printf(out, "%s\">", slash);
    text_xml_escape(out, slice_of(node->name));
    buf_printf(out, "%s</a></td><td>", slash);
    if (node->kind == NODE_FILE)
        buf_printf(out, "%llu", (unsigned long long)node->size_bytes);
    buf_printf(out, "</td><td>%s</td></tr>\n", date);
}

static int
next_batch(struct listing *listing, struct err *err)
{
    listing->at = 0;
    return walk_next(&listing->walk, err);
}

static int
listing_page(struct reply_pager *base, struct buf *out, bool *ret_more, struct err *err)
{
    struct listing *listing = (struct listing *)base;
    struct walk *walk = &listing->walk;

    if (!listing->started)
        write_head(out, listing);
    listing->started = true;
    *ret_more = true;
    while (*ret_more && out->len < PAGE_SOFT_BYTES) {
        if (listing->at == walk->count && next_batch(listing, err) < 0)
            return -1;
        while (listing->at < walk->count && out->len < PAGE_SOFT_BYTES)
            write_row(out, listing, &walk->nodes[listing->at++]);
        *ret_more = walk->count > 0;
    }
    if (!*ret_more)
        buf_adds(out, "</table>\n</body>\n</html>\n");
    return buf_check(out, err);
}

static void
listing_free(struct reply_pager *base)
{
    struct listing *listing = (struct listing *)base;

    walk_release(&listing->walk);
    buf_release(&listing->href);
    buf_release(&listing->title);
    free(listing);
}

static struct reply_pager *
listing_new(struct request *request, const struct node *folder)
{
    struct listing *listing = mem_zalloc(sizeof(*listing));

    listing->base = (struct reply_pager){.page = listing_page, .free = listing_free};
    listing->is_root = request->path.depth == 0;
    buf_init(&listing->href, HREF_MAX);
    buf_init(&listing->title, HREF_MAX);
    dav_href(&listing->href, request, &request->path, true);
    text_xml_escape(&listing->title, slice_of(listing->is_root ? "/" : folder->name));
    walk_init(&listing->walk, dav_of(request)->files, &request->principal, folder, &WALK_ALL,
              false);
    return &listing->base;
}

int
dav_listing_reply(struct request *request, const struct node *folder, struct err *err)
{
    static const char TYPE[] = "text/html; charset=utf-8";

    (void)err;
    if (request->method == HTTP_HEAD) {
        reply_head(request, 200, UINT64_MAX); /* as long as it takes: the same as for GET */
        reply_header(request, "Content-Type", "%s", TYPE);
    } else {
        reply_pages(request, 200, TYPE, listing_new(request, folder));
    }
    dav_entity_headers(request, folder);
    reply_header(request, "X-Content-Type-Options", "nosniff");
    reply_header(request, "Content-Security-Policy", "default-src 'none'");
    return 0;
}
