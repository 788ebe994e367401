/*
 * Each folder on the way down is a level: small, since the members of a folder are all told before
 * the first of its subfolders is entered, and those are then looked up one by one. So only one
 * batch is held, however deep and wide the tree is.
 */
#include "service/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "meta/pg_pool.h"
#include "service/access.h"
#include "service/tree.h"

enum { BATCH = 500 };

struct walk_level {
    int64_t folder_id;
    size_t folder_len;    /* of walk->folder at this level */
    bool is_new;          /* it came here in the range: all that is in it is new here */
    bool has_folders;     /* false: none was seen among its members */
    struct removal after; /* the name last told; at WALK_BELOW: last entered */
};

static struct walk_level *
top_of(const struct walk *walk)
{
    return &walk->levels[walk->depth - 1];
}

static bool
is_linked_later(const struct node *node, int64_t seq)
{
    return node->link_seq > seq;
}

/* Its name is in walk->folder already. */
static void
push(struct walk *walk, const struct node *folder, bool is_new)
{
    walk->levels = mem_grow(walk->levels, &walk->level_cap, walk->depth + 1, sizeof(*walk->levels));
    walk->levels[walk->depth++] = (struct walk_level){
        .folder_id = folder->id, .folder_len = walk->folder.len, .is_new = is_new};
    walk->next = WALK_REMOVALS;
}

static void
pop(struct walk *walk)
{
    walk->depth--;
    walk->next = WALK_BELOW;
    if (walk->depth == 0)
        return;
    walk->folder.len = top_of(walk)->folder_len; /* a shorter name of the same way */
    if (walk->folder.data)
        walk->folder.data[walk->folder.len] = '\0';
}

static void
enter(struct walk *walk, const struct node *folder)
{
    struct walk_level *above = top_of(walk);
    bool is_new = above->is_new || is_linked_later(folder, walk->range.after_seq);

    memcpy(above->after.name, folder->name, sizeof(above->after.name));
    buf_adds(&walk->folder, folder->name);
    buf_addc(&walk->folder, '/');
    push(walk, folder, is_new);
}

void
walk_init(struct walk *walk, struct files *files, const struct principal *principal,
          const struct node *folder, const struct change_range *range, bool deep)
{
    *walk = (struct walk){.files = files, .principal = *principal, .range = *range, .deep = deep};
    buf_init(&walk->folder, SIZE_MAX); /* as deep as a tree can be, and it is there already */
    if (range->after_seq < range->until_seq || range->removed_after < range->removed_until)
        push(walk, folder, false);
}

void
walk_release(struct walk *walk)
{
    free(walk->levels);
    free(walk->removals);
    free(walk->nodes);
    buf_release(&walk->folder);
    *walk = (struct walk){0};
}

/* ---- the batches ---- */

struct batch_job {
    int64_t folder_id;
    struct change_range range;
    bool folders_only;
    const struct removal *after; /* or NULL */
    struct removal *removals;
    struct node *nodes;
    size_t cap;
    size_t count;
};

static int
removals_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct batch_job *job = ctx;

    return change_repo_removals(conn, job->folder_id, &job->range, job->after, job->removals,
                                job->cap, &job->count, err);
}

static int
members_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct batch_job *job = ctx;

    return change_repo_members(conn, job->folder_id, &job->range, job->folders_only,
                               job->after ? job->after->name : NULL, job->nodes, job->cap,
                               &job->count, err);
}

static struct batch_job
job_of(const struct walk *walk)
{
    const struct walk_level *top = top_of(walk);
    struct batch_job job = {.folder_id = top->folder_id,
                            .range = walk->range,
                            .after = top->after.name[0] ? &top->after : NULL,
                            .cap = BATCH};

    if (top->is_new)
        job.range.after_seq = 0;
    return job;
}

static int
read_removals(struct walk *walk, struct err *err)
{
    struct walk_level *top = top_of(walk);
    struct batch_job job = job_of(walk);

    walk->next = WALK_MEMBERS;
    if (job.range.after_seq == 0)
        return 0; /* who knows nothing of this folder misses nothing */
    if (!walk->removals)
        walk->removals = mem_array(BATCH, sizeof(*walk->removals));
    job.removals = walk->removals;
    if (pg_pool_run(walk->files->pool, removals_work, &job, err) < 0)
        return -1;
    walk->step = WALK_REMOVALS;
    walk->count = job.count;
    if (job.count == BATCH) {
        walk->next = WALK_REMOVALS;
        top->after = walk->removals[BATCH - 1];
    } else {
        top->after.name[0] = '\0';
    }
    return 0;
}

