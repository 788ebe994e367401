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

/* Reads all stored bytes, holds them against the check, and unpacks them into dst, which takes
 * size_bytes. A read that fails, or whose bytes do, is repeated from the device:
 * CHUNK_READS_AT_MOST in all, then ERR_CORRUPT or ERR_IO. ERR_INTERNAL: a form that this program
 * does not know; that is no damage. */
int chunk_check_read(struct store *store, const struct stored_chunk *chunk, void *dst,
                     struct err *err);

/* A part of a chunk, as plain bytes: of a packed one by the blocks that cover it, which are read
 * again alone when they fail (see container.h); a raw one has a check of the whole only, so that
 * all of it must be wanted. */
int chunk_check_read_part(struct store *store, const struct stored_chunk *chunk, uint32_t off,
                          void *dst, uint32_t len, struct err *err);

/* The same as chunk_check_read(), from the device at once, and held against the chunk's id as well. */
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
