#include "storage/store.h"

#include "base/metrics.h"

int
store_manifest(struct store *store, const struct digest *content_id, struct manifest **ret_manifest,
               struct err *err)
{
    struct manifest *manifest = manifest_cache_get(store->manifests, content_id);

    if (manifest != NULL) {
        metric_add(METRIC_MANIFEST_CACHE_HITS, 1);
        *ret_manifest = manifest;
        return 0;
    }
    metric_add(METRIC_MANIFEST_CACHE_MISSES, 1);
    if (chunk_index_load_manifest(store->index, content_id, &manifest, err) < 0)
        return err_wrap(err, "load manifest");
    if (!digest_eq(&manifest->content_id, content_id)) {
        manifest_unref(manifest);
        return err_set(err, ERR_CORRUPT, "load manifest: the list does not give the content id");
    }
    manifest_cache_put(store->manifests, manifest);
    *ret_manifest = manifest;
    return 0;
}
