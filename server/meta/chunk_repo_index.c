/*
 * The promise of storage/chunk_index.h: what an upload, a reader, the collector and the sweep ask,
 * each in one statement.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "meta/chunk_repo.h"

enum {
    FILES_LOGGED = 5,
    SEARCH_SHARE = 10,
    HORIZON_WAIT_MS = 5000, /* registering an upload takes less */
    HORIZON_PAUSE_MS = 5,
};

struct pool_index {
    struct chunk_index base;
    struct pg_pool *pool;
    _Atomic int64_t next_search_us; /* monotonic; see log_quarantined() */
};

static struct pg_pool *
pool_of(struct chunk_index *index)
{
    return ((struct pool_index *)index)->pool;
}

/* --- lease --- */

/*
 * A lease with more than half its time left is as good as a new one: such a row is neither locked
 * nor written. It cannot go meanwhile, because the collector passes over it.
 *
 * `due` joins what the snapshot showed, not the table's own column: after waiting for another
 * upload that leased the same chunk, the row still counts as due, and is returned.
 *
 * The commit is not flushed: a lease lost in a crash was lost with its upload. (set_config is
 * evaluated, through `quick`, whenever there is a row to write.)
 */
static const char SQL_LEASE[] =
    "with quick as materialized ("
    "  select set_config('synchronous_commit', 'off', true) as value"
    "), seen as materialized ("
    "  select q.place, c.id, c.lease_until"
    "  from unnest($1::bytea[]) with ordinality as q (id, place)"
    "  join chunks c on c.id = q.id"
    "  where c.quarantined_at is null"
    "), due as materialized ("
    "  select c.id, s.place"
    "  from seen s join chunks c on c.id = s.id cross join quick"
    "  where coalesce(s.lease_until, '-infinity') < now() + $2 * interval '0.5 second'"
    "    and c.quarantined_at is null"
    "  order by c.id for no key update of c"
    "), pinned as ("
    "  update chunks c"
    "  set lease_until = greatest(c.lease_until, now() + $2 * interval '1 second')"
    "  from due where c.id = due.id"
    "  returning due.place"
    ") "
    "select place from seen where lease_until >= now() + $2 * interval '0.5 second' "
    "union all select place from pinned";

struct lease_work {
    const struct digest *ids;
    size_t count;
    int64_t lease_secs;
    bool *known;
};

static int
work_lease(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct lease_work *work = ctx;
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest_array(&params, work->ids, work->count);
    pg_add_int(&params, work->lease_secs);
    if (pg_run(conn, SQL_LEASE, &params, &rows, err) < 0)
        return -1;
    memset(work->known, 0, work->count * sizeof(bool));
    for (int row = 0; row < pg_count(rows); row++)
        work->known[pg_int(rows, row, 0) - 1] = true;
    return 0;
}

static int
index_lease(struct chunk_index *index, const struct digest *ids, size_t count, int64_t lease_secs,
            bool *ret_known, struct err *err)
{
    struct lease_work work = {ids, count, lease_secs, ret_known};

    if (count == 0)
        return 0;
    if (pg_pool_run(pool_of(index), work_lease, &work, err) < 0)
        return err_wrap(err, "lease %zu chunks", count);
    return 0;
}

/* --- manifest --- */

/*
 * One snapshot for the content and its chunks: the collector cannot come in between. The packed
 * list is made flat once (|| ''), so that cutting records out of it does not fetch it again. OFFSET
 * 0 makes it one look at the index per chunk: joined freely, all rows of chunks were read.
 */
static const char SQL_MANIFEST[] =
    "select c.chunk_count, k.id, k.generation, k.size_bytes, k.stored_bytes, k.check_xxh3, k.codec "
    "from (select chunk_count, chunks || ''::bytea as packed from contents where id = $1"
    "      offset 0) c "
    "left join lateral generate_series(0, c.chunk_count - 1) as i (at) on true "
    "left join lateral (select id, generation, size_bytes, stored_bytes, check_xxh3, codec"
    "  from chunks where id = substring(c.packed from (i.at * 36 + 1)::integer for 32)"
    "  offset 0) k on true "
    "order by i.at";

