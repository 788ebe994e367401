/*
 * BLAKE2b is a long chain of additions, xors and rotations of 64-bit words, so one message leaves
 * most of a processor idle. Here each vector holds the same word of several messages. A lane whose
 * message ends takes the next one; a lane for which there is none left goes along in vain.
 */
#include "storage/digest_lanes.h"

#include <string.h>

#if defined(__x86_64__) && !defined(__clang__) /* the shuffles are in the words of gcc */

enum { BLOCK_BYTES = 128 };

/* RFC 7693 sections 2.6 and 2.7. */
static const uint64_t IV[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

/* The IV and the parameter block: 32 bytes of digest, no key, one message (section 2.5). */
static const uint64_t FIRST_STATE[8] = {
    0x6a09e667f3bcc908 ^ 0x01010000 ^ DIGEST_BYTES,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
};

struct queue {
    const struct slice *messages;
    size_t count;
    size_t next;
    struct digest *digests;
};

struct lane {
    struct digest *digest; /* NULL: this lane has no message */
    const uint8_t *at;
    size_t left_bytes;
    uint64_t taken_bytes;
    bool ends;                 /* with the block that was taken last */
    uint8_t tail[BLOCK_BYTES]; /* the last block, filled up with zeroes */
};

/* False: there is no message left. */
static bool
lane_take(struct lane *lane, struct queue *queue)
{
    struct slice message = {0};

    lane->digest = NULL;
    if (queue->next < queue->count) {
        lane->digest = &queue->digests[queue->next];
        message = queue->messages[queue->next++];
    }
    lane->at = (const uint8_t *)message.data;
    lane->left_bytes = message.len;
    lane->taken_bytes = 0;
    lane->ends = false;
    return lane->digest != NULL;
}

static const uint8_t *
lane_next(struct lane *lane)
{
    const uint8_t *block = lane->at;

    if (lane->left_bytes > BLOCK_BYTES) {
        lane->at += BLOCK_BYTES;
        lane->left_bytes -= BLOCK_BYTES;
        lane->taken_bytes += BLOCK_BYTES;
        return block;
    }
    memset(lane->tail, 0, sizeof(lane->tail));
    if (lane->left_bytes > 0)
        memcpy(lane->tail, block, lane->left_bytes);
    lane->taken_bytes += lane->left_bytes;
    lane->left_bytes = 0;
    lane->ends = lane->digest != NULL;
    return lane->tail;
}

/* ---- 4 lanes: AVX2 ---- */

typedef uint64_t lanes_4_vec __attribute__((vector_size(32)));
typedef int64_t lanes_4_places __attribute__((vector_size(32)));
typedef uint8_t lanes_4_bytes __attribute__((vector_size(32)));

static const lanes_4_places lanes_4_shuffles[2][2] = {
    {{0, 4, 2, 6}, {1, 5, 3, 7}},
    {{0, 1, 4, 5}, {2, 3, 6, 7}},
};

/* AVX2 cannot rotate, but it can shuffle bytes within halves. */
#define LANES_4_TURN(x, n)                                                                         \
    ((lanes_4_vec)__builtin_shuffle((lanes_4_bytes)(x),                                            \
                                    (lanes_4_bytes){LANES_4_WORD(0, n), LANES_4_WORD(8, n),        \
                                                    LANES_4_WORD(16, n), LANES_4_WORD(24, n)}))
#define LANES_4_WORD(first, n)                                                                     \
    (first) + (0 + (n)) % 8, (first) + (1 + (n)) % 8, (first) + (2 + (n)) % 8,                     \
        (first) + (3 + (n)) % 8, (first) + (4 + (n)) % 8, (first) + (5 + (n)) % 8,                 \
        (first) + (6 + (n)) % 8, (first) + (7 + (n)) % 8

#define LANES 4
#define LANES_(name) lanes_4_##name
#define LANES_TARGET __attribute__((target("avx2")))
#define LANES_ROTATE_32(x) LANES_4_TURN(x, 4)
#define LANES_ROTATE_24(x) LANES_4_TURN(x, 3)
#define LANES_ROTATE_16(x) LANES_4_TURN(x, 2)
#define LANES_ROTATE_63(x) (((x) + (x)) | ((x) >> 63))
#include "storage/digest_lanes_body.h"

/* ---- 8 lanes: AVX-512 ---- */

#ifndef LANES_8_FEATURE
#define LANES_8_FEATURE "avx512f" /* a test runs the same code on less */
#endif

typedef uint64_t lanes_8_vec __attribute__((vector_size(64)));
typedef int64_t lanes_8_places __attribute__((vector_size(64)));

static const lanes_8_places lanes_8_shuffles[3][2] = {
    {{0, 8, 2, 10, 4, 12, 6, 14}, {1, 9, 3, 11, 5, 13, 7, 15}},
    {{0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}},
    {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}},
};

#define LANES 8
#define LANES_(name) lanes_8_##name
#define LANES_TARGET __attribute__((target(LANES_8_FEATURE)))
#define LANES_ROTATE_32(x) (((x) >> 32) | ((x) << 32))
#define LANES_ROTATE_24(x) (((x) >> 24) | ((x) << 40))
#define LANES_ROTATE_16(x) (((x) >> 16) | ((x) << 48))
#define LANES_ROTATE_63(x) (((x) >> 63) | ((x) << 1))
#include "storage/digest_lanes_body.h"

/* ---- which ---- */

size_t
digest_lanes_width(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return 8;
    return __builtin_cpu_supports("avx2") ? 4 : 1;
}

void
digest_lanes_run(size_t width, const struct slice *messages, size_t count,
                 struct digest *ret_digests)
{
    struct queue queue = {.messages = messages, .count = count, .digests = ret_digests};

    if (width == 8)
        lanes_8_run(&queue);
    else
        lanes_4_run(&queue);
}

#else

size_t
digest_lanes_width(void)
{
    return 1;
}

void
digest_lanes_run(size_t width, const struct slice *messages, size_t count,
                 struct digest *ret_digests)
{
    (void)width;
    for (size_t i = 0; i < count; i++)
        ret_digests[i] = digest_of(messages[i].data, messages[i].len);
}

#endif
