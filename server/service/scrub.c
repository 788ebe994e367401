/*
 * One round takes a few chunks from the index, reads them one after the other with pauses that
 * keep to the rate, and notes those that are good in one statement. What a round that was broken
 * off has read is not noted and is read again some time.
 */
#include "service/scrub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "meta/chunk_repo.h"
#include "storage/chunk_check.h"

enum {
    ROUND_SECS = 5, /* about as long as a round takes, and so what a crash may make us repeat */
    ROUND_CHUNKS_MOST = 64,
    IDLE_WAIT_SECS = 60,
    TROUBLE_WAIT_SECS = 10,
    LEAST_NICE = 19,
    IO_PRIORITY_OF_PROCESS = 1, /* IOPRIO_WHO_PROCESS; no header has it */
    IO_PRIORITY_IDLE = 3 << 13, /* IOPRIO_CLASS_IDLE */
};

struct scrub {
    struct files *files;
    pthread_t thread;
    _Atomic bool stop;
    int64_t next_us; /* monotonic: the next read may begin */

    pthread_mutex_t mutex;
    pthread_cond_t stopped; /* with stop */

    /* of one round */
    struct stored_chunk chunks[ROUND_CHUNKS_MOST];
    size_t count;
    struct stored_chunk good[ROUND_CHUNKS_MOST];
    size_t good_count;
    uint8_t *bytes; /* of one chunk */
    size_t bytes_cap;
};

static void
wait_for(struct scrub *scrub, int64_t wait_ms)
{
    struct timespec deadline = clock_deadline(wait_ms);
    int rc = 0;

    LOCK_SCOPE(&scrub->mutex);
    while (!scrub->stop && rc == 0)
        rc = pthread_cond_timedwait(&scrub->stopped, &scrub->mutex, &deadline);
}

/* Before a read of so many bytes. What was not read in time is not made up for. */
static void
keep_rate(struct scrub *scrub, uint32_t bytes)
{
    int64_t now_us = clock_mono_us();
    uint64_t rate = scrub->files->config->scrub_rate_bytes;

    if (scrub->next_us > now_us)
        wait_for(scrub, (scrub->next_us - now_us + 999) / 1000);
    else
        scrub->next_us = now_us;
    scrub->next_us += (int64_t)((double)bytes / (double)rate * 1e6);
}

/* --- one round --- */

static int
next_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct scrub *scrub = ctx;
    const struct config *config = scrub->files->config;
    uint64_t wanted = config->scrub_rate_bytes / scrub->files->store->sizes.most_bytes * ROUND_SECS;

    if (wanted < 1)
        wanted = 1;
    else if (wanted > ROUND_CHUNKS_MOST)
        wanted = ROUND_CHUNKS_MOST;
    return chunk_repo_scrub_next(conn, (int64_t)config->scrub_interval_secs, scrub->chunks, wanted,
                                 &scrub->count, err);
}

static int
verified_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct scrub *scrub = ctx;
    uint64_t none;

    return chunk_repo_verified(conn, scrub->good, scrub->good_count, false, &none, err);
}

/* A chunk that was collected meanwhile, or written anew, is no finding. */
static int
check_chunk(struct scrub *scrub, const struct stored_chunk *chunk, struct err *err)
{
    struct store *store = scrub->files->store;
    struct err why = {0};
    bool is_bad;

    if (scrub->bytes_cap < chunk->size_bytes)
        scrub->bytes = mem_grow(scrub->bytes, &scrub->bytes_cap, chunk->size_bytes, 1);
    if (chunk_check_deep(store, chunk, scrub->bytes, &why) == 0) {
        scrub->good[scrub->good_count++] = *chunk;
        metric_add(METRIC_SCRUB_BYTES, chunk->stored_bytes);
    } else if (!chunk_check_is_bad(&why)) {
        *err = why;
        return -1;
    } else {
        if (chunk_check_quarantine(store, chunk, &why, &is_bad, err) < 0)
            return -1;
        metric_add(METRIC_SCRUB_BAD, is_bad);
    }
    metric_add(METRIC_SCRUB_CHUNKS, 1);
    return 0;
}

