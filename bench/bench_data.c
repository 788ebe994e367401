#include "bench/bench_data.h"

#include <string.h>

/* Bytes are made a block at a time, each from a state of its own. */
enum { BLOCK = 4096, WORDS = 2048, LETTERS = 26 };

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). */
static uint64_t
mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t
bench_data_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    return mixed(*state);
}

static void
fill_noise(uint64_t state, unsigned char block[BLOCK])
{
    for (size_t i = 0; i < BLOCK; i += sizeof(uint64_t)) {
        uint64_t word = bench_data_random(&state);

        memcpy(block + i, &word, sizeof(word));
    }
}

/* A word is a number in another form: 3 to 10 letters. Low numbers come more often. */
static void
fill_text(uint64_t state, unsigned char block[BLOCK])
{
    size_t at = 0;

    while (at < BLOCK) {
        uint64_t drawn = bench_data_random(&state);
        uint64_t number = (drawn % WORDS) * ((drawn >> 32) % WORDS) / WORDS;
        uint64_t letters = mixed(number + 1);
        size_t len = 3 + letters % 8;

        for (size_t i = 0; i < len && at < BLOCK; i++, letters >>= 5)
            block[at++] = (unsigned char)('a' + (letters & 31) % LETTERS);
        if (at < BLOCK)
            block[at++] = drawn >> 60 == 0 ? '\n' : ' ';
    }
}

static void
fill_block(const struct bench_data *data, uint64_t stream, uint64_t number,
           unsigned char block[BLOCK])
{
    uint64_t state = mixed(mixed(mixed(data->seed + 1) + stream) + number);

    if (data->is_text)
        fill_text(state, block);
    else
        fill_noise(state, block);
}

void
bench_data_fill(const struct bench_data *data, uint64_t stream, uint64_t off, void *dst, size_t len)
{
    unsigned char *out = dst, block[BLOCK];

    while (len > 0) {
        size_t from = off % BLOCK;
        size_t part = len < BLOCK - from ? len : BLOCK - from;

        fill_block(data, stream, off / BLOCK, block);
        memcpy(out, block + from, part);
        out += part;
        off += part;
        len -= part;
    }
}

bool
bench_data_is(const struct bench_data *data, uint64_t stream, uint64_t off, const void *src,
              size_t len)
{
    const unsigned char *in = src;
    unsigned char block[BLOCK];

    while (len > 0) {
        size_t from = off % BLOCK;
        size_t part = len < BLOCK - from ? len : BLOCK - from;

        fill_block(data, stream, off / BLOCK, block);
        if (memcmp(in, block + from, part) != 0)
            return false;
        in += part;
        off += part;
        len -= part;
    }
    return true;
}
