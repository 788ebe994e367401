/*
 * quota: no space ever holds more than its owner's quota, however many uploads there are at once
 * and on whatever node. An upload reserves what it will add before its body is taken, by the
 * announced length or, without one, in steps; it settles in the transaction that makes its file.
 * All of that under the lock of the space: used + reserved by others + what is added <= quota.
 *
 * A reservation that is not prolonged ends after a while, so a crash leaves nothing behind. Where
 * no quota is in force none of this asks the database anything.
 */
#ifndef OXI_SERVICE_QUOTA_H
#define OXI_SERVICE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "meta/node_repo.h"
#include "meta/pg_pool.h"

/* An upload's; zeroed before. Used by one thread at a time. */
struct quota_hold {
    bool in_force;
    int64_t id; /* of the reservation; 0: none */
    int64_t space_id;
    uint64_t old_bytes; /* of the file to be replaced: these count already */
    uint64_t held_bytes;
    int64_t held_at_us; /* monotonic */
};

bool quota_is_in_force(const struct config *config, const struct space *space);

/* Before the body. new_bytes UINT64_MAX: unknown. ERR_QUOTA: there is no room for it. */
int quota_reserve(struct pg_pool *pool, const struct config *config, const struct space *space,
                  uint64_t old_bytes, uint64_t new_bytes, struct quota_hold *hold, struct err *err);
/* So many bytes have come by now. Asks the database now and then. */
int quota_grow(struct pg_pool *pool, struct quota_hold *hold, uint64_t come_bytes, struct err *err);
/* After the upload, whatever became of it. */
void quota_release(struct pg_pool *pool, struct quota_hold *hold);

/*
 * In a transaction that holds the space: may it grow from old_bytes to new_bytes of one file or
 * tree? Ends the reservation; hold may be NULL. ERR_QUOTA. Less is always let through.
 */
int quota_settle(struct pg_conn *conn, const struct config *config, const struct space *space,
                 uint64_t old_bytes, uint64_t new_bytes, const struct quota_hold *hold,
                 struct err *err);

#endif
