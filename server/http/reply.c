#include "http/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "http/request.h"
#include "storage/content_reader.h"

static const int status_of_code[ERR_CODE_COUNT] = {
    [ERR_NONE] = 500,      [ERR_NOT_FOUND] = 404,    [ERR_EXISTS] = 405,   [ERR_INVALID] = 400,
    [ERR_TOO_LARGE] = 413, [ERR_LOGIN] = 401,        [ERR_TOO_MANY] = 429, [ERR_DENIED] = 403,
    [ERR_LOCKED] = 423,    [ERR_PRECONDITION] = 412, [ERR_QUOTA] = 507,    [ERR_CONFLICT] = 409,
    [ERR_BUSY] = 503,      [ERR_UNAVAILABLE] = 503,  [ERR_CORRUPT] = 500,  [ERR_IO] = 500,
    [ERR_INTERNAL] = 500,  [ERR_RANGE] = 416,
};

static int
reply_status_of(enum err_code code)
{
    int status = code < ERR_CODE_COUNT ? status_of_code[code] : 0;

    return status ? status : 500;
}

/* Lets go of a body; headers live in the arena. */
static void
drop_body(struct reply *reply)
{
    buf_release(&reply->bytes);
    content_reader_free(reply->reader);
    if (reply->pager)
        reply->pager->free(reply->pager);
    reply->reader = NULL;
    reply->pager = NULL;
    reply->kind = REPLY_NONE;
    reply->length = 0;
}

void
reply_status(struct request *request, int status)
{
    drop_body(&request->reply);
    request->reply.status = status;
}

void
reply_header(struct request *request, const char *name, const char *fmt, ...)
{
    struct reply_header *header = arena_alloc(&request->arena, sizeof(*header));
    char *value;
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    value = arena_alloc(&request->arena, (size_t)len + 1);
    va_start(args, fmt);
    vsnprintf(value, (size_t)len + 1, fmt, args);
    va_end(args);

    for (char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    *header = (struct reply_header){request->reply.headers, name, value};
    request->reply.headers = header;
}

void
reply_bytes(struct request *request, int status, const char *type, struct buf *bytes)
{
    reply_status(request, status);
    reply_header(request, "Content-Type", "%s", type);
    request->reply.kind = REPLY_BYTES;
    request->reply.bytes = *bytes;
    request->reply.length = bytes->len;
    buf_init(bytes, bytes->max);
}

void
reply_text(struct request *request, int status, const char *text)
{
    struct buf bytes;

    buf_init(&bytes, 64 * 1024);
    buf_adds(&bytes, text);
    buf_addc(&bytes, '\n');
    reply_bytes(request, status, "text/plain; charset=utf-8", &bytes);
}

void
reply_content(struct request *request, int status, struct content_reader *reader, uint64_t length)
{
    reply_status(request, status);
    request->reply.kind = REPLY_CONTENT;
    request->reply.reader = reader;
    request->reply.length = length;
}

void
reply_head(struct request *request, int status, uint64_t length)
{
    reply_status(request, status);
    request->reply.kind = REPLY_CONTENT;
    request->reply.length = length;
}

void
reply_pages(struct request *request, int status, const char *type, struct reply_pager *pager)
{
    reply_status(request, status);
    reply_header(request, "Content-Type", "%s", type);
    request->reply.kind = REPLY_PAGES;
    request->reply.pager = pager;
    request->reply.length = UINT64_MAX;
}

/* An operator must know of 500; 503 was survived. */
static void
log_failure(const struct request *request, int status, const struct err *err)
{
    if (status == 500)
        log_error("request failed: method=%s code=%s error=\"%s\"",
                  http_method_name(request->method), err_code_name(err->code), err->msg);
    else if (status == 503)
        log_warn("request put off: method=%s code=%s error=\"%s\"",
                 http_method_name(request->method), err_code_name(err->code), err->msg);
}

void
reply_allow(struct request *request)
{
    AUTO_BUF struct buf allow = {.max = 1024};

    for (int m = 0; m < HTTP_METHOD_COUNT; m++)
        if (request->allowed & HTTP_BIT(m))
            buf_printf(&allow, "%s%s", allow.len ? ", " : "", http_method_name(m));
    reply_header(request, "Allow", "%s", allow.data ? allow.data : "");
}

/* What went wrong inside is for the log; the client learns what it can act on. */
static const char *
words_for_client(int status, const struct err *err)
{
    switch (status) {
    case 500: return "internal error";
    case 503: return "not possible at the moment, please try again";
    case 507: return "not enough room for this: the quota or the storage of the server is used up";
    default: return err->msg;
    }
}

void
reply_error(struct request *request, const struct err *err)
{
    int status = reply_status_of(err->code);

    log_failure(request, status, err);
    request->reply.headers = NULL;
    reply_text(request, status, words_for_client(status, err));
    if (status == 405)
        reply_allow(request);
    if (status == 401)
        reply_header(request, "WWW-Authenticate", "Basic realm=\"oxicloudd\", charset=\"UTF-8\"");
    if (status == 503)
        reply_header(request, "Retry-After", "2");
    if (status == 429)
        reply_header(request, "Retry-After", "60");
}
