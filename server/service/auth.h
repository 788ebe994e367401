/*
 * auth: credentials in, principal out. Passwords are Argon2id (password.h). A
 * verified pair is remembered for a short time under a keyed hash (never the password), so that a
 * client that sends Basic on every request costs one Argon2. A wrong pair is remembered too, until
 * the account changes, so that a device with an old password neither costs more nor locks the
 * account. Callers with the same pair at the same moment wait for one computation. Unknown names
 * cost as much as known ones.
 */
#ifndef OXI_SERVICE_AUTH_H
#define OXI_SERVICE_AUTH_H

#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "meta/pg_pool.h"
#include "service/principal.h"

struct auth;

/* Borrows both. At most two Argon2 run at a time: that bounds their memory. */
struct auth *auth_new(const struct config *config, struct pg_pool *pool);
void auth_free(struct auth *auth);

/* Only looks into memory and never waits: 1 and the principal when the pair was verified a short
 * time ago, else 0. */
int auth_recall(struct auth *auth, struct slice name, struct slice password,
                struct principal *ret_principal);

/*
 * address: the client's, as text. ERR_LOGIN: wrong, unknown or disabled (which of them is not
 * told). ERR_TOO_MANY: this account is locked for this address, or the address tried too often.
 */
int auth_password(struct auth *auth, struct slice name, struct slice password, const char *address,
                  struct principal *ret_principal, struct err *err);

#endif
