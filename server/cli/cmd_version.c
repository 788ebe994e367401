#include <stdio.h>

#include "cli/cli.h"

#ifndef OXICLOUDD_VERSION
#define OXICLOUDD_VERSION "dev"
#endif

int
cmd_version(struct cli *cli)
{
    if (!cli_done(cli))
        return EXIT_USAGE;
    printf("oxicloudd %s\n", OXICLOUDD_VERSION);
    return EXIT_WELL;
}