static int
check_chunks(struct scrub *scrub, struct err *err)
{
    for (size_t i = 0; i < scrub->count; i++) {
        keep_rate(scrub, scrub->chunks[i].stored_bytes);
        if (scrub->stop)
            return 0;
        if (check_chunk(scrub, &scrub->chunks[i], err) < 0)
            return -1;
    }
    return 0;
}

/* What is good is noted also when the round fails later. */
static int
run_round(struct scrub *scrub, struct err *err)
{
    struct err noting = {0};
    int rc;

    scrub->good_count = 0;
    if (pg_pool_run(scrub->files->pool, next_work, scrub, err) < 0)
        return -1;
    rc = check_chunks(scrub, err);
    if (scrub->stop || scrub->good_count == 0)
        return rc;
    if (pg_pool_run(scrub->files->pool, verified_work, scrub, &noting) == 0)
        return rc;
    if (rc == 0)
        *err = noting;
    return -1;
}

/* --- the thread --- */

/* Where the system does not let us, the rate alone keeps us out of the way. */
static void
step_back(void)
{
    pid_t tid = gettid();

    (void)setpriority(PRIO_PROCESS, (id_t)tid, LEAST_NICE);
    (void)syscall(SYS_ioprio_set, IO_PRIORITY_OF_PROCESS, tid, IO_PRIORITY_IDLE);
}

static int64_t
idle_wait_ms(const struct scrub *scrub)
{
    uint64_t interval_secs = scrub->files->config->scrub_interval_secs;

    return (int64_t)(interval_secs < IDLE_WAIT_SECS ? interval_secs : IDLE_WAIT_SECS) * 1000;
}

/* Trouble is logged once, until a round goes well again. */
static void *
scrub_main(void *arg)
{
    struct scrub *scrub = arg;
    bool failing = false;

    step_back();
    wait_for(scrub,
             idle_wait_ms(scrub)); /* a server that was just started has other things to do */
    while (!scrub->stop) {
        struct err err = {0};

        if (run_round(scrub, &err) < 0) {
            if (!failing)
                log_warn("scrub failed: error=\"%s\"", err.msg);
            failing = true;
            wait_for(scrub, TROUBLE_WAIT_SECS * 1000);
        } else {
            failing = false;
            if (scrub->count == 0)
                wait_for(scrub, idle_wait_ms(scrub));
        }
    }
    return NULL;
}

static void
free_scrub(struct scrub *scrub)
{
    pthread_cond_destroy(&scrub->stopped);
    pthread_mutex_destroy(&scrub->mutex);
    free(scrub->bytes);
    free(scrub);
}

int
scrub_start(struct files *files, struct scrub **ret_scrub, struct err *err)
{
    struct scrub *scrub;
    int rc;

    *ret_scrub = NULL;
    if (files->config->scrub_rate_bytes == 0)
        return 0;
    scrub = mem_zalloc(sizeof(*scrub));
    scrub->files = files;
    pthread_mutex_init(&scrub->mutex, NULL);
    clock_cond_init(&scrub->stopped);
    rc = pthread_create(&scrub->thread, NULL, scrub_main, scrub);
    if (rc != 0) {
        free_scrub(scrub);
        return err_errno(err, rc, "start the scrub");
    }
    *ret_scrub = scrub;
    return 0;
}

void
scrub_stop(struct scrub *scrub)
{
    if (!scrub)
        return;
    pthread_mutex_lock(&scrub->mutex);
    scrub->stop = true;
    pthread_cond_broadcast(&scrub->stopped);
    pthread_mutex_unlock(&scrub->mutex);
    pthread_join(scrub->thread, NULL);
    free_scrub(scrub);
}
