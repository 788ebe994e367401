/*
 * Each change of locks is one transaction under the lock of the space's row, as every change of
 * the tree is: so no lock can appear while a change is being decided, nor the other way round.
 */
#include "service/locks.h"

#include <string.h>

#include "base/fault.h"
#include "base/rand.h"
#include "base/text.h"
#include "service/tree.h"

#define TOKEN_SCHEME "opaquelocktoken:" /* RFC 4918 appendix C */

enum { UUID_BYTES = 16, UUID_CHARS = 36, EXPIRE_ROUNDS = 100 };

/* --- tokens --- */

/* A random UUID, RFC 9562 section 5.4. */
static char *
make_token(struct arena *arena)
{
    uint8_t id[UUID_BYTES];
    char hex[2 * UUID_BYTES + 1];

    rand_bytes(id, sizeof(id));
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    text_hex(hex, id, sizeof(id));
    return arena_printf(arena, TOKEN_SCHEME "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                        hex + 16, hex + 20);
}

bool
locks_is_token(struct slice token)
{
    size_t scheme_len = strlen(TOKEN_SCHEME);

    if (token.len != scheme_len + UUID_CHARS || !slice_starts(token, TOKEN_SCHEME))
        return false;
    for (size_t i = scheme_len; i < token.len; i++) {
        if (!token.data[i] || !strchr("0123456789abcdef-", token.data[i]))
            return false;
    }
    return true;
}

/* --- take --- */

struct lock_job {
    struct files *files;
    const struct principal *principal;
    const struct path *path;
    const struct files_guard *guard;
    const struct lock_wish *wish;
    const char *token;
    int64_t timeout_secs;
    struct lock *locks; /* the results */
    size_t count;
    bool created;
};

static int64_t
clamp_timeout(const struct files *files, int64_t timeout_secs)
{
    int64_t most = (int64_t)files->config->lock_timeout_max_secs;

    return timeout_secs < most ? timeout_secs : most;
}

static int
check_place(const struct lock_job *job, const struct place *place, struct err *err)
{
    const struct node *node = place_node(place);

    if (node)
        return access_check(job->principal, node, ACCESS_WRITE, err);
    if (place_want_parent(place, err) < 0 ||
        access_check(job->principal, place_parent(place), ACCESS_WRITE, err) < 0)
        return -1;
    if (job->path->trailing_slash)
        return err_set(err, ERR_EXISTS, "a file's path does not end in a slash");
    return 0;
}

/* Section 6.2 and the table in section 7: exclusive goes with nothing, shared with shared. */
static int
check_conflicts(struct pg_conn *conn, const struct lock_job *job, const struct space *space,
                const struct place *place, struct err *err)
{
    unsigned need = LOCK_NEED_SELF | (job->wish->deep ? LOCK_NEED_BELOW : 0);
    struct lock_tokens *tokens = job->guard->tokens;
    struct lock *locks;
    size_t above, count;

    if (lock_check_list(conn, space, place, need, tokens->arena, &locks, &above, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (job->wish->shared && locks[i].shared)
            continue;
        tokens->conflict = true;
        lock_check_blame(tokens, &locks[i], i >= above);
    }
    return tokens->conflict ? err_set(err, ERR_LOCKED, "there is a lock already") : 0;
}

static int
check_count(struct pg_conn *conn, const struct lock_job *job, struct err *err)
{
    uint64_t count;

    if (lock_repo_count(conn, job->principal->user_id, &count, err) < 0)
        return -1;
    if (count >= LOCKS_PER_USER_MAX)
        return err_set(err, ERR_QUOTA, "one user may hold %d locks", LOCKS_PER_USER_MAX);
    return 0;
}

/* The lock as others will see it. */
static int
add_lock(struct pg_conn *conn, struct lock_job *job, const struct space *space, int64_t node_id,
         struct err *err)
{
    struct arena *arena = job->guard->tokens->arena;
    char *token = make_token(arena);
    struct lock lock = {.token = token,
                        .node_id = node_id,
                        .space_id = space->id,
                        .user_id = job->principal->user_id,
                        .shared = job->wish->shared,
                        .deep = job->wish->deep,
                        .owner = (char *)job->wish->owner, /* nobody writes to it */
                        .timeout_secs = job->timeout_secs};
    uint64_t expired;

    if (lock_repo_expire(conn, space->id, &expired, err) < 0 || check_count(conn, job, err) < 0 ||
        lock_repo_insert(conn, &lock, err) < 0 || lock_repo_note(conn, space->id, err) < 0)
        return -1;
    FAULT_POINT("lock.added");
    if (lock_repo_find(conn, space->id, &token, 1, arena, &job->locks, &job->count, err) < 0)
        return -1;
    return job->count == 1 ? 0 : err_set(err, ERR_INTERNAL, "the new lock is not there");
}

static int
take_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct lock_job *job = ctx;
    struct node fresh;
    const struct node *node;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        check_place(job, &place, err) < 0 ||
        lock_check_change(conn, job->principal, &space, &place, LOCK_NEED_NOTHING, job->guard,
                          err) < 0 ||
        check_conflicts(conn, job, &space, &place, err) < 0)
        return -1;
    node = place_node(&place);
    job->created = !node;
    if (!node) {
        if (lock_check(conn, job->principal, &space, &place, LOCK_NEED_CREATE, job->guard->tokens,
                       err) < 0 ||
            tree_make_file(conn, &place, &space, &fresh, err) < 0)
            return -1;
        FAULT_POINT("lock.node");
        node = &fresh;
    }
    return add_lock(conn, job, &space, node->id, err);
}

