/*
 * dav_guard: everything a writing request demands of its resources before it may write: the
 * If header, the conditions of RFC 9110 section 13, a final slash only behind a folder, and a
 * Depth that suits a folder. It is asked inside the transaction that writes (files_guard), so
 * what it saw is what is changed. It also carries the lock tokens that the request submits, and
 * makes the answer when locks refuse it. Of a request that only reads, the If header counts too
 * (RFC 4918 section 10.4): dav_guard_read().
 */
#ifndef OXI_DAV_DAV_GUARD_H
#define OXI_DAV_DAV_GUARD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/path.h"
#include "http/request.h"
#include "service/files.h"

struct dav_guard;

/*
 * Reads the headers, and looks up what the tags of an If header name. target: of a COPY or MOVE,
 * or NULL; borrowed. whole_folders: a folder is refused (its Depth is not infinity). The guard
 * lies in the request's arena. ERR_INVALID: a malformed If header.
 */
int dav_guard_new(struct request *request, const struct path *target, bool whole_folders,
                  struct dav_guard **ret_guard, struct err *err);

/* The If header of a request that only reads this node. ERR_PRECONDITION: it does not hold. */
int dav_guard_read(struct request *request, const struct node *node, struct err *err);

/* For the resource of the request, and for the target. */
struct files_guard dav_guard_source(struct dav_guard *guard);
struct files_guard dav_guard_target(struct dav_guard *guard);

/* What a change failed with: a lock in the way is answered here, with its address (0); any other
 * error is passed on (-1). */
int dav_guard_refuse(struct dav_guard *guard, const struct err *err);

#endif
