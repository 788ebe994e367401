#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "meta/chunk_repo.h"
#include "meta/node_repo.h"
#include "service/trash.h"
#include "storage/collect.h"

#define DAY_US (INT64_C(86400) * 1000000)

struct gc_call {
    int64_t grace_secs; /* -1: as in the settings */
    bool dry_run;
};

/* --- only looking --- */

struct preview {
    int64_t grace_secs;
    int64_t trash_before_us;
    uint64_t trash_entries;
    uint64_t chunk_count, chunk_bytes;
};

static int
preview_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct preview *preview = ctx;

    if (node_repo_trash_expired(conn, preview->trash_before_us, &preview->trash_entries, err) < 0)
        return -1;
    return chunk_repo_collectable(conn, preview->grace_secs, &preview->chunk_count,
                                  &preview->chunk_bytes, err);
}

static int
preview_gc(struct app *app, int64_t grace_secs, struct err *err)
{
    int64_t retention_days = (int64_t)app_config(app)->trash_retention_days;
    struct preview preview = {.grace_secs = grace_secs,
                              .trash_before_us = clock_now_us() - retention_days * DAY_US};
    struct collect_result swept;
    const _Atomic bool stop = false;

    if (pg_pool_run(app_pool(app), preview_work, &preview, err) < 0 ||
        collect_sweep_preview(app_files(app)->store, grace_secs, &stop, &swept, err) < 0)
        return -1;
    printf("would purge: %llu entries of the trash\n"
           "would collect: %llu blobs, %llu bytes\n"
           "would sweep: %llu blobs, %llu bytes\n",
           (unsigned long long)preview.trash_entries, (unsigned long long)preview.chunk_count,
           (unsigned long long)preview.chunk_bytes, (unsigned long long)swept.blob_count,
           (unsigned long long)swept.blob_bytes);
    return 0;
}

/* --- the command --- */

static int
gc_work(struct app *app, void *ctx, struct err *err)
{
    struct gc_call *call = ctx;
    const struct config *config = app_config(app);
    int64_t grace_secs =
        call->grace_secs >= 0 ? call->grace_secs : (int64_t)config->collect_grace_secs;
    struct collect_result collected, swept;
    const _Atomic bool stop = false;
    uint64_t purged;

    if (call->dry_run)
        return preview_gc(app, grace_secs, err);
    if (trash_expire(app_files(app), config->trash_retention_days, &stop, &purged, err) < 0 ||
        collect_garbage(app_files(app)->store, grace_secs, &stop, &collected, err) < 0 ||
        collect_sweep(app_files(app)->store, grace_secs, &stop, &swept, err) < 0)
        return -1;
    printf("trash: %llu purged\ncollected: %llu blobs, %llu bytes\nswept: %llu blobs, %llu bytes\n",
           (unsigned long long)purged, (unsigned long long)collected.blob_count,
           (unsigned long long)collected.blob_bytes, (unsigned long long)swept.blob_count,
           (unsigned long long)swept.blob_bytes);
    return 0;
}

int
cmd_gc(struct cli *cli)
{
    struct gc_call call = {.grace_secs = -1, .dry_run = cli_flag(cli, "--dry-run")};
    const char *grace = cli_option(cli, "--grace");
    uint64_t value;

    if (grace) {
        if (text_parse_u64(slice_of(grace), INT32_MAX, &value))
            call.grace_secs = (int64_t)value;
        else
            cli->wrong = "--grace takes a number of seconds";
    }
    if (!cli_done(cli))
        return EXIT_USAGE;
    return cli_run(cli, CLI_STORE, gc_work, &call);
}
