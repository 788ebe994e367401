/*
 * chunk_check: is a chunk in the backend what its row says it is? What readers, the scrub and
 * verify have in common. Calls may come from any thread and wait for the backend and the index.
 */
#ifndef OXI_STORAGE_CHUNK_CHECK_H
#define OXI_STORAGE_CHUNK_CHECK_H

#include <stdbool.h>

#include "base/err.h"
#include "storage/manifest.h"
#include "storage/store.h"

enum { CHUNK_READS_AT_MOST = 3 };

/* Reads all stored_bytes into dst and holds them against the check. A read that fails, or whose
 * bytes do, is repeated from the device: CHUNK_READS_AT_MOST in all, then ERR_CORRUPT or ERR_IO. */
int chunk_check_read(struct store *store, const struct stored_chunk *chunk, void *dst,
                     struct err *err);

/* The same, from the device at once, and held against the chunk's id as well. */
int chunk_check_deep(struct store *store, const struct stored_chunk *chunk, void *dst,
                     struct err *err);

/* Does this failure of a read mean that the chunk is bad: damaged, short, unreadable, missing? */
bool chunk_check_is_bad(const struct err *err);

/*
 * Quarantines a chunk after such a failure. *ret_bad is false when no row names that blob any
 * more. Fails when the index cannot be asked, and with ERR_UNAVAILABLE when the device fails with
 * everything and so the failure says nothing about this chunk.
 */
int chunk_check_quarantine(struct store *store, const struct stored_chunk *chunk,
                           const struct err *why, bool *ret_bad, struct err *err);

#endif
