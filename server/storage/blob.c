#include "storage/blob.h"

#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"

static const char BLOB_SUFFIX[] = ".blob";

enum { GENERATION_BYTES = 8 };

static int
counted(int rc)
{
    if (rc < 0)
        metric_add(METRIC_BLOB_ERRORS, 1);
    return rc;
}

int
blob_put(struct blob_backend *be, const struct blob_key *key, const void *data, size_t len,
         struct err *err)
{
    int64_t start_us = clock_mono_us();

    if (counted(be->ops->put(be, key, data, len, err)) < 0)
        return -1;
    metric_observe_us(METRIC_BLOB_PUT_SECONDS, clock_mono_us() - start_us);
    metric_add(METRIC_BLOB_PUTS, 1);
    metric_add(METRIC_BLOB_PUT_BYTES, len);
    return 0;
}

uint64_t
blob_mark(struct blob_backend *be)
{
    return be->ops->mark != NULL ? be->ops->mark(be) : 0;
}

int
blob_sync(struct blob_backend *be, const struct blob_key *keys, size_t count, uint64_t mark,
          struct err *err)
{
    if (count == 0)
        return 0;
    if (counted(be->ops->sync(be, keys, count, mark, err)) < 0)
        return -1;
    metric_add(METRIC_BLOB_SYNCS, count);
    return 0;
}

static int
count_read(int rc, int64_t start_us, size_t len)
{
    if (counted(rc) < 0)
        return -1;
    metric_observe_us(METRIC_BLOB_READ_SECONDS, clock_mono_us() - start_us);
    metric_add(METRIC_BLOB_READS, 1);
    metric_add(METRIC_BLOB_READ_BYTES, len);
    return 0;
}

int
blob_read(struct blob_backend *be, const struct blob_key *key, uint64_t off, void *dst, size_t len,
          struct err *err)
{
    int64_t start_us = clock_mono_us();

    return count_read(be->ops->read(be, key, off, dst, len, err), start_us, len);
}

void
blob_forget(struct blob_backend *be, const struct blob_key *key)
{
    if (be->ops->forget != NULL)
        be->ops->forget(be, key);
}

int
blob_open(struct blob_backend *be, const struct blob_key *key, struct blob_handle **ret_handle,
          struct err *err)
{
    return counted(be->ops->open(be, key, ret_handle, err));
}

int
blob_read_at(struct blob_handle *handle, uint64_t off, void *dst, size_t len, struct err *err)
{
    int64_t start_us = clock_mono_us();

    return count_read(handle->backend->ops->read_at(handle, off, dst, len, err), start_us, len);
}

void
blob_forget_at(struct blob_handle *handle, uint64_t off, size_t len)
{
    if (handle->backend->ops->forget_at != NULL)
        handle->backend->ops->forget_at(handle, off, len);
}

void
blob_close(struct blob_handle *handle)
{
    if (handle != NULL)
        handle->backend->ops->close(handle);
}

int
blob_stat(struct blob_backend *be, const struct blob_key *key, uint64_t *ret_stored_bytes,
          struct err *err)
{
    return be->ops->stat(be, key, ret_stored_bytes, err);
}

int
blob_remove(struct blob_backend *be, const struct blob_key *key, struct err *err)
{
    if (counted(be->ops->remove(be, key, err)) < 0)
        return -1;
    metric_add(METRIC_BLOB_REMOVES, 1);
    return 0;
}

int
blob_list(struct blob_backend *be, uint8_t prefix, blob_list_fn fn, void *ctx, struct err *err)
{
    return be->ops->list(be, prefix, fn, ctx, err);
}

int
blob_health(struct blob_backend *be, struct err *err)
{
    return counted(be->ops->health(be, err));
}

int
blob_free_bytes(struct blob_backend *be, uint64_t *ret_bytes, struct err *err)
{
    if (be->ops->free_bytes == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s cannot tell its free space", be->ops->name);
    return be->ops->free_bytes(be, ret_bytes, err);
}

void
blob_free(struct blob_backend *be)
{
    if (be != NULL)
        be->ops->free(be);
}

void
blob_name(char dst[BLOB_NAME_SIZE], const struct blob_key *key)
{
    uint64_t big_endian = __builtin_bswap64(key->generation);

    digest_hex(dst, &key->id);
    dst[DIGEST_BYTES * 2] = '-';
    text_hex(dst + DIGEST_BYTES * 2 + 1, &big_endian, GENERATION_BYTES);
    memcpy(dst + DIGEST_BYTES * 2 + 1 + GENERATION_BYTES * 2, BLOB_SUFFIX, sizeof(BLOB_SUFFIX));
}

int
blob_parse_name(const char *name, struct blob_key *ret_key)
{
    const char *generation = name + DIGEST_BYTES * 2 + 1;
    char again[BLOB_NAME_SIZE];
    struct blob_key key;

    if (strlen(name) != BLOB_NAME_SIZE - 1)
        return -1;
    if (!digest_unhex(&key.id, name, (size_t)DIGEST_BYTES * 2))
        return -1;
    if (!text_unhex(&key.generation, GENERATION_BYTES,
                    (struct slice){generation, (size_t)GENERATION_BYTES * 2}))
        return -1;
    key.generation = __builtin_bswap64(key.generation);
    blob_name(again, &key); /* one key, one name: upper case, say, is not ours */
    if (strcmp(name, again) != 0)
        return -1;
    *ret_key = key;
    return 0;
}
