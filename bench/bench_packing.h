/*
 * bench_packing: how fast chunks are packed and unpacked, and how small they become: of bytes made
 * for it, and of real files. Tables to standard output.
 */
#ifndef OXI_BENCH_BENCH_PACKING_H
#define OXI_BENCH_BENCH_PACKING_H

#include <stddef.h>
#include <stdint.h>

struct bench_packing {
    uint64_t reps;
    size_t image_bytes; /* of which the ratio is taken */
    size_t pack_bytes;  /* packed at once */
    size_t real_bytes;
    const char *real_folders;
};

void bench_packing_tables(const struct bench_packing *packing);

/* Processor time of the calling thread: what others take of the machine is not in it. */
int64_t bench_thread_cpu_ns(void);

#endif
