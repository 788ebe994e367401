/*
 * A ring of slots, one chunk each: the one being handed out and those read ahead.
 *
 *               wanted           a worker or the reader takes it        handed out
 *   SLOT_EMPTY --------> SLOT_QUEUED --------> SLOT_RUNNING --------> SLOT_READY --> SLOT_EMPTY
 *                                                             `-----> SLOT_FAILED, for ever
 *
 * A fetch is a job of the store's workers, but a job only says "fetch something": it takes the
 * queued slot that is needed first, or finds nothing to do. So whoever waits may take a queued
 * slot itself, and never waits for a place in a queue.
 *
 * Jobs outlive an abandoned reader: each holds a reference, the last one out frees the memory.
 */
#include "storage/content_reader.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "storage/chunk_check.h"

enum slot_state { SLOT_EMPTY, SLOT_QUEUED, SLOT_RUNNING, SLOT_READY, SLOT_FAILED };

struct slot {
    enum slot_state state;
    size_t chunk;  /* index in the manifest */
    uint64_t off;  /* in the content, of the first byte of data */
    uint8_t *data; /* kept from chunk to chunk */
    size_t cap;
    struct err err;
};

struct content_reader {
    struct store *store;
    struct digest content_id;
    size_t end_chunk; /* one past the last of the range */
    uint64_t start_off;
    uint64_t end_off;
    uint64_t off; /* of the next byte to hand out; used by the reader's thread only */

    pthread_mutex_t lock; /* for all that follows, but for the bytes of slots in use */
    pthread_cond_t changed;
    unsigned ref_count; /* the owner and jobs */
    struct manifest *manifest;
    size_t head_chunk;  /* being handed out */
    size_t next_chunk;  /* not wanted yet */
    unsigned job_count; /* submitted and not begun */
    void (*notify_fn)(void *arg);
    void *notify_arg;
    bool is_notifying;
    pthread_t notifier;
    size_t slot_count;
    struct slot slots[];
};

/* ---- one fetch ------------------------------------------------------------------------------ */

static void
grow_slot(struct slot *slot, size_t need)
{
    if (slot->cap >= need)
        return;
    free(slot->data);
    slot->data = mem_alloc(need);
    slot->cap = need;
}

/* What the range wants of a packed chunk; a raw one is read whole. */
static int
read_chunk(struct content_reader *reader, const struct manifest_entry *entry, struct slot *slot,
           struct err *err)
{
    const struct stored_chunk *chunk = &entry->chunk;
    uint64_t end = entry->off + chunk->size_bytes;

    slot->off = entry->off;
    if (chunk->codec != CHUNK_RAW) {
        slot->off = entry->off > reader->start_off ? entry->off : reader->start_off;
        end = end < reader->end_off ? end : reader->end_off;
    }
    grow_slot(slot, end - slot->off);
    return chunk_check_read_part(reader->store, chunk, (uint32_t)(slot->off - entry->off),
                                 slot->data, (uint32_t)(end - slot->off), err);
}

static struct manifest_entry
current_entry(struct content_reader *reader, size_t chunk)
{
    LOCK_SCOPE(&reader->lock);
    return reader->manifest->entries[chunk];
}

/* The content was collected under the reader, or the index lost a chunk: never "not found". */
static int
reload_trouble(struct err *err)
{
    if (err->code == ERR_NOT_FOUND)
        err->code = ERR_CORRUPT;
    return -1;
}

/* The blob of `stale` is bad or gone. Another fetch of this reader may have learned the new place. */
static int
reload_manifest(struct content_reader *reader, size_t chunk, const struct stored_chunk *stale,
                struct err *err)
{
    struct manifest *manifest, *old;

    if (current_entry(reader, chunk).chunk.generation != stale->generation)
        return 0;
    manifest_cache_drop(reader->store->manifests, &reader->content_id);
    if (store_manifest(reader->store, &reader->content_id, &manifest, err) < 0)
        return reload_trouble(err);
    pthread_mutex_lock(&reader->lock);
    old = reader->manifest;
    reader->manifest = manifest; /* the content id is the same, so all but the places is */
    pthread_mutex_unlock(&reader->lock);
    manifest_unref(old);
    return 0;
}

