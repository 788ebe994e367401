/*
 * digest_fields: the digests that clients ask for and send: Want-Repr-Digest,
 * Want-Content-Digest, Repr-Digest and Content-Digest (RFC 9530), and Want-Digest and Digest
 * (RFC 3230). Only sha-256 is known; other algorithms are passed over.
 */
#ifndef OXI_HTTP_DIGEST_FIELDS_H
#define OXI_HTTP_DIGEST_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sha256.h"
#include "http/request.h"

struct digest_wants {
    bool repr;    /* of the whole file, whatever part of it is sent */
    bool content; /* of what is sent */
    bool old;     /* as RFC 3230 writes it */
};

/* False: nothing is wanted. */
bool digest_wants_read(const struct request *request, struct digest_wants *ret_wants);
/* Adds what is wanted; sent_whole: what is sent is the file, all of it. */
void digest_fields_reply(struct request *request, const struct digest_wants *wants,
                         const struct sha256 *sum, bool sent_whole);

/* The digests sent with a body, and that of what has come. NULL: none were sent, and all calls
 * are welcome. In the request's arena. */
struct digest_check;

/* Before the body. ERR_INVALID: a sha-256 that is none. */
int digest_check_new(struct request *request, struct digest_check **ret_check, struct err *err);
void digest_check_add(struct digest_check *check, const void *data, size_t len);
/* ERR_INVALID: the body is another. *ret_sum: of the body; not set when there is no check. */
int digest_check_end(struct digest_check *check, struct sha256 *ret_sum, struct err *err);

#endif
