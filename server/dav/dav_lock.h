/*
 * dav_lock: locks as WebDAV writes them (RFC 4918 sections 14.1 and 15.8), and the answers to
 * those whom a lock keeps out. The handlers of LOCK and UNLOCK are in dav_lock.c, too.
 */
#ifndef OXI_DAV_DAV_LOCK_H
#define OXI_DAV_DAV_LOCK_H

#include <stddef.h>

#include "base/buf.h"
#include "http/request.h"
#include "service/lock_check.h"

/* The inside of DAV:lockdiscovery and of DAV:supportedlock. prefix: of the route. */
void dav_lock_write_active(struct buf *out, const char *prefix, const struct lock *locks,
                           size_t count);
void dav_lock_write_supported(struct buf *out);

/*
 * Answers a request that locks kept out: 423 and the roots of those locks; 207 with a 423 for each
 * of them when all are on members of the folder in question (sections 9.6.1, 9.9.4, 9.10.9).
 */
void dav_lock_refuse(struct request *request, const struct lock_tokens *tokens);

#endif
