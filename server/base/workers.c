/*
 * workers: a ring of jobs under one lock. workers_each() puts helpers into the ring that draw
 * numbers from a counter it shares with them. Once the numbers are gone the caller takes back
 * the helpers that never started and waits for the others, which are running and thus end. So it
 * waits for running jobs only, never for a place in the queue, and cannot wait for itself; and
 * nobody holds its stack any more when it returns.
 */
#include "base/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/metrics.h"

enum { NAME_SIZE = 16 };

struct job {
    workers_fn fn;
    void *arg;
};

struct workers {
    char name[NAME_SIZE];
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a job came, or the end */
    struct job *ring;
    size_t ring_cap;
    size_t head;
    size_t queued;
    size_t running;
    bool stopping;
    pthread_t *threads;
    unsigned thread_count;
};

static struct job
take_job(struct workers *workers)
{
    struct job job = workers->ring[workers->head];

    workers->head = (workers->head + 1) % workers->ring_cap;
    workers->queued--;
    workers->running++;
    metric_gauge_add(METRIC_WORKERS_QUEUED, -1);
    metric_gauge_add(METRIC_WORKERS_BUSY, 1);
    return job;
}

static void *
thread_main(void *arg)
{
    struct workers *workers = arg;

    (void)prctl(PR_SET_NAME, workers->name, 0, 0, 0); /* only for the eye */
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        struct job job;

        while (workers->queued == 0 && !workers->stopping)
            pthread_cond_wait(&workers->wake, &workers->lock);
        if (workers->queued == 0)
            break;
        job = take_job(workers);
        pthread_mutex_unlock(&workers->lock);
        job.fn(job.arg);
        pthread_mutex_lock(&workers->lock);
        workers->running--;
        metric_gauge_add(METRIC_WORKERS_BUSY, -1);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* Signals are for the main thread. */
static int
start_thread(struct workers *workers)
{
    sigset_t all;
    sigset_t old;
    int errnum;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    errnum = pthread_create(&workers->threads[workers->thread_count], NULL, thread_main, workers);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errnum == 0)
        workers->thread_count++;
    return errnum;
}

int
workers_new(const char *name, unsigned thread_count, size_t queue_cap, struct workers **ret_workers,
            struct err *err)
{
    struct workers *workers;

    if (thread_count == 0 || queue_cap == 0)
        return err_set(err, ERR_INVALID, "start %s: no threads or no queue asked for", name);
    workers = mem_zalloc(sizeof(*workers));
    snprintf(workers->name, sizeof(workers->name), "%s", name);
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->wake, NULL);
    workers->ring = mem_array(queue_cap, sizeof(*workers->ring));
    workers->ring_cap = queue_cap;
    workers->threads = mem_array(thread_count, sizeof(*workers->threads));
    while (workers->thread_count < thread_count) {
        if (start_thread(workers) != 0) {
            unsigned had = workers->thread_count;

            workers_free(workers);
            return err_set(err, ERR_UNAVAILABLE, "start %s: only %u of %u threads to be had", name,
                           had, thread_count);
        }
    }
    *ret_workers = workers;
    return 0;
}

void
workers_free(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
    for (unsigned i = 0; i < workers->thread_count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->wake);
    pthread_mutex_destroy(&workers->lock);
    free(workers->threads);
    free(workers->ring);
    free(workers);
}

/* Under the lock. */
static bool
push(struct workers *workers, workers_fn fn, void *arg)
{
    if (workers->queued == workers->ring_cap)
        return false;
    workers->ring[(workers->head + workers->queued) % workers->ring_cap] = (struct job){fn, arg};
    workers->queued++;
    metric_gauge_add(METRIC_WORKERS_QUEUED, 1);
    pthread_cond_signal(&workers->wake);
    return true;
}

int
workers_submit(struct workers *workers, workers_fn fn, void *arg, struct err *err)
{
    LOCK_SCOPE(&workers->lock);

    if (!push(workers, fn, arg))
        return err_set(err, ERR_BUSY, "%s: all %zu places of the queue are taken", workers->name,
                       workers->ring_cap);
    return 0;
}

struct each {
    struct workers *workers;
    void (*fn)(void *ctx, size_t i);
    void *ctx;
    size_t count;
    atomic_size_t next;
    size_t helpers;      /* in the queue or running; under the lock of the crew */
    pthread_cond_t gone; /* the last helper left */
};

static void
draw(struct each *each)
{
    for (;;) {
        size_t i = atomic_fetch_add(&each->next, 1);

        if (i >= each->count)
            return;
        each->fn(each->ctx, i);
    }
}

static void
help(void *arg)
{
    struct each *each = arg;
    struct workers *workers = each->workers;

    draw(each);
    /* Signalled inside the lock: when the caller wakes, nothing here touches `each` any more. */
    pthread_mutex_lock(&workers->lock);
    if (--each->helpers == 0)
        pthread_cond_signal(&each->gone);
    pthread_mutex_unlock(&workers->lock);
}

/* Takes the helpers of `each` that wait in the queue out of it; under the lock. */
static void
withdraw(struct workers *workers, struct each *each)
{
    size_t kept = 0;

    for (size_t i = 0; i < workers->queued; i++) {
        struct job job = workers->ring[(workers->head + i) % workers->ring_cap];

        if (job.fn == help && job.arg == each) {
            each->helpers--;
            metric_gauge_add(METRIC_WORKERS_QUEUED, -1);
        } else {
            workers->ring[(workers->head + kept++) % workers->ring_cap] = job;
        }
    }
    workers->queued = kept;
}

void
workers_each(struct workers *workers, size_t count, unsigned width, void (*fn)(void *ctx, size_t i),
             void *ctx)
{
    struct each each = {.workers = workers, .fn = fn, .ctx = ctx, .count = count};
    size_t wanted = width < count ? width : count;

    if (wanted < 2) {
        draw(&each);
        return;
    }
    pthread_cond_init(&each.gone, NULL);
    pthread_mutex_lock(&workers->lock);
    while (each.helpers + 1 < wanted && push(workers, help, &each))
        each.helpers++;
    pthread_mutex_unlock(&workers->lock);

    draw(&each);

    pthread_mutex_lock(&workers->lock);
    if (each.helpers > 0)
        withdraw(workers, &each);
    while (each.helpers > 0)
        pthread_cond_wait(&each.gone, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
    pthread_cond_destroy(&each.gone);
}

void
workers_load(struct workers *workers, size_t *ret_queued, size_t *ret_running)
{
    LOCK_SCOPE(&workers->lock);

    *ret_queued = workers->queued;
    *ret_running = workers->running;
}
