#include "service/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "meta/chunk_repo.h"
#include "storage/chunk_check.h"

enum {
    PAGE_CHUNKS = 256,
    READS_AT_ONCE = 8,
    BAD_MOST = 10000,  /* whose files are looked for */
    FILES_MOST = 1000, /* that are named */
};

struct verify {
    struct pg_pool *pool;
    struct store *store;
    bool deep;
    bool repair;
    void (*say)(void *ctx, const char *line);
    void *ctx;
    struct verify_result *result;

    struct chunk_drift drift;
    struct stored_chunk chunks[PAGE_CHUNKS];
    bool quarantined[PAGE_CHUNKS]; /* before this run */
    struct err findings[PAGE_CHUNKS];
    size_t chunk_count;
    struct digest after; /* the last chunk of the page before */
    bool first;
    struct stored_chunk good[PAGE_CHUNKS]; /* read back from the device */
    size_t good_count;
    uint64_t released_count;

    struct digest *bad_ids;
    size_t bad_count, bad_cap;
    struct arena arena;
    struct chunk_file *files;
    size_t file_count;
};

static void say(struct verify *verify, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
say(struct verify *verify, const char *fmt, ...)
{
    AUTO_FREE char *line = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&line, fmt, args) < 0)
        line = mem_strdup("(no memory for this line)");
    va_end(args);
    verify->say(verify->ctx, line);
}

/* --- references --- */

static int
references_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verify *verify = ctx;

    return chunk_repo_verify(conn, verify->repair, &verify->drift, err);
}

static int
check_references(struct verify *verify, struct err *err)
{
    const struct chunk_drift *drift = &verify->drift;
    const char *repaired = verify->repair ? ", set right" : "";

    if (pg_pool_transact(verify->pool, references_work, verify, NULL, err) < 0)
        return -1;
    if (drift->contents_wrong)
        say(verify, "contents with a wrong reference count: %llu%s",
            (unsigned long long)drift->contents_wrong, repaired);
    if (drift->chunks_wrong)
        say(verify, "chunks with a wrong reference count: %llu%s",
            (unsigned long long)drift->chunks_wrong, repaired);
    if (drift->chunks_missing)
        say(verify, "chunks named by a content but without a row: %llu",
            (unsigned long long)drift->chunks_missing);
    if (drift->spaces_wrong)
        say(verify, "spaces with wrong used bytes: %llu%s", (unsigned long long)drift->spaces_wrong,
            repaired);
    verify->result->spaces_wrong = drift->spaces_wrong;
    verify->result->references_wrong = drift->contents_wrong + drift->chunks_wrong;
    verify->result->chunks_missing = drift->chunks_missing;
    return 0;
}

/* --- chunks --- */

static struct blob_key
key_of(const struct stored_chunk *chunk)
{
    return (struct blob_key){.id = chunk->id, .generation = chunk->generation};
}

static int
check_blob(struct verify *verify, const struct stored_chunk *chunk, struct err *err)
{
    struct blob_key key = key_of(chunk);
    uint64_t stored_bytes;

    if (blob_stat(verify->store->backend, &key, &stored_bytes, err) < 0)
        return -1;
    if (stored_bytes != chunk->stored_bytes)
        return err_set(err, ERR_CORRUPT, "%llu bytes instead of %u",
                       (unsigned long long)stored_bytes, (unsigned)chunk->stored_bytes);
    return 0;
}

/* Runs on the store's workers; each i has a place of its own. */
static void
check_nth(void *ctx, size_t i)
{
    struct verify *verify = ctx;
    const struct stored_chunk *chunk = &verify->chunks[i];
    AUTO_FREE void *bytes = NULL;
    struct err *err = &verify->findings[i];

    *err = (struct err){0};
    if (check_blob(verify, chunk, err) < 0 || !verify->deep)
        return;
    bytes = mem_alloc(chunk->size_bytes);
    (void)chunk_check_deep(verify->store, chunk, bytes, err); /* err is the finding */
}

static void
note_bad(struct verify *verify, const struct digest *id)
{
    if (verify->bad_count == BAD_MOST)
        return;
    verify->bad_ids = mem_grow(verify->bad_ids, &verify->bad_cap, verify->bad_count + 1,
                               sizeof(*verify->bad_ids));
    verify->bad_ids[verify->bad_count++] = *id;
}

/* The collector may have taken row and blob since the page was read, or an upload may have written
 * the chunk anew: that is no finding. */
static int
report_bad(struct verify *verify, const struct stored_chunk *chunk, const struct err *finding,
           struct err *err)
{
    bool is_missing = finding->code == ERR_NOT_FOUND;
    char hex[DIGEST_HEX_SIZE];
    bool is_bad;

