/*
 * dav: the WebDAV surface, RFC 4918 classes 1, 2 and 3, below "/webdav". It translates: rules live in
 * service/files.h, the mechanics of HTTP in http/. This header has the routes, and what the
 * handlers (dav_find.c, dav_patch.c, dav_content.c, dav_tree.c, ...) share. Handlers run on workers
 * and may wait for the disk and the database.
 */
#ifndef OXI_DAV_DAV_H
#define OXI_DAV_DAV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "http/router.h"
#include "service/files.h"

struct dav {
    struct files *files; /* both borrowed */
    const struct config *config;
};

struct dav *dav_new(struct files *files, const struct config *config);
void dav_free(struct dav *dav); /* NULL is welcome */
/* The router borrows dav. */
void dav_routes(struct dav *dav, struct router *router);

extern const struct handler dav_find_handler;     /* PROPFIND */
extern const struct handler dav_report_handler;   /* REPORT */
extern const struct handler dav_patch_handler;    /* PROPPATCH */
extern const struct handler dav_get_handler;      /* GET, HEAD */
extern const struct handler dav_put_handler;      /* PUT */
extern const struct handler dav_update_handler;   /* PATCH */
extern const struct handler dav_mkcol_handler;    /* MKCOL */
extern const struct handler dav_delete_handler;   /* DELETE */
extern const struct handler dav_transfer_handler; /* COPY, MOVE */
extern const struct handler dav_lock_handler;     /* LOCK */
extern const struct handler dav_unlock_handler;   /* UNLOCK */

static inline struct dav *
dav_of(const struct request *request)
{
    return request->ctx;
}

/* --- what comes in --- */

enum dav_depth { DAV_DEPTH_0, DAV_DEPTH_1, DAV_DEPTH_INFINITY };

/* The Depth header, or absent when there is none. ERR_INVALID: another value. */
int dav_depth(const struct request *request, enum dav_depth absent, enum dav_depth *ret_depth,
              struct err *err);

/* The Overwrite header; true when there is none. ERR_INVALID: neither T nor F. */
int dav_overwrite(const struct request *request, bool *ret_overwrite, struct err *err);

/* The X-OC-Mtime header: seconds since 1970. -1 when absent, not a time, or not after 1970. */
int64_t dav_mtime(const struct request *request);
/* Tells the client that its X-OC-Mtime was honoured; nothing when it was not (-1). */
void dav_mtime_accepted(struct request *request, int64_t mtime_us);

enum dav_place { DAV_HERE, DAV_OUTSIDE, DAV_ELSEWHERE };

/*
 * A reference to a resource as Destination and If carry it: an absolute URL of any scheme, or a
 * path. DAV_HERE: below the prefix of this request's route, *ret_path is set; DAV_OUTSIDE: on this
 * server but not there; DAV_ELSEWHERE: another server. ERR_INVALID: no such reference, or a path
 * that is none.
 */
int dav_resolve(struct request *request, struct slice reference, enum dav_place *ret_place,
                struct path *ret_path, struct err *err);

/* --- looking --- */

/* The node of the request. A file asked for with a slash at its end is ERR_NOT_FOUND. */
int dav_stat(const struct request *request, struct node *ret_node, struct err *err);

/* --- what goes out --- */

/* What is in front of every path, as the client sees it: "/webdav". */
const char *dav_prefix(struct request *request);

/* "/webdav/a%20b", with a slash at the end of a folder. */
void dav_href(struct buf *out, struct request *request, const struct path *path, bool collection);

/* ETag and, for a file, Last-Modified. */
void dav_entity_headers(struct request *request, const struct node *node);

/* The page that a GET of a folder answers (dav_listing.c). */
int dav_listing_reply(struct request *request, const struct node *folder, struct err *err);

/* <D:error><D:condition/></D:error>, RFC 4918 section 16. */
void dav_reply_error(struct request *request, int status, const char *condition);

#endif
