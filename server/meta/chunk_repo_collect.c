/*
 * Deleting what nothing keeps. Contents go when no node names them. Chunks go by proof, not by
 * their counts alone:
 *
 *   1. the candidates are read, each with the version of its row (xmin);
 *   2. all manifests are looked through once; what one of them names is no candidate, whatever its
 *      count says, and the count is put right;
 *   3. the others are deleted in batches, each only if its row still is that version.
 *
 * Whoever comes to name a chunk writes its row in the same transaction. So a content that was
 * there at step 1 is seen by step 2, and one that came later shows at step 3. No clock takes part,
 * nothing is locked while the manifests are read, and nothing has to be remembered: after a crash
 * somebody begins anew.
 */
#include "meta/chunk_repo.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/metrics.h"

/* --- contents --- */

/*
 * Oldest first, as many as have about 20,000 chunks together (at least one). A reference count
 * alone does not delete: a content some node names stays. A count of a chunk that would fall below
 * 0 was wrong; it stays at 0, because the chunk is not deleted without a proof.
 */
static const char SQL_COLLECT_CONTENTS[] =
    "with oldest as materialized ("
    "  select id, chunk_count, unreferenced_at from contents"
    "  where unreferenced_at <= now() - $1 * interval '1 second'"
    "  order by unreferenced_at limit 200"
    "), batch as materialized ("
    "  select id, sum(chunk_count) over (order by unreferenced_at, id) - chunk_count as before"
    "  from oldest"
    "), taken as materialized ("
    "  select c.id from contents c join batch b on b.id = c.id"
    "  where b.before < 20000 and c.unreferenced_at is not null"
    "    and not exists (select 1 from nodes n where n.content_id = c.id)"
    "  for update of c skip locked"
    "), gone as ("
    "  delete from contents c using taken where c.id = taken.id"
    "  returning c.id, c.chunk_count, c.chunks || ''::bytea as packed"
    "), named as materialized ("
    "  select p.id, count(*) as amount"
    "  from gone g cross join lateral ("
    "    select distinct substring(g.packed from (i * 36 + 1)::integer for 32) as id"
    "    from generate_series(0, g.chunk_count - 1) as i) p"
    "  group by p.id"
    "), locked as materialized ("
    "  select c.id, c.refs, n.amount from chunks c join named n on n.id = c.id"
    "  order by c.id for no key update of c"
    "), freed as ("
    "  update chunks c set refs = greatest(c.refs - locked.amount, 0),"
    "    unreferenced_at = case when c.refs <= locked.amount then now() end"
    "  from locked where c.id = locked.id"
    "  returning c.id"
    ") "
    "select (select count(*) from gone), (select count(*) from named),"
    " (select count(*) from freed), (select count(*) from locked where refs < amount)";

int
chunk_repo_collect_contents(struct pg_conn *conn, int64_t grace_secs, size_t *ret_count,
                            struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, grace_secs);
    if (pg_run(conn, SQL_COLLECT_CONTENTS, &params, &rows, err) < 0)
        return err_wrap(err, "collect contents");
    if (pg_int(rows, 0, 1) != pg_int(rows, 0, 2))
        log_error("chunks without a row, named by contents just deleted: count=%lld",
                  (long long)(pg_int(rows, 0, 1) - pg_int(rows, 0, 2)));
    if (pg_int(rows, 0, 3) > 0)
        log_error("chunks had been counted too low, of contents just deleted: count=%lld",
                  (long long)pg_int(rows, 0, 3));
    *ret_count = (size_t)pg_int(rows, 0, 0);
    return 0;
}

/* --- proof --- */

static const char SQL_CANDIDATES[] =
    "select id, generation, stored_bytes, version from ("
    "  select id, generation, stored_bytes, xmin::text::bigint as version from chunks"
    "  where unreferenced_at <= now() - $1 * interval '1 second'"
    "    and (lease_until is null or lease_until < now())"
    "  order by unreferenced_at limit $2) k "
    "order by id";

