#include "meta/sha256_repo.h"

#include <string.h>

_Static_assert((int)SHA256_BYTES == (int)DIGEST_BYTES, "both are read as 32 bytes");

static const char SQL_GET[] = "select sha256 from contents where id = $1 and sha256 is not null";

int
sha256_repo_get(struct pg_conn *conn, const struct digest *content_id, bool *ret_known,
                struct sha256 *ret_sum, struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;
    AUTO_ROWS struct pg_rows *rows = NULL;

    pg_add_digest(&params, content_id);
    if (pg_run(conn, SQL_GET, &params, &rows, err) < 0)
        return err_wrap(err, "look up the sha-256 of a content");
    *ret_known = pg_count(rows) == 1;
    if (*ret_known) {
        struct digest bytes = pg_digest(rows, 0, 0);

        memcpy(ret_sum->bytes, bytes.bytes, SHA256_BYTES);
    }
    return 0;
}

static const char SQL_SET[] = "update contents set sha256 = $2 where id = $1 and sha256 is null";

int
sha256_repo_set(struct pg_conn *conn, const struct digest *content_id, const struct sha256 *sum,
                struct err *err)
{
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    pg_add_digest(&params, content_id);
    pg_add_bytes(&params, sum->bytes, SHA256_BYTES);
    if (pg_run(conn, SQL_SET, &params, NULL, err) < 0)
        return err_wrap(err, "remember the sha-256 of a content");
    return 0;
}
