/*
 * fs: files as the rest of the code wants them: whole writes, whole reads, synced folders. Errors
 * carry the path. EINTR and short transfers are dealt with here.
 */
#ifndef OXI_BASE_FS_H
#define OXI_BASE_FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

int fs_write_all(int fd, const void *data, size_t len, struct err *err);
/* Exactly len bytes from off; a file that ends before is ERR_CORRUPT. */
int fs_pread_all(int fd, void *dst, size_t len, uint64_t off, struct err *err);
/* Makes a directory and its parents, each synced into its own; one that exists is fine. */
int fs_mkdir_p(const char *path, mode_t mode, struct err *err);
int fs_sync_dir(const char *path, struct err *err);
/* Written aside, synced, renamed into place, directory synced. */
int fs_write_file(const char *path, const void *data, size_t len, mode_t mode, struct err *err);
/* At most max bytes, else ERR_TOO_LARGE. */
int fs_read_file(const char *path, size_t max, struct buf *out, struct err *err);
/* Free bytes for us on the file system that holds path. */
int fs_free_bytes(const char *path, uint64_t *ret_bytes, struct err *err);

#endif
