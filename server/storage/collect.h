/*
 * collect: gives back space in small batches. collect_garbage() deletes what nothing keeps: rows
 * first, blobs after the commit. collect_sweep() deletes blobs that no row names and that are
 * older than the grace time, and than a lease in any case: what crashed uploads left. Both stop
 * early when *stop becomes true. Any number of nodes may do it at once, whatever is uploaded.
 */
#ifndef OXI_STORAGE_COLLECT_H
#define OXI_STORAGE_COLLECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/store.h"

struct collect_result {
    uint64_t blob_count;
    uint64_t blob_bytes;
};

int collect_garbage(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                    struct collect_result *ret_result, struct err *err);
int collect_sweep(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                  struct collect_result *ret_result, struct err *err);
/* What a sweep would remove now. */
int collect_sweep_preview(struct store *store, int64_t grace_secs, const _Atomic bool *stop,
                          struct collect_result *ret_result, struct err *err);

#endif
