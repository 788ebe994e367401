/*
 * tree: the steps that looking at and changing a tree share: follow a path, check what it leads
 * to, stamp what is above it. All run on the connection, and inside the transaction, of the caller.
 */
#ifndef OXI_SERVICE_TREE_H
#define OXI_SERVICE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "meta/node_repo.h"
#include "meta/pg.h"
#include "service/access.h"
#include "service/files.h"
#include "service/principal.h"

/* Where a path leads. */
struct place {
    const struct path *path; /* borrowed */
    struct node *nodes;      /* from the root of the space on, as far as there is something */
    size_t found;            /* how many: path->depth + 1 is all of it */
};

#define AUTO_PLACE __attribute__((cleanup(place_release)))
void place_release(struct place *place); /* what was zeroed or resolved */

/* place is zeroed. ERR_NOT_FOUND: not even the root may be known to this principal. */
int tree_resolve(struct pg_conn *conn, const struct principal *principal, const struct path *path,
                 struct place *place, struct err *err);

/* NULL: nothing is there. */
const struct node *place_node(const struct place *place);
const struct node *place_parent(const struct place *place);
/* How many nodes stand above the place: the first so many of nodes. */
size_t place_above(const struct place *place);

/* ERR_NOT_FOUND: nothing is there, or a file whose path was written like a folder's. */
int place_want_node(const struct place *place, struct err *err);
/* ERR_CONFLICT: the parent is missing or is a file. The root has no parent: ERR_DENIED. */
int place_want_parent(const struct place *place, struct err *err);

/* Gives the folders above the place, and with `self` itself, the sequence. */
int tree_stamp(struct pg_conn *conn, const struct place *place, bool self, int64_t seq,
               struct err *err);

/* "/a/b", for people and for the trash; in the arena. */
char *tree_path_text(const struct path *path, struct arena *arena);

/* An empty file at a place that has a parent and nothing else (commit.c). */
int tree_make_file(struct pg_conn *conn, const struct place *place, const struct space *space,
                   struct node *ret_node, struct err *err);

/* Runs the one transaction of a change; words names it where nobody can say whether it was
 * done (ERR_UNAVAILABLE). */
int tree_transact(struct files *files, pg_work work, void *job, const char *words, struct err *err);

#endif
