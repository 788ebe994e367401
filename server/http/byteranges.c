/*
 * The body is a list of pieces: before each range the head of its part, then its bytes; at the
 * end the closing line. A page is filled from the piece that is under way.
 */
#include "http/byteranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"

enum {
    PAGE_BYTES = 256 * 1024,
    HEAD_MAX_BYTES = 1024, /* of a part; types have at most NODE_MIME_MAX bytes */
    BOUNDARY_CHARS = 24,   /* 144 random bits: no content holds it */
};

struct byteranges {
    struct reply_pager pager;
    struct byteranges_source source;
    struct range_list ranges;
    char boundary[BOUNDARY_CHARS + 1];
    char *type;
    size_t at;                     /* the range under way */
    struct content_reader *reader; /* of it; NULL: its head is next */
};

static void
add_head(struct buf *out, const struct byteranges *body, size_t i)
{
    const struct byte_range *range = &body->ranges.parts[i];

    buf_printf(out,
               "\r\n--%s\r\nContent-Type: %s\r\n"
               "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n\r\n",
               body->boundary, body->type, range->off, range->off + range->len - 1,
               body->source.size_bytes);
}

static void
add_end(struct buf *out, const struct byteranges *body)
{
    buf_printf(out, "\r\n--%s--\r\n", body->boundary);
}

static uint64_t
length_of(const struct byteranges *body)
{
    AUTO_BUF struct buf text = {.max = HEAD_MAX_BYTES * (RANGE_PARTS_MAX + 1)};
    uint64_t length = 0;

    for (size_t i = 0; i < body->ranges.count; i++) {
        add_head(&text, body, i);
        length += body->ranges.parts[i].len; /* all together at most twice the content */
    }
    add_end(&text, body);
    return length + text.len;
}

static int
open_range(struct byteranges *body, struct err *err)
{
    if (content_reader_open(body->source.store, &body->source.content_id,
                            body->ranges.parts[body->at], &body->reader, err) == 0)
        return 0;
    /* The file is there; that its bytes are not is no 404, which clients take for a deletion. */
    if (err->code == ERR_NOT_FOUND)
        err->code = ERR_CORRUPT;
    return err_wrap(err, "open content");
}

/* Adds bytes of the range under way; at its end the next one is. */
static int
add_bytes(struct byteranges *body, struct buf *out, struct err *err)
{
    AUTO_FREE char *block = mem_alloc(PAGE_BYTES);
    size_t len = 1;

    while (len > 0 && out->len < PAGE_BYTES) {
        if (content_reader_read(body->reader, block, PAGE_BYTES - out->len, &len, err) < 0)
            return -1;
        buf_add(out, block, len);
    }
    if (len == 0) {
        content_reader_free(TAKE(body->reader));
        body->at++;
    }
    return 0;
}

static int
byteranges_page(struct reply_pager *pager, struct buf *out, bool *ret_more, struct err *err)
{
    struct byteranges *body = (struct byteranges *)pager;

    while (body->at < body->ranges.count && out->len < PAGE_BYTES) {
        if (!body->reader) {
            if (open_range(body, err) < 0)
                return -1;
            add_head(out, body, body->at);
        }
        if (add_bytes(body, out, err) < 0)
            return -1;
    }
    *ret_more = body->at < body->ranges.count;
    if (!*ret_more)
        add_end(out, body);
    return 0;
}

static void
byteranges_free(struct reply_pager *pager)
{
    struct byteranges *body = (struct byteranges *)pager;

    content_reader_free(body->reader);
    free(body->type);
    free(body);
}

void
byteranges_reply(struct request *request, const struct byteranges_source *source,
                 const struct range_list *ranges)
{
    struct byteranges *body = mem_zalloc(sizeof(*body));
    char type[64 + BOUNDARY_CHARS];

    body->pager = (struct reply_pager){.page = byteranges_page, .free = byteranges_free};
    body->source = *source;
    body->ranges = *ranges;
    body->type = mem_strdup(source->type);
    rand_token(body->boundary, BOUNDARY_CHARS);
    snprintf(type, sizeof(type), "multipart/byteranges; boundary=%s", body->boundary);
    reply_pages(request, 206, type, &body->pager);
    request->reply.length = length_of(body);
}
