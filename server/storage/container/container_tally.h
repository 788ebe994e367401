/*
 * container_tally: what one read of a container came to, counted on the stack and published once,
 * whether it succeeded or not. Counters are exact. Durations are taken of one read in
 * CONTAINER_SAMPLE_INTERVAL of each thread; all others look at no clock. So the _count of those
 * two histograms is a number of samples, and rates must come from the counters.
 */
#ifndef OXI_STORAGE_CONTAINER_TALLY_H
#define OXI_STORAGE_CONTAINER_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/container/container_block.h"
#include "storage/container/container_thread.h"

enum { CONTAINER_SAMPLE_INTERVAL = 1024 };

struct container_tally {
    uint64_t output_bytes; /* plain, of a read that succeeded */
    uint64_t stored_bytes; /* asked for, retries included */
    uint64_t blocks;       /* the read covers; a retry adds none */
    uint64_t batches;      /* reads asked for, retries included */
    uint64_t retries[CONTAINER_FAULT_COUNT];
    bool is_timed;
    int64_t start_ns;
    int64_t decode_ns;
};

/* interval: CONTAINER_SAMPLE_INTERVAL, or 0: no read is timed. */
void container_tally_begin(struct container_tally *tally, struct container_thread *thread,
                           unsigned interval);
void container_tally_publish(const struct container_tally *tally, enum chunk_codec codec,
                             bool is_ok);

#endif
