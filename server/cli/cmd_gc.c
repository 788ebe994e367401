#include <stdatomic.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "service/trash.h"
#include "storage/collect.h"

/* -1: as in the settings. */
struct gc_call {
    int64_t grace_secs;
};

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
    struct gc_call call = {.grace_secs = -1};
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
