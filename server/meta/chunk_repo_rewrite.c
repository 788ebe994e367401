/*
 * A chunk that is stored in another form gets a new blob, and its row is switched over to it: only
 * where it still names the blob that was read, so that an upload which healed the chunk meanwhile,
 * or the collector, wins. The row's version changes with that, so no proof of the collector
 * outlives it.
 */
#include "meta/chunk_repo.h"

#include <string.h>

#include "base/cleanup.h"

static const char SQL_UNLIKE[] =
    "select id, generation, size_bytes, stored_bytes, check_xxh3, codec from chunks "
    "where id > $1 and codec <> $2 and quarantined_at is null order by id limit $3";

int
chunk_repo_unlike(struct pg_conn *conn, enum chunk_codec codec, const struct digest *after,
                  struct stored_chunk *chunks, size_t cap, size_t *ret_count, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_bytes(&params, after == NULL ? NULL : after->bytes, after == NULL ? 0 : DIGEST_BYTES);
    pg_add_int(&params, codec);
    pg_add_int(&params, (int64_t)cap);
    if (pg_run(conn, SQL_UNLIKE, &params, &rows, err) < 0)
        return err_wrap(err, "find chunks to rewrite");
    for (int row = 0; row < pg_count(rows); row++) {
        chunks[row] = (struct stored_chunk){
            .id = pg_digest(rows, row, 0),
            .generation = (uint64_t)pg_int(rows, row, 1),
            .size_bytes = (uint32_t)pg_int(rows, row, 2),
            .stored_bytes = (uint32_t)pg_int(rows, row, 3),
            .check = (uint64_t)pg_int(rows, row, 4),
            .codec = (enum chunk_codec)pg_int(rows, row, 5),
        };
    }
    *ret_count = (size_t)pg_count(rows);
    return 0;
}

/* Draws the transaction's number: a sweep that condemns blobs from now on waits for us, and one
 * that has done so before is seen by the next statement. */
static const char SQL_BE_KNOWN[] = "select pg_current_xact_id()::text";

/* OFFSET 0 makes it one look at the index of swept per chunk, however many rows that has. */
static const char SQL_SWITCH[] =
    "with mine as materialized ("
    "  select q.*"
    "  from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    "    $6::bigint[])"
    "    with ordinality as q (id, old_generation, generation, stored_bytes, codec, check_xxh3,"
    "      place)"
    "  join chunks c on c.id = q.id and c.generation = q.old_generation"
    "  where c.quarantined_at is null and not exists ("
    "    select 1 from swept s where s.id = q.id and s.generation = q.generation offset 0)"
    "  order by c.id for no key update of c"
    ") "
    "update chunks c set generation = m.generation, stored_bytes = m.stored_bytes,"
    "  codec = m.codec, check_xxh3 = m.check_xxh3, verified_at = now() "
    "from mine m where c.id = m.id "
    "returning m.place";

static void
add_column(struct pg_params *params, const struct stored_chunk *chunks, size_t count,
           int64_t (*value)(const struct stored_chunk *chunk))
{
    AUTO_FREE int64_t *column = mem_array(count + 1, sizeof(*column));

    for (size_t i = 0; i < count; i++)
        column[i] = value(&chunks[i]);
    pg_add_int_array(params, column, count);
}

static int64_t
generation_of(const struct stored_chunk *chunk)
{
    return (int64_t)chunk->generation;
}

static int64_t
stored_bytes_of(const struct stored_chunk *chunk)
{
    return chunk->stored_bytes;
}

static int64_t
codec_of(const struct stored_chunk *chunk)
{
    return chunk->codec;
}

static int64_t
check_of(const struct stored_chunk *chunk)
{
    return (int64_t)chunk->check;
}

int
chunk_repo_switch(struct pg_conn *conn, const struct stored_chunk *olds,
                  const struct stored_chunk *news, size_t count, bool *ret_switched,
                  struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;
    AUTO_FREE struct digest *ids = mem_array(count + 1, sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = olds[i].id;
    pg_add_digest_array(&params, ids, count);
    add_column(&params, olds, count, generation_of);
    add_column(&params, news, count, generation_of);
    add_column(&params, news, count, stored_bytes_of);
    add_column(&params, news, count, codec_of);
    add_column(&params, news, count, check_of);
    if (pg_run(conn, SQL_BE_KNOWN, NULL, NULL, err) < 0 ||
        pg_run(conn, SQL_SWITCH, &params, &rows, err) < 0)
        return err_wrap(err, "switch %zu chunks over", count);
    memset(ret_switched, 0, count * sizeof(bool));
    for (int row = 0; row < pg_count(rows); row++)
        ret_switched[pg_int(rows, row, 0) - 1] = true;
    return 0;
}
