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
#include "base/mem.h"
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
 * when the content itself was there already). A quarantined chunk that was written is healed: its
 * row takes over the new blob, and the old one, which no row names then, is left to the sweep.
 * ERR_BUSY: a lease ran out and a chunk is gone, one that was not written is quarantined by now, or
 * one that was written was swept; the upload must be sent again. *ret_healed: how many were healed.
 *
 * The transaction must have changed something before, as node_repo_lock_space() does: that is how
 * a sweep knows of it.
 */
int chunk_repo_attach(struct pg_conn *conn, const struct ingest_content *content, size_t *losers,
                      size_t *ret_loser_count, size_t *ret_healed, struct err *err);

/* For each blob, an id and a generation (unsigned, in int64_t's bits): does a row name it? */
int chunk_repo_named(struct pg_conn *conn, const struct digest *ids, const int64_t *generations,
                     size_t count, bool *ret_named, struct err *err);

/* amount references more on a content that exists. ERR_NOT_FOUND: it does not. */
int chunk_repo_ref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
                   struct err *err);
/* amount references less; at 0 the content waits for the collector. */
int chunk_repo_unref(struct pg_conn *conn, const struct digest *content_id, int64_t amount,
                     struct err *err);

/* --- giving back (chunk_repo_collect.c); see storage/chunk_index.h --- */

int chunk_repo_collect_contents(struct pg_conn *conn, int64_t grace_secs, size_t *ret_count,
                                struct err *err);
/* In a transaction. */
int chunk_repo_prove(struct pg_conn *conn, int64_t grace_secs, struct proved_chunk *chunks,
                     size_t cap, size_t *ret_count, struct err *err);
int chunk_repo_collect(struct pg_conn *conn, const struct proved_chunk *chunks, size_t count,
                       bool *ret_gone, struct err *err);
/* No chunk_repo_attach() that begins after this has been committed takes one of these blobs. */
int chunk_repo_condemn(struct pg_conn *conn, const struct digest *ids, const int64_t *generations,
                       size_t count, struct err *err);
/* Of the numbers that transactions which change something draw one after the other: that of the
 * oldest which is open, and the one to be drawn next. */
int chunk_repo_horizon(struct pg_conn *conn, int64_t *ret_oldest, int64_t *ret_next,
                       struct err *err);

/* --- storing in another form (chunk_repo_rewrite.c) --- */

/* Chunks that are packed otherwise, in order of id, after `after` (NULL: from the start), at most
 * cap. Those in quarantine are passed over. */
int chunk_repo_unlike(struct pg_conn *conn, enum chunk_codec codec, const struct digest *after,
                      struct stored_chunk *chunks, size_t cap, size_t *ret_count, struct err *err);
/* Rows that name olds[i] name news[i] from now on, a durable blob of the same chunk. In a
 * transaction. ret_switched[i]: false where the row is gone, bad or names another blob by now, or
 * a sweep has condemned news[i]; that blob is the caller's to remove. */
int chunk_repo_switch(struct pg_conn *conn, const struct stored_chunk *olds,
                      const struct stored_chunk *news, size_t count, bool *ret_switched,
                      struct err *err);

/* --- totals --- */

struct chunk_totals {
    uint64_t chunks;
    uint64_t chunk_bytes; /* plain */
    uint64_t stored_bytes;
    uint64_t contents;
};
int chunk_repo_totals(struct pg_conn *conn, struct chunk_totals *ret_totals, struct err *err);

/* --- looking after all of them (chunk_repo_care.c) --- */

/* Counts that differ from what they count, found by recomputing all. repair: sets them right, in
 * the same transaction. Each is logged. */
struct chunk_drift {
    uint64_t contents_wrong; /* refs against nodes */
    uint64_t chunks_wrong;   /* refs against contents */
    uint64_t chunks_missing; /* named by a content, no row */
    uint64_t spaces_wrong;   /* used bytes against nodes */
};
int chunk_repo_verify(struct pg_conn *conn, bool repair, struct chunk_drift *ret_drift,
                      struct err *err);

/* Walks all chunk rows in order of id, after `after` (NULL: from the start), at most cap.
 * quarantined has room for cap too. */
int chunk_repo_page(struct pg_conn *conn, const struct digest *after, struct stored_chunk *chunks,
                    bool *quarantined, size_t cap, size_t *ret_count, struct err *err);

/* The chunks nobody has read back for longest, at most cap, but none within interval_secs. They
 * are the caller's for a while: no other node gets them. */
int chunk_repo_scrub_next(struct pg_conn *conn, int64_t interval_secs, struct stored_chunk *chunks,
                          size_t cap, size_t *ret_count, struct err *err);
/* These blobs were read back and are good; release: also out of quarantine. *ret_released: how
 * many were in it. A blob that no row names any more is passed over. */
int chunk_repo_verified(struct pg_conn *conn, const struct stored_chunk *chunks, size_t count,
                        bool release, uint64_t *ret_released, struct err *err);

/* A file with a chunk in question. The strings are in the arena of the call. */
struct chunk_file {
    struct digest chunk_id;
    char *owner; /* "" : the account is gone */
    char *path;
    bool in_trash;
};
/* Reads every manifest. At most cap; there are more than that when *ret_count is cap. */
int chunk_repo_files(struct pg_conn *conn, const struct digest *chunk_ids, size_t count,
                     struct arena *arena, struct chunk_file *files, size_t cap, size_t *ret_count,
                     struct err *err);

struct chunk_health {
    uint64_t backlog_contents; /* without a reference, as yet not collected */
    uint64_t backlog_chunks;
    uint64_t backlog_bytes;   /* stored, of those chunks */
    int64_t backlog_age_secs; /* since the oldest of both lost its last one; 0: there is none */
    uint64_t quarantined;
    int64_t verified_age_secs; /* of the chunk that has waited longest; 0: there is none */
};
int chunk_repo_health(struct pg_conn *conn, struct chunk_health *ret_health, struct err *err);

/* What a collect with this grace would delete now. */
int chunk_repo_collectable(struct pg_conn *conn, int64_t grace_secs, uint64_t *ret_chunks,
                           uint64_t *ret_bytes, struct err *err);

#endif
