/* users: accounts, for the command line and the first start. */
#ifndef OXI_SERVICE_USERS_H
#define OXI_SERVICE_USERS_H

#include "base/config.h"
#include "meta/pg_pool.h"
#include "meta/user_repo.h"
#include "service/principal.h"

/* The NFC form of a name. ERR_INVALID: empty, longer than USER_NAME_MAX, not UTF-8, or with ':',
 * '/' or control characters in it. */
int users_check_name(struct slice in, char ret_name[USER_NAME_MAX + 1], struct err *err);

/* ERR_INVALID: a bad name (see above) or a bad password (see password_hash). */
int users_add(struct pg_pool *pool, const struct config *config, const char *name,
              struct slice password, int64_t quota_bytes, struct err *err);
int users_set_password(struct pg_pool *pool, const struct config *config, const char *name,
                       struct slice password, struct err *err);
int users_set_disabled(struct pg_pool *pool, const char *name, bool disabled, struct err *err);
int users_set_quota(struct pg_pool *pool, const char *name, int64_t quota_bytes, struct err *err);
int users_remove(struct pg_pool *pool, const char *name, struct err *err);
int users_list(struct pg_pool *pool, int64_t after_id, struct user *users, size_t cap,
               size_t *ret_count, struct err *err);
int users_principal(struct pg_pool *pool, const char *name, struct principal *ret_principal,
                    struct err *err);
/* Makes `admin` with a random password when there is no user at all. */
enum { USERS_FIRST_PASSWORD_SIZE = 25 };
int users_first(struct pg_pool *pool, const struct config *config, bool *ret_made,
                char ret_password[USERS_FIRST_PASSWORD_SIZE], struct err *err);

#endif
