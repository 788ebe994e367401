/*
 * bench_ahead: the readers that content_reader is compared with. They hand out the chunks of a
 * manifest in order, as it does, and check each; but what they do ahead is less:
 *
 *   AHEAD_OPEN      workers open the next files; bytes are read when their turn comes
 *   AHEAD_WILLNEED  the same, and the kernel is asked to read them (POSIX_FADV_WILLNEED)
 *
 * With nothing ahead (count 0) each file is opened, read and closed when its turn comes.
 */
#ifndef OXI_BENCH_BENCH_AHEAD_H
#define OXI_BENCH_BENCH_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/workers.h"
#include "storage/manifest.h"

enum ahead_kind { AHEAD_OPEN, AHEAD_WILLNEED };

struct ahead;

/* prefix_fds: the 256 folders of the blobs. All is borrowed. One thread at a time uses it. */
struct ahead *ahead_new(const struct manifest *manifest, const int *prefix_fds,
                        struct workers *workers, enum ahead_kind kind, size_t count);
/* Waits for opens under way. */
void ahead_free(struct ahead *ahead);

/* *ret_len == 0 is the end. */
int ahead_read(struct ahead *ahead, void *dst, size_t cap, size_t *ret_len, struct err *err);

#endif
