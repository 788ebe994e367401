/*
 * Attaching a content is one statement, so one round trip, and takes its row locks in one order:
 * the content, then chunks by id. Two uploads that share chunks then wait for each other and do
 * not deadlock.
 *
 * A chunk row exists only with a reference or after having had one; an upload's chunks get their
 * rows here. What keeps a known chunk that an upload relies on is its lease: the collector passes
 * over it, and so the row is still there when the upload attaches. If the upload took longer than
 * its lease, the missing row is noticed and the upload given up.
 *
 * A quarantined chunk counts as unknown, so the upload has written it, and its row takes over the
 * new blob: also when the content is there already and needs nothing else. A chunk that was known
 * and is in quarantine by now fails the upload: what is acknowledged is not known to be bad.
 */
#include "meta/chunk_repo.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"

/* --- attach --- */

static int
wrap_content(const struct digest *content_id, const char *what, struct err *err)
{
    char hex[DIGEST_HEX_SIZE];

    digest_hex(hex, content_id);
    return err_wrap(err, "%s %.16s", what, hex);
}

/*
 * The rows of known chunks go through the same INSERT as those of written ones, so that all are
 * locked in one order. xmax = 0 tells a row that was inserted from one that was there: ON
 * CONFLICT DO UPDATE locks the row first, and the lock stays in its xmax. A known chunk that was
 * inserted is one the collector had deleted in between: its blob is going, so the caller rolls
 * back.
 *
 * A known chunk is offered with quarantined_at set: there are no new bytes of it, so it never
 * heals. HEALED is for the row of a chunk that was there.
 *
 * OFFSET 0 makes it one look at the index of swept per written chunk, however many rows that has.
 */
#define SOURCE_COLUMNS "id, generation, size_bytes, stored_bytes, codec, check_xxh3"
#define HEALED(column)                                                                             \
    column " = case when chunks.quarantined_at is not null and excluded.quarantined_at is null"    \
           " then excluded." column " else chunks." column " end"
#define HEALED_COLUMNS                                                                             \
    HEALED("generation")                                                                           \
    ", " HEALED("size_bytes") ", " HEALED("stored_bytes") ", " HEALED("codec") ", " HEALED(        \
        "check_xxh3")

static const char SQL_ATTACH[] =
    "with content as ("
    "  insert into contents (id, size_bytes, chunk_count, chunks, refs)"
    "  values ($1, $2, $3, $4, 1)"
    "  on conflict (id) do update set refs = contents.refs + 1, unreferenced_at = null"
    "  returning xmax = 0 as is_new"
    "), written as ("
    "  select w.*"
    "  from unnest($5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],"
    "    $10::bigint[]) as w (" SOURCE_COLUMNS ")"
    "), source as ("
    "  select " SOURCE_COLUMNS ", null::timestamptz as quarantined_at from written"
    "  union all"
    "  select " SOURCE_COLUMNS ", now() from chunks where id = any($11::bytea[])"
    "), named as ("
    "  insert into chunks (" SOURCE_COLUMNS ", quarantined_at, refs)"
    "  select s.id, s.generation, s.size_bytes, s.stored_bytes, s.codec, s.check_xxh3,"
    "    s.quarantined_at, 1"
    "  from content join source s on content.is_new"
    "  order by s.id"
    "  on conflict (id) do update set refs = chunks.refs + 1, unreferenced_at = null,"
    "    " HEALED_COLUMNS ","
    "    verified_at = case when chunks.quarantined_at is not null"
    "      and excluded.quarantined_at is null then now() else chunks.verified_at end,"
    "    quarantined_at = case when excluded.quarantined_at is null then null"
    "      else chunks.quarantined_at end"
    "  returning id, generation, xmax = 0 as is_new, quarantined_at is not null as is_bad,"
    "    verified_at = now() as is_healed"
    "), sick as materialized ("
    "  select w.*"
    "  from content join written w on not content.is_new join chunks c on c.id = w.id"
    "  where c.quarantined_at is not null"
    "  order by c.id for no key update of c"
    "), healed as ("
    "  update chunks c set generation = s.generation, size_bytes = s.size_bytes,"
    "    stored_bytes = s.stored_bytes, codec = s.codec, check_xxh3 = s.check_xxh3,"
    "    verified_at = now(), quarantined_at = null"
    "  from sick s where c.id = s.id"
    ") "
    "select null::bytea, 0::bigint, is_new,"
    "  not is_new and exists ("
    "    select 1 from unnest($11::bytea[]) as known (id) join chunks c on c.id = known.id"
    "    where c.quarantined_at is not null)"
    "  or exists ("
    "    select 1 from written w cross join lateral ("
    "      select 1 from swept s where s.id = w.id and s.generation = w.generation offset 0) s),"
    "  (select count(*) from sick) + (select count(*) from named where is_healed) "
    "from content "
    "union all select id, generation, is_new, is_bad, 0 from named";

