/*
 * manifest: the ordered list of chunks that make a content, where each of them is stored, and a
 * cache of them. A content never changes, so a manifest never does; only where a chunk lies can
 * (a chunk may be written again under a new generation), and a reader that finds a blob gone
 * drops the cached manifest and loads it once more.
 */
#ifndef OXI_STORAGE_MANIFEST_H
#define OXI_STORAGE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/digest.h"

/* How a chunk is stored: as it is, or as a container of version 1 (storage/container). A row of the
 * database says which; what the bytes look like says nothing. */
enum chunk_codec { CHUNK_RAW = 0, CHUNK_LZ4 = 1, CHUNK_ZSTD = 2 };

/* A chunk as it lies in the backend. */
struct stored_chunk {
    struct digest id;
    uint64_t generation;
    uint32_t size_bytes; /* plain */
    uint32_t stored_bytes;
    uint64_t check; /* digest_check() of the stored bytes */
    enum chunk_codec codec;
};

struct manifest_entry {
    struct stored_chunk chunk;
    uint64_t off; /* of its first byte in the content */
};

/* Shared, counted, never changed after manifest_new() returned it. */
struct manifest {
    unsigned ref_count;
    struct digest content_id;
    uint64_t size_bytes;
    size_t chunk_count;
    struct manifest_entry entries[];
};

enum { MANIFEST_RECORD_BYTES = 36 };

/* One record of the packed form that is hashed and kept in the database. */
void manifest_pack(uint8_t dst[MANIFEST_RECORD_BYTES], const struct digest *chunk_id,
                   uint32_t size_bytes);
void manifest_unpack(const uint8_t src[MANIFEST_RECORD_BYTES], struct digest *ret_chunk_id,
                     uint32_t *ret_size_bytes);

/*
 * Builds a manifest of chunk_count chunks in order; the content id is computed, sizes are summed
 * (ERR_CORRUPT on overflow or a size of 0). The caller owns one reference.
 */
int manifest_new(const struct stored_chunk *chunks, size_t chunk_count,
                 struct manifest **ret_manifest, struct err *err);
struct manifest *manifest_ref(struct manifest *manifest);
void manifest_unref(struct manifest *manifest); /* NULL is welcome */

/* Index of the chunk that holds byte off; off < size_bytes. Binary search. */
size_t manifest_find(const struct manifest *manifest, uint64_t off);

/* Bounded by bytes, least recently used out first. Any thread. */
struct manifest_cache;
struct manifest_cache *manifest_cache_new(size_t max_bytes);
void manifest_cache_free(struct manifest_cache *cache);
/* A new reference, or NULL. */
struct manifest *manifest_cache_get(struct manifest_cache *cache, const struct digest *content_id);
void manifest_cache_put(struct manifest_cache *cache, struct manifest *manifest);
void manifest_cache_drop(struct manifest_cache *cache, const struct digest *content_id);

#endif
