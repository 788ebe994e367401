#include "service/password.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "base/rand.h"

_Static_assert(crypto_pwhash_STRBYTES <= USER_HASH_MAX + 1, "a hash fits into its column");

int
password_hash(const struct config *config, struct slice password, char ret_hash[USER_HASH_MAX + 1],
              struct err *err)
{
    char hash[crypto_pwhash_STRBYTES];

    if (password.len < PASSWORD_LEAST_BYTES || password.len > PASSWORD_MOST_BYTES)
        return err_set(err, ERR_INVALID, "a password has %d to %d bytes", PASSWORD_LEAST_BYTES,
                       PASSWORD_MOST_BYTES);
    if (crypto_pwhash_str(hash, password.data, password.len, config->hash_time_cost,
                          (size_t)config->hash_memory_cost_kib * 1024) != 0)
        return err_set(err, ERR_BUSY, "no memory to hash a password");
    memcpy(ret_hash, hash, strnlen(hash, sizeof(hash) - 1) + 1);
    return 0;
}

/* The form of crypto_pwhash_str, with a salt and a result that are just random. */
void
password_hash_of_nobody(const struct config *config, char ret_hash[USER_HASH_MAX + 1])
{
    uint8_t salt[16], result[32];
    char salt64[25], result64[49];

    rand_bytes(salt, sizeof(salt));
    rand_bytes(result, sizeof(result));
    sodium_bin2base64(salt64, sizeof(salt64), salt, sizeof(salt),
                      sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    sodium_bin2base64(result64, sizeof(result64), result, sizeof(result),
                      sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    snprintf(ret_hash, USER_HASH_MAX + 1, "$argon2id$v=19$m=%llu,t=%llu,p=1$%s$%s",
             (unsigned long long)config->hash_memory_cost_kib,
             (unsigned long long)config->hash_time_cost, salt64, result64);
}

int
password_matches(struct slice password, const char *hash, bool *ret_matches, struct err *err)
{
    int rc;

    errno = 0;
    rc = crypto_pwhash_str_verify(hash, password.data, password.len);
    if (rc != 0 && errno == ENOMEM) /* which is not a wrong password */
        return err_set(err, ERR_BUSY, "no memory to check a password");
    *ret_matches = rc == 0;
    return 0;
}
