/*
 * ingest: bytes pushed in are cut, named, deduplicated, written; at the end all of it is durable
 * and a manifest comes out. One object per upload, used by one thread at a time.
 *
 *   ingest_new -> ingest_push ... -> ingest_finish -> (register, see chunk_repo) -> ingest_keep
 *                                                                                -> ingest_free
 *
 * Freed before ingest_keep(), it removes every blob it wrote: nothing refers to them. Whoever
 * cannot tell whether the registering transaction was committed calls ingest_leave() instead; a
 * sweep later removes what no row names.
 */
#ifndef OXI_STORAGE_INGEST_H
#define OXI_STORAGE_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/manifest.h"
#include "storage/store.h"

enum {
    INGEST_BATCH_CHUNKS = 32,
    INGEST_BATCH_BYTES = 8 << 20,
    INGEST_WRITES_AT_ONCE = 8,
};

struct ingest;

/* What an upload became. Owned by the ingest. */
struct ingest_content {
    struct digest content_id;
    uint64_t size_bytes;
    size_t chunk_count;
    const uint8_t *packed; /* chunk_count records, see manifest_pack() */
    size_t distinct_count;
    const struct digest *distinct_ids; /* sorted */
    size_t written_count;
    const struct stored_chunk *written; /* durable, not registered; sorted by id */
};

/* expected_bytes: the announced length, or UINT64_MAX; only a hint for the buffers. NULL: the
 * memory for uploads is used up by those under way; later. */
struct ingest *ingest_new(struct store *store, uint64_t expected_bytes);
void ingest_free(struct ingest *ingest); /* NULL is welcome; waits for work under way */

/* May wait for the disk and the index: at most one batch is settled while the next one fills. */
int ingest_push(struct ingest *ingest, const void *data, size_t len, struct err *err);

/*
 * Settles what is left, syncs every blob written, renews leases that are past their middle. On
 * success *ret_content is durable. Once it or a push failed, only ingest_free() may follow.
 */
int ingest_finish(struct ingest *ingest, const struct ingest_content **ret_content,
                  struct err *err);

/* Registered: the blobs stay, but for those another upload had registered first (losers: indexes
 * into written), which are removed. */
void ingest_keep(struct ingest *ingest, const size_t *losers, size_t loser_count);
/* Unknown whether registered: touch nothing. */
void ingest_leave(struct ingest *ingest);

#endif
