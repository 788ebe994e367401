#include "meta/change_repo.h"

#include <stdio.h>

#include "meta/node_row.h"

/* Two statements, so that each has a plan of its own: few children are folders. */
#define MEMBERS                                                                                    \
    "select " NODE_COLUMNS " from nodes n "                                                        \
    "where n.parent_id = $1 and n.name_key > normalize($2, NFC) and n.seq > $3"                    \
    " and n.link_seq <= $4 "

static const char SQL_MEMBERS[] = MEMBERS "order by n.name_key limit $5";
static const char SQL_FOLDERS[] = MEMBERS "and n.kind = 0 order by n.name_key limit $5";

int
change_repo_members(struct pg_conn *conn, int64_t folder_id, const struct change_range *range,
                    bool folders_only, const char *after, struct node *nodes, size_t cap,
                    size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, folder_id);
    pg_add_text(&params, after ? after : ""); /* no child's name is empty */
    pg_add_int(&params, range->after_seq);
    pg_add_int(&params, range->until_seq);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, folders_only ? SQL_FOLDERS : SQL_MEMBERS, &params, &rows, err) < 0)
        return err_wrap(err, "list changes in node %lld", (long long)folder_id);
    for (int row = 0; row < pg_count(rows); row++)
        node_row_read(rows, row, &nodes[row]);
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

/* Names that differ only in their normalisation are two addresses to a client: bytes count. */
static const char SQL_REMOVALS[] =
    "select distinct r.name, r.kind from removals r "
    "where r.parent_id = $1 and r.seq > $2 and r.seq <= $3 and r.link_seq <= $4"
    " and (r.name, r.kind) > ($6::text collate \"C\", $7::bigint)"
    " and not exists (select 1 from nodes n where n.parent_id = r.parent_id"
    "   and n.name_key = normalize(r.name, NFC) and n.name = r.name and n.kind = r.kind"
    "   and n.link_seq <= $5) "
    "order by r.name, r.kind limit $8";

int
change_repo_removals(struct pg_conn *conn, int64_t folder_id, const struct change_range *range,
                     const struct removal *after, struct removal *removals, size_t cap,
                     size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, folder_id);
    pg_add_int(&params, range->removed_after);
    pg_add_int(&params, range->removed_until);
    pg_add_int(&params, range->after_seq);
    pg_add_int(&params, range->until_seq);
    pg_add_text(&params, after ? after->name : "");
    pg_add_int(&params, after ? after->kind : NODE_FOLDER);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_REMOVALS, &params, &rows, err) < 0)
        return err_wrap(err, "list removals from node %lld", (long long)folder_id);
    for (int row = 0; row < pg_count(rows); row++) {
        snprintf(removals[row].name, sizeof(removals[row].name), "%s", pg_text(rows, row, 0));
        removals[row].kind = (enum node_kind)pg_int(rows, row, 1);
    }
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_LOOK[] =
    "select s.sync_floor, (select min(r.seq) from removals r"
    "   where r.space_id = s.id and r.kind = 0 and r.seq > $2 and r.seq <= $3 and r.link_seq <= $4"
    "   and exists (select 1 from nodes n where n.parent_id = r.parent_id"
    "     and n.name_key = normalize(r.name, NFC) and n.name = r.name and n.kind = 0"
    "     and n.link_seq <= $5)) "
    "from spaces s where s.id = $1";

int
change_repo_look(struct pg_conn *conn, int64_t space_id, const struct change_range *range,
                 int64_t *ret_floor, int64_t *ret_replaced, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, space_id);
    pg_add_int(&params, range->removed_after);
    pg_add_int(&params, range->removed_until);
    pg_add_int(&params, range->after_seq);
    pg_add_int(&params, range->until_seq);
    if (pg_run(conn, SQL_LOOK, &params, &rows, err) < 0)
        return err_wrap(err, "look at the changes of space %lld", (long long)space_id);
    if (pg_count(rows) == 0)
        return err_set(err, ERR_LOGIN, "space %lld: its account is gone", (long long)space_id);
    *ret_floor = pg_int(rows, 0, 0);
    *ret_replaced = pg_int(rows, 0, 1);
    return 0;
}

/*
 * Spaces before removals, as everywhere: whoever writes a removal holds its space. Those of one
 * space are older the smaller their seq is, but for a clock that was set; the floor is exact all
 * the same.
 */
static const char SQL_FORGET[] =
    "with old as materialized ("
    "  select parent_id, seq, name, space_id from removals where removed_at < $1"
    "  order by removed_at limit $2"
    "), locked as materialized ("
    "  select s.id from spaces s where s.id in (select space_id from old)"
    "  order by s.id for no key update"
    "), raised as ("
    "  update spaces s set sync_floor = greatest(s.sync_floor, o.seq)"
    "  from (select space_id, max(seq) as seq from old group by space_id) o"
    "  join locked l on l.id = o.space_id"
    "  where s.id = o.space_id"
    ") "
    "delete from removals r using old o where r.parent_id = o.parent_id and r.seq = o.seq"
    " and r.name = o.name";

int
change_repo_forget(struct pg_conn *conn, int64_t before_us, size_t most, size_t *ret_count,
                   struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_time(&params, before_us);
    pg_add_int(&params, (int64_t)most);
    if (pg_run(conn, SQL_FORGET, &params, &rows, err) < 0)
        return err_wrap(err, "forget old removals");
    *ret_count = (size_t)pg_affected(rows);
    return 0;
}