static void
add_written(struct pg_params *params, const struct stored_chunk *written, size_t count)
{
    AUTO_FREE struct digest *ids = mem_array(count, sizeof(*ids));
    AUTO_FREE int64_t *column = mem_array(count, sizeof(*column));

    for (size_t i = 0; i < count; i++)
        ids[i] = written[i].id;
    pg_add_digest_array(params, ids, count);
    for (size_t i = 0; i < count; i++)
        column[i] = (int64_t)written[i].generation;
    pg_add_int_array(params, column, count);
    for (size_t i = 0; i < count; i++)
        column[i] = written[i].size_bytes;
    pg_add_int_array(params, column, count);
    for (size_t i = 0; i < count; i++)
        column[i] = written[i].stored_bytes;
    pg_add_int_array(params, column, count);
    for (size_t i = 0; i < count; i++)
        column[i] = written[i].codec;
    pg_add_int_array(params, column, count);
    for (size_t i = 0; i < count; i++)
        column[i] = (int64_t)written[i].check;
    pg_add_int_array(params, column, count);
}

static int
compare_to_chunk(const void *key, const void *element)
{
    return digest_cmp(key, &((const struct stored_chunk *)element)->id);
}

static const struct stored_chunk *
find_written(const struct ingest_content *content, const struct digest *id)
{
    if (content->written_count == 0)
        return NULL;
    return bsearch(id, content->written, content->written_count, sizeof(content->written[0]),
                   compare_to_chunk);
}

static void
add_known(struct pg_params *params, const struct ingest_content *content)
{
    AUTO_FREE struct digest *known = mem_array(content->distinct_count, sizeof(*known));
    size_t count = 0;

    for (size_t i = 0; i < content->distinct_count; i++)
        if (find_written(content, &content->distinct_ids[i]) == NULL)
            known[count++] = content->distinct_ids[i];
    pg_add_digest_array(params, known, count);
}

static int
lease_lost(struct err *err)
{
    return err_set(err, ERR_BUSY, "a chunk went away or bad during the upload; send it again");
}

/* The content is new; rows 1 and up are its chunks. */
static int
read_losers(const struct pg_rows *rows, const struct ingest_content *content, size_t *losers,
            size_t *ret_count, struct err *err)
{
    size_t count = 0;

    if ((size_t)pg_count(rows) - 1 != content->distinct_count)
        return lease_lost(err);
    for (int row = 1; row < pg_count(rows); row++) {
        struct digest id = pg_digest(rows, row, 0);
        const struct stored_chunk *written = find_written(content, &id);

        if (written == NULL && (pg_int(rows, row, 2) != 0 || pg_int(rows, row, 3) != 0))
            return lease_lost(err);
        if (written != NULL && written->generation != (uint64_t)pg_int(rows, row, 1))
            losers[count++] = (size_t)(written - content->written);
    }
    *ret_count = count;
    return 0;
}

static const char SQL_NAMED[] =
    "select q.place "
    "from unnest($1::bytea[], $2::bigint[]) with ordinality as q (id, generation, place) "
    "join chunks c on c.id = q.id and c.generation = q.generation";

int
chunk_repo_named(struct pg_conn *conn, const struct digest *ids, const int64_t *generations,
                 size_t count, bool *ret_named, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest_array(&params, ids, count);
    pg_add_int_array(&params, generations, count);
    if (pg_run(conn, SQL_NAMED, &params, &rows, err) < 0)
        return -1;
    memset(ret_named, 0, count * sizeof(bool));
    for (int row = 0; row < pg_count(rows); row++)
        ret_named[pg_int(rows, row, 0) - 1] = true;
    return 0;
}

