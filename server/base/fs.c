#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"

int
fs_write_all(int fd, const void *data, size_t len, struct err *err)
{
    const char *at = data;

    while (len > 0) {
        ssize_t done = write(fd, at, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_errno(err, errno, "write");
        if (done == 0)
            return err_set(err, ERR_IO, "write: nothing was taken");
        at += done;
        len -= (size_t)done;
    }
    return 0;
}

int
fs_pread_all(int fd, void *dst, size_t len, uint64_t off, struct err *err)
{
    char *at = dst;
    uint64_t end;

    if (__builtin_add_overflow(off, (uint64_t)len, &end) || end > INT64_MAX)
        return err_set(err, ERR_INVALID, "read: offset %" PRIu64 " is out of range", off);
    while (off < end) {
        ssize_t done = pread(fd, at, (size_t)(end - off), (off_t)off);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_errno(err, errno, "read");
        if (done == 0)
            return err_set(err, ERR_CORRUPT, "read: ends at %" PRIu64 " instead of %" PRIu64, off,
                           end);
        at += done;
        off += (uint64_t)done;
    }
    return 0;
}

/* The directory a path lies in; freed by the caller. */
static char *
parent_of(const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len == 0 ? mem_strdup(".") : mem_strndup(path, len);
}

/* A new directory is synced into its parent: what is stored below it must not go with it. */
static int
make_dir(const char *path, mode_t mode, struct err *err)
{
    AUTO_FREE char *parent = NULL;
    struct stat st;

    if (mkdir(path, mode) == 0) {
        parent = parent_of(path);
        return fs_sync_dir(parent, err);
    }
    if (errno != EEXIST) {
        int errnum = errno;

        /* "/mnt" on a read-only root is refused before it is found to exist. */
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            return 0;
        return err_errno(err, errnum, "make directory %s", path);
    }
    if (stat(path, &st) < 0)
        return err_errno(err, errno, "make directory %s", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_EXISTS, "make directory %s: something else has this name", path);
    return 0;
}

int
fs_mkdir_p(const char *path, mode_t mode, struct err *err)
{
    AUTO_FREE char *work = mem_strdup(path);

    if (*work == 0)
        return err_set(err, ERR_INVALID, "make directory: the path is empty");
    for (char *p = work + 1; *p; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = 0;
        if (make_dir(work, mode, err) < 0)
            return -1;
        *p = '/';
    }
    return make_dir(work, mode, err);
}

int
fs_sync_dir(const char *path, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, errno, "open directory %s", path);
    if (fsync(fd) < 0)
        return err_errno(err, errno, "sync directory %s", path);
    return 0;
}

/* The mode is what was asked for, whatever the umask; secrets are never open for a moment. */
static int
fill_file(int fd, const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    if (fs_write_all(fd, data, len, err) < 0)
        return err_wrap(err, "%s", path);
    if (fchmod(fd, mode) < 0)
        return err_errno(err, errno, "set mode of %s", path);
    if (fsync(fd) < 0)
        return err_errno(err, errno, "sync %s", path);
    return 0;
}

int
fs_write_file(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    AUTO_FREE char *aside = mem_printf("%s.%016" PRIx64 ".tmp", path, rand_u64());
    AUTO_FREE char *parent = parent_of(path);
    AUTO_CLOSE int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_errno(err, errno, "create %s", aside);
    if (fill_file(fd, aside, data, len, mode, err) < 0)
        goto failed;
    if (rename(aside, path) < 0) {
        err_errno(err, errno, "rename %s into place", aside);
        goto failed;
    }
    return fs_sync_dir(parent, err);

failed:
    (void)unlink(aside); /* the first error is the one to report */
    return -1;
}

int
fs_read_file(const char *path, size_t max, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char block[16384];
    size_t left = max;

    if (fd < 0)
        return err_errno(err, errno, "open %s", path);
    for (;;) {
        ssize_t done = read(fd, block, sizeof(block));

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_errno(err, errno, "read %s", path);
        if (done == 0)
            break;
        if ((size_t)done > left)
            return err_set(err, ERR_TOO_LARGE, "read %s: more than %zu bytes", path, max);
        left -= (size_t)done;
        buf_add(out, block, (size_t)done);
    }
    if (buf_check(out, err) < 0)
        return err_wrap(err, "read %s", path);
    return 0;
}

/* What a file system keeps back for root counts for root only. */
int
fs_free_bytes(const char *path, uint64_t *ret_bytes, struct err *err)
{
    struct statvfs st;
    uint64_t blocks;
    uint64_t bytes;

    if (statvfs(path, &st) < 0)
        return err_errno(err, errno, "ask for free space of %s", path);
    blocks = geteuid() == 0 ? st.f_bfree : st.f_bavail;
    if (__builtin_mul_overflow(blocks, (uint64_t)st.f_frsize, &bytes))
        bytes = UINT64_MAX;
    *ret_bytes = bytes;
    return 0;
}
