/*
 * stored_source: where the stored bytes of one chunk come from. Any number of threads read from
 * one source at a time; nothing in it is locked.
 */
#ifndef OXI_STORAGE_STORED_SOURCE_H
#define OXI_STORAGE_STORED_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/blob.h"

struct stored_source;

struct stored_source_ops {
    /* Exactly len bytes from off; errors as blob_read(). */
    int (*read)(struct stored_source *source, uint64_t off, void *dst, size_t len, struct err *err);
    /* Drops what the machine has cached of this range at least; may be NULL. */
    void (*forget)(struct stored_source *source, uint64_t off, size_t len);
    void (*free)(struct stored_source *source);
};

/* Embedded first in every source. */
struct stored_source {
    const struct stored_source_ops *ops;
};

int stored_source_read(struct stored_source *source, uint64_t off, void *dst, size_t len,
                       struct err *err);
void stored_source_forget(struct stored_source *source, uint64_t off, size_t len);
void stored_source_free(struct stored_source *source); /* NULL is welcome */

/* The blob of this name, open until the source is freed; the backend outlives the source. Errors as
 * blob_open(). */
int stored_source_of_blob(struct blob_backend *be, const struct blob_key *key,
                          struct stored_source **ret_source, struct err *err);

#endif
