/*
 * room: watches the free space of a backend and keeps a reserve of it, so that the disk is never
 * full: the database and deletions need room, too. An upload claims what it announces before its
 * body is taken; what it has brought so far comes off its claim. Only the uploads of this process
 * are known. Any thread; may wait for the backend, about once a second and close to the edge.
 * Where a room is wanted NULL is welcome: nothing is watched.
 */
#ifndef OXI_STORAGE_ROOM_H
#define OXI_STORAGE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/blob.h"

struct room;

/* Borrows the backend. reserve_bytes 0: all of the space may be used. */
struct room *room_new(struct blob_backend *backend, uint64_t reserve_bytes);
void room_free(struct room *room);

/* Of one upload; zeroed before. */
struct room_claim {
    uint64_t coming_bytes; /* announced and not come yet */
};

/* ERR_QUOTA: with that, and all that other uploads announced, less than the reserve would stay
 * free. bytes 0: the length is not known. */
int room_claim(struct room *room, struct room_claim *claim, uint64_t bytes, struct err *err);
/* So much of it has come. ERR_QUOTA: less than the reserve is free. */
int room_take(struct room *room, struct room_claim *claim, uint64_t bytes, struct err *err);
void room_release(struct room *room, struct room_claim *claim);

/* Looks now, which also sets the gauge; true: less than the reserve is free. */
bool room_is_low(struct room *room);

#endif
