/*
 * container: a handle on one packed chunk: its index in memory, and where its bytes come from. Any
 * number of threads read through one handle at a time; nothing of it changes, so nothing is
 * locked. A read asks the source for the blocks the range covers and for nothing else, neighbours
 * together, no byte twice. No byte leaves before its block has been checked. A block that cannot
 * be read, fails its check or does not unpack is dropped from the machine's cache and read again
 * alone, at most CONTAINER_RETRIES times; then reading fails with ERR_CORRUPT or ERR_IO, and the
 * chunk belongs into quarantine.
 */
#ifndef OXI_STORAGE_CONTAINER_H
#define OXI_STORAGE_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/container/stored_source.h"
#include "storage/manifest.h"

enum { CONTAINER_RETRIES = 3, CONTAINER_BATCH_BYTES = 64 << 10 };

/* For measurements of what each of these is worth. The product uses the default. */
struct container_tuning {
    size_t batch_bytes;       /* stored bytes asked for at once; a first block goes in anyway */
    unsigned sample_interval; /* reads of a thread of which one is timed; 0: none */
    bool is_unchecked;
    bool is_unpooled; /* new, zeroed buffers each time */
    bool is_uncounted;
};

extern const struct container_tuning container_tuning_default;

struct container;

/*
 * Reads and checks the head: ERR_CORRUPT when it is damaged or not that of this chunk, after as
 * many tries; ERR_INTERNAL for a version or a codec that this program does not know. The source
 * belongs to the handle from now on, also when this fails. The caller owns one reference.
 */
int container_open(struct stored_source *source, const struct stored_chunk *chunk,
                   const struct container_tuning *tuning, struct container **ret_container,
                   struct err *err);
struct container *container_ref(struct container *container);
void container_unref(struct container *container); /* NULL is welcome */

/* The row it was opened with. */
const struct stored_chunk *container_chunk(const struct container *container);

/* Exactly len plain bytes from off; a range that is not inside the chunk is ERR_INVALID, an empty
 * one asks nobody. dst holds anything after a failure. */
int container_read(struct container *container, uint64_t off, void *dst, size_t len,
                   struct err *err);

#endif
