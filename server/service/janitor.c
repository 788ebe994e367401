#include "service/janitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "meta/chunk_repo.h"
#include "service/locks.h"
#include "service/sync.h"
#include "service/trash.h"
#include "storage/collect.h"

enum {
    FIRST_WAIT_SECS = 20, /* a server that was just started has other things to do */
    SWEEP_EVERY_SECS = 3600,
};

struct janitor {
    struct files *files;
    pthread_t thread;
    _Atomic bool stop;
    int64_t swept_us; /* monotonic; 0: never */

    pthread_mutex_t mutex;
    pthread_cond_t stopped; /* with stop */
};

/* --- the chores --- */

static int
expire_trash(struct janitor *janitor, struct err *err)
{
    uint64_t purged = 0;

    if (trash_expire(janitor->files, janitor->files->config->trash_retention_days, &janitor->stop,
                     &purged, err) < 0)
        return -1;
    if (purged > 0)
        log_info("trash expired: nodes=%llu", (unsigned long long)purged);
    return 0;
}

static int
collect(struct janitor *janitor, struct err *err)
{
    struct collect_result result = {0};

    if (collect_garbage(janitor->files->store, (int64_t)janitor->files->config->collect_grace_secs,
                        &janitor->stop, &result, err) < 0)
        return -1;
    if (result.blob_count > 0)
        log_info("collected: blobs=%llu bytes=%llu", (unsigned long long)result.blob_count,
                 (unsigned long long)result.blob_bytes);
    return 0;
}

static int
expire_locks(struct janitor *janitor, struct err *err)
{
    uint64_t count = 0;

    return locks_expire(janitor->files, &count, err);
}

static int
forget_removals(struct janitor *janitor, struct err *err)
{
    uint64_t count = 0;

    return sync_forget(janitor->files, janitor->files->config->sync_retention_days, &janitor->stop,
                       &count, err);
}

/* Lists everything there is, so not every time. */
static int
sweep(struct janitor *janitor, struct err *err)
{
    struct collect_result result = {0};
    int64_t now_us = clock_mono_us();

    if (janitor->swept_us && now_us - janitor->swept_us < SWEEP_EVERY_SECS * INT64_C(1000000))
        return 0;
    if (collect_sweep(janitor->files->store, (int64_t)janitor->files->config->collect_grace_secs,
                      &janitor->stop, &result, err) < 0)
        return -1;
    janitor->swept_us = now_us;
    if (result.blob_count > 0)
        log_info("swept: blobs=%llu bytes=%llu", (unsigned long long)result.blob_count,
                 (unsigned long long)result.blob_bytes);
    return 0;
}

static int
health_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return chunk_repo_health(conn, ctx, err);
}

/* After the others, so that it shows what they have left. */
static int
measure(struct janitor *janitor, struct err *err)
{
    struct chunk_health health;

    if (pg_pool_run(janitor->files->pool, health_work, &health, err) < 0)
        return -1;
    metric_gauge_set(METRIC_BACKLOG_CONTENTS, (int64_t)health.backlog_contents);
    metric_gauge_set(METRIC_BACKLOG_CHUNKS, (int64_t)health.backlog_chunks);
    metric_gauge_set(METRIC_BACKLOG_BYTES, (int64_t)health.backlog_bytes);
    metric_gauge_set(METRIC_BACKLOG_OLDEST_SECONDS, health.backlog_age_secs);
    metric_gauge_set(METRIC_CHUNKS_QUARANTINED, (int64_t)health.quarantined);
    metric_gauge_set(METRIC_SCRUB_OLDEST_SECONDS, health.verified_age_secs);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct janitor *janitor, struct err *err);
} CHORES[] = {
    {"expire trash", expire_trash},
    {"expire locks", expire_locks},
    {"forget removals", forget_removals},
    {"collect", collect},
    {"sweep", sweep},
    {"measure", measure},
};
enum { CHORE_COUNT = sizeof(CHORES) / sizeof(CHORES[0]) };

/* A chore that keeps failing is logged once, until it works again. */
static void
run_chores(struct janitor *janitor, bool failing[CHORE_COUNT])
{
    for (int i = 0; i < CHORE_COUNT && !janitor->stop; i++) {
        struct err err = {0};

        if (CHORES[i].run(janitor, &err) == 0) {
            failing[i] = false;
        } else if (!failing[i]) {
            failing[i] = true;
            log_warn("chore failed: chore=\"%s\" error=\"%s\"", CHORES[i].name, err.msg);
        }
    }
}

/* --- the thread --- */

static void
wait_for(struct janitor *janitor, uint64_t secs)
{
    struct timespec deadline = clock_deadline((int64_t)secs * 1000);
    int rc = 0;

    LOCK_SCOPE(&janitor->mutex);
    while (!janitor->stop && rc == 0)
        rc = pthread_cond_timedwait(&janitor->stopped, &janitor->mutex, &deadline);
}

static void *
janitor_main(void *arg)
{
    struct janitor *janitor = arg;
    uint64_t interval_secs = janitor->files->config->collect_interval_secs;
    bool failing[CHORE_COUNT] = {0};

    wait_for(janitor, interval_secs < FIRST_WAIT_SECS ? interval_secs : FIRST_WAIT_SECS);
    while (!janitor->stop) {
        run_chores(janitor, failing);
        wait_for(janitor, interval_secs);
    }
    return NULL;
}

int
janitor_start(struct files *files, struct janitor **ret_janitor, struct err *err)
{
    struct janitor *janitor = mem_zalloc(sizeof(*janitor));
    int rc;

    janitor->files = files;
    pthread_mutex_init(&janitor->mutex, NULL);
    clock_cond_init(&janitor->stopped);
    rc = pthread_create(&janitor->thread, NULL, janitor_main, janitor);
    if (rc != 0) {
        pthread_cond_destroy(&janitor->stopped);
        pthread_mutex_destroy(&janitor->mutex);
        free(janitor);
        return err_errno(err, rc, "start the janitor");
    }
    *ret_janitor = janitor;
    return 0;
}

void
janitor_stop(struct janitor *janitor)
{
    if (!janitor)
        return;
    pthread_mutex_lock(&janitor->mutex);
    janitor->stop = true;
    pthread_cond_broadcast(&janitor->stopped);
    pthread_mutex_unlock(&janitor->mutex);
    pthread_join(janitor->thread, NULL);
    pthread_cond_destroy(&janitor->stopped);
    pthread_mutex_destroy(&janitor->mutex);
    free(janitor);
}
