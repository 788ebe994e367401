/*
 * files: what a principal may do with a tree: look, read, write, make, move, copy, delete.
 *
 * Writing functions resolve everything first and then change everything in one transaction; on
 * any error nothing was touched. A guard is asked inside that transaction, when nobody else can
 * change the space any more: that is where conditional requests (If-Match ...) are decided.
 *
 * Errors beyond the obvious: ERR_CONFLICT a parent on the way is missing or is a file; ERR_EXISTS
 * a folder where a file is wanted, or the other way round, or something is there already;
 * ERR_LOCKED a lock is in the way, whose token the guard does not have.
 */
#ifndef OXI_SERVICE_FILES_H
#define OXI_SERVICE_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/path.h"
#include "meta/node_repo.h"
#include "meta/pg_pool.h"
#include "meta/prop_repo.h"
#include "service/principal.h"
#include "service/quota.h"
#include "storage/ingest.h"
#include "storage/room.h"
#include "storage/store.h"

struct files {
    const struct config *config; /* all borrowed */
    struct pg_pool *pool;
    struct store *store;
    _Atomic unsigned sums_under_way; /* of file_sha256.c */
};

struct lock_tokens; /* lock_check.h */

/* node is NULL when nothing is there. A -1 refuses the change. May be called more than once. */
struct files_guard {
    int (*check)(void *ctx, const struct node *node, struct err *err);
    void *ctx;
    struct lock_tokens *tokens; /* that were submitted; NULL: none */
};

/* --- look --- */

/* ERR_NOT_FOUND also when a parent is missing. */
int files_stat(struct files *files, const struct principal *principal, const struct path *path,
               struct node *ret_node, struct err *err);
/* Dead properties of nodes, ordered by node. */
int files_props(struct files *files, const int64_t *node_ids, size_t count, struct arena *arena,
                struct prop **ret_props, size_t *ret_count, struct err *err);
/* Bytes used, and the quota or -1. */
int files_usage(struct files *files, const struct principal *principal, uint64_t *ret_used_bytes,
                int64_t *ret_quota_bytes, struct err *err);

enum { FILES_ETAG_SIZE = 64 };
/* With the quotes. Strong; see ARCHITECTURE.md for what it is made of. */
void files_etag(const struct node *node, char dst[FILES_ETAG_SIZE]);

/* --- write --- */

/* What an upload is promised before its body is taken, of its owner's quota and of the disk.
 * Zeroed before; belongs to one upload. */
struct files_claim {
    struct quota_hold quota;
    struct room_claim room;
    uint64_t come_bytes; /* of the body so far */
};

/* Before the body is taken: would a file of that many bytes (UINT64_MAX: unknown) be accepted
 * here now? The same errors as files_write(). Nothing is changed, but what the file needs is
 * claimed; after a failure nothing is. */
int files_may_write(struct files *files, const struct principal *principal, const struct path *path,
                    uint64_t size_bytes, const struct files_guard *guard, struct files_claim *claim,
                    struct err *err);
/* So many bytes more have come. Any failure ends the upload: ERR_TOO_LARGE, ERR_QUOTA. */
int files_take(struct files *files, struct files_claim *claim, size_t bytes, struct err *err);
/* Whatever became of the upload, and before the client hears of it. */
void files_release(struct files *files, struct files_claim *claim);

struct files_write {
    const struct path *path;
    const struct ingest_content *content;
    int64_t mtime_us;          /* -1: now */
    const char *mime;          /* the client's word, or NULL */
    struct files_guard guard;  /* check may be NULL */
    struct files_claim *claim; /* settled by the commit; may be NULL */
};
/*
 * The one transaction of an upload (service/commit.c): chunks, manifest, node, sequence. Calls
 * ingest_keep() or ingest_leave() as the outcome demands; after an error other than an unknown
 * outcome the ingest still removes its blobs when it is freed.
 */
int files_write(struct files *files, const struct principal *principal,
                const struct files_write *write, struct ingest *ingest, struct node *ret_node,
                bool *ret_created, struct err *err);

/* ERR_EXISTS: there is something. */
int files_make_folder(struct files *files, const struct principal *principal,
                      const struct path *path, const struct files_guard *guard,
                      struct node *ret_node, struct err *err);

/* Into the trash. ERR_DENIED for the root. */
int files_remove(struct files *files, const struct principal *principal, const struct path *path,
                 const struct files_guard *guard, struct err *err);

enum files_transfer_kind { FILES_COPY, FILES_MOVE };
struct files_transfer {
    enum files_transfer_kind kind;
    const struct path *source;
    const struct path *target;
    bool overwrite;                  /* what is at the target goes to the trash */
    bool shallow;                    /* a folder is copied without what is in it */
    int64_t mtime_us;                /* -1: kept */
    struct files_guard source_guard; /* check may be NULL */
    struct files_guard target_guard; /* with the same tokens */
};
/* ERR_DENIED: onto itself, into itself, onto an ancestor. ERR_PRECONDITION: something is at the
 * target and overwrite is off. *ret_created: nothing was there. */
int files_transfer(struct files *files, const struct principal *principal,
                   const struct files_transfer *transfer, struct node *ret_node, bool *ret_created,
                   struct err *err);

enum { FILES_PROPS_MAX_BYTES = 64 * 1024 };
/* Sets (value not NULL) and removes (value NULL) dead properties in order, all or nothing.
 * mtime_us: -1, or a new time of last change of the node. ERR_QUOTA: all properties of the node
 * would have more than FILES_PROPS_MAX_BYTES. */
int files_patch(struct files *files, const struct principal *principal, const struct path *path,
                const struct prop *props, size_t count, int64_t mtime_us,
                const struct files_guard *guard, struct err *err);
/* Would it be allowed? Nothing is changed. */
int files_may_patch(struct files *files, const struct principal *principal, const struct path *path,
                    const struct files_guard *guard, struct err *err);

#endif
