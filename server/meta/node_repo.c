#include "meta/node_repo.h"

#include <stdio.h>

#include "meta/node_row.h"

/* --- spaces --- */

/* Space and root name each other, so both ids are drawn first. */
static const char SQL_MAKE_SPACE[] =
    "with space as ("
    "  insert into spaces (owner_id, root_id)"
    "  values ($1, nextval('nodes_id_seq'))"
    "  returning id, root_id"
    "), root as ("
    "  insert into nodes (id, space_id, kind, name, mtime, seq, content_seq)"
    "  select root_id, id, 0, '', now(), 0, 0 from space"
    ") "
    "select id from space";

int
node_repo_make_space(struct pg_conn *conn, int64_t owner_id, int64_t *ret_space_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, owner_id);
    if (pg_run(conn, SQL_MAKE_SPACE, &params, &rows, err) < 0)
        return err_wrap(err, "make space");
    *ret_space_id = pg_int(rows, 0, 0);
    return 0;
}

static int
read_space(struct pg_conn *conn, const char *sql, int64_t space_id, struct space *ret_space,
           struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    if (pg_run(conn, sql, &params, &rows, err) < 0)
        return err_wrap(err, "space %lld", (long long)space_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_LOGIN, "space %lld: its account is gone", (long long)space_id);
    ret_space->id = pg_int(rows, 0, 0);
    ret_space->root_id = pg_int(rows, 0, 1);
    ret_space->seq = pg_int(rows, 0, 2);
    ret_space->used_bytes = (uint64_t)pg_int(rows, 0, 3);
    ret_space->quota_bytes = pg_int(rows, 0, 4);
    ret_space->locked = pg_int(rows, 0, 5) != 0;
    return 0;
}

/* A space whose account is gone waits to be purged and is nobody's to change. */
static const char SQL_LOCK_SPACE[] =
    "update spaces s set seq = s.seq + 1 from users u "
    "where s.id = $1 and u.id = s.owner_id "
    "returning s.id, s.root_id, s.seq, s.used_bytes, coalesce(u.quota_bytes, -1),"
    " coalesce(s.locked_until > now(), false)";

int
node_repo_lock_space(struct pg_conn *conn, int64_t space_id, struct space *ret_space,
                     struct err *err)
{
    return read_space(conn, SQL_LOCK_SPACE, space_id, ret_space, err);
}

static const char SQL_GET_SPACE[] =
    "select s.id, s.root_id, s.seq, s.used_bytes, coalesce(u.quota_bytes, -1),"
    " coalesce(s.locked_until > now(), false) "
    "from spaces s join users u on u.id = s.owner_id where s.id = $1";

int
node_repo_get_space(struct pg_conn *conn, int64_t space_id, struct space *ret_space,
                    struct err *err)
{
    return read_space(conn, SQL_GET_SPACE, space_id, ret_space, err);
}

/* Not below 0: a wrong sum must not keep the trash from being emptied. */
static const char SQL_USE[] =
    "update spaces set used_bytes = greatest(used_bytes + $2, 0) where id = $1";

int
node_repo_use(struct pg_conn *conn, int64_t space_id, int64_t delta_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    pg_add_int(&params, delta_bytes);
    if (pg_run(conn, SQL_USE, &params, NULL, err) < 0)
        return err_wrap(err, "count bytes of space %lld", (long long)space_id);
    return 0;
}

/* --- looking --- */

void
node_row_read(const struct pg_rows *rows, int row, struct node *node)
{
    node->id = pg_int(rows, row, 0);
    node->space_id = pg_int(rows, row, 1);
    node->parent_id = pg_int(rows, row, 2);
    node->kind = (enum node_kind)pg_int(rows, row, 3);
    snprintf(node->name, sizeof(node->name), "%s", pg_text(rows, row, 4));
    node->content_id = pg_digest(rows, row, 5);
    node->size_bytes = (uint64_t)pg_int(rows, row, 6);
    snprintf(node->mime, sizeof(node->mime), "%s", pg_text(rows, row, 7));
    node->mtime_us = pg_time(rows, row, 8);
    node->created_us = pg_time(rows, row, 9);
    node->seq = pg_int(rows, row, 10);
    node->content_seq = pg_int(rows, row, 11);
    node->link_seq = pg_int(rows, row, 12);
    node->space_locked = false;
}