int
locks_take(struct files *files, const struct principal *principal, const struct path *path,
           const struct lock_wish *wish, const struct files_guard *guard, struct lock *ret_lock,
           bool *ret_created, struct err *err)
{
    int64_t timeout_secs = wish->timeout_secs == LOCKS_TIMEOUT_ANY
                               ? (int64_t)files->config->lock_timeout_secs
                               : wish->timeout_secs;
    struct lock_job job = {.files = files,
                           .principal = principal,
                           .path = path,
                           .wish = wish,
                           .guard = guard,
                           .timeout_secs = clamp_timeout(files, timeout_secs)};

    if (tree_transact(files, take_work, &job, "locking", err) < 0)
        return -1;
    *ret_lock = job.locks[0];
    *ret_created = job.created;
    return 0;
}

/* --- refresh --- */

/* Is the lock on the place, or deep and above it? */
static bool
covers(const struct lock *lock, const struct place *place)
{
    for (size_t i = 0; i < place->found; i++) {
        if (place->nodes[i].id == lock->node_id)
            return lock->deep || i == place->path->depth;
    }
    return false;
}

/* The submitted tokens whose locks may be refreshed here. */
static char **
list_refreshable(const struct lock_job *job, const struct place *place, size_t *ret_count)
{
    const struct lock_tokens *tokens = job->guard->tokens;
    char **names = arena_zalloc(tokens->arena, (tokens->held_count + 1) * sizeof(*names));

    *ret_count = 0;
    for (size_t i = 0; i < tokens->held_count; i++) {
        const struct lock *lock = &tokens->held[i];

        if (covers(lock, place) && lock->user_id == job->principal->user_id)
            names[(*ret_count)++] = lock->token;
    }
    return names;
}

static int
refresh_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct lock_job *job = ctx;
    char **names;
    size_t count;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        lock_check_change(conn, job->principal, &space, &place, LOCK_NEED_NOTHING, job->guard,
                          err) < 0)
        return -1;
    names = list_refreshable(job, &place, &count);
    if (count == 0)
        return err_set(err, ERR_PRECONDITION, "no token that was sent is that of a lock here");
    for (size_t i = 0; i < count; i++) {
        if (lock_repo_refresh(conn, names[i], job->timeout_secs, err) < 0)
            return -1;
    }
    if (lock_repo_note(conn, space.id, err) < 0)
        return -1;
    return lock_repo_find(conn, space.id, names, count, job->guard->tokens->arena, &job->locks,
                          &job->count, err);
}