static void
read_chunk(const struct pg_rows *rows, int row, int col, struct stored_chunk *chunk)
{
    chunk->id = pg_digest(rows, row, col);
    chunk->generation = (uint64_t)pg_int(rows, row, col + 1);
    chunk->size_bytes = (uint32_t)pg_int(rows, row, col + 2);
    chunk->stored_bytes = (uint32_t)pg_int(rows, row, col + 3);
    chunk->check = (uint64_t)pg_int(rows, row, col + 4);
    chunk->codec = (enum chunk_codec)pg_int(rows, row, col + 5);
}

static int
read_manifest(const struct pg_rows *rows, struct manifest **ret_manifest, struct err *err)
{
    size_t count = (size_t)pg_int(rows, 0, 0);
    AUTO_FREE struct stored_chunk *chunks = mem_array(count, sizeof(*chunks));

    for (size_t i = 0; i < count; i++) {
        if (pg_is_null(rows, (int)i, 1))
            return err_set(err, ERR_CORRUPT, "chunk %zu of %zu has no row", i, count);
        read_chunk(rows, (int)i, 1, &chunks[i]);
    }
    return manifest_new(chunks, count, ret_manifest, err);
}

struct manifest_work {
    const struct digest *content_id;
    struct manifest *manifest;
};

static int
work_manifest(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct manifest_work *work = ctx;
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest(&params, work->content_id);
    if (pg_run(conn, SQL_MANIFEST, &params, &rows, err) < 0)
        return -1;
    if (pg_count(rows) == 0)
        return err_set(err, ERR_NOT_FOUND, "no such content");
    return read_manifest(rows, &work->manifest, err);
}

static int
wrap_content(const struct digest *content_id, const char *what, struct err *err)
{
    char hex[DIGEST_HEX_SIZE];

    digest_hex(hex, content_id);
    return err_wrap(err, "%s %.16s", what, hex);
}

static int
index_load_manifest(struct chunk_index *index, const struct digest *content_id,
                    struct manifest **ret_manifest, struct err *err)
{
    struct manifest_work work = {content_id, NULL};

    if (pg_pool_run(pool_of(index), work_manifest, &work, err) < 0)
        return wrap_content(content_id, "load manifest", err);
    if (!digest_eq(&work.manifest->content_id, content_id)) {
        manifest_unref(work.manifest);
        (void)err_set(err, ERR_CORRUPT, "its chunks make another content");
        return wrap_content(content_id, "load manifest", err);
    }
    *ret_manifest = work.manifest;
    return 0;
}

/* --- collect --- */

struct contents_work {
    int64_t grace_secs;
    size_t count;
};

static int
work_contents(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct contents_work *work = ctx;

    if (chunk_repo_collect_contents(conn, work->grace_secs, &work->count, err) < 0)
        return -1;
    FAULT_POINT("collect.contents");
    return 0;
}

static int
index_collect_contents(struct chunk_index *index, int64_t grace_secs, size_t *ret_count,
                       struct err *err)
{
    struct contents_work work = {grace_secs, 0};

    if (pg_pool_transact(pool_of(index), work_contents, &work, NULL, err) < 0)
        return -1;
    *ret_count = work.count;
    return 0;
}

struct prove_work {
    int64_t grace_secs;
    struct proved_chunk *chunks;
    size_t cap;
    size_t count;
};

static int
work_prove(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct prove_work *work = ctx;

    return chunk_repo_prove(conn, work->grace_secs, work->chunks, work->cap, &work->count, err);
}

static int
index_prove(struct chunk_index *index, int64_t grace_secs, struct proved_chunk *chunks, size_t cap,
            size_t *ret_count, struct err *err)
{
    struct prove_work work = {grace_secs, chunks, cap, 0};

    if (pg_pool_transact(pool_of(index), work_prove, &work, NULL, err) < 0)
        return -1;
    FAULT_POINT("collect.proved");
    *ret_count = work.count;
    return 0;
}

struct collect_work {
    const struct proved_chunk *chunks;
    size_t count;
    bool *gone;
};

static int
work_collect(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct collect_work *work = ctx;

    if (chunk_repo_collect(conn, work->chunks, work->count, work->gone, err) < 0)
        return -1;
    FAULT_POINT("collect.chunks");
    return 0;
}

