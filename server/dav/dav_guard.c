/*
 * An If header may speak of several resources, and is true when any one of its lists is. The
 * resources of the request, source and target, are judged as the transaction sees them; others
 * (a client may name a folder further up) as they were when the request began: looking at them
 * inside the transaction would take a second connection.
 *
 * No locks exist yet, so no state token matches; "Not <token>" therefore holds.
 */
#include "dav/dav_guard.h"

#include <string.h>

#include "base/mem.h"
#include "dav/dav.h"
#include "dav/dav_if.h"
#include "http/precond.h"

enum { TAGGED_MAX = 32 }; /* resources looked up for one request */

/* A resource as far as conditions care. */
struct state {
    struct path path;
    bool exists;
    char etag[FILES_ETAG_SIZE];
};

struct tagged {
    struct slice tag;
    struct state *state; /* NULL: not a resource of ours */
};

struct dav_guard {
    struct request *request;
    bool refuse_folder;
    bool has_if;
    struct dav_if header;
    struct state source;
    struct state target;
    bool has_target;
    struct tagged tagged[TAGGED_MAX];
    size_t tagged_count;
};

static void
set_state(struct state *state, const struct node *node)
{
    state->exists = node != NULL;
    if (node)
        files_etag(node, state->etag);
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
        return look(guard->request, *ret_state, err);
    }
    return 0;
}

static struct tagged *
find_tagged(struct dav_guard *guard, struct slice tag)
{
    for (size_t i = 0; i < guard->tagged_count; i++) {
        if (slice_eq(guard->tagged[i].tag, tag))
            return &guard->tagged[i];
    }
    return NULL;
}

static bool
asks_for_etag(const struct dav_if_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->conditions[i].kind == DAV_IF_ETAG)
            return true;
    }
    return false;
}

/* Clients send every lock they hold below the target, each with its tag: only those whose state
 * matters are looked up. */
static int
look_up_tags(struct dav_guard *guard, struct err *err)
{
    for (size_t i = 0; i < guard->header.count; i++) {
        const struct dav_if_list *list = &guard->header.lists[i];
        struct tagged *tagged = &guard->tagged[guard->tagged_count];

        if (!list->tagged || !asks_for_etag(list) || find_tagged(guard, list->tag))
            continue;
        if (guard->tagged_count == TAGGED_MAX)
            return err_set(err, ERR_TOO_LARGE, "if header: more than %d resources", TAGGED_MAX);
        tagged->tag = list->tag;
        if (find_state(guard, list->tag, &tagged->state, err) < 0)
            return -1;
        guard->tagged_count++;
    }
    return 0;
}

static int
read_if(struct dav_guard *guard, const char *header, struct err *err)
{
    struct request *request = guard->request;

    if (dav_if_parse(slice_of(header), &request->arena, &guard->header, err) < 0)
        return -1;
    guard->has_if = true;
    /* Until the transaction says better: one of the two is judged before the other is seen. */
    if (look(request, &guard->source, err) < 0 ||
        (guard->has_target && look(request, &guard->target, err) < 0))
        return -1;
    return look_up_tags(guard, err);
}

int
dav_guard_new(struct request *request, const struct path *target, bool whole_folders,
              struct dav_guard **ret_guard, struct err *err)
{
    struct dav_guard *guard = arena_zalloc(&request->arena, sizeof(*guard));
    const char *header = request_header(request, "If");

    guard->request = request;
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

static bool
condition_holds(void *ctx, const struct dav_if_list *list, const struct dav_if_condition *condition)
{
    struct dav_guard *guard = ctx;
    const struct state *state = &guard->source;

    if (condition->kind == DAV_IF_TOKEN)
        return false;
    if (list->tagged) {
        const struct tagged *tagged = find_tagged(guard, list->tag);

        state = tagged ? tagged->state : NULL;
    }
    /* Ours are strong, so a weak one never matches: RFC 4918 section 10.4.4. */
    return state && state->exists && slice_eq(condition->value, slice_of(state->etag));
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

struct files_guard
dav_guard_source(struct dav_guard *guard)
{
    return (struct files_guard){.check = check_source, .ctx = guard};
}

struct files_guard
dav_guard_target(struct dav_guard *guard)
{
    return (struct files_guard){.check = check_target, .ctx = guard};
}
