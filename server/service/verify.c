#include "service/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "meta/chunk_repo.h"

enum { PAGE_CHUNKS = 256, READS_AT_ONCE = 8 };

enum state { STATE_GOOD, STATE_MISSING, STATE_DAMAGED, STATE_UNKNOWN };

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
    size_t chunk_count;
    struct digest after; /* the last chunk of the page before */
    bool first;
    struct {
        enum state state;
        struct err err;
    } states[PAGE_CHUNKS];
};

static void say(struct verify *verify, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
say(struct verify *verify, const char *fmt, ...)
{
    char line[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
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

static enum state
state_of(const struct err *err)
{
    switch (err->code) {
    case ERR_NOT_FOUND: return STATE_MISSING;
    case ERR_CORRUPT:
    case ERR_IO: return STATE_DAMAGED;
    default: return STATE_UNKNOWN;
    }
}

static int
read_back(struct store *store, const struct stored_chunk *chunk, struct err *err)
{
    AUTO_FREE void *bytes = mem_alloc(chunk->stored_bytes + 1);
    struct blob_key key = key_of(chunk);
    struct digest id;

    blob_forget(store->backend, &key); /* the device is asked, not the cache */
    if (blob_read(store->backend, &key, 0, bytes, chunk->stored_bytes, err) < 0)
        return -1;
    if (digest_check(bytes, chunk->stored_bytes) != chunk->check)
        return err_set(err, ERR_CORRUPT, "the check of the stored bytes differs");
    id = digest_of(bytes, chunk->stored_bytes);
    if (chunk->codec == CHUNK_RAW && !digest_eq(&id, &chunk->id))
        return err_set(err, ERR_CORRUPT, "the bytes have another id");
    return 0;
}

static int
check_chunk(struct verify *verify, const struct stored_chunk *chunk, struct err *err)
{
    struct blob_key key = key_of(chunk);
    uint64_t stored_bytes;

    if (blob_stat(verify->store->backend, &key, &stored_bytes, err) < 0)
        return -1;
    if (stored_bytes != chunk->stored_bytes)
        return err_set(err, ERR_CORRUPT, "%llu bytes instead of %u",
                       (unsigned long long)stored_bytes, (unsigned)chunk->stored_bytes);
    return verify->deep ? read_back(verify->store, chunk, err) : 0;
}

/* Runs on the store's workers; each i has a place of its own. */
static void
check_nth(void *ctx, size_t i)
{
    struct verify *verify = ctx;
    struct err *err = &verify->states[i].err;

    *err = (struct err){0};
    verify->states[i].state =
        check_chunk(verify, &verify->chunks[i], err) < 0 ? state_of(err) : STATE_GOOD;
}

/* The collector may have taken row and blob since the page was read: that is no finding. */
static int
is_still_named(struct verify *verify, const struct stored_chunk *chunk, bool *ret_named,
               struct err *err)
{
    struct blob_key key = key_of(chunk);

    return chunk_index_named(verify->store->index, &key, 1, ret_named, err);
}

static int
report_nth(struct verify *verify, size_t i, struct err *err)
{
    const struct stored_chunk *chunk = &verify->chunks[i];
    char hex[DIGEST_HEX_SIZE];
    bool named;

    if (verify->states[i].state == STATE_GOOD)
        return 0;
    if (verify->states[i].state == STATE_UNKNOWN) {
        *err = verify->states[i].err;
        return err_wrap(err, "check a chunk");
    }
    if (is_still_named(verify, chunk, &named, err) < 0)
        return -1;
    if (!named)
        return 0;
    digest_hex(hex, &chunk->id);
    if (verify->states[i].state == STATE_MISSING) {
        verify->result->chunks_missing++;
        say(verify, "chunk %s: missing", hex);
    } else {
        verify->result->chunks_damaged++;
        say(verify, "chunk %s: damaged: %s", hex, verify->states[i].err.msg);
    }
    return 0;
}

static int
page_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verify *verify = ctx;

    return chunk_repo_page(conn, verify->first ? NULL : &verify->after, verify->chunks, PAGE_CHUNKS,
                           &verify->chunk_count, err);
}

static int
check_chunks(struct verify *verify, struct err *err)
{
    do {
        if (pg_pool_run(verify->pool, page_work, verify, err) < 0)
            return -1;
        workers_each(verify->store->workers, verify->chunk_count, READS_AT_ONCE, check_nth, verify);
        for (size_t i = 0; i < verify->chunk_count; i++)
            if (report_nth(verify, i, err) < 0)
                return -1;
        verify->result->chunks_checked += verify->chunk_count;
        if (verify->chunk_count > 0)
            verify->after = verify->chunks[verify->chunk_count - 1].id;
        verify->first = false;
    } while (verify->chunk_count == PAGE_CHUNKS);
    return 0;
}

int
verify_run(struct pg_pool *pool, struct store *store, bool deep, bool repair,
           void (*say_line)(void *ctx, const char *line), void *ctx,
           struct verify_result *ret_result, struct err *err)
{
    struct verify_result result = {0};
    AUTO_FREE struct verify *verify = mem_zalloc(sizeof(*verify));

    verify->pool = pool;
    verify->store = store;
    verify->deep = deep;
    verify->repair = repair;
    verify->say = say_line;
    verify->ctx = ctx;
    verify->result = &result;
    verify->first = true;
    if (check_references(verify, err) < 0 || check_chunks(verify, err) < 0)
        return -1;
    *ret_result = result;
    return 0;
}
