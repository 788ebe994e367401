/*
 * Looking after chunks that are there: recounting, walking, reading back in turn, and saying which
 * files a bad one hurts. Nobody waits for these, and none of them deletes anything.
 */
#include "meta/chunk_repo.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { SCRUB_HOLD_SECS = 600 }; /* how long a chunk belongs to the node that reads it back */

static void
read_chunk(const struct pg_rows *rows, int row, struct stored_chunk *chunk)
{
    chunk->id = pg_digest(rows, row, 0);
    chunk->generation = (uint64_t)pg_int(rows, row, 1);
    chunk->size_bytes = (uint32_t)pg_int(rows, row, 2);
    chunk->stored_bytes = (uint32_t)pg_int(rows, row, 3);
    chunk->check = (uint64_t)pg_int(rows, row, 4);
    chunk->codec = (enum chunk_codec)pg_int(rows, row, 5);
}

#define CHUNK_COLUMNS "c.id, c.generation, c.size_bytes, c.stored_bytes, c.check_xxh3, c.codec"

/* --- recount --- */

/* Whoever changes references begins with its space's row, so this waits for those under way and
 * lets no new one begin; then the collector and leases are kept out too. */
static const char SQL_LOCK_ALL[] =
    "lock table spaces, nodes, contents, chunks in share row exclusive mode";

#define CONTENTS_COUNTED                                                                           \
    "counted as materialized ("                                                                    \
    "  select content_id as id, count(*) as amount from nodes"                                     \
    "  where content_id is not null group by content_id"                                           \
    "), wrong as materialized ("                                                                   \
    "  select c.id, c.refs, coalesce(n.amount, 0) as amount"                                       \
    "  from contents c left join counted n on n.id = c.id"                                         \
    "  where c.refs <> coalesce(n.amount, 0)"                                                      \
    ")"

#define CHUNKS_COUNTED                                                                             \
    "counted as materialized ("                                                                    \
    "  select p.id, count(*) as amount"                                                            \
    "  from (select chunk_count, chunks || ''::bytea as packed from contents offset 0) c"          \
    "  cross join lateral ("                                                                       \
    "    select distinct substring(c.packed from (i * 36 + 1)::integer for 32) as id"              \
    "    from generate_series(0, c.chunk_count - 1) as i) p"                                       \
    "  group by p.id"                                                                              \
    "), wrong as materialized ("                                                                   \
    "  select coalesce(k.id, n.id) as id, coalesce(k.refs, -1) as refs,"                           \
    "    coalesce(n.amount, 0) as amount"                                                          \
    "  from chunks k full join counted n on n.id = k.id"                                           \
    "  where k.id is null or k.refs <> coalesce(n.amount, 0)"                                      \
    ")"

#define SPACES_COUNTED                                                                             \
    "counted as materialized ("                                                                    \
    "  select space_id as id, sum(size_bytes)::bigint as amount from nodes group by space_id"      \
    "), wrong as materialized ("                                                                   \
    "  select s.id, s.used_bytes, coalesce(n.amount, 0) as amount"                                 \
    "  from spaces s left join counted n on n.id = s.id"                                           \
    "  where s.used_bytes <> coalesce(n.amount, 0)"                                                \
    ")"

static const char SQL_VERIFY_CONTENTS[] =
    "with " CONTENTS_COUNTED " select id, refs, amount from wrong order by id";

static const char SQL_REPAIR_CONTENTS[] =
    "with " CONTENTS_COUNTED ", repaired as ("
    "  update contents c set refs = w.amount,"
    "    unreferenced_at = case when w.amount = 0 then coalesce(c.unreferenced_at, now()) end"
    "  from wrong w where c.id = w.id"
    ") "
    "select id, refs, amount from wrong order by id";

static const char SQL_VERIFY_CHUNKS[] =
    "with " CHUNKS_COUNTED " select id, refs, amount from wrong order by id";

static const char SQL_REPAIR_CHUNKS[] =
    "with " CHUNKS_COUNTED ", repaired as ("
    "  update chunks c set refs = w.amount,"
    "    unreferenced_at = case when w.amount = 0 then coalesce(c.unreferenced_at, now()) end"
    "  from wrong w where c.id = w.id"
    ") "
    "select id, refs, amount from wrong order by id";

