#include "support/mem_backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"

struct mem_blob {
    struct blob_key key;
    uint8_t *data;
    size_t len;
    int64_t changed_at_us;
    bool synced;
    bool cached_flip;
};

struct mem_fault {
    unsigned calls;
    unsigned first, last; /* calls that fail; 0: none */
    enum err_code code;
};

struct mem_backend {
    struct blob_backend base;
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    bool hold_reads;
    struct mem_blob *blobs;
    size_t count, cap;
    struct mem_fault faults[MEM_CALL_COUNT];
    uint64_t free_bytes;
    enum err_code free_code; /* of the failure; ERR_NONE: it can say */
};

static struct mem_backend *
mem_of(struct blob_backend *be)
{
    return (struct mem_backend *)be;
}

static struct mem_blob *
find(struct mem_backend *mem, const struct blob_key *key)
{
    for (size_t i = 0; i < mem->count; i++) {
        struct mem_blob *blob = &mem->blobs[i];

        if (blob->key.generation == key->generation && digest_eq(&blob->key.id, &key->id))
            return blob;
    }
    return NULL;
}

static int
fault(struct mem_backend *mem, enum mem_call call, struct err *err)
{
    struct mem_fault *fault = &mem->faults[call];

    fault->calls++;
    if (fault->calls >= fault->first && fault->calls <= fault->last)
        return err_set(err, fault->code, "call %u fails as ordered", fault->calls);
    return 0;
}

static int
mem_put(struct blob_backend *be, const struct blob_key *key, const void *data, size_t len,
        struct err *err)
{
    struct mem_backend *mem = mem_of(be);
    struct mem_blob *blob;

    LOCK_SCOPE(&mem->lock);
    if (fault(mem, MEM_PUT, err) < 0)
        return -1;
    if (find(mem, key) != NULL)
        return err_set(err, ERR_EXISTS, "put: it exists");
    mem->blobs = mem_grow(mem->blobs, &mem->cap, mem->count + 1, sizeof(*mem->blobs));
    blob = &mem->blobs[mem->count++];
    *blob = (struct mem_blob){.key = *key, .len = len, .changed_at_us = clock_now_us()};
    blob->data = mem_alloc(len + 1);
    memcpy(blob->data, data, len);
    return 0;
}

static int
mem_sync(struct blob_backend *be, const struct blob_key *keys, size_t count, uint64_t mark,
         struct err *err)
{
    struct mem_backend *mem = mem_of(be);

    (void)mark;
    LOCK_SCOPE(&mem->lock);
    if (fault(mem, MEM_SYNC, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct mem_blob *blob = find(mem, &keys[i]);

        if (blob == NULL)
            return err_set(err, ERR_BUSY, "sync: it was swept");
        blob->synced = true;
        blob->changed_at_us = clock_now_us();
    }
    return 0;
}

static int
mem_read(struct blob_backend *be, const struct blob_key *key, uint64_t off, void *dst, size_t len,
         struct err *err)
{
    struct mem_backend *mem = mem_of(be);
    struct mem_blob *blob;

    LOCK_SCOPE(&mem->lock);
    while (mem->hold_reads)
        pthread_cond_wait(&mem->let_go, &mem->lock);
    if (fault(mem, MEM_READ, err) < 0)
        return -1;
    blob = find(mem, key);
    if (blob == NULL)
        return err_set(err, ERR_NOT_FOUND, "read: there is none");
    if (off > blob->len || len > blob->len - off)
        return err_set(err, ERR_CORRUPT, "read: it ends before");
    memcpy(dst, blob->data + off, len);
    if (blob->cached_flip && len > 0)
        *(uint8_t *)dst ^= 1;
    return 0;
}

static void
mem_forget(struct blob_backend *be, const struct blob_key *key)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    struct mem_blob *blob = find(mem, key);

    if (blob != NULL)
        blob->cached_flip = false;
}

/* A blob that is removed is gone from its handles, too; that is harder on readers than a file. */
struct mem_handle {
    struct blob_handle base;
    struct blob_key key;
};

