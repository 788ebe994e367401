#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "service/trash.h"
#include "service/users.h"

enum { LIST_PAGE = 100 };

struct trash_call {
    const char *user;
    int64_t node_id; /* restore */
};

static void
print_entry(const struct trash_entry *entry)
{
    char deleted[CLOCK_ISO_SIZE];

    clock_iso_date(deleted, entry->deleted_us);
    printf("%lld\t%s\t%llu\t%s%s\n", (long long)entry->node_id, deleted,
           (unsigned long long)entry->bytes, entry->path, entry->kind == NODE_FOLDER ? "/" : "");
}

/* One page; its strings go with it. */
static int
list_page(struct app *app, const struct principal *principal, int64_t *after_id, size_t *ret_count,
          struct err *err)
{
    struct trash_entry entries[LIST_PAGE];
    struct arena arena;
    int rc;

    arena_init(&arena);
    rc = trash_list(app_files(app), principal, *after_id, &arena, entries, LIST_PAGE, ret_count,
                    err);
    for (size_t i = 0; rc == 0 && i < *ret_count; i++) {
        print_entry(&entries[i]);
        *after_id = entries[i].node_id;
    }
    arena_release(&arena);
    return rc;
}

static int
list_work(struct app *app, void *ctx, struct err *err)
{
    struct trash_call *call = ctx;
    struct principal principal;
    int64_t after_id = 0;
    size_t count;

    if (users_principal(app_pool(app), call->user, &principal, err) < 0)
        return -1;
    do {
        if (list_page(app, &principal, &after_id, &count, err) < 0)
            return -1;
    } while (count == LIST_PAGE);
    return 0;
}

static int
restore_work(struct app *app, void *ctx, struct err *err)
{
    struct trash_call *call = ctx;
    struct principal principal;
    struct arena arena;
    char *path;
    int rc;

    if (users_principal(app_pool(app), call->user, &principal, err) < 0)
        return -1;
    arena_init(&arena);
    rc = trash_restore(app_files(app), &principal, call->node_id, &arena, &path, err);
    if (rc == 0)
        printf("restored: %s\n", path);
    arena_release(&arena);
    return rc;
}

static int
empty_work(struct app *app, void *ctx, struct err *err)
{
    struct trash_call *call = ctx;
    struct principal principal;
    uint64_t purged;

    if (users_principal(app_pool(app), call->user, &principal, err) < 0 ||
        trash_empty(app_files(app), &principal, &purged, err) < 0)
        return -1;
    printf("purged: %llu\n", (unsigned long long)purged);
    return 0;
}

static const struct {
    const char *name;
    cli_work work;
} VERBS[] = {{"list", list_work}, {"restore", restore_work}, {"empty", empty_work}};

static void
parse_node_id(struct cli *cli, struct trash_call *call)
{
    uint64_t value;

    if (text_parse_u64(slice_of(cli_word(cli)), INT64_MAX, &value))
        call->node_id = (int64_t)value;
    else
        cli->wrong = "the ID is the number in the first column of trash list";
}

int
cmd_trash(struct cli *cli)
{
    const char *word = cli_word(cli);
    struct trash_call call = {.user = cli_word(cli)};
    cli_work work = NULL;

    for (size_t i = 0; word && i < sizeof(VERBS) / sizeof(VERBS[0]); i++)
        if (strcmp(VERBS[i].name, word) == 0)
            work = VERBS[i].work;
    if (!work)
        return cli_usage(cli, "trash list, restore or empty?");
    if (!call.user)
        return cli_usage(cli, "a user's name is missing");
    if (work == restore_work)
        parse_node_id(cli, &call);
    if (!cli_done(cli))
        return EXIT_USAGE;
    return cli_run(cli, CLI_STORE, work, &call);
}
