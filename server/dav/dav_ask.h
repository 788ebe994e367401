/*
 * dav_ask: which properties a request wants to be told of, and how tersely.
 */
#ifndef OXI_DAV_DAV_ASK_H
#define OXI_DAV_DAV_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "dav/dav_props.h"
#include "dav/dav_xml.h"
#include "http/request.h"

enum { DAV_ASK_NAMES_MAX = 500 };

enum dav_ask_kind { DAV_ASK_ALLPROP, DAV_ASK_PROPNAME, DAV_ASK_PROP };

struct dav_ask_name {
    const char *ns;
    const char *name;
    const struct dav_live *live; /* or NULL */
};

struct dav_ask {
    enum dav_ask_kind kind;
    struct dav_ask_name *names; /* for allprop: those of include */
    size_t count;
    bool wants_dead;
    bool wants_usage;
    bool wants_locks;
    bool is_minimal; /* properties that are not there are passed over (RFC 8144) */
};

/* A DAV:propfind, or no body. Everything lies in the arena. ERR_INVALID: no such body;
 * ERR_TOO_LARGE: too many names. */
int dav_ask_body(struct slice body, struct arena *arena, struct dav_ask *ret_ask, struct err *err);

/* Just the properties in this DAV:prop. */
int dav_ask_list(const struct dav_xml *list, struct arena *arena, struct dav_ask *ret_ask,
                 struct err *err);

/* "Prefer: return=minimal" (RFC 8144), or "Brief: t", its forerunner. */
bool dav_ask_is_minimal(const struct request *request);
/* Says in the reply that it was done, when Prefer has asked for it. */
void dav_ask_applied(struct request *request);

#endif
