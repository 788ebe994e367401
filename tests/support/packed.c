#include "support/packed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "storage/container/container_pack.h"
#include "support/mem_store.h"

enum { PAGE = 4096, TILE = 64, MEET_DEADLINE_MS = 10000 };

static bool
is_noise(enum packed_data kind, size_t page)
{
    switch (kind) {
    case PACKED_RANDOM: return true;
    case PACKED_MIXED: return page % 2 == 1;
    case PACKED_ZERO_RANDOM: return page % 3 == 2;
    default: return false;
    }
}

uint8_t *
packed_data(enum packed_data kind, size_t len)
{
    uint8_t *data = mem_store_noise(UINT64_C(0x5EED5EED00000001), len);
    uint8_t tile[TILE];
    AUTO_FREE uint8_t *noise = mem_store_noise(UINT64_C(0x5EED5EED00000003), TILE);
    bool is_tiled = kind == PACKED_TILE || kind == PACKED_MIXED;

    memcpy(tile, noise, TILE);
    for (size_t off = 0; off < len; off++) {
        if (!is_noise(kind, off / PAGE))
            data[off] = is_tiled ? tile[off % TILE] : 0;
    }
    return data;
}

struct packed
packed_of(uint8_t *plain, size_t len, enum chunk_codec codec, unsigned block_log2)
{
    struct container_form form = {.codec = codec, .block_log2 = block_log2, .is_forced = true};
    struct packed packed = {
        .chunk = {.id = digest_of(plain, len),
                  .generation = 7,
                  .size_bytes = (uint32_t)len,
                  .codec = codec},
        .plain = plain,
        .stored = mem_alloc(container_pack_bound(len, block_log2)),
    };
    size_t stored = container_pack(&form, &packed.chunk.id, plain, len, packed.stored);

    assert_true(stored > 0 && stored <= container_pack_bound(len, block_log2));
    packed.stored = mem_realloc(packed.stored, stored); /* so that a read past it is noticed */
    packed.chunk.stored_bytes = (uint32_t)stored;
    packed.chunk.check = digest_check(packed.stored, stored);
    return packed;
}

void
packed_release(struct packed *packed)
{
    free(packed->plain);
    free(packed->stored);
    *packed = (struct packed){.plain = NULL};
}

void
packed_seal(struct packed *packed)
{
    uint32_t block_count;
    size_t checked;
    uint64_t check;

    memcpy(&block_count, packed->stored + 20, sizeof(block_count)); /* tests run on x86 and ARM */
    checked = 56 + (size_t)block_count * 8;
    check = digest_check(packed->stored, checked);
    memcpy(packed->stored + checked, &check, sizeof(check));
}

/* ---- the source ----------------------------------------------------------------------------- */

static void
count_call(struct packed_source *source, uint64_t off, size_t len)
{
    if (source->calls < PACKED_LOG_SIZE) {
        source->log[source->calls].off = off;
        source->log[source->calls].len = len;
    }
    source->calls++;
    source->asked_bytes += len;
    source->in_flight++;
    if (source->in_flight > source->in_flight_most)
        source->in_flight_most = source->in_flight;
}

/* Whoever comes last wakes the others. Without the lock nothing here would be proved: it is let go
 * while waiting. */
static void
meet(struct packed_source *source)
{
    struct timespec deadline = clock_deadline(MEET_DEADLINE_MS);

    if (source->in_flight >= source->meet_count)
        pthread_cond_broadcast(&source->met);
    while (source->in_flight_most < source->meet_count &&
           pthread_cond_timedwait(&source->met, &source->lock, &deadline) == 0)
        ;
}

static int
answer(struct packed_source *source, uint64_t off, uint8_t *dst, size_t len, struct err *err)
{
    if (source->fail_count > 0) {
        source->fail_count--;
        return err_set(err, source->fail_code, "the test says no");
    }
    if (off + len > source->packed->chunk.stored_bytes)
        return err_set(err, ERR_CORRUPT, "it ends before");
    memcpy(dst, source->packed->stored + off, len);
    if (source->bad_forgets > 0 && source->bad_off >= off && source->bad_off - off < len)
        dst[source->bad_off - off] ^= 0x10;
    return 0;
}

static int
source_read(struct stored_source *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    struct packed_source *source = (struct packed_source *)base;
    int rc;

    pthread_mutex_lock(&source->lock);
    count_call(source, off, len);
    meet(source);
    if (source->delay_us > 0) {
        struct timespec delay = {.tv_nsec = (long)source->delay_us * 1000};

        pthread_mutex_unlock(&source->lock);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
        pthread_mutex_lock(&source->lock);
    }
    rc = answer(source, off, dst, len, err);
    source->in_flight--;
    pthread_mutex_unlock(&source->lock);
    return rc;
}

static void
source_forget(struct stored_source *base, uint64_t off, size_t len)
{
    struct packed_source *source = (struct packed_source *)base;

    LOCK_SCOPE(&source->lock);
    source->forgets++;
    if (source->bad_forgets > 0 && source->bad_off >= off && source->bad_off - off < len)
        source->bad_forgets--;
}

static void
source_free(struct stored_source *base)
{
    struct packed_source *source = (struct packed_source *)base;

    pthread_cond_destroy(&source->met);
    pthread_mutex_destroy(&source->lock);
    free(source);
}

static const struct stored_source_ops SOURCE_OPS = {
    .read = source_read,
    .forget = source_forget,
    .free = source_free,
};

struct packed_source *
packed_source_new(const struct packed *packed)
{
    struct packed_source *source = mem_zalloc(sizeof(*source));

    source->base.ops = &SOURCE_OPS;
    source->packed = packed;
    pthread_mutex_init(&source->lock, NULL);
    clock_cond_init(&source->met);
    return source;
}
