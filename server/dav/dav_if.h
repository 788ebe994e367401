/*
 * dav_if: the If header, RFC 4918 section 10.4: read, and decided by asking the caller about each
 * condition. Pure.
 */
#ifndef OXI_DAV_DAV_IF_H
#define OXI_DAV_DAV_IF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

enum { DAV_IF_CONDITIONS_MAX = 1000 };

enum dav_if_kind { DAV_IF_TOKEN, DAV_IF_ETAG };

struct dav_if_condition {
    enum dav_if_kind kind;
    bool negated;
    struct slice value; /* a token without its angle brackets; an entity tag with its quotes */
};

/* True when all of its conditions are. */
struct dav_if_list {
    bool tagged;
    struct slice tag; /* the resource it is about, as it was written; else that of the request */
    struct dav_if_condition *conditions;
    size_t count;
};

/* True when one of its lists is. */
struct dav_if {
    struct dav_if_list *lists;
    size_t count;
};

/* Slices point into header, arrays lie in the arena. ERR_INVALID: not the grammar; ERR_TOO_LARGE:
 * too many conditions. */
int dav_if_parse(struct slice header, struct arena *arena, struct dav_if *ret_if, struct err *err);

/* Does a condition, its "Not" left aside, hold for the resource of its list? */
typedef bool (*dav_if_ask)(void *ctx, const struct dav_if_list *list,
                           const struct dav_if_condition *condition);

bool dav_if_holds(const struct dav_if *header, dav_if_ask ask, void *ctx);

#endif
