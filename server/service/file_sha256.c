#include "service/file_sha256.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "meta/sha256_repo.h"
#include "storage/content_reader.h"

enum {
    BLOCK_BYTES = 256 * 1024,
    /* Each keeps a thread that answers requests from all others for as long as it takes. */
    MADE_AT_ONCE = 2,
};

struct sum_job {
    const struct digest *content_id;
    struct sha256 sum;
    bool known;
};

static int
get_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct sum_job *job = ctx;

    return sha256_repo_get(conn, job->content_id, &job->known, &job->sum, err);
}

static int
set_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct sum_job *job = ctx;

    return sha256_repo_set(conn, job->content_id, &job->sum, err);
}

void
file_sha256_remember(struct files *files, const struct digest *content_id, const struct sha256 *sum)
{
    struct sum_job job = {.content_id = content_id, .sum = *sum};
    struct err err = {0};

    if (pg_pool_run(files->pool, set_work, &job, &err) < 0)
        log_warn("a sha-256 is not remembered: error=\"%s\"", err.msg);
}

static int
read_all(struct content_reader *reader, struct sha256 *ret_sum, struct err *err)
{
    AUTO_FREE uint8_t *block = mem_alloc(BLOCK_BYTES);
    struct sha256_state state;
    size_t len = 1;

    sha256_init(&state);
    while (len > 0) {
        if (content_reader_read(reader, block, BLOCK_BYTES, &len, err) < 0)
            return -1;
        sha256_add(&state, block, len);
    }
    *ret_sum = sha256_end(&state);
    return 0;
}

static int
make_sum(struct files *files, const struct node *file, struct sha256 *ret_sum, struct err *err)
{
    struct byte_range all = {.off = 0, .len = file->size_bytes};
    struct content_reader *reader;
    int rc;

    if (content_reader_open(files->store, &file->content_id, all, &reader, err) < 0) {
        if (err->code == ERR_NOT_FOUND) /* the file is there */
            err->code = ERR_CORRUPT;
        return err_wrap(err, "open content");
    }
    rc = read_all(reader, ret_sum, err);
    content_reader_free(reader);
    if (rc == 0)
        file_sha256_remember(files, &file->content_id, ret_sum);
    return rc;
}

int
file_sha256(struct files *files, const struct node *file, bool *ret_known, struct sha256 *ret_sum,
            struct err *err)
{
    struct sum_job job = {.content_id = &file->content_id};
    int rc = 0;

    if (pg_pool_run(files->pool, get_work, &job, err) < 0)
        return -1;
    *ret_known = job.known;
    if (job.known) {
        *ret_sum = job.sum;
        return 0;
    }
    if (atomic_fetch_add(&files->sums_under_way, 1) < MADE_AT_ONCE) {
        rc = make_sum(files, file, ret_sum, err);
        *ret_known = rc == 0;
    }
    atomic_fetch_sub(&files->sums_under_way, 1);
    return rc;
}
