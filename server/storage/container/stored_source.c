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
    struct blob_handle *handle;
};

static struct blob_handle *
handle_of(struct stored_source *base)
{
    return ((struct blob_source *)base)->handle;
}

static int
blob_source_read(struct stored_source *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    return blob_read_at(handle_of(base), off, dst, len, err);
}

static void
blob_source_forget(struct stored_source *base, uint64_t off, size_t len)
{
    blob_forget_at(handle_of(base), off, len);
}

static void
blob_source_free(struct stored_source *base)
{
    blob_close(handle_of(base));
    free(base);
}

static const struct stored_source_ops BLOB_SOURCE_OPS = {
    .read = blob_source_read,
    .forget = blob_source_forget,
    .free = blob_source_free,
};

int
stored_source_of_blob(struct blob_backend *be, const struct blob_key *key,
                      struct stored_source **ret_source, struct err *err)
{
    struct blob_source *source;
    struct blob_handle *handle;

    if (blob_open(be, key, &handle, err) < 0)
        return -1;
    source = mem_alloc(sizeof(*source));
    *source = (struct blob_source){.base.ops = &BLOB_SOURCE_OPS, .handle = handle};
    *ret_source = &source->base;
    return 0;
}
