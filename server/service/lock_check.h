/*
 * lock_check: what write locks forbid (RFC 4918 section 7), asked inside the transaction of each
 * change, and what becomes of locks when a node goes. Nothing here costs a statement while nobody
 * holds a lock in the space.
 *
 * A lock stands in the way until the one who holds it shows its token. Of several shared locks on
 * one node any one of his will do.
 */
#ifndef OXI_SERVICE_LOCK_CHECK_H
#define OXI_SERVICE_LOCK_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"
#include "meta/lock_repo.h"
#include "meta/pg.h"
#include "service/principal.h"
#include "service/tree.h"

enum { LOCK_BLOCKERS_MAX = 100 }; /* named in one refusal */

/* The root of a lock that stood in the way. */
struct lock_blocker {
    const char *path; /* as in struct lock */
    enum node_kind kind;
    bool below; /* on something below what was to be changed */
};

/* The tokens that a request submits, and what the locks say to it. Belongs to one request. */
struct lock_tokens {
    char **tokens;
    size_t count;
    struct arena *arena; /* for what follows */
    /* Before the guard is asked: those of the tokens that are locks in force in the space. */
    struct lock *held;
    size_t held_count;
    /* With ERR_LOCKED. */
    struct lock_blocker *blockers;
    size_t blocker_count;
    bool conflict; /* they keep a new lock out, not a change */
};

/* What a change needs to be free, beside deep locks above. Bits. */
enum lock_need {
    LOCK_NEED_SELF = 1,   /* its bytes and properties */
    LOCK_NEED_PARENT = 2, /* what the folder above has in it */
    LOCK_NEED_BELOW = 4,  /* everything in it */

    LOCK_NEED_NOTHING = 0,
    LOCK_NEED_CREATE = LOCK_NEED_PARENT,
    LOCK_NEED_REMOVE = LOCK_NEED_SELF | LOCK_NEED_PARENT | LOCK_NEED_BELOW,
};

/*
 * May this principal change what is at the place? Looks up the tokens, asks the guard (NULL: lets
 * everything through), then the locks. ERR_LOCKED, with the blockers told to guard->tokens.
 */
int lock_check_change(struct pg_conn *conn, const struct principal *principal,
                      const struct space *space, const struct place *place, unsigned need,
                      const struct files_guard *guard, struct err *err);

/* The last part of it alone. tokens may be NULL: none. */
int lock_check(struct pg_conn *conn, const struct principal *principal, const struct space *space,
               const struct place *place, unsigned need, struct lock_tokens *tokens,
               struct err *err);

/*
 * The locks that matter for a need at a place; in the arena. *ret_above: how many of them are on
 * the place or above it, the others, behind them, are below.
 */
int lock_check_list(struct pg_conn *conn, const struct space *space, const struct place *place,
                    unsigned need, struct arena *arena, struct lock **ret_locks, size_t *ret_above,
                    size_t *ret_count, struct err *err);

/* Adds to the blockers; one on the same node is told once. tokens may be NULL. */
void lock_check_blame(struct lock_tokens *tokens, const struct lock *lock, bool below);

/* --- what becomes of locks; the change was allowed --- */

/* The tree is deleted: its locks end. */
int lock_check_removed(struct pg_conn *conn, const struct space *space, const struct node *node,
                       struct err *err);
/* Moved: locks on the node itself stay behind and end (section 7.6), those below go along. */
int lock_check_moved(struct pg_conn *conn, const struct space *space, const struct node *node,
                     struct err *err);
/* Another node took this one's place: locks below end, those on the address stay on it. */
int lock_check_replaced(struct pg_conn *conn, const struct space *space, const struct node *old,
                        int64_t new_node_id, struct err *err);

#endif