static const char SQL_VERIFY_SPACES[] =
    "with " SPACES_COUNTED " select id, used_bytes, amount from wrong order by id";

static const char SQL_REPAIR_SPACES[] =
    "with " SPACES_COUNTED ", repaired as ("
    "  update spaces s set used_bytes = w.amount from wrong w where s.id = w.id"
    ") "
    "select id, used_bytes, amount from wrong order by id";

static int
count_spaces(struct pg_conn *conn, bool repair, uint64_t *ret_wrong, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, repair ? SQL_REPAIR_SPACES : SQL_VERIFY_SPACES, NULL, &rows, err) < 0)
        return err_wrap(err, "verify used bytes");
    for (int row = 0; row < pg_count(rows); row++)
        log_error("space has wrong used bytes: id=%lld used=%lld counted=%lld",
                  (long long)pg_int(rows, row, 0), (long long)pg_int(rows, row, 1),
                  (long long)pg_int(rows, row, 2));
    *ret_wrong = (uint64_t)pg_count(rows);
    return 0;
}

/* refs -1 stands for a row that is missing. */
static int
count_wrong(struct pg_conn *conn, const char *sql, const char *what, uint64_t *ret_wrong,
            uint64_t *ret_missing, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    *ret_wrong = *ret_missing = 0;
    if (pg_run(conn, sql, NULL, &rows, err) < 0)
        return err_wrap(err, "verify references of %s", what);
    for (int row = 0; row < pg_count(rows); row++) {
        struct digest id = pg_digest(rows, row, 0);
        bool is_missing = pg_int(rows, row, 1) < 0;
        char hex[DIGEST_HEX_SIZE];

        digest_hex(hex, &id);
        *(is_missing ? ret_missing : ret_wrong) += 1;
        if (is_missing)
            log_error("%s is named and has no row: id=%s", what, hex);
        else
            log_error("%s has a wrong count: id=%s refs=%lld counted=%lld", what, hex,
                      (long long)pg_int(rows, row, 1), (long long)pg_int(rows, row, 2));
    }
    return 0;
}

int
chunk_repo_verify(struct pg_conn *conn, bool repair, struct chunk_drift *ret_drift, struct err *err)
{
    struct chunk_drift drift;
    uint64_t none; /* a content that is missing cannot be: nodes refer to it by a foreign key */

    if (repair && pg_run(conn, SQL_LOCK_ALL, NULL, NULL, err) < 0)
        return err_wrap(err, "verify references");
    if (count_wrong(conn, repair ? SQL_REPAIR_CONTENTS : SQL_VERIFY_CONTENTS, "content",
                    &drift.contents_wrong, &none, err) < 0 ||
        count_wrong(conn, repair ? SQL_REPAIR_CHUNKS : SQL_VERIFY_CHUNKS, "chunk",
                    &drift.chunks_wrong, &drift.chunks_missing, err) < 0 ||
        count_spaces(conn, repair, &drift.spaces_wrong, err) < 0)
        return -1;
    *ret_drift = drift;
    return 0;
}

/* --- walk --- */

static const char SQL_PAGE[] = "select " CHUNK_COLUMNS ", c.quarantined_at is not null "
                               "from chunks c where c.id > $1 order by c.id limit $2";

int
chunk_repo_page(struct pg_conn *conn, const struct digest *after, struct stored_chunk *chunks,
                bool *quarantined, size_t cap, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_bytes(&params, after == NULL ? NULL : after->bytes, after == NULL ? 0 : DIGEST_BYTES);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_PAGE, &params, &rows, err) < 0)
        return err_wrap(err, "walk chunks");
    for (int row = 0; row < pg_count(rows); row++) {
        read_chunk(rows, row, &chunks[row]);
        quarantined[row] = pg_int(rows, row, 6) != 0;
    }
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

/* --- read back in turn --- */

/*
 * Rows that somebody has locked are left to the next time, so this never waits. The commit is not
 * flushed: after a crash somebody else may read the same chunk back, which is harmless.
 */
