/*
 * chunk_index: what storage needs to know from whoever remembers chunks and contents. The store
 * asks; meta/chunk_repo answers from PostgreSQL, tests answer from memory. Calls may wait and may
 * come from any thread. ERR_UNAVAILABLE and ERR_BUSY: ask again later.
 */
#ifndef OXI_STORAGE_CHUNK_INDEX_H
#define OXI_STORAGE_CHUNK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/blob.h"
#include "storage/manifest.h"

struct chunk_index;

enum chunk_mark {
    CHUNK_MARK_NONE, /* no row names this blob (any more) */
    CHUNK_MARK_NEW,  /* by this call */
    CHUNK_MARK_OLD,  /* it was quarantined before */
};

/* A chunk that no content names, as its row was when that was found. */
struct proved_chunk {
    struct blob_key key;
    uint32_t stored_bytes;
    int64_t version; /* of the row */
};

struct chunk_index_ops {
    /*
     * Pin-or-classify, in one statement: for each id (distinct) says whether the chunk is stored,
     * and keeps those that are for lease_secs from now at least. A lease is not a count: it ends
     * by itself, and taking it twice is harmless. A quarantined chunk counts as not stored: the
     * upload writes it anew, which heals it.
     */
    int (*lease)(struct chunk_index *index, const struct digest *ids, size_t count,
                 int64_t lease_secs, bool *ret_known, struct err *err);

    /* The caller owns one reference. ERR_NOT_FOUND: no such content. ERR_CORRUPT: a chunk of it
     * has no row. */
    int (*load_manifest)(struct chunk_index *index, const struct digest *content_id,
                         struct manifest **ret_manifest, struct err *err);

    /* One batch: deletes contents that no node names, unreferenced for grace_secs. *ret_count: how
     * many; 0: there are no more. Their chunks are counted down. */
    int (*collect_contents)(struct chunk_index *index, int64_t grace_secs, size_t *ret_count,
                            struct err *err);

    /* Finds chunks, at most cap, that no lease keeps, that count as unreferenced for grace_secs,
     * and that no content names: a look through all manifests, whenever there is a candidate. A
     * count that was wrong is logged and put right. */
    int (*prove)(struct chunk_index *index, int64_t grace_secs, struct proved_chunk *chunks,
                 size_t cap, size_t *ret_count, struct err *err);

    /* Deletes the rows of proved chunks, except where something has happened to a row since. For
     * each: is it gone for good, so that its blob may be removed? */
    int (*collect)(struct chunk_index *index, const struct proved_chunk *chunks, size_t count,
                   bool *ret_gone, struct err *err);

    /* For each key: does a row name exactly this blob? */
    int (*named)(struct chunk_index *index, const struct blob_key *keys, size_t count,
                 bool *ret_named, struct err *err);

    /* The same, for ever: no upload, however far it is, will register those that are not named.
     * ERR_BUSY: uploads that may have been about to are not over; ask again later. */
    int (*condemn)(struct chunk_index *index, const struct blob_key *keys, size_t count,
                   bool *ret_named, struct err *err);

    /* Marks the chunk as bad if its row names exactly this blob. Whoever marks it first logs why,
     * with some of the files it hurts. */
    int (*quarantine)(struct chunk_index *index, const struct blob_key *key, const char *why,
                      enum chunk_mark *ret_mark, struct err *err);
};

struct chunk_index {
    const struct chunk_index_ops *ops;
};

int chunk_index_lease(struct chunk_index *index, const struct digest *ids, size_t count,
                      int64_t lease_secs, bool *ret_known, struct err *err);
int chunk_index_load_manifest(struct chunk_index *index, const struct digest *content_id,
                              struct manifest **ret_manifest, struct err *err);
int chunk_index_collect_contents(struct chunk_index *index, int64_t grace_secs, size_t *ret_count,
                                 struct err *err);
int chunk_index_prove(struct chunk_index *index, int64_t grace_secs, struct proved_chunk *chunks,
                      size_t cap, size_t *ret_count, struct err *err);
int chunk_index_collect(struct chunk_index *index, const struct proved_chunk *chunks, size_t count,
                        bool *ret_gone, struct err *err);
int chunk_index_named(struct chunk_index *index, const struct blob_key *keys, size_t count,
                      bool *ret_named, struct err *err);
int chunk_index_condemn(struct chunk_index *index, const struct blob_key *keys, size_t count,
                        bool *ret_named, struct err *err);
int chunk_index_quarantine(struct chunk_index *index, const struct blob_key *key, const char *why,
                           enum chunk_mark *ret_mark, struct err *err);

#endif
