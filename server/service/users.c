#include "service/users.h"

#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "base/rand.h"
#include "base/text.h"
#include "service/password.h"

int
users_check_name(struct slice in, char ret_name[USER_NAME_MAX + 1], struct err *err)
{
    struct arena arena;
    struct slice name;
    int rc = -1;

    arena_init(&arena);
    if (in.len == 0 || in.len > USER_NAME_MAX || !text_is_utf8(in)) {
        err_set(err, ERR_INVALID, "a user's name is UTF-8 of 1 to %d bytes", USER_NAME_MAX);
        goto out;
    }
    if (text_nfc(in, &arena, &name, err) < 0)
        goto out;
    if (name.len > USER_NAME_MAX) {
        err_set(err, ERR_INVALID, "a user's name is UTF-8 of 1 to %d bytes", USER_NAME_MAX);
        goto out;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];

        if (c < 0x20 || c == 0x7f || c == ':' || c == '/') {
            err_set(err, ERR_INVALID, "a user's name has no ':', '/' or control characters");
            goto out;
        }
    }
    memcpy(ret_name, name.data, name.len);
    ret_name[name.len] = 0;
    rc = 0;
out:
    arena_release(&arena);
    return rc;
}

/* --- one job for all of them: what they need, and a step once the account is found --- */

struct account_job {
    char name[USER_NAME_MAX + 1];
    char hash[USER_HASH_MAX + 1];
    int64_t quota_bytes;
    bool disabled;
    int (*step)(struct pg_conn *conn, const struct account_job *job, int64_t user_id,
                struct err *err);
    struct user user;
};

static int
find_account(struct pg_conn *conn, struct account_job *job, struct err *err)
{
    if (user_repo_find(conn, job->name, &job->user, err) == 0)
        return 0;
    if (err->code == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no user %s", job->name);
    return err_wrap(err, "find user %s", job->name);
}

static int
change_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct account_job *job = ctx;

    if (find_account(conn, job, err) < 0)
        return -1;
    return job->step(conn, job, job->user.id, err);
}

static int
change(struct pg_pool *pool, const char *name, struct account_job *job, struct err *err)
{
    if (users_check_name(slice_of(name), job->name, err) < 0)
        return -1;
    return pg_pool_transact(pool, change_work, job, NULL, err);
}

static int
set_password_step(struct pg_conn *conn, const struct account_job *job, int64_t user_id,
                  struct err *err)
{
    return user_repo_set_password(conn, user_id, job->hash, err);
}

static int
set_disabled_step(struct pg_conn *conn, const struct account_job *job, int64_t user_id,
                  struct err *err)
{
    return user_repo_set_disabled(conn, user_id, job->disabled, err);
}

static int
set_quota_step(struct pg_conn *conn, const struct account_job *job, int64_t user_id,
               struct err *err)
{
    return user_repo_set_quota(conn, user_id, job->quota_bytes, err);
}

static int
remove_step(struct pg_conn *conn, const struct account_job *job, int64_t user_id, struct err *err)
{
    (void)job;
    return user_repo_remove(conn, user_id, err);
}

int
users_set_password(struct pg_pool *pool, const struct config *config, const char *name,
                   struct slice password, struct err *err)
{
    struct account_job job = {.step = set_password_step};

    if (password_hash(config, password, job.hash, err) < 0)
        return -1;
    return change(pool, name, &job, err);
}

int
users_set_disabled(struct pg_pool *pool, const char *name, bool disabled, struct err *err)
{
    struct account_job job = {.step = set_disabled_step, .disabled = disabled};

    return change(pool, name, &job, err);
}

int
users_set_quota(struct pg_pool *pool, const char *name, int64_t quota_bytes, struct err *err)
{
    struct account_job job = {.step = set_quota_step, .quota_bytes = quota_bytes};

    return change(pool, name, &job, err);
}

int
users_remove(struct pg_pool *pool, const char *name, struct err *err)
{
    struct account_job job = {.step = remove_step};

    return change(pool, name, &job, err);
}

/* --- add --- */

static int
add_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct account_job *job = ctx;
    int64_t user_id;

    if (user_repo_add(conn, job->name, job->hash, job->quota_bytes, &user_id, err) == 0)
        return 0;
    if (err->code == ERR_EXISTS)
        return err_set(err, ERR_EXISTS, "there is a user %s already", job->name);
    return err_wrap(err, "add user %s", job->name);
}

int
users_add(struct pg_pool *pool, const struct config *config, const char *name,
          struct slice password, int64_t quota_bytes, struct err *err)
{
    struct account_job job = {.quota_bytes = quota_bytes};

    if (users_check_name(slice_of(name), job.name, err) < 0 ||
        password_hash(config, password, job.hash, err) < 0)
        return -1;
    return pg_pool_transact(pool, add_work, &job, NULL, err);
}

static int
count_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return user_repo_count(conn, ctx, err);
}

int
users_first(struct pg_pool *pool, const struct config *config, bool *ret_made,
            char ret_password[USERS_FIRST_PASSWORD_SIZE], struct err *err)
{
    uint64_t count;
    char password[USERS_FIRST_PASSWORD_SIZE];

    if (pg_pool_run(pool, count_work, &count, err) < 0)
        return -1;
    *ret_made = false;
    if (count > 0)
        return 0;

    rand_token(password, sizeof(password) - 1);
    if (users_add(pool, config, "admin", slice_of(password), -1, err) < 0) {
        if (err->code != ERR_EXISTS)
            return -1;
        *err = (struct err){0}; /* another node was first */
        return 0;
    }
    memcpy(ret_password, password, sizeof(password));
    sodium_memzero(password, sizeof(password));
    *ret_made = true;
    return 0;
}

/* --- look --- */

struct list_job {
    int64_t after_id;
    struct user *users;
    size_t cap;
    size_t count;
};

static int
list_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct list_job *job = ctx;

    return user_repo_list(conn, job->after_id, job->users, job->cap, &job->count, err);
}

int
users_list(struct pg_pool *pool, int64_t after_id, struct user *users, size_t cap,
           size_t *ret_count, struct err *err)
{
    struct list_job job = {.after_id = after_id, .users = users, .cap = cap};

    if (pg_pool_run(pool, list_work, &job, err) < 0)
        return -1;
    *ret_count = job.count;
    return 0;
}

static int
find_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return find_account(conn, ctx, err);
}

int
users_principal(struct pg_pool *pool, const char *name, struct principal *ret_principal,
                struct err *err)
{
    struct account_job job = {0};

    if (users_check_name(slice_of(name), job.name, err) < 0 ||
        pg_pool_run(pool, find_work, &job, err) < 0)
        return -1;
    *ret_principal = (struct principal){.user_id = job.user.id, .space_id = job.user.space_id};
    memcpy(ret_principal->name, job.user.name, sizeof(ret_principal->name));
    return 0;
}
