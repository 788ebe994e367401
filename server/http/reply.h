/*
 * reply: what goes back: status, headers, body. A handler fills it; send.c sends it. An error
 * that a handler returns becomes a reply here: the one table from err code to HTTP status.
 */
#ifndef OXI_HTTP_REPLY_H
#define OXI_HTTP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct request;
struct content_reader;

struct reply_header {
    struct reply_header *next;
    const char *name;
    const char *value;
};

enum reply_body { REPLY_NONE, REPLY_BYTES, REPLY_CONTENT, REPLY_PAGES };

/*
 * A body made page by page on a worker while the client takes it, so that memory does not grow
 * with it. page appends to out and says whether there is more. When it fails, the answer is
 * broken off in a way that cannot look complete. free is called once, whatever happens.
 */
struct reply_pager {
    int (*page)(struct reply_pager *pager, struct buf *out, bool *ret_more, struct err *err);
    void (*free)(struct reply_pager *pager);
};

struct reply {
    int status; /* 0: none yet */
    struct reply_header *headers;
    enum reply_body kind;
    struct buf bytes;              /* REPLY_BYTES */
    struct content_reader *reader; /* REPLY_CONTENT */
    uint64_t length;               /* of the content; of a HEAD: what GET would say */
    struct reply_pager *pager;     /* REPLY_PAGES */
    bool close;                    /* the connection ends after it */
};

/* A reply without body. */
void reply_status(struct request *request, int status);
/* In the arena; control characters in the value are replaced by blanks. */
void reply_header(struct request *request, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the buffer over; its memory is freed with the request. */
void reply_bytes(struct request *request, int status, const char *type, struct buf *bytes);
void reply_text(struct request *request, int status, const char *text);
/* Takes the reader over; length bytes of it are sent. */
void reply_content(struct request *request, int status, struct content_reader *reader,
                   uint64_t length);
/* The answer to a HEAD: headers of a body of that length, without the body. */
void reply_head(struct request *request, int status, uint64_t length);
/* Takes the pager over. The first page is made before the head is sent; when it is the only one
 * the answer has a length. */
void reply_pages(struct request *request, int status, const char *type, struct reply_pager *pager);

/* Adds Allow: the methods that exist at this path. */
void reply_allow(struct request *request);

/* Replaces whatever reply there is by the one for err, and logs what an operator must know. */
void reply_error(struct request *request, const struct err *err);

#endif