static const char SQL_WALK[] = "with recursive way as ("
                               "  select " NODE_COLUMNS ", 1 as step,"
                               "    coalesce(s.locked_until > now(), false) as locked"
                               "  from spaces s join nodes n on n.id = s.root_id"
                               "  where s.id = $1 and s.owner_id is not null"
                               "  union all"
                               "  select " NODE_COLUMNS ", way.step + 1, way.locked"
                               "  from way join nodes n on n.parent_id = way.id"
                               "    and n.name_key = normalize(($2::text[])[way.step], NFC)"
                               ") "
                               "select " NODE_COLUMNS ", n.locked from way n order by n.step";

int
node_repo_walk(struct pg_conn *conn, int64_t space_id, const struct path *path, struct node *nodes,
               size_t *ret_found, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    pg_add_text_array(&params, path->names, path->depth);
    if (pg_run(conn, SQL_WALK, &params, &rows, err) < 0)
        return err_wrap(err, "walk path");
    if (pg_count(rows) == 0)
        return err_set(err, ERR_LOGIN, "space %lld: its account is gone", (long long)space_id);
    for (int row = 0; row < pg_count(rows); row++) {
        node_row_read(rows, row, &nodes[row]);
        nodes[row].space_locked = pg_int(rows, row, NODE_COLUMN_COUNT) != 0;
    }
    *ret_found = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_GET[] = "select " NODE_COLUMNS " from nodes n where n.id = $1";

int
node_repo_get(struct pg_conn *conn, int64_t node_id, struct node *ret_node, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_GET, &params, &rows, err) < 0)
        return err_wrap(err, "get node %lld", (long long)node_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "no node %lld", (long long)node_id);
    node_row_read(rows, 0, ret_node);
    return 0;
}

/* --- changing --- */

/* DO NOTHING, so that a name that is taken does not spoil the transaction. */
static const char SQL_INSERT[] =
    "insert into nodes (parent_id, space_id, kind, name, content_id, size_bytes, mime, mtime,"
    " seq, content_seq, link_seq) "
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9) "
    "on conflict (parent_id, name_key) do nothing returning id, created_at";

int
node_repo_insert(struct pg_conn *conn, struct node *node, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node->parent_id);
    pg_add_int(&params, node->space_id);
    pg_add_int(&params, node->kind);
    pg_add_text(&params, node->name);
    if (node->kind == NODE_FILE)
        pg_add_digest(&params, &node->content_id);
    else
        pg_add_null(&params);
    pg_add_int(&params, node->kind == NODE_FILE ? (int64_t)node->size_bytes : 0);
    pg_add_text(&params, node->mime);
    pg_add_time(&params, node->mtime_us);
    pg_add_int(&params, node->seq);
    if (pg_run(conn, SQL_INSERT, &params, &rows, err) < 0)
        return err_wrap(err, "insert node");
    if (pg_count(rows) == 0)
        return err_set(err, ERR_EXISTS, "the name is taken");
    node->id = pg_int(rows, 0, 0);
    node->created_us = pg_time(rows, 0, 1);
    node->content_seq = node->link_seq = node->seq;
    return 0;
}

/* Runs a statement about one node, which must be there. */
static int
change_node(struct pg_conn *conn, const char *sql, const struct pg_params *params, int64_t node_id,
            const char *what, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, sql, params, &rows, err) < 0)
        return err_wrap(err, "%s node %lld", what, (long long)node_id);
    if (pg_affected(rows) != 1)
        return err_set(err, ERR_NOT_FOUND, "%s node %lld: it is not there", what,
                       (long long)node_id);
    return 0;
}

static const char SQL_SET_CONTENT[] =
    "update nodes set content_id = $2, size_bytes = $3, mime = $4, mtime = $5, seq = $6,"
    " content_seq = $6 where id = $1 and kind = 1";

int
node_repo_set_content(struct pg_conn *conn, const struct node *node, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, node->id);
    pg_add_digest(&params, &node->content_id);
    pg_add_int(&params, (int64_t)node->size_bytes);
    pg_add_text(&params, node->mime);
    pg_add_time(&params, node->mtime_us);
    pg_add_int(&params, node->seq);
    return change_node(conn, SQL_SET_CONTENT, &params, node->id, "write", err);
}

static const char SQL_SET_MTIME[] = "update nodes set mtime = $2 where id = $1";

int
node_repo_set_mtime(struct pg_conn *conn, int64_t node_id, int64_t mtime_us, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, node_id);
    pg_add_time(&params, mtime_us);
    return change_node(conn, SQL_SET_MTIME, &params, node_id, "date", err);
}

