/*
 * The backend is asked at most once in KEPT_US, and once more when the answer would be no: in
 * between, whatever came in counts as written, though some of it is stored already.
 */
#include "storage/room.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

enum { KEPT_US = 1000000 };

struct room {
    struct blob_backend *backend;
    uint64_t reserve_bytes;

    pthread_mutex_t lock; /* of what follows */
    bool is_known;
    bool is_low;
    bool asking;           /* somebody is; the others go by the last answer */
    uint64_t free_bytes;   /* UINT64_MAX: the backend cannot say */
    uint64_t come_bytes;   /* since then */
    uint64_t coming_bytes; /* of all claims */
    int64_t asked_us;
};

struct room *
room_new(struct blob_backend *backend, uint64_t reserve_bytes)
{
    struct room *room = mem_zalloc(sizeof(*room));

    room->backend = backend;
    room->reserve_bytes = reserve_bytes;
    pthread_mutex_init(&room->lock, NULL);
    return room;
}

void
room_free(struct room *room)
{
    if (room == NULL)
        return;
    pthread_mutex_destroy(&room->lock);
    free(room);
}

/* --- asking --- */

static bool
begin_asking(struct room *room, int64_t kept_us)
{
    LOCK_SCOPE(&room->lock);
    if (room->is_known && (room->asking || clock_mono_us() - room->asked_us < kept_us))
        return false;
    room->asking = true;
    return true;
}

/* Under the lock. Said once, when it changes. */
static void
note_low(struct room *room)
{
    bool is_low = room->free_bytes < room->reserve_bytes;

    if (is_low && !room->is_low)
        log_warn("storage is nearly full, uploads are refused: free=%llu reserve=%llu",
                 (unsigned long long)room->free_bytes, (unsigned long long)room->reserve_bytes);
    if (!is_low && room->is_low)
        log_info("storage has room again: free=%llu", (unsigned long long)room->free_bytes);
    room->is_low = is_low;
}

static void
end_asking(struct room *room, const uint64_t *free_bytes)
{
    LOCK_SCOPE(&room->lock);
    room->asking = false;
    if (free_bytes == NULL)
        return;
    room->free_bytes = *free_bytes;
    room->come_bytes = 0;
    room->asked_us = clock_mono_us();
    room->is_known = true;
    note_low(room);
    if (*free_bytes != UINT64_MAX)
        metric_gauge_set(METRIC_STORAGE_FREE_BYTES,
                         *free_bytes < INT64_MAX ? (int64_t)*free_bytes : INT64_MAX);
}

static int
look(struct room *room, int64_t kept_us, struct err *err)
{
    uint64_t free_bytes = UINT64_MAX;

    if (!begin_asking(room, kept_us))
        return 0;
    if (blob_free_bytes(room->backend, &free_bytes, err) < 0) {
        if (err->code != ERR_NOT_FOUND) {
            end_asking(room, NULL);
            return -1;
        }
        *err = (struct err){0}; /* this backend cannot say */
    }
    end_asking(room, &free_bytes);
    return 0;
}

/* --- claiming --- */

/* Under the lock: what is free beyond the reserve, or -1 for less than the reserve. */
static bool
has_left(const struct room *room, uint64_t spent_bytes)
{
    uint64_t most;

    if (room->free_bytes == UINT64_MAX)
        return true;
    if (__builtin_add_overflow(spent_bytes, room->come_bytes, &spent_bytes) ||
        __builtin_add_overflow(spent_bytes, room->reserve_bytes, &most))
        return false;
    return most <= room->free_bytes;
}

static bool
try_claim(struct room *room, struct room_claim *claim, uint64_t bytes)
{
    uint64_t coming_bytes;

    LOCK_SCOPE(&room->lock);
    if (__builtin_add_overflow(room->coming_bytes, bytes, &coming_bytes) ||
        !has_left(room, coming_bytes))
        return false;
    room->coming_bytes = coming_bytes;
    claim->coming_bytes += bytes;
    return true;
}

static int
refuse(struct err *err)
{
    return err_set(err, ERR_QUOTA, "the storage of the server is full");
}

int
room_claim(struct room *room, struct room_claim *claim, uint64_t bytes, struct err *err)
{
    if (room == NULL)
        return 0;
    if (look(room, KEPT_US, err) < 0)
        return -1;
    if (try_claim(room, claim, bytes))
        return 0;
    if (look(room, 0, err) < 0)
        return -1;
    return try_claim(room, claim, bytes) ? 0 : refuse(err);
}

static void
count_in(struct room *room, struct room_claim *claim, uint64_t bytes)
{
    uint64_t announced = bytes < claim->coming_bytes ? bytes : claim->coming_bytes;

    LOCK_SCOPE(&room->lock);
    claim->coming_bytes -= announced;
    room->coming_bytes -= announced;
    room->come_bytes += bytes;
}

static bool
is_above_reserve(struct room *room)
{
    LOCK_SCOPE(&room->lock);
    return has_left(room, 0);
}

int
room_take(struct room *room, struct room_claim *claim, uint64_t bytes, struct err *err)
{
    if (room == NULL)
        return 0;
    if (look(room, KEPT_US, err) < 0)
        return -1;
    count_in(room, claim, bytes);
    if (is_above_reserve(room))
        return 0;
    if (look(room, 0, err) < 0)
        return -1;
    return is_above_reserve(room) ? 0 : refuse(err);
}

void
room_release(struct room *room, struct room_claim *claim)
{
    if (room == NULL)
        return;
    LOCK_SCOPE(&room->lock);
    room->coming_bytes -= claim->coming_bytes;
    claim->coming_bytes = 0;
}

bool
room_is_low(struct room *room)
{
    struct err ignored = {0}; /* whoever uploads meets the trouble and reports it */

    if (room == NULL)
        return false;
    (void)look(room, KEPT_US, &ignored);
    LOCK_SCOPE(&room->lock);
    return room->is_low;
}
