/*
 * Durability in three steps: put() starts the write-out and waits for nothing; sync() opens each
 * blob again by its name, so that a blob somebody swept is noticed, and waits for its bytes; then
 * each prefix folder is synced once, so that the names are there too. A write-out that failed in
 * between is reported to the first descriptor opened after it, which is the one of sync().
 *
 * The 256 prefix folders stay open for the life of the backend: no path is ever walked. So all
 * uploads share their descriptors, and the kernel tells a failure to one call only. That is why
 * the syncs of one folder follow each other, each serves all who waited for it, and a failure is
 * remembered: it fails every upload that had begun before.
 */
#include "storage/blob_local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"

enum {
    PREFIX_COUNT = 256,
    SYNCS_AT_ONCE = 16,
    FOLDER_MODE = 0750,
    BLOB_MODE = 0640,
    FORGET_ALIGN = 64 << 10, /* a multiple of every page size */
};

struct prefix {
    int fd;
    /* Under the lock of all prefixes: */
    bool is_syncing;
    uint64_t begun, ended; /* syncs */
    uint64_t failed_at;    /* the failure_count that the last failure made; 0: none */
    int failure;           /* its errno */
};

struct blob_local {
    struct blob_backend base;
    struct workers *workers;
    int root_fd; /* <root>/.blobs */
    struct prefix prefixes[PREFIX_COUNT];

    pthread_mutex_t lock;
    pthread_cond_t synced;  /* some prefix */
    uint64_t failure_count; /* of syncs of prefixes, so far */
};

static struct blob_local *
local_of(struct blob_backend *be)
{
    return (struct blob_local *)be;
}

static int
prefix_fd(struct blob_local *local, const struct blob_key *key)
{
    return local->prefixes[key->id.bytes[0]].fd;
}

/* What a disk says is about the disk, never about what a client asked for. */
static int
disk_trouble(struct err *err)
{
    switch (err->code) {
    case ERR_QUOTA:
    case ERR_BUSY:
    case ERR_UNAVAILABLE: break;
    default: err->code = ERR_IO;
    }
    return -1;
}

static int
fail(struct err *err, int errnum, const char *what, const char *name)
{
    (void)err_errno(err, errnum, "%s blob %s", what, name);
    return disk_trouble(err);
}

/* EEXIST and ENOENT are left to the caller: they mean something different in each call. */
static int
open_blob(struct blob_local *local, const struct blob_key *key, int flags)
{
    char name[BLOB_NAME_SIZE];
    int fd;

    blob_name(name, key);
    do
        fd = openat(prefix_fd(local, key), name, flags | O_CLOEXEC | O_NOFOLLOW, BLOB_MODE);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Starts the write-out. Where a file system has no such thing, sync() does all of the work. */
static int
start_write_out(int fd, size_t len, const char *name, struct err *err)
{
    if (FAULT_CALL("blob.put.start", sync_file_range(fd, 0, (off_t)len, SYNC_FILE_RANGE_WRITE)) ==
        0)
        return 0;
    if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE)
        return 0;
    return fail(err, errno, "write out", name);
}

static int
fill_and_close(int fd, const void *data, size_t len, const char *name, struct err *err)
{
    int rc = 0;

    if (FAULT_TORN("blob.put.write", fd, data, len)) {
        rc = fail(err, errno, "write", name);
    } else if (fs_write_all(fd, data, len, err) < 0) {
        (void)err_wrap(err, "put blob %s", name);
        rc = disk_trouble(err);
    } else {
        rc = start_write_out(fd, len, name, err);
    }
    if (close(fd) < 0 && rc == 0)
        rc = fail(err, errno, "close", name);
    return rc;
}

static int
local_put(struct blob_backend *be, const struct blob_key *key, const void *data, size_t len,
          struct err *err)
{
    struct blob_local *local = local_of(be);
    char name[BLOB_NAME_SIZE];
    int fd = FAULT_CALL("blob.put.create", open_blob(local, key, O_CREAT | O_EXCL | O_WRONLY));

