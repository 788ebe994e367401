/*
 * container_pack: a chunk that lies in memory, packed whole and unpacked whole. Pure but for
 * counters (METRIC_CHUNK_ENCODE_*); takes as long as the codec does, so it belongs into a worker.
 */
#ifndef OXI_STORAGE_CONTAINER_PACK_H
#define OXI_STORAGE_CONTAINER_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/container/container_form.h"
#include "storage/container/container_tally.h"
#include "storage/manifest.h"

/* Room for whatever container_pack() makes of so many plain bytes. */
size_t container_pack_bound(size_t plain_len, unsigned block_log2);

/*
 * The container of these plain bytes (1 to CONTAINER_PLAIN_MOST) in dst, and its size. 0: it would
 * not be smaller by a sixteenth, so the chunk stays raw; a few samples usually tell, without
 * packing all of it.
 */
size_t container_pack(const struct container_form *form, const struct digest *chunk_id,
                      const void *plain, size_t len, uint8_t *dst);

/*
 * stored: all stored_bytes of a chunk whose row says that it is packed. Every block is checked;
 * dst takes size_bytes. Errors as container_head_parse(). The caller, who read the bytes and may
 * read them again, counts that in the tally; blocks, output and the time of decoding are added
 * here. NULL: nothing is counted.
 */
int container_unpack(const struct stored_chunk *chunk, const void *stored, void *dst,
                     struct container_tally *tally, struct err *err);

#endif
