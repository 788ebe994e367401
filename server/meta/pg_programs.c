#include "meta/pg_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

/* --- finding --- */

static bool
has_programs(const char *bin_dir)
{
    AUTO_FREE char *server = mem_printf("%s/postgres", bin_dir);
    AUTO_FREE char *initdb = mem_printf("%s/initdb", bin_dir);

    return access(server, X_OK) == 0 && access(initdb, X_OK) == 0;
}

/* "postgres (PostgreSQL) 15.20 (Debian ...)": 15; anything else: 0. */
static int
parse_version(const char *line)
{
    const char *number = strstr(line, "(PostgreSQL) ");

    return number == NULL ? 0 : atoi(number + strlen("(PostgreSQL) "));
}

/* What "postgres -V" says, or 0. */
static int
ask_version(const char *bin_dir)
{
    AUTO_FREE char *path = mem_printf("%s/postgres", bin_dir);
    char *const argv[] = {path, "-V", NULL};
    AUTO_CLOSE int read_fd = -1;
    AUTO_CLOSE int write_fd = -1;
    struct pg_launch launch = {path, argv, 0, 0, -1, -1, -1};
    struct err ignored = {0}; /* it is not usable, then */
    char line[128];
    ssize_t len;
    pid_t pid;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return 0;
    read_fd = fds[0];
    launch.out_fd = write_fd = fds[1];
    if (pg_launch(&launch, &pid, &ignored) < 0)
        return 0;
    (void)close(TAKE_FD(write_fd));
    len = read(read_fd, line, sizeof(line) - 1);
    (void)waitpid(pid, NULL, 0);
    line[len > 0 ? len : 0] = '\0';
    return parse_version(line);
}

struct finding {
    int wanted;    /* 0: any */
    int newest;    /* of all that was seen */
    int best;      /* newest of those wanted; 0: none */
    char *bin_dir; /* of that */
};

static void
consider(struct finding *finding, const char *bin_dir, int major)
{
    if (major > finding->newest)
        finding->newest = major;
    if (major <= finding->best || (finding->wanted != 0 && major != finding->wanted))
        return;
    free(finding->bin_dir);
    finding->bin_dir = mem_strdup(bin_dir);
    finding->best = major;
}

/* Folders whose name tells the version: "<before><major>/bin". */
static void
look_in_places(struct finding *finding)
{
    static const char *const places[] = {"/usr/lib/postgresql/", "/usr/pgsql-"};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        AUTO_FREE char *pattern = mem_printf("%s*/bin", places[i]);
        glob_t found = {0};

        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t j = 0; j < found.gl_pathc; j++)
                if (has_programs(found.gl_pathv[j]))
                    consider(finding, found.gl_pathv[j],
                             atoi(found.gl_pathv[j] + strlen(places[i])));
        globfree(&found);
    }
}

static void
look_in_path(struct finding *finding)
{
    AUTO_FREE char *dirs = mem_strdup(getenv("PATH") == NULL ? "" : getenv("PATH"));
    char *rest = dirs;
    char *dir;

    while ((dir = strsep(&rest, ":")) != NULL)
        if (dir[0] == '/' && has_programs(dir))
            consider(finding, dir, ask_version(dir));
}

int
pg_programs_find(int major, struct pg_programs *ret_programs, int *ret_newest, struct err *err)
{
    struct finding finding = {.wanted = major};

    look_in_places(&finding);
    if (finding.best == 0)
        look_in_path(&finding);
    *ret_newest = finding.newest;
    if (finding.best == 0)
        return err_set(err, ERR_NOT_FOUND, "no PostgreSQL server programs found");
    ret_programs->bin_dir = finding.bin_dir;
    ret_programs->major = finding.best;
    return 0;
}

void
pg_programs_release(struct pg_programs *programs)
{
    free(TAKE(programs->bin_dir));
}

/* --- starting --- */

enum { DIR_FD = 3, LOCK_FD = 4, REPORT_FD = 5, SPARE_FD = 20 };

/* What the child tells when it could not become the program. */
struct report {
    int errnum;
    char step[24];
};

/*
 * From here to exec only what is safe after fork() in a process with threads: no allocation, no
 * locks. The calls that change the user are made without the library, which would ask the other
 * threads, of which there are none here, to do the same.
 */
static _Noreturn void
give_up(int report_fd, const char *step)
{
    struct report report = {.errnum = errno};

    for (size_t i = 0; i < sizeof(report.step) - 1 && step[i] != '\0'; i++)
        report.step[i] = step[i];
    (void)!write(report_fd, &report, sizeof(report)); /* nobody is left to tell */
    _exit(127);
}

static void
reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL); /* some cannot be changed, and need not */
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* First out of the way, then each to its place. */
static bool
place_files(const struct pg_launch *launch, int *report_fd)
{
    int null_fd = open("/dev/null", O_RDONLY);
    int from[] = {null_fd,        launch->out_fd,  launch->out_fd,
                  launch->dir_fd, launch->lock_fd, *report_fd};

    for (int i = 0; i <= REPORT_FD; i++)
        if (from[i] >= 0 && (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, SPARE_FD)) < 0)
            return false;
    for (int i = 0; i <= REPORT_FD; i++) {
        if (from[i] < 0)
            (void)close(i);
        else if (dup2(from[i], i) < 0)
            return false;
    }
    *report_fd = REPORT_FD;
    return fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC) == 0 && close_range(REPORT_FD + 1, ~0U, 0) == 0;
}

static bool
become_user(const struct pg_launch *launch)
{
    gid_t gid = launch->gid;

    return syscall(SYS_setgroups, 1, &gid) == 0 && syscall(SYS_setresgid, gid, gid, gid) == 0 &&
           syscall(SYS_setresuid, launch->uid, launch->uid, launch->uid) == 0;
}

static _Noreturn void
run_child(const struct pg_launch *launch, int report_fd, pid_t parent)
{
    static char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", NULL};

    reset_signals();
    (void)setsid(); /* a Ctrl-C is for us, not for it */
    umask(077);
    if (!place_files(launch, &report_fd))
        give_up(report_fd, "hand over files");
    if (chdir("/") < 0)
        give_up(report_fd, "change to /");
    if (launch->uid != 0 && !become_user(launch))
        give_up(report_fd, "change user");
    /* After the change of user, which forgets it. The parent may have died before. */
    if (prctl(PR_SET_PDEATHSIG, SIGINT) < 0)
        give_up(report_fd, "follow parent");
    if (getppid() != parent)
        _exit(127);
    execve(launch->path, launch->argv, environment);
    give_up(report_fd, "execute");
}

int
pg_launch(const struct pg_launch *launch, pid_t *ret_pid, struct err *err)
{
    AUTO_CLOSE int read_fd = -1;
    pid_t parent = getpid();
    struct report report;
    ssize_t len;
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe");
    read_fd = fds[0];
    pid = fork();
    if (pid == 0)
        run_child(launch, fds[1], parent);
    (void)close(fds[1]);
    if (pid < 0)
        return err_errno(err, errno, "fork");
    while ((len = read(read_fd, &report, sizeof(report))) < 0 && errno == EINTR)
        continue;
    if (len == (ssize_t)sizeof(report)) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        return err_errno(err, report.errnum, "start %s: %s", launch->path, report.step);
    }
    *ret_pid = pid;
    return 0;
}
