#include "storage/chunk_index.h"

#include "base/clock.h"
#include "base/metrics.h"

int
chunk_index_lease(struct chunk_index *index, const struct digest *ids, size_t count,
                  int64_t lease_secs, bool *ret_known, struct err *err)
{
    int64_t start_us = clock_mono_us();
    int rc;

    if (count == 0)
        return 0;
    rc = index->ops->lease(index, ids, count, lease_secs, ret_known, err);
    metric_observe_us(METRIC_LEASE_SECONDS, clock_mono_us() - start_us);
    return rc;
}

int
chunk_index_load_manifest(struct chunk_index *index, const struct digest *content_id,
                          struct manifest **ret_manifest, struct err *err)
{
    return index->ops->load_manifest(index, content_id, ret_manifest, err);
}

int
chunk_index_collect_contents(struct chunk_index *index, int64_t grace_secs, size_t *ret_count,
                             struct err *err)
{
    return index->ops->collect_contents(index, grace_secs, ret_count, err);
}

int
chunk_index_prove(struct chunk_index *index, int64_t grace_secs, struct proved_chunk *chunks,
                  size_t cap, size_t *ret_count, struct err *err)
{
    return index->ops->prove(index, grace_secs, chunks, cap, ret_count, err);
}

int
chunk_index_collect(struct chunk_index *index, const struct proved_chunk *chunks, size_t count,
                    bool *ret_gone, struct err *err)
{
    if (count == 0)
        return 0;
    return index->ops->collect(index, chunks, count, ret_gone, err);
}

int
chunk_index_named(struct chunk_index *index, const struct blob_key *keys, size_t count,
                  bool *ret_named, struct err *err)
{
    if (count == 0)
        return 0;
    return index->ops->named(index, keys, count, ret_named, err);
}

int
chunk_index_condemn(struct chunk_index *index, const struct blob_key *keys, size_t count,
                    bool *ret_named, struct err *err)
{
    if (count == 0)
        return 0;
    return index->ops->condemn(index, keys, count, ret_named, err);
}

int
chunk_index_quarantine(struct chunk_index *index, const struct blob_key *key, const char *why,
                       enum chunk_mark *ret_mark, struct err *err)
{
    if (index->ops->quarantine(index, key, why, ret_mark, err) < 0)
        return -1;
    if (*ret_mark == CHUNK_MARK_NEW)
        metric_add(METRIC_CHUNK_QUARANTINED, 1);
    return 0;
}
