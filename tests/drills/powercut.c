/*
 * powercut: stands in front of the C library (LD_PRELOAD) and notes what a power cut would take
 * of the files below a folder. It changes nothing that the program sees. After the program was
 * killed, powercut.py reads the journal and forgets what was not synced.
 *
 *   POWERCUT_ROOT     the folder; it is there, whatever happens
 *   POWERCUT_JOURNAL  outside of it; several processes may append to one
 *   POWERCUT_GRAVES   a folder that keeps what was unlinked, because a cut may bring it back
 *
 * A line of the journal is one write, so its order is the order of events:
 *
 *   C path       created            M path   a folder was made
 *   W path       written or cut to a length, after that was done
 *   U path copy  unlinked           R from to
 *   B id F path  sync of a file begins; B id D path: of a folder
 *   E id         that sync returned well: what was done before its B is durable
 *
 * sync_file_range() is not looked at: it makes nothing durable.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static char graves[PATH_MAX];
static size_t root_len;
static int journal_fd = -1;
static atomic_ulong counter;

__attribute__((constructor)) static void
start(void)
{
    const char *path = getenv("POWERCUT_JOURNAL");

    if (path == NULL || getenv("POWERCUT_ROOT") == NULL || getenv("POWERCUT_GRAVES") == NULL)
        return;
    root_len = (size_t)snprintf(root, sizeof(root), "%s", getenv("POWERCUT_ROOT"));
    snprintf(graves, sizeof(graves), "%s", getenv("POWERCUT_GRAVES"));
    journal_fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal_fd < 0)
        abort();
}

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
note(const char *fmt, ...)
{
    char line[2 * PATH_MAX + 64];
    int saved = errno;
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (syscall(SYS_write, journal_fd, line, len) != len)
        abort();
    errno = saved;
}

/* ---- which file ----------------------------------------------------------------------------- */

static bool
is_below(const char *path)
{
    return journal_fd >= 0 && strncmp(path, root, root_len) == 0 &&
           (path[root_len] == '/' || path[root_len] == '\0');
}

static bool
path_of_fd(int fd, char path[PATH_MAX])
{
    char link[64];
    int saved = errno;
    ssize_t len;

    if (journal_fd < 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, PATH_MAX - 1);
    errno = saved;
    if (len < 0)
        return false;
    path[len] = '\0';
    return is_below(path);
}

static bool
path_at(int at_fd, const char *name, char path[PATH_MAX])
{
    char folder[PATH_MAX];

    if (journal_fd < 0)
        return false;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else if (at_fd == AT_FDCWD) {
        if (getcwd(folder, sizeof(folder)) == NULL ||
            snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
            return false;
    } else {
        if (!path_of_fd(at_fd, folder) ||
            snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
            return false;
    }
    return is_below(path) && path[root_len] == '/'; /* not the folder itself */
}

/* ---- open ----------------------------------------------------------------------------------- */

static int
open_noted(int at_fd, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    bool noted = (flags & O_CREAT) && path_at(at_fd, name, path);
    bool is_new = noted && syscall(SYS_faccessat, at_fd, name, F_OK) < 0;
    int fd = (int)syscall(SYS_openat, at_fd, name, flags, mode);

    if (fd >= 0 && is_new)
        note("C %s\n", path);
    else if (fd >= 0 && (flags & O_TRUNC) && path_at(at_fd, name, path))
        note("W %s\n", path);
    return fd;
}

static mode_t
mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define DEFINE_OPEN(function)                                                                      \
    int function(const char *name, int flags, ...)                                                 \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_noted(AT_FDCWD, name, flags, mode);                                            \
    }

#define DEFINE_OPENAT(function)                                                                    \
    int function(int at_fd, const char *name, int flags, ...)                                      \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_noted(at_fd, name, flags, mode);                                               \
    }

int __open_2(const char *name, int flags);
int __open64_2(const char *name, int flags);
int __openat_2(int at_fd, const char *name, int flags);
int __openat64_2(int at_fd, const char *name, int flags);

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int
__open_2(const char *name, int flags)
{
    return open_noted(AT_FDCWD, name, flags, 0);
}

int
__open64_2(const char *name, int flags)
{
    return open_noted(AT_FDCWD, name, flags, 0);
}

int
__openat_2(int at_fd, const char *name, int flags)
{
    return open_noted(at_fd, name, flags, 0);
}

int
__openat64_2(int at_fd, const char *name, int flags)
{
    return open_noted(at_fd, name, flags, 0);
}