static const char SQL_MOVE[] =
    "with old as ("
    "  select id, space_id, parent_id, name, kind, link_seq from nodes"
    "  where id = $1 and parent_id is not null"
    "), noted as ("
    "  insert into removals (parent_id, seq, name, kind, space_id, link_seq)"
    "  select parent_id, $4, name, kind, space_id, link_seq from old"
    ") "
    "update nodes n set parent_id = $2, name = $3, seq = $4, link_seq = $4 "
    "from old where n.id = old.id";

int
node_repo_move(struct pg_conn *conn, int64_t node_id, int64_t parent_id, const char *name,
               int64_t seq, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, node_id);
    pg_add_int(&params, parent_id);
    pg_add_text(&params, name);
    pg_add_int(&params, seq);
    return change_node(conn, SQL_MOVE, &params, node_id, "move", err);
}

/*
 * Ids are drawn for all nodes first, so that children can name their new parents in the same
 * INSERT; foreign keys are checked when the statement is done. Contents are locked by id.
 */
static const char SQL_COPY[] =
    "with recursive tree as ("
    "  select n.id, n.parent_id from nodes n where n.id = $1"
    "  union all"
    "  select n.id, n.parent_id from tree join nodes n on n.parent_id = tree.id"
    "  where not $2"
    "), fresh as materialized ("
    "  select id, parent_id, nextval('nodes_id_seq') as new_id from tree"
    "), made as ("
    "  insert into nodes (id, space_id, parent_id, kind, name, content_id, size_bytes, mime,"
    "    mtime, seq, content_seq, link_seq)"
    "  select f.new_id, target.space_id, coalesce(up.new_id, target.id), n.kind,"
    "    case when f.id = $1 then $4 else n.name end, n.content_id, n.size_bytes, n.mime,"
    "    n.mtime, $5, $5, $5"
    "  from fresh f"
    "  join nodes n on n.id = f.id"
    "  join nodes target on target.id = $3"
    "  left join fresh up on up.id = f.parent_id and f.id <> $1"
    "  returning id, content_id"
    "), copied as ("
    "  insert into props (node_id, ns, name, value, lang)"
    "  select f.new_id, p.ns, p.name, p.value, p.lang"
    "  from fresh f join props p on p.node_id = f.id"
    "), counted as materialized ("
    "  select content_id as id, count(*) as amount from made"
    "  where content_id is not null group by content_id"
    "), locked as materialized ("
    "  select c.id, n.amount from contents c join counted n on n.id = c.id"
    "  order by c.id for no key update of c"
    "), referenced as ("
    "  update contents c set refs = c.refs + locked.amount"
    "  from locked where c.id = locked.id"
    ") "
    "select f.new_id from fresh f join made m on m.id = f.new_id where f.id = $1";

int
node_repo_copy(struct pg_conn *conn, int64_t node_id, bool shallow, int64_t parent_id,
               const char *name, int64_t seq, int64_t *ret_node_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    pg_add_bool(&params, shallow);
    pg_add_int(&params, parent_id);
    pg_add_text(&params, name);
    pg_add_int(&params, seq);
    if (pg_run(conn, SQL_COPY, &params, &rows, err) < 0)
        return err_wrap(err, "copy node %lld", (long long)node_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "copy node %lld: it or its new folder is not there",
                       (long long)node_id);
    *ret_node_id = pg_int(rows, 0, 0);
    return 0;
}

static const char SQL_STAMP[] = "update nodes set seq = $2 where id = any($1::bigint[])";

int
node_repo_stamp(struct pg_conn *conn, const int64_t *node_ids, size_t count, int64_t seq,
                struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int_array(&params, node_ids, count);
    pg_add_int(&params, seq);
    if (pg_run(conn, SQL_STAMP, &params, NULL, err) < 0)
        return err_wrap(err, "stamp nodes");
    return 0;
}

/* --- adding up --- */

static void
read_totals(const struct pg_rows *rows, struct tree_totals *totals)
{
    totals->files = (uint64_t)pg_int(rows, 0, 0);
    totals->folders = (uint64_t)pg_int(rows, 0, 1);
    totals->bytes = (uint64_t)pg_int(rows, 0, 2);
}

static const char SQL_SUBTREE[] =
    "with recursive tree as ("
    "  select n.id, n.kind, n.size_bytes from nodes n where n.id = $1"
    "  union all"
    "  select n.id, n.kind, n.size_bytes from tree join nodes n on n.parent_id = tree.id"
    ") "
    "select count(*) filter (where kind = 1), count(*) filter (where kind = 0),"
    " coalesce(sum(size_bytes), 0)::bigint from tree";

