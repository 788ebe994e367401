/*
 * bench_reply: reads one reply of an HTTP/1.1 server, piece by piece as it arrives, and says when
 * it is over (RFC 9112 sections 6 and 7). Bodies are counted, and handed to whoever wants to see
 * them; where nobody does, the caller may throw them away in the kernel.
 */
#ifndef OXI_BENCH_BENCH_REPLY_H
#define OXI_BENCH_BENCH_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { BENCH_REPLY_HEAD_SIZE = 8192 };

enum bench_reply_state {
    REPLY_HEAD,
    REPLY_BODY,       /* its length is known */
    REPLY_CHUNK_HEAD, /* the line with a chunk's size */
    REPLY_CHUNK,
    REPLY_CHUNK_END, /* the end of line behind it */
    REPLY_TRAILER,
    REPLY_UNTIL_CLOSE,
    REPLY_DONE,
};

/* Zeroed: before a reply. */
struct bench_reply {
    enum bench_reply_state state;
    char line[BENCH_REPLY_HEAD_SIZE]; /* the head, or a line of the framing, as far as it came */
    size_t line_len;
    int status;
    bool is_closing;     /* the server will close the connection */
    uint64_t left;       /* of the body or the chunk */
    uint64_t body_bytes; /* so far */
};

/* Gets pieces of the body in order. Returns 0, or -1 with err to break off. */
typedef int bench_reply_sink(void *ctx, uint64_t off, const char *data, size_t len,
                             struct err *err);

void bench_reply_begin(struct bench_reply *reply);
/* Takes all of what was received; sink may be NULL. ERR_INVALID for what is no reply, or more than
 * one. */
int bench_reply_feed(struct bench_reply *reply, const char *data, size_t len,
                     bench_reply_sink *sink, void *ctx, struct err *err);
/* The connection was closed. ERR_IO in the middle of a reply. */
int bench_reply_end(struct bench_reply *reply, struct err *err);

/* How many bytes of the body come next, whatever they are: these may be dropped unread. */
uint64_t bench_reply_droppable(const struct bench_reply *reply);
void bench_reply_drop(struct bench_reply *reply, uint64_t len);

#endif