static int
read_candidates(struct pg_conn *conn, int64_t grace_secs, struct proved_chunk *chunks, size_t cap,
                size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, grace_secs);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_CANDIDATES, &params, &rows, err) < 0)
        return -1;
    *ret_count = (size_t)pg_count(rows);
    for (int row = 0; row < pg_count(rows); row++)
        chunks[row] = (struct proved_chunk){
            .key = {pg_digest(rows, row, 0), (uint64_t)pg_int(rows, row, 1)},
            .stored_bytes = (uint32_t)pg_int(rows, row, 2),
            .version = pg_int(rows, row, 3),
        };
    return 0;
}

/* The candidates are the small side of a hash join; the manifests pass by and are not kept. Each is made flat once (|| ''), so that cutting records
 * out of it does not fetch it again. */
static const char SQL_NAMED_AFTER_ALL[] =
    "select k.id, count(distinct c.id) "
    "from (select id, chunk_count, chunks || ''::bytea as packed from contents offset 0) c "
    "cross join lateral generate_series(0, c.chunk_count - 1) as i (at) "
    "join unnest($1::bytea[]) as k (id)"
    "  on k.id = substring(c.packed from (i.at * 36 + 1)::integer for 32) "
    "group by k.id";

static void
add_ids(struct pg_params *params, const struct proved_chunk *chunks, size_t count)
{
    AUTO_FREE struct digest *ids = mem_array(count + 1, sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = chunks[i].key.id;
    pg_add_digest_array(params, ids, count);
}

static void
add_versions(struct pg_params *params, const struct proved_chunk *chunks, size_t count)
{
    AUTO_FREE int64_t *versions = mem_array(count + 1, sizeof(*versions));

    for (size_t i = 0; i < count; i++)
        versions[i] = chunks[i].version;
    pg_add_int_array(params, versions, count);
}

static int
compare_to_id(const void *key, const void *element)
{
    return digest_cmp(key, &((const struct proved_chunk *)element)->key.id);
}

/* The row is the version that was counted, so the count is what is there now. One that somebody
 * has locked is left to the next time. */
static const char SQL_PUT_RIGHT[] =
    "with wrong as materialized ("
    "  select c.id, w.amount"
    "  from unnest($1::bytea[], $2::bigint[], $3::bigint[]) as w (id, version, amount)"
    "  join chunks c on c.id = w.id and c.xmin = w.version::text::xid"
    "  order by c.id for no key update of c skip locked"
    ") "
    "update chunks c set refs = w.amount, unreferenced_at = null "
    "from wrong w where c.id = w.id";

static int
put_right(struct pg_conn *conn, const struct proved_chunk *wrong, const int64_t *amounts,
          size_t count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    for (size_t i = 0; i < count; i++) {
        char hex[DIGEST_HEX_SIZE];

        digest_hex(hex, &wrong[i].key.id);
        log_error("chunk was counted as unreferenced and is not: id=%s counted=%lld", hex,
                  (long long)amounts[i]);
    }
    add_ids(&params, wrong, count);
    add_versions(&params, wrong, count);
    pg_add_int_array(&params, amounts, count);
    if (pg_run(conn, SQL_PUT_RIGHT, &params, &rows, err) < 0)
        return -1;
    metric_add(METRIC_REFERENCES_REPAIRED, (uint64_t)pg_affected(rows));
    return 0;
}

/* Takes what a manifest names out of the candidates, which are in the order of their ids. */
static int
take_out_named(struct pg_conn *conn, const struct pg_rows *named, struct proved_chunk *chunks,
               size_t *count, struct err *err)
{
    size_t named_count = (size_t)pg_count(named), kept_count = 0;
    AUTO_FREE struct proved_chunk *wrong = mem_array(named_count + 1, sizeof(*wrong));
    AUTO_FREE int64_t *amounts = mem_array(named_count + 1, sizeof(*amounts));

    for (size_t i = 0; i < named_count; i++) {
        struct digest id = pg_digest(named, (int)i, 0);
        struct proved_chunk *chunk = bsearch(&id, chunks, *count, sizeof(*chunks), compare_to_id);

        wrong[i] = *chunk;
        amounts[i] = pg_int(named, (int)i, 1);
        chunk->stored_bytes = 0; /* which no row has: the mark for below */
    }
    for (size_t i = 0; i < *count; i++)
        if (chunks[i].stored_bytes > 0)
            chunks[kept_count++] = chunks[i];
    *count = kept_count;
    return put_right(conn, wrong, amounts, named_count, err);
}

int
chunk_repo_prove(struct pg_conn *conn, int64_t grace_secs, struct proved_chunk *chunks, size_t cap,
                 size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    size_t count = 0;

    if (read_candidates(conn, grace_secs, chunks, cap, &count, err) < 0)
        return err_wrap(err, "find chunks to collect");
    if (count > 0) {
        add_ids(&params, chunks, count);
        if (pg_run(conn, SQL_NAMED_AFTER_ALL, &params, &rows, err) < 0)
            return err_wrap(err, "prove chunks unreferenced");
        if (pg_count(rows) > 0 && take_out_named(conn, rows, chunks, &count, err) < 0)
            return err_wrap(err, "put counts of chunks right");
    }
    *ret_count = count;
    return 0;
}

/* --- chunks --- */

static const char SQL_COLLECT_CHUNKS[] =
    "with taken as materialized ("
    "  select c.id, p.place"
    "  from unnest($1::bytea[], $2::bigint[]) with ordinality as p (id, version, place)"
    "  join chunks c on c.id = p.id and c.xmin = p.version::text::xid"
    "  where c.unreferenced_at is not null and (c.lease_until is null or c.lease_until < now())"
    "  order by c.id for update of c skip locked"
    ") "
    "delete from chunks c using taken where c.id = taken.id returning taken.place";

int
chunk_repo_collect(struct pg_conn *conn, const struct proved_chunk *chunks, size_t count,
                   bool *ret_gone, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    add_ids(&params, chunks, count);
    add_versions(&params, chunks, count);
    if (pg_run(conn, SQL_COLLECT_CHUNKS, &params, &rows, err) < 0)
        return err_wrap(err, "collect chunks");
    memset(ret_gone, 0, count * sizeof(bool));
    for (int row = 0; row < pg_count(rows); row++)
        ret_gone[pg_int(rows, row, 0) - 1] = true;
    return 0;
}

/* --- condemning what a sweep is about to remove --- */

static const char SQL_CONDEMN[] = "insert into swept (id, generation) "
                                  "select id, generation "
                                  "from unnest($1::bytea[], $2::bigint[]) as q (id, generation) "
                                  "order by id, generation "
                                  "on conflict (id, generation) do update set at = now()";

/* By then an upload that had not noticed is long over. */
static const char SQL_FORGET_SWEPT[] =
    "with old as materialized ("
    "  select id, generation from swept where at < now() - interval '1 day'"
    "  order by id, generation for update skip locked"
    ") "
    "delete from swept s using old where s.id = old.id and s.generation = old.generation";

int
chunk_repo_condemn(struct pg_conn *conn, const struct digest *ids, const int64_t *generations,
                   size_t count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_digest_array(&params, ids, count);
    pg_add_int_array(&params, generations, count);
    if (pg_run(conn, SQL_FORGET_SWEPT, NULL, NULL, err) < 0 ||
        pg_run(conn, SQL_CONDEMN, &params, NULL, err) < 0)
        return err_wrap(err, "condemn blobs");
    return 0;
}

static const char SQL_HORIZON[] = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
                                  " pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

int
chunk_repo_horizon(struct pg_conn *conn, int64_t *ret_oldest, int64_t *ret_next, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_HORIZON, NULL, &rows, err) < 0)
        return err_wrap(err, "see which transactions are open");
    *ret_oldest = pg_int(rows, 0, 0);
    *ret_next = pg_int(rows, 0, 1);
    return 0;
}
