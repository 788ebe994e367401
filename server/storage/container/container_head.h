/*
 * container_head: what stands in front of the blocks of a packed chunk: header, index and their
 * check. docs/blob-format.md has it byte by byte. Pure; nothing is allocated; any thread.
 *
 * A container is version 1 of the packed form: a chunk cut into blocks of one size, each packed
 * for itself, so that a range costs the blocks it covers. A block that does not pay is stored as
 * it is: its stored length is then its plain length.
 */
#ifndef OXI_STORAGE_CONTAINER_HEAD_H
#define OXI_STORAGE_CONTAINER_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/manifest.h"

enum {
    CONTAINER_VERSION = 1,
    CONTAINER_HEADER_BYTES = 56,
    CONTAINER_ENTRY_BYTES = 8, /* of the index, one a block */
    CONTAINER_CHECK_BYTES = 8,
    CONTAINER_BLOCK_LOG2_LEAST = 12,   /* 4 KiB */
    CONTAINER_BLOCK_LOG2_MOST = 16,    /* 64 KiB */
    CONTAINER_BLOCK_LOG2_DEFAULT = 16, /* why: bench/CHUNK-READ.md */
    CONTAINER_BLOCK_MOST = 1 << CONTAINER_BLOCK_LOG2_MOST,
    CONTAINER_PLAIN_MOST = 16 << 20,
};

struct container_head {
    enum chunk_codec codec; /* never CHUNK_RAW */
    unsigned block_log2;
    uint32_t plain_bytes;
    uint32_t stored_bytes; /* the whole container */
    uint32_t block_count;
};

/* One more than there are blocks: the last says where the last one ends. */
struct container_block {
    uint32_t off; /* in the container */
    uint32_t check;
};

/* Plain bytes are 1 to CONTAINER_PLAIN_MOST. */
uint32_t container_head_block_count(uint32_t plain_bytes, unsigned block_log2);
/* Header, index and check: where the first block begins. */
size_t container_head_bytes(uint32_t block_count);
/* Plain bytes of block i: all have the block's size, but the last. */
size_t container_head_plain_len(const struct container_head *head, uint32_t i);
/* What the index holds a block's stored bytes against: the low 32 bits of their XXH3-64. */
uint32_t container_head_block_check(const void *stored, size_t len);

/* The entries first, then the rest of the head; dst is the beginning of the container. */
void container_head_write_entry(uint8_t *dst, uint32_t i, uint32_t stored_len, uint32_t check);
void container_head_write(uint8_t *dst, const struct container_head *head,
                          const struct digest *chunk_id);

/*
 * Reads the header from the first len bytes and holds it against the chunk's row. Nothing is
 * believed yet but that the sizes are possible. ERR_CORRUPT: damaged, or not this chunk.
 * ERR_INTERNAL: a version or a codec that this program does not know; that is no damage.
 */
int container_head_parse(const uint8_t *bytes, size_t len, const struct stored_chunk *chunk,
                         struct container_head *ret_head, struct err *err);
/*
 * bytes: container_head_bytes() of them. Checks them, then fills block_count + 1 entries that lie
 * behind the head, in order, without holes, and end where the container ends. ERR_CORRUPT.
 */
int container_head_parse_index(const struct container_head *head, const uint8_t *bytes,
                               struct container_block *ret_blocks, struct err *err);

#endif