    blob_name(name, key);
    if (fd < 0 && errno == EEXIST)
        return err_set(err, ERR_EXISTS, "put blob %s: it exists", name);
    if (fd < 0)
        return fail(err, errno, "create", name);
    if (fill_and_close(fd, data, len, name, err) < 0) {
        (void)unlinkat(prefix_fd(local, key), name, 0); /* the first failure is the one to tell */
        return -1;
    }
    return 0;
}

/* Many syncs side by side; the first error wins. */
struct sync_run {
    struct blob_local *local;
    const struct blob_key *keys;
    uint64_t mark;
    pthread_mutex_t lock;
    struct err err; /* under lock */
    const uint8_t *prefixes;
};

static bool
sync_failed(struct sync_run *run)
{
    LOCK_SCOPE(&run->lock);
    return run->err.code != ERR_NONE;
}

static void
sync_error(struct sync_run *run, const struct err *err)
{
    LOCK_SCOPE(&run->lock);
    if (run->err.code == ERR_NONE)
        run->err = *err;
}

static int
sync_blob(struct blob_local *local, const struct blob_key *key, struct err *err)
{
    static const struct timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    AUTO_CLOSE int fd = FAULT_CALL("blob.sync.open", open_blob(local, key, O_RDONLY));
    char name[BLOB_NAME_SIZE];
    struct stat st;

    blob_name(name, key);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_BUSY, "sync blob %s: it was swept", name);
    if (fd < 0)
        return fail(err, errno, "open", name);
    if (futimens(fd, now) < 0)
        return fail(err, errno, "touch", name);
    if (FAULT_CALL("blob.sync.file", fdatasync(fd)) < 0)
        return fail(err, errno, "sync", name);
    if (fstat(fd, &st) < 0)
        return fail(err, errno, "stat", name);
    if (st.st_nlink == 0)
        return err_set(err, ERR_BUSY, "sync blob %s: it was swept", name);
    return 0;
}

static void
sync_one_blob(void *ctx, size_t i)
{
    struct sync_run *run = ctx;
    struct err err = {0};

    if (!sync_failed(run) && sync_blob(run->local, &run->keys[i], &err) < 0)
        sync_error(run, &err);
}

/* Called locked, returns locked. */
static void
run_folder_sync(struct blob_local *local, struct prefix *prefix)
{
    int rc, errnum;

    prefix->is_syncing = true;
    prefix->begun++;
    pthread_mutex_unlock(&local->lock);
    rc = FAULT_CALL("blob.sync.folder", fsync(prefix->fd));
    errnum = errno;
    pthread_mutex_lock(&local->lock);
    prefix->is_syncing = false;
    prefix->ended++;
    if (rc < 0) {
        prefix->failed_at = ++local->failure_count;
        prefix->failure = errnum;
    }
    pthread_cond_broadcast(&local->synced);
}

/* Until a sync that began after this call is over: ours, or one that others wait for, too. Returns
 * the errno of a failure since the mark. */
static int
sync_folder(struct blob_local *local, struct prefix *prefix, uint64_t mark)
{
    LOCK_SCOPE(&local->lock);
    uint64_t wanted = prefix->begun + 1;

    while (prefix->ended < wanted) {
        if (prefix->is_syncing)
            pthread_cond_wait(&local->synced, &local->lock);
        else
            run_folder_sync(local, prefix);
    }
    return prefix->failed_at > mark ? prefix->failure : 0;
}

static void
sync_one_folder(void *ctx, size_t i)
{
    struct sync_run *run = ctx;
    struct err err = {0};
    uint8_t at = run->prefixes[i];
    int errnum;

    if (sync_failed(run))
        return;
    errnum = sync_folder(run->local, &run->local->prefixes[at], run->mark);
    if (errnum == 0)
        return;
    (void)err_errno(&err, errnum, "sync folder .blobs/%02x", at);
    (void)disk_trouble(&err);
    sync_error(run, &err);
}

