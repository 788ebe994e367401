#include "bench/bench_latency.h"

#include <stddef.h>

enum { STEP_BITS = 5, SLOTS = BENCH_LATENCY_OCTAVES * BENCH_LATENCY_STEPS };

_Static_assert(1 << STEP_BITS == BENCH_LATENCY_STEPS, "steps are bits below the highest");

/* Numbers below the count of steps have a slot each; of others the highest bits say the slot. */
static size_t
slot_of(uint64_t ns)
{
    size_t octave, slot;

    if (ns < BENCH_LATENCY_STEPS)
        return ns;
    octave = 63 - (size_t)__builtin_clzll(ns) - STEP_BITS;
    slot = (octave << STEP_BITS) + (size_t)(ns >> octave);
    return slot < SLOTS ? slot : SLOTS - 1;
}

/* The largest number of a slot. */
static uint64_t
most_of(size_t slot)
{
    size_t octave = slot >> STEP_BITS;

    if (octave <= 1)
        return slot;
    octave--;
    return (((slot - (octave << STEP_BITS)) + 1) << octave) - 1;
}

void
bench_latency_add(struct bench_latency *latency, uint64_t ns)
{
    latency->counts[slot_of(ns)]++;
    latency->count++;
    latency->sum_ns += ns;
    if (ns > latency->most_ns)
        latency->most_ns = ns;
}

void
bench_latency_merge(struct bench_latency *into, const struct bench_latency *from)
{
    for (size_t i = 0; i < SLOTS; i++)
        into->counts[i] += from->counts[i];
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    if (from->most_ns > into->most_ns)
        into->most_ns = from->most_ns;
}

uint64_t
bench_latency_ns(const struct bench_latency *latency, double part)
{
    double wanted = part * (double)latency->count;
    uint64_t seen = 0;

    for (size_t i = 0; i < SLOTS && latency->count > 0; i++) {
        seen += latency->counts[i];
        if ((double)seen >= wanted && seen > 0)
            return most_of(i) < latency->most_ns ? most_of(i) : latency->most_ns;
    }
    return latency->most_ns;
}
