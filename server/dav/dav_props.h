/*
 * dav_props: live properties, RFC 4918 section 15 and RFC 4331: a table of name and function.
 * Also which names of DAV: nobody may set, and which dead properties mean more than themselves.
 */
#ifndef OXI_DAV_DAV_PROPS_H
#define OXI_DAV_DAV_PROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "meta/lock_repo.h"
#include "meta/node_repo.h"

/* What live properties are made from. */
struct dav_subject {
    const struct node *node;
    const char *root_name;    /* shown for the root of a space, which has no name of its own */
    uint64_t used_bytes;      /* of the space */
    int64_t quota_bytes;      /* -1: none in force */
    const char *prefix;       /* of the route, for the addresses of locks */
    const struct lock *locks; /* that cover the node */
    size_t lock_count;
};

struct dav_live {
    const char *name; /* in DAV: */
    bool on_request;  /* allprop leaves it out */
    bool wants_usage; /* needs used_bytes and quota_bytes */
    bool wants_locks; /* needs locks */
    bool (*exists)(const struct dav_subject *subject);
    void (*write)(struct buf *out, const struct dav_subject *subject); /* the inside */
};

const struct dav_live *dav_live_all(size_t *ret_count);
const struct dav_live *dav_live_find(const char *ns, const char *name); /* NULL: none */

/* May no client set or remove it? */
bool dav_prop_is_protected(const char *ns, const char *name);

/*
 * A property that sets the time of last change when it is set. stored: it is a dead property all
 * the same. strict: a value that is no time is refused, else it is only stored.
 */
struct dav_mtime_prop {
    const char *ns;
    const char *name;
    bool stored;
    bool strict;
    bool (*parse)(struct slice value, int64_t *ret_mtime_us);
};

const struct dav_mtime_prop *dav_mtime_prop_find(const char *ns, const char *name);

#endif
