#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "http/conn.h"
#include "http/hangup.h"

enum {
    /* What an idle connection costs. 32 KiB still receives 1.5 GB/s, since the connection is not
     * suspended for every piece. */
    CONNECTION_MEMORY_BYTES = 32 * 1024,
    LISTEN_BACKLOG = 1024,
    STOP_POLL_US = 2000,
    /* What the kernel may hold for a client before it is on its way. Without a limit a socket
     * takes megabytes and has room again only when a third of them are gone: for a slow client
     * that is later than the idle timeout, although it reads all the time. */
    UNSENT_MOST_BYTES = 256 * 1024,
};

struct server {
    struct conn_env env;
    struct MHD_Daemon *daemon;
    struct hangup *hangup;
    uint16_t port;
};

/* The library unescapes paths before anyone could look at them ("%00", "%2F"); ours is decoded
 * from the raw target, once. */
static size_t
leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

static void
on_library_log(void *cls, const char *fmt, va_list args)
{
    char line[256];

    (void)cls;
    vsnprintf(line, sizeof(line), fmt, args);
    line[strcspn(line, "\n")] = 0;
    log_debug("libmicrohttpd: %s", line);
}

static void
on_connection(void *cls, struct MHD_Connection *mhd, void **socket_cls,
              enum MHD_ConnectionNotificationCode code)
{
    struct server *server = cls;
    int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;

    (void)socket_cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        hangup_add(server->hangup, fd);
        metric_gauge_add(METRIC_HTTP_CONNECTIONS, 1);
    } else {
        hangup_remove(server->hangup, fd);
        metric_gauge_add(METRIC_HTTP_CONNECTIONS, -1);
    }
}

static int
resolve(const struct config *config, struct addrinfo **ret_info, struct err *err)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    const char *host = config->server_host;
    size_t len = strlen(host);
    char *plain = host[0] == '[' && len > 2 ? mem_strndup(host + 1, len - 2) : mem_strdup(host);
    char port[8];

    snprintf(port, sizeof(port), "%u", (unsigned)config->server_port);

    int result = getaddrinfo(plain, port, &hints, ret_info);

    free(plain);
    if (result != 0)
        return err_set(err, ERR_INVALID, "server_host %s: %s", host, gai_strerror(result));
    return 0;
}

static struct MHD_Daemon *
start_daemon(struct server *server, const struct config *config, const struct addrinfo *info)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem pool[] = {
        {cores > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)cores, NULL},
        {MHD_OPTION_END, 0, NULL}};

    if (info->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(
        flags, (uint16_t)config->server_port, NULL, NULL, conn_on_request, &server->env,
        MHD_OPTION_EXTERNAL_LOGGER, on_library_log, NULL, MHD_OPTION_SOCK_ADDR, info->ai_addr,
        MHD_OPTION_URI_LOG_CALLBACK, conn_on_target, &server->env, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, NULL, MHD_OPTION_NOTIFY_COMPLETED, conn_on_completed, &server->env,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)config->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)config->idle_timeout_secs, MHD_OPTION_LISTEN_BACKLOG_SIZE,
        (unsigned)LISTEN_BACKLOG, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, pool,
        MHD_OPTION_END);
}

/* Connections take this over from the socket they come in by. Without it all works, too, but for
 * very slow readers. */
static void
limit_unsent(struct server *server)
{
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd;
    unsigned most = UNSENT_MOST_BYTES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof(most));
}

static void
server_free(struct server *server)
{
    hangup_stop(server->hangup);
    proxy_free(server->env.proxies);
    free(server);
}

int
server_start(const struct server_parts *parts, struct server **ret_server, struct err *err)
{
    struct server *server = mem_zalloc(sizeof(*server));
    const struct config *config = parts->config;
    struct addrinfo *info = NULL;

    server->env = (struct conn_env){
        .config = config, .router = parts->router, .auth = parts->auth, .workers = parts->workers};
    if (proxy_parse(config->trust_proxy_cidr, &server->env.proxies, err) < 0 ||
        hangup_start(&server->hangup, err) < 0 || resolve(config, &info, err) < 0) {
        server_free(server);
        return -1;
    }
    server->daemon = start_daemon(server, config, info);
    freeaddrinfo(info);
    if (!server->daemon) {
        server_free(server);
        return err_set(err, ERR_UNAVAILABLE, "listen on %s port %u: %s", config->server_host,
                       (unsigned)config->server_port, strerror(errno));
    }
    limit_unsent(server);
    server->port = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    *ret_server = server;
    return 0;
}

uint16_t
server_port(const struct server *server)
{
    return server->port;
}

static bool
wait_until_zero(_Atomic int64_t *count, int64_t timeout_ms)
{
    int64_t end_us = clock_mono_us() + timeout_ms * 1000;

    while (atomic_load(count) > 0) {
        if (clock_mono_us() >= end_us)
            return false;
        usleep(STOP_POLL_US);
    }
    return true;
}

void
server_stop(struct server *server, int64_t grace_ms)
{
    if (!server)
        return;

    int listener = MHD_quiesce_daemon(server->daemon);

    /* The library may still poll the descriptor; so it stays open, but nobody can connect. */
    if (listener >= 0)
        (void)shutdown(listener, SHUT_RDWR);
    atomic_store(&server->env.draining, true);
    if (!wait_until_zero(&server->env.active, grace_ms))
        log_warn("requests broken off at the end of the grace time: count=%lld",
                 (long long)atomic_load(&server->env.active));

    /* From here on no callback suspends any more. The library must not be stopped while a
     * connection is suspended, and workers and readers resume each of theirs in bounded time. */
    atomic_store(&server->env.stopping, true);
    while (!wait_until_zero(&server->env.suspended, 60000))
        log_warn("waiting for workers: suspended=%lld",
                 (long long)atomic_load(&server->env.suspended));
    MHD_stop_daemon(server->daemon);
    if (listener >= 0)
        close(listener);
    /* Requests whose client was there to the last are dropped by workers. */
    while (!wait_until_zero(&server->env.active, 60000))
        log_warn("waiting for requests: active=%lld", (long long)atomic_load(&server->env.active));
    server_free(server);
}
