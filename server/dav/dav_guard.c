/*
 * An If header may speak of several resources, and is true when any one of its lists is. The
 * resources of the request, source and target, are judged as the transaction sees them; others
 * (a client may name a folder further up) as they were when the request began: looking at them
 * inside the transaction would take a second connection. State tokens are different: which of
 * them are locks, and on what, is told by the transaction for all resources alike.
 */
#include "dav/dav_guard.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_if.h"
#include "dav/dav_lock.h"
#include "dav/dav_sync_token.h"
#include "http/precond.h"
#include "service/locks.h"

enum {
    LOOKS_MAX = 32, /* resources looked up for one request */
    KEY_MAX_BYTES = 1 << 20,
};

/* A resource as far as conditions care. */
struct state {
    struct path path;
    struct slice key; /* the path in NFC, as lock.path_key */
    bool looked;
    bool exists;
    char etag[FILES_ETAG_SIZE];
    char sync_token[DAV_SYNC_TOKEN_SIZE]; /* of a folder, else "" */
};

struct dav_guard {
    struct request *request;
    bool refuse_folder;
    bool has_if;
    struct dav_if header;
    struct state source;
    struct state target;
    bool has_target;
    struct state **states; /* of each list of the header; NULL: not a resource of ours */
    size_t look_count;
    struct lock_tokens tokens;
};

static void
set_state(struct state *state, const struct node *node)
{
    state->looked = true;
    state->exists = node != NULL;
    state->sync_token[0] = '\0';
    if (!node)
        return;
    files_etag(node, state->etag);
    if (node->kind == NODE_FOLDER)
        dav_sync_token_of(node, state->sync_token);
}

static int
look(struct request *request, struct state *state, struct err *err)
{
    struct node node;

    if (files_stat(dav_of(request)->files, &request->principal, &state->path, &node, err) == 0) {
        set_state(state, &node);
        return 0;
    }
    if (err->code != ERR_NOT_FOUND && err->code != ERR_CONFLICT)
        return -1;
    *err = (struct err){0};
    set_state(state, NULL);
    return 0;
}

static bool
is_same(const struct path *a, const struct path *b)
{
    return a->depth == b->depth && path_is_within(a, b);
}

static int
set_key(struct dav_guard *guard, struct state *state, struct err *err)
{
    struct arena *arena = &guard->request->arena;
    AUTO_BUF struct buf text = {.max = KEY_MAX_BYTES};

    for (size_t i = 0; i < state->path.depth; i++) {
        buf_addc(&text, '/');
        buf_adds(&text, state->path.names[i]);
    }
    if (buf_check(&text, err) < 0)
        return -1;
    return text_nfc(buf_slice(&text), arena, &state->key, err);
}

static int
find_state(struct dav_guard *guard, struct slice tag, struct state **ret_state, struct err *err)
{
    struct path path;
    enum dav_place place;

    *ret_state = NULL;
    if (dav_resolve(guard->request, tag, &place, &path, err) < 0)
        return err_wrap(err, "if header");
    if (place != DAV_HERE)
        return 0;
    if (is_same(&path, &guard->source.path)) {
        *ret_state = &guard->source;
    } else if (guard->has_target && is_same(&path, &guard->target.path)) {
        *ret_state = &guard->target;
    } else {
        *ret_state = arena_zalloc(&guard->request->arena, sizeof(**ret_state));
        (*ret_state)->path = path;
        return set_key(guard, *ret_state, err);
    }
    return 0;
}

/* Lists on one resource stand together, as a rule. */
static int
state_of_list(struct dav_guard *guard, size_t at, struct err *err)
{
    const struct dav_if_list *lists = guard->header.lists;

    if (!lists[at].tagged) {
        guard->states[at] = &guard->source;
        return 0;
    }
    if (at > 0 && slice_eq(lists[at - 1].tag, lists[at].tag)) {
        guard->states[at] = guard->states[at - 1];
        return 0;
    }
    return find_state(guard, lists[at].tag, &guard->states[at], err);
}

static bool
asks_for_state(const struct dav_if_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->conditions[i].kind == DAV_IF_ETAG ||
            slice_starts(list->conditions[i].value, DAV_SYNC_TOKEN_PREFIX))
            return true;
    }
    return false;
}

/* Clients send every lock they hold below the target, each with its tag: only those whose ETag or
 * sync token matters are looked up. */
static int
find_states(struct dav_guard *guard, struct err *err)
{
    guard->states =
        arena_zalloc(&guard->request->arena, guard->header.count * sizeof(*guard->states));
    for (size_t i = 0; i < guard->header.count; i++) {
        if (state_of_list(guard, i, err) < 0)
            return -1;
        /* The transaction tells about the source before anything is judged. */
        if (!guard->states[i] || guard->states[i] == &guard->source || guard->states[i]->looked ||
            !asks_for_state(&guard->header.lists[i]))
            continue;
        if (guard->look_count++ == LOOKS_MAX)
            return err_set(err, ERR_TOO_LARGE, "if header: more than %d resources", LOOKS_MAX);
        if (look(guard->request, guard->states[i], err) < 0)
            return -1;
    }
    return 0;
}

