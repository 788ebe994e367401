/*
 * node_repo: spaces, their nodes and sequence, and what lies in the trash. A node is a folder or a
 * file. parent 0 is none: the root of a space, or the root of a tree in the trash. Every mutation
 * begins with node_repo_lock_space(), which makes it the only writer of that space and gives it
 * its sequence.
 *
 * A name is kept as it was written. Names that differ only in their Unicode normalisation are one
 * name: found by either, taken by either.
 */
#ifndef OXI_META_NODE_REPO_H
#define OXI_META_NODE_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/path.h"
#include "meta/pg.h"
#include "storage/digest.h"

enum node_kind { NODE_FOLDER = 0, NODE_FILE = 1 };

enum { NODE_MIME_MAX = 127 };

struct node {
    int64_t id;
    int64_t space_id;
    int64_t parent_id; /* 0: none */
    enum node_kind kind;
    char name[PATH_NAME_MAX_BYTES + 1]; /* "" for the root of a space */
    struct digest content_id;           /* files */
    uint64_t size_bytes;                /* files */
    char mime[NODE_MIME_MAX + 1];
    int64_t mtime_us;
    int64_t created_us;
    int64_t seq;         /* of the last change of it or of anything below it */
    int64_t content_seq; /* of the last change of its bytes; files */
    int64_t link_seq;    /* when it was put where it is, under its name */
    bool space_locked;   /* node_repo_walk() only: as space.locked */
};

struct space {
    int64_t id;
    int64_t root_id;
    int64_t seq;         /* after lock_space: the sequence of this mutation */
    uint64_t used_bytes; /* files and trash */
    int64_t quota_bytes; /* -1: none */
    bool locked;         /* there may be locks in force (lock_repo.h) */
};

int node_repo_make_space(struct pg_conn *conn, int64_t owner_id, int64_t *ret_space_id,
                         struct err *err);
/* Takes the row lock and the next sequence. ERR_LOGIN, here and below: the account is gone. */
int node_repo_lock_space(struct pg_conn *conn, int64_t space_id, struct space *ret_space,
                         struct err *err);
int node_repo_get_space(struct pg_conn *conn, int64_t space_id, struct space *ret_space,
                        struct err *err);
/* Adds (or takes) bytes. */
int node_repo_use(struct pg_conn *conn, int64_t space_id, int64_t delta_bytes, struct err *err);

/*
 * Follows a path from the root of a space as far as it exists, in one statement. nodes has room
 * for depth + 1; nodes[0] is the root; *ret_found is how many there are (depth + 1: all of it).
 */
int node_repo_walk(struct pg_conn *conn, int64_t space_id, const struct path *path,
                   struct node *nodes, size_t *ret_found, struct err *err);
int node_repo_get(struct pg_conn *conn, int64_t node_id, struct node *ret_node, struct err *err);

/* Inserts from parent_id, space_id, kind, name, content, size, mime, mtime, seq; sets id. Both
 * content_seq and link_seq become seq. ERR_EXISTS: the name is taken. */
int node_repo_insert(struct pg_conn *conn, struct node *node, struct err *err);
/* New bytes for a file: content, size, mime, mtime; seq and content_seq = node->seq. */
int node_repo_set_content(struct pg_conn *conn, const struct node *node, struct err *err);
int node_repo_set_mtime(struct pg_conn *conn, int64_t node_id, int64_t mtime_us, struct err *err);
/* Leaves a removal behind where it was (change_repo.h), as node_repo_trash() does. */
int node_repo_move(struct pg_conn *conn, int64_t node_id, int64_t parent_id, const char *name,
                   int64_t seq, struct err *err);
/* Copies a node and, unless shallow, all below it, with their properties; contents get a
 * reference per copy. mtimes are kept. */
int node_repo_copy(struct pg_conn *conn, int64_t node_id, bool shallow, int64_t parent_id,
                   const char *name, int64_t seq, int64_t *ret_node_id, struct err *err);
/* Stamps these nodes (a node's ancestors, usually). */
int node_repo_stamp(struct pg_conn *conn, const int64_t *node_ids, size_t count, int64_t seq,
                    struct err *err);

struct tree_totals {
    uint64_t files;
    uint64_t folders;
    uint64_t bytes;
};
/* Of a node and all below it. */
int node_repo_subtree(struct pg_conn *conn, int64_t node_id, struct tree_totals *ret_totals,
                      struct err *err);
/* How many nodes are below this one; counts no further than `most`. */
int node_repo_count_below(struct pg_conn *conn, int64_t node_id, uint64_t most, uint64_t *ret_count,
                          struct err *err);
/* Of all spaces, without the trash. The root of a space does not count as a folder. */
int node_repo_totals(struct pg_conn *conn, struct tree_totals *ret_totals, struct err *err);

/* --- trash (node_repo_trash.c) --- */

struct trash_entry {
    int64_t node_id;
    int64_t space_id;
    int64_t parent_id; /* where it was; 0 when that is gone */
    int64_t deleted_us;
    enum node_kind kind;
    uint64_t bytes; /* of the whole tree */
    char *path;     /* where it was, "/a/b"; in the arena of the call */
};

/* Takes a node out of its folder and remembers path (slash separated, for people). */
int node_repo_trash(struct pg_conn *conn, const struct node *node, const char *path, int64_t seq,
                    struct err *err);
int node_repo_trash_list(struct pg_conn *conn, int64_t space_id, int64_t after_node_id,
                         struct arena *arena, struct trash_entry *entries, size_t cap,
                         size_t *ret_count, struct err *err);
/* Entries, of any space, that were deleted before before_us or are being purged since. */
int node_repo_trash_expired(struct pg_conn *conn, int64_t before_us, uint64_t *ret_count,
                            struct err *err);
/* Locks the entry. ERR_NOT_FOUND: none, or being purged. */
int node_repo_trash_get(struct pg_conn *conn, int64_t space_id, int64_t node_id,
                        struct arena *arena, struct trash_entry *ret_entry, struct err *err);
/* Puts the tree back below parent_id under name and forgets the entry. */
int node_repo_trash_restore(struct pg_conn *conn, int64_t node_id, int64_t parent_id,
                            const char *name, int64_t seq, struct err *err);
/* Is this folder reachable from the root of its space? */
int node_repo_is_live(struct pg_conn *conn, int64_t node_id, bool *ret_live, struct err *err);
/* The path of a live node, for people. */
int node_repo_path(struct pg_conn *conn, int64_t node_id, struct arena *arena, char **ret_path,
                   struct err *err);

/*
 * One bounded step of purging, in the transaction of the caller: picks an entry deleted before
 * before_us (space_id 0: of any space), removes up to a few hundred of its nodes from the leaves
 * on, gives back their contents' references and the space's used bytes. *ret_more: call again.
 * *ret_purged: nodes removed.
 */
int node_repo_purge_step(struct pg_conn *conn, int64_t space_id, int64_t before_us,
                         uint64_t *ret_purged, bool *ret_more, struct err *err);

#endif