/* The next upload of the chunk heals it. What the client is told does not depend on that. */
static void
quarantine(struct content_reader *reader, const struct stored_chunk *chunk, const struct err *why)
{
    struct err err = {0};
    bool is_bad;

    if (chunk_check_quarantine(reader->store, chunk, why, &is_bad, &err) < 0)
        log_warn("a chunk that fails is not quarantined: why=\"%s\" error=\"%s\"", why->msg,
                 err.msg);
}

/* The chunk may have been written anew, under another generation, since the manifest was loaded. */
static int
fetch_anew(struct content_reader *reader, struct slot *slot, const struct stored_chunk *stale,
           struct err *err)
{
    struct manifest_entry entry;

    if (reload_manifest(reader, slot->chunk, stale, err) < 0)
        return -1;
    entry = current_entry(reader, slot->chunk);
    if (entry.chunk.generation != stale->generation) {
        *err = (struct err){0};
        if (read_chunk(reader, &entry, slot, err) == 0)
            return 0;
        if (!chunk_check_is_bad(err))
            return -1;
    }
    quarantine(reader, &entry.chunk, err);
    return reload_trouble(err);
}

static int
fetch(struct content_reader *reader, struct slot *slot, struct err *err)
{
    struct manifest_entry entry = current_entry(reader, slot->chunk);

    if (read_chunk(reader, &entry, slot, err) == 0)
        return 0;
    return chunk_check_is_bad(err) ? fetch_anew(reader, slot, &entry.chunk, err) : -1;
}

/* ---- who fetches ---------------------------------------------------------------------------- */

static struct slot *
slot_of(struct content_reader *reader, size_t chunk)
{
    return &reader->slots[chunk % reader->slot_count];
}

static bool
is_waiting(struct content_reader *reader) /* locked */
{
    enum slot_state state = slot_of(reader, reader->head_chunk)->state;

    return reader->head_chunk < reader->end_chunk && state != SLOT_READY && state != SLOT_FAILED;
}

/* The queued slot that is needed first, or NULL. Locked. */
static struct slot *
first_queued(struct content_reader *reader)
{
    for (size_t chunk = reader->head_chunk; chunk < reader->next_chunk; chunk++) {
        if (slot_of(reader, chunk)->state == SLOT_QUEUED)
            return slot_of(reader, chunk);
    }
    return NULL;
}

static bool
is_notified_elsewhere(struct content_reader *reader) /* locked */
{
    return reader->is_notifying && !pthread_equal(reader->notifier, pthread_self());
}

/*
 * Locked on both sides, but not while the function runs: it may poll, or wake who does, who may
 * ask for the next notice while this one is not quite over. One runs at a time, unless it is
 * asked for from within the other.
 */
static void
run_notify(struct content_reader *reader)
{
    void (*fn)(void *arg);
    void *arg;
    bool is_nested;

    while (is_notified_elsewhere(reader))
        pthread_cond_wait(&reader->changed, &reader->lock);
    if (reader->notify_fn == NULL || is_waiting(reader))
        return;
    fn = TAKE(reader->notify_fn);
    arg = reader->notify_arg;
    is_nested = reader->is_notifying;
    reader->is_notifying = true;
    reader->notifier = pthread_self();
    pthread_mutex_unlock(&reader->lock);
    fn(arg);
    pthread_mutex_lock(&reader->lock);
    reader->is_notifying = is_nested;
    pthread_cond_broadcast(&reader->changed);
}

/* Locked on both sides. The slot is QUEUED. */
static void
run_fetch(struct content_reader *reader, struct slot *slot)
{
    struct err err = {0};
    int rc;

    slot->state = SLOT_RUNNING;
    pthread_mutex_unlock(&reader->lock);
    rc = fetch(reader, slot, &err);
    if (rc < 0 && err.code == ERR_CORRUPT)
        metric_add(METRIC_CHUNK_CORRUPT, 1);
    pthread_mutex_lock(&reader->lock);
    slot->err = err;
    slot->state = rc < 0 ? SLOT_FAILED : SLOT_READY;
    pthread_cond_broadcast(&reader->changed);
    run_notify(reader);
}

