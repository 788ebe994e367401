/*
 * prop_repo: dead properties of nodes (RFC 4918 section 4). They go where their node goes, are
 * copied with it (node_repo_copy) and vanish with it.
 */
#ifndef OXI_META_PROP_REPO_H
#define OXI_META_PROP_REPO_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "meta/pg.h"

struct prop {
    int64_t node_id;
    char *ns; /* "" : no namespace */
    char *name;
    char *value; /* the inside of the element: well-formed XML that needs no context */
    char *lang;  /* xml:lang in force, or "" */
};

/* All properties of these nodes, ordered by node; strings and array in the arena. */
int prop_repo_list(struct pg_conn *conn, const int64_t *node_ids, size_t count, struct arena *arena,
                   struct prop **ret_props, size_t *ret_count, struct err *err);
int prop_repo_set(struct pg_conn *conn, const struct prop *prop, struct err *err);
/* Bytes of all names and values of a node. */
int prop_repo_size(struct pg_conn *conn, int64_t node_id, uint64_t *ret_bytes, struct err *err);
/* One that is not there is fine. */
int prop_repo_remove(struct pg_conn *conn, int64_t node_id, const char *ns, const char *name,
                     struct err *err);

#endif
