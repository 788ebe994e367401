#include "meta/lock_repo.h"

/* --- looking --- */

#define LOCK_COLUMNS                                                                               \
    "l.token, l.node_id, l.space_id, l.user_id, l.shared, l.deep, l.owner,"                        \
    " ceil(extract(epoch from l.expires_at - now()))::bigint as left_secs, n.kind, root.path,"     \
    " root.path_key"

/* Each with the way to its node, read from the node up. Only the root of a space has no name. */
#define LOCK_TABLES                                                                                \
    "locks l join nodes n on n.id = l.node_id cross join lateral ("                                \
    "  with recursive way as ("                                                                    \
    "    select n.parent_id,"                                                                      \
    "      case when n.name = '' then '' else '/' || n.name end as path,"                          \
    "      case when n.name = '' then '' else '/' || n.name_key end as path_key"                   \
    "    union all"                                                                                \
    "    select up.parent_id,"                                                                     \
    "      case when up.name = '' then '' else '/' || up.name end || way.path,"                    \
    "      case when up.name = '' then '' else '/' || up.name_key end || way.path_key"             \
    "    from way join nodes up on up.id = way.parent_id"                                          \
    "  ) select path, path_key from way where parent_id is null"                                   \
    ") root"

#define IN_FORCE " l.expires_at > now() "

static void
read_lock(const struct pg_rows *rows, int row, struct arena *arena, struct lock *lock)
{
    lock->token = arena_strdup(arena, pg_text(rows, row, 0));
    lock->node_id = pg_int(rows, row, 1);
    lock->space_id = pg_int(rows, row, 2);
    lock->user_id = pg_int(rows, row, 3);
    lock->shared = pg_int(rows, row, 4) != 0;
    lock->deep = pg_int(rows, row, 5) != 0;
    lock->owner = arena_strdup(arena, pg_text(rows, row, 6));
    lock->timeout_secs = pg_int(rows, row, 7);
    lock->kind = (enum node_kind)pg_int(rows, row, 8);
    lock->path = arena_strdup(arena, pg_text(rows, row, 9));
    lock->path_key = arena_strdup(arena, pg_text(rows, row, 10));
    lock->subject_id = pg_int(rows, row, 11);
}

