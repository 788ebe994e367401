/*
 * byteranges: the body of an answer with several ranges, multipart/byteranges, RFC 9110
 * section 14.6. It is made page by page while the client takes it, so memory does not grow with
 * the ranges, and its length is known beforehand.
 */
#ifndef OXI_HTTP_BYTERANGES_H
#define OXI_HTTP_BYTERANGES_H

#include <stdint.h>

#include "http/range.h"
#include "http/request.h"
#include "storage/store.h"

/* What the ranges are of. */
struct byteranges_source {
    struct store *store; /* borrowed */
    struct digest content_id;
    uint64_t size_bytes;
    const char *type; /* of the content; of a string that outlives the call */
};

/* Replies 206. The ranges lie inside the content; they are copied. */
void byteranges_reply(struct request *request, const struct byteranges_source *source,
                      const struct range_list *ranges);

#endif
