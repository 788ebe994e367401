/*
 * walk: what is below a folder, batch by batch: its members, then, when the walk is deep, those of
 * each folder in it, the way down first. Or only what has changed there in a range of the
 * sequence, with what was removed. A tree of any size costs the memory of one batch.
 *
 * A walk is no snapshot: a batch shows its folder as it is when the batch is read. What is put
 * somewhere after the range is left out, however, so whoever asks later for what came after the
 * range misses nothing.
 */
#ifndef OXI_SERVICE_WALK_H
#define OXI_SERVICE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/path.h"
#include "meta/change_repo.h"
#include "service/files.h"
#include "service/principal.h"

/* All there is. */
#define WALK_ALL ((struct change_range){.until_seq = INT64_MAX, .removed_until = INT64_MAX})

/* What is told of each folder, in this order. */
enum walk_step { WALK_REMOVALS, WALK_MEMBERS, WALK_BELOW };

struct walk_level;

struct walk {
    struct files *files; /* borrowed */
    struct principal principal;
    struct change_range range;
    bool deep;
    struct walk_level *levels; /* the way down to the folder at hand */
    size_t depth;
    size_t level_cap;
    enum walk_step next;

    /* The batch, of one folder. */
    enum walk_step step; /* WALK_REMOVALS or WALK_MEMBERS */
    size_t count;        /* 0: the walk is at its end */
    struct removal *removals;
    struct node *nodes;
    struct buf folder; /* names below the folder walked, each with a slash behind it: "a/b/" */
};

/* folder is one that this principal was shown. */
void walk_init(struct walk *walk, struct files *files, const struct principal *principal,
               const struct node *folder, const struct change_range *range, bool deep);
void walk_release(struct walk *walk); /* what was zeroed, too */

/* Reads the next batch. */
int walk_next(struct walk *walk, struct err *err);

/*
 * Behind what was last told by another walk of the same folder and range. root: the path of the
 * folder walked; last: the path of what was told, below that; kind: of what was told, when it was
 * a removal. Folders that are gone meanwhile are passed over.
 */
int walk_resume(struct walk *walk, const struct path *root, enum walk_step step,
                const struct path *last, enum node_kind kind, struct err *err);

/* How many nodes are below a folder; counts no further than `most`. */
int walk_count(struct files *files, const struct principal *principal, const struct node *folder,
               uint64_t most, uint64_t *ret_count, struct err *err);

#endif