int
locks_refresh(struct files *files, const struct principal *principal, const struct path *path,
              int64_t timeout_secs, const struct files_guard *guard, struct lock **ret_locks,
              size_t *ret_count, struct err *err)
{
    struct lock_job job = {.files = files,
                           .principal = principal,
                           .path = path,
                           .guard = guard,
                           .timeout_secs = clamp_timeout(files, timeout_secs)};

    if (tree_transact(files, refresh_work, &job, "refreshing the lock", err) < 0)
        return -1;
    *ret_locks = job.locks;
    *ret_count = job.count;
    return 0;
}

/* --- end --- */

static int
end_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct lock_job *job = ctx;
    char *token = (char *)job->token; /* only read */
    struct lock *locks = NULL;
    size_t count = 0;
    struct space space;
    AUTO_PLACE struct place place = {0};

    if (node_repo_lock_space(conn, job->principal->space_id, &space, err) < 0 ||
        tree_resolve(conn, job->principal, job->path, &place, err) < 0 ||
        lock_check_change(conn, job->principal, &space, &place, LOCK_NEED_NOTHING, job->guard,
                          err) < 0 ||
        lock_repo_find(conn, space.id, &token, 1, job->guard->tokens->arena, &locks, &count, err) <
            0)
        return -1;
    if (count == 0 || !covers(&locks[0], &place))
        return err_set(err, ERR_CONFLICT, "this token is not that of a lock here");
    if (locks[0].user_id != job->principal->user_id)
        return err_set(err, ERR_DENIED, "the lock is somebody else's");
    if (lock_repo_remove(conn, token, err) < 0)
        return -1;
    return lock_repo_note(conn, space.id, err);
}

int
locks_end(struct files *files, const struct principal *principal, const struct path *path,
          const char *token, const struct files_guard *guard, struct err *err)
{
    struct lock_job job = {
        .files = files, .principal = principal, .path = path, .token = token, .guard = guard};

    return tree_transact(files, end_work, &job, "unlocking", err);
}

/* --- show --- */

struct held_job {
    int64_t space_id;
    struct lock_tokens *tokens;
};

static int
held_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct held_job *job = ctx;
    struct lock_tokens *tokens = job->tokens;

    return lock_repo_find(conn, job->space_id, tokens->tokens, tokens->count, tokens->arena,
                          &tokens->held, &tokens->held_count, err);
}

int
locks_find_held(struct files *files, const struct principal *principal, struct lock_tokens *tokens,
                struct err *err)
{
    struct held_job job = {.space_id = principal->space_id, .tokens = tokens};

    return tokens->count > 0 ? pg_pool_run(files->pool, held_work, &job, err) : 0;
}

struct show_job {
    const int64_t *node_ids;
    size_t node_count;
    struct arena *arena;
    struct lock *locks;
    size_t count;
};

static int
show_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct show_job *job = ctx;

    return lock_repo_covering(conn, job->node_ids, job->node_count, job->arena, &job->locks,
                              &job->count, err);
}

int
locks_of(struct files *files, const int64_t *node_ids, size_t count, struct arena *arena,
         struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    struct show_job job = {.node_ids = node_ids, .node_count = count, .arena = arena};

    if (count > 0 && pg_pool_run(files->pool, show_work, &job, err) < 0)
        return -1;
    *ret_locks = job.locks;
    *ret_count = job.count;
    return 0;
}

/* --- expire --- */

static int
expire_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return lock_repo_expire(conn, 0, ctx, err);
}

int
locks_expire(struct files *files, uint64_t *ret_count, struct err *err)
{
    uint64_t expired = 1;
    uint64_t count = 0;

    for (int round = 0; round < EXPIRE_ROUNDS && expired > 0; round++) {
        if (pg_pool_run(files->pool, expire_work, &expired, err) < 0)
            return -1;
        count += expired;
    }
    *ret_count = count;
    return 0;
}
