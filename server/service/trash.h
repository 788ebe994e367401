/* trash: look at, restore and empty what was deleted. Deleting into it is files_remove(). */
#ifndef OXI_SERVICE_TRASH_H
#define OXI_SERVICE_TRASH_H

#include "base/mem.h"
#include "meta/node_repo.h"
#include "service/files.h"

int trash_list(struct files *files, const struct principal *principal, int64_t after_node_id,
               struct arena *arena, struct trash_entry *entries, size_t cap, size_t *ret_count,
               struct err *err);
/* Back to where it was; under a free name ("a (restored 2).txt") when that is taken, at the root
 * when the folder is gone. *ret_path: where it is now. */
int trash_restore(struct files *files, const struct principal *principal, int64_t node_id,
                  struct arena *arena, char **ret_path, struct err *err);
/* Purges everything in the principal's trash for good. */
int trash_empty(struct files *files, const struct principal *principal, uint64_t *ret_purged,
                struct err *err);
/* Purges what was deleted more than retention_days ago, of everybody; stops early on *stop. */
int trash_expire(struct files *files, uint64_t retention_days, const _Atomic bool *stop,
                 uint64_t *ret_purged, struct err *err);

#endif
