/*
 * The table is all there is: a point that is not in it stops the process, and so does a rule for
 * one. The counters and rules are global because a point must cost its place one line.
 */
#ifdef OXI_FAULTS

#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { KIND_POINT, KIND_CALL, KIND_WRITE };

static const char *const KIND_NAMES[] = {"point", "call", "write"};

static const struct {
    const char *name;
    enum kind kind;
} POINTS[] = {
    /* An upload, up to durable blobs. */
    {"quota.reserved", KIND_POINT},
    {"ingest.lease.before", KIND_POINT}, /* a batch is named, nothing is asked yet */
    {"ingest.lease.after", KIND_POINT},
    {"container.pays", KIND_CALL}, /* skip: whatever it comes to, the chunk is packed */
    {"ingest.put.before", KIND_POINT},
    {"blob.put.create", KIND_CALL},
    {"blob.put.write", KIND_WRITE},
    {"blob.put.start", KIND_CALL}, /* of the write-out */
    {"ingest.put.after", KIND_POINT},
    {"ingest.sync.before", KIND_POINT}, /* everything written, nothing synced */
    {"blob.sync.open", KIND_CALL},
    {"blob.sync.file", KIND_CALL},
    {"blob.sync.folder", KIND_CALL},
    {"ingest.sync.after", KIND_POINT},

    /* Its transaction. */
    {"register.before", KIND_POINT},  /* BEGIN */
    {"register.locked", KIND_POINT},  /* the space */
    {"register.settled", KIND_POINT}, /* the quota */
    {"register.attached", KIND_POINT},
    {"register.unreferenced", KIND_POINT}, /* the content it replaces */
    {"register.exchanged", KIND_POINT},
    {"register.node", KIND_POINT},
    {"register.used", KIND_POINT},
    {"register.stamped", KIND_POINT},   /* COMMIT is next */
    {"register.committed", KIND_POINT}, /* the client does not know yet */
    {"register.kept", KIND_POINT},      /* blobs that lost a race are removed */

    /* Folders, COPY, MOVE, DELETE. */
    {"change.before", KIND_POINT}, /* BEGIN */
    {"trash.node", KIND_POINT},    /* cut off, with an entry */
    {"transfer.node", KIND_POINT}, /* copied or moved */
    {"tree.stamped", KIND_POINT},  /* last statement of most changes; COMMIT is next */
    {"change.committed", KIND_POINT},
    {"lock.node", KIND_POINT},  /* an empty file, for the lock to be on */
    {"lock.added", KIND_POINT}, /* COMMIT is next */
    {"restore.node", KIND_POINT},
    {"restore.committed", KIND_POINT},

    /* Emptying the trash. */
    {"purge.begun", KIND_POINT},
    {"purge.cut", KIND_POINT}, /* children have entries of their own */
    {"purge.deleted", KIND_POINT},
    {"purge.committed", KIND_POINT}, /* a step */

    /* Collect and sweep. */
    {"collect.contents", KIND_POINT}, /* rows deleted, COMMIT is next */
    {"collect.proved", KIND_POINT},
    {"collect.chunks", KIND_POINT},   /* rows deleted, COMMIT is next */
    {"collect.committed", KIND_POINT},
    {"collect.remove", KIND_POINT}, /* before each blob */
    {"blob.list", KIND_CALL},
    {"sweep.listed", KIND_POINT},
    {"sweep.condemned", KIND_POINT},
    {"sweep.remove", KIND_POINT}, /* before each blob */
    {"blob.remove", KIND_CALL},

    /* Storing in another form. */
    {"recompress.put", KIND_POINT}, /* before each blob */
    {"recompress.sync", KIND_POINT}, /* before: a batch is written */
    {"recompress.begin", KIND_POINT}, /* BEGIN */
    {"recompress.switched", KIND_POINT}, /* COMMIT is next */
    {"recompress.committed", KIND_POINT},
    {"recompress.remove", KIND_POINT}, /* before each blob that no row names now */

    /* A download. */
    {"blob.read.open", KIND_CALL},
    {"blob.read.data", KIND_CALL},

    /* Migrations. */
    {"migrate.locked", KIND_POINT},
    {"migrate.noted", KIND_POINT},  /* BEGIN, and the row that says it has run */
    {"migrate.script", KIND_POINT}, /* its statements; COMMIT is next */
    {"migrate.committed", KIND_POINT},
};
enum { POINT_COUNT = sizeof(POINTS) / sizeof(POINTS[0]), RULE_MAX = 8 };

static const struct {
    const char *name;
    int errnum;
} ERRNOS[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
              {"EMFILE", EMFILE}, {"EROFS", EROFS},   {"EACCES", EACCES}};
