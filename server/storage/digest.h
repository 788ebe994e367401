/*
 * digest: chunk and content ids. Both are BLAKE2b-256 (RFC 7693, libsodium's crypto_generichash,
 * what `b2sum -l 256` prints): cryptographic, because clients choose the bytes.
 *
 * A chunk id is the digest of the chunk's plain bytes. A content id is the digest of the ordered
 * list of its chunks, 36 bytes each: the chunk id, then the length as u32, little-endian. So the
 * content id costs no second pass over the bytes, and the empty content has an id too.
 */
#ifndef OXI_STORAGE_DIGEST_H
#define OXI_STORAGE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { DIGEST_BYTES = 32, DIGEST_HEX_SIZE = 65 };

struct digest {
    uint8_t bytes[DIGEST_BYTES];
};

struct digest digest_of(const void *data, size_t len);
/* The same for each of many messages, at several times the speed where the processor has vectors
 * for it (digest_lanes.h). Fastest when the long ones come first. */
void digest_of_each(const struct slice *messages, size_t count, struct digest *ret_digests);
bool digest_eq(const struct digest *a, const struct digest *b);
int digest_cmp(const struct digest *a, const struct digest *b); /* byte order */
void digest_hex(char dst[DIGEST_HEX_SIZE], const struct digest *digest);
bool digest_unhex(struct digest *ret_digest, const char *hex, size_t len);

/* XXH3-64 of stored bytes: finds rot and torn files fast; never an identity. */
uint64_t digest_check(const void *data, size_t len);

#endif
