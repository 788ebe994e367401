/*
 * file_sha256: the SHA-256 of a file's bytes. It costs reading all of them, so it is only made
 * when somebody asks, and remembered with the content: for all files that have it, for ever.
 */
#ifndef OXI_SERVICE_FILE_SHA256_H
#define OXI_SERVICE_FILE_SHA256_H

#include <stdbool.h>

#include "base/sha256.h"
#include "service/files.h"

/*
 * May read the whole file. *ret_known: false when as many are being made already as may be at a
 * time; nobody waits for that, and who asks can do without.
 */
int file_sha256(struct files *files, const struct node *file, bool *ret_known,
                struct sha256 *ret_sum, struct err *err);

/* What an upload has proved. That it cannot be remembered is only logged. */
void file_sha256_remember(struct files *files, const struct digest *content_id,
                          const struct sha256 *sum);

#endif
