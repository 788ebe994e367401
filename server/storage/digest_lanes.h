/*
 * digest_lanes: many BLAKE2b-256 digests at once, side by side in the lanes of vector registers
 * (RFC 7693; the same digests as one after the other). storage/digest.h chooses.
 */
#ifndef OXI_STORAGE_DIGEST_LANES_H
#define OXI_STORAGE_DIGEST_LANES_H

#include <stddef.h>

#include "base/text.h"
#include "storage/digest.h"

/* How many messages this processor hashes side by side: 8 (AVX-512), 4 (AVX2) or 1: not at all. */
size_t digest_lanes_width(void);

/* width: 4 or 8, and at most what digest_lanes_width() says. Long messages first keep the lanes
 * filled best. */
void digest_lanes_run(size_t width, const struct slice *messages, size_t count,
                      struct digest *ret_digests);

#endif
