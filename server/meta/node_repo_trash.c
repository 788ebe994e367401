/*
 * A tree in the trash is its root, cut off from its folder, and an entry that remembers where it
 * was. Purging takes it apart from the top, a few hundred nodes a step:
 *
 *   children that are leaves (files, empty folders)  ->  deleted
 *   children with children of their own              ->  cut off, entries of their own (purging)
 *   the root, when nothing is left below it          ->  deleted, its entry with it
 *
 * So a step costs the same however large, wide or deep the tree is, and a crash between two steps
 * leaves nothing to repair. The space's row is locked before anything else, as everywhere.
 */
#include "meta/node_repo.h"

#include "base/fault.h"

enum { PURGE_BATCH = 500 };

static const char SQL_TRASH[] =
    "with taken as ("
    "  update nodes set parent_id = null, seq = $4 where id = $1 and parent_id is not null"
    "  returning id, space_id, name, kind, link_seq"
    "), noted as ("
    "  insert into removals (parent_id, seq, name, kind, space_id, link_seq)"
    "  select $2::bigint, $4, name, kind, space_id, link_seq from taken"
    ") "
    "insert into trash (node_id, space_id, parent_id, path) "
    "select id, space_id, $2::bigint, $3 from taken";

int
node_repo_trash(struct pg_conn *conn, const struct node *node, const char *path, int64_t seq,
                struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node->id);
    pg_add_int(&params, node->parent_id);
    pg_add_text(&params, path);
    pg_add_int(&params, seq);
    if (pg_run(conn, SQL_TRASH, &params, &rows, err) < 0)
        return err_wrap(err, "trash node %lld", (long long)node->id);
    if (pg_affected(rows) != 1)
        return err_set(err, ERR_NOT_FOUND, "trash node %lld: it is not there", (long long)node->id);
    return 0;
}

/* --- entries --- */

#define ENTRY_COLUMNS                                                                              \
    "t.node_id, t.space_id, p.id, t.deleted_at, n.kind, t.path,"                                   \
    " (with recursive tree as ("                                                                   \
    "    select n.id, n.size_bytes"                                                                \
    "    union all"                                                                                \
    "    select c.id, c.size_bytes from tree join nodes c on c.parent_id = tree.id"                \
    "  ) select coalesce(sum(tree.size_bytes), 0)::bigint from tree)"

#define ENTRY_TABLES                                                                               \
    "trash t join nodes n on n.id = t.node_id left join nodes p on p.id = t.parent_id"

static void
read_entry(const struct pg_rows *rows, int row, struct arena *arena, struct trash_entry *entry)
{
    entry->node_id = pg_int(rows, row, 0);
    entry->space_id = pg_int(rows, row, 1);
    entry->parent_id = pg_int(rows, row, 2);
    entry->deleted_us = pg_time(rows, row, 3);
    entry->kind = (enum node_kind)pg_int(rows, row, 4);
    entry->path = arena_strdup(arena, pg_text(rows, row, 5));
    entry->bytes = (uint64_t)pg_int(rows, row, 6);
}

static const char SQL_EXPIRED[] = "select count(*) from trash where purging or deleted_at < $1";

int
node_repo_trash_expired(struct pg_conn *conn, int64_t before_us, uint64_t *ret_count,
                        struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_time(&params, before_us);
    if (pg_run(conn, SQL_EXPIRED, &params, &rows, err) < 0)
        return err_wrap(err, "count expired trash");
    *ret_count = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

static const char SQL_LIST[] =
    "select " ENTRY_COLUMNS " from " ENTRY_TABLES
    " where t.space_id = $1 and not t.purging and t.node_id > $2 order by t.node_id limit $3";

int
node_repo_trash_list(struct pg_conn *conn, int64_t space_id, int64_t after_node_id,
                     struct arena *arena, struct trash_entry *entries, size_t cap,
                     size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    pg_add_int(&params, after_node_id);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_LIST, &params, &rows, err) < 0)
        return err_wrap(err, "list trash");
    for (int row = 0; row < pg_count(rows); row++)
        read_entry(rows, row, arena, &entries[row]);
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_GET[] =
    "select " ENTRY_COLUMNS " from " ENTRY_TABLES
    " where t.node_id = $1 and t.space_id = $2 and not t.purging for update of t";

