#include "service/lock_check.h"

#include <string.h>

#include "base/cleanup.h"

/* --- which locks matter --- */

/* Locks on the way are known by their node's place on it: the last node is the place itself. */
static bool
matters(const struct place *place, unsigned need, const struct lock *lock)
{
    for (size_t i = 0; i < place->found; i++) {
        if (place->nodes[i].id != lock->node_id)
            continue;
        if (i == place->path->depth)
            return need & LOCK_NEED_SELF;
        return lock->deep || ((need & LOCK_NEED_PARENT) && i + 1 == place->path->depth);
    }
    return false;
}

static int
list_way(struct pg_conn *conn, const struct place *place, unsigned need, struct arena *arena,
         struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_FREE int64_t *ids = mem_array(place->found + 1, sizeof(*ids));
    struct lock *locks;
    size_t count;
    size_t kept = 0;

    for (size_t i = 0; i < place->found; i++)
        ids[i] = place->nodes[i].id;
    if (lock_repo_on(conn, ids, place->found, arena, &locks, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (matters(place, need, &locks[i]))
            locks[kept++] = locks[i];
    }
    *ret_locks = locks;
    *ret_count = kept;
    return 0;
}

int
lock_check_list(struct pg_conn *conn, const struct space *space, const struct place *place,
                unsigned need, struct arena *arena, struct lock **ret_locks, size_t *ret_above,
                size_t *ret_count, struct err *err)
{
    const struct node *node = place_node(place);
    struct lock *above = NULL, *below = NULL, *all;
    size_t above_count = 0, below_count = 0;

    *ret_above = *ret_count = 0;
    *ret_locks = NULL;
    if (!space->locked || need == LOCK_NEED_NOTHING)
        return 0;
    if (list_way(conn, place, need, arena, &above, &above_count, err) < 0)
        return -1;
    if ((need & LOCK_NEED_BELOW) && node && node->kind == NODE_FOLDER &&
        lock_repo_below(conn, space->id, node->id, arena, &below, &below_count, err) < 0)
        return -1;
    all = arena_zalloc(arena, (above_count + below_count) * sizeof(*all));
    for (size_t i = 0; i < above_count; i++)
        all[i] = above[i];
    for (size_t i = 0; i < below_count; i++)
        all[above_count + i] = below[i];
    *ret_locks = all;
    *ret_above = above_count;
    *ret_count = above_count + below_count;
    return 0;
}

/* --- whether they let a change be --- */

static bool
is_submitted(const struct lock_tokens *tokens, const char *token)
{
    for (size_t i = 0; tokens && i < tokens->count; i++) {
        if (strcmp(tokens->tokens[i], token) == 0)
            return true;
    }
    return false;
}

/* An exclusive lock wants its own token. */
static bool
is_open(const struct principal *principal, const struct lock_tokens *tokens,
        const struct lock *locks, size_t count, const struct lock *lock)
{
    for (size_t i = 0; i < count; i++) {
        const struct lock *other = &locks[i];

        if (other->node_id == lock->node_id && (other == lock || lock->shared) &&
            other->user_id == principal->user_id && is_submitted(tokens, other->token))
            return true;
    }
    return false;
}

void
lock_check_blame(struct lock_tokens *tokens, const struct lock *lock, bool below)
{
    struct lock_blocker blocker = {.kind = lock->kind, .below = below};

    if (!tokens || tokens->blocker_count == LOCK_BLOCKERS_MAX)
        return;
    for (size_t i = 0; i < tokens->blocker_count; i++) {
        if (strcmp(tokens->blockers[i].path, lock->path) == 0)
            return;
    }
    if (!tokens->blockers)
        tokens->blockers =
            arena_zalloc(tokens->arena, LOCK_BLOCKERS_MAX * sizeof(*tokens->blockers));
    blocker.path = arena_strdup(tokens->arena, lock->path);
    tokens->blockers[tokens->blocker_count++] = blocker;
}

static int
check_in(struct pg_conn *conn, const struct principal *principal, const struct space *space,
         const struct place *place, unsigned need, struct lock_tokens *tokens, struct arena *arena,
         struct err *err)
{
    struct lock *locks;
    size_t above, count;
    bool open = true;

    if (lock_check_list(conn, space, place, need, arena, &locks, &above, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (is_open(principal, tokens, locks, count, &locks[i]))
            continue;
        open = false;
        lock_check_blame(tokens, &locks[i], i >= above);
    }
    return open ? 0 : err_set(err, ERR_LOCKED, "it is locked, and the lock's token was not sent");
}

int
lock_check(struct pg_conn *conn, const struct principal *principal, const struct space *space,
           const struct place *place, unsigned need, struct lock_tokens *tokens, struct err *err)
{
    struct arena arena;
    int rc;

    if (!space->locked)
        return 0;
    arena_init(&arena);
    rc = check_in(conn, principal, space, place, need, tokens, &arena, err);
    arena_release(&arena);
    return rc;
}

/* A transaction that is tried again begins anew. */
static int
load_held(struct pg_conn *conn, const struct space *space, struct lock_tokens *tokens,
          struct err *err)
{
    tokens->held_count = tokens->blocker_count = 0;
    tokens->conflict = false;
    if (!space->locked || tokens->count == 0)
        return 0;
    return lock_repo_find(conn, space->id, tokens->tokens, tokens->count, tokens->arena,
                          &tokens->held, &tokens->held_count, err);
}

int
lock_check_change(struct pg_conn *conn, const struct principal *principal,
                  const struct space *space, const struct place *place, unsigned need,
                  const struct files_guard *guard, struct err *err)
{
    struct lock_tokens *tokens = guard ? guard->tokens : NULL;

    if (tokens && load_held(conn, space, tokens, err) < 0)
        return -1;
    if (guard && guard->check && guard->check(guard->ctx, place_node(place), err) < 0)
        return -1;
    return lock_check(conn, principal, space, place, need, tokens, err);
}

/* --- what becomes of locks --- */

int
lock_check_removed(struct pg_conn *conn, const struct space *space, const struct node *node,
                   struct err *err)
{
    if (!space->locked)
        return 0;
    if (lock_repo_end_on(conn, node->id, err) < 0 ||
        (node->kind == NODE_FOLDER && lock_repo_end_below(conn, space->id, node->id, err) < 0))
        return -1;
    return lock_repo_note(conn, space->id, err);
}

int
lock_check_moved(struct pg_conn *conn, const struct space *space, const struct node *node,
                 struct err *err)
{
    if (!space->locked)
        return 0;
    if (lock_repo_end_on(conn, node->id, err) < 0)
        return -1;
    return lock_repo_note(conn, space->id, err);
}

int
lock_check_replaced(struct pg_conn *conn, const struct space *space, const struct node *old,
                    int64_t new_node_id, struct err *err)
{
    if (!space->locked)
        return 0;
    if (lock_repo_carry(conn, old->id, new_node_id, err) < 0 ||
        (old->kind == NODE_FOLDER && lock_repo_end_below(conn, space->id, old->id, err) < 0))
        return -1;
    return lock_repo_note(conn, space->id, err);
}
