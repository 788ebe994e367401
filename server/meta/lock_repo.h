/*
 * lock_repo: write locks of nodes (RFC 4918 section 6). A lock is in force until it expires; only
 * such ones are ever returned, so that a row that nobody has removed yet does no harm. Whoever
 * changes locks has the row of their space locked (node_repo_lock_space), and notes it at the end
 * (lock_repo_note). In the order of row locks they come after nodes.
 */
#ifndef OXI_META_LOCK_REPO_H
#define OXI_META_LOCK_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "meta/node_repo.h"
#include "meta/pg.h"

struct lock {
    char *token; /* a URI */
    int64_t node_id;
    int64_t space_id;
    int64_t user_id;
    bool shared;
    bool deep;            /* on everything below, too */
    char *owner;          /* what the client wrote: the inside of DAV:owner, or "" */
    int64_t timeout_secs; /* what is left of it */
    /* Of the node; filled by looking. */
    enum node_kind kind;
    char *path;         /* "/a/b"; "" for the root of the space */
    char *path_key;     /* the same in NFC */
    int64_t subject_id; /* lock_repo_covering() only: the node that was asked about */
};

/* What is looked for comes back in the arena, oldest first. */

/* On exactly these nodes. */
int lock_repo_on(struct pg_conn *conn, const int64_t *node_ids, size_t count, struct arena *arena,
                 struct lock **ret_locks, size_t *ret_count, struct err *err);
/* On nodes below this one, at any depth. */
int lock_repo_below(struct pg_conn *conn, int64_t space_id, int64_t node_id, struct arena *arena,
                    struct lock **ret_locks, size_t *ret_count, struct err *err);
/* Those of these tokens that are locks of the space. */
int lock_repo_find(struct pg_conn *conn, int64_t space_id, char *const *tokens, size_t count,
                   struct arena *arena, struct lock **ret_locks, size_t *ret_count,
                   struct err *err);
/* That cover these nodes: on them, or deep and above. By subject_id. */
int lock_repo_covering(struct pg_conn *conn, const int64_t *node_ids, size_t count,
                       struct arena *arena, struct lock **ret_locks, size_t *ret_count,
                       struct err *err);
/* How many a user holds, in all spaces. */
int lock_repo_count(struct pg_conn *conn, int64_t user_id, uint64_t *ret_count, struct err *err);

/* From token to timeout_secs. */
int lock_repo_insert(struct pg_conn *conn, const struct lock *lock, struct err *err);
/* It expires so many seconds from now; timeout_secs 0: as many as it was given at first. */
int lock_repo_refresh(struct pg_conn *conn, const char *token, int64_t timeout_secs,
                      struct err *err);
int lock_repo_remove(struct pg_conn *conn, const char *token, struct err *err);
/* Ends all locks on a node, or all below it. */
int lock_repo_end_on(struct pg_conn *conn, int64_t node_id, struct err *err);
int lock_repo_end_below(struct pg_conn *conn, int64_t space_id, int64_t node_id, struct err *err);
/* Locks on a node are on another one from now on. */
int lock_repo_carry(struct pg_conn *conn, int64_t from_node_id, int64_t to_node_id,
                    struct err *err);
/* Brings the space's row up to date (space.locked). */
int lock_repo_note(struct pg_conn *conn, int64_t space_id, struct err *err);

/* Removes rows of locks that have expired, some at a time; space_id 0: of any space, without its
 * row locked. */
int lock_repo_expire(struct pg_conn *conn, int64_t space_id, uint64_t *ret_count, struct err *err);

#endif
