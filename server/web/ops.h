/*
 * ops: what an operator looks at: /health, /ready, /metrics, and a landing page at "/". None of
 * them needs a login.
 */
#ifndef OXI_WEB_OPS_H
#define OXI_WEB_OPS_H

#include "http/router.h"
#include "meta/pg_pool.h"
#include "storage/blob.h"
#include "storage/room.h"

struct ops;

/* Borrows all. room NULL: free space is not watched. */
struct ops *ops_new(struct pg_pool *pool, struct blob_backend *backend, struct room *room);
void ops_free(struct ops *ops); /* NULL is welcome */
/* The router borrows ops. */
void ops_routes(struct ops *ops, struct router *router);

#endif