int
node_repo_subtree(struct pg_conn *conn, int64_t node_id, struct tree_totals *ret_totals,
                  struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_SUBTREE, &params, &rows, err) < 0)
        return err_wrap(err, "add up node %lld", (long long)node_id);
    read_totals(rows, ret_totals);
    return 0;
}

/* The recursion stops when enough rows have come out of it. */
static const char SQL_COUNT_BELOW[] =
    "with recursive below as ("
    "  select n.id from nodes n where n.parent_id = $1"
    "  union all"
    "  select n.id from below join nodes n on n.parent_id = below.id"
    ") "
    "select count(*) from (select 1 from below limit $2) as found";

int
node_repo_count_below(struct pg_conn *conn, int64_t node_id, uint64_t most, uint64_t *ret_count,
                      struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    pg_add_int(&params, (int64_t)most);
    if (pg_run(conn, SQL_COUNT_BELOW, &params, &rows, err) < 0)
        return err_wrap(err, "count below node %lld", (long long)node_id);
    *ret_count = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

/* All there are, less what hangs below an entry of the trash. */
static const char SQL_TOTALS[] =
    "with recursive dead as ("
    "  select n.id, n.kind, n.size_bytes, n.id = s.root_id as is_root"
    "  from trash t join nodes n on n.id = t.node_id join spaces s on s.id = n.space_id"
    "  union all"
    "  select n.id, n.kind, n.size_bytes, false"
    "  from dead join nodes n on n.parent_id = dead.id"
    "), every as ("
    "  select count(*) filter (where kind = 1) as files,"
    "    count(*) filter (where kind = 0) as folders,"
    "    coalesce(sum(size_bytes), 0) as bytes"
    "  from nodes"
    "), gone as ("
    "  select count(*) filter (where kind = 1) as files,"
    "    count(*) filter (where kind = 0 and not is_root) as folders,"
    "    coalesce(sum(size_bytes), 0) as bytes"
    "  from dead"
    ") "
    "select every.files - gone.files,"
    " every.folders - gone.folders"
    "   - (select count(*) from spaces s join nodes n on n.id = s.root_id),"
    " (every.bytes - gone.bytes)::bigint "
    "from every cross join gone";

int
node_repo_totals(struct pg_conn *conn, struct tree_totals *ret_totals, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_TOTALS, NULL, &rows, err) < 0)
        return err_wrap(err, "add up nodes");
    read_totals(rows, ret_totals);
    return 0;
}

/* --- where a node is --- */

#define WAY_UP                                                                                     \
    "with recursive way as ("                                                                      \
    "  select n.id, n.parent_id, n.name, 1 as step from nodes n where n.id = $1"                   \
    "  union all"                                                                                  \
    "  select n.id, n.parent_id, n.name, way.step + 1"                                             \
    "  from way join nodes n on n.id = way.parent_id"                                              \
    ") "

static const char SQL_IS_LIVE[] =
    WAY_UP "select exists (select 1 from way join spaces s on s.root_id = way.id"
           " where s.owner_id is not null)";

int
node_repo_is_live(struct pg_conn *conn, int64_t node_id, bool *ret_live, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_IS_LIVE, &params, &rows, err) < 0)
        return err_wrap(err, "look for node %lld", (long long)node_id);
    *ret_live = pg_int(rows, 0, 0) != 0;
    return 0;
}

/* From the root on; the root's own name is empty. */
static const char SQL_PATH[] = WAY_UP "select name from way order by step desc";

int
node_repo_path(struct pg_conn *conn, int64_t node_id, struct arena *arena, char **ret_path,
               struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    AUTO_BUF struct buf text = {.max = PATH_MAX_DEPTH * (PATH_NAME_MAX_BYTES + 1)};

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_PATH, &params, &rows, err) < 0)
        return err_wrap(err, "path of node %lld", (long long)node_id);
    if (pg_count(rows) == 0 || pg_text(rows, 0, 0)[0] != '\0')
        return err_set(err, ERR_NOT_FOUND, "node %lld is not there", (long long)node_id);
    for (int row = 1; row < pg_count(rows); row++) {
        buf_addc(&text, '/');
        buf_adds(&text, pg_text(rows, row, 0));
    }
    if (buf_check(&text, err) < 0)
        return -1;
    *ret_path = arena_strdup(arena, text.len == 0 ? "/" : text.data);
    return 0;
}