static uint64_t
local_mark(struct blob_backend *be)
{
    struct blob_local *local = local_of(be);

    LOCK_SCOPE(&local->lock);
    return local->failure_count;
}

static size_t
distinct_prefixes(const struct blob_key *keys, size_t count, uint8_t prefixes[PREFIX_COUNT])
{
    bool seen[PREFIX_COUNT] = {false};
    size_t prefix_count = 0;

    for (size_t i = 0; i < count; i++) {
        uint8_t prefix = keys[i].id.bytes[0];

        if (!seen[prefix])
            prefixes[prefix_count++] = prefix;
        seen[prefix] = true;
    }
    return prefix_count;
}

static int
local_sync(struct blob_backend *be, const struct blob_key *keys, size_t count, uint64_t mark,
           struct err *err)
{
    struct blob_local *local = local_of(be);
    uint8_t prefixes[PREFIX_COUNT];
    struct sync_run run = {
        .local = local,
        .keys = keys,
        .mark = mark,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .prefixes = prefixes,
    };
    size_t prefix_count = distinct_prefixes(keys, count, prefixes);

    workers_each(local->workers, count, SYNCS_AT_ONCE, sync_one_blob, &run);
    if (!sync_failed(&run))
        workers_each(local->workers, prefix_count, SYNCS_AT_ONCE, sync_one_folder, &run);
    pthread_mutex_destroy(&run.lock);
    if (run.err.code == ERR_NONE)
        return 0;
    *err = run.err;
    return -1;
}

static int
open_to_read(struct blob_local *local, const struct blob_key *key, int *ret_fd, struct err *err)
{
    int fd = FAULT_CALL("blob.read.open", open_blob(local, key, O_RDONLY));
    char name[BLOB_NAME_SIZE];

    *ret_fd = fd;
    if (fd >= 0)
        return 0;
    blob_name(name, key);
    if (errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "read blob %s: there is none", name);
    return fail(err, errno, "open", name);
}

static int
read_open(int fd, const struct blob_key *key, uint64_t off, void *dst, size_t len, struct err *err)
{
    char name[BLOB_NAME_SIZE];

    if (FAULT_CALL("blob.read.data", 0) == 0) {
        if (fs_pread_all(fd, dst, len, off, err) == 0)
            return 0;
    } else {
        (void)err_errno(err, errno, "read");
    }
    blob_name(name, key);
    (void)err_wrap(err, "read blob %s", name);
    return err->code == ERR_CORRUPT ? -1 : disk_trouble(err);
}

static int
local_read(struct blob_backend *be, const struct blob_key *key, uint64_t off, void *dst, size_t len,
           struct err *err)
{
    AUTO_CLOSE int fd = -1;

    if (open_to_read(local_of(be), key, &fd, err) < 0)
        return -1;
    return read_open(fd, key, off, dst, len, err);
}

struct local_handle {
    struct blob_handle base;
    struct blob_key key;
    int fd;
};

static int
local_open(struct blob_backend *be, const struct blob_key *key, struct blob_handle **ret_handle,
           struct err *err)
{
    struct local_handle *handle;
    int fd;

    if (open_to_read(local_of(be), key, &fd, err) < 0)
        return -1;
    handle = mem_alloc(sizeof(*handle));
    *handle = (struct local_handle){.base.backend = be, .key = *key, .fd = fd};
    *ret_handle = &handle->base;
    return 0;
}

static int
local_read_at(struct blob_handle *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    const struct local_handle *handle = (const struct local_handle *)base;

    return read_open(handle->fd, &handle->key, off, dst, len, err);
}

/* A hint, as local_forget(). The kernel drops whole pages only, so the range grows to pages. */
static void
local_forget_at(struct blob_handle *base, uint64_t off, size_t len)
{
    uint64_t from = off / FORGET_ALIGN * FORGET_ALIGN;
    uint64_t end = (off + len + FORGET_ALIGN - 1) / FORGET_ALIGN * FORGET_ALIGN;

    (void)posix_fadvise(((const struct local_handle *)base)->fd, (off_t)from, (off_t)(end - from),
                        POSIX_FADV_DONTNEED);
}

