/*
 * The old content is the one that was there at the begin. The guard that the commit asks refuses
 * any other, so of two updates at the same time one fails, and nothing either of them wrote is
 * lost in silence.
 */
#include "service/update.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "storage/content_reader.h"

enum { BLOCK_BYTES = 256 * 1024 };

struct update {
    struct files *files;
    struct update_request request;
    struct node old;
    uint64_t off; /* of the part, from the begin of the file */
    struct files_claim claim;
    struct ingest *ingest;
};

/* In every transaction: the caller's conditions first, then that the file is the one we read. */
static int
check_unchanged(void *ctx, const struct node *node, struct err *err)
{
    const struct update *update = ctx;
    const struct files_guard *guard = &update->request.guard;

    if (guard->check && guard->check(guard->ctx, node, err) < 0)
        return -1;
    if (!node || node->id != update->old.id || node->content_seq != update->old.content_seq)
        return err_set(err, ERR_CONFLICT, "the file was changed meanwhile");
    return 0;
}

/* The caller's guard, with all that belongs to it, but asked by us. */
static struct files_guard
own_guard(struct update *update)
{
    struct files_guard guard = update->request.guard;

    guard.check = check_unchanged;
    guard.ctx = update;
    return guard;
}

static int
take(struct update *update, const void *data, size_t len, struct err *err)
{
    if (files_take(update->files, &update->claim, len, err) < 0)
        return -1;
    return ingest_push(update->ingest, data, len, err);
}

static int
copy_from(struct update *update, struct content_reader *reader, struct err *err)
{
    AUTO_FREE uint8_t *block = mem_alloc(BLOCK_BYTES);
    size_t len = 1;

    while (len > 0) {
        if (content_reader_read(reader, block, BLOCK_BYTES, &len, err) < 0 ||
            (len > 0 && take(update, block, len, err) < 0))
            return -1;
    }
    return 0;
}

/* What stands in the old content, from off on to end. */
static int
copy_old(struct update *update, uint64_t off, uint64_t end, struct err *err)
{
    struct byte_range range = {.off = off, .len = end - off};
    struct content_reader *reader;
    int rc;

    if (off >= end)
        return 0;
    if (content_reader_open(update->files->store, &update->old.content_id, range, &reader, err) <
        0) {
        if (err->code == ERR_NOT_FOUND) /* replaced, and collected since */
            return err_set(err, ERR_CONFLICT, "the file was changed meanwhile");
        return err_wrap(err, "open content");
    }
    rc = copy_from(update, reader, err);
    content_reader_free(reader);
    return rc;
}

/* Where the part begins and ends. */
static int
place_part(struct update *update, uint64_t *ret_end, struct err *err)
{
    const struct update_request *request = &update->request;
    uint64_t size_bytes = update->old.size_bytes;

    if (request->off > size_bytes)
        return err_set(err, ERR_RANGE, "the file has only %llu bytes",
                       (unsigned long long)size_bytes);
    update->off = request->place == UPDATE_AT ? request->off : size_bytes - request->off;
    if (__builtin_add_overflow(update->off, request->size_bytes, ret_end))
        return err_set(err, ERR_TOO_LARGE, "no file can be so large");
    return 0;
}

static int
look(struct update *update, struct err *err)
{
    const struct update_request *request = &update->request;

    if (files_stat(update->files, request->principal, request->path, &update->old, err) < 0)
        return -1;
    if (update->old.kind == NODE_FOLDER)
        return err_set(err, ERR_EXISTS, "there is a folder of that name");
    return 0;
}

static int
start(struct update *update, struct err *err)
{
    const struct update_request *request = &update->request;
    struct files_guard guard = own_guard(update);
    uint64_t size_bytes, end = 0;

    if (look(update, err) < 0 || place_part(update, &end, err) < 0)
        return -1;
    size_bytes = end > update->old.size_bytes ? end : update->old.size_bytes;
    if (files_may_write(update->files, request->principal, request->path, size_bytes, &guard,
                        &update->claim, err) < 0)
        return -1;
    update->ingest = ingest_new(update->files->store, size_bytes);
    if (!update->ingest)
        return err_set(err, ERR_BUSY, "too many uploads at this moment");
    return copy_old(update, 0, update->off, err);
}

int
update_begin(struct files *files, const struct update_request *request, struct update **ret_update,
             struct err *err)
{
    struct update *update = mem_zalloc(sizeof(*update));

    update->files = files;
    update->request = *request;
    if (start(update, err) < 0) {
        update_free(update);
        return -1;
    }
    *ret_update = update;
    return 0;
}

int
update_take(struct update *update, const void *data, size_t len, struct err *err)
{
    return take(update, data, len, err);
}

int
update_finish(struct update *update, struct node *ret_node, struct err *err)
{
    const struct update_request *request = &update->request;
    struct files_write write = {.path = request->path,
                                .mtime_us = request->mtime_us,
                                .mime = update->old.mime,
                                .guard = own_guard(update),
                                .claim = &update->claim};
    uint64_t end = update->off + request->size_bytes;
    bool created;

    if (copy_old(update, end, update->old.size_bytes, err) < 0 ||
        ingest_finish(update->ingest, &write.content, err) < 0)
        return -1;
    return files_write(update->files, request->principal, &write, update->ingest, ret_node,
                       &created, err);
}

void
update_free(struct update *update)
{
    if (!update)
        return;
    ingest_free(update->ingest);
    files_release(update->files, &update->claim);
    free(update);
}
