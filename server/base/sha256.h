/*
 * sha256: SHA-256 (FIPS 180-4, libsodium), piece by piece. It is what clients ask for; what is
 * stored is named by other digests (storage/digest.h).
 */
#ifndef OXI_BASE_SHA256_H
#define OXI_BASE_SHA256_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BASE64_SIZE = 45 };

struct sha256 {
    uint8_t bytes[SHA256_BYTES];
};

struct sha256_state {
    crypto_hash_sha256_state inner;
};

void sha256_init(struct sha256_state *state);
void sha256_add(struct sha256_state *state, const void *data, size_t len);
struct sha256 sha256_end(struct sha256_state *state);

/* RFC 4648 section 4, with padding. */
void sha256_base64(char dst[SHA256_BASE64_SIZE], const struct sha256 *sum);

#endif
