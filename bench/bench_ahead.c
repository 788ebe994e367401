#include "bench/bench_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/mem.h"
#include "storage/blob.h"

/* A ring: chunk i lies in slot i % slot_count from the moment it is wanted until it is read. */
struct slot {
    struct ahead *ahead;
    size_t chunk;
    bool is_open; /* or failed to; under the lock */
    int fd;
    int errnum;
};

struct ahead {
    const struct manifest *manifest;
    const int *prefix_fds;
    struct workers *workers;
    enum ahead_kind kind;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    size_t next_chunk; /* not wanted yet */
    size_t head_chunk; /* the next to be read */
    uint8_t *data;     /* of the chunk being handed out */
    size_t data_cap;
    size_t data_len;
    size_t data_off;
    bool is_serial;
    size_t slot_count;
    struct slot slots[];
};

struct ahead *
ahead_new(const struct manifest *manifest, const int *prefix_fds, struct workers *workers,
          enum ahead_kind kind, size_t count)
{
    size_t slot_count = count > 0 ? count : 1;
    struct ahead *ahead = mem_zalloc(sizeof(*ahead) + slot_count * sizeof(struct slot));

    ahead->manifest = manifest;
    ahead->prefix_fds = prefix_fds;
    ahead->workers = workers;
    ahead->kind = kind;
    ahead->is_serial = count == 0;
    ahead->slot_count = slot_count;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->opened, NULL);
    for (size_t i = 0; i < slot_count; i++)
        ahead->slots[i] = (struct slot){.ahead = ahead, .fd = -1};
    return ahead;
}

static struct slot *
slot_of(struct ahead *ahead, size_t chunk)
{
    return &ahead->slots[chunk % ahead->slot_count];
}

static void
open_slot(struct slot *slot)
{
    const struct stored_chunk *chunk = &slot->ahead->manifest->entries[slot->chunk].chunk;
    struct blob_key key = {chunk->id, chunk->generation};
    char name[BLOB_NAME_SIZE];

    blob_name(name, &key);
    slot->fd =
        openat(slot->ahead->prefix_fds[key.id.bytes[0]], name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    slot->errnum = errno;
    if (slot->fd >= 0 && slot->ahead->kind == AHEAD_WILLNEED)
        (void)posix_fadvise(slot->fd, 0, chunk->stored_bytes, POSIX_FADV_WILLNEED);
}

static void
open_job(void *arg)
{
    struct slot *slot = arg;
    struct ahead *ahead = slot->ahead;

    open_slot(slot);
    LOCK_SCOPE(&ahead->lock);
    slot->is_open = true;
    pthread_cond_signal(&ahead->opened);
}

/* The head's file is opened here when nothing is done ahead. */
static void
want_chunks(struct ahead *ahead)
{
    struct err ignored = {0};

    while (ahead->next_chunk < ahead->manifest->chunk_count &&
           ahead->next_chunk - ahead->head_chunk < ahead->slot_count) {
        struct slot *slot = slot_of(ahead, ahead->next_chunk);

        slot->chunk = ahead->next_chunk++;
        slot->is_open = false;
        if (ahead->is_serial || workers_submit(ahead->workers, open_job, slot, &ignored) < 0) {
            open_slot(slot);
            slot->is_open = true;
        }
    }
}

static struct slot *
wait_for_head(struct ahead *ahead)
{
    struct slot *slot = slot_of(ahead, ahead->head_chunk);

    LOCK_SCOPE(&ahead->lock);
    while (!slot->is_open)
        pthread_cond_wait(&ahead->opened, &ahead->lock);
    return slot;
}

static int
read_head(struct ahead *ahead, struct err *err)
{
    const struct stored_chunk *chunk = &ahead->manifest->entries[ahead->head_chunk].chunk;
    struct slot *slot = wait_for_head(ahead);
    AUTO_CLOSE int fd = TAKE_FD(slot->fd);

    if (fd < 0)
        return err_errno(err, slot->errnum, "open chunk %zu", slot->chunk);
    if (ahead->data_cap < chunk->stored_bytes) {
        free(ahead->data);
        ahead->data = mem_alloc(chunk->stored_bytes);
        ahead->data_cap = chunk->stored_bytes;
    }
    if (fs_pread_all(fd, ahead->data, chunk->stored_bytes, 0, err) < 0)
        return -1;
    if (digest_check(ahead->data, chunk->stored_bytes) != chunk->check)
        return err_set(err, ERR_CORRUPT, "chunk %zu is not what was stored", slot->chunk);
    ahead->data_len = chunk->stored_bytes;
    ahead->data_off = 0;
    ahead->head_chunk++;
    return 0;
}

int
ahead_read(struct ahead *ahead, void *dst, size_t cap, size_t *ret_len, struct err *err)
{
    size_t left;

    if (ahead->data_off == ahead->data_len) {
        *ret_len = 0;
        if (ahead->head_chunk == ahead->manifest->chunk_count)
            return 0;
        want_chunks(ahead);
        if (read_head(ahead, err) < 0)
            return -1;
        if (!ahead->is_serial)
            want_chunks(ahead);
    }
    left = ahead->data_len - ahead->data_off;
    *ret_len = left < cap ? left : cap;
    memcpy(dst, ahead->data + ahead->data_off, *ret_len);
    ahead->data_off += *ret_len;
    return 0;
}

void
ahead_free(struct ahead *ahead)
{
    while (ahead->head_chunk < ahead->next_chunk) {
        struct slot *slot = wait_for_head(ahead);

        if (slot->fd >= 0)
            (void)close(slot->fd);
        ahead->head_chunk++;
    }
    pthread_cond_destroy(&ahead->opened);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead->data);
    free(ahead);
}
