/*
 * uploads: contents as ingest would give them, without bytes; and the few steps most tests of the
 * chunk repo are made of.
 */
#ifndef OXI_TESTS_META_UPLOADS_H
#define OXI_TESTS_META_UPLOADS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"
#include "meta/chunk_repo.h"
#include "support/test_db.h"

enum { CHUNKS_MAX = 64, LEASE_SECS = 600, CHUNK_SIZE = 1000 };

/* --- contents to attach --- */

/* An upload as ingest would give it: chunk i of it has the seed seeds[i]. */
struct upload {
    struct ingest_content content;
    uint8_t packed[CHUNKS_MAX * MANIFEST_RECORD_BYTES];
    struct digest distinct[CHUNKS_MAX];
    struct stored_chunk written[CHUNKS_MAX];
    size_t losers[CHUNKS_MAX];
    size_t loser_count;
    size_t healed_count;
};

static inline struct digest
chunk_id(int seed)
{
    return digest_of(&seed, sizeof(seed));
}

static inline int
compare_digests(const void *a, const void *b)
{
    return digest_cmp(a, b);
}

static inline void
add_distinct(struct upload *upload, const struct digest *id)
{
    size_t i = 0;

    while (i < upload->content.distinct_count && !digest_eq(&upload->distinct[i], id))
        i++;
    if (i == upload->content.distinct_count)
        upload->distinct[upload->content.distinct_count++] = *id;
}

/* known: for each distinct id, whether it was leased and not written; NULL: none. */
static inline void
fill_written(struct upload *upload, const bool *known)
{
    for (size_t i = 0; i < upload->content.distinct_count; i++) {
        if (known != NULL && known[i])
            continue;
        upload->written[upload->content.written_count++] =
            (struct stored_chunk){.id = upload->distinct[i],
                                  .generation = rand_u64(),
                                  .size_bytes = CHUNK_SIZE,
                                  .stored_bytes = CHUNK_SIZE,
                                  .check = rand_u64(),
                                  .codec = CHUNK_RAW};
    }
}

static inline void
init_upload(struct upload *upload, const int *seeds, size_t count)
{
    memset(upload, 0, sizeof(*upload));
    for (size_t i = 0; i < count; i++) {
        struct digest id = chunk_id(seeds[i]);

        manifest_pack(upload->packed + i * MANIFEST_RECORD_BYTES, &id, CHUNK_SIZE);
        add_distinct(upload, &id);
    }
    qsort(upload->distinct, upload->content.distinct_count, sizeof(struct digest), compare_digests);
    upload->content.content_id = digest_of(upload->packed, count * MANIFEST_RECORD_BYTES);
    upload->content.size_bytes = count * CHUNK_SIZE;
    upload->content.chunk_count = count;
    upload->content.packed = upload->packed;
    upload->content.distinct_ids = upload->distinct;
    upload->content.written = upload->written;
}

static inline void
make_upload(struct upload *upload, const int *seeds, size_t count)
{
    init_upload(upload, seeds, count);
    fill_written(upload, NULL);
}

static inline int
work_attach(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct upload *upload = ctx;

    return chunk_repo_attach(conn, &upload->content, upload->losers, &upload->loser_count,
                             &upload->healed_count, err);
}

static inline void
attach(struct test_db *db, struct upload *upload)
{
    struct err err = {0};

    if (pg_pool_transact(db->pool, work_attach, upload, NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Leases first, as an upload does; says how many were known. */
static inline size_t
lease_upload(struct chunk_index *index, struct upload *upload, const int *seeds, size_t count)
{
    bool known[CHUNKS_MAX];
    size_t known_count = 0;
    struct err err = {0};

    init_upload(upload, seeds, count);
    if (chunk_index_lease(index, upload->distinct, upload->content.distinct_count, LEASE_SECS,
                          known, &err) < 0)
        fail_msg("%s", err.msg);
    fill_written(upload, known);
    for (size_t i = 0; i < upload->content.distinct_count; i++)
        known_count += known[i];
    return known_count;
}

struct ref_change {
    struct digest id;
    int64_t amount;
};

static inline int
work_ref(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct ref_change *change = ctx;

    return change->amount > 0 ? chunk_repo_ref(conn, &change->id, change->amount, err)
                              : chunk_repo_unref(conn, &change->id, -change->amount, err);
}

static inline int
change_refs(struct test_db *db, const struct upload *upload, int64_t amount, struct err *err)
{
    struct ref_change change = {upload->content.content_id, amount};

    return pg_pool_transact(db->pool, work_ref, &change, NULL, err);
}

static inline void
unref(struct test_db *db, const struct upload *upload)
{
    struct err err = {0};

    if (change_refs(db, upload, -1, &err) < 0)
        fail_msg("%s", err.msg);
}

enum { PROVED_AT_ONCE = 16 };

static inline size_t
prove(struct chunk_index *index, int64_t grace_secs, struct proved_chunk chunks[PROVED_AT_ONCE])
{
    struct err err = {0};
    size_t count;

    if (chunk_index_prove(index, grace_secs, chunks, PROVED_AT_ONCE, &count, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(chunks[i].stored_bytes, CHUNK_SIZE);
    return count;
}

/* How many of them are gone then. */
static inline size_t
collect_proved(struct chunk_index *index, const struct proved_chunk *chunks, size_t count)
{
    bool gone[PROVED_AT_ONCE];
    struct err err = {0};
    size_t gone_count = 0;

    if (chunk_index_collect(index, chunks, count, gone, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < count; i++)
        gone_count += gone[i];
    return gone_count;
}

static inline void
collect_contents(struct chunk_index *index, int64_t grace_secs)
{
    struct err err = {0};
    size_t count = 1;

    while (count > 0)
        if (chunk_index_collect_contents(index, grace_secs, &count, &err) < 0)
            fail_msg("%s", err.msg);
}

/* Collects until there is no more; returns how many chunks. */
static inline size_t
collect_all(struct chunk_index *index, int64_t grace_secs)
{
    struct proved_chunk chunks[PROVED_AT_ONCE];
    size_t total = 0, gone = 1;

    collect_contents(index, grace_secs);
    while (gone > 0) {
        size_t count = prove(index, grace_secs, chunks);

        gone = collect_proved(index, chunks, count);
        total += gone;
    }
    return total;
}

struct verification {
    bool repair;
    struct chunk_drift drift;
};

static inline int
work_verify(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct verification *verification = ctx;

    return chunk_repo_verify(conn, verification->repair, &verification->drift, err);
}

static inline struct chunk_drift
verify(struct test_db *db, bool repair)
{
    struct verification verification = {.repair = repair};
    struct err err = {0};

    if (pg_pool_transact(db->pool, work_verify, &verification, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return verification.drift;
}

#endif
