/*
 * bench_load: connections that are kept alive and send one request after another, each as soon as
 * the last was answered, and check every answer. One thread drives as many as it is given.
 */
#ifndef OXI_BENCH_BENCH_LOAD_H
#define OXI_BENCH_BENCH_LOAD_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/bench_data.h"
#include "bench/bench_latency.h"

enum { BENCH_LOAD_ERROR_SIZE = 320, BENCH_LOAD_BODY_MAX = 1 << 20 };

/* What to do; never changes while it is done. */
struct bench_load_plan {
    struct sockaddr_in address;
    const char *host, *method;
    const char *path;    /* as it is sent; # stands for the number of the file */
    const char *headers; /* lines with their ends */
    const char *body;    /* of every request, or NULL */
    const char *touch;   /* a file written anew before each request, or NULL */
    int status;          /* that is wanted */
    bool is_put;         /* sends the bytes of the file; otherwise they are what is wanted */
    bool is_compared;    /* looks at every byte; otherwise they are counted and thrown away */
    bool has_length;     /* whether `size` is what comes back, or none knows */
    uint64_t size;       /* of what is sent or comes: the file, or the range */
    uint64_t range_of;   /* of the file that ranges are taken of, at random; 0: whole files */
    uint64_t files;      /* request n is about file n modulo this; 0: n */
    struct bench_data data;
    const unsigned char *bodies; /* those of all files one behind the other, or NULL: made
                                  * when needed, BENCH_LOAD_BODY_MAX each at most */
    uint64_t count;              /* requests at most */
    int64_t stop_ns, limit_ns;   /* none begins after the first; the second breaks off */
};

/* What all threads share. */
struct bench_load_turn {
    _Atomic uint64_t next;
    _Atomic bool is_stopped;
};

struct bench_load_result {
    struct bench_latency latency;                            /* of what was answered as wanted */
    uint64_t errors, reconnects, bytes_sent, bytes_received; /* of bodies, touching left out */
    char first_error[BENCH_LOAD_ERROR_SIZE];
};

/* Opened beforehand, so that the time for it is not measured. */
struct bench_load;

struct bench_load *bench_load_new(const struct bench_load_plan *plan, struct bench_load_turn *turn,
                                  size_t connections, uint64_t first_number);
/* Until there is nothing left to do. In a thread of its own. */
void bench_load_run(struct bench_load *load);
const struct bench_load_result *bench_load_result(const struct bench_load *load);
void bench_load_free(struct bench_load *load);

#endif