static void
local_close(struct blob_handle *base)
{
    struct local_handle *handle = (struct local_handle *)base;

    (void)close(handle->fd);
    free(handle);
}

/* A hint: whoever reads the blob next meets the trouble and reports it. */
static void
local_forget(struct blob_backend *be, const struct blob_key *key)
{
    AUTO_CLOSE int fd = open_blob(local_of(be), key, O_RDONLY);

    if (fd >= 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int
local_stat(struct blob_backend *be, const struct blob_key *key, uint64_t *ret_stored_bytes,
           struct err *err)
{
    char name[BLOB_NAME_SIZE];
    struct stat st;

    blob_name(name, key);
    if (fstatat(prefix_fd(local_of(be), key), name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        *ret_stored_bytes = (uint64_t)st.st_size;
        return 0;
    }
    if (errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "stat blob %s: there is none", name);
    return fail(err, errno, "stat", name);
}

static int
local_remove(struct blob_backend *be, const struct blob_key *key, struct err *err)
{
    char name[BLOB_NAME_SIZE];

    blob_name(name, key);
    if (FAULT_CALL("blob.remove", unlinkat(prefix_fd(local_of(be), key), name, 0)) == 0 ||
        errno == ENOENT)
        return 0;
    return fail(err, errno, "remove", name);
}

static int
list_entry(int folder_fd, const char *name, blob_list_fn fn, void *ctx, struct err *err)
{
    struct blob_key key;
    struct stat st;

    if (blob_parse_name(name, &key) < 0)
        return 0;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail(err, errno, "stat", name); /* removed meanwhile */
    if (!S_ISREG(st.st_mode))
        return 0;
    return fn(ctx, &key, (uint64_t)st.st_size,
              (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000, err);
}

static int
folder_trouble(struct err *err, int errnum, uint8_t prefix)
{
    (void)err_errno(err, errnum, "list .blobs/%02x", prefix);
    return disk_trouble(err);
}

static int
local_list(struct blob_backend *be, uint8_t prefix, blob_list_fn fn, void *ctx, struct err *err)
{
    int folder_fd = local_of(be)->prefixes[prefix].fd;
    /* A descriptor of its own: the position in the folder belongs to this walk. */
    int fd = FAULT_CALL("blob.list", openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int rc = 0;

    if (folder == NULL) {
        rc = folder_trouble(err, errno, prefix);
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    while (errno = 0, rc == 0 && (entry = readdir(folder)) != NULL)
        rc = list_entry(folder_fd, entry->d_name, fn, ctx, err);
    if (rc == 0 && errno != 0)
        rc = folder_trouble(err, errno, prefix);
    (void)closedir(folder);
    return rc;
}

static int
probe_trouble(struct err *err, const char *what)
{
    (void)err_errno(err, errno, "health: %s", what);
    return disk_trouble(err);
}

static int
probe(int root_fd, const char *name, struct err *err)
{
    uint64_t written = rand_u64(), found = 0;
    AUTO_CLOSE int fd = openat(root_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, BLOB_MODE);

    if (fd < 0)
        return probe_trouble(err, "create");
    if (fs_write_all(fd, &written, sizeof(written), err) < 0) {
        (void)err_wrap(err, "health");
        return disk_trouble(err);
    }
    if (fsync(fd) < 0)
        return probe_trouble(err, "sync");
    if (fs_pread_all(fd, &found, sizeof(found), 0, err) < 0) {
        (void)err_wrap(err, "health");
        return disk_trouble(err);
    }
    if (found != written)
        return err_set(err, ERR_IO, "health: read back something else than was written");
    return 0;
}

static int
local_health(struct blob_backend *be, struct err *err)
{
    int root_fd = local_of(be)->root_fd;
    char name[32];
    int rc;

    (void)snprintf(name, sizeof(name), ".health-%016llx", (unsigned long long)rand_u64());
    rc = probe(root_fd, name, err);
    if (unlinkat(root_fd, name, 0) < 0 && rc == 0)
        return probe_trouble(err, "remove");
    return rc;
}

static int
local_free_bytes(struct blob_backend *be, uint64_t *ret_bytes, struct err *err)
{
    struct statvfs st;

    if (fstatvfs(local_of(be)->root_fd, &st) < 0) {
        (void)err_errno(err, errno, "ask for free space");
        return disk_trouble(err);
    }
    if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, ret_bytes))
        *ret_bytes = UINT64_MAX;
    return 0;
}

static void
local_free(struct blob_backend *be)
{
    struct blob_local *local = local_of(be);

    for (unsigned i = 0; i < PREFIX_COUNT; i++) {
        if (local->prefixes[i].fd >= 0)
            (void)close(local->prefixes[i].fd);
    }
    if (local->root_fd >= 0)
        (void)close(local->root_fd);
    pthread_cond_destroy(&local->synced);
    pthread_mutex_destroy(&local->lock);
    free(local);
}

static const struct blob_ops LOCAL_OPS = {
    .name = "local",
    .put = local_put,
    .mark = local_mark,
    .sync = local_sync,
    .read = local_read,
    .forget = local_forget,
    .open = local_open,
    .read_at = local_read_at,
    .forget_at = local_forget_at,
    .close = local_close,
    .stat = local_stat,
    .remove = local_remove,
    .list = local_list,
    .health = local_health,
    .free_bytes = local_free_bytes,
    .free = local_free,
};

static int
open_folder(int at_fd, const char *path, int *ret_fd, struct err *err)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        (void)err_errno(err, errno, "open folder %s", path);
        return disk_trouble(err);
    }
    *ret_fd = fd;
    return 0;
}

static int
open_prefixes(struct blob_local *local, struct err *err)
{
    for (unsigned i = 0; i < PREFIX_COUNT; i++) {
        char name[3];

        (void)snprintf(name, sizeof(name), "%02x", i);
        if (mkdirat(local->root_fd, name, FOLDER_MODE) < 0 && errno != EEXIST) {
            (void)err_errno(err, errno, "make folder .blobs/%s", name);
            return disk_trouble(err);
        }
        if (open_folder(local->root_fd, name, &local->prefixes[i].fd, err) < 0)
            return -1;
    }
    return 0;
}

/* Also when nothing was made: a crash may have come between making and syncing. */
static int
open_folders(struct blob_local *local, const char *root, const char *blobs_path, struct err *err)
{
    if (fs_mkdir_p(blobs_path, FOLDER_MODE, err) < 0 ||
        open_folder(AT_FDCWD, blobs_path, &local->root_fd, err) < 0 ||
        open_prefixes(local, err) < 0)
        return -1;
    if (fs_sync_dir(blobs_path, err) < 0 || fs_sync_dir(root, err) < 0)
        return -1;
    return 0;
}

int
blob_local_open(const char *root, unsigned read_prefetch, struct workers *workers,
                struct blob_backend **ret_backend, struct err *err)
{
    struct blob_local *local = mem_zalloc(sizeof(*local));
    AUTO_FREE char *blobs_path = mem_printf("%s/.blobs", root);

    local->base.ops = &LOCAL_OPS;
    local->base.read_prefetch = read_prefetch > 0 ? read_prefetch : 1;
    local->workers = workers;
    local->root_fd = -1;
    for (unsigned i = 0; i < PREFIX_COUNT; i++)
        local->prefixes[i].fd = -1;
    pthread_mutex_init(&local->lock, NULL);
    pthread_cond_init(&local->synced, NULL);
    if (open_folders(local, root, blobs_path, err) < 0) {
        local_free(&local->base);
        return err_wrap(err, "open blob store %s", root);
    }
    *ret_backend = &local->base;
    return 0;
}
