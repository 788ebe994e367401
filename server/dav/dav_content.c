/*
 * GET, HEAD, PUT: the bytes of files. The page that a browser gets for a folder is in
 * dav_listing.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_guard.h"
#include "http/precond.h"
#include "http/range.h"
#include "storage/content_reader.h"

/* ---- GET, HEAD ---- */

static const char *
mime_or_default(const struct node *node)
{
    return node->mime[0] ? node->mime : "application/octet-stream";
}

/* Bytes of users never run as ours: no guessing of types, no scripts. */
static void
content_headers(struct request *request, const struct node *node)
{
    dav_entity_headers(request, node);
    reply_header(request, "Accept-Ranges", "bytes");
    reply_header(request, "Content-Type", "%s", mime_or_default(node));
    reply_header(request, "X-Content-Type-Options", "nosniff");
    reply_header(request, "Content-Security-Policy", "sandbox");
}

static int
open_content(struct request *request, const struct node *node, struct byte_range range,
             struct content_reader **ret_reader, struct err *err)
{
    struct content_reader *reader;

    if (content_reader_open(dav_of(request)->files->store, &node->content_id, range, &reader,
                            err) == 0) {
        if (content_reader_wait(reader, err) == 0) {
            *ret_reader = reader;
            return 0;
        }
        content_reader_free(reader);
    }
    /* The file is there; that its bytes are not is no 404, which clients take for a deletion. */
    if (err->code == ERR_NOT_FOUND)
        err->code = ERR_CORRUPT;
    return err_wrap(err, "open content");
}

static int
send_range(struct request *request, const struct node *node, struct byte_range range, int status,
           struct err *err)
{
    struct content_reader *reader = NULL;

    if (open_content(request, node, range, &reader, err) < 0)
        return -1;
    reply_content(request, status, reader, range.len);
    content_headers(request, node);
    if (status == 206)
        reply_header(request, "Content-Range", "bytes %llu-%llu/%llu",
                     (unsigned long long)range.off, (unsigned long long)(range.off + range.len - 1),
                     (unsigned long long)node->size_bytes);
    return 0;
}

static int
refuse_range(struct request *request, const struct node *node)
{
    reply_text(request, 416, "the range lies past the end");
    reply_header(request, "Content-Range", "bytes */%llu", (unsigned long long)node->size_bytes);
    reply_header(request, "Accept-Ranges", "bytes");
    return 0;
}

static int
get_file(struct request *request, const struct node *node, const struct precond_subject *subject,
         struct err *err)
{
    struct byte_range range = {.off = 0, .len = node->size_bytes};
    const char *header = request_header(request, "Range");

    if (request->method == HTTP_HEAD) { /* ranges are for GET: RFC 9110 section 14.2 */
        reply_head(request, 200, node->size_bytes);
        content_headers(request, node);
        return 0;
    }
    if (!header || !precond_range_holds(request, subject))
        return send_range(request, node, range, 200, err);
    switch (range_parse(header, node->size_bytes, &range)) {
    case RANGE_UNSATISFIABLE: return refuse_range(request, node);
    case RANGE_PART: return send_range(request, node, range, 206, err);
    case RANGE_WHOLE: break;
    }
    range = (struct byte_range){.off = 0, .len = node->size_bytes};
    return send_range(request, node, range, 200, err);
}

static int
get_finish(struct request *request, struct err *err)
{
    char etag[FILES_ETAG_SIZE];
    struct precond_subject subject = {.exists = true, .etag = etag};
    struct node node;

    if (dav_stat(request, &node, err) < 0)
        return -1;
    files_etag(&node, etag);
    subject.mtime_us = node.mtime_us;
    switch (precond_check(request, &subject, true)) {
    case PRECOND_NOT_MODIFIED:
        reply_status(request, 304);
        dav_entity_headers(request, &node);
        return 0;
    case PRECOND_FAILED:
        return err_set(err, ERR_PRECONDITION, "a condition of the request does not hold");
    case PRECOND_GO: break;
    }
    if (node.kind == NODE_FOLDER)
        return dav_listing_reply(request, &node, err);
    return get_file(request, &node, &subject, err);
}

