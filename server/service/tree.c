#include "service/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"

void
place_release(struct place *place)
{
    free(place->nodes);
    place->nodes = NULL;
}

int
tree_resolve(struct pg_conn *conn, const struct principal *principal, const struct path *path,
             struct place *place, struct err *err)
{
    place->path = path;
    place->nodes = mem_array(path->depth + 1, sizeof(*place->nodes));
    if (node_repo_walk(conn, principal->space_id, path, place->nodes, &place->found, err) < 0)
        return -1;
    if (place->found == 0)
        return err_set(err, ERR_NOT_FOUND, "the space is gone");
    return access_check(principal, &place->nodes[place->found - 1], ACCESS_READ, err);
}

const struct node *
place_node(const struct place *place)
{
    return place->found == place->path->depth + 1 ? &place->nodes[place->path->depth] : NULL;
}

const struct node *
place_parent(const struct place *place)
{
    size_t depth = place->path->depth;

    return depth > 0 && place->found >= depth ? &place->nodes[depth - 1] : NULL;
}

size_t
place_above(const struct place *place)
{
    return place->found < place->path->depth ? place->found : place->path->depth;
}

int
place_want_node(const struct place *place, struct err *err)
{
    const struct node *node = place_node(place);

    if (!node || (node->kind == NODE_FILE && place->path->trailing_slash))
        return err_set(err, ERR_NOT_FOUND, "not found");
    return 0;
}

int
place_want_parent(const struct place *place, struct err *err)
{
    const struct node *parent = place_parent(place);

    if (place->path->depth == 0)
        return err_set(err, ERR_DENIED, "not on the root folder");
    if (!parent)
        return err_set(err, ERR_CONFLICT, "the folder above does not exist");
    if (parent->kind != NODE_FOLDER)
        return err_set(err, ERR_CONFLICT, "what is above is a file");
    return 0;
}

int
tree_stamp(struct pg_conn *conn, const struct place *place, bool self, int64_t seq, struct err *err)
{
    size_t count = place_above(place) + (self && place_node(place) ? 1 : 0);
    AUTO_FREE int64_t *ids = mem_array(count + 1, sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = place->nodes[i].id;
    if (count > 0 && node_repo_stamp(conn, ids, count, seq, err) < 0)
        return -1;
    FAULT_POINT("tree.stamped");
    return 0;
}

char *
tree_path_text(const struct path *path, struct arena *arena)
{
    size_t len = 0;
    char *text, *end;

    for (size_t i = 0; i < path->depth; i++)
        len += strlen(path->names[i]) + 1;
    text = end = arena_zalloc(arena, len + 2);
    *end = '/';
    for (size_t i = 0; i < path->depth; i++) {
        size_t name_len = strlen(path->names[i]);

        *end++ = '/';
        memcpy(end, path->names[i], name_len);
        end += name_len;
    }
    return text;
}

int
tree_transact(struct files *files, pg_work work, void *job, const char *words, struct err *err)
{
    enum pg_outcome outcome = PG_ROLLED_BACK;

    FAULT_POINT("change.before");
    if (pg_pool_transact(files->pool, work, job, &outcome, err) == 0) {
        FAULT_POINT("change.committed");
        return 0;
    }
    if (outcome == PG_UNKNOWN)
        return err_set(err, ERR_UNAVAILABLE, "it is not known whether %s was done", words);
    return -1;
}