static int
mem_open(struct blob_backend *be, const struct blob_key *key, struct blob_handle **ret_handle,
         struct err *err)
{
    struct mem_handle *handle;
    uint64_t stored_bytes;

    if (be->ops->stat(be, key, &stored_bytes, err) < 0)
        return -1;
    handle = mem_alloc(sizeof(*handle));
    *handle = (struct mem_handle){{be}, *key};
    *ret_handle = &handle->base;
    return 0;
}

static int
mem_read_at(struct blob_handle *handle, uint64_t off, void *dst, size_t len, struct err *err)
{
    return mem_read(handle->backend, &((struct mem_handle *)handle)->key, off, dst, len, err);
}

static void
mem_forget_at(struct blob_handle *handle, uint64_t off, size_t len)
{
    (void)off;
    (void)len;
    mem_forget(handle->backend, &((struct mem_handle *)handle)->key);
}

static void
mem_close(struct blob_handle *handle)
{
    free(handle);
}

static int
mem_stat(struct blob_backend *be, const struct blob_key *key, uint64_t *ret_stored_bytes,
         struct err *err)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    struct mem_blob *blob = find(mem, key);

    if (blob == NULL)
        return err_set(err, ERR_NOT_FOUND, "stat: there is none");
    *ret_stored_bytes = blob->len;
    return 0;
}

static void
drop(struct mem_backend *mem, struct mem_blob *blob)
{
    free(blob->data);
    *blob = mem->blobs[--mem->count];
}

static int
mem_remove(struct blob_backend *be, const struct blob_key *key, struct err *err)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    struct mem_blob *blob = find(mem, key);

    if (fault(mem, MEM_REMOVE, err) < 0)
        return -1;
    if (blob != NULL)
        drop(mem, blob);
    return 0;
}

/* A copy is listed, because the function called may remove. */
static int
mem_list(struct blob_backend *be, uint8_t prefix, blob_list_fn fn, void *ctx, struct err *err)
{
    struct mem_backend *mem = mem_of(be);
    AUTO_FREE struct mem_blob *blobs = NULL;
    size_t count;

    pthread_mutex_lock(&mem->lock);
    int rc = fault(mem, MEM_LIST, err);
    count = mem->count;
    blobs = mem_array(count + 1, sizeof(*blobs));
    if (count > 0)
        memcpy(blobs, mem->blobs, count * sizeof(*blobs));
    pthread_mutex_unlock(&mem->lock);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (blobs[i].key.id.bytes[0] == prefix)
            rc = fn(ctx, &blobs[i].key, blobs[i].len, blobs[i].changed_at_us, err);
    }
    return rc;
}

static int
mem_health(struct blob_backend *be, struct err *err)
{
    (void)be;
    (void)err;
    return 0;
}

static int
mem_free_bytes(struct blob_backend *be, uint64_t *ret_bytes, struct err *err)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    if (mem->free_code != ERR_NONE)
        return err_set(err, mem->free_code, "free space: as ordered");
    *ret_bytes = mem->free_bytes;
    return 0;
}

static void
mem_free(struct blob_backend *be)
{
    struct mem_backend *mem = mem_of(be);

    while (mem->count > 0)
        drop(mem, &mem->blobs[0]);
    pthread_cond_destroy(&mem->let_go);
    pthread_mutex_destroy(&mem->lock);
    free(mem->blobs);
    free(mem);
}

static const struct blob_ops MEM_OPS = {
    .name = "memory",
    .put = mem_put,
    .sync = mem_sync,
    .read = mem_read,
    .forget = mem_forget,
    .open = mem_open,
    .read_at = mem_read_at,
    .forget_at = mem_forget_at,
    .close = mem_close,
    .stat = mem_stat,
    .remove = mem_remove,
    .list = mem_list,
    .health = mem_health,
    .free_bytes = mem_free_bytes,
    .free = mem_free,
};

struct blob_backend *
mem_backend_new(unsigned read_prefetch)
{
    struct mem_backend *mem = mem_zalloc(sizeof(*mem));

    mem->base.ops = &MEM_OPS;
    mem->base.read_prefetch = read_prefetch;
    mem->free_code = ERR_NOT_FOUND;
    pthread_mutex_init(&mem->lock, NULL);
    pthread_cond_init(&mem->let_go, NULL);
    return &mem->base;
}

