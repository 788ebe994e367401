#include <stdio.h>

#include "cli/cli.h"
#include "service/verify.h"

struct verify_call {
    bool deep;
    bool repair;
    struct verify_result result;
};

static void
say(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static int
verify_work(struct app *app, void *ctx, struct err *err)
{
    struct verify_call *call = ctx;
    struct verify_result *result = &call->result;

    if (verify_run(app_pool(app), app_files(app)->store, call->deep, call->repair, say, NULL,
                   result, err) < 0)
        return -1;
    printf("%llu chunks checked, %llu missing, %llu damaged, %llu references wrong%s\n",
           (unsigned long long)result->chunks_checked, (unsigned long long)result->chunks_missing,
           (unsigned long long)result->chunks_damaged, (unsigned long long)result->references_wrong,
           call->repair && result->references_wrong ? " and set right" : "");
    if (result->chunks_released)
        printf("%llu chunks taken out of quarantine\n",
               (unsigned long long)result->chunks_released);
    return 0;
}

int
cmd_verify(struct cli *cli)
{
    struct verify_call call = {.deep = cli_flag(cli, "--deep"),
                               .repair = cli_flag(cli, "--repair")};
    int status;

    if (!cli_done(cli))
        return EXIT_USAGE;
    status = cli_run(cli, CLI_STORE, verify_work, &call);
    if (status != EXIT_WELL)
        return status;
    if (call.result.chunks_missing || call.result.chunks_damaged)
        return EXIT_FAILED;
    return (call.result.references_wrong || call.result.spaces_wrong) && !call.repair ? EXIT_FAILED
                                                                                      : EXIT_WELL;
}
