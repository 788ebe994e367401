#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"

static const struct cli_command COMMANDS[] = {
    {"serve", "serve [--create-admin]",
     "Runs the server; so does a call without a command. With --create-admin makes the user\n"
     "admin when there is none, and prints a password.",
     cmd_serve},
    {"check-config", "check-config [--example]",
     "Prints the settings in force, or says what is wrong; or prints an example file.", cmd_config},
    {"migrate", "migrate", "Brings the database up to date.", cmd_migrate},
    {"user",
     "user add NAME [--quota SIZE]\n"
     "user passwd|disable|enable|remove NAME\n"
     "user quota NAME SIZE|none\n"
     "user list",
     "Accounts. A password is asked for, or is the first line of standard input.", cmd_user},
    {"trash",
     "trash list|empty USER\n"
     "trash restore USER ID",
     "What a user has deleted.", cmd_trash},
    {"gc", "gc [--dry-run] [--grace SECS]",
     "Gives back the space that nothing has kept for SECS (the setting, if not said), or says\n"
     "what would go.",
     cmd_gc},
    {"verify", "verify [--deep] [--repair]",
     "Recomputes counts and looks for every chunk; reads them all; sets counts right. Names the\n"
     "files that a bad chunk hurts.",
     cmd_verify},
    {"recompress", "recompress --codec none|lz4|zstd [--level N] [--rate SIZE]",
     "Stores the chunks that are there as new ones would be with that codec; SIZE: bytes a second\n"
     "at most. Beside a running server; may be killed and called again.",
     cmd_recompress},
    {"stats", "stats [--json]", "Counts.", cmd_stats},
    {"version", "version", "Prints the version.", cmd_version},
};
enum { COMMAND_COUNT = sizeof(COMMANDS) / sizeof(COMMANDS[0]) };

/* Each line of a text with something in front. */
static void
print_lines(FILE *out, const char *before, const char *text)
{
    while (*text) {
        int len = (int)strcspn(text, "\n");

        fprintf(out, "%s%.*s\n", before, len, text);
        text += len + (text[len] == '\n');
    }
}

static void
print_help(FILE *out)
{
    fprintf(out, "usage: oxicloudd [-c FILE] [COMMAND]\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        print_lines(out, "  ", COMMANDS[i].usage);
        print_lines(out, "        ", COMMANDS[i].help);
    }
    fprintf(out, "\n  -c FILE     settings; else ./oxicloudd.conf, else "
                 "/etc/oxicloudd/oxicloudd.conf\n"
                 "  -h, --help  this\n");
}

int
cli_usage(const struct cli *cli, const char *wrong)
{
    fprintf(stderr, "oxicloudd: %s\n", wrong);
    if (cli->command)
        print_lines(stderr, "usage: oxicloudd [-c FILE] ", cli->command->usage);
    else
        print_help(stderr);
    return EXIT_USAGE;
}

int
cli_fail(const struct err *err)
{
    fprintf(stderr, "oxicloudd: %s\n", err->msg);
    return EXIT_FAILED;
}

/* --- what is on the line --- */

static void
take_out(struct cli *cli, size_t at, size_t count)
{
    memmove(&cli->words[at], &cli->words[at + count],
            (cli->count - at - count) * sizeof(*cli->words));
    cli->count -= count;
}

bool
cli_flag(struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->count; i++) {
        if (strcmp(cli->words[i], name) == 0) {
            take_out(cli, i, 1);
            return true;
        }
    }
    return false;
}

const char *
cli_option(struct cli *cli, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < cli->count; i++) {
        char *word = cli->words[i];
        const char *value;

        if (strncmp(word, name, len) != 0 || (word[len] && word[len] != '='))
            continue;
        if (word[len] == '=') {
            take_out(cli, i, 1);
            return word + len + 1;
        }
        if (i + 1 == cli->count) {
            cli->wrong = "an option lacks its value";
            return NULL;
        }
        value = cli->words[i + 1];
        take_out(cli, i, 2);
        return value;
    }
    return NULL;
}

const char *
cli_word(struct cli *cli)
{
    const char *word;

    if (cli->count == 0 || cli->words[0][0] == '-')
        return NULL;
    word = cli->words[0];
    take_out(cli, 0, 1);
    return word;
}

bool
cli_done(struct cli *cli)
{
    if (!cli->wrong && cli->count > 0)
        cli->wrong = cli->words[0][0] == '-' ? "an option that is not known"
                                             : "more words than this command takes";
    if (cli->wrong)
        (void)cli_usage(cli, cli->wrong); /* the caller returns EXIT_USAGE */
    return !cli->wrong;
}

/* --- what commands need --- */

static enum log_level
log_level_of(const char *name)
{
    static const char *const NAMES[] = {"error", "warn", "info", "debug"};

    for (int i = 0; i < 4; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return (enum log_level)i;
    return LOG_LEVEL_INFO;
}

int
cli_config(const struct cli *cli, bool serves, struct config *ret_config, struct err *err)
{
    enum log_level level;

    if (config_load(cli->config_path, ret_config, err) < 0)
        return -1;
    level = log_level_of(ret_config->log_level);
    log_set_level(serves || level == LOG_LEVEL_DEBUG ? level : LOG_LEVEL_WARN);
    return 0;
}

static int
run_in(struct app *app, enum cli_stage stage, cli_work work, void *ctx, struct err *err)
{
    if (app_database(app, NULL, err) < 0)
        return -1;
    if (stage == CLI_STORE && app_store(app, err) < 0)
        return -1;
    return work(app, ctx, err);
}

int
cli_run(const struct cli *cli, enum cli_stage stage, cli_work work, void *ctx)
{
    struct config config;
    struct app *app = NULL;
    struct err err = {0};
    int rc;

    if (cli_config(cli, false, &config, &err) < 0)
        return cli_fail(&err);
    rc = app_new(&config, &app, &err);
    if (rc == 0)
        rc = run_in(app, stage, work, ctx, &err);
    app_free(app);
    config_release(&config);
    return rc < 0 ? cli_fail(&err) : EXIT_WELL;
}

/* --- dispatch --- */

static int
run_command(struct cli *cli)
{
    const char *name = cli_word(cli);

    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i].name, name ? name : "serve") != 0)
            continue;
        cli->command = &COMMANDS[i];
        return COMMANDS[i].run(cli);
    }
    return cli_usage(cli, "no such command");
}

int
cli_main(int argc, char **argv)
{
    AUTO_FREE char **words = mem_array((size_t)argc + 1, sizeof(*words));
    struct cli cli = {.words = words};

    setlocale(LC_CTYPE, "");
    umask(027);
    memcpy(words, argv + 1, (size_t)(argc > 0 ? argc - 1 : 0) * sizeof(*words));
    cli.count = argc > 0 ? (size_t)argc - 1 : 0;

    if (cli_flag(&cli, "-h") || cli_flag(&cli, "--help")) {
        print_help(stdout);
        return EXIT_WELL;
    }
    cli.config_path = cli_option(&cli, "-c");
    if (cli.wrong)
        return cli_usage(&cli, cli.wrong);
    return run_command(&cli);
}
