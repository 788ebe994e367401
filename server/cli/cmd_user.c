#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "service/users.h"

enum { PASSWORD_SIZE = 1024 + 2 /* with its line end */, LIST_PAGE = 100 };

struct user_call {
    const char *name;
    char password[PASSWORD_SIZE];
    int64_t quota_bytes; /* -1: none */
    bool disabled;
};

/* --- passwords --- */

/* One line without its end. An empty one is none. */
static int
read_line(char *dst, size_t size, struct err *err)
{
    size_t len;

    if (!fgets(dst, (int)size, stdin))
        return err_set(err, ERR_INVALID, "no password on standard input");
    len = strcspn(dst, "\r\n");
    if (dst[len] == 0 && len == size - 1)
        return err_set(err, ERR_INVALID, "the password is too long");
    dst[len] = 0;
    return 0;
}

/* Without echo. */
static int
ask(const char *prompt, char *dst, size_t size, struct err *err)
{
    struct termios before, silent;
    int rc;

    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return err_errno(err, errno, "look at the terminal");
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    fputs(prompt, stderr);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    rc = read_line(dst, size, err);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    fputc('\n', stderr);
    return rc;
}

static int
read_password(struct user_call *call, struct err *err)
{
    char again[PASSWORD_SIZE] = "";
    int rc;

    if (!isatty(STDIN_FILENO))
        return read_line(call->password, sizeof(call->password), err);
    if (ask("password: ", call->password, sizeof(call->password), err) < 0)
        return -1;
    rc = ask("once more: ", again, sizeof(again), err);
    if (rc == 0 && strcmp(call->password, again) != 0)
        rc = err_set(err, ERR_INVALID, "the two differ");
    sodium_memzero(again, sizeof(again));
    return rc;
}

/* --- what they do --- */

static int
add_work(struct app *app, void *ctx, struct err *err)
{
    struct user_call *call = ctx;

    return users_add(app_pool(app), app_config(app), call->name, slice_of(call->password),
                     call->quota_bytes, err);
}

static int
passwd_work(struct app *app, void *ctx, struct err *err)
{
    struct user_call *call = ctx;

    return users_set_password(app_pool(app), app_config(app), call->name, slice_of(call->password),
                              err);
}

static int
quota_work(struct app *app, void *ctx, struct err *err)
{
    struct user_call *call = ctx;

    return users_set_quota(app_pool(app), call->name, call->quota_bytes, err);
}

static int
disable_work(struct app *app, void *ctx, struct err *err)
{
    struct user_call *call = ctx;

    return users_set_disabled(app_pool(app), call->name, call->disabled, err);
}

static int
remove_work(struct app *app, void *ctx, struct err *err)
{
    struct user_call *call = ctx;

    return users_remove(app_pool(app), call->name, err);
}

static void
print_user(const struct user *user)
{
    char created[CLOCK_ISO_SIZE], quota[32] = "none";

    clock_iso_date(created, user->created_us);
    if (user->quota_bytes >= 0)
        snprintf(quota, sizeof(quota), "%lld", (long long)user->quota_bytes);
    printf("%s\tcreated=%s\tused=%llu\tquota=%s%s\n", user->name, created,
           (unsigned long long)user->used_bytes, quota, user->disabled ? "\tdisabled" : "");
}

static int
list_work(struct app *app, void *ctx, struct err *err)
{
    struct user *users = ctx;
    int64_t after_id = 0;
    size_t count;

    do {
        if (users_list(app_pool(app), after_id, users, LIST_PAGE, &count, err) < 0)
            return -1;
        for (size_t i = 0; i < count; i++)
            print_user(&users[i]);
        if (count > 0)
            after_id = users[count - 1].id;
    } while (count == LIST_PAGE);
    return 0;
}

/* --- the line --- */

static int
run_list(struct cli *cli)
{
    struct user *users;
    int status;

    if (!cli_done(cli))
        return EXIT_USAGE;
    users = mem_array(LIST_PAGE, sizeof(*users));
    status = cli_run(cli, CLI_DATABASE, list_work, users);
    free(users);
    return status;
}

/* A size, or "none". */
static void
parse_quota(struct cli *cli, const char *said, int64_t *ret_quota_bytes)
{
    uint64_t value;

    *ret_quota_bytes = -1;
    if (!said || strcmp(said, "none") == 0)
        return;
    if (text_parse_size(slice_of(said), INT64_MAX, &value))
        *ret_quota_bytes = (int64_t)value;
    else
        cli->wrong = "a quota is a size like 500M or 20G, or none";
}

static const struct verb {
    const char *name;
    cli_work work;
    bool password; /* needs one */
    bool disabled;
} VERBS[] = {
    {"add", add_work, true, false},         {"passwd", passwd_work, true, false},
    {"quota", quota_work, false, false},    {"disable", disable_work, false, true},
    {"enable", disable_work, false, false}, {"remove", remove_work, false, false},
};

static int
run_verb(struct cli *cli, const struct verb *verb)
{
    struct user_call call = {.disabled = verb->disabled};
    struct err err = {0};
    int status;

    parse_quota(cli, verb->work == add_work ? cli_option(cli, "--quota") : NULL, &call.quota_bytes);
    call.name = cli_word(cli);
    if (verb->work == quota_work) {
        const char *size = cli_word(cli);

        if (!size)
            cli->wrong = "how much?";
        parse_quota(cli, size, &call.quota_bytes);
    }
    if (!call.name)
        cli->wrong = "a user's name is missing";
    if (!cli_done(cli))
        return EXIT_USAGE;
    if (verb->password && read_password(&call, &err) < 0)
        status = cli_fail(&err);
    else
        status = cli_run(cli, CLI_DATABASE, verb->work, &call);
    sodium_memzero(call.password, sizeof(call.password));
    return status;
}

int
cmd_user(struct cli *cli)
{
    const char *word = cli_word(cli);

    if (!word)
        return cli_usage(cli, "user what?");
    if (strcmp(word, "list") == 0)
        return run_list(cli);
    for (size_t i = 0; i < sizeof(VERBS) / sizeof(VERBS[0]); i++)
        if (strcmp(VERBS[i].name, word) == 0)
            return run_verb(cli, &VERBS[i]);
    return cli_usage(cli, "no such command of user");
}
