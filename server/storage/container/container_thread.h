/*
 * container_thread: what a thread keeps between blocks: contexts of the codecs, which cost more
 * to make than a block to unpack, and a few buffers. It is made when first asked for and goes
 * with the thread.
 */
#ifndef OXI_STORAGE_CONTAINER_THREAD_H
#define OXI_STORAGE_CONTAINER_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include <zstd.h>

enum {
    CONTAINER_BUFFER_BYTES = 64 << 10, /* one size, so that any fits */
    CONTAINER_BUFFERS_KEPT = 4,
};

struct container_thread {
    ZSTD_CCtx *zstd_pack; /* this and the next three: NULL until needed; codec.c */
    ZSTD_DCtx *zstd_unpack;
    void *lz4_pack;
    void *lz4_pack_high;
    uint8_t *buffers[CONTAINER_BUFFERS_KEPT];
    unsigned buffer_count;
    uint8_t *whole; /* NULL until needed */
    size_t whole_cap;
    unsigned read_count; /* which reads are timed; container_tally.c */
};

/* Of the calling thread. */
struct container_thread *container_thread_own(void);

/* A buffer of at least len bytes, never zeroed: it holds what somebody's read left there, so
 * nothing of it may be looked at that was not written since. */
uint8_t *container_thread_take(struct container_thread *thread, size_t len);
/* The same len. NULL is welcome. */
void container_thread_give(struct container_thread *thread, uint8_t *buffer, size_t len);

/*
 * Room for a whole container of at most len bytes, never zeroed: the caller's until the thread asks
 * again. It is kept, because a chunk is too large for malloc to keep, and getting its pages anew
 * would cost about as much as unpacking it.
 */
uint8_t *container_thread_whole(struct container_thread *thread, size_t len);

#endif