/* The last column is the subject. */
static int
look(struct pg_conn *conn, const char *sql, const struct pg_params *params, struct arena *arena,
     struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;
    struct lock *locks;

    if (pg_run(conn, sql, params, &rows, err) < 0)
        return err_wrap(err, "look for locks");
    locks = arena_zalloc(arena, (size_t)pg_count(rows) * sizeof(*locks));
    for (int row = 0; row < pg_count(rows); row++)
        read_lock(rows, row, arena, &locks[row]);
    *ret_locks = locks;
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_ON[] =
    "select " LOCK_COLUMNS ", l.node_id from " LOCK_TABLES
    " where l.node_id = any($1::bigint[]) and" IN_FORCE "order by l.created_at, l.token";

int
lock_repo_on(struct pg_conn *conn, const int64_t *node_ids, size_t count, struct arena *arena,
             struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int_array(&params, node_ids, count);
    return look(conn, SQL_ON, &params, arena, ret_locks, ret_count, err);
}

/* From the locks of the space upwards: there are fewer of them than there may be nodes. */
#define BELOW                                                                                      \
    "with recursive up as ("                                                                       \
    "  select l.token, n.parent_id as at from locks l join nodes n on n.id = l.node_id"            \
    "  where l.space_id = $1 and" IN_FORCE "and l.node_id <> $2"                                   \
    "  union all"                                                                                  \
    "  select up.token, (select n.parent_id from nodes n where n.id = up.at)"                      \
    "  from up where up.at <> $2"                                                                  \
    "), below as materialized (select up.token from up where up.at = $2) "

static const char SQL_BELOW[] =
    BELOW "select " LOCK_COLUMNS ", l.node_id from " LOCK_TABLES
          " where l.token = any(array(select token from below)) order by l.created_at, l.token";

int
lock_repo_below(struct pg_conn *conn, int64_t space_id, int64_t node_id, struct arena *arena,
                struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    pg_add_int(&params, node_id);
    return look(conn, SQL_BELOW, &params, arena, ret_locks, ret_count, err);
}

static const char SQL_FIND[] = "select " LOCK_COLUMNS ", l.node_id from " LOCK_TABLES
                               " where l.space_id = $1 and l.token = any($2::text[]) and" IN_FORCE
                               "order by l.created_at, l.token";

int
lock_repo_find(struct pg_conn *conn, int64_t space_id, char *const *tokens, size_t count,
               struct arena *arena, struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    pg_add_text_array(&params, tokens, count);
    return look(conn, SQL_FIND, &params, arena, ret_locks, ret_count, err);
}

/*
 * The nodes of a page have few parents, so the ways up are those of the parents. What a lock looks
 * like is made once, however many nodes it covers; the array keeps the planner from doing that for
 * every lock there is, and the subquery from reading all nodes for a few steps up.
 */
static const char SQL_COVERING[] =
    "with recursive asked as materialized ("
    "  select n.id, n.parent_id from nodes n where n.id = any($1::bigint[])"
    "), up as ("
    "  select distinct parent_id as bottom, parent_id as at from asked where parent_id is not null"
    "  union all"
    "  select up.bottom, (select n.parent_id from nodes n where n.id = up.at)"
    "  from up where up.at is not null"
    "), above as materialized ("
    "  select up.bottom, l.token from up join locks l on l.node_id = up.at"
    "  where l.deep and" IN_FORCE "), cover as materialized ("
    "  select l.token, l.node_id as subject_id from locks l"
    "  where l.node_id = any($1::bigint[]) and" IN_FORCE "  union all"
    "  select above.token, asked.id from above join asked on asked.parent_id = above.bottom"
    "), shown as materialized ("
    "  select " LOCK_COLUMNS ", l.created_at from " LOCK_TABLES
    "  where l.token = any(array(select token from cover))"
    ") "
    "select s.token, s.node_id, s.space_id, s.user_id, s.shared, s.deep, s.owner, s.left_secs,"
    " s.kind, s.path, s.path_key, cover.subject_id "
    "from cover join shown s on s.token = cover.token "
    "order by cover.subject_id, s.created_at, s.token";

int
lock_repo_covering(struct pg_conn *conn, const int64_t *node_ids, size_t count, struct arena *arena,
                   struct lock **ret_locks, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int_array(&params, node_ids, count);
    return look(conn, SQL_COVERING, &params, arena, ret_locks, ret_count, err);
}

static const char SQL_COUNT[] = "select count(*) from locks l where l.user_id = $1 and" IN_FORCE;

int
lock_repo_count(struct pg_conn *conn, int64_t user_id, uint64_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, user_id);
    if (pg_run(conn, SQL_COUNT, &params, &rows, err) < 0)
        return err_wrap(err, "count locks");
    *ret_count = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

/* --- changing --- */

static const char SQL_INSERT[] =
    "insert into locks (token, node_id, space_id, user_id, shared, deep, owner, timeout_secs,"
    " expires_at) "
    "values ($1, $2, $3, $4, $5, $6, $7, $8, now() + $8 * interval '1 second')";

int
lock_repo_insert(struct pg_conn *conn, const struct lock *lock, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_text(&params, lock->token);
    pg_add_int(&params, lock->node_id);
    pg_add_int(&params, lock->space_id);
    pg_add_int(&params, lock->user_id);
    pg_add_bool(&params, lock->shared);
    pg_add_bool(&params, lock->deep);
    pg_add_text(&params, lock->owner);
    pg_add_int(&params, lock->timeout_secs);
    if (pg_run(conn, SQL_INSERT, &params, NULL, err) < 0)
        return err_wrap(err, "lock node %lld", (long long)lock->node_id);
    return 0;
}

static const char SQL_REFRESH[] =
    "update locks l set timeout_secs = coalesce(nullif($2, 0), l.timeout_secs),"
    " expires_at = now() + coalesce(nullif($2, 0), l.timeout_secs) * interval '1 second' "
    "where l.token = $1 and" IN_FORCE;

int
lock_repo_refresh(struct pg_conn *conn, const char *token, int64_t timeout_secs, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_text(&params, token);
    pg_add_int(&params, timeout_secs);
    if (pg_run(conn, SQL_REFRESH, &params, NULL, err) < 0)
        return err_wrap(err, "refresh lock");
    return 0;
}

static const char SQL_REMOVE[] = "delete from locks where token = $1";

int
lock_repo_remove(struct pg_conn *conn, const char *token, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_text(&params, token);
    if (pg_run(conn, SQL_REMOVE, &params, NULL, err) < 0)
        return err_wrap(err, "remove lock");
    return 0;
}

static const char SQL_END_ON[] = "delete from locks where node_id = $1";

int
lock_repo_end_on(struct pg_conn *conn, int64_t node_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_END_ON, &params, NULL, err) < 0)
        return err_wrap(err, "end locks of node %lld", (long long)node_id);
    return 0;
}

static const char SQL_END_BELOW[] =
    BELOW "delete from locks where token in (select token from below)";

int
lock_repo_end_below(struct pg_conn *conn, int64_t space_id, int64_t node_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_END_BELOW, &params, NULL, err) < 0)
        return err_wrap(err, "end locks below node %lld", (long long)node_id);
    return 0;
}

static const char SQL_CARRY[] = "update locks set node_id = $2 where node_id = $1";

int
lock_repo_carry(struct pg_conn *conn, int64_t from_node_id, int64_t to_node_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, from_node_id);
    pg_add_int(&params, to_node_id);
    if (pg_run(conn, SQL_CARRY, &params, NULL, err) < 0)
        return err_wrap(err, "carry locks of node %lld", (long long)from_node_id);
    return 0;
}

static const char SQL_NOTE[] =
    "update spaces set locked_until = (select max(expires_at) from locks where space_id = $1) "
    "where id = $1";

int
lock_repo_note(struct pg_conn *conn, int64_t space_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    if (pg_run(conn, SQL_NOTE, &params, NULL, err) < 0)
        return err_wrap(err, "note locks of space %lld", (long long)space_id);
    return 0;
}

/* Rows that somebody else is about to remove are left to him: nobody waits here. */
static const char SQL_EXPIRE[] =
    "delete from locks where token in ("
    "  select token from locks where expires_at <= now() and ($1 = 0 or space_id = $1)"
    "  limit 1000 for update skip locked)";

int
lock_repo_expire(struct pg_conn *conn, int64_t space_id, uint64_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    if (pg_run(conn, SQL_EXPIRE, &params, &rows, err) < 0)
        return err_wrap(err, "remove expired locks");
    *ret_count = (uint64_t)pg_affected(rows);
    return 0;
}
