/* users: accounts, for the command line and the first start. */
#ifndef OXI_SERVICE_USERS_H
#define OXI_SERVICE_USERS_H

#include "base/config.h"
#include "meta/pg_pool.h"
#include "meta/user_repo.h"
#include "service/principal.h"

/* ERR_INVALID: a name that is empty, longer than USER_NAME_MAX, not UTF-8, or holds ':', '/' or
 * control characters; or a bad password. */
int users_add(struct pg_pool *pool, const struct config *config, const char *name,
              struct slice password, int64_t quota_bytes, struct err *err);
int users_set_password(struct pg_pool *pool, const struct config *config, const char *name,
                       struct slice password, struct err *err);
int users_set_disabled(struct pg_pool *pool, const char *name, bool disabled, struct err *err);
int users_set_quota(struct pg_pool *pool, const char *name, int64_t quota_bytes,
                    struct err *err);
int users_remove(struct pg_pool *pool, const char *name, struct err *err);
int users_list(struct pg_pool *pool, int64_t after_id, struct user *users, size_t cap,
               size_t *ret_count, struct err *err);
int users_principal(struct pg_pool *pool, const char *name, struct principal *ret_principal,
                    struct err *err);
/* Makes `admin` with a random password when there is no user at all. password holds 25 bytes. */
int users_first(struct pg_pool *pool, const struct config *config, bool *ret_made,
                char password[25], struct err *err);

#endif