const struct handler dav_get_handler = {.finish = get_finish};

/* ---- PUT ---- */

struct put {
    struct ingest *ingest;
    struct dav_guard *guard;
    struct files_claim claim;
};

/* A fragment would replace the whole (RFC 9110 section 14.5); a coded body would be kept coded. */
static int
check_head(struct request *request, struct err *err)
{
    const char *coding = request_header(request, "Content-Encoding");
    struct slice value = slice_trim(slice_of(coding));

    if (request_header(request, "Content-Range"))
        return err_set(err, ERR_INVALID, "a part of a file cannot be written");
    if (request->path.trailing_slash || request->path.depth == 0)
        return err_set(err, ERR_EXISTS, "the address is that of a folder");
    if (value.len > 0 && !text_eq_nocase(value, SLICE("identity")))
        reply_text(request, 415, "content encodings are not taken");
    return 0;
}

static int
put_begin(struct request *request, struct err *err)
{
    struct files *files = dav_of(request)->files;
    struct files_claim claim = {0};
    struct ingest *ingest;
    struct put *put;
    struct dav_guard *conditions;
    struct files_guard guard;

    if (check_head(request, err) < 0)
        return -1;
    if (request->reply.status != 0)
        return 0;
    if (dav_guard_new(request, NULL, true, &conditions, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (files_may_write(files, &request->principal, &request->path, request->content_length, &guard,
                        &claim, err) < 0)
        return dav_guard_refuse(conditions, err);
    ingest = ingest_new(files->store, request->content_length);
    if (!ingest) {
        files_release(files, &claim);
        return err_set(err, ERR_BUSY, "too many uploads at this moment");
    }
    put = mem_zalloc(sizeof(*put));
    put->guard = conditions;
    put->claim = claim;
    put->ingest = ingest;
    request->state = put;
    return 0;
}

/* Everything is given back before the client hears of a failure: it may try again at once. */
static int
put_fail(struct request *request)
{
    struct put *put = request->state;

    ingest_free(put->ingest);
    put->ingest = NULL;
    files_release(dav_of(request)->files, &put->claim);
    return -1;
}

static int
put_take(struct request *request, const void *data, size_t len, struct err *err)
{
    struct put *put = request->state;

    if (!put)
        return 0; /* refused: what still comes is dropped */
    if (files_take(dav_of(request)->files, &put->claim, len, err) < 0 ||
        ingest_push(put->ingest, data, len, err) < 0)
        return put_fail(request);
    return 0;
}

static int
put_finish(struct request *request, struct err *err)
{
    struct put *put = request->state;
    struct files_write write = {.path = &request->path,
                                .mtime_us = dav_mtime(request),
                                .mime = request_header(request, "Content-Type")};
    struct node node;
    bool created;

    if (!put)
        return 0;
    write.guard = dav_guard_source(put->guard);
    write.claim = &put->claim;
    if (ingest_finish(put->ingest, &write.content, err) < 0 ||
        files_write(dav_of(request)->files, &request->principal, &write, put->ingest, &node,
                    &created, err) < 0) {
        (void)put_fail(request);
        return dav_guard_refuse(put->guard, err);
    }
    reply_status(request, created ? 201 : 204);
    dav_entity_headers(request, &node);
    dav_mtime_accepted(request, write.mtime_us);
    return 0;
}

static void
put_drop(struct request *request)
{
    struct put *put = request->state;

    if (!put)
        return;
    ingest_free(put->ingest);
    files_release(dav_of(request)->files, &put->claim);
    free(put);
    request->state = NULL;
}

const struct handler dav_put_handler = {
    .begin = put_begin,
    .take = put_take,
    .finish = put_finish,
    .drop = put_drop,
};
