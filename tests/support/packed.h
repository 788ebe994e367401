/*
 * packed: bytes of known kinds, chunks packed from them, and a source of stored bytes in memory
 * that counts, waits, rots and fails when a test says so.
 */
#ifndef OXI_TESTS_PACKED_H
#define OXI_TESTS_PACKED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/container/stored_source.h"
#include "storage/manifest.h"

/* What pages of 4 KiB are made of. */
enum packed_data {
    PACKED_RANDOM,
    PACKED_TILE,  /* 64 random bytes over and over */
    PACKED_MIXED, /* a page of the one, a page of the other */
    PACKED_ZERO,
    PACKED_ZERO_RANDOM, /* one page in three is random */
    PACKED_DATA_COUNT,
};

uint8_t *packed_data(enum packed_data kind, size_t len); /* freed by the caller */

struct packed {
    struct stored_chunk chunk;
    uint8_t *plain;
    uint8_t *stored;
};

/* Packed even where it does not pay. The plain bytes belong to it from now on. */
struct packed packed_of(uint8_t *plain, size_t len, enum chunk_codec codec, unsigned block_log2);
void packed_release(struct packed *packed);
/* The stored bytes were changed on purpose: sets the check of the head right again. */
void packed_seal(struct packed *packed);

enum { PACKED_LOG_SIZE = 64 };

struct packed_source {
    struct stored_source base;
    const struct packed *packed; /* outlives it */
    pthread_mutex_t lock;        /* of what follows */
    pthread_cond_t met;
    unsigned calls;
    uint64_t asked_bytes;
    unsigned forgets;
    unsigned in_flight, in_flight_most;
    struct {
        uint64_t off;
        size_t len;
    } log[PACKED_LOG_SIZE]; /* of the first calls */

    /* Set before reading begins. */
    unsigned delay_us;    /* of each read */
    unsigned meet_count;  /* reads wait until so many are under way, at most 10 seconds */
    uint64_t bad_off;     /* this byte comes wrong ... */
    unsigned bad_forgets; /* ... until it has been forgotten so often; 0: it is right */
    unsigned fail_count;  /* the next so many reads fail */
    enum err_code fail_code;
};

struct packed_source *packed_source_new(const struct packed *packed);

#endif