enum { ERRNO_COUNT = sizeof(ERRNOS) / sizeof(ERRNOS[0]) };

enum action { ACT_NONE, ACT_KILL, ACT_SKIP, ACT_FAIL };

struct rule {
    size_t point;
    enum action action;
    int errnum;
    uint64_t first;
    bool lasting;
};

static struct rule rules[RULE_MAX];
static size_t rule_count;
static atomic_uint_fast64_t passes[POINT_COUNT];

/* ---- reading the environment ---------------------------------------------------------------- */

static void
give_up(const char *what, const char *where)
{
    fprintf(stderr, "fault: %s: %s\n", what, where);
    _exit(2);
}

static size_t
find_point(const char *name)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        if (strcmp(POINTS[i].name, name) == 0)
            return i;
    give_up("no such point", name);
    return 0;
}

static void
read_action(const char *word, struct rule *rule)
{
    rule->action = strcmp(word, "kill") == 0 ? ACT_KILL : ACT_SKIP;
    if (rule->action == ACT_KILL || strcmp(word, "skip") == 0)
        return;
    for (size_t i = 0; i < ERRNO_COUNT; i++) {
        if (strcmp(ERRNOS[i].name, word) == 0) {
            rule->action = ACT_FAIL;
            rule->errnum = ERRNOS[i].errnum;
            return;
        }
    }
    give_up("no such action", word);
}

/* "name:action:n" or "name:action:n+", taken apart in place. */
static void
read_rule(char *text)
{
    struct rule *rule = &rules[rule_count];
    char *name = strsep(&text, ":");
    char *action = strsep(&text, ":");
    char *end = NULL;

    if (rule_count == RULE_MAX || action == NULL || text == NULL)
        give_up("not NAME:ACTION:N", name);
    rule->point = find_point(name);
    read_action(action, rule);
    if (rule->action != ACT_KILL && POINTS[rule->point].kind == KIND_POINT)
        give_up("a point can only kill", name);
    rule->first = strtoull(text, &end, 10);
    rule->lasting = *end == '+';
    if (rule->first == 0 || end[rule->lasting] != '\0')
        give_up("not a number of passes", text);
    rule_count++;
}

static void
print_points(void)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        printf("%s %s\n", POINTS[i].name, KIND_NAMES[POINTS[i].kind]);
}

static void
print_passes(void)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        fprintf(stderr, "fault: passed %s %llu\n", POINTS[i].name,
                (unsigned long long)atomic_load(&passes[i]));
}

void
fault_start(void)
{
    const char *set = getenv("OXI_FAULT");
    char *text = strdup(set == NULL ? "" : set);
    char *rest = text;
    char *word;

    if (text != NULL && strcmp(text, "list") == 0) {
        print_points();
        exit(0);
    }
    if (text != NULL && strcmp(text, "count") == 0) {
        (void)atexit(print_passes); /* without it the drill finds no lines, and says so */
        rest = NULL;
    }
    while ((word = strsep(&rest, ",")) != NULL)
        if (word[0] != '\0')
            read_rule(word);
    free(text);
}

/* ---- passing -------------------------------------------------------------------------------- */

/* One pass of a point; a rule that acts now, or NULL. */
static const struct rule *
pass(const char *name)
{
    size_t point = find_point(name);
    uint64_t count = atomic_fetch_add(&passes[point], 1) + 1;

    for (size_t i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];

        if (rule->point != point || count < rule->first || (count > rule->first && !rule->lasting))
            continue;
        if (count == rule->first)
            fprintf(stderr, "fault: acts at %s, pass %llu\n", name, (unsigned long long)count);
        return rule;
    }
    return NULL;
}

static void
die(void)
{
    (void)raise(SIGKILL);
}

void
fault_point(const char *name)
{
    if (pass(name) != NULL)
        die();
}

static bool
act(const struct rule *rule, int *ret_rc)
{
    if (rule->action == ACT_KILL)
        die();
    *ret_rc = rule->action == ACT_FAIL ? -1 : 0;
    errno = rule->errnum;
    return true;
}

bool
fault_takes(const char *name, int *ret_rc)
{
    const struct rule *rule = pass(name);

    return rule != NULL && act(rule, ret_rc);
}

bool
fault_tears(const char *name, int fd, const void *data, size_t len)
{
    const struct rule *rule = pass(name);
    int rc = 0;

    if (rule == NULL)
        return false;
    if (write(fd, data, len / 2) < 0)
        give_up("write", name);
    return act(rule, &rc);
}

#endif
