/*
 * recompress: stores the chunks of a store in another form, as if they were uploaded with that
 * setting now, beside servers that go on working. A batch is written and synced, then the rows are
 * switched over in one transaction, then the old blobs are removed. Killed at any moment it leaves
 * blobs that no row names, for the sweep, and nothing else; called again it goes on with what is
 * left. A chunk leaves its old form only when its plain bytes have its id and the new blob gives
 * the same bytes.
 */
#ifndef OXI_SERVICE_RECOMPRESS_H
#define OXI_SERVICE_RECOMPRESS_H

#include <stdint.h>

#include "base/err.h"
#include "meta/pg_pool.h"
#include "storage/store.h"

struct recompress_result {
    uint64_t rewritten; /* chunks */
    uint64_t left;      /* raw, and the codec does not pay */
    uint64_t bad;       /* quarantined now */
    uint64_t old_bytes; /* stored, of those rewritten */
    uint64_t new_bytes;
};

/*
 * rate_bytes: plain bytes a second at most; 0: as fast as it goes. Chunks that have the form's
 * codec already are left alone, whatever their level. say gets a line now and then. ret_result is
 * filled also on failure: what has been done stays done.
 */
int recompress_run(struct pg_pool *pool, struct store *store, const struct container_form *form,
                   uint64_t rate_bytes, void (*say)(void *ctx, const char *line), void *ctx,
                   struct recompress_result *ret_result, struct err *err);

#endif
