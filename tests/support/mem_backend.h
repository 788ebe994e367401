/*
 * mem_backend: a blob backend in memory whose calls fail when a test says so, and whose blobs rot
 * when a test says so.
 */
#ifndef OXI_TESTS_MEM_BACKEND_H
#define OXI_TESTS_MEM_BACKEND_H

#include <stdbool.h>

#include "storage/blob.h"

enum mem_call { MEM_PUT, MEM_SYNC, MEM_READ, MEM_REMOVE, MEM_LIST, MEM_CALL_COUNT };

struct blob_backend *mem_backend_new(unsigned read_prefetch); /* freed by blob_free() */

/* Calls nth to nth + count - 1 of this kind, from now on, fail; 1 is the next one. */
void mem_backend_fail(struct blob_backend *be, enum mem_call call, unsigned nth, unsigned count,
                      enum err_code code);
unsigned mem_backend_calls(struct blob_backend *be, enum mem_call call);

size_t mem_backend_count(struct blob_backend *be);
uint64_t mem_backend_bytes(struct blob_backend *be);
size_t mem_backend_unsynced_count(struct blob_backend *be);
void mem_backend_lose_unsynced(struct blob_backend *be); /* the power went */
void mem_backend_age(struct blob_backend *be, int64_t secs);

/* What it says is free from now on; before, it cannot say. A code: it fails. */
void mem_backend_set_free(struct blob_backend *be, uint64_t bytes, enum err_code code);

/* Damage to every blob of this chunk. A cached flip is over once the blob is forgotten. */
void mem_backend_flip(struct blob_backend *be, const struct digest *id);
void mem_backend_flip_cached(struct blob_backend *be, const struct digest *id);
void mem_backend_truncate(struct blob_backend *be, const struct digest *id);
void mem_backend_lose(struct blob_backend *be, const struct digest *id);
/* The blobs of this chunk are found under another generation from now on. */
void mem_backend_move(struct blob_backend *be, const struct digest *id, uint64_t generation);

/* Reads that begin while held wait until they are let go. */
void mem_backend_hold_reads(struct blob_backend *be, bool hold);

#endif
