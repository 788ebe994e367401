/*
 * locks: taking, refreshing, ending and showing write locks (RFC 4918 sections 6 and 9.10). They
 * belong to the user who took them, lie in the database, and are in force on every node at once.
 * What they forbid is in lock_check.h.
 *
 * Functions that change locks want a guard with tokens (its arena takes the results).
 */
#ifndef OXI_SERVICE_LOCKS_H
#define OXI_SERVICE_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "meta/lock_repo.h"
#include "service/files.h"
#include "service/lock_check.h"
#include "service/principal.h"

enum {
    LOCKS_OWNER_MAX_BYTES = 4096,
    LOCKS_PER_USER_MAX = 10000,
};

/* A time that the server chooses; longer ones than it allows are cut. */
enum { LOCKS_TIMEOUT_ANY = 0 };

struct lock_wish {
    bool shared;
    bool deep;            /* Depth: infinity */
    const char *owner;    /* XML that needs no context */
    int64_t timeout_secs; /* LOCKS_TIMEOUT_ANY, or above 0 */
};

/*
 * Locks what is at the path; when nothing is, makes an empty file first (*ret_created).
 * ERR_LOCKED: a lock is in the way: of the new lock (tokens->conflict), or of making a file.
 * ERR_QUOTA: the user holds LOCKS_PER_USER_MAX.
 */
int locks_take(struct files *files, const struct principal *principal, const struct path *path,
               const struct lock_wish *wish, const struct files_guard *guard, struct lock *ret_lock,
               bool *ret_created, struct err *err);

/* The submitted locks of this principal that cover the path begin anew; LOCKS_TIMEOUT_ANY: for as
 * long as at first. ERR_PRECONDITION: there is none. */
int locks_refresh(struct files *files, const struct principal *principal, const struct path *path,
                  int64_t timeout_secs, const struct files_guard *guard, struct lock **ret_locks,
                  size_t *ret_count, struct err *err);

/* Ends a lock, named at any path it covers. ERR_CONFLICT: it does not cover this one, or there is
 * no such lock. ERR_DENIED: it is somebody else's. */
int locks_end(struct files *files, const struct principal *principal, const struct path *path,
              const char *token, const struct files_guard *guard, struct err *err);

/* Which of the tokens are locks in force in the principal's space: for conditions of a request that
 * changes nothing. Changes learn it in their transaction (lock_check.h). */
int locks_find_held(struct files *files, const struct principal *principal,
                    struct lock_tokens *tokens, struct err *err);

/* The locks that cover these nodes, which the principal may read; by subject_id. */
int locks_of(struct files *files, const int64_t *node_ids, size_t count, struct arena *arena,
             struct lock **ret_locks, size_t *ret_count, struct err *err);

/* Removes what has expired, of everybody. */
int locks_expire(struct files *files, uint64_t *ret_count, struct err *err);

/* Could this be a token of ours? Others need no look. */
bool locks_is_token(struct slice token);

#endif