/* Whatever list they stand in, and for whatever resource: RFC 4918 section 10.4.1. */
static void
collect_tokens(struct dav_guard *guard)
{
    struct lock_tokens *tokens = &guard->tokens;
    size_t cap = 1;

    for (size_t i = 0; i < guard->header.count; i++)
        cap += guard->header.lists[i].count;
    tokens->tokens = arena_zalloc(tokens->arena, cap * sizeof(*tokens->tokens));
    for (size_t i = 0; i < guard->header.count; i++) {
        const struct dav_if_list *list = &guard->header.lists[i];

        for (size_t k = 0; k < list->count; k++) {
            struct slice value = list->conditions[k].value;

            if (list->conditions[k].kind == DAV_IF_TOKEN && locks_is_token(value))
                tokens->tokens[tokens->count++] =
                    arena_strndup(tokens->arena, value.data, value.len);
        }
    }
}

static int
read_if(struct dav_guard *guard, const char *header, struct err *err)
{
    struct request *request = guard->request;

    if (dav_if_parse(slice_of(header), &request->arena, &guard->header, err) < 0 ||
        set_key(guard, &guard->source, err) < 0 ||
        (guard->has_target && set_key(guard, &guard->target, err) < 0))
        return -1;
    guard->has_if = true;
    collect_tokens(guard);
    return find_states(guard, err);
}

int
dav_guard_new(struct request *request, const struct path *target, bool whole_folders,
              struct dav_guard **ret_guard, struct err *err)
{
    struct dav_guard *guard = arena_zalloc(&request->arena, sizeof(*guard));
    const char *header = request_header(request, "If");

    guard->request = request;
    guard->tokens.arena = &request->arena;
    guard->refuse_folder = !whole_folders;
    guard->source.path = request->path;
    if (target) {
        guard->has_target = true;
        guard->target.path = *target;
    }
    if (header && read_if(guard, header, err) < 0)
        return -1;
    *ret_guard = guard;
    return 0;
}

/* ---- asked inside the transaction ---- */

/* A lock on it, or a deep one above. What does not exist can be below a deep one, too. */
static bool
is_locked_with(const struct dav_guard *guard, const struct state *state, struct slice token)
{
    for (size_t i = 0; i < guard->tokens.held_count; i++) {
        const struct lock *lock = &guard->tokens.held[i];
        size_t len = strlen(lock->path_key);

        if (!slice_is(token, lock->token) || !slice_starts(state->key, lock->path_key))
            continue;
        if (state->key.len == len || (lock->deep && state->key.data[len] == '/'))
            return true;
    }
    return false;
}

static bool
condition_holds(void *ctx, const struct dav_if_list *list, const struct dav_if_condition *condition)
{
    const struct dav_guard *guard = ctx;
    const struct state *state = guard->states[list - guard->header.lists];

    if (!state)
        return false;
    if (condition->kind == DAV_IF_TOKEN && slice_starts(condition->value, DAV_SYNC_TOKEN_PREFIX))
        return slice_is(condition->value, state->sync_token); /* RFC 6578 section 5 */
    if (condition->kind == DAV_IF_TOKEN)
        return is_locked_with(guard, state, condition->value);
    /* Ours are strong, so a weak one never matches: RFC 4918 section 10.4.4. */
    return state->exists && slice_eq(condition->value, slice_of(state->etag));
}

static int
check_if(struct dav_guard *guard, struct err *err)
{
    if (guard->has_if && !dav_if_holds(&guard->header, condition_holds, guard))
        return err_set(err, ERR_PRECONDITION, "the If header does not hold");
    return 0;
}

static int
check_shape(const struct dav_guard *guard, const struct node *node, struct err *err)
{
    if (!node)
        return 0;
    if (node->kind == NODE_FILE && guard->request->path.trailing_slash)
        return err_set(err, ERR_NOT_FOUND, "there is a file, not a folder");
    if (node->kind == NODE_FOLDER && guard->refuse_folder)
        return err_set(err, ERR_INVALID, "this Depth is not possible for a folder");
    return 0;
}

static int
check_source(void *ctx, const struct node *node, struct err *err)
{
    struct dav_guard *guard = ctx;
    struct precond_subject subject = {.exists = node != NULL};

    set_state(&guard->source, node);
    if (node) {
        subject.etag = guard->source.etag;
        subject.mtime_us = node->mtime_us;
    }
    if (check_shape(guard, node, err) < 0 || check_if(guard, err) < 0)
        return -1;
    if (precond_check(guard->request, &subject, false) != PRECOND_GO)
        return err_set(err, ERR_PRECONDITION, "a condition of the request does not hold");
    return 0;
}

static int
check_target(void *ctx, const struct node *node, struct err *err)
{
    struct dav_guard *guard = ctx;

    set_state(&guard->target, node);
    return check_if(guard, err);
}

int
dav_guard_read(struct request *request, const struct node *node, struct err *err)
{
    struct dav_guard *guard;

    if (!request_header(request, "If"))
        return 0;
    if (dav_guard_new(request, NULL, true, &guard, err) < 0)
        return -1;
    set_state(&guard->source, node);
    if (node->space_locked &&
        locks_find_held(dav_of(request)->files, &request->principal, &guard->tokens, err) < 0)
        return -1;
    return check_if(guard, err);
}

struct files_guard
dav_guard_source(struct dav_guard *guard)
{
    return (struct files_guard){.check = check_source, .ctx = guard, .tokens = &guard->tokens};
}

struct files_guard
dav_guard_target(struct dav_guard *guard)
{
    return (struct files_guard){.check = check_target, .ctx = guard, .tokens = &guard->tokens};
}

int
dav_guard_refuse(struct dav_guard *guard, const struct err *err)
{
    if (err->code != ERR_LOCKED || guard->tokens.blocker_count == 0)
        return -1;
    dav_lock_refuse(guard->request, &guard->tokens);
    return 0;
}
