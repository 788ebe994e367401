#include "storage/chunk_check.h"

#include "base/metrics.h"
#include "storage/container/codec.h"
#include "storage/container/container_cache.h"
#include "storage/container/container_pack.h"

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

/* A form that this program does not know is no damage. The sizes decide how much memory is taken,
 * so no row may ask for more than a packed chunk can be. */
static int
check_form(const struct stored_chunk *chunk, struct err *err)
{
    if (chunk->codec != CHUNK_RAW && !codec_is_known(chunk->codec))
        return err_set(err, ERR_INTERNAL, "unknown form %d", (int)chunk->codec);
    if (chunk->codec == CHUNK_RAW && chunk->stored_bytes != chunk->size_bytes)
        return err_set(err, ERR_CORRUPT, "its row has two sizes");
    if (chunk->codec != CHUNK_RAW &&
        (chunk->size_bytes == 0 || chunk->size_bytes > CONTAINER_PLAIN_MOST ||
         chunk->stored_bytes > container_pack_bound(chunk->size_bytes, CONTAINER_BLOCK_LOG2_LEAST)))
        return err_set(err, ERR_CORRUPT, "its row has sizes that no packed chunk has");
    return 0;
}

/* The bytes are read whole, because only the whole has a check of 64 bits. */
static int
read_stored(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct blob_key key = key_of(chunk);

    if (blob_read(store->backend, &key, 0, dst, chunk->stored_bytes, err) < 0)
        return -1;
    if (digest_check(dst, chunk->stored_bytes) != chunk->check)
        return err_set(err, ERR_CORRUPT, "its bytes are not what was stored");
    return 0;
}

/* One try. */
static int
read_once(struct store *store, const struct stored_chunk *chunk, void *dst,
          struct container_tally *tally, struct err *err)
{
    uint8_t *stored;

    if (chunk->codec == CHUNK_RAW)
        return read_stored(store, chunk, dst, err);
    stored = container_thread_whole(container_thread_own(), chunk->stored_bytes);
    tally->batches++;
    tally->stored_bytes += chunk->stored_bytes;
    if (read_stored(store, chunk, stored, err) < 0)
        return -1;
    return container_unpack(chunk, stored, dst, tally, err);
}

/* Bytes that fail the check may be a bad copy in memory: they are asked from the device again. */
static int
read_tries(struct store *store, const struct stored_chunk *chunk, void *dst,
           struct container_tally *tally, struct err *err)
{
    struct blob_key key = key_of(chunk);

    for (unsigned tries = 1;; tries++) {
        struct err failure = {0}; /* of this try: one that is made good is none */

        if (read_once(store, chunk, dst, tally, &failure) == 0)
            return 0;
        if ((failure.code != ERR_CORRUPT && failure.code != ERR_IO) ||
            tries == CHUNK_READS_AT_MOST) {
            *err = failure;
            return name_chunk(chunk, err);
        }
        metric_add(METRIC_CHUNK_REREADS, 1);
        tally->retries[failure.code == ERR_IO ? CONTAINER_FAULT_READ : CONTAINER_FAULT_CHECK]++;
        blob_forget(store->backend, &key);
    }
}

int
chunk_check_read(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct container_tally tally;
    int rc;

    if (check_form(chunk, err) < 0)
        return name_chunk(chunk, err);
    container_tally_begin(&tally, container_thread_own(), CONTAINER_SAMPLE_INTERVAL);
    rc = read_tries(store, chunk, dst, &tally, err);
    if (chunk->codec != CHUNK_RAW)
        container_tally_publish(&tally, chunk->codec, rc == 0);
    return rc;
}

int
chunk_check_read_part(struct store *store, const struct stored_chunk *chunk, uint32_t off,
                      void *dst, uint32_t len, struct err *err)
{
    struct container *container;
    int rc;

    if (off == 0 && len == chunk->size_bytes)
        return chunk_check_read(store, chunk, dst, err);
    if (chunk->codec == CHUNK_RAW)
        return err_set(err, ERR_INVALID, "a raw chunk is read whole");
    if (check_form(chunk, err) < 0)
        return name_chunk(chunk, err);
    if (container_cache_open(store->containers, store->backend, chunk, &container, err) < 0)
        return -1;
    rc = container_read(container, off, dst, len, err);
    container_unref(container);
    return rc;
}

int
chunk_check_deep(struct store *store, const struct stored_chunk *chunk, void *dst, struct err *err)
{
    struct blob_key key = key_of(chunk);
    struct digest id;

    blob_forget(store->backend, &key);
    if (chunk_check_read(store, chunk, dst, err) < 0)
        return -1;
    id = digest_of(dst, chunk->size_bytes);
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
