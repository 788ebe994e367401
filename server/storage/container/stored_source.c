#include "storage/container/stored_source.h"

#include <stdlib.h>

#include "base/mem.h"

int
stored_source_read(struct stored_source *source, uint64_t off, void *dst, size_t len,
                   struct err *err)
{
    return source->ops->read(source, off, dst, len, err);
}

void
stored_source_forget(struct stored_source *source, uint64_t off, size_t len)
{
    if (source->ops->forget != NULL)
        source->ops->forget(source, off, len);
}

void
stored_source_free(struct stored_source *source)
{
    if (source != NULL)
        source->ops->free(source);
}

/* ---- a blob --------------------------------------------------------------------------------- */

struct blob_source {
    struct stored_source base;
    struct blob_backend *backend;
    struct blob_key key;
};

static int
blob_source_read(struct stored_source *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    struct blob_source *source = (struct blob_source *)base;

    return blob_read(source->backend, &source->key, off, dst, len, err);
}

/* A backend forgets a blob whole. */
static void
blob_source_forget(struct stored_source *base, uint64_t off, size_t len)
{
    struct blob_source *source = (struct blob_source *)base;

    (void)off;
    (void)len;
    blob_forget(source->backend, &source->key);
}

static void
blob_source_free(struct stored_source *base)
{
    free(base);
}

static const struct stored_source_ops BLOB_SOURCE_OPS = {
    .read = blob_source_read,
    .forget = blob_source_forget,
    .free = blob_source_free,
};

struct stored_source *
stored_source_of_blob(struct blob_backend *be, const struct blob_key *key)
{
    struct blob_source *source = mem_zalloc(sizeof(*source));

    source->base.ops = &BLOB_SOURCE_OPS;
    source->backend = be;
    source->key = *key;
    return &source->base;
}
