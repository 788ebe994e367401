/*
 * container_cache: the handles of packed chunks read lately, so that a range does not open their
 * blobs and read their heads again. Bounded by count: a handle is a file descriptor, 8 bytes a
 * block and 200 more, so rarely more than 2 KiB. Any thread. A chunk that is written again has
 * another generation, and so another handle. Whoever removes a blob drops its handle, because the
 * disk gets no room back from a file that is open; handles of blobs that another process removed
 * stay until others push them out.
 */
#ifndef OXI_STORAGE_CONTAINER_CACHE_H
#define OXI_STORAGE_CONTAINER_CACHE_H

#include "storage/blob.h"
#include "storage/container/container.h"

struct container_cache;

/* At least most_count handles are kept (rounded up to a power of two, 16 at least), spread over
 * sets of 8 by chunk id. */
struct container_cache *container_cache_new(size_t most_count);
void container_cache_free(struct container_cache *cache); /* NULL is welcome */

/* The handle of this chunk, opened on the backend if need be, which waits without holding up
 * others. The backend outlives the cache and every handle. Errors as container_open(). The caller
 * owns one reference. */
int container_cache_open(struct container_cache *cache, struct blob_backend *be,
                         const struct stored_chunk *chunk, struct container **ret_container,
                         struct err *err);

/* Forgets the handle of this blob, if it has one. Whoever holds a reference goes on reading. */
void container_cache_drop(struct container_cache *cache, const struct blob_key *key);

/* Handles in it now. */
size_t container_cache_count(struct container_cache *cache);

#endif