int
node_repo_trash_get(struct pg_conn *conn, int64_t space_id, int64_t node_id, struct arena *arena,
                    struct trash_entry *ret_entry, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    pg_add_int(&params, space_id);
    if (pg_run(conn, SQL_GET, &params, &rows, err) < 0)
        return err_wrap(err, "find %lld in the trash", (long long)node_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "%lld is not in the trash", (long long)node_id);
    read_entry(rows, 0, arena, ret_entry);
    return 0;
}

static const char SQL_RESTORE[] =
    "with entry as ("
    "  delete from trash where node_id = $1 and not purging returning node_id"
    ") "
    "update nodes n set parent_id = $2, name = $3, seq = $4, link_seq = $4"
    " from entry where n.id = entry.node_id";

int
node_repo_trash_restore(struct pg_conn *conn, int64_t node_id, int64_t parent_id, const char *name,
                        int64_t seq, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    pg_add_int(&params, parent_id);
    pg_add_text(&params, name);
    pg_add_int(&params, seq);
    if (pg_run(conn, SQL_RESTORE, &params, &rows, err) < 0)
        return err_wrap(err, "restore node %lld", (long long)node_id);
    if (pg_affected(rows) != 1)
        return err_set(err, ERR_NOT_FOUND, "%lld is not in the trash", (long long)node_id);
    return 0;
}

/* --- purging --- */

/* What has begun is ended first. Two branches, so that each is the head of an index. */
static const char SQL_PICK_ANY[] =
    "(select node_id, space_id from trash where purging order by deleted_at limit 1) "
    "union all "
    "(select node_id, space_id from trash where not purging and deleted_at < $1"
    " order by deleted_at limit 1) "
    "limit 1";

static const char SQL_PICK_OF_SPACE[] =
    "(select node_id, space_id from trash where space_id = $2 and purging"
    " order by deleted_at limit 1) "
    "union all "
    "(select node_id, space_id from trash where space_id = $2 and not purging"
    " and deleted_at < $1 order by deleted_at limit 1) "
    "limit 1";

struct purge {
    int64_t node_id;
    int64_t space_id;
    int64_t ids[PURGE_BATCH + 1]; /* nodes to delete */
    size_t id_count;
    int64_t inner[PURGE_BATCH]; /* children with children */
    size_t inner_count;
    bool finished; /* the root is among ids */
};

static int
pick(struct pg_conn *conn, int64_t space_id, int64_t before_us, struct purge *purge,
     bool *ret_found, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_time(&params, before_us);
    if (space_id != 0)
        pg_add_int(&params, space_id);
    if (pg_run(conn, space_id == 0 ? SQL_PICK_ANY : SQL_PICK_OF_SPACE, &params, &rows, err) < 0)
        return -1;
    *ret_found = pg_count(rows) > 0;
    if (*ret_found) {
        purge->node_id = pg_int(rows, 0, 0);
        purge->space_id = pg_int(rows, 0, 1);
    }
    return 0;
}

static const char SQL_LOCK_SPACE[] = "select id from spaces where id = $1 for no key update";

/* Whoever restored it, or purged it, meanwhile held the space. */
static const char SQL_BEGIN_PURGE[] =
    "update trash set purging = true where node_id = $1 and (purging or deleted_at < $2)";

static int
begin_purge(struct pg_conn *conn, const struct purge *purge, int64_t before_us, bool *ret_begun,
            struct err *err)
{
    AUTO_PARAMS struct pg_params space_params = PG_PARAMS_EMPTY;
    AUTO_PARAMS struct pg_params entry_params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&space_params, purge->space_id);
    pg_add_int(&entry_params, purge->node_id);
    pg_add_time(&entry_params, before_us);
    if (pg_run(conn, SQL_LOCK_SPACE, &space_params, NULL, err) < 0 ||
        pg_run(conn, SQL_BEGIN_PURGE, &entry_params, &rows, err) < 0)
        return -1;
    *ret_begun = pg_affected(rows) == 1;
    return 0;
}

static const char SQL_CHILDREN[] =
    "select n.id, exists (select 1 from nodes c where c.parent_id = n.id) "
    "from nodes n where n.parent_id = $1 limit $2";

