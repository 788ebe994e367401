/*
 * blob_local: blobs as files, <root>/.blobs/<aa>/<name>, in 256 prefix folders. A blob is created
 * with one openat(O_CREAT | O_EXCL) and its write-out is started at once (sync_file_range), so
 * that the sync at the end of an upload finds most of it done (see bench/BLOB-WRITE.md).
 */
#ifndef OXI_STORAGE_BLOB_LOCAL_H
#define OXI_STORAGE_BLOB_LOCAL_H

#include "base/workers.h"
#include "storage/blob.h"

/*
 * Makes the folders when they are missing and syncs them. workers (borrowed) run up to 16 syncs
 * side by side. The backend belongs to the caller: blob_free().
 */
int blob_local_open(const char *root, unsigned read_prefetch, struct workers *workers,
                    struct blob_backend **ret_backend, struct err *err);

#endif