/* The content was there, and its chunks with it. What we wrote is of no use, unless a row does
 * name it: no blob is given up without that look. */
static int
find_losers(struct pg_conn *conn, const struct ingest_content *content, size_t *losers,
            size_t *ret_count, struct err *err)
{
    size_t written_count = content->written_count;
    AUTO_FREE struct digest *ids = mem_array(written_count, sizeof(*ids));
    AUTO_FREE int64_t *generations = mem_array(written_count, sizeof(*generations));
    AUTO_FREE bool *named = mem_array(written_count, sizeof(*named));
    size_t count = 0;

    for (size_t i = 0; i < written_count; i++) {
        ids[i] = content->written[i].id;
        generations[i] = (int64_t)content->written[i].generation;
    }
    if (written_count > 0 &&
        chunk_repo_named(conn, ids, generations, written_count, named, err) < 0)
        return -1;
    for (size_t i = 0; i < written_count; i++)
        if (!named[i])
            losers[count++] = i;
    *ret_count = count;
    return 0;
}

int
chunk_repo_attach(struct pg_conn *conn, const struct ingest_content *content, size_t *losers,
                  size_t *ret_loser_count, size_t *ret_healed, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest(&params, &content->content_id);
    pg_add_int(&params, (int64_t)content->size_bytes);
    pg_add_int(&params, (int64_t)content->chunk_count);
    pg_add_bytes(&params, content->packed, content->chunk_count * MANIFEST_RECORD_BYTES);
    add_written(&params, content->written, content->written_count);
    add_known(&params, content);
    if (pg_run(conn, SQL_ATTACH, &params, &rows, err) < 0)
        return wrap_content(&content->content_id, "attach content", err);
    if (pg_int(rows, 0, 3) != 0)
        return lease_lost(err);
    *ret_healed = (size_t)pg_int(rows, 0, 4);
    if (pg_int(rows, 0, 2) == 0)
        return find_losers(conn, content, losers, ret_loser_count, err);
    return read_losers(rows, content, losers, ret_loser_count, err);
}

/* --- references --- */

static const char SQL_REF[] =
    "update contents set refs = refs + $2, unreferenced_at = null where id = $1";

static const char SQL_UNREF[] = "update contents set refs = refs - $2,"
                                " unreferenced_at = case when refs = $2 then now() end "
                                "where id = $1";

static int
change_refs(struct pg_conn *conn, const char *sql, const struct digest *content_id, int64_t amount,
            struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (amount == 0)
        return 0;
    pg_add_digest(&params, content_id);
    pg_add_int(&params, amount);
    if (pg_run(conn, sql, &params, &rows, err) < 0)
        return wrap_content(content_id, "count references of content", err);
    if (pg_affected(rows) != 1) {
        (void)err_set(err, ERR_NOT_FOUND, "no such content");
        return wrap_content(content_id, "count references of content", err);
    }
    return 0;
}

int
chunk_repo_ref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
               struct err *err)
{
    return change_refs(conn, SQL_REF, content_id, amount, err);
}

int
chunk_repo_unref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
                 struct err *err)
{
    return change_refs(conn, SQL_UNREF, content_id, amount, err);
}

/* --- totals --- */

static const char SQL_TOTALS[] =
    "select k.chunk_count, k.chunk_bytes, k.stored_bytes, c.content_count "
    "from (select count(*) as chunk_count,"
    "        coalesce(sum(size_bytes), 0)::bigint as chunk_bytes,"
    "        coalesce(sum(stored_bytes), 0)::bigint as stored_bytes"
    "      from chunks) k "
    "cross join (select count(*) as content_count from contents) c";

int
chunk_repo_totals(struct pg_conn *conn, struct chunk_totals *ret_totals, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    if (pg_run(conn, SQL_TOTALS, NULL, &rows, err) < 0)
        return err_wrap(err, "add up chunks");
    ret_totals->chunks = (uint64_t)pg_int(rows, 0, 0);
    ret_totals->chunk_bytes = (uint64_t)pg_int(rows, 0, 1);
    ret_totals->stored_bytes = (uint64_t)pg_int(rows, 0, 2);
    ret_totals->contents = (uint64_t)pg_int(rows, 0, 3);
    return 0;
}
