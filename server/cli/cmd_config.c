#include <stdio.h>

#include "cli/cli.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

int
cmd_config(struct cli *cli)
{
    bool example = cli_flag(cli, "--example");
    struct config config;
    struct err err = {0};
    AUTO_BUF struct buf text = {.max = TEXT_MAX_BYTES};

    if (!cli_done(cli))
        return EXIT_USAGE;
    if (example) {
        config_example(&text);
    } else {
        if (cli_config(cli, false, &config, &err) < 0)
            return cli_fail(&err);
        config_show(&config, &text);
        config_release(&config);
    }
    fwrite(text.data, 1, text.len, stdout);
    return EXIT_WELL;
}