static const char SQL_SCRUB_NEXT[] =
    "with quick as materialized ("
    "  select set_config('synchronous_commit', 'off', true) as value"
    "), oldest as materialized ("
    "  select id from chunks"
    "  where quarantined_at is null"
    "    and coalesce(verified_at, created_at) <= now() - $1 * interval '1 second'"
    "    and (scrub_until is null or scrub_until < now())"
    "  order by coalesce(verified_at, created_at) limit $2 for no key update skip locked"
    ") "
    "update chunks c set scrub_until = now() + $3 * interval '1 second' "
    "from oldest cross join quick where c.id = oldest.id "
    "returning " CHUNK_COLUMNS;

int
chunk_repo_scrub_next(struct pg_conn *conn, int64_t interval_secs, struct stored_chunk *chunks,
                      size_t cap, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, interval_secs);
    pg_add_int(&params, (int64_t)cap);
    pg_add_int(&params, SCRUB_HOLD_SECS);
    if (pg_run(conn, SQL_SCRUB_NEXT, &params, &rows, err) < 0)
        return err_wrap(err, "find chunks to read back");
    for (int row = 0; row < pg_count(rows); row++)
        read_chunk(rows, row, &chunks[row]);
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

static const char SQL_VERIFIED[] =
    "with quick as materialized ("
    "  select set_config('synchronous_commit', 'off', true) as value"
    "), good as materialized ("
    "  select c.id, c.quarantined_at"
    "  from unnest($1::bytea[], $2::bigint[]) as q (id, generation)"
    "  join chunks c on c.id = q.id and c.generation = q.generation"
    "  order by c.id for no key update of c"
    "), stamped as ("
    "  update chunks c set verified_at = now(), scrub_until = null,"
    "    quarantined_at = case when $3 then null else c.quarantined_at end"
    "  from good cross join quick where c.id = good.id"
    ") "
    "select count(*) from good where $3 and quarantined_at is not null";

int
chunk_repo_verified(struct pg_conn *conn, const struct stored_chunk *chunks, size_t count,
                    bool release, uint64_t *ret_released, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    AUTO_FREE struct digest *ids = mem_array(count + 1, sizeof(*ids));
    AUTO_FREE int64_t *generations = mem_array(count + 1, sizeof(*generations));

    for (size_t i = 0; i < count; i++) {
        ids[i] = chunks[i].id;
        generations[i] = (int64_t)chunks[i].generation;
    }
    pg_add_digest_array(&params, ids, count);
    pg_add_int_array(&params, generations, count);
    pg_add_bool(&params, release);
    if (pg_run(conn, SQL_VERIFIED, &params, &rows, err) < 0)
        return err_wrap(err, "note chunks as good");
    *ret_released = (uint64_t)pg_int(rows, 0, 0);
    return 0;
}

/* --- whom a bad chunk hurts --- */

/*
 * Nothing leads from a chunk to the contents that name it, so all manifests are taken apart. The
 * path is put together upwards; at its top is the root of a space, whose name is empty, or of a
 * tree in the trash, whose entry knows where it was.
 */
static const char SQL_FILES[] =
    "with recursive hurt as ("
    "  select c.id, p.chunk_id"
    "  from (select id, chunk_count, chunks || ''::bytea as packed from contents offset 0) c"
    "  cross join lateral ("
    "    select distinct substring(c.packed from (i * 36 + 1)::integer for 32) as chunk_id"
    "    from generate_series(0, c.chunk_count - 1) as i) p"
    "  join unnest($1::bytea[]) as bad (id) on bad.id = p.chunk_id"
    "), files as materialized ("
    "  select n.id, h.chunk_id from hurt h join nodes n on n.content_id = h.id limit $2"
    "), up as ("
    "  select f.id as file_id, f.chunk_id, n.id, n.parent_id, n.name, n.name as path"
    "  from files f join nodes n on n.id = f.id"
    "  union all"
    "  select up.file_id, up.chunk_id, n.id, n.parent_id, n.name, n.name || '/' || up.path"
    "  from up join nodes n on n.id = up.parent_id"
    ") "
    "select up.chunk_id, coalesce(u.name, ''),"
    " coalesce(t.path || substring(up.path from char_length(up.name) + 1), up.path),"
    " t.node_id is not null "
    "from up join nodes n on n.id = up.file_id join spaces s on s.id = n.space_id "
    "left join users u on u.id = s.owner_id left join trash t on t.node_id = up.id "
    "where up.parent_id is null order by 2, 3, 1";

