/*
 * store: a blob backend, a chunk index and the cut sizes, joined; what dedup, ingest,
 * content_reader and collect work on. It owns none of its parts.
 */
#ifndef OXI_STORAGE_STORE_H
#define OXI_STORAGE_STORE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/workers.h"
#include "storage/blob.h"
#include "storage/chunk_index.h"
#include "storage/chunker.h"
#include "storage/container/container_form.h"
#include "storage/manifest.h"
#include "storage/room.h"

struct container_cache;

struct store {
    struct blob_backend *backend;
    struct chunk_index *index;
    struct manifest_cache *manifests;
    struct container_cache *containers;
    struct container_form form; /* of new chunks */
    struct room *room;          /* NULL: free space is not watched */
    struct workers *workers;    /* disk and index work of uploads and read-ahead */
    struct chunker_sizes sizes;
    int64_t lease_secs;
    uint64_t ingest_memory_bytes;          /* shared by all uploads under way */
    _Atomic unsigned ingest_count;         /* uploads under way */
    _Atomic uint64_t ingest_claimed_bytes; /* what they need at least */
};

/* The manifest of a content, from the cache or the index; the caller owns one reference. */
int store_manifest(struct store *store, const struct digest *content_id,
                   struct manifest **ret_manifest, struct err *err);

#endif
