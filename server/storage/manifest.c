/*
 * The cache is a hash table of chains plus one list in the order of last use. Its hash is keyed:
 * clients choose contents, and with them content ids.
 */
#include "storage/manifest.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"

void
manifest_pack(uint8_t dst[MANIFEST_RECORD_BYTES], const struct digest *chunk_id,
              uint32_t size_bytes)
{
    memcpy(dst, chunk_id->bytes, DIGEST_BYTES);
    for (unsigned i = 0; i < 4; i++)
        dst[DIGEST_BYTES + i] = (uint8_t)(size_bytes >> (8 * i));
}

void
manifest_unpack(const uint8_t src[MANIFEST_RECORD_BYTES], struct digest *ret_chunk_id,
                uint32_t *ret_size_bytes)
{
    uint32_t size_bytes = 0;

    memcpy(ret_chunk_id->bytes, src, DIGEST_BYTES);
    for (unsigned i = 0; i < 4; i++)
        size_bytes |= (uint32_t)src[DIGEST_BYTES + i] << (8 * i);
    *ret_size_bytes = size_bytes;
}

static size_t
manifest_bytes(size_t chunk_count)
{
    size_t bytes;

    if (__builtin_mul_overflow(chunk_count, sizeof(struct manifest_entry), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct manifest), &bytes))
        return SIZE_MAX; /* more than mem_alloc() has */
    return bytes;
}

int
manifest_new(const struct stored_chunk *chunks, size_t chunk_count, struct manifest **ret_manifest,
             struct err *err)
{
    struct manifest *manifest = mem_alloc(manifest_bytes(chunk_count));
    AUTO_FREE uint8_t *packed = mem_array(chunk_count + 1, MANIFEST_RECORD_BYTES);
    uint64_t off = 0;

    for (size_t i = 0; i < chunk_count; i++) {
        const struct stored_chunk *chunk = &chunks[i];

        manifest->entries[i] = (struct manifest_entry){*chunk, off};
        manifest_pack(packed + i * MANIFEST_RECORD_BYTES, &chunk->id, chunk->size_bytes);
        if (chunk->size_bytes == 0 || __builtin_add_overflow(off, chunk->size_bytes, &off)) {
            free(manifest);
            return err_set(err, ERR_CORRUPT, "manifest: chunk %zu has an impossible size", i);
        }
    }
    manifest->ref_count = 1;
    manifest->content_id = digest_of(packed, chunk_count * MANIFEST_RECORD_BYTES);
    manifest->size_bytes = off;
    manifest->chunk_count = chunk_count;
    *ret_manifest = manifest;
    return 0;
}

struct manifest *
manifest_ref(struct manifest *manifest)
{
    __atomic_add_fetch(&manifest->ref_count, 1, __ATOMIC_RELAXED);
    return manifest;
}

void
manifest_unref(struct manifest *manifest)
{
    if (manifest == NULL)
        return;
    if (__atomic_sub_fetch(&manifest->ref_count, 1, __ATOMIC_ACQ_REL) == 0)
        free(manifest);
}

