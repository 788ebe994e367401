/*
 * workers: a fixed crew of threads behind a bounded queue. Jobs run in the order they came. The
 * gauges METRIC_WORKERS_* count those of all crews; they are kept here.
 */
#ifndef OXI_BASE_WORKERS_H
#define OXI_BASE_WORKERS_H

#include <stddef.h>

#include "base/err.h"

struct workers;

typedef void (*workers_fn)(void *arg);

/* name: at most 15 bytes, shown by ps. ERR_UNAVAILABLE: no threads to be had. */
int workers_new(const char *name, unsigned thread_count, size_t queue_cap,
                struct workers **ret_workers, struct err *err);
/* Runs what is queued, then ends the threads. NULL is welcome. */
void workers_free(struct workers *workers);

/* ERR_BUSY: the queue is full. */
int workers_submit(struct workers *workers, workers_fn fn, void *arg, struct err *err);

/*
 * Calls fn(ctx, i) for every i < count, at most `width` at a time, and returns when all are done.
 * The calling thread does its share, so a job may call it without waiting for itself; when the
 * queue is full the caller does all of it.
 */
void workers_each(struct workers *workers, size_t count, unsigned width,
                  void (*fn)(void *ctx, size_t i), void *ctx);

/* Jobs waiting and jobs running now. */
void workers_load(struct workers *workers, size_t *ret_queued, size_t *ret_running);

#endif
