/*
 * MD5 is here for the sake of 256 numbers only; it protects nothing. The input is always one
 * block of 64 bytes, so the message is that block and one block of padding.
 */
#include "storage/gear.h"

#include <string.h>

enum { MD5_BLOCK_BYTES = 64, MD5_STEPS = 64 };

/* RFC 1321 section 3.4: floor(2^32 * abs(sin(i + 1))). */
static const uint32_t MD5_SINES[MD5_STEPS] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static const uint8_t MD5_TURNS[4][4] = {
    {7, 12, 17, 22},
    {5, 9, 14, 20},
    {4, 11, 16, 23},
    {6, 10, 15, 21},
};

static uint32_t
turn_left(uint32_t word, unsigned count)
{
    return (word << count) | (word >> (32 - count));
}

static uint32_t
read_le32(const uint8_t *src)
{
    return (uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 |
           (uint32_t)src[3] << 24;
}

/* The round function of step i, and which word of the block it takes. */
static uint32_t
mix(unsigned i, uint32_t b, uint32_t c, uint32_t d, unsigned *ret_word)
{
    switch (i / 16) {
    case 0: *ret_word = i; return (b & c) | (~b & d);
    case 1: *ret_word = (5 * i + 1) % 16; return (b & d) | (c & ~d);
    case 2: *ret_word = (3 * i + 5) % 16; return b ^ c ^ d;
    default: *ret_word = 7 * i % 16; return c ^ (b | ~d);
    }
}

static void
md5_block(uint32_t state[4], const uint8_t block[MD5_BLOCK_BYTES])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

    for (unsigned i = 0; i < MD5_STEPS; i++) {
        unsigned word;
        uint32_t sum = a + mix(i, b, c, d, &word) + MD5_SINES[i];

        sum += read_le32(block + (size_t)word * 4);
        a = d;
        d = c;
        c = b;
        b += turn_left(sum, MD5_TURNS[i / 16][i % 4]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static uint64_t
gear_entry(uint8_t value)
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t block[MD5_BLOCK_BYTES];

    memset(block, value, sizeof(block));
    md5_block(state, block);
    memset(block, 0, sizeof(block));
    block[0] = 0x80;
    block[57] = 2; /* 512 bits, little-endian, in the last 8 bytes */
    md5_block(state, block);
    /* The digest is the state in little-endian words; its first 8 bytes are read big-endian. */
    return (uint64_t)__builtin_bswap32(state[0]) << 32 | __builtin_bswap32(state[1]);
}

void
gear_fill(uint64_t table[GEAR_SIZE])
{
    for (unsigned i = 0; i < GEAR_SIZE; i++)
        table[i] = gear_entry((uint8_t)i);
}
