/*
 * user_repo: accounts, quotas, and the failures that slow guessers down (in the database, so that
 * they hold on every node and across restarts).
 */
#ifndef OXI_META_USER_REPO_H
#define OXI_META_USER_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "meta/pg.h"

enum { USER_NAME_MAX = 128, USER_HASH_MAX = 128 };

struct user {
    int64_t id;
    char name[USER_NAME_MAX + 1];
    char password_hash[USER_HASH_MAX + 1]; /* libsodium's crypto_pwhash_str form */
    int64_t space_id;
    bool disabled;
    int64_t quota_bytes; /* -1: none */
    uint64_t used_bytes;
    int64_t created_us;
};

/* Makes the user and its space. ERR_EXISTS: the name is taken. */
int user_repo_add(struct pg_conn *conn, const char *name, const char *password_hash,
                  int64_t quota_bytes, int64_t *ret_user_id, struct err *err);
int user_repo_find(struct pg_conn *conn, const char *name, struct user *ret_user,
                   struct err *err); /* ERR_NOT_FOUND */
int user_repo_list(struct pg_conn *conn, int64_t after_id, struct user *users, size_t cap,
                   size_t *ret_count, struct err *err);
int user_repo_count(struct pg_conn *conn, uint64_t *ret_count, struct err *err);
int user_repo_set_password(struct pg_conn *conn, int64_t user_id, const char *password_hash,
                           struct err *err);
int user_repo_set_disabled(struct pg_conn *conn, int64_t user_id, bool disabled, struct err *err);
int user_repo_set_quota(struct pg_conn *conn, int64_t user_id, int64_t quota_bytes,
                        struct err *err);
/* The account goes; its tree goes to the trash of nobody and is purged by the janitor. */
int user_repo_remove(struct pg_conn *conn, int64_t user_id, struct err *err);

/* Failed logins of an account from an address within the window; locked_until 0: not locked. */
int user_repo_failures(struct pg_conn *conn, const char *account, const char *address,
                       int64_t window_secs, int64_t *ret_count, int64_t *ret_locked_until_us,
                       struct err *err);
/* One more; locks for lock_secs when the count reaches most. Old rows are removed on the way. */
int user_repo_fail(struct pg_conn *conn, const char *account, const char *address,
                   int64_t window_secs, int64_t most, int64_t lock_secs, struct err *err);
int user_repo_forgive(struct pg_conn *conn, const char *account, const char *address,
                      struct err *err);
/* Failures of all accounts from an address within the window. */
int user_repo_address_failures(struct pg_conn *conn, const char *address, int64_t window_secs,
                               int64_t *ret_count, struct err *err);

#endif
