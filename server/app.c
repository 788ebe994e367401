#include "app.h"

#include <stdlib.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "dav/dav.h"
#include "http/server.h"
#include "meta/chunk_repo.h"
#include "meta/migrate.h"
#include "meta/pg_embedded.h"
#include "service/auth.h"
#include "service/janitor.h"
#include "service/scrub.h"
#include "storage/blob_local.h"
#include "storage/chunker.h"
#include "storage/container/codec.h"
#include "storage/container/container_cache.h"
#include "storage/container/container_head.h"
#include "web/ops.h"

/* Jobs of storage are chunks to write, read or sync; a full queue makes the one who asks do it. */
enum { STORAGE_QUEUE_JOBS = 4096 };

/* Of packed chunks that are read in parts; each is a file descriptor. */
enum { CONTAINERS_OPEN = 256 };

/* In the order in which they are made. */
struct app {
    const struct config *config;
    /* app_database */
    struct pg_embedded *embedded;
    struct pg_pool *pool;
    /* app_store */
    struct workers *storage_workers;
    struct blob_backend *backend;
    struct chunk_index *index;
    struct manifest_cache *manifests;
    struct container_cache *containers;
    struct room *room;
    struct store store;
    struct files files;
    /* app_server */
    struct auth *auth;
    struct dav *dav;
    struct ops *ops;
    struct router *router;
    struct workers *request_workers;
    struct server *server;
    struct janitor *janitor;
    struct scrub *scrub;
};

int
app_new(const struct config *config, struct app **ret_app, struct err *err)
{
    struct app *app;

    if (rand_start(err) < 0)
        return -1;
    chunker_start();
    app = mem_zalloc(sizeof(*app));
    app->config = config;
    *ret_app = app;
    return 0;
}

/* Chores that can wait and requests end first, then what they use; PostgreSQL goes last. */
void
app_free(struct app *app)
{
    if (!app)
        return;
    scrub_stop(app->scrub);
    server_stop(app->server, (int64_t)app->config->shutdown_grace_secs * 1000);
    janitor_stop(app->janitor);
    workers_free(app->request_workers);
    router_free(app->router);
    ops_free(app->ops);
    dav_free(app->dav);
    auth_free(app->auth);

    workers_free(app->storage_workers);
    room_free(app->room);
    container_cache_free(app->containers);
    manifest_cache_free(app->manifests);
    free(app->index);
    blob_free(app->backend);

    pg_pool_free(app->pool);
    pg_embedded_stop(app->embedded);
    free(app);
}

static const char *
conninfo_of(const struct app *app)
{
    return app->embedded ? pg_embedded_conninfo(app->embedded) : app->config->db_connection_string;
}

int
app_database(struct app *app, int *ret_applied_count, struct err *err)
{
    const struct config *config = app->config;
    int applied_count;

    if (!app->embedded && !config->db_connection_string[0] &&
        (fs_mkdir_p(config->storage_path, 0750, err) < 0 ||
         pg_embedded_start(config->storage_path, &app->embedded, err) < 0))
        return -1;
    if (migrate_run(conninfo_of(app), &applied_count, err) < 0)
        return -1;
    app->pool = pg_pool_new(conninfo_of(app), (unsigned)config->db_max_connections,
                            (int64_t)config->db_wait_ms);
    if (ret_applied_count)
        *ret_applied_count = applied_count;
    return 0;
}

/* What the table of settings cannot say: the levels are those of the codec. */
static int
form_of(const struct config *config, struct container_form *ret_form, struct err *err)
{
    struct container_form form = {.level = (int)config->storage_codec_level};
    uint64_t block_bytes;

    if (!codec_by_name(config->storage_codec, &form.codec) ||
        !text_parse_size(slice_of(config->storage_codec_block), CONTAINER_BLOCK_MOST, &block_bytes))
        return err_set(err, ERR_INTERNAL, "storage_codec, storage_codec_block");
    if (form.codec != CHUNK_RAW && form.level > codec_level_most(form.codec))
        return err_set(err, ERR_INVALID, "storage_codec_level: %s has levels up to %d",
                       config->storage_codec, codec_level_most(form.codec));
    form.block_log2 = (unsigned)__builtin_ctzll(block_bytes);
    *ret_form = form;
    return 0;
}

int
app_store(struct app *app, struct err *err)
{
    const struct config *config = app->config;
    struct container_form form;

    if (form_of(config, &form, err) < 0)
        return -1;
    if (fs_mkdir_p(config->storage_path, 0750, err) < 0 ||
        workers_new("storage", (unsigned)config->storage_workers, STORAGE_QUEUE_JOBS,
                    &app->storage_workers, err) < 0 ||
        blob_local_open(config->storage_path, (unsigned)config->local_read_prefetch,
                        app->storage_workers, &app->backend, err) < 0)
        return -1;
    app->index = chunk_repo_index(app->pool);
    app->manifests = manifest_cache_new(config->manifest_cache_bytes);
    app->containers = container_cache_new(CONTAINERS_OPEN);
    app->room = room_new(app->backend, config->free_space_reserve_bytes);
    app->store = (struct store){.backend = app->backend,
                                .index = app->index,
                                .manifests = app->manifests,
                                .containers = app->containers,
                                .form = form,
                                .room = app->room,
                                .workers = app->storage_workers,
                                .sizes = chunker_store_sizes,
                                .lease_secs = (int64_t)config->lease_secs,
                                .ingest_memory_bytes = config->ingest_memory_bytes};
    app->files = (struct files){.config = config, .pool = app->pool, .store = &app->store};
    return 0;
}

static void
build_routes(struct app *app)
{
    app->router = router_new();
    app->dav = dav_new(&app->files, app->config);
    app->ops = ops_new(app->pool, app->backend, app->room);
    dav_routes(app->dav, app->router);
    ops_routes(app->ops, app->router);
}

int
app_server(struct app *app, struct err *err)
{
    const struct config *config = app->config;
    struct server_parts parts = {.config = config};

    app->auth = auth_new(config, app->pool);
    build_routes(app);
    /* A connection has one request at a time, so the queue is long enough for all of them. */
    if (workers_new("request", (unsigned)config->request_workers, config->max_connections,
                    &app->request_workers, err) < 0)
        return -1;
    parts.router = app->router;
    parts.auth = app->auth;
    parts.workers = app->request_workers;
    if (server_start(&parts, &app->server, err) < 0)
        return -1;
    if (janitor_start(&app->files, &app->janitor, err) < 0)
        return -1;
    return scrub_start(&app->files, &app->scrub, err);
}

int
app_tick(struct app *app, struct err *err)
{
    size_t queued[2] = {0}, running[2] = {0};

    if (app->storage_workers)
        workers_load(app->storage_workers, &queued[0], &running[0]);
    if (app->request_workers)
        workers_load(app->request_workers, &queued[1], &running[1]);
    metric_gauge_set(METRIC_WORKERS_QUEUED, (int64_t)(queued[0] + queued[1]));
    metric_gauge_set(METRIC_WORKERS_BUSY, (int64_t)(running[0] + running[1]));
    return app->embedded ? pg_embedded_check(app->embedded, err) : 0;
}

const struct config *
app_config(const struct app *app)
{
    return app->config;
}

struct pg_pool *
app_pool(struct app *app)
{
    return app->pool;
}

struct files *
app_files(struct app *app)
{
    return &app->files;
}

uint16_t
app_port(const struct app *app)
{
    return server_port(app->server);
}