/* Says that rows are gone after a certain commit only: when it is not known, the sweep finds the
 * blobs. */
static int
index_collect(struct chunk_index *index, const struct proved_chunk *chunks, size_t count,
              bool *ret_gone, struct err *err)
{
    struct collect_work work = {chunks, count, ret_gone};

    if (pg_pool_transact(pool_of(index), work_collect, &work, NULL, err) < 0)
        return -1;
    FAULT_POINT("collect.committed");
    return 0;
}

/* --- named, condemned --- */

struct named_work {
    struct digest *ids;
    int64_t *generations;
    size_t count;
    bool *named;
};

static int
work_named(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct named_work *work = ctx;

    return chunk_repo_named(conn, work->ids, work->generations, work->count, work->named, err);
}

static int
work_condemn(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct named_work *work = ctx;

    return chunk_repo_condemn(conn, work->ids, work->generations, work->count, err);
}

struct horizon_work {
    int64_t oldest;
    int64_t next;
};

static int
work_horizon(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct horizon_work *work = ctx;

    return chunk_repo_horizon(conn, &work->oldest, &work->next, err);
}

/*
 * Until every transaction that is open now is over. An upload whose statement did not see what was
 * condemned had begun to change something before, so it is among them; after that, what it has
 * registered is there to be seen. So uploads need no lock against the sweep.
 */
static int
wait_for_open_transactions(struct pg_pool *pool, struct err *err)
{
    struct timespec pause = {0, HORIZON_PAUSE_MS * 1000000L};
    int64_t deadline_us = clock_mono_us() + HORIZON_WAIT_MS * INT64_C(1000);
    struct horizon_work begun, now;

    if (pg_pool_run(pool, work_horizon, &begun, err) < 0)
        return -1;
    for (now = begun; now.oldest < begun.next;) {
        if (clock_mono_us() > deadline_us)
            return err_set(err, ERR_BUSY, "a transaction of the database stays open");
        (void)nanosleep(&pause, NULL);
        if (pg_pool_run(pool, work_horizon, &now, err) < 0)
            return -1;
    }
    return 0;
}

static int
run_condemn(struct pg_pool *pool, struct named_work *work, struct err *err)
{
    if (pg_pool_run(pool, work_condemn, work, err) < 0 ||
        wait_for_open_transactions(pool, err) < 0 || pg_pool_run(pool, work_named, work, err) < 0)
        return err_wrap(err, "condemn %zu blobs", work->count);
    return 0;
}

static int
run_named(struct pg_pool *pool, struct named_work *work, struct err *err)
{
    if (pg_pool_run(pool, work_named, work, err) < 0)
        return err_wrap(err, "look up %zu blobs", work->count);
    return 0;
}

static int
ask_about(struct chunk_index *index, const struct blob_key *keys, size_t count, bool *ret_named,
          int (*run)(struct pg_pool *, struct named_work *, struct err *), struct err *err)
{
    AUTO_FREE struct digest *ids = mem_array(count, sizeof(*ids));
    AUTO_FREE int64_t *generations = mem_array(count, sizeof(*generations));
    struct named_work work = {ids, generations, count, ret_named};

    for (size_t i = 0; i < count; i++) {
        ids[i] = keys[i].id;
        generations[i] = (int64_t)keys[i].generation;
    }
    return run(pool_of(index), &work, err);
}

static int
index_named(struct chunk_index *index, const struct blob_key *keys, size_t count, bool *ret_named,
            struct err *err)
{
    return ask_about(index, keys, count, ret_named, run_named, err);
}

static int
index_condemn(struct chunk_index *index, const struct blob_key *keys, size_t count, bool *ret_named,
              struct err *err)
{
    return ask_about(index, keys, count, ret_named, run_condemn, err);
}

/* --- quarantine --- */

static const char SQL_QUARANTINE[] =
    "with marked as ("
    "  update chunks set quarantined_at = now()"
    "  where id = $1 and generation = $2 and quarantined_at is null"
    "  returning 1"
    ") "
    "select c.quarantined_at is not null, exists (select 1 from marked) "
    "from chunks c where c.id = $1 and c.generation = $2";

