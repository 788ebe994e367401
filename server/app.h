/*
 * app: builds every module in order and destroys them in reverse. The stages build on each other,
 * so that a command that only wants the database shares its way with the server:
 *
 *   app_new       random numbers, chunker
 *   app_database  the private PostgreSQL if none is named, schema, pool
 *   app_store     workers, backend, index, manifest cache, store, files
 *   app_server    logins, routes, request workers, HTTP, janitor, scrub
 *
 * Lock order: no module calls another one while it holds a lock of its own, but for metrics and
 * log, whose locks come last. Row locks in the database: space, nodes, contents by id, chunks by
 * id.
 */
#ifndef OXI_APP_H
#define OXI_APP_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "meta/pg_pool.h"
#include "service/files.h"
#include "storage/store.h"

struct app;

/* Borrows config. */
int app_new(const struct config *config, struct app **ret_app, struct err *err);
/* Stops the server (with the grace of the settings) and the rest. NULL is welcome. */
void app_free(struct app *app);

/* Main thread. ERR_UNAVAILABLE: there is no database yet; with a server of somebody else the call
 * may be repeated. *ret_applied_count: migrations that ran; may be NULL. */
int app_database(struct app *app, int *ret_applied_count, struct err *err);
int app_store(struct app *app, struct err *err);
int app_server(struct app *app, struct err *err);

/* Every second or so from the main thread: revives a private PostgreSQL that died, sets gauges. */
int app_tick(struct app *app, struct err *err);

const struct config *app_config(const struct app *app);
struct pg_pool *app_pool(struct app *app); /* after app_database */
struct files *app_files(struct app *app);  /* after app_store */
uint16_t app_port(const struct app *app);  /* after app_server */

#endif
