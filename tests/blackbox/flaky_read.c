/* Preloaded: the first FLAKY_READS reads of blobs come with a flipped bit, as from a bad cable. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int flipped;

static int
is_blob(int fd)
{
    char link[64], path[4096];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    return len > 5 && memcmp(path + len - 5, ".blob", 5) == 0;
}

static ssize_t
read_flaky(int fd, void *dst, size_t len, off64_t off)
{
    static ssize_t (*real)(int fd, void *dst, size_t len, off64_t off);
    const char *reads = getenv("FLAKY_READS");
    ssize_t got;

    if (!real)
        real = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    got = real(fd, dst, len, off);
    if (got > 0 && reads && is_blob(fd) && atomic_fetch_add(&flipped, 1) < atoi(reads))
        ((char *)dst)[got / 2] ^= 1;
    return got;
}

ssize_t
pread64(int fd, void *dst, size_t len, off64_t off)
{
    return read_flaky(fd, dst, len, off);
}

#undef pread
ssize_t
pread(int fd, void *dst, size_t len, off_t off)
{
    return read_flaky(fd, dst, len, off);
}

ssize_t
__pread64_chk(int fd, void *dst, size_t len, off64_t off, size_t room)
{
    (void)room;
    return read_flaky(fd, dst, len, off);
}

ssize_t
__pread_chk(int fd, void *dst, size_t len, off_t off, size_t room)
{
    (void)room;
    return read_flaky(fd, dst, len, off);
}
