/*
 * bench_latency: how long many requests took, in bounded memory: counts of durations in steps of
 * 1/32 of an octave, so what is read out is at most 3 % too much. Used by one thread at a time.
 */
#ifndef OXI_BENCH_BENCH_LATENCY_H
#define OXI_BENCH_BENCH_LATENCY_H

#include <stdint.h>

enum { BENCH_LATENCY_STEPS = 32, BENCH_LATENCY_OCTAVES = 48 };

struct bench_latency {
    uint64_t counts[BENCH_LATENCY_OCTAVES * BENCH_LATENCY_STEPS];
    uint64_t count, sum_ns, most_ns;
};

void bench_latency_add(struct bench_latency *latency, uint64_t ns);
void bench_latency_merge(struct bench_latency *into, const struct bench_latency *from);
/* So many nanoseconds, or fewer, took this part (0 to 1) of the requests; 0 when there is none. */
uint64_t bench_latency_ns(const struct bench_latency *latency, double part);

#endif
