/*
 * Sets of eight places, chosen by the first bytes of the chunk id, which is as good as random. Each
 * set has a lock of its own and throws out what it has not seen for longest. A lock is held to look
 * and to count a reference, never while a head is read: two threads that miss the same handle both
 * read it, and the later one takes that of the earlier.
 */
#include "storage/container/container_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/container/container_tally.h"

enum { PLACES = 8, SETS_LEAST = 2 };

struct place {
    struct container *container; /* NULL: free */
    uint64_t seen;               /* of the set's clock */
};

struct set {
    pthread_mutex_t lock;
    uint64_t clock;
    struct place places[PLACES];
};

struct container_cache {
    size_t set_count; /* a power of two */
    struct set *sets;
};

struct container_cache *
container_cache_new(size_t most_count)
{
    struct container_cache *cache = mem_zalloc(sizeof(*cache));

    cache->set_count = SETS_LEAST;
    while (cache->set_count < (most_count + PLACES - 1) / PLACES)
        cache->set_count *= 2;
    cache->sets = mem_array(cache->set_count, sizeof(*cache->sets));
    for (size_t i = 0; i < cache->set_count; i++)
        pthread_mutex_init(&cache->sets[i].lock, NULL);
    metric_gauge_set(METRIC_CHUNK_READ_SAMPLE_INTERVAL, CONTAINER_SAMPLE_INTERVAL);
    return cache;
}

void
container_cache_free(struct container_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < cache->set_count; i++) {
        for (unsigned p = 0; p < PLACES; p++)
            container_unref(cache->sets[i].places[p].container);
        pthread_mutex_destroy(&cache->sets[i].lock);
    }
    free(cache->sets);
    free(cache);
}

static struct set *
set_of(struct container_cache *cache, const struct stored_chunk *chunk)
{
    uint64_t word;

    memcpy(&word, chunk->id.bytes, sizeof(word));
    return &cache->sets[word & (cache->set_count - 1)];
}

static bool
is_of(const struct container *container, const struct stored_chunk *chunk)
{
    const struct stored_chunk *own = container_chunk(container);

    return own->generation == chunk->generation && digest_eq(&own->id, &chunk->id);
}

/* With the set's lock held: the place of this chunk, or NULL. */
static struct place *
find(struct set *set, const struct stored_chunk *chunk)
{
    for (unsigned p = 0; p < PLACES; p++) {
        if (set->places[p].container != NULL && is_of(set->places[p].container, chunk))
            return &set->places[p];
    }
    return NULL;
}

/* With the set's lock held: a free place, or the one seen longest ago. */
static struct place *
oldest(struct set *set)
{
    struct place *found = &set->places[0];

    for (unsigned p = 0; p < PLACES && found->container != NULL; p++) {
        if (set->places[p].container == NULL || set->places[p].seen < found->seen)
            found = &set->places[p];
    }
    return found;
}

static struct container *
look_up(struct set *set, const struct stored_chunk *chunk)
{
    LOCK_SCOPE(&set->lock);
    struct place *place = find(set, chunk);

    if (place == NULL)
        return NULL;
    place->seen = ++set->clock;
    return container_ref(place->container);
}

/* Takes over the reference; one for the caller comes back, maybe of another's handle. */
static struct container *
keep(struct set *set, struct container *container)
{
    struct container *out = NULL;

    {
        LOCK_SCOPE(&set->lock);
        struct place *place = find(set, container_chunk(container));

        if (place == NULL) {
            place = oldest(set);
            out = place->container;
            place->container = container;
        } else {
            out = container;
        }
        place->seen = ++set->clock;
        container = container_ref(place->container);
    }
    container_unref(out); /* closes a file: not with the lock held */
    return container;
}

/* As heads and blocks, so also opening is tried again when the device fails. */
static int
open_source(struct blob_backend *be, const struct stored_chunk *chunk,
            struct stored_source **ret_source, struct err *err)
{
    struct blob_key key = {chunk->id, chunk->generation};

    for (unsigned retries = 0; stored_source_of_blob(be, &key, ret_source, err) < 0; retries++) {
        if (err->code != ERR_IO || retries == CONTAINER_RETRIES)
            return -1;
        metric_add(METRIC_CHUNK_REREADS, 1);
        *err = (struct err){0};
    }
    return 0;
}

int
container_cache_open(struct container_cache *cache, struct blob_backend *be,
                     const struct stored_chunk *chunk, struct container **ret_container,
                     struct err *err)
{
    struct stored_source *source;
    struct set *set = set_of(cache, chunk);
    struct container *container = look_up(set, chunk);

    if (container == NULL) {
        if (open_source(be, chunk, &source, err) < 0 ||
            container_open(source, chunk, &container_tuning_default, &container, err) < 0)
            return -1;
        container = keep(set, container);
    }
    *ret_container = container;
    return 0;
}

void
container_cache_drop(struct container_cache *cache, const struct blob_key *key)
{
    struct stored_chunk chunk = {.id = key->id, .generation = key->generation};
    struct set *set = set_of(cache, &chunk);
    struct container *out = NULL;

    {
        LOCK_SCOPE(&set->lock);
        struct place *place = find(set, &chunk);

        if (place != NULL)
            out = TAKE(place->container);
    }
    container_unref(out); /* closes a file: not with the lock held */
}

size_t
container_cache_count(struct container_cache *cache)
{
    size_t count = 0;

    for (size_t i = 0; i < cache->set_count; i++) {
        LOCK_SCOPE(&cache->sets[i].lock);
        for (unsigned p = 0; p < PLACES; p++)
            count += cache->sets[i].places[p].container != NULL;
    }
    return count;
}
