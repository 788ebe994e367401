/*
 * sync: what a client that keeps a copy of a folder has to be told (RFC 6578). It holds a mark,
 * and gets the range of what has come since, to be walked (walk.h), and a new mark.
 *
 * All changes in a space are made one after the other, each with the next number of the space's
 * sequence. So a folder that is read with the number n shows every change up to n: there is none
 * before it that could still be committed.
 */
#ifndef OXI_SERVICE_SYNC_H
#define OXI_SERVICE_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/change_repo.h"
#include "service/files.h"
#include "service/principal.h"

/* What its holder knows of one folder: everything up to linked_seq, and what was removed up to
 * removed_seq, which is the same or the moment after it. */
struct sync_mark {
    int64_t linked_seq;
    int64_t removed_seq;
};

/* Of a folder just read. */
struct sync_mark sync_mark_of(const struct node *folder);

/*
 * The range from a mark (NULL: from nothing) to now. *ret_known false: the mark is none of this
 * folder's, or so old that removals since then are forgotten; the client has to begin anew.
 *
 * The range may end earlier than now. When a folder was replaced by another, the client has to
 * hear first that the old one is gone, with all that was in it, and then of the new one; in one
 * answer a name can stand but once. *ret_more: there is something after the range.
 */
int sync_range(struct files *files, const struct principal *principal, const struct node *folder,
               const struct sync_mark *mark, bool deep, struct change_range *ret_range,
               bool *ret_known, bool *ret_more, struct err *err);

/* Goes on with a range that was begun: is everything in it still remembered? */
int sync_check(struct files *files, const struct principal *principal, const struct node *folder,
               const struct change_range *range, bool *ret_known, struct err *err);

/* What its holder knows who has been told of the whole range. */
struct sync_mark sync_mark_after(const struct change_range *range);

/* Forgets what was removed longer ago than that. */
int sync_forget(struct files *files, uint64_t retention_days, const _Atomic bool *stop,
                uint64_t *ret_count, struct err *err);

#endif
