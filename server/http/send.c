/*
 * A body that is not in memory is pulled by the library, on its own thread, through a content
 * reader callback. When nothing is ready the callback suspends the connection and gives way;
 * whoever has the next bytes resumes it.
 */
#include "http/send.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/content_reader.h"

enum { SEND_BLOCK_BYTES = 256 * 1024, SEND_PAGE_MAX_BYTES = 4 << 20 };

/* Lives as long as the library's response, which may be longer than the request. */
struct sender {
    struct conn_env *env;
    struct MHD_Connection *mhd;
    uint64_t request_id;
    struct content_reader *reader;
    struct reply_pager *pager;
    struct buf page;
    size_t page_off;
    bool more;   /* pages after this one */
    bool failed; /* the next page could not be made */
};

static void
sender_free(void *cls)
{
    struct sender *sender = cls;

    content_reader_free(sender->reader);
    if (sender->pager)
        sender->pager->free(sender->pager);
    buf_release(&sender->page);
    free(sender);
}

static void
sender_resume(void *arg)
{
    struct sender *sender = arg;

    conn_resume(sender->env, sender->mhd);
}

static ssize_t
broken_off(const struct sender *sender, const char *why)
{
    log_set_request(sender->request_id);
    log_error("answer broken off: error=\"%s\"", why);
    log_set_request(0);
    metric_add(METRIC_HTTP_ABORTED, 1);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t
pull_content(void *cls, uint64_t pos, char *dst, size_t cap)
{
    struct sender *sender = cls;
    enum content_reader_state state;
    struct err err = {0};
    size_t len;

    (void)pos;
    if (!sender->reader || atomic_load(&sender->env->stopping))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (content_reader_poll(sender->reader, dst, cap, &state, &len, &err) < 0)
        return broken_off(sender, err.msg);

    switch (state) {
    case CONTENT_READER_BYTES: metric_add(METRIC_HTTP_SENT_BYTES, len); return (ssize_t)len;
    case CONTENT_READER_END: return MHD_CONTENT_READER_END_OF_STREAM;
    case CONTENT_READER_WAIT: break;
    }
    /* Suspended first: the reader may have its bytes, and resume us, before notify returns. */
    conn_suspend(sender->env, sender->mhd);
    content_reader_notify(sender->reader, sender_resume, sender);
    return 0;
}

static int
next_page(struct sender *sender, struct err *err)
{
    buf_clear(&sender->page);
    sender->page_off = 0;
    if (sender->pager->page(sender->pager, &sender->page, &sender->more, err) < 0 ||
        buf_check(&sender->page, err) < 0) {
        sender->failed = true;
        return -1;
    }
    return 0;
}

static void
page_job(void *arg)
{
    struct sender *sender = arg;
    struct err err = {0};

    if (next_page(sender, &err) < 0)
        (void)broken_off(sender, err.msg);
    conn_resume(sender->env, sender->mhd);
}

static ssize_t
pull_pages(void *cls, uint64_t pos, char *dst, size_t cap)
{
    struct sender *sender = cls;
    size_t len = sender->page.len - sender->page_off;
    struct err err = {0};

    (void)pos;
    if (sender->failed || atomic_load(&sender->env->stopping))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (len > 0) {
        len = len < cap ? len : cap;
        memcpy(dst, sender->page.data + sender->page_off, len);
        sender->page_off += len;
        metric_add(METRIC_HTTP_SENT_BYTES, len);
        return (ssize_t)len;
    }
    if (!sender->more)
        return MHD_CONTENT_READER_END_OF_STREAM;

    conn_suspend(sender->env, sender->mhd);
    if (workers_submit(sender->env->workers, page_job, sender, &err) < 0) {
        conn_resume(sender->env, sender->mhd);
        return broken_off(sender, err.msg);
    }
    return 0;
}

/* What fits into one block is answered from memory: head and body then leave together. Pulled
 * separately, the body of a small file waits for the acknowledgement of its head. */
static void
prepare_content(struct conn *conn)
{
    struct reply *reply = &conn->request.reply;
    AUTO_FREE char *block = NULL;
    struct err err = {0};
    size_t len = 0, got = 1;

    if (!reply->reader || reply->length > SEND_BLOCK_BYTES)
        return;
    block = mem_alloc((size_t)reply->length + 1);
    while (got > 0 && len < reply->length) {
        if (content_reader_read(reply->reader, block + len, (size_t)reply->length - len, &got,
                                &err) < 0) {
            reply_error(&conn->request, &err);
            return;
        }
        len += got;
    }
    content_reader_free(TAKE(reply->reader));
    buf_init(&reply->bytes, SEND_BLOCK_BYTES);
    buf_add(&reply->bytes, block, len);
    reply->kind = REPLY_BYTES;
}

static void
prepare_pages(struct conn *conn)
{
    struct reply *reply = &conn->request.reply;
    struct err err = {0};
    bool more;

    buf_init(&reply->bytes, SEND_PAGE_MAX_BYTES);
    if (reply->pager->page(reply->pager, &reply->bytes, &more, &err) < 0 ||
        buf_check(&reply->bytes, &err) < 0) {
        reply_error(&conn->request, &err);
        return;
    }
    if (more)
        return;
    reply->pager->free(reply->pager);
    reply->pager = NULL;
    reply->kind = REPLY_BYTES;
    reply->length = reply->bytes.len;
}

void
send_prepare(struct conn *conn)
{
    if (conn->request.reply.kind == REPLY_CONTENT)
        prepare_content(conn);
    else if (conn->request.reply.kind == REPLY_PAGES)
        prepare_pages(conn);
}

static struct MHD_Response *
pulled_response(struct conn *conn)
{
    struct reply *reply = &conn->request.reply;
    struct sender *sender = mem_zalloc(sizeof(*sender));
    bool paged = reply->kind == REPLY_PAGES;
    uint64_t length = reply->length == UINT64_MAX ? MHD_SIZE_UNKNOWN : reply->length;
    size_t block = length < SEND_BLOCK_BYTES ? (size_t)length + 1 : SEND_BLOCK_BYTES;
    struct MHD_Response *response;

    *sender = (struct sender){.env = conn->env,
                              .mhd = conn->mhd,
                              .request_id = conn->request.id,
                              .reader = reply->reader,
                              .pager = reply->pager,
                              .page = reply->bytes,
                              .more = paged};
    reply->reader = NULL;
    reply->pager = NULL;
    buf_init(&reply->bytes, 0);
    response = MHD_create_response_from_callback(length, block, paged ? pull_pages : pull_content,
                                                 sender, sender_free);
    if (!response)
        sender_free(sender);
    return response;
}

static struct MHD_Response *
make_response(struct conn *conn)
{
    struct reply *reply = &conn->request.reply;
    struct MHD_Response *response;

    switch (reply->kind) {
    case REPLY_CONTENT:
    case REPLY_PAGES: return pulled_response(conn);
    case REPLY_BYTES:
        response = MHD_create_response_from_buffer(reply->bytes.len, reply->bytes.data,
                                                   MHD_RESPMEM_MUST_FREE);
        if (response) {
            metric_add(METRIC_HTTP_SENT_BYTES, reply->bytes.len);
            buf_init(&reply->bytes, 0);
        }
        return response;
    case REPLY_NONE: break;
    }
    return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
}

static void
count_reply(const struct conn *conn)
{
    static const enum metric_counter classes[] = {
        METRIC_HTTP_REQUESTS_2XX, METRIC_HTTP_REQUESTS_3XX, METRIC_HTTP_REQUESTS_4XX,
        METRIC_HTTP_REQUESTS_5XX};
    int status = conn->request.reply.status;

    if (status >= 200 && status < 600)
        metric_add(classes[status / 100 - 2], 1);
    metric_observe_us(METRIC_HTTP_SECONDS, clock_mono_us() - conn->started_us);
}

enum MHD_Result
send_reply(struct conn *conn)
{
    struct reply *reply = &conn->request.reply;
    struct MHD_Response *response = make_response(conn);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    for (const struct reply_header *h = reply->headers; h; h = h->next)
        (void)MHD_add_response_header(response, h->name, h->value); /* only fails for bad names */
    if (reply->close || atomic_load(&conn->env->draining))
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    count_reply(conn);
    log_debug("answered: method=%s status=%d", http_method_name(conn->request.method),
              reply->status);
    result = MHD_queue_response(conn->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}
