/* sha256_repo: the SHA-256 of contents, as far as somebody has asked for it. */
#ifndef OXI_META_SHA256_REPO_H
#define OXI_META_SHA256_REPO_H

#include <stdbool.h>

#include "base/err.h"
#include "base/sha256.h"
#include "meta/pg.h"
#include "storage/digest.h"

/* *ret_known: false also when there is no such content. */
int sha256_repo_get(struct pg_conn *conn, const struct digest *content_id, bool *ret_known,
                    struct sha256 *ret_sum, struct err *err);
/* Nothing when it is known already, or when there is no such content. */
int sha256_repo_set(struct pg_conn *conn, const struct digest *content_id, const struct sha256 *sum,
                    struct err *err);

#endif
