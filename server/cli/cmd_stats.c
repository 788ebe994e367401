#include <stdio.h>

#include <jansson.h>

#include "cli/cli.h"
#include "meta/chunk_repo.h"
#include "meta/node_repo.h"
#include "meta/user_repo.h"

struct stats {
    uint64_t users;
    struct tree_totals tree;
    struct chunk_totals chunks;
};

static int
stats_query(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct stats *stats = ctx;

    if (user_repo_count(conn, &stats->users, err) < 0 ||
        node_repo_totals(conn, &stats->tree, err) < 0)
        return -1;
    return chunk_repo_totals(conn, &stats->chunks, err);
}

static int
stats_work(struct app *app, void *ctx, struct err *err)
{
    return pg_pool_run(app_pool(app), stats_query, ctx, err);
}

struct row {
    const char *name;
    uint64_t value;
};

static void
print_text(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%-14s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

static void
print_json(const struct row *rows, size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, rows[i].name, json_integer((json_int_t)rows[i].value));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
}

int
cmd_stats(struct cli *cli)
{
    bool json = cli_flag(cli, "--json");
    struct stats stats = {0};
    int status;

    if (!cli_done(cli))
        return EXIT_USAGE;
    status = cli_run(cli, CLI_DATABASE, stats_work, &stats);
    if (status != EXIT_WELL)
        return status;

    const struct row rows[] = {
        {"users", stats.users},
        {"files", stats.tree.files},
        {"folders", stats.tree.folders},
        {"logical_bytes", stats.tree.bytes},
        {"contents", stats.chunks.contents},
        {"chunks", stats.chunks.chunks},
        {"chunk_bytes", stats.chunks.chunk_bytes},
        {"stored_bytes", stats.chunks.stored_bytes},
    };
    (json ? print_json : print_text)(rows, sizeof(rows) / sizeof(rows[0]));
    return EXIT_WELL;
}