size_t
manifest_find(const struct manifest *manifest, uint64_t off)
{
    size_t low = 0, high = manifest->chunk_count;

    while (high - low > 1) { /* entries[low].off <= off < entries[high].off */
        size_t middle = low + (high - low) / 2;

        if (manifest->entries[middle].off <= off)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct cache_entry {
    struct cache_entry *chain;
    struct cache_entry *newer, *older;
    struct manifest *manifest;
    size_t bytes;
};

struct manifest_cache {
    pthread_mutex_t lock;
    size_t max_bytes;
    size_t used_bytes;
    uint64_t hash_key; /* odd */
    unsigned hash_shift;
    struct cache_entry **chains;
    struct cache_entry *newest, *oldest;
};

enum { CACHE_ENTRY_GUESS_BYTES = 1024, CACHE_LEAST_LOG2 = 6, CACHE_MOST_LOG2 = 18 };

struct manifest_cache *
manifest_cache_new(size_t max_bytes)
{
    struct manifest_cache *cache = mem_zalloc(sizeof(*cache));
    unsigned log2_chains = CACHE_LEAST_LOG2;

    while (log2_chains < CACHE_MOST_LOG2 &&
           ((size_t)1 << log2_chains) < max_bytes / CACHE_ENTRY_GUESS_BYTES)
        log2_chains++;
    pthread_mutex_init(&cache->lock, NULL);
    cache->max_bytes = max_bytes;
    cache->hash_key = rand_u64() | 1;
    cache->hash_shift = 64 - log2_chains;
    cache->chains = mem_array((size_t)1 << log2_chains, sizeof(struct cache_entry *));
    return cache;
}

/* The link that points to the entry, or the empty one at the end of its chain. */
static struct cache_entry **
find_link(struct manifest_cache *cache, const struct digest *content_id)
{
    uint64_t word;
    struct cache_entry **link;

    memcpy(&word, content_id->bytes, sizeof(word));
    link = &cache->chains[(word * cache->hash_key) >> cache->hash_shift];
    while (*link != NULL && !digest_eq(&(*link)->manifest->content_id, content_id))
        link = &(*link)->chain;
    return link;
}

static void
unlist(struct manifest_cache *cache, struct cache_entry *entry)
{
    if (entry->newer != NULL)
        entry->newer->older = entry->older;
    else
        cache->newest = entry->older;
    if (entry->older != NULL)
        entry->older->newer = entry->newer;
    else
        cache->oldest = entry->newer;
}

static void
list_as_newest(struct manifest_cache *cache, struct cache_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    if (cache->newest != NULL)
        cache->newest->newer = entry;
    else
        cache->oldest = entry;
    cache->newest = entry;
}

static void
drop_at(struct manifest_cache *cache, struct cache_entry **link)
{
    struct cache_entry *entry = *link;

    *link = entry->chain;
    unlist(cache, entry);
    cache->used_bytes -= entry->bytes;
    manifest_unref(entry->manifest);
    free(entry);
}

void
manifest_cache_free(struct manifest_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->oldest != NULL)
        drop_at(cache, find_link(cache, &cache->oldest->manifest->content_id));
    pthread_mutex_destroy(&cache->lock);
    free(cache->chains);
    free(cache);
}

struct manifest *
manifest_cache_get(struct manifest_cache *cache, const struct digest *content_id)
{
    LOCK_SCOPE(&cache->lock);
    struct cache_entry *entry = *find_link(cache, content_id);

    if (entry == NULL)
        return NULL;
    if (cache->newest != entry) {
        unlist(cache, entry);
        list_as_newest(cache, entry);
    }
    return manifest_ref(entry->manifest);
}

void
manifest_cache_put(struct manifest_cache *cache, struct manifest *manifest)
{
    size_t bytes = manifest_bytes(manifest->chunk_count) + sizeof(struct cache_entry);
    struct cache_entry **link, *entry;

    LOCK_SCOPE(&cache->lock);
    link = find_link(cache, &manifest->content_id);
    if (*link != NULL) /* the newer list knows better where the chunks lie */
        drop_at(cache, link);
    if (bytes > cache->max_bytes)
        return;
    while (cache->used_bytes > cache->max_bytes - bytes)
        drop_at(cache, find_link(cache, &cache->oldest->manifest->content_id));
    entry = mem_zalloc(sizeof(*entry));
    entry->manifest = manifest_ref(manifest);
    entry->bytes = bytes;
    link = find_link(cache, &manifest->content_id);
    *link = entry;
    list_as_newest(cache, entry);
    cache->used_bytes += bytes;
}

void
manifest_cache_drop(struct manifest_cache *cache, const struct digest *content_id)
{
    LOCK_SCOPE(&cache->lock);
    struct cache_entry **link = find_link(cache, content_id);

    if (*link != NULL)
        drop_at(cache, link);
}