int
creat(const char *name, mode_t mode)
{
    return open_noted(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* ---- write ---------------------------------------------------------------------------------- */

static ssize_t
written(int fd, ssize_t done)
{
    char path[PATH_MAX];

    if (done >= 0 && path_of_fd(fd, path))
        note("W %s\n", path);
    return done;
}

ssize_t
write(int fd, const void *data, size_t len)
{
    return written(fd, syscall(SYS_write, fd, data, len));
}

ssize_t
pwrite(int fd, const void *data, size_t len, off_t off)
{
    return written(fd, syscall(SYS_pwrite64, fd, data, len, off));
}

ssize_t
pwrite64(int fd, const void *data, size_t len, off_t off)
{
    return pwrite(fd, data, len, off);
}

ssize_t
writev(int fd, const struct iovec *parts, int count)
{
    return written(fd, syscall(SYS_writev, fd, parts, count));
}

int
ftruncate(int fd, off_t len)
{
    return (int)written(fd, syscall(SYS_ftruncate, fd, len));
}

int
ftruncate64(int fd, off_t len)
{
    return ftruncate(fd, len);
}

/* ---- sync ----------------------------------------------------------------------------------- */

static int
sync_noted(long call, int fd)
{
    unsigned long id = atomic_fetch_add(&counter, 1);
    char path[PATH_MAX];
    struct stat st;
    bool noted = path_of_fd(fd, path) && fstat(fd, &st) == 0;
    int rc;

    if (noted)
        note("B %d.%lu %c %s\n", (int)getpid(), id, S_ISDIR(st.st_mode) ? 'D' : 'F', path);
    rc = (int)syscall(call, fd);
    if (noted && rc == 0)
        note("E %d.%lu\n", (int)getpid(), id);
    return rc;
}

int
fsync(int fd)
{
    return sync_noted(SYS_fsync, fd);
}

int
fdatasync(int fd)
{
    return sync_noted(SYS_fdatasync, fd);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* A copy and not a link: the program may look at the link count. */
static void
bury(int at_fd, const char *name, char grave[PATH_MAX])
{
    static _Thread_local char block[1 << 16];
    int from = (int)syscall(SYS_openat, at_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    int to;
    ssize_t len;

    snprintf(grave, PATH_MAX, "%.3000s/%d.%lu", graves, (int)getpid(),
             atomic_fetch_add(&counter, 1));
    to = (int)syscall(SYS_openat, AT_FDCWD, grave, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    while (from >= 0 && to >= 0 && (len = read(from, block, sizeof(block))) > 0)
        if (syscall(SYS_write, to, block, len) != len)
            abort();
    if (from >= 0)
        (void)close(from);
    if (to >= 0)
        (void)close(to);
}

static int
unlink_noted(int at_fd, const char *name, int flags)
{
    char path[PATH_MAX], grave[PATH_MAX];
    bool noted = path_at(at_fd, name, path);
    int rc;

    if (noted && !(flags & AT_REMOVEDIR))
        bury(at_fd, name, grave);
    rc = (int)syscall(SYS_unlinkat, at_fd, name, flags);
    if (noted && rc == 0 && !(flags & AT_REMOVEDIR))
        note("U %s %s\n", path, grave);
    return rc;
}

int
unlink(const char *name)
{
    return unlink_noted(AT_FDCWD, name, 0);
}

int
unlinkat(int at_fd, const char *name, int flags)
{
    return unlink_noted(at_fd, name, flags);
}

static int
rename_noted(int from_fd, const char *from, int to_fd, const char *to)
{
    char from_path[PATH_MAX], to_path[PATH_MAX];
    bool noted = path_at(from_fd, from, from_path) && path_at(to_fd, to, to_path);
    int rc = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);

    if (noted && rc == 0)
        note("R %s %s\n", from_path, to_path);
    return rc;
}

int
rename(const char *from, const char *to)
{
    return rename_noted(AT_FDCWD, from, AT_FDCWD, to);
}

int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return rename_noted(from_fd, from, to_fd, to);
}

static int
mkdir_noted(int at_fd, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    int rc = (int)syscall(SYS_mkdirat, at_fd, name, mode);

    if (rc == 0 && path_at(at_fd, name, path))
        note("M %s\n", path);
    return rc;
}

int
mkdir(const char *name, mode_t mode)
{
    return mkdir_noted(AT_FDCWD, name, mode);
}

int
mkdirat(int at_fd, const char *name, mode_t mode)
{
    return mkdir_noted(at_fd, name, mode);
}
