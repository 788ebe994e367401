/*
 * The hash rolls two bytes a step: h = 4h + 2 G[b0], tested against twice the mask, is the hash
 * after b0 (doubled), and h + G[b1], tested against the mask, the one after b1. That gives the
 * cuts of the one-byte form because no mask uses the top bit. Pairs are aligned to the chunk's
 * start, so an odd last byte is never tested, and a hit on an even position returns the doubled
 * hash: both belong to the stored format.
 *
 * The byte that hits is the first of the next chunk. Nothing before the least size is hashed.
 */
#include "storage/chunker.h"

#include <assert.h>

#include "storage/gear.h"

const struct chunker_sizes chunker_store_sizes = {
    .least_bytes = 64 << 10,
    .average_bytes = 256 << 10,
    .most_bytes = 1 << 20,
    .level = 1,
};

enum { MASK_LEAST_BITS = 11, MASK_MOST_BITS = 21 };

/* By number of one-bits. Published constants that follow no formula; 0: none is known. */
static const uint64_t MASKS[MASK_MOST_BITS - MASK_LEAST_BITS + 1] = {
    0x0000D90003530000, /* 11 */
    0,
    0x0000D90303530000, /* 13 */
    0x0000D90313530000, /* 14 */
    0x0000D90F03530000, /* 15 */
    0x0000D90303537000, /* 16 */
    0x0000D90703537000, /* 17 */
    0x0000D90707537000, /* 18 */
    0x0000D91707537000, /* 19 */
    0x0000D91747537000, /* 20 */
    0x0000D91767537000, /* 21 */
};

/* Written once by chunker_start(). */
static uint64_t gear[GEAR_SIZE];
static uint64_t gear_doubled[GEAR_SIZE];

void
chunker_start(void)
{
    gear_fill(gear);
    for (unsigned i = 0; i < GEAR_SIZE; i++)
        gear_doubled[i] = gear[i] << 1;
}

static uint64_t
mask_of(unsigned bits)
{
    assert(bits >= MASK_LEAST_BITS && bits <= MASK_MOST_BITS);
    assert(MASKS[bits - MASK_LEAST_BITS] != 0);
    return MASKS[bits - MASK_LEAST_BITS];
}

void
chunker_init(struct chunker *chunker, const struct chunker_sizes *sizes)
{
    unsigned log2_average = (unsigned)__builtin_ctzll(sizes->average_bytes);

    assert(gear[0] != 0); /* chunker_start() */
    assert(sizes->average_bytes == (size_t)1 << log2_average);
    assert(sizes->least_bytes >= 64 && sizes->least_bytes <= sizes->average_bytes);
    assert(sizes->average_bytes <= sizes->most_bytes);
    *chunker = (struct chunker){
        .sizes = *sizes,
        .mask_before = mask_of(log2_average + sizes->level),
        .mask_after = mask_of(log2_average - sizes->level),
    };
}

static size_t
least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t
even(size_t n)
{
    return n & ~(size_t)1;
}

/* One pair at data[at]; leaves the function on a hit. */
#define SCAN_PAIR(at)                                                                              \
    do {                                                                                           \
        uint64_t first_ = (hash << 2) + gear_doubled[data[at]];                                    \
        if (__builtin_expect((first_ & mask_doubled) == 0, 0)) {                                   \
            *ret_hash = first_;                                                                    \
            return (at);                                                                           \
        }                                                                                          \
        hash = first_ + gear[data[(at) + 1]];                                                      \
        if (__builtin_expect((hash & mask) == 0, 0)) {                                             \
            *ret_hash = hash;                                                                      \
            return (at) + 1;                                                                       \
        }                                                                                          \
    } while (0)

/*
 * Looks for a cut in [off, end), both even. Returns its position, or end when there is none.
 * *ret_hash is the hash so far, before and after.
 */
static size_t
scan(const uint8_t *data, size_t off, size_t end, uint64_t mask, uint64_t *ret_hash)
{
    const uint64_t mask_doubled = mask << 1;
    uint64_t hash = *ret_hash;

    for (; end - off >= 8; off += 8) {
        SCAN_PAIR(off);
        SCAN_PAIR(off + 2);
        SCAN_PAIR(off + 4);
        SCAN_PAIR(off + 6);
    }
    for (; off < end; off += 2)
        SCAN_PAIR(off);
    *ret_hash = hash;
    return end;
}

/* The chunk ends here; the next one starts from nothing. */
static size_t
cut(struct chunker *chunker, size_t len, uint64_t *ret_hash)
{
    if (ret_hash != NULL)
        *ret_hash = chunker->hash;
    chunker->hash = 0;
    chunker->scanned = 0;
    return len;
}

/* Scans from where the last call ended up to end, which is even. True: a cut at ->scanned. */
static bool
find_cut(struct chunker *chunker, const uint8_t *data, size_t end)
{
    size_t centre = least_of(even(chunker->sizes.average_bytes), end);

    if (chunker->scanned < even(chunker->sizes.least_bytes))
        chunker->scanned = even(chunker->sizes.least_bytes);
    if (chunker->scanned < centre) {
        chunker->scanned =
            scan(data, chunker->scanned, centre, chunker->mask_before, &chunker->hash);
        if (chunker->scanned < centre)
            return true;
    }
    if (chunker->scanned < end) {
        chunker->scanned = scan(data, chunker->scanned, end, chunker->mask_after, &chunker->hash);
        return chunker->scanned < end;
    }
    return false;
}

size_t
chunker_cut(struct chunker *chunker, const uint8_t *data, size_t avail, bool last,
            uint64_t *ret_hash)
{
    size_t end = least_of(avail, chunker->sizes.most_bytes);

    if (avail > chunker->sizes.least_bytes && find_cut(chunker, data, even(end)))
        return cut(chunker, chunker->scanned, ret_hash);
    if (avail >= chunker->sizes.most_bytes)
        return cut(chunker, chunker->sizes.most_bytes, ret_hash);
    return last ? cut(chunker, avail, ret_hash) : 0;
}
