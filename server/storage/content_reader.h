/*
 * content_reader: hands out the bytes of one stored content in order, fetching up to
 * read_prefetch chunks of the backend before they are asked for. A reader serves one request and
 * is used by one thread at a time. No byte leaves it before its chunk has been checked; a chunk
 * that fails its check is read again from the device, at most 3 times, and once more if it was
 * written anew meanwhile. Then it is quarantined, and reading fails with ERR_CORRUPT or ERR_IO.
 */
#ifndef OXI_STORAGE_CONTENT_READER_H
#define OXI_STORAGE_CONTENT_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/manifest.h"
#include "storage/store.h"

struct content_reader;

struct byte_range {
    uint64_t off;
    uint64_t len;
};

enum content_reader_state {
    CONTENT_READER_BYTES, /* some bytes were handed out */
    CONTENT_READER_END,
    CONTENT_READER_WAIT, /* nothing is ready yet */
};

/* range lies inside the content (ERR_INVALID otherwise). ERR_NOT_FOUND: no such content. Fetching
 * of the first chunks begins. On success *ret_reader belongs to the caller. */
int content_reader_open(struct store *store, const struct digest *content_id,
                        struct byte_range range, struct content_reader **ret_reader,
                        struct err *err);

/* Copies at most cap bytes (at least 1) and never waits. */
int content_reader_poll(struct content_reader *reader, void *dst, size_t cap,
                        enum content_reader_state *ret_state, size_t *ret_len, struct err *err);

/* After a WAIT: calls fn(arg) once, from any thread or from within this call, as soon as a poll
 * would not answer WAIT. When the workers have no place left, this call fetches the chunk. */
void content_reader_notify(struct content_reader *reader, void (*fn)(void *arg), void *arg);

/* Waits until a poll would not answer WAIT; fails as that poll would. Before the first poll this
 * tells whether the first chunk is good while the answer can still be an error. */
int content_reader_wait(struct content_reader *reader, struct err *err);

/* The same as poll, waiting; *ret_len == 0 is the end. */
int content_reader_read(struct content_reader *reader, void *dst, size_t cap, size_t *ret_len,
                        struct err *err);

/* Fetches under way are abandoned, a pending notify is forgotten. NULL is welcome. */
void content_reader_free(struct content_reader *reader);

#endif
