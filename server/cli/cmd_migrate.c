#include <stdio.h>

#include "cli/cli.h"

/* Not through cli_run(), which migrates on the way and tells nobody how much. */
int
cmd_migrate(struct cli *cli)
{
    struct config config;
    struct app *app = NULL;
    struct err err = {0};
    int applied_count = 0;
    int rc;

    if (!cli_done(cli))
        return EXIT_USAGE;
    if (cli_config(cli, false, &config, &err) < 0)
        return cli_fail(&err);
    rc = app_new(&config, &app, &err);
    if (rc == 0)
        rc = app_database(app, &applied_count, &err);
    app_free(app);
    config_release(&config);
    if (rc < 0)
        return cli_fail(&err);
    printf("migrations applied: %d\n", applied_count);
    return EXIT_WELL;
}
