/*
 * cli: the command line: options, a table of commands, and what commands share. A command takes
 * its own options and words out of struct cli, calls cli_done(), and returns an exit status:
 * 0 well, 1 it failed (one line on standard error says why), 2 it was called wrongly.
 */
#ifndef OXI_CLI_CLI_H
#define OXI_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app.h"
#include "base/config.h"
#include "base/err.h"

enum { EXIT_WELL = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct cli;

struct cli_command {
    const char *name;
    const char *usage; /* a line each way to call it */
    const char *help;
    int (*run)(struct cli *cli);
};

struct cli {
    const struct cli_command *command; /* NULL until it is known */
    const char *config_path;           /* NULL: look in the usual places */
    char **words; /* of the command, after its name; options of the command too */
    size_t count;
    const char *wrong; /* what is wrong with the call, or NULL */
};

int cli_main(int argc, char **argv);

/* --- what is on the line --- */

/* Takes "--name" out; true when it was there. */
bool cli_flag(struct cli *cli, const char *name);
/* Takes "--name VALUE" or "--name=VALUE" out; NULL when it was not there. */
const char *cli_option(struct cli *cli, const char *name);
/* Takes the first word out; NULL when there is none. */
const char *cli_word(struct cli *cli);
/* Nothing is left and nothing was wrong? Says what is wrong otherwise. */
bool cli_done(struct cli *cli);

/* Says what is wrong with the call, and how it is called; EXIT_USAGE. */
int cli_usage(const struct cli *cli, const char *wrong);
/* Says why; EXIT_FAILED. */
int cli_fail(const struct err *err);

/* --- what commands need --- */

/* The settings, with the log set to what they say (serve) or to warnings (others). */
int cli_config(const struct cli *cli, bool serves, struct config *ret_config, struct err *err);

/* Runs work between building an app up to the stage it needs and taking it down again. */
enum cli_stage { CLI_DATABASE, CLI_STORE };
typedef int (*cli_work)(struct app *app, void *ctx, struct err *err);
int cli_run(const struct cli *cli, enum cli_stage stage, cli_work work, void *ctx);

/* --- the commands --- */

int cmd_serve(struct cli *cli);
int cmd_config(struct cli *cli);
int cmd_migrate(struct cli *cli);
int cmd_user(struct cli *cli);
int cmd_trash(struct cli *cli);
int cmd_gc(struct cli *cli);
int cmd_verify(struct cli *cli);
int cmd_recompress(struct cli *cli);
int cmd_stats(struct cli *cli);
int cmd_version(struct cli *cli);

#endif
