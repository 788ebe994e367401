/*
 * pg_embedded: the private PostgreSQL of an installation that names none. It lives in
 * <storage>/postgres, listens on a unix socket in that folder only, and is a child of the process
 * that started it.
 *
 * Started as root it runs as an unprivileged user (postgres, else nobody), also when that user
 * cannot enter the folders above: the data folder is handed over as an open descriptor and named
 * /proc/self/fd/N.
 *
 * One process at a time owns it, by a lock on <storage>/postgres.lock that the server's children
 * inherit: after kill -9 of the owner the next one waits until the old server is gone. A second
 * process (a command beside a running server) connects without owning.
 */
#ifndef OXI_META_PG_EMBEDDED_H
#define OXI_META_PG_EMBEDDED_H

#include "base/err.h"

struct pg_embedded;

/*
 * Uses the server that runs already, or makes the cluster on first use, starts it and waits until
 * it answers. Call from the main thread: the server ends (fast shutdown) when the calling thread
 * does. ERR_CONFLICT: the folder belongs to another major version than is installed; the message
 * says what to do. ERR_UNAVAILABLE: no server programs found, or it did not come up (its last log
 * lines are in the message or the log).
 */
int pg_embedded_start(const char *storage_path, struct pg_embedded **ret_embedded, struct err *err);
/* Fast shutdown if we own it, waiting for its end. NULL is welcome. */
void pg_embedded_stop(struct pg_embedded *embedded);

/* What pg_connect() takes; lives as long as the object. */
const char *pg_embedded_conninfo(const struct pg_embedded *embedded);

/* Starts an owned server again when it has died; call now and then from the thread that started
 * it. */
int pg_embedded_check(struct pg_embedded *embedded, struct err *err);

#endif
