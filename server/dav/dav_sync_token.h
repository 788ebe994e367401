/*
 * dav_sync_token: what clients hold of RFC 6578, as text. It means something to the folder only
 * that it was given for:
 *
 *   urn:oxicloudd:sync:FOLDER:LINKED:REMOVED            a mark (service/sync.h)
 *   urn:oxicloudd:sync:FOLDER:LINKED:REMOVED:LINKED:REMOVED:KIND:PATH
 *                                                       a range from mark to mark, of which all up
 *                                                       to PATH was told; KIND: of what was told,
 *                                                       m a member, d a folder, f a file removed
 */
#ifndef OXI_DAV_DAV_SYNC_TOKEN_H
#define OXI_DAV_DAV_SYNC_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "meta/change_repo.h"
#include "service/sync.h"
#include "service/walk.h"

#define DAV_SYNC_TOKEN_PREFIX "urn:oxicloudd:sync:"

enum { DAV_SYNC_TOKEN_SIZE = 96 }; /* of a mark's token: the prefix and three numbers */

struct dav_sync_token {
    int64_t folder_id;
    struct sync_mark mark;
    bool goes_on; /* the rest is set */
    struct change_range range;
    enum walk_step step;
    enum node_kind kind; /* of a removal */
    struct path last;    /* below the folder; at least one name */
};

/* False: no such token. Names lie in the arena. */
bool dav_sync_token_parse(struct slice text, struct arena *arena, struct dav_sync_token *ret_token);

/* Of a folder as it is now. */
void dav_sync_token_of(const struct node *folder, char dst[DAV_SYNC_TOKEN_SIZE]);

/* Nothing in it needs an escape in XML. */
void dav_sync_token_write(struct buf *out, int64_t folder_id, const struct sync_mark *mark);
/* way: as walk.h has it; name: of what was told last. */
void dav_sync_token_write_part(struct buf *out, int64_t folder_id, const struct change_range *range,
                               enum walk_step step, enum node_kind kind, struct slice way,
                               const char *name);

#endif
