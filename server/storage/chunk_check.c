#include "storage/chunk_check.h"

#include "base/metrics.h"

static struct blob_key
key_of(const struct stored_chunk *chunk)
{
    return (struct blob_key){.id = chunk->id, .generation = chunk->generation};
}

static int
name_chunk(const struct stored_chunk *chunk, struct err *err)
{
    char hex[DIGEST_HEX_SIZE];

    digest_hex(hex, &chunk->id);
    return err_wrap(err, "chunk %s", hex);
}

/* A form that this program does not know is no damage. */
static int
check_form(const struct stored_chunk *chunk, struct err *err)
{
    if (chunk->codec != CHUNK_RAW)
        return err_set(err, ERR_INTERNAL, "unknown form %d", (int)chunk->codec);
    if (chunk->stored_bytes != chunk->size_bytes)
        return err_set(err, ERR_CORRUPT, "its row has two sizes");
    return 0;
}

/* One try: the bytes are read whole, because only the whole has a check. */
static int
read_once(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct blob_key key = key_of(chunk);

    if (blob_read(store->backend, &key, 0, dst, chunk->stored_bytes, err) < 0)
        return -1;
    if (digest_check(dst, chunk->stored_bytes) != chunk->check)
        return err_set(err, ERR_CORRUPT, "its bytes are not what was stored");
    return 0;
}

/* Bytes that fail the check may be a bad copy in memory: they are asked from the device again. */
int
chunk_check_read(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct blob_key key = key_of(chunk);

    if (check_form(chunk, err) < 0)
        return name_chunk(chunk, err);
    for (unsigned tries = 1;; tries++) {
        struct err failure = {0}; /* of this try: one that is made good is none */

        if (read_once(store, chunk, dst, &failure) == 0)
            return 0;
        if ((failure.code != ERR_CORRUPT && failure.code != ERR_IO) ||
            tries == CHUNK_READS_AT_MOST) {
            *err = failure;
            return name_chunk(chunk, err);
        }
        metric_add(METRIC_CHUNK_REREADS, 1);
        blob_forget(store->backend, &key);
    }
}

int
chunk_check_deep(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct blob_key key = key_of(chunk);
    struct digest id;

    blob_forget(store->backend, &key);
    if (chunk_check_read(store, chunk, dst, err) < 0)
        return -1;
    id = digest_of(dst, chunk->stored_bytes);
    if (digest_eq(&id, &chunk->id))
        return 0;
    (void)err_set(err, ERR_CORRUPT, "its bytes have another id");
    return name_chunk(chunk, err);
}

bool
chunk_check_is_bad(const struct err *err)
{
    return err->code == ERR_CORRUPT || err->code == ERR_IO || err->code == ERR_NOT_FOUND;
}

int
chunk_check_quarantine(struct store *store, const struct stored_chunk *chunk, const struct err *why,
                       bool *ret_bad, struct err *err)
{
    struct blob_key key = key_of(chunk);
    enum chunk_mark mark;

    if (why->code == ERR_IO && blob_health(store->backend, err) < 0) {
        err->code = ERR_UNAVAILABLE;
        return err_wrap(err, "the storage fails");
    }
    if (chunk_index_quarantine(store->index, &key, why->msg, &mark, err) < 0)
        return err_wrap(err, "quarantine");
    *ret_bad = mark != CHUNK_MARK_NONE;
    return 0;
}
