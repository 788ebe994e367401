/*
 * bench_pages: bytes to pack: kinds of pages that are the same on each run, and real files.
 */
#ifndef OXI_BENCH_BENCH_PAGES_H
#define OXI_BENCH_BENCH_PAGES_H

#include <stddef.h>
#include <stdint.h>

enum bench_pages {
    BENCH_PAGES_RANDOM,
    BENCH_PAGES_TILE,  /* 64 random bytes over and over */
    BENCH_PAGES_MIXED, /* every other page random, the rest tiles */
    BENCH_PAGES_ZERO,
    BENCH_PAGES_ZERO_RANDOM, /* one page in three random, shuffled */
    BENCH_PAGES_IDLE, /* 60 % zero, 15 % program code, 15 % small structs, 10 % random; shuffled */
    BENCH_PAGES_COUNT,
};

/* SplitMix64. */
uint64_t bench_pages_draw(uint64_t *state);

/* Freed by the caller; len is a multiple of 4 KiB. */
uint8_t *bench_pages_new(enum bench_pages kind, size_t len);

/* Regular files below these folders (separated by commas) in the order of their names, behind each
 * other until there are `most` bytes or no more files, each cut into chunks as the store does. Both
 * results are freed by the caller. */
uint8_t *bench_pages_real(const char *folders, size_t most, size_t *ret_len,
                          size_t **ret_chunk_lens, size_t *ret_chunk_count);

#endif
