/*
 * change_repo: what has changed in a folder, for clients that keep a copy of it. A node says when
 * it last changed (seq, of a folder: anything below it) and since when it is where it is
 * (link_seq); a removal says that a name went, written by node_repo_trash() and node_repo_move().
 * All moments are of the sequence of the space.
 */
#ifndef OXI_META_CHANGE_REPO_H
#define OXI_META_CHANGE_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/node_repo.h"
#include "meta/pg.h"

/* A part of the history. */
struct change_range {
    int64_t after_seq;     /* what changed or was linked later; 0: from the beginning */
    int64_t removed_after; /* what was removed later; after_seq, or the moment after it */
    int64_t until_seq;     /* what was linked later is left out */
    int64_t removed_until; /* so is what was removed later */
};

/*
 * The children, in the order of their names, that changed in the range, whatever the range of
 * removals. after: the name before the first, or NULL; at most cap.
 */
int change_repo_members(struct pg_conn *conn, int64_t folder_id, const struct change_range *range,
                        bool folders_only, const char *after, struct node *nodes, size_t cap,
                        size_t *ret_count, struct err *err);

struct removal {
    char name[PATH_NAME_MAX_BYTES + 1];
    enum node_kind kind;
};

/*
 * What was there at after_seq, was removed in the range, and did not come back in it under the
 * same name as the same kind of thing: by name, folders before files. after: the one before the
 * first, or NULL.
 */
int change_repo_removals(struct pg_conn *conn, int64_t folder_id, const struct change_range *range,
                         const struct removal *after, struct removal *removals, size_t cap,
                         size_t *ret_count, struct err *err);

/*
 * *ret_floor: removals up to it may have been forgotten. *ret_replaced: the first moment in the
 * range when a folder of this space was removed whose place another has in the end; 0: none.
 */
int change_repo_look(struct pg_conn *conn, int64_t space_id, const struct change_range *range,
                     int64_t *ret_floor, int64_t *ret_replaced, struct err *err);

/* Forgets up to `most` removals older than before_us and raises the floor of their spaces. In the
 * transaction of the caller. */
int change_repo_forget(struct pg_conn *conn, int64_t before_us, size_t most, size_t *ret_count,
                       struct err *err);

#endif
