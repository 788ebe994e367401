#include "meta/user_repo.h"

#include <stdio.h>

#include "meta/node_repo.h"

/* --- accounts --- */

static const char SQL_ADD[] = "insert into users (name, password_hash, quota_bytes)"
                              " values ($1, $2, nullif($3::bigint, -1)) "
                              "on conflict (name) do nothing returning id";

int
user_repo_add(struct pg_conn *conn, const char *name, const char *password_hash,
              int64_t quota_bytes, int64_t *ret_user_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    int64_t space_id;

    pg_add_text(&params, name);
    pg_add_text(&params, password_hash);
    pg_add_int(&params, quota_bytes);
    if (pg_run(conn, SQL_ADD, &params, &rows, err) < 0)
        return err_wrap(err, "add user");
    if (pg_count(rows) == 0)
        return err_set(err, ERR_EXISTS, "the user name is taken");
    if (node_repo_make_space(conn, pg_int(rows, 0, 0), &space_id, err) < 0)
        return -1;
    *ret_user_id = pg_int(rows, 0, 0);
    return 0;
}

#define USER_COLUMNS                                                                               \
    "u.id, u.name, u.password_hash, s.id, u.disabled, coalesce(u.quota_bytes, -1),"                \
    " s.used_bytes, u.created_at"

static void
read_user(const struct pg_rows *rows, int row, struct user *user)
{
    user->id = pg_int(rows, row, 0);
    snprintf(user->name, sizeof(user->name), "%s", pg_text(rows, row, 1));
    snprintf(user->password_hash, sizeof(user->password_hash), "%s", pg_text(rows, row, 2));
    user->space_id = pg_int(rows, row, 3);
    user->disabled = pg_int(rows, row, 4) != 0;
    user->quota_bytes = pg_int(rows, row, 5);
    user->used_bytes = (uint64_t)pg_int(rows, row, 6);
    user->created_us = pg_time(rows, row, 7);
}

static const char SQL_FIND[] =
    "select " USER_COLUMNS " from users u join spaces s on s.owner_id = u.id where u.name = $1";

int
user_repo_find(struct pg_conn *conn, const char *name, struct user *ret_user, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_text(&params, name);
    if (pg_run(conn, SQL_FIND, &params, &rows, err) < 0)
        return err_wrap(err, "find user");
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "no such user");
    read_user(rows, 0, ret_user);
    return 0;
}

static const char SQL_LIST[] =
    "select " USER_COLUMNS " from users u join spaces s on s.owner_id = u.id "
    "where u.id > $1 order by u.id limit $2";

int
user_repo_list(struct pg_conn *conn, int64_t after_id, struct user *users, size_t cap,
               size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, after_id);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_LIST, &params, &rows, err) < 0)
        return err_wrap(err, "list users");
    for (int row = 0; row < pg_count(rows); row++)
        read_user(rows, row, &users[row]);
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_COUNT[] = "select count(*) from users";

int
user_repo_count(struct pg_conn *conn, uint64_t *ret_count, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_COUNT, NULL, &rows, err) < 0)
        return err_wrap(err, "count users");
    *ret_count = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

/* Runs a statement about one user, which must be there. */
static int
change_user(struct pg_conn *conn, const char *sql, const struct pg_params *params, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, sql, params, &rows, err) < 0)
        return err_wrap(err, "change user");
    if (pg_affected(rows) != 1)
        return err_set(err, ERR_NOT_FOUND, "no such user");
    return 0;
}

static const char SQL_SET_PASSWORD[] = "update users set password_hash = $2 where id = $1";

int
user_repo_set_password(struct pg_conn *conn, int64_t user_id, const char *password_hash,
                       struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, user_id);
    pg_add_text(&params, password_hash);
    return change_user(conn, SQL_SET_PASSWORD, &params, err);
}

static const char SQL_SET_DISABLED[] = "update users set disabled = $2 where id = $1";

int
user_repo_set_disabled(struct pg_conn *conn, int64_t user_id, bool disabled, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, user_id);
    pg_add_bool(&params, disabled);
    return change_user(conn, SQL_SET_DISABLED, &params, err);
}

static const char SQL_SET_QUOTA[] =
    "update users set quota_bytes = nullif($2::bigint, -1) where id = $1";

int
user_repo_set_quota(struct pg_conn *conn, int64_t user_id, int64_t quota_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, user_id);
    pg_add_int(&params, quota_bytes);
    return change_user(conn, SQL_SET_QUOTA, &params, err);
}

/* --- removing --- */

/* Row locks in the usual order: the space, then nodes and trash. Whoever waits for the space
 * meanwhile finds it without an owner, or its root in the trash. */
static const char SQL_SPACE_OF[] = "select id from spaces where owner_id = $1 for no key update";

static const char SQL_TRASH_SPACE[] = "with older as ("
                                      "  update trash set purging = true where space_id = $1"
                                      ") "
                                      "insert into trash (node_id, space_id, path, purging) "
                                      "select root_id, id, '/', true from spaces where id = $1";

