/*
 * The life of the private server:
 *
 *   <storage>/postgres.lock   flock: held by the owner, the server and all its processes (the
 *                             descriptor is inherited), so free only when every one of them is
 *                             gone. Open-file-description lock on its first byte: held by the
 *                             owner alone. Both taken: a server with an owner, we are guests.
 *                             Only the first: an orphan that is shutting down, we wait.
 *   <storage>/postgres.new    a cluster being made; one found at start is what a crash left
 *   <storage>/postgres        the cluster; its socket and server.log are in it
 *
 * Everything below the storage folder is reached through descriptors, and so are the socket (a
 * socket's path may have 107 bytes, a storage path more) and the server's view of its folder.
 */
#include "meta/pg_embedded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "meta/pg.h"
#include "meta/pg_programs.h"

enum {
    OWNER_WAIT_MS = 120 * 1000, /* for an orphan's end, or for another owner's start */
    READY_WAIT_MS = 600 * 1000, /* crash recovery takes its time */
    REFUSED_WAIT_MS = 5 * 1000, /* for a server that says no, and not that it is about to start */
    STOP_WAIT_MS = 60 * 1000,   /* for a fast shutdown; an immediate one is safe too */
    KILL_WAIT_MS = 10 * 1000,
    POLL_MS = 10,
    LOG_MAX_BYTES = 8 << 20,
    TAIL_BYTES = 2048,
};

struct pg_embedded {
    int storage_fd;
    int lock_fd;
    int owner_fd;
    int dir_fd;
    int log_fd;
    bool is_owner;
    pid_t pid; /* 0: not running, or not ours */
    uid_t uid; /* 0: runs as we do */
    gid_t gid;
    struct pg_programs programs;
    char conninfo[128];
    char first_conninfo[128]; /* of the database that is always there */
};

static void
sleep_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL); /* shorter, after a signal, is as good */
}

/* --- what a program said --- */

/* Logs the last lines; the very last one becomes the message. */
static int
set_from_output(int out_fd, const char *what, struct err *err)
{
    char text[TAIL_BYTES + 1];
    struct stat info;
    char *last = "nothing was said";
    char *rest = text;
    char *line;
    ssize_t len;

    if (fstat(out_fd, &info) < 0)
        return err_errno(err, errno, "%s: stat its output", what);
    len =
        pread(out_fd, text, TAIL_BYTES, info.st_size > TAIL_BYTES ? info.st_size - TAIL_BYTES : 0);
    text[len > 0 ? len : 0] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] == '\0')
            continue;
        log_error("%s: output=\"%s\"", what, line);
        last = line;
    }
    return err_set(err, ERR_UNAVAILABLE, "%s: %.180s", what, last);
}

/* --- folders --- */

/* Removes what is in an open folder, following no link. Takes the descriptor. */
static int
empty_folder(int fd)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int result = 0;

    if (dir == NULL) {
        (void)close(fd);
        return -1;
    }
    while (result == 0 && (entry = readdir(dir)) != NULL) {
        int sub_fd;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        sub_fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub_fd < 0 || empty_folder(sub_fd) < 0 ||
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) < 0)
            result = -1;
    }
    (void)closedir(dir);
    return result;
}

static int
remove_unfinished(struct pg_embedded *embedded, struct err *err)
{
    int fd = openat(embedded->storage_fd, "postgres.new",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || empty_folder(fd) < 0 ||
        unlinkat(embedded->storage_fd, "postgres.new", AT_REMOVEDIR) < 0)
        return err_errno(err, errno, "remove unfinished postgres.new");
    return 0;
}

