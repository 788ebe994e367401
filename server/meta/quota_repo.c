#include "meta/quota_repo.h"

static const char SQL_LOCK[] =
    "select s.used_bytes, coalesce(u.quota_bytes, -1), set_config('synchronous_commit', 'off', true) "
    "from spaces s join users u on u.id = s.owner_id where s.id = $1 for no key update of s";

int
quota_repo_lock(struct pg_conn *conn, int64_t space_id, uint64_t *ret_used_bytes,
                int64_t *ret_quota_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    if (pg_run(conn, SQL_LOCK, &params, &rows, err) < 0)
        return err_wrap(err, "lock space %lld", (long long)space_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_LOGIN, "space %lld: its account is gone", (long long)space_id);
    *ret_used_bytes = (uint64_t)pg_int(rows, 0, 0);
    *ret_quota_bytes = pg_int(rows, 0, 1);
    return 0;
}

/* A statement of its own, after the lock: in one statement with it, the sum would be that of the
 * moment before the wait for the lock. */
static const char SQL_RESERVE[] =
    "with gone as ("
    "  delete from reservations where space_id = $2 and id <> $1 and expires_at <= now()"
    "), others as ("
    "  select coalesce(sum(bytes), 0)::bigint as bytes from reservations"
    "  where space_id = $2 and id <> $1 and expires_at > now()"
    ") "
    "insert into reservations (id, space_id, bytes, expires_at) "
    "select $1, $2, least($4, $5 - others.bytes), now() + $6 * interval '1 second' "
    "from others where $3 <= $5 - others.bytes "
    "on conflict (id) do update set bytes = excluded.bytes, expires_at = excluded.expires_at "
    "returning bytes";

int
quota_repo_reserve(struct pg_conn *conn, const struct reservation *reservation, int64_t room_bytes,
                   uint64_t *ret_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, reservation->id);
    pg_add_int(&params, reservation->space_id);
    pg_add_int(&params, (int64_t)reservation->needed_bytes);
    pg_add_int(&params, (int64_t)reservation->wanted_bytes);
    pg_add_int(&params, room_bytes);
    pg_add_int(&params, reservation->ttl_secs);
    if (pg_run(conn, SQL_RESERVE, &params, &rows, err) < 0)
        return err_wrap(err, "reserve in space %lld", (long long)reservation->space_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_QUOTA, "the quota has no room for %llu bytes",
                       (unsigned long long)reservation->needed_bytes);
    *ret_bytes = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

static const char SQL_SETTLE[] = "with own as (delete from reservations where id = $2) "
                                 "select coalesce(sum(bytes), 0)::bigint from reservations "
                                 "where space_id = $1 and id <> $2 and expires_at > now()";

int
quota_repo_settle(struct pg_conn *conn, int64_t space_id, int64_t id, uint64_t *ret_others_bytes,
                  struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    pg_add_int(&params, id);
    if (pg_run(conn, SQL_SETTLE, &params, &rows, err) < 0)
        return err_wrap(err, "reservations of space %lld", (long long)space_id);
    *ret_others_bytes = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

static const char SQL_RELEASE[] = "delete from reservations where id = $1";

int
quota_repo_release(struct pg_conn *conn, int64_t id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, id);
    if (pg_run(conn, SQL_RELEASE, &params, NULL, err) < 0)
        return err_wrap(err, "release reservation");
    return 0;
}
