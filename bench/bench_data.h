/*
 * bench_data: the bytes that a load generator sends, and knows again when they come back. They
 * are a function of seed, stream and offset, so nothing has to be kept to compare with. A stream
 * is a file, a seed a run: other numbers give bytes that have nothing in common.
 */
#ifndef OXI_BENCH_BENCH_DATA_H
#define OXI_BENCH_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_data {
    uint64_t seed;
    bool is_text; /* words, which pack to about half with LZ4; otherwise noise */
};

void bench_data_fill(const struct bench_data *data, uint64_t stream, uint64_t off, void *dst,
                     size_t len);
/* Whether these are the bytes that stand there. */
bool bench_data_is(const struct bench_data *data, uint64_t stream, uint64_t off, const void *src,
                   size_t len);

/* The next number of a sequence that begins with any *state (splitmix64). */
uint64_t bench_data_random(uint64_t *state);

#endif