static void
unref_and_unlock(struct content_reader *reader)
{
    bool is_last = --reader->ref_count == 0;

    pthread_mutex_unlock(&reader->lock);
    if (!is_last)
        return;
    for (size_t i = 0; i < reader->slot_count; i++)
        free(reader->slots[i].data);
    manifest_unref(reader->manifest);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

static void
fetch_job(void *arg)
{
    struct content_reader *reader = arg;
    struct slot *slot;

    pthread_mutex_lock(&reader->lock);
    reader->job_count--;
    slot = first_queued(reader);
    if (slot != NULL)
        run_fetch(reader, slot);
    unref_and_unlock(reader);
}

/* Wants the chunks that have a free slot, and says how many jobs are missing. Locked. */
static unsigned
want_chunks(struct content_reader *reader)
{
    unsigned queued_count = 0;

    while (reader->next_chunk < reader->end_chunk &&
           reader->next_chunk - reader->head_chunk < reader->slot_count) {
        struct slot *slot = slot_of(reader, reader->next_chunk);

        slot->chunk = reader->next_chunk++;
        slot->state = SLOT_QUEUED;
    }
    for (size_t i = 0; i < reader->slot_count; i++)
        queued_count += reader->slots[i].state == SLOT_QUEUED;
    return queued_count > reader->job_count ? queued_count - reader->job_count : 0;
}

/* What finds no place in the queue stays wanted: the next call tries again. */
static void
start_fetches(struct content_reader *reader)
{
    struct err ignored = {0};
    unsigned missing;

    pthread_mutex_lock(&reader->lock);
    missing = want_chunks(reader);
    reader->job_count += missing;
    reader->ref_count += missing;
    pthread_mutex_unlock(&reader->lock);
    while (missing > 0 && workers_submit(reader->store->workers, fetch_job, reader, &ignored) == 0)
        missing--;
    if (missing == 0)
        return;
    pthread_mutex_lock(&reader->lock);
    reader->job_count -= missing;
    reader->ref_count -= missing; /* never the last: the owner is here */
    pthread_mutex_unlock(&reader->lock);
}

/* ---- the reader's side ---------------------------------------------------------------------- */

static int
check_range(const struct manifest *manifest, struct byte_range range, struct err *err)
{
    if (range.off > manifest->size_bytes || range.len > manifest->size_bytes - range.off)
        return err_set(err, ERR_INVALID, "range ends past the end of the content");
    return 0;
}

/* Takes over the manifest. */
static struct content_reader *
new_reader(struct store *store, struct manifest *manifest, struct byte_range range)
{
    size_t first = 0, end = 0, slot_count;
    struct content_reader *reader;

    if (range.len > 0) {
        first = manifest_find(manifest, range.off);
        end = manifest_find(manifest, range.off + range.len - 1) + 1;
    }
    slot_count = end - first;
    if (slot_count > 1 + (size_t)store->backend->read_prefetch)
        slot_count = 1 + (size_t)store->backend->read_prefetch;
    if (slot_count == 0)
        slot_count = 1;
    reader = mem_zalloc(sizeof(*reader) + slot_count * sizeof(struct slot));
    reader->store = store;
    reader->content_id = manifest->content_id;
    reader->manifest = manifest;
    reader->start_off = reader->off = range.off;
    reader->end_off = range.off + range.len;
    reader->head_chunk = reader->next_chunk = first;
    reader->end_chunk = end;
    reader->slot_count = slot_count;
    reader->ref_count = 1;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->changed, NULL);
    metric_gauge_add(METRIC_DOWNLOADS_ACTIVE, 1);
    return reader;
}

int
content_reader_open(struct store *store, const struct digest *content_id, struct byte_range range,
                    struct content_reader **ret_reader, struct err *err)
{
    struct manifest *manifest;

    if (store_manifest(store, content_id, &manifest, err) < 0)
        return -1;
    if (check_range(manifest, range, err) < 0) {
        manifest_unref(manifest);
        return -1;
    }
    *ret_reader = new_reader(store, manifest, range);
    start_fetches(*ret_reader);
    return 0;
}

/* The chunk at the head when its bytes are there. False: see *ret_state and err. */
static bool
head_ready(struct content_reader *reader, const struct slot **ret_slot, uint64_t *ret_end,
           enum content_reader_state *ret_state, struct err *err)
{
    LOCK_SCOPE(&reader->lock);
    struct slot *slot = slot_of(reader, reader->head_chunk);
    const struct manifest_entry *entry;

