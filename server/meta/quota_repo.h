/*
 * quota_repo: reservations, by which uploads under way hold bytes of a space's quota on all nodes.
 * They expire by themselves. All but quota_repo_release() want the row of the space locked in the
 * same transaction; in the order of locks a reservation comes after its space.
 */
#ifndef OXI_META_QUOTA_REPO_H
#define OXI_META_QUOTA_REPO_H

#include <stdint.h>

#include "base/err.h"
#include "meta/pg.h"

/*
 * Locks the space without giving it a sequence number, for reserving only: the transaction does
 * not wait for the disk when it commits, because a reservation need not survive a power cut.
 * *ret_quota_bytes -1: none. ERR_LOGIN: the account is gone.
 */
int quota_repo_lock(struct pg_conn *conn, int64_t space_id, uint64_t *ret_used_bytes,
                    int64_t *ret_quota_bytes, struct err *err);

struct reservation {
    int64_t id; /* above 0; an upload draws one and keeps it */
    int64_t space_id;
    uint64_t needed_bytes; /* in all */
    uint64_t wanted_bytes; /* if there is room for more than is needed */
    int64_t ttl_secs;
};

/*
 * Makes the reservation, or changes and prolongs it. room_bytes: what the quota leaves, were
 * there no reservations; other ones are taken off. ERR_QUOTA: less than is needed is left.
 */
int quota_repo_reserve(struct pg_conn *conn, const struct reservation *reservation,
                       int64_t room_bytes, uint64_t *ret_bytes, struct err *err);

/* Ends a reservation (0: none) and tells what the others of the space hold. */
int quota_repo_settle(struct pg_conn *conn, int64_t space_id, int64_t id,
                      uint64_t *ret_others_bytes, struct err *err);

int quota_repo_release(struct pg_conn *conn, int64_t id, struct err *err);

#endif
