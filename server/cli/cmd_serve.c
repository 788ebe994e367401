/*
 * The main thread starts everything, then waits for a signal, looking after the private
 * PostgreSQL and the watchdog once a second. The signals that stop us are blocked before the first
 * thread is made, so that they arrive nowhere but here.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <sodium.h>
#include <systemd/sd-daemon.h>

#include "base/log.h"
#include "cli/cli.h"
#include "service/users.h"

enum { DATABASE_RETRY_SECS = 2, DATABASE_LOG_EVERY = 5 /* tries */ };

/* --- the process --- */

/* Memory must not pile up in the heaps of threads: few arenas, and buffers of transfers go back
 * to the system as soon as they are freed. */
static void
bound_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_ARENA_MAX, 4);
}

static void
raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warn("open files stay limited: error=\"%s\"", strerror(errno));
}

static void
block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Waits for one of the signals; 0: none came. */
static int
wait_signal(const sigset_t *set, int secs)
{
    struct timespec timeout = {.tv_sec = secs};
    int signo = sigtimedwait(set, NULL, &timeout);

    return signo > 0 ? signo : 0;
}

/* --- starting --- */

/* A database that is away now will come back: *ret_stopped when we were told not to wait. */
static int
await_database(struct app *app, const sigset_t *signals, bool *ret_stopped, struct err *err)
{
    bool ours = !app_config(app)->db_connection_string[0];
    unsigned tries = 0;

    *ret_stopped = false;
    while (app_database(app, NULL, err) < 0) {
        if (ours || (err->code != ERR_UNAVAILABLE && err->code != ERR_BUSY))
            return -1;
        if (tries++ % DATABASE_LOG_EVERY == 0)
            log_warn("waiting for the database: error=\"%s\"", err->msg);
        *err = (struct err){0};
        if (wait_signal(signals, DATABASE_RETRY_SECS)) {
            *ret_stopped = true;
            return 0;
        }
    }
    return 0;
}

/* What a client on this machine types. */
static void
format_address(const struct app *app, char *dst, size_t size)
{
    const struct config *config = app_config(app);
    const char *host = config->server_host;

    if (config->base_url[0]) {
        size_t len = strlen(config->base_url);

        while (len > 0 && config->base_url[len - 1] == '/')
            len--;
        snprintf(dst, size, "%.*s/webdav/", (int)len, config->base_url);
        return;
    }
    if (strcmp(host, "0.0.0.0") == 0)
        host = "127.0.0.1";
    else if (strcmp(host, "::") == 0)
        host = "::1";
    snprintf(dst, size, strchr(host, ':') ? "http://[%s]:%u/webdav/" : "http://%s:%u/webdav/", host,
             (unsigned)app_port(app));
}

/* The only time that anybody sees this password. */
static void
print_first_user(const char *address, const char *password)
{
    printf("\n"
           "  WebDAV    %s\n"
           "  user      admin\n"
           "  password  %s\n"
           "\n"
           "The password is shown this once. To try it:\n"
           "\n"
           "  curl -T FILE -u admin:%s %s\n"
           "\n",
           address, password, password, address);
}

static void
greet(struct app *app, bool wanted, const char *password)
{
    char address[512];

    format_address(app, address, sizeof(address));
    log_info("listening: port=%u address=%s", (unsigned)app_port(app), address);
    if (password[0])
        print_first_user(address, password);
    else if (wanted)
        printf("\n  WebDAV    %s\n\n", address);
    fflush(stdout);
}

/* The first user is there before anybody can connect. */
static int
open_doors(struct app *app, bool create_admin, struct err *err)
{
    char password[USERS_FIRST_PASSWORD_SIZE] = "";
    bool made;

    if (create_admin && users_first(app_pool(app), app_config(app), &made, password, err) < 0)
        return err_wrap(err, "make the first user");
    if (app_server(app, err) < 0)
        return -1;
    greet(app, create_admin, password);
    sodium_memzero(password, sizeof(password));
    return 0;
}

/* --- running --- */

/* An error that stays is logged once, until it goes away. */
static void
tick(struct app *app, bool *failing)
{
    struct err err = {0};

    if (app_tick(app, &err) == 0) {
        *failing = false;
    } else if (!*failing) {
        *failing = true;
        log_error("private database: error=\"%s\"", err.msg);
    }
}

static void
run_until_stopped(struct app *app, const sigset_t *signals)
{
    uint64_t watchdog_us = 0;
    bool watched = sd_watchdog_enabled(0, &watchdog_us) > 0;
    bool failing = false;
    int signo;

    while ((signo = wait_signal(signals, 1)) == 0) {
        tick(app, &failing);
        if (watched)
            (void)sd_notify(0, "WATCHDOG=1"); /* nobody to tell when it fails */
    }
    log_info("stopping: signal=%d", signo);
}

static int
serve(struct app *app, bool create_admin, const sigset_t *signals, struct err *err)
{
    bool stopped;

    if (await_database(app, signals, &stopped, err) < 0)
        return -1;
    if (stopped)
        return 0;
    if (app_store(app, err) < 0 || open_doors(app, create_admin, err) < 0)
        return -1;
    (void)sd_notify(0, "READY=1"); /* without systemd there is nobody to tell */
    run_until_stopped(app, signals);
    (void)sd_notify(0, "STOPPING=1");
    return 0;
}

int
cmd_serve(struct cli *cli)
{
    bool create_admin = cli_flag(cli, "--create-admin");
    struct config config;
    struct app *app = NULL;
    struct err err = {0};
    sigset_t signals;
    int rc;

    if (!cli_done(cli))
        return EXIT_USAGE;
    bound_memory();
    raise_file_limit();
    block_signals(&signals);
    if (cli_config(cli, true, &config, &err) < 0)
        return cli_fail(&err);

    rc = app_new(&config, &app, &err);
    if (rc == 0)
        rc = serve(app, create_admin, &signals, &err);
    app_free(app);
    config_release(&config);
    if (rc < 0)
        return cli_fail(&err);
    log_info("stopped");
    return EXIT_WELL;
}
