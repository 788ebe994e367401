/*
 * verify: recomputes every reference and the used bytes of every space, and holds every chunk row
 * against the backend; with deep, reads every chunk back and computes its id anew. A bad chunk is
 * quarantined, and the files it hurts are found. With repair, counts are set right, and chunks
 * that deep finds good again leave quarantine; nothing is ever deleted. Findings are printed by
 * the caller through `say`, one line each.
 */
#ifndef OXI_SERVICE_VERIFY_H
#define OXI_SERVICE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/pg_pool.h"
#include "storage/store.h"

struct verify_result {
    uint64_t chunks_checked;
    uint64_t references_wrong; /* of contents and chunks */
    uint64_t spaces_wrong;     /* used bytes */
    uint64_t chunks_missing;   /* row or blob */
    uint64_t chunks_damaged;   /* size, check or id; or in quarantine, and not read back now */
    uint64_t chunks_released;  /* good again, and out of quarantine */
};

int verify_run(struct pg_pool *pool, struct store *store, bool deep, bool repair,
               void (*say)(void *ctx, const char *line), void *ctx,
               struct verify_result *ret_result, struct err *err);

#endif
