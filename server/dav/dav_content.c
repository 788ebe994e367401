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
#include "http/byteranges.h"
#include "http/digest_fields.h"
#include "http/precond.h"
#include "http/range.h"
#include "service/file_sha256.h"
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
    reply_header(request, "Content-Type", "%s", mime_or_default(node));
    if (status == 206)
        reply_header(request, "Content-Range", "bytes %llu-%llu/%llu",
                     (unsigned long long)range.off, (unsigned long long)(range.off + range.len - 1),
                     (unsigned long long)node->size_bytes);
    return 0;
}

static int
send_ranges(struct request *request, const struct node *node, const struct range_list *ranges,
            struct err *err)
{
    struct byteranges_source source = {.store = dav_of(request)->files->store,
                                       .content_id = node->content_id,
                                       .size_bytes = node->size_bytes,
                                       .type = mime_or_default(node)};

    if (ranges->count == 1)
        return send_range(request, node, ranges->parts[0], 206, err);
    byteranges_reply(request, &source, ranges);
    content_headers(request, node);
    return 0;
}

static int
refuse_range(struct request *request, const struct node *node)
{
    reply_text(request, 416, "the ranges lie past the end, or overlap too much");
    reply_header(request, "Content-Range", "bytes */%llu", (unsigned long long)node->size_bytes);
    reply_header(request, "Accept-Ranges", "bytes");
    return 0;
}

static int
get_file(struct request *request, const struct node *node, const struct precond_subject *subject,
         struct err *err)
{
    struct byte_range whole = {.off = 0, .len = node->size_bytes};
    const char *header = request_header(request, "Range");
    struct range_list ranges;

    if (request->method == HTTP_HEAD) { /* ranges are for GET: RFC 9110 section 14.2 */
        reply_head(request, 200, node->size_bytes);
        content_headers(request, node);
        reply_header(request, "Content-Type", "%s", mime_or_default(node));
        return 0;
    }
    if (!header || !precond_range_holds(request, subject))
        return send_range(request, node, whole, 200, err);
    switch (range_parse(header, node->size_bytes, &ranges)) {
    case RANGE_UNSATISFIABLE: return refuse_range(request, node);
    case RANGE_PARTS: return send_ranges(request, node, &ranges, err);
    case RANGE_WHOLE: break;
    }
    return send_range(request, node, whole, 200, err);
}

/* The digests the client asked for; an answer without bytes of the file has none. */
static int
add_digests(struct request *request, const struct node *node, struct err *err)
{
    struct digest_wants wants;
    struct sha256 sum;
    int status = request->reply.status;
    bool known;

    if ((status != 200 && status != 206) || !digest_wants_read(request, &wants))
        return 0;
    if (file_sha256(dav_of(request)->files, node, &known, &sum, err) < 0)
        return -1;
    if (known)
        digest_fields_reply(request, &wants, &sum, request->method == HTTP_GET && status == 200);
    return 0;
}

static int
get_finish(struct request *request, struct err *err)
{
    char etag[FILES_ETAG_SIZE];
    struct precond_subject subject = {.exists = true, .etag = etag};
    struct node node;

    if (dav_stat(request, &node, err) < 0 || dav_guard_read(request, &node, err) < 0)
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
    if (get_file(request, &node, &subject, err) < 0)
        return -1;
    return add_digests(request, &node, err);
}

const struct handler dav_get_handler = {.finish = get_finish};

/* ---- PUT ---- */

struct put {
    struct ingest *ingest;
    struct dav_guard *guard;
    struct files_claim claim;
    struct digest_check *check;
    uint64_t size_bytes; /* as announced; UINT64_MAX: unknown */
};

/* The length of the body. Finder sends in chunks but says how much it will be; what is not a
 * number says nothing. */
static uint64_t
announced_bytes(const struct request *request)
{
    struct slice value = slice_trim(slice_of(request_header(request, "X-Expected-Entity-Length")));
    uint64_t size_bytes;

    if (request->content_length == UINT64_MAX && text_parse_u64(value, INT64_MAX, &size_bytes))
        return size_bytes;
    return request->content_length;
}

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
    uint64_t size_bytes = announced_bytes(request);
    struct files_claim claim = {0};
    struct digest_check *check;
    struct ingest *ingest;
    struct put *put;
    struct dav_guard *conditions;
    struct files_guard guard;

    if (check_head(request, err) < 0)
        return -1;
    if (request->reply.status != 0)
        return 0;
    if (dav_guard_new(request, NULL, true, &conditions, err) < 0 ||
        digest_check_new(request, &check, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (files_may_write(files, &request->principal, &request->path, size_bytes, &guard, &claim,
                        err) < 0)
        return dav_guard_refuse(conditions, err);
    ingest = ingest_new(files->store, size_bytes);
    if (!ingest) {
        files_release(files, &claim);
        return err_set(err, ERR_BUSY, "too many uploads at this moment");
    }
    put = mem_zalloc(sizeof(*put));
    put->guard = conditions;
    put->claim = claim;
    put->ingest = ingest;
    put->check = check;
    put->size_bytes = size_bytes;
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

/* A body of another length than was announced is not the file that was meant. */
static int
check_length(const struct put *put, bool at_end, struct err *err)
{
    uint64_t come_bytes = put->claim.come_bytes;

    if (put->size_bytes == UINT64_MAX || come_bytes == put->size_bytes ||
        (come_bytes < put->size_bytes && !at_end))
        return 0;
    return err_set(err, ERR_INVALID, "the body has another length than was announced");
}

static int
put_take(struct request *request, const void *data, size_t len, struct err *err)
{
    struct put *put = request->state;

    if (!put)
        return 0; /* refused: what still comes is dropped */
    digest_check_add(put->check, data, len);
    if (files_take(dav_of(request)->files, &put->claim, len, err) < 0 ||
        check_length(put, false, err) < 0 || ingest_push(put->ingest, data, len, err) < 0)
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
    struct sha256 sum;
    struct node node;
    bool created;

    if (!put)
        return 0;
    write.guard = dav_guard_source(put->guard);
    write.claim = &put->claim;
    if (check_length(put, true, err) < 0 || digest_check_end(put->check, &sum, err) < 0 ||
        ingest_finish(put->ingest, &write.content, err) < 0 ||
        files_write(dav_of(request)->files, &request->principal, &write, put->ingest, &node,
                    &created, err) < 0) {
        (void)put_fail(request);
        return dav_guard_refuse(put->guard, err);
    }
    if (put->check)
        file_sha256_remember(dav_of(request)->files, &node.content_id, &sum);
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