    if (reader->head_chunk == reader->end_chunk) {
        *ret_state = CONTENT_READER_END;
        return false;
    }
    *ret_state = CONTENT_READER_WAIT;
    if (slot->state == SLOT_FAILED)
        *err = slot->err;
    if (slot->state != SLOT_READY)
        return false;
    entry = &reader->manifest->entries[reader->head_chunk];
    *ret_end = entry->off + entry->chunk.size_bytes;
    *ret_slot = slot;
    return true;
}

static void
drop_head(struct content_reader *reader)
{
    LOCK_SCOPE(&reader->lock);
    slot_of(reader, reader->head_chunk)->state = SLOT_EMPTY;
    reader->head_chunk++;
}

/* Copies from the chunk at the head, which ends at chunk_end, what is asked for and belongs to the
 * range. */
static size_t
take_bytes(struct content_reader *reader, const struct slot *slot, uint64_t chunk_end, void *dst,
           size_t cap)
{
    uint64_t end = chunk_end < reader->end_off ? chunk_end : reader->end_off;
    size_t len = end - reader->off < cap ? (size_t)(end - reader->off) : cap;

    memcpy(dst, slot->data + (reader->off - slot->off), len);
    reader->off += len;
    if (reader->off == end)
        drop_head(reader);
    return len;
}

int
content_reader_poll(struct content_reader *reader, void *dst, size_t cap,
                    enum content_reader_state *ret_state, size_t *ret_len, struct err *err)
{
    const struct slot *slot;
    uint64_t chunk_end;
    struct err head_err = {0};
    size_t len = 0;

    assert(cap > 0);
    while (len < cap && head_ready(reader, &slot, &chunk_end, ret_state, &head_err))
        len += take_bytes(reader, slot, chunk_end, (uint8_t *)dst + len, cap - len);
    *ret_len = len;
    if (len > 0) { /* a failure behind these bytes is told by the next call */
        *ret_state = CONTENT_READER_BYTES;
    } else if (head_err.code != ERR_NONE) {
        *err = head_err;
        return -1;
    }
    start_fetches(reader);
    return 0;
}

/* Takes the head's fetch over when no job has begun it. Locked on both sides. */
static void
fetch_head_here(struct content_reader *reader)
{
    struct slot *slot = slot_of(reader, reader->head_chunk);

    if (reader->head_chunk < reader->end_chunk && slot->state == SLOT_QUEUED)
        run_fetch(reader, slot);
}

void
content_reader_notify(struct content_reader *reader, void (*fn)(void *arg), void *arg)
{
    start_fetches(reader);
    pthread_mutex_lock(&reader->lock);
    reader->notify_fn = fn;
    reader->notify_arg = arg;
    reader->ref_count++; /* fn may lead to content_reader_free() */
    if (reader->job_count == 0)
        fetch_head_here(reader); /* no place in the queue: nobody else would */
    run_notify(reader);
    unref_and_unlock(reader);
}

int
content_reader_wait(struct content_reader *reader, struct err *err)
{
    const struct slot *slot;

    start_fetches(reader);
    LOCK_SCOPE(&reader->lock);
    fetch_head_here(reader);
    while (is_waiting(reader))
        pthread_cond_wait(&reader->changed, &reader->lock);
    slot = slot_of(reader, reader->head_chunk);
    if (reader->head_chunk == reader->end_chunk || slot->state != SLOT_FAILED)
        return 0;
    *err = slot->err;
    return -1;
}

int
content_reader_read(struct content_reader *reader, void *dst, size_t cap, size_t *ret_len,
                    struct err *err)
{
    enum content_reader_state state;

    for (;;) {
        if (content_reader_poll(reader, dst, cap, &state, ret_len, err) < 0)
            return -1;
        if (state != CONTENT_READER_WAIT)
            return 0;
        if (content_reader_wait(reader, err) < 0)
            return -1;
    }
}

void
content_reader_free(struct content_reader *reader)
{
    if (reader == NULL)
        return;
    metric_gauge_add(METRIC_DOWNLOADS_ACTIVE, -1);
    pthread_mutex_lock(&reader->lock);
    reader->notify_fn = NULL;
    for (size_t i = 0; i < reader->slot_count; i++) {
        if (reader->slots[i].state == SLOT_QUEUED)
            reader->slots[i].state = SLOT_EMPTY;
    }
    /* After this call the caller's argument may be gone, so a call of it must be over. */
    while (is_notified_elsewhere(reader))
        pthread_cond_wait(&reader->changed, &reader->lock);
    unref_and_unlock(reader);
}