static int
read_members(struct walk *walk, struct err *err)
{
    struct walk_level *top = top_of(walk);
    struct batch_job job = job_of(walk);

    if (!walk->nodes)
        walk->nodes = mem_array(BATCH, sizeof(*walk->nodes));
    job.nodes = walk->nodes;
    if (pg_pool_run(walk->files->pool, members_work, &job, err) < 0)
        return -1;
    walk->step = WALK_MEMBERS;
    walk->count = job.count;
    for (size_t i = 0; i < job.count && !top->has_folders; i++)
        top->has_folders = walk->nodes[i].kind == NODE_FOLDER;
    if (job.count == BATCH) {
        memcpy(top->after.name, walk->nodes[BATCH - 1].name, sizeof(top->after.name));
    } else {
        walk->next = WALK_BELOW;
        top->after.name[0] = '\0';
    }
    return 0;
}

static int
go_below(struct walk *walk, struct err *err)
{
    struct batch_job job = job_of(walk);
    struct node folder;

    if (!walk->deep || !top_of(walk)->has_folders) {
        pop(walk);
        return 0;
    }
    job.nodes = &folder;
    job.cap = 1;
    job.folders_only = true;
    if (pg_pool_run(walk->files->pool, members_work, &job, err) < 0)
        return -1;
    if (job.count == 0) {
        pop(walk);
        return 0;
    }
    if (access_check(&walk->principal, &folder, ACCESS_READ, err) < 0)
        return -1;
    enter(walk, &folder);
    return 0;
}

int
walk_next(struct walk *walk, struct err *err)
{
    static int (*const STEPS[])(struct walk * walk, struct err * err) = {
        [WALK_REMOVALS] = read_removals,
        [WALK_MEMBERS] = read_members,
        [WALK_BELOW] = go_below,
    };

    walk->count = 0;
    while (walk->count == 0 && walk->depth > 0) {
        if (STEPS[walk->next](walk, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- going on ---- */

struct resume_job {
    struct walk *walk;
    const struct path *root;
    struct path path;
    struct place place;
};

static int
resume_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct resume_job *job = ctx;

    place_release(&job->place);
    if (tree_resolve(conn, &job->walk->principal, &job->path, &job->place, err) < 0)
        return -1;
    if (job->place.found <= job->root->depth ||
        job->place.nodes[job->root->depth].id != job->walk->levels[0].folder_id)
        return err_set(err, ERR_NOT_FOUND, "the folder is not there any more");
    return 0;
}

static void
set_after(struct walk *walk, const char *name, enum node_kind kind)
{
    struct removal *after = &top_of(walk)->after;

    snprintf(after->name, sizeof(after->name), "%s", name);
    after->kind = kind;
}

/* Down to the folder of what was last told, or as far as the way still is what it was. */
static bool
descend(struct walk *walk, const struct place *place, size_t root_depth, const struct path *last)
{
    for (size_t i = 0; i + 1 < last->depth; i++) {
        size_t at = root_depth + 1 + i;
        const struct node *node = at < place->found ? &place->nodes[at] : NULL;

        top_of(walk)->has_folders = true; /* nobody has looked */
        if (!node || node->kind != NODE_FOLDER || is_linked_later(node, walk->range.until_seq)) {
            set_after(walk, last->names[i], NODE_FOLDER);
            walk->next = WALK_BELOW;
            return false;
        }
        enter(walk, node);
    }
    top_of(walk)->has_folders = true;
    return true;
}

static struct path
join(const struct path *root, const struct path *last)
{
    struct path path = {.depth = root->depth + last->depth};

    path.names = mem_array(path.depth + 1, sizeof(*path.names));
    memcpy(path.names, root->names, root->depth * sizeof(*path.names));
    memcpy(path.names + root->depth, last->names, last->depth * sizeof(*path.names));
    path.names[path.depth] = NULL;
    return path;
}

int
walk_resume(struct walk *walk, const struct path *root, enum walk_step step,
            const struct path *last, enum node_kind kind, struct err *err)
{
    struct resume_job job = {.walk = walk, .root = root, .path = join(root, last)};
    int rc = walk->depth > 0 ? pg_pool_run(walk->files->pool, resume_work, &job, err) : 0;

    if (rc == 0 && walk->depth > 0 && descend(walk, &job.place, root->depth, last)) {
        set_after(walk, path_last(last), kind);
        walk->next = step;
    }
    place_release(&job.place);
    free(job.path.names);
    return rc;
}

/* ---- how much it is ---- */

struct count_job {
    int64_t folder_id;
    uint64_t most;
    uint64_t count;
};

static int
count_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct count_job *job = ctx;

    return node_repo_count_below(conn, job->folder_id, job->most, &job->count, err);
}

int
walk_count(struct files *files, const struct principal *principal, const struct node *folder,
           uint64_t most, uint64_t *ret_count, struct err *err)
{
    struct count_job job = {.folder_id = folder->id, .most = most};

    if (access_check(principal, folder, ACCESS_READ, err) < 0 ||
        pg_pool_run(files->pool, count_work, &job, err) < 0)
        return -1;
    *ret_count = job.count;
    return 0;
}
