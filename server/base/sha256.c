#include "base/sha256.h"

void
sha256_init(struct sha256_state *state)
{
    crypto_hash_sha256_init(&state->inner);
}

void
sha256_add(struct sha256_state *state, const void *data, size_t len)
{
    crypto_hash_sha256_update(&state->inner, data, len);
}

struct sha256
sha256_end(struct sha256_state *state)
{
    struct sha256 sum;

    crypto_hash_sha256_final(&state->inner, sum.bytes);
    return sum;
}

void
sha256_base64(char dst[SHA256_BASE64_SIZE], const struct sha256 *sum)
{
    sodium_bin2base64(dst, SHA256_BASE64_SIZE, sum->bytes, SHA256_BYTES,
                      sodium_base64_VARIANT_ORIGINAL);
}
