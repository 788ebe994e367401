#include "meta/prop_repo.h"

static const char SQL_LIST[] = "select node_id, ns, name, value, lang from props "
                               "where node_id = any($1::bigint[]) order by node_id, ns, name";

int
prop_repo_list(struct pg_conn *conn, const int64_t *node_ids, size_t count, struct arena *arena,
               struct prop **ret_props, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    struct prop *props;
    size_t prop_count;

    pg_add_int_array(&params, node_ids, count);
    if (pg_run(conn, SQL_LIST, &params, &rows, err) < 0)
        return err_wrap(err, "list properties");
    prop_count = (size_t)pg_count(rows);
    props = arena_alloc(arena, prop_count * sizeof(*props));
    for (size_t i = 0; i < prop_count; i++)
        props[i] =
            (struct prop){pg_int(rows, (int)i, 0), arena_strdup(arena, pg_text(rows, (int)i, 1)),
                          arena_strdup(arena, pg_text(rows, (int)i, 2)),
                          arena_strdup(arena, pg_text(rows, (int)i, 3)),
                          arena_strdup(arena, pg_text(rows, (int)i, 4))};
    *ret_props = props;
    *ret_count = prop_count;
    return 0;
}

static const char SQL_SET[] =
    "insert into props (node_id, ns, name, value, lang) values ($1, $2, $3, $4, $5) "
    "on conflict (node_id, ns, name) do update set value = excluded.value, lang = excluded.lang";

int
prop_repo_set(struct pg_conn *conn, const struct prop *prop, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, prop->node_id);
    pg_add_text(&params, prop->ns);
    pg_add_text(&params, prop->name);
    pg_add_text(&params, prop->value);
    pg_add_text(&params, prop->lang);
    if (pg_run(conn, SQL_SET, &params, NULL, err) < 0)
        return err_wrap(err, "set property %.80s", prop->name);
    return 0;
}

static const char SQL_SIZE[] =
    "select coalesce(sum(octet_length(ns) + octet_length(name) + octet_length(value)"
    " + octet_length(lang)), 0)::bigint from props where node_id = $1";

int
prop_repo_size(struct pg_conn *conn, int64_t node_id, uint64_t *ret_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, node_id);
    if (pg_run(conn, SQL_SIZE, &params, &rows, err) < 0)
        return err_wrap(err, "measure properties");
    *ret_bytes = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

static const char SQL_REMOVE[] = "delete from props where node_id = $1 and ns = $2 and name = $3";

int
prop_repo_remove(struct pg_conn *conn, int64_t node_id, const char *ns, const char *name,
                 struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_int(&params, node_id);
    pg_add_text(&params, ns);
    pg_add_text(&params, name);
    if (pg_run(conn, SQL_REMOVE, &params, NULL, err) < 0)
        return err_wrap(err, "remove property %.80s", name);
    return 0;
}