int
chunk_repo_files(struct pg_conn *conn, const struct digest *chunk_ids, size_t count,
                 struct arena *arena, struct chunk_file *files, size_t cap, size_t *ret_count,
                 struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest_array(&params, chunk_ids, count);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_FILES, &params, &rows, err) < 0)
        return err_wrap(err, "find the files of bad chunks");
    for (int row = 0; row < pg_count(rows); row++) {
        files[row].chunk_id = pg_digest(rows, row, 0);
        files[row].owner = arena_strdup(arena, pg_text(rows, row, 1));
        files[row].path = arena_strdup(arena, pg_text(rows, row, 2));
        files[row].in_trash = pg_int(rows, row, 3) != 0;
    }
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

/* --- how they are --- */

static const char SQL_HEALTH[] =
    "select (select count(*) from contents where unreferenced_at is not null),"
    " k.amount, k.bytes,"
    " coalesce(extract(epoch from now() - least(k.oldest, ("
    "   select min(unreferenced_at) from contents where unreferenced_at is not null))),"
    "   0)::bigint,"
    " (select count(*) from chunks where quarantined_at is not null),"
    " coalesce(extract(epoch from now() - ("
    "   select min(coalesce(verified_at, created_at)) from chunks"
    "   where quarantined_at is null)), 0)::bigint "
    "from (select count(*) as amount, coalesce(sum(stored_bytes), 0)::bigint as bytes,"
    "        min(unreferenced_at) as oldest"
    "      from chunks where unreferenced_at is not null) k";

int
chunk_repo_health(struct pg_conn *conn, struct chunk_health *ret_health, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_HEALTH, NULL, &rows, err) < 0)
        return err_wrap(err, "measure chunks");
    ret_health->backlog_contents = (uint64_t)pg_int(rows, 0, 0);
    ret_health->backlog_chunks = (uint64_t)pg_int(rows, 0, 1);
    ret_health->backlog_bytes = (uint64_t)pg_int(rows, 0, 2);
    ret_health->backlog_age_secs = pg_int(rows, 0, 3);
    ret_health->quarantined = (uint64_t)pg_int(rows, 0, 4);
    ret_health->verified_age_secs = pg_int(rows, 0, 5);
    return 0;
}

/* As the collector goes about it: with a grace of 0 it gets to the chunks of the contents that it
 * deletes in the same run, otherwise these begin to wait. */
static const char SQL_COLLECTABLE[] =
    "with gone as materialized ("
    "  select chunk_count, chunks || ''::bytea as packed from contents c"
    "  where c.unreferenced_at <= now() - $1 * interval '1 second'"
    "    and not exists (select 1 from nodes n where n.content_id = c.id)"
    "), named as materialized ("
    "  select p.id, count(*) as amount"
    "  from gone g cross join lateral ("
    "    select distinct substring(g.packed from (i * 36 + 1)::integer for 32) as id"
    "    from generate_series(0, g.chunk_count - 1) as i) p"
    "  where $1 = 0 group by p.id"
    "), going as ("
    "  select c.stored_bytes from chunks c"
    "  where c.unreferenced_at <= now() - $1 * interval '1 second'"
    "    and (c.lease_until is null or c.lease_until < now())"
    "  union all"
    "  select c.stored_bytes from chunks c join named n on n.id = c.id and n.amount = c.refs"
    "  where c.lease_until is null or c.lease_until < now()"
    ") "
    "select count(*), coalesce(sum(stored_bytes), 0)::bigint from going";

int
chunk_repo_collectable(struct pg_conn *conn, int64_t grace_secs, uint64_t *ret_chunks,
                       uint64_t *ret_bytes, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_int(&params, grace_secs);
    if (pg_run(conn, SQL_COLLECTABLE, &params, &rows, err) < 0)
        return err_wrap(err, "look for what to collect");
    *ret_chunks = (uint64_t)pg_int(rows, 0, 0);
    *ret_bytes = (uint64_t)pg_int(rows, 0, 1);
    return 0;
}
