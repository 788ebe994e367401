/*
 * dav_multistatus: the responses of a DAV:multistatus with the properties that were asked for, as
 * PROPFIND and REPORT give them.
 */
#ifndef OXI_DAV_DAV_MULTISTATUS_H
#define OXI_DAV_DAV_MULTISTATUS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "dav/dav_ask.h"
#include "dav/dav_props.h"
#include "http/request.h"
#include "meta/prop_repo.h"
#include "service/walk.h"

#define DAV_MULTISTATUS_START DAV_XML_HEAD "<D:multistatus xmlns:D=\"DAV:\">\n"
#define DAV_MULTISTATUS_END "</D:multistatus>\n"

enum { DAV_PAGE_SOFT_BYTES = 256 << 10 }; /* a page ends with the response that passes this */

/* Lives as long as the answer, which may be longer than the request: holds all it needs. */
struct dav_multistatus {
    struct files *files;
    struct arena arena; /* of the whole answer */
    struct dav_ask ask;
    struct dav_subject subject; /* the node in it changes from response to response */
    struct buf root_href;       /* of the resource that was asked about */
    struct arena props_arena;   /* dead properties and locks of the nodes at hand */
    struct prop *props;         /* ordered by node */
    size_t prop_count;
    bool space_locked;  /* there may be locks */
    struct lock *locks; /* on the nodes at hand, ordered by node */
    size_t lock_count;
};

void dav_multistatus_init(struct dav_multistatus *multi, struct request *request);
void dav_multistatus_release(struct dav_multistatus *multi);

/* Once ask is filled: what is the same for all nodes. root is the resource asked about. */
int dav_multistatus_begin(struct dav_multistatus *multi, struct request *request,
                          const struct node *root, struct err *err);

/* Reads what is not in the nodes themselves, for the responses about these. */
int dav_multistatus_load(struct dav_multistatus *multi, const struct node *nodes, size_t count,
                         struct err *err);

/* A response about the resource itself. */
void dav_multistatus_root(struct dav_multistatus *multi, struct buf *out, const struct node *node);
/* folder: the way from there, "a/b/", as walk.h has it. */
void dav_multistatus_member(struct dav_multistatus *multi, struct buf *out, struct slice folder,
                            const struct node *node);
/* One that is not there any more. */
void dav_multistatus_removal(struct dav_multistatus *multi, struct buf *out, struct slice folder,
                             const struct removal *removal);

#endif
