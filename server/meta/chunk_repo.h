/*
 * chunk_repo: chunks, contents, their references and leases; keeps the promise of
 * storage/chunk_index.h. Rows are locked in this order: contents sorted by id, then chunks sorted
 * by id.
 */
#ifndef OXI_META_CHUNK_REPO_H
#define OXI_META_CHUNK_REPO_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "meta/pg.h"
#include "meta/pg_pool.h"
#include "storage/chunk_index.h"
#include "storage/ingest.h"

/* An index over the pool (borrowed); free() it. It is in chunk_repo_index.c. */
struct chunk_index *chunk_repo_index(struct pg_pool *pool);

/*
 * One reference more on a content, made from an upload when it is new: the manifest, the chunks
 * that were written, one reference per distinct chunk. losers has room for written_count indexes:
 * those written chunks that the rows do not name, because another upload was first (all of them
 * when the content itself was there already). ERR_BUSY: a lease ran out and a chunk is gone; the
 * upload must be sent again.
 */
int chunk_repo_attach(struct pg_conn *conn, const struct ingest_content *content, size_t *losers,
                      size_t *ret_loser_count, struct err *err);

/* For each blob, an id and a generation (unsigned, in int64_t's bits): does a row name it? */
int chunk_repo_named(struct pg_conn *conn, const struct digest *ids, const int64_t *generations,
                     size_t count, bool *ret_named, struct err *err);

/* amount references more on a content that exists. ERR_NOT_FOUND: it does not. */
int chunk_repo_ref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
                   struct err *err);
/* amount references less; at 0 the content waits for the collector. */
int chunk_repo_unref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
                     struct err *err);

struct chunk_totals {
    uint64_t chunks;
    uint64_t chunk_bytes;  /* plain */
    uint64_t stored_bytes;
    uint64_t contents;
};
int chunk_repo_totals(struct pg_conn *conn, struct chunk_totals *ret_totals, struct err *err);

/* Reference counts that differ from what refers to them, found by recomputing all. repair: sets
 * them right, in the same transaction. Each is logged. */
struct chunk_drift {
    uint64_t contents_wrong;       /* refs against nodes */
    uint64_t chunks_wrong;         /* refs against contents */
    uint64_t chunks_missing;       /* named by a content, no row */
};
int chunk_repo_verify(struct pg_conn *conn, bool repair, struct chunk_drift *ret_drift,
                      struct err *err);

/* Walks all chunk rows in order of id, after `after` (NULL: from the start), at most cap. */
int chunk_repo_page(struct pg_conn *conn, const struct digest *after, struct stored_chunk *chunks,
                    size_t cap, size_t *ret_count, struct err *err);

#endif
