#include "base/rand.h"

#include <sodium.h>

int
rand_start(struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, ERR_UNAVAILABLE, "start libsodium: no source of random bytes");
    return 0;
}

void
rand_bytes(void *dst, size_t len)
{
    randombytes_buf(dst, len);
}

uint64_t
rand_u64(void)
{
    uint64_t value;

    randombytes_buf(&value, sizeof(value));
    return value;
}

/* 64 letters: the low six bits of a random byte choose one without bias. */
void
rand_token(char *dst, size_t len)
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789-_";

    randombytes_buf(dst, len);
    for (size_t i = 0; i < len; i++)
        dst[i] = ALPHABET[(unsigned char)dst[i] & 63];
    dst[len] = 0;
}