void
mem_backend_fail(struct blob_backend *be, enum mem_call call, unsigned nth, unsigned count,
                 enum err_code code)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    mem->faults[call] = (struct mem_fault){
        .first = nth,
        .last = count == 0 ? 0 : nth + count - 1,
        .code = code,
    };
}

unsigned
mem_backend_calls(struct blob_backend *be, enum mem_call call)
{
    LOCK_SCOPE(&mem_of(be)->lock);
    return mem_of(be)->faults[call].calls;
}

size_t
mem_backend_count(struct blob_backend *be)
{
    LOCK_SCOPE(&mem_of(be)->lock);
    return mem_of(be)->count;
}

uint64_t
mem_backend_bytes(struct blob_backend *be)
{
    struct mem_backend *mem = mem_of(be);
    uint64_t bytes = 0;

    LOCK_SCOPE(&mem->lock);
    for (size_t i = 0; i < mem->count; i++)
        bytes += mem->blobs[i].len;
    return bytes;
}

size_t
mem_backend_unsynced_count(struct blob_backend *be)
{
    struct mem_backend *mem = mem_of(be);
    size_t count = 0;

    LOCK_SCOPE(&mem->lock);
    for (size_t i = 0; i < mem->count; i++)
        count += !mem->blobs[i].synced;
    return count;
}

void
mem_backend_lose_unsynced(struct blob_backend *be)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    for (size_t i = mem->count; i-- > 0;) {
        if (!mem->blobs[i].synced)
            drop(mem, &mem->blobs[i]);
    }
}

void
mem_backend_age(struct blob_backend *be, int64_t secs)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    for (size_t i = 0; i < mem->count; i++)
        mem->blobs[i].changed_at_us -= secs * 1000000;
}

void
mem_backend_set_free(struct blob_backend *be, uint64_t bytes, enum err_code code)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    mem->free_bytes = bytes;
    mem->free_code = code;
}

enum damage { DAMAGE_FLIP, DAMAGE_CACHED_FLIP, DAMAGE_TRUNCATE, DAMAGE_LOSE, DAMAGE_MOVE };

static void
damage(struct blob_backend *be, const struct digest *id, enum damage kind, uint64_t generation)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    for (size_t i = mem->count; i-- > 0;) {
        struct mem_blob *blob = &mem->blobs[i];

        if (!digest_eq(&blob->key.id, id))
            continue;
        if (kind == DAMAGE_FLIP)
            blob->data[blob->len / 2] ^= 0x10;
        if (kind == DAMAGE_CACHED_FLIP)
            blob->cached_flip = true;
        if (kind == DAMAGE_TRUNCATE)
            blob->len--;
        if (kind == DAMAGE_MOVE)
            blob->key.generation = generation;
        if (kind == DAMAGE_LOSE)
            drop(mem, blob);
    }
}

void
mem_backend_flip(struct blob_backend *be, const struct digest *id)
{
    damage(be, id, DAMAGE_FLIP, 0);
}

void
mem_backend_flip_cached(struct blob_backend *be, const struct digest *id)
{
    damage(be, id, DAMAGE_CACHED_FLIP, 0);
}

void
mem_backend_truncate(struct blob_backend *be, const struct digest *id)
{
    damage(be, id, DAMAGE_TRUNCATE, 0);
}

void
mem_backend_lose(struct blob_backend *be, const struct digest *id)
{
    damage(be, id, DAMAGE_LOSE, 0);
}

void
mem_backend_move(struct blob_backend *be, const struct digest *id, uint64_t generation)
{
    damage(be, id, DAMAGE_MOVE, generation);
}

void
mem_backend_hold_reads(struct blob_backend *be, bool hold)
{
    struct mem_backend *mem = mem_of(be);

    LOCK_SCOPE(&mem->lock);
    mem->hold_reads = hold;
    pthread_cond_broadcast(&mem->let_go);
}