static int
trash_space(struct pg_conn *conn, int64_t user_id, struct err *err)
{
    AUTO_PARAMS struct pg_params user_params = PG_PARAMS_EMPTY;
    AUTO_PARAMS struct pg_params space_params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&user_params, user_id);
    if (pg_run(conn, SQL_SPACE_OF, &user_params, &rows, err) < 0)
        return -1;
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "no such user");
    pg_add_int(&space_params, pg_int(rows, 0, 0));
    return pg_run(conn, SQL_TRASH_SPACE, &space_params, NULL, err);
}

/* The space forgets its owner through the foreign key. */
static const char SQL_REMOVE[] = "delete from users where id = $1";

int
user_repo_remove(struct pg_conn *conn, int64_t user_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, user_id);
    if (trash_space(conn, user_id, err) < 0)
        return err_wrap(err, "remove user");
    return change_user(conn, SQL_REMOVE, &params, err);
}

/* --- failed logins --- */

/*
 * One row an account and address: its failures since first_at. Counting begins anew when the
 * window, or a lock, is over. A row and not one per failure, so that attempts that come at the
 * same moment wait for each other's count.
 */
static const char SQL_FAILURES[] =
    "select case when first_at > now() - $3 * interval '1 second'"
    "         and (locked_until is null or locked_until > now()) then failures else 0 end,"
    " case when locked_until > now() then locked_until end "
    "from login_failures where account = $1 and address = $2";

int
user_repo_failures(struct pg_conn *conn, const char *account, const char *address,
                   int64_t window_secs, int64_t *ret_count, int64_t *ret_locked_until_us,
                   struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    bool found;

    pg_add_text(&params, account);
    pg_add_text(&params, address);
    pg_add_int(&params, window_secs);
    if (pg_run(conn, SQL_FAILURES, &params, &rows, err) < 0)
        return err_wrap(err, "look up failed logins");
    found = pg_count(rows) > 0;
    *ret_count = found ? pg_int(rows, 0, 0) : 0;
    *ret_locked_until_us = found ? pg_time(rows, 0, 1) : 0;
    return 0;
}

/* Kept a day longer than the window: the window for addresses may be another. */
static const char SQL_FORGET_OLD[] =
    "delete from login_failures where (account, address) in ("
    "  select account, address from login_failures"
    "  where last_at < now() - $1 * interval '1 second' - interval '1 day'"
    "    and (locked_until is null or locked_until < now())"
    "  order by last_at limit 100 for update skip locked)";

static int
forget_old(struct pg_conn *conn, int64_t window_secs, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, window_secs);
    return pg_run(conn, SQL_FORGET_OLD, &params, NULL, err);
}

static const char SQL_FAIL[] =
    "insert into login_failures as f"
    " (account, address, failures, first_at, last_at, locked_until) "
    "values ($1, $2, 1, now(), now(),"
    "  case when 1 >= $4 then now() + $5 * interval '1 second' end) "
    "on conflict (account, address) do update set"
    " failures = case when f.first_at <= now() - $3 * interval '1 second'"
    "     or f.locked_until <= now() then 1 else f.failures + 1 end,"
    " first_at = case when f.first_at <= now() - $3 * interval '1 second'"
    "     or f.locked_until <= now() then now() else f.first_at end,"
    " last_at = now(),"
    " locked_until = case when $4 <= case when f.first_at <= now() - $3 * interval '1 second'"
    "     or f.locked_until <= now() then 1 else f.failures + 1 end"
    "   then now() + $5 * interval '1 second'"
    "   when f.locked_until > now() then f.locked_until end";

int
user_repo_fail(struct pg_conn *conn, const char *account, const char *address, int64_t window_secs,
               int64_t most, int64_t lock_secs, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_text(&params, account);
    pg_add_text(&params, address);
    pg_add_int(&params, window_secs);
    pg_add_int(&params, most);
    pg_add_int(&params, lock_secs);
    if (forget_old(conn, window_secs, err) < 0 || pg_run(conn, SQL_FAIL, &params, NULL, err) < 0)
        return err_wrap(err, "count failed login");
    return 0;
}

static const char SQL_FORGIVE[] = "delete from login_failures where account = $1 and address = $2";

int
user_repo_forgive(struct pg_conn *conn, const char *account, const char *address, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_text(&params, account);
    pg_add_text(&params, address);
    if (pg_run(conn, SQL_FORGIVE, &params, NULL, err) < 0)
        return err_wrap(err, "forgive failed logins");
    return 0;
}

static const char SQL_ADDRESS_FAILURES[] =
    "select coalesce(sum(failures), 0)::bigint from login_failures "
    "where address = $1 and last_at > now() - $2 * interval '1 second'";

int
user_repo_address_failures(struct pg_conn *conn, const char *address, int64_t window_secs,
                           int64_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_text(&params, address);
    pg_add_int(&params, window_secs);
    if (pg_run(conn, SQL_ADDRESS_FAILURES, &params, &rows, err) < 0)
        return err_wrap(err, "count failed logins of an address");
    *ret_count = pg_int(rows, 0, 0);
    return 0;
}