struct quarantine_work {
    const struct blob_key *key;
    enum chunk_mark mark;
    struct arena arena;
    struct chunk_file files[FILES_LOGGED + 1];
    size_t file_count;
};

/* A row that is there, and neither was nor is marked now, has changed at this moment: healed, or
 * marked by somebody else. The second look tells. */
static int
work_quarantine(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct quarantine_work *work = ctx;

    work->mark = CHUNK_MARK_NONE;
    for (int look = 0; look < 2 && work->mark == CHUNK_MARK_NONE; look++) {
        AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
        AUTO_ROWS struct pg_rows *rows = NULL;

        pg_add_digest(&params, &work->key->id);
        pg_add_int(&params, (int64_t)work->key->generation);
        if (pg_run(conn, SQL_QUARANTINE, &params, &rows, err) < 0)
            return -1;
        if (pg_count(rows) == 0)
            return 0;
        if (pg_int(rows, 0, 1) != 0)
            work->mark = CHUNK_MARK_NEW;
        else if (pg_int(rows, 0, 0) != 0)
            work->mark = CHUNK_MARK_OLD;
    }
    return 0;
}

static int
work_files(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct quarantine_work *work = ctx;

    return chunk_repo_files(conn, &work->key->id, 1, &work->arena, work->files, FILES_LOGGED + 1,
                            &work->file_count, err);
}

/* Finding the files reads every manifest. When chunks go bad in masses, only a small share of the
 * time is spent on that; verify finds them all. */
static bool
find_files(struct chunk_index *index, struct quarantine_work *work)
{
    struct pool_index *pool_index = (struct pool_index *)index;
    int64_t begun_us = clock_mono_us(), next_us = atomic_load(&pool_index->next_search_us);
    struct err err = {0};

    if (begun_us < next_us ||
        !atomic_compare_exchange_strong(&pool_index->next_search_us, &next_us, INT64_MAX))
        return false;
    if (pg_pool_run(pool_index->pool, work_files, work, &err) < 0) {
        log_warn("the files of a bad chunk are not known: error=\"%s\"", err.msg);
        work->file_count = 0;
    }
    next_us = clock_mono_us();
    atomic_store(&pool_index->next_search_us, next_us + (next_us - begun_us) * SEARCH_SHARE);
    return err.code == ERR_NONE;
}

static void
log_quarantined(struct chunk_index *index, struct quarantine_work *work, const char *why)
{
    AUTO_BUF struct buf files = {.max = 4096};
    char name[BLOB_NAME_SIZE];

    arena_init(&work->arena);
    blob_name(name, work->key);
    if (!find_files(index, work))
        buf_adds(&files, " (see oxicloudd verify)");
    for (size_t i = 0; i < work->file_count && i < FILES_LOGGED; i++)
        buf_printf(&files, " \"%s:%s\"%s", work->files[i].owner, work->files[i].path,
                   work->files[i].in_trash ? " (in the trash)" : "");
    if (work->file_count > FILES_LOGGED)
        buf_adds(&files, " and more");
    log_error("chunk quarantined: blob=%s why=\"%s\" files:%s", name, why,
              files.len > 0 ? files.data : " none");
    arena_release(&work->arena);
}

static int
index_quarantine(struct chunk_index *index, const struct blob_key *key, const char *why,
                 enum chunk_mark *ret_mark, struct err *err)
{
    struct quarantine_work work = {.key = key};

    if (pg_pool_run(pool_of(index), work_quarantine, &work, err) < 0)
        return err_wrap(err, "quarantine a chunk");
    if (work.mark == CHUNK_MARK_NEW)
        log_quarantined(index, &work, why);
    *ret_mark = work.mark;
    return 0;
}

static const struct chunk_index_ops index_ops = {
    .lease = index_lease,
    .load_manifest = index_load_manifest,
    .collect_contents = index_collect_contents,
    .prove = index_prove,
    .collect = index_collect,
    .named = index_named,
    .condemn = index_condemn,
    .quarantine = index_quarantine,
};

struct chunk_index *
chunk_repo_index(struct pg_pool *pool)
{
    struct pool_index *index = mem_zalloc(sizeof(*index));

    index->base.ops = &index_ops;
    index->pool = pool;
    return &index->base;
}
