/*
 * update: writes a part of a file. A content never changes, so a new one is made of what stands
 * before the part, the body, and what stands behind it, all through one ingest; most of its
 * chunks are stored already. Nothing is spooled, and memory is that of an upload and a download.
 *
 *   update_begin -> update_take ... -> update_finish -> update_free
 *
 * Used by one thread at a time. Begin reads what stands before the part, finish what stands
 * behind it.
 */
#ifndef OXI_SERVICE_UPDATE_H
#define OXI_SERVICE_UPDATE_H

#include "service/files.h"

struct update;

enum update_place {
    UPDATE_AT,       /* off counts from the begin of the file */
    UPDATE_FROM_END, /* off counts back from its end; 0: append */
};

struct update_request {
    const struct path *path; /* both borrowed until update_free() */
    const struct principal *principal;
    enum update_place place;
    uint64_t off;
    uint64_t size_bytes; /* of the body; what is written over may be less: the file grows */
    int64_t mtime_us;    /* -1: now */
    struct files_guard guard;
};

/*
 * Would the update be accepted now? If so, what it needs is claimed, as by files_may_write().
 * ERR_NOT_FOUND: no file. ERR_EXISTS: a folder. ERR_RANGE: the part begins before the file's
 * begin or behind its end.
 */
int update_begin(struct files *files, const struct update_request *request,
                 struct update **ret_update, struct err *err);
int update_take(struct update *update, const void *data, size_t len, struct err *err);
/* ERR_CONFLICT: somebody else has changed the file since the begin; what they wrote stays. */
int update_finish(struct update *update, struct node *ret_node, struct err *err);
/* Unless it was finished, nothing has changed. NULL is welcome. */
void update_free(struct update *update);

#endif
