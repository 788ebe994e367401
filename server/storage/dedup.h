/*
 * dedup: a batch of chunks in: which are known, and now leased; which are new. One object per
 * upload, which also remembers the ids it has seen, so that each chunk is asked for, and written,
 * once an upload. Used by one thread at a time; dedup_classify() and dedup_renew() may wait for
 * the index.
 */
#ifndef OXI_STORAGE_DEDUP_H
#define OXI_STORAGE_DEDUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/digest.h"
#include "storage/store.h"

enum dedup_verdict {
    DEDUP_NEW,    /* the caller writes it */
    DEDUP_KNOWN,  /* stored and leased */
    DEDUP_REPEAT, /* was in this upload before */
};

struct dedup_entry {
    struct digest id;
    bool known;
};

struct dedup {
    struct store *store;
    struct dedup_entry *entries; /* distinct, in the order they came */
    size_t count;
    size_t entries_cap;
    uint32_t *slots; /* hash table of index + 1 */
    size_t slot_count;
    uint64_t hash_key;
};

void dedup_init(struct dedup *dedup, struct store *store);
void dedup_release(struct dedup *dedup);

/* A verdict for each id, in order. After a failure the object is only good for release. */
int dedup_classify(struct dedup *dedup, const struct digest *ids, size_t count,
                   enum dedup_verdict *ret_verdicts, struct err *err);

/* Leases what was known again. ERR_BUSY: some of it is gone, or was quarantined; the upload has to
 * start over. */
int dedup_renew(struct dedup *dedup, struct err *err);

#endif
