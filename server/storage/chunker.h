/*
 * chunker: where to cut a stream. FastCDC, the variant of 2020 (Xia et al., "The Design of Fast
 * Content-Defined Chunking for Data Deduplication Based Storage Systems", IEEE TPDS 2020), with
 * normalised chunking. Pure: no I/O, no memory of its own. The cut points are a stored format:
 * the same content is cut the same way for ever, however the stream was split on its way here.
 *
 * Gear table: entry i is the first 8 bytes, read big-endian, of MD5 over 64 bytes all equal to i.
 */
#ifndef OXI_STORAGE_CHUNKER_H
#define OXI_STORAGE_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunker_sizes {
    size_t least_bytes;
    size_t average_bytes; /* a power of two from 16 KiB to 1 MiB (a mask must be known for it) */
    size_t most_bytes;
    unsigned level; /* of normalisation: 0 to 3 */
};

/* 64 KiB, 256 KiB, 1 MiB, level 1: what the store uses. */
extern const struct chunker_sizes chunker_store_sizes;

/* Call once before any thread uses a chunker. */
void chunker_start(void);

struct chunker {
    struct chunker_sizes sizes;
    uint64_t mask_before; /* of the centre */
    uint64_t mask_after;
    size_t scanned; /* bytes of the current chunk looked at already */
    uint64_t hash;
};

void chunker_init(struct chunker *chunker, const struct chunker_sizes *sizes);

/*
 * data: the current chunk from its first byte, avail bytes of it so far (earlier calls for the
 * same chunk gave a prefix). Returns the length of the chunk, and is ready for the next one; or 0:
 * more bytes are needed. At the end of the stream (`last`) what is left is always cut: 0 then
 * means avail was 0. *ret_hash, when wanted, is the gear hash at the cut.
 */
size_t chunker_cut(struct chunker *chunker, const uint8_t *data, size_t avail, bool last,
                   uint64_t *ret_hash);

#endif
