/*
 * password: from a password to what the database keeps of it, Argon2id (libsodium's
 * crypto_pwhash), and back to whether it was the one. Each call takes the configured time and
 * memory; who calls bounds how many run at once.
 */
#ifndef OXI_SERVICE_PASSWORD_H
#define OXI_SERVICE_PASSWORD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "meta/user_repo.h"

enum { PASSWORD_LEAST_BYTES = 8, PASSWORD_MOST_BYTES = 1024 };

/* ERR_INVALID: shorter or longer than that; ERR_BUSY: no memory for it now. */
int password_hash(const struct config *config, struct slice password,
                  char ret_hash[USER_HASH_MAX + 1], struct err *err);

/* A hash that no password has; comparing with it costs what a real one costs. */
void password_hash_of_nobody(const struct config *config, char ret_hash[USER_HASH_MAX + 1]);

/* ERR_BUSY: no memory for it now. */
int password_matches(struct slice password, const char *hash, bool *ret_matches, struct err *err);

#endif
