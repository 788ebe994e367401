/*
 * precond: conditional requests, RFC 9110 section 13. The order of evaluation is that of section
 * 13.2.2. An entity tag that is none (clients send such) matches nothing and is no error.
 */
#ifndef OXI_HTTP_PRECOND_H
#define OXI_HTTP_PRECOND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "http/request.h"

/* What the conditions are held against. */
struct precond_subject {
    bool exists;
    const char *etag; /* quoted, strong; NULL when there is none */
    int64_t mtime_us;
};

enum precond_result { PRECOND_GO, PRECOND_NOT_MODIFIED, PRECOND_FAILED };

/* reading: GET and HEAD, for which If-None-Match and If-Modified-Since answer 304. */
enum precond_result precond_check(const struct request *request,
                                  const struct precond_subject *subject, bool reading);

/* If-Range, section 13.1.5: may the Range header be honoured? True when there is none. */
bool precond_range_holds(const struct request *request, const struct precond_subject *subject);

/* Is etag in this list, by strong or by weak comparison? "*" is not looked at. */
bool precond_list_has(struct slice list, struct slice etag, bool weak);

#endif
