/*
 * mem_store: a store of a memory backend and a memory index with workers of its own, and the few
 * steps most storage tests are made of.
 */
#ifndef OXI_TESTS_MEM_STORE_H
#define OXI_TESTS_MEM_STORE_H

#include "storage/ingest.h"
#include "storage/store.h"
#include "support/mem_backend.h"
#include "support/mem_index.h"

enum { MEM_STORE_LEASE_SECS = 3600 };

struct mem_store {
    struct store store;
    struct blob_backend *backend;
    struct chunk_index *index;
};

struct mem_store *mem_store_new(unsigned thread_count, size_t queue_cap);
void mem_store_free(struct mem_store *mem);
/* The same with a backend of the caller's, which the store then owns. NULL: one in memory. */
struct mem_store *mem_store_with(struct blob_backend *backend, struct workers *workers);

/* Ingests, registers and keeps; the id of the content. Fails the test when something fails. */
struct digest mem_store_add(struct mem_store *mem, const void *data, size_t len);

/* SplitMix64 outputs from this start state, stored little-endian. Freed by the caller. */
uint8_t *mem_store_noise(uint64_t state, size_t len);

#endif