    if (chunk_check_quarantine(verify->store, chunk, finding, &is_bad, err) < 0)
        return -1;
    if (!is_bad)
        return 0;
    digest_hex(hex, &chunk->id);
    if (is_missing)
        say(verify, "chunk %s: missing", hex);
    else
        say(verify, "chunk %s: damaged: %s", hex, finding->msg);
    *(is_missing ? &verify->result->chunks_missing : &verify->result->chunks_damaged) += 1;
    note_bad(verify, &chunk->id);
    return 0;
}

static void
report_quarantined(struct verify *verify, const struct stored_chunk *chunk)
{
    char hex[DIGEST_HEX_SIZE];

    digest_hex(hex, &chunk->id);
    if (verify->deep) { /* so it was read back and is good */
        say(verify, "chunk %s: good again%s", hex,
            verify->repair ? ", out of quarantine" : "; --repair takes it out of quarantine");
        return;
    }
    say(verify, "chunk %s: in quarantine", hex);
    verify->result->chunks_damaged++;
    note_bad(verify, &chunk->id);
}

static int
report_nth(struct verify *verify, size_t i, struct err *err)
{
    const struct stored_chunk *chunk = &verify->chunks[i];
    const struct err *finding = &verify->findings[i];

    if (chunk_check_is_bad(finding))
        return report_bad(verify, chunk, finding, err);
    if (finding->code != ERR_NONE) {
        *err = *finding;
        return err_wrap(err, "check a chunk");
    }
    if (verify->quarantined[i])
        report_quarantined(verify, chunk);
    if (verify->deep)
        verify->good[verify->good_count++] = *chunk;
    return 0;
}

static int
page_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verify *verify = ctx;

    return chunk_repo_page(conn, verify->first ? NULL : &verify->after, verify->chunks,
                           verify->quarantined, PAGE_CHUNKS, &verify->chunk_count, err);
}

static int
verified_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verify *verify = ctx;

    return chunk_repo_verified(conn, verify->good, verify->good_count, verify->repair,
                               &verify->released_count, err);
}

static int
check_page(struct verify *verify, struct err *err)
{
    if (pg_pool_run(verify->pool, page_work, verify, err) < 0)
        return -1;
    workers_each(verify->store->workers, verify->chunk_count, READS_AT_ONCE, check_nth, verify);
    verify->good_count = 0;
    for (size_t i = 0; i < verify->chunk_count; i++)
        if (report_nth(verify, i, err) < 0)
            return -1;
    verify->result->chunks_checked += verify->chunk_count;
    if (verify->good_count == 0)
        return 0;
    if (pg_pool_run(verify->pool, verified_work, verify, err) < 0)
        return -1;
    verify->result->chunks_released += verify->released_count;
    return 0;
}

static int
check_chunks(struct verify *verify, struct err *err)
{
    do {
        if (check_page(verify, err) < 0)
            return -1;
        if (verify->chunk_count > 0)
            verify->after = verify->chunks[verify->chunk_count - 1].id;
        verify->first = false;
    } while (verify->chunk_count == PAGE_CHUNKS);
    return 0;
}

/* --- files --- */

static int
files_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verify *verify = ctx;

    return chunk_repo_files(conn, verify->bad_ids, verify->bad_count, &verify->arena, verify->files,
                            FILES_MOST, &verify->file_count, err);
}

static int
report_files(struct verify *verify, struct err *err)
{
    if (verify->bad_count == 0)
        return 0;
    verify->files = mem_array(FILES_MOST, sizeof(*verify->files));
    if (pg_pool_run(verify->pool, files_work, verify, err) < 0)
        return -1;
    for (size_t i = 0; i < verify->file_count; i++) {
        const struct chunk_file *file = &verify->files[i];
        char hex[DIGEST_HEX_SIZE];

        digest_hex(hex, &file->chunk_id);
        say(verify, "file %s:%s%s: hurt by chunk %.16s", file->owner, file->path,
            file->in_trash ? " (in the trash)" : "", hex);
    }
    if (verify->file_count == FILES_MOST || verify->bad_count == BAD_MOST)
        say(verify, "there are more such files");
    return 0;
}

static void
free_verify(struct verify *verify)
{
    arena_release(&verify->arena);
    free(verify->bad_ids);
    free(verify->files);
    free(verify);
}

int
verify_run(struct pg_pool *pool, struct store *store, bool deep, bool repair,
           void (*say_line)(void *ctx, const char *line), void *ctx,
           struct verify_result *ret_result, struct err *err)
{
    struct verify_result result = {0};
    struct verify *verify = mem_zalloc(sizeof(*verify));
    int rc = -1;

    verify->pool = pool;
    verify->store = store;
    verify->deep = deep;
    verify->repair = repair;
    verify->say = say_line;
    verify->ctx = ctx;
    verify->result = &result;
    verify->first = true;
    arena_init(&verify->arena);
    if (check_references(verify, err) == 0 && check_chunks(verify, err) == 0 &&
        report_files(verify, err) == 0) {
        *ret_result = result;
        rc = 0;
    }
    free_verify(verify);
    return rc;
}
