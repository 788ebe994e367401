/*
 * server: starts and stops libmicrohttpd (what it calls per request is in conn.c). Sockets are served by as many
 * epoll threads as there are cores; none of them waits for disk, database or hashing. A request
 * that needs work is suspended and handed to a worker, which resumes it with the answer.
 */
#ifndef OXI_HTTP_SERVER_H
#define OXI_HTTP_SERVER_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/workers.h"
#include "http/router.h"
#include "service/auth.h"

struct server;

struct server_parts { /* all borrowed */
    const struct config *config;
    const struct router *router;
    struct auth *auth;
    struct workers *workers; /* for handlers */
};

int server_start(const struct server_parts *parts, struct server **ret_server, struct err *err);
uint16_t server_port(const struct server *server);

/* Stops accepting; requests under way may end within grace_ms, then they are broken off. Returns
 * when no callback will run any more. NULL is welcome. */
void server_stop(struct server *server, int64_t grace_ms);

#endif