/* Sorts the next children; the root goes with the last of them. */
static int
look_below(struct pg_conn *conn, struct purge *purge, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, purge->node_id);
    pg_add_int(&params, PURGE_BATCH);
    if (pg_run(conn, SQL_CHILDREN, &params, &rows, err) < 0)
        return -1;
    for (int row = 0; row < pg_count(rows); row++) {
        if (pg_int(rows, row, 1) != 0)
            purge->inner[purge->inner_count++] = pg_int(rows, row, 0);
        else
            purge->ids[purge->id_count++] = pg_int(rows, row, 0);
    }
    purge->finished = pg_count(rows) < PURGE_BATCH;
    if (purge->finished)
        purge->ids[purge->id_count++] = purge->node_id;
    return 0;
}

static const char SQL_CUT_OFF[] =
    "with cut as ("
    "  update nodes set parent_id = null where id = any($1::bigint[]) returning id, space_id"
    ") "
    "insert into trash (node_id, space_id, path, deleted_at, purging) "
    "select cut.id, cut.space_id, t.path, t.deleted_at, true"
    " from cut join trash t on t.node_id = $2";

static int
cut_off(struct pg_conn *conn, const struct purge *purge, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    if (purge->inner_count == 0)
        return 0;
    pg_add_int_array(&params, purge->inner, purge->inner_count);
    pg_add_int(&params, purge->node_id);
    return pg_run(conn, SQL_CUT_OFF, &params, NULL, err);
}

/* Properties and trash entries go by cascade. */
static const char SQL_DELETE[] =
    "with gone as ("
    "  delete from nodes where id = any($1::bigint[]) returning content_id, size_bytes"
    "), counted as materialized ("
    "  select content_id as id, count(*) as amount from gone"
    "  where content_id is not null group by content_id"
    "), locked as materialized ("
    "  select c.id, n.amount from contents c join counted n on n.id = c.id"
    "  order by c.id for no key update of c"
    "), freed as ("
    "  update contents c set refs = c.refs - locked.amount,"
    "    unreferenced_at = case when c.refs = locked.amount then now() end"
    "  from locked where c.id = locked.id"
    ") "
    "select count(*), coalesce(sum(size_bytes), 0)::bigint from gone";

/* When the last node of a space is gone whose account is gone, so is the space. */
static const char SQL_DELETE_SPACE[] =
    "delete from spaces s where s.id = $1 and s.owner_id is null"
    " and not exists (select 1 from nodes n where n.space_id = s.id)";

static int
delete_space(struct pg_conn *conn, int64_t space_id, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, space_id);
    return pg_run(conn, SQL_DELETE_SPACE, &params, NULL, err);
}

static int
delete_nodes(struct pg_conn *conn, const struct purge *purge, uint64_t *ret_purged, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    int64_t bytes;

    FAULT_POINT("purge.cut");
    if (purge->id_count == 0)
        return 0;
    pg_add_int_array(&params, purge->ids, purge->id_count);
    if (pg_run(conn, SQL_DELETE, &params, &rows, err) < 0)
        return -1;
    *ret_purged = (uint64_t)pg_int(rows, 0, 0);
    bytes = pg_int(rows, 0, 1);
    if (bytes > 0 && node_repo_use(conn, purge->space_id, -bytes, err) < 0)
        return -1;
    return purge->finished ? delete_space(conn, purge->space_id, err) : 0;
}

int
node_repo_purge_step(struct pg_conn *conn, int64_t space_id, int64_t before_us,
                     uint64_t *ret_purged, bool *ret_more, struct err *err)
{
    struct purge purge = {0};
    uint64_t purged = 0;
    bool found;
    bool begun = false;

    if (pick(conn, space_id, before_us, &purge, &found, err) < 0 ||
        (found && begin_purge(conn, &purge, before_us, &begun, err) < 0))
        return err_wrap(err, "begin a purge");
    FAULT_POINT("purge.begun");
    if (begun && (look_below(conn, &purge, err) < 0 || cut_off(conn, &purge, err) < 0 ||
                  delete_nodes(conn, &purge, &purged, err) < 0))
        return err_wrap(err, "purge node %lld", (long long)purge.node_id);
    FAULT_POINT("purge.deleted");
    *ret_purged = purged;
    *ret_more = found;
    return 0;
}
