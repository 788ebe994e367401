#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "service/recompress.h"
#include "storage/container/codec.h"

#define RATE_MOST_BYTES (UINT64_C(1) << 40)

struct recompress_call {
    enum chunk_codec codec;
    int level;
    uint64_t rate_bytes;
};

static void
say(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
    (void)fflush(stdout); /* only progress is lost with it */
}

static int
recompress_work(struct app *app, void *ctx, struct err *err)
{
    const struct recompress_call *call = ctx;
    struct store *store = app_files(app)->store;
    struct container_form form = store->form;
    struct recompress_result result;
    int rc;

    form.codec = call->codec;
    form.level = call->level;
    rc = recompress_run(app_pool(app), store, &form, call->rate_bytes, say, NULL, &result, err);
    printf("%llu chunks rewritten, %llu bytes in place of %llu; %llu stay raw, %llu are bad\n",
           (unsigned long long)result.rewritten, (unsigned long long)result.new_bytes,
           (unsigned long long)result.old_bytes, (unsigned long long)result.left,
           (unsigned long long)result.bad);
    return rc;
}

static void
read_codec(struct cli *cli, struct recompress_call *call)
{
    const char *codec = cli_option(cli, "--codec");

    if (cli->wrong == NULL && (codec == NULL || !codec_by_name(codec, &call->codec)))
        cli->wrong = "--codec takes none, lz4 or zstd";
}

static void
read_level(struct cli *cli, struct recompress_call *call)
{
    const char *level = cli_option(cli, "--level");
    uint64_t value;

    if (level == NULL)
        return;
    if (text_parse_u64(slice_of(level), (uint64_t)codec_level_most(call->codec), &value))
        call->level = (int)value;
    else
        cli->wrong = "--level takes a number: up to 12 for lz4, 19 for zstd";
}

static void
read_rate(struct cli *cli, struct recompress_call *call)
{
    const char *rate = cli_option(cli, "--rate");

    if (rate != NULL && !text_parse_size(slice_of(rate), RATE_MOST_BYTES, &call->rate_bytes))
        cli->wrong = "--rate takes a size, like 20M";
}

int
cmd_recompress(struct cli *cli)
{
    struct recompress_call call = {.codec = CHUNK_RAW};

    read_codec(cli, &call);
    read_level(cli, &call);
    read_rate(cli, &call);
    if (!cli_done(cli))
        return EXIT_USAGE;
    return cli_run(cli, CLI_STORE, recompress_work, &call);
}
