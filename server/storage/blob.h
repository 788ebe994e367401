/*
 * blob: the promise of a blob backend, and the checked calls everyone uses. A blob is written once
 * under a name of its own (chunk id and generation) and never changed. Until blob_sync() has
 * returned 0 it may be torn or gone after a crash; nothing but the upload that wrote it may then
 * rely on it.
 *
 * Calls may come from any thread and may wait for the disk or the network. Error codes:
 * ERR_NOT_FOUND only from read calls and only when the backend says for certain that there is no
 * such blob; ERR_QUOTA no room; ERR_BUSY or ERR_UNAVAILABLE try later; ERR_IO the device failed.
 */
#ifndef OXI_STORAGE_BLOB_H
#define OXI_STORAGE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/digest.h"

struct blob_key {
    struct digest id;
    uint64_t generation;
};

struct blob_backend;

/* A blob that is open for reading, and stays readable when it is removed. Embedded first in what a
 * backend makes of it. Any number of threads read through one handle at a time. */
struct blob_handle {
    struct blob_backend *backend; /* outlives it */
};

/* Called for each blob found; size and time of last change as the backend knows them. A -1 ends
 * the listing and is passed on. */
typedef int (*blob_list_fn)(void *ctx, const struct blob_key *key, uint64_t stored_bytes,
                            int64_t changed_at_us, struct err *err);

struct blob_ops {
    const char *name;
    /* Fails with ERR_EXISTS when the name is taken. After a failure nothing of it is left. */
    int (*put)(struct blob_backend *be, const struct blob_key *key, const void *data, size_t len,
               struct err *err);
    /* What to hand to sync(); taken before the first put. May be NULL: 0 will do. */
    uint64_t (*mark)(struct blob_backend *be);
    /* All of them, and their names, survive a power cut, and count as changed just now, so that a
     * sweep leaves them alone. Strict: any failure since the mark fails the call, also one that
     * somebody else's sync was told of; ERR_BUSY: one was swept. */
    int (*sync)(struct blob_backend *be, const struct blob_key *keys, size_t count, uint64_t mark,
                struct err *err);
    /* Exactly len bytes from off; a blob that ends before is ERR_CORRUPT. */
    int (*read)(struct blob_backend *be, const struct blob_key *key, uint64_t off, void *dst,
                size_t len, struct err *err);
    /* Drops what the machine has cached of the blob, so that the next read asks the device;
     * may be NULL. */
    void (*forget)(struct blob_backend *be, const struct blob_key *key);
    int (*open)(struct blob_backend *be, const struct blob_key *key,
                struct blob_handle **ret_handle, struct err *err);
    /* As read() and forget(), of this range at least. */
    int (*read_at)(struct blob_handle *handle, uint64_t off, void *dst, size_t len,
                   struct err *err);
    void (*forget_at)(struct blob_handle *handle, uint64_t off, size_t len); /* may be NULL */
    void (*close)(struct blob_handle *handle);
    int (*stat)(struct blob_backend *be, const struct blob_key *key, uint64_t *ret_stored_bytes,
                struct err *err);
    /* One that is gone already counts as removed. */
    int (*remove)(struct blob_backend *be, const struct blob_key *key, struct err *err);
    /* Prefix by prefix: those whose id begins with this byte. In no order. */
    int (*list)(struct blob_backend *be, uint8_t prefix, blob_list_fn fn, void *ctx,
                struct err *err);
    /* Writes, syncs, reads and removes something small. */
    int (*health)(struct blob_backend *be, struct err *err);
    /* Bytes that may still be written; may be NULL: unknown. */
    int (*free_bytes)(struct blob_backend *be, uint64_t *ret_bytes, struct err *err);
    void (*free)(struct blob_backend *be);
};

/* Embedded first in every backend. */
struct blob_backend {
    const struct blob_ops *ops;
    unsigned read_prefetch; /* chunks worth asking for ahead of the reader; at least 1 */
};

int blob_put(struct blob_backend *be, const struct blob_key *key, const void *data, size_t len,
             struct err *err);
uint64_t blob_mark(struct blob_backend *be);
int blob_sync(struct blob_backend *be, const struct blob_key *keys, size_t count, uint64_t mark,
              struct err *err);
int blob_read(struct blob_backend *be, const struct blob_key *key, uint64_t off, void *dst,
              size_t len, struct err *err);
void blob_forget(struct blob_backend *be, const struct blob_key *key);
int blob_open(struct blob_backend *be, const struct blob_key *key, struct blob_handle **ret_handle,
              struct err *err);
int blob_read_at(struct blob_handle *handle, uint64_t off, void *dst, size_t len, struct err *err);
void blob_forget_at(struct blob_handle *handle, uint64_t off, size_t len);
void blob_close(struct blob_handle *handle); /* NULL is welcome */
int blob_stat(struct blob_backend *be, const struct blob_key *key, uint64_t *ret_stored_bytes,
              struct err *err);
int blob_remove(struct blob_backend *be, const struct blob_key *key, struct err *err);
int blob_list(struct blob_backend *be, uint8_t prefix, blob_list_fn fn, void *ctx, struct err *err);
int blob_health(struct blob_backend *be, struct err *err);
/* ERR_NOT_FOUND: the backend cannot say. */
int blob_free_bytes(struct blob_backend *be, uint64_t *ret_bytes, struct err *err);
void blob_free(struct blob_backend *be); /* NULL is welcome */

/* "<64 hex>-<16 hex>.blob" and back; the name all backends use below their prefix folder. */
enum { BLOB_NAME_SIZE = 64 + 1 + 16 + 5 + 1 };
void blob_name(char dst[BLOB_NAME_SIZE], const struct blob_key *key);
int blob_parse_name(const char *name, struct blob_key *ret_key); /* -1: not one of ours */

#endif
