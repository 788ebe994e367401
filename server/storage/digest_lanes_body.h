/*
 * The body of digest_lanes.c for one width, and nobody else's. Whoever includes it defines what
 * is undefined at the end, LANES_(vec), and the shuffles with which load() turns a square of words
 * round. Element l of a vector belongs to the message in lane l.
 */

/* RFC 7693 section 3.1. */
LANES_TARGET static inline __attribute__((always_inline)) void
LANES_(mix)(LANES_(vec) v[16], unsigned a, unsigned b, unsigned c, unsigned d, LANES_(vec) x,
            LANES_(vec) y)
{
    v[a] += v[b] + x;
    v[d] = LANES_ROTATE_32(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = LANES_ROTATE_24(v[b] ^ v[c]);
    v[a] += v[b] + y;
    v[d] = LANES_ROTATE_16(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = LANES_ROTATE_63(v[b] ^ v[c]);
}

/* Word i of all messages becomes vector i: square by square of LANES words. */
LANES_TARGET static inline __attribute__((always_inline)) void
LANES_(load)(LANES_(vec) words[16], const uint8_t *const blocks[LANES])
{
    for (unsigned first = 0; first < 16; first += LANES) {
        LANES_(vec) *rows = words + first;

        for (unsigned lane = 0; lane < LANES; lane++)
            memcpy(&rows[lane], blocks[lane] + (size_t)first * 8, sizeof(*rows));
        for (unsigned stage = 0, step = 1; step < LANES; stage++, step *= 2) {
            for (unsigned i = 0; i < LANES; i++) {
                LANES_(vec) low = rows[i];

                if (i & step)
                    continue;
                rows[i] = __builtin_shuffle(low, rows[i | step], LANES_(shuffles)[stage][0]);
                rows[i | step] = __builtin_shuffle(low, rows[i | step], LANES_(shuffles)[stage][1]);
            }
        }
    }
}

/* RFC 7693 section 3.2. */
LANES_TARGET static void
LANES_(compress)(LANES_(vec) state[8], const uint8_t *const blocks[LANES],
                 const LANES_(vec) * sizes, const LANES_(vec) * last)
{
    LANES_(vec) words[16];
    LANES_(vec) v[16];

    LANES_(load)(words, blocks);
    for (unsigned i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = (LANES_(vec)){0} + IV[i];
    }
    v[12] ^= *sizes;
    v[14] ^= *last;

    for (unsigned round = 0; round < 12; round++) {
        const uint8_t *s = SIGMA[round];

        LANES_(mix)(v, 0, 4, 8, 12, words[s[0]], words[s[1]]);
        LANES_(mix)(v, 1, 5, 9, 13, words[s[2]], words[s[3]]);
        LANES_(mix)(v, 2, 6, 10, 14, words[s[4]], words[s[5]]);
        LANES_(mix)(v, 3, 7, 11, 15, words[s[6]], words[s[7]]);
        LANES_(mix)(v, 0, 5, 10, 15, words[s[8]], words[s[9]]);
        LANES_(mix)(v, 1, 6, 11, 12, words[s[10]], words[s[11]]);
        LANES_(mix)(v, 2, 7, 8, 13, words[s[12]], words[s[13]]);
        LANES_(mix)(v, 3, 4, 9, 14, words[s[14]], words[s[15]]);
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

LANES_TARGET static void
LANES_(run)(struct queue *queue)
{
    struct lane lanes[LANES];
    LANES_(vec) state[8];
    LANES_(vec) sizes = {0};
    LANES_(vec) last = {0};
    size_t busy = 0;

    for (unsigned l = 0; l < LANES; l++)
        busy += lane_take(&lanes[l], queue);
    for (unsigned i = 0; i < 8; i++)
        state[i] = (LANES_(vec)){0} + FIRST_STATE[i];
    while (busy > 0) {
        const uint8_t *blocks[LANES];

        for (unsigned l = 0; l < LANES; l++) {
            blocks[l] = lane_next(&lanes[l]);
            sizes[l] = lanes[l].taken_bytes;
            last[l] = lanes[l].ends ? UINT64_MAX : 0;
        }
        LANES_(compress)(state, blocks, &sizes, &last);
        for (unsigned l = 0; l < LANES; l++) {
            if (!lanes[l].ends)
                continue;
            for (unsigned i = 0; i < DIGEST_BYTES / 8; i++)
                memcpy(lanes[l].digest->bytes + (size_t)i * 8, &(uint64_t){state[i][l]}, 8);
            for (unsigned i = 0; i < 8; i++)
                state[i][l] = FIRST_STATE[i];
            busy -= !lane_take(&lanes[l], queue);
        }
    }
}

#undef LANES
#undef LANES_
#undef LANES_TARGET
#undef LANES_ROTATE_32
#undef LANES_ROTATE_24
#undef LANES_ROTATE_16
#undef LANES_ROTATE_63
