#include "bench/bench_reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void
bench_reply_begin(struct bench_reply *reply)
{
    reply->state = REPLY_HEAD;
    reply->line_len = 0;
    reply->status = 0;
    reply->is_closing = false;
    reply->left = 0;
    reply->body_bytes = 0;
}

/* ---- the head ------------------------------------------------------------------------------- */

/* The value of a field in the head, which ends with a zero byte; NULL without one. */
static const char *
field(const struct bench_reply *reply, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = strstr(reply->line, "\r\n"); at != NULL; at = strstr(at, "\r\n")) {
        at += 2;
        if (strncasecmp(at, name, len) == 0 && at[len] == ':')
            return at + len + 1 + strspn(at + len + 1, " \t");
    }
    return NULL;
}

static bool
field_begins(const struct bench_reply *reply, const char *name, const char *value)
{
    const char *found = field(reply, name);

    return found != NULL && strncasecmp(found, value, strlen(value)) == 0;
}

static void
begin_body(struct bench_reply *reply)
{
    const char *length = field(reply, "content-length");

    if (reply->status == 204 || reply->status == 304) {
        reply->state = REPLY_DONE;
    } else if (field_begins(reply, "transfer-encoding", "chunked")) {
        reply->state = REPLY_CHUNK_HEAD;
    } else if (length != NULL) {
        reply->left = strtoull(length, NULL, 10);
        reply->state = reply->left > 0 ? REPLY_BODY : REPLY_DONE;
    } else {
        reply->state = REPLY_UNTIL_CLOSE;
        reply->is_closing = true;
    }
}

static int
head_is_there(struct bench_reply *reply, struct err *err)
{
    if (strncmp(reply->line, "HTTP/1.", 7) != 0)
        return err_set(err, ERR_INVALID, "not a reply: %.40s", reply->line);
    reply->status = atoi(reply->line + strcspn(reply->line, " "));
    reply->is_closing =
        field_begins(reply, "connection", "close") || strncmp(reply->line, "HTTP/1.0", 8) == 0;
    reply->line_len = 0;
    if (reply->status >= 100 && reply->status < 200) /* 100 Continue: the reply comes yet */
        return 0;
    begin_body(reply);
    return 0;
}

/* ---- framing by lines ----------------------------------------------------------------------- */

static int
chunk_head_is_there(struct bench_reply *reply, struct err *err)
{
    char *end;

    reply->left = strtoull(reply->line, &end, 16);
    if (end == reply->line)
        return err_set(err, ERR_INVALID, "not the size of a chunk: %.40s", reply->line);
    reply->state = reply->left > 0 ? REPLY_CHUNK : REPLY_TRAILER;
    return 0;
}

static int
line_is_there(struct bench_reply *reply, struct err *err)
{
    size_t len = reply->line_len;

    reply->line_len = 0;
    switch (reply->state) {
    case REPLY_CHUNK_HEAD: return chunk_head_is_there(reply, err);
    case REPLY_CHUNK_END:
        if (len != 2)
            return err_set(err, ERR_INVALID, "a chunk is longer than it said");
        reply->state = REPLY_CHUNK_HEAD;
        return 0;
    default: reply->state = len == 2 ? REPLY_DONE : REPLY_TRAILER; return 0;
    }
}

/* One byte of the head, or of a line of the framing. */
static int
take_byte(struct bench_reply *reply, char byte, struct err *err)
{
    if (reply->line_len + 1 == sizeof(reply->line))
        return err_set(err, ERR_TOO_LARGE, "a head of more than %zu bytes", sizeof(reply->line));
    reply->line[reply->line_len++] = byte;
    if (byte != '\n')
        return 0;
    reply->line[reply->line_len] = 0;
    if (reply->state != REPLY_HEAD)
        return line_is_there(reply, err);
    if (reply->line_len >= 4 && memcmp(reply->line + reply->line_len - 4, "\r\n\r\n", 4) == 0)
        return head_is_there(reply, err);
    return 0;
}

/* ---- the body ------------------------------------------------------------------------------- */

uint64_t
bench_reply_droppable(const struct bench_reply *reply)
{
    switch (reply->state) {
    case REPLY_BODY:
    case REPLY_CHUNK: return reply->left;
    case REPLY_UNTIL_CLOSE: return UINT64_MAX;
    default: return 0;
    }
}

void
bench_reply_drop(struct bench_reply *reply, uint64_t len)
{
    reply->body_bytes += len;
    if (reply->state == REPLY_UNTIL_CLOSE)
        return;
    reply->left -= len;
    if (reply->left == 0)
        reply->state = reply->state == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_DONE;
}

int
bench_reply_feed(struct bench_reply *reply, const char *data, size_t len, bench_reply_sink *sink,
                 void *ctx, struct err *err)
{
    while (len > 0) {
        uint64_t droppable = bench_reply_droppable(reply);
        size_t part = droppable < len ? (size_t)droppable : len;

        if (reply->state == REPLY_DONE)
            return err_set(err, ERR_INVALID, "%zu bytes behind a reply", len);
        if (part > 0 && sink != NULL && sink(ctx, reply->body_bytes, data, part, err) < 0)
            return -1;
        if (part > 0)
            bench_reply_drop(reply, part);
        else if (take_byte(reply, *data, err) < 0)
            return -1;
        data += part > 0 ? part : 1;
        len -= part > 0 ? part : 1;
    }
    return 0;
}

int
bench_reply_end(struct bench_reply *reply, struct err *err)
{
    if (reply->state != REPLY_UNTIL_CLOSE && reply->state != REPLY_DONE)
        return err_set(err, ERR_IO, "closed in the middle of a reply");
    reply->state = REPLY_DONE;
    return 0;
}