/* A short file in the data folder, which is the server's: no links are followed. */
static bool
read_small(int dir_fd, const char *name, char *text, size_t size)
{
    AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

static void
set_conninfo(struct pg_embedded *embedded)
{
    static const char form[] = "host=/proc/self/fd/%d port=5432 user=oxicloud dbname=%s "
                               "sslmode=disable gssencmode=disable";

    snprintf(embedded->conninfo, sizeof(embedded->conninfo), form, embedded->dir_fd, "oxicloud");
    snprintf(embedded->first_conninfo, sizeof(embedded->first_conninfo), form, embedded->dir_fd,
             "postgres");
}

/* Opens <storage>/postgres unless that is done. -1 with errno. */
static int
open_dir(struct pg_embedded *embedded)
{
    if (embedded->dir_fd >= 0)
        return 0;
    embedded->dir_fd = openat(embedded->storage_fd, "postgres", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (embedded->dir_fd < 0)
        return -1;
    set_conninfo(embedded);
    return 0;
}

/* --- making a cluster --- */

/* The unprivileged user for a cluster that is yet to be made. */
static int
choose_user(struct pg_embedded *embedded, struct err *err)
{
    const struct passwd *user;

    if (geteuid() != 0)
        return 0;
    user = getpwnam("postgres");
    if (user == NULL || user->pw_uid == 0)
        user = getpwnam("nobody");
    if (user == NULL || user->pw_uid == 0)
        return err_set(err, ERR_UNAVAILABLE, "no user postgres or nobody to run PostgreSQL as");
    embedded->uid = user->pw_uid;
    embedded->gid = user->pw_gid;
    return 0;
}

static int
run_initdb(struct pg_embedded *embedded, int dir_fd, struct err *err)
{
    AUTO_FREE char *path = mem_printf("%s/initdb", embedded->programs.bin_dir);
    char *const argv[] = {path,
                          "-D",
                          PG_LAUNCH_DIR,
                          "-U",
                          "oxicloud",
                          "--encoding=UTF8",
                          "--locale=C",
                          "--auth=trust",
                          "--data-checksums",
                          "--no-instructions",
                          NULL};
    AUTO_CLOSE int out_fd = memfd_create("initdb", MFD_CLOEXEC);
    struct pg_launch launch = {path,  argv, embedded->uid, embedded->gid, dir_fd, embedded->lock_fd,
                               out_fd};
    int status = -1;
    pid_t pid;

    if (out_fd < 0)
        return err_errno(err, errno, "memfd");
    if (pg_launch(&launch, &pid, err) < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0 : set_from_output(out_fd, "initdb", err);
}

/* Made aside and renamed when complete: a folder named postgres is never half a cluster. */
static int
make_cluster(struct pg_embedded *embedded, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    int storage_fd = embedded->storage_fd;

    if (choose_user(embedded, err) < 0 || remove_unfinished(embedded, err) < 0)
        return -1;
    log_info("making the private PostgreSQL: programs=%s", embedded->programs.bin_dir);
    if (mkdirat(storage_fd, "postgres.new", 0700) < 0)
        return err_errno(err, errno, "make postgres.new");
    fd = openat(storage_fd, "postgres.new", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (embedded->uid != 0 && fchown(fd, embedded->uid, embedded->gid) < 0))
        return err_errno(err, errno, "hand over postgres.new");
    if (run_initdb(embedded, fd, err) < 0)
        return -1;
    if (renameat(storage_fd, "postgres.new", storage_fd, "postgres") < 0 || fsync(storage_fd) < 0)
        return err_errno(err, errno, "rename postgres.new");
    return 0;
}

static int
find_programs(struct pg_embedded *embedded, int major, struct err *err)
{
    int newest;

    pg_programs_release(&embedded->programs);
    if (pg_programs_find(major, &embedded->programs, &newest, err) == 0)
        return 0;
    if (newest == 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "no PostgreSQL server programs found: install postgresql, or name a "
                       "database in OXICLOUD_DB_CONNECTION_STRING");
    return err_set(err, ERR_CONFLICT,
                   "<storage>/postgres was made by PostgreSQL %d, and what is installed is %d: "
                   "install postgresql-%d, or convert the folder with pg_upgrade",
                   major, newest, major);
}

/* A cluster is there: as whom and with what to run it. */
static int
look_at_cluster(struct pg_embedded *embedded, const char *version, struct err *err)
{
    struct stat info;

    if (find_programs(embedded, atoi(version), err) < 0)
        return -1;
    if (geteuid() != 0)
        return 0;
    if (fstat(embedded->dir_fd, &info) < 0)
        return err_errno(err, errno, "stat postgres");
    if (info.st_uid == 0)
        return err_set(err, ERR_CONFLICT,
                       "<storage>/postgres belongs to root, as whom PostgreSQL does not run: "
                       "chown -R postgres: it");
    embedded->uid = info.st_uid;
    embedded->gid = info.st_gid;
    return 0;
}

/* Finds the cluster or makes it; an empty folder in its place is fine. */
static int
prepare_cluster(struct pg_embedded *embedded, struct err *err)
{
    char version[16];

    if (open_dir(embedded) < 0 && errno != ENOENT)
        return err_errno(err, errno, "open postgres");
    if (embedded->dir_fd >= 0 &&
        read_small(embedded->dir_fd, "PG_VERSION", version, sizeof(version)))
        return look_at_cluster(embedded, version, err);
    if (embedded->dir_fd >= 0) {
        (void)close(TAKE_FD(embedded->dir_fd));
        if (unlinkat(embedded->storage_fd, "postgres", AT_REMOVEDIR) < 0)
            return err_set(err, ERR_CONFLICT,
                           "<storage>/postgres has no PostgreSQL data and cannot be replaced: %s",
                           errno == ENOTEMPTY ? "it is not empty" : strerrordesc_np(errno));
    }
    if (find_programs(embedded, 0, err) < 0 || make_cluster(embedded, err) < 0)
        return -1;
    return open_dir(embedded) < 0 ? err_errno(err, errno, "open postgres") : 0;
}

/* --- running --- */

/*
 * We hold the lock, so no server uses this folder. If the process that a lock file names is
 * there all the same, its number was given to somebody else (as happens in containers, where
 * everything starts from 1) or nobody has waited for its end, and PostgreSQL would refuse to
 * start. One that runs in this very folder is a server somebody started by hand: it is left to
 * PostgreSQL to refuse.
 */
static void
remove_stale_pid(struct pg_embedded *embedded, const char *name)
{
    AUTO_FREE char *cwd = NULL;
    char text[32];
    struct stat theirs, ours;
    pid_t pid;

    if (!read_small(embedded->dir_fd, name, text, sizeof(text)))
        return;
    pid = (pid_t)atol(text);
    if (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH) || fstat(embedded->dir_fd, &ours) < 0)
        return;
    cwd = mem_printf("/proc/%ld/cwd", (long)pid);
    if (stat(cwd, &theirs) == 0 ? theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino
                                : errno != ENOENT)
        return;
    (void)unlinkat(embedded->dir_fd, name, 0); /* or the server says why not */
}

static int
open_log(struct pg_embedded *embedded, struct err *err)
{
    if (embedded->log_fd >= 0)
        return 0;
    embedded->log_fd = openat(embedded->dir_fd, "server.log",
                              O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (embedded->log_fd < 0 ||
        (embedded->uid != 0 && fchown(embedded->log_fd, embedded->uid, embedded->gid) < 0))
        return err_errno(err, errno, "open server.log");
    return 0;
}

static int
launch_server(struct pg_embedded *embedded, struct err *err)
{
    AUTO_FREE char *path = mem_printf("%s/postgres", embedded->programs.bin_dir);
    char *const argv[] = {path,
                          "-D",
                          PG_LAUNCH_DIR,
                          "-c",
                          "listen_addresses=",
                          "-c",
                          "port=5432",
                          "-c",
                          "unix_socket_directories=" PG_LAUNCH_DIR,
                          "-c",
                          "unix_socket_permissions=0700",
                          "-c",
                          "max_connections=120",
                          "-c",
                          "shared_buffers=128MB",
                          "-c",
                          "jit=off",
                          "-c",
                          "fsync=on",
                          "-c",
                          "synchronous_commit=on",
                          "-c",
                          "full_page_writes=on",
                          "-c",
                          "wal_compression=on",
                          "-c",
                          "logging_collector=off",
                          "-c",
                          "log_destination=stderr",
                          "-c",
                          "log_checkpoints=off",
                          "-c",
                          "log_min_error_statement=panic",
                          NULL};
    struct pg_launch launch = {
        path, argv, embedded->uid, embedded->gid, embedded->dir_fd, embedded->lock_fd, -1};

    if (open_log(embedded, err) < 0)
        return -1;
    launch.out_fd = embedded->log_fd;
    remove_stale_pid(embedded, "postmaster.pid");
    remove_stale_pid(embedded, ".s.PGSQL.5432.lock");
    return pg_launch(&launch, &embedded->pid, err);
}

static bool
has_ended(struct pg_embedded *embedded)
{
    if (embedded->pid != 0 && waitpid(embedded->pid, NULL, WNOHANG) != 0)
        embedded->pid = 0;
    return embedded->pid == 0;
}

static bool
connects(const char *conninfo, struct err *ret_why)
{
    struct pg_conn *conn = NULL;

    if (pg_connect(conninfo, &conn, ret_why) < 0)
        return false;
    pg_close(conn);
    return true;
}

static bool
answers(const char *conninfo)
{
    struct err ignored = {0}; /* it does not, then */

    return connects(conninfo, &ignored);
}

/* And will go on doing so, as on a full disk. Not: "the database system is starting up", "... is
 * in recovery mode", "... is not yet accepting connections". Our clusters speak English. */
static bool
is_refused(const struct err *why)
{
    return strstr(why->msg, "FATAL:") != NULL && strstr(why->msg, "database system is ") == NULL;
}

static int
wait_until_ready(struct pg_embedded *embedded, struct err *err)
{
    int64_t until_us = clock_mono_us() + READY_WAIT_MS * INT64_C(1000);
    int64_t welcome_us = clock_mono_us(); /* when it had not said no yet */
    struct err why = {0};

    while (!connects(embedded->first_conninfo, &why)) {
        int64_t now_us = clock_mono_us();

        if (has_ended(embedded))
            return set_from_output(embedded->log_fd, "postgres ended", err);
        if (!is_refused(&why))
            welcome_us = now_us;
        if (now_us >= until_us || now_us - welcome_us >= REFUSED_WAIT_MS * INT64_C(1000)) {
            (void)set_from_output(embedded->log_fd, "postgres does not answer", err);
            return err_set(err, ERR_UNAVAILABLE, "postgres does not answer: %.180s", why.msg);
        }
        sleep_ms(POLL_MS);
    }
    return 0;
}

static const char SQL_DATABASE[] = "select 1 from pg_database where datname = 'oxicloud'";
static const char SQL_CREATE[] = "create database oxicloud";

static int
make_database(struct pg_embedded *embedded, struct err *err)
{
    AUTO_ROWS struct pg_rows *rows = NULL;
    struct pg_conn *conn = NULL;
    int result;

    if (pg_connect(embedded->first_conninfo, &conn, err) < 0)
        return -1;
    result = pg_run(conn, SQL_DATABASE, NULL, &rows, err);
    if (result == 0 && pg_count(rows) == 0)
        result = pg_script(conn, SQL_CREATE, err);
    pg_close(conn);
    return result;
}

static int
run_owned(struct pg_embedded *embedded, struct err *err)
{
    if (prepare_cluster(embedded, err) < 0 || launch_server(embedded, err) < 0 ||
        wait_until_ready(embedded, err) < 0 || make_database(embedded, err) < 0)
        return err_wrap(err, "private PostgreSQL");
    log_info("private PostgreSQL runs: version=%d pid=%ld", embedded->programs.major,
             (long)embedded->pid);
    return 0;
}

/* --- who owns it --- */

static struct flock
owner_byte(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}

/* 1: we own it now. 0: somebody has the lock. */
static int
try_own(struct pg_embedded *embedded, struct err *err)
{
    struct flock mark = owner_byte();

    if (flock(embedded->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK || errno == EINTR ? 0
                                                      : err_errno(err, errno, "lock postgres.lock");
    if (fcntl(embedded->owner_fd, F_OFD_SETLK, &mark) < 0)
        return err_errno(err, errno, "mark postgres.lock");
    embedded->is_owner = true;
    return 1;
}

static bool
has_owner(const struct pg_embedded *embedded)
{
    struct flock mark = owner_byte();

    return fcntl(embedded->owner_fd, F_OFD_GETLK, &mark) == 0 && mark.l_type != F_UNLCK;
}

static int
own_or_join(struct pg_embedded *embedded, struct err *err)
{
    int64_t until_us = clock_mono_us() + OWNER_WAIT_MS * INT64_C(1000);

    for (;;) {
        int owned = try_own(embedded, err);

        if (owned != 0)
            return owned < 0 ? -1 : run_owned(embedded, err);
        if (has_owner(embedded) && open_dir(embedded) == 0 && answers(embedded->conninfo))
            return 0;
        if (clock_mono_us() >= until_us)
            return err_set(
                err, ERR_UNAVAILABLE,
                has_owner(embedded)
                    ? "another process owns the private PostgreSQL, which does not answer"
                    : "a private PostgreSQL left behind does not end");
        sleep_ms(POLL_MS);
    }
}

/* --- the object --- */

static int
open_files(struct pg_embedded *embedded, const char *storage_path, struct err *err)
{
    static const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;

    if (fs_mkdir_p(storage_path, 0750, err) < 0)
        return -1;
    embedded->storage_fd = open(storage_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (embedded->storage_fd < 0)
        return err_errno(err, errno, "open %s", storage_path);
    embedded->lock_fd = openat(embedded->storage_fd, "postgres.lock", flags, 0600);
    embedded->owner_fd = openat(embedded->storage_fd, "postgres.lock", flags, 0600);
    if (embedded->lock_fd < 0 || embedded->owner_fd < 0)
        return err_errno(err, errno, "open %s/postgres.lock", storage_path);
    return 0;
}

int
pg_embedded_start(const char *storage_path, struct pg_embedded **ret_embedded, struct err *err)
{
    struct pg_embedded *embedded = mem_zalloc(sizeof(*embedded));

    embedded->storage_fd = embedded->lock_fd = embedded->owner_fd = -1;
    embedded->dir_fd = embedded->log_fd = -1;
    if (open_files(embedded, storage_path, err) < 0 || own_or_join(embedded, err) < 0) {
        pg_embedded_stop(embedded);
        return -1;
    }
    *ret_embedded = embedded;
    return 0;
}

static bool
end_server(struct pg_embedded *embedded, int signal_number, int64_t wait_ms)
{
    int64_t until_us = clock_mono_us() + wait_ms * 1000;

    if (has_ended(embedded))
        return true;
    (void)kill(embedded->pid, signal_number); /* our child, not yet waited for: it is there */
    while (!has_ended(embedded)) {
        if (clock_mono_us() >= until_us)
            return false;
        sleep_ms(POLL_MS);
    }
    return true;
}

static void
close_files(const struct pg_embedded *embedded)
{
    const int fds[] = {embedded->log_fd, embedded->dir_fd, embedded->owner_fd, embedded->lock_fd,
                       embedded->storage_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

void
pg_embedded_stop(struct pg_embedded *embedded)
{
    if (embedded == NULL)
        return;
    if (!end_server(embedded, SIGINT, STOP_WAIT_MS)) {
        log_warn("private PostgreSQL is slow to stop and is stopped at once");
        if (!end_server(embedded, SIGQUIT, KILL_WAIT_MS))
            (void)end_server(embedded, SIGKILL, KILL_WAIT_MS);
    }
    close_files(embedded);
    pg_programs_release(&embedded->programs);
    free(embedded);
}

const char *
pg_embedded_conninfo(const struct pg_embedded *embedded)
{
    return embedded->conninfo;
}

static void
bound_log(struct pg_embedded *embedded)
{
    struct stat info;

    if (embedded->log_fd >= 0 && fstat(embedded->log_fd, &info) == 0 &&
        info.st_size > LOG_MAX_BYTES && ftruncate(embedded->log_fd, 0) < 0)
        log_warn("cannot shorten server.log: errno=%d", errno);
}

int
pg_embedded_check(struct pg_embedded *embedded, struct err *err)
{
    if (!embedded->is_owner) { /* a guest inherits when the owner is gone */
        int owned = try_own(embedded, err);

        if (owned <= 0)
            return owned;
        log_warn("the owner of the private PostgreSQL is gone: taking over");
    }
    if (embedded->programs.bin_dir == NULL || embedded->dir_fd < 0)
        return run_owned(embedded, err);
    bound_log(embedded);
    if (!has_ended(embedded))
        return 0;
    (void)set_from_output(embedded->log_fd, "private PostgreSQL ended", err);
    log_warn("private PostgreSQL is started again");
    *err = (struct err){0};
    return launch_server(embedded, err);
}
