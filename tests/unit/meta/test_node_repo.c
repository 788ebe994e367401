#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "meta/change_repo.h"
#include "meta/node_repo.h"
#include "meta/prop_repo.h"
#include "meta/user_repo.h"
#include "support/test_db.h"

/* A connection inside a transaction, which is how a repo is used; rolled back at the end. */
struct fixture {
    struct test_db *db;
    struct pg_conn *conn;
    struct arena arena;
    struct space space;
    int64_t user_id;
    struct err err;
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s", #call, f->err.msg);                                                 \
    } while (0)

#define FAILS(call, wanted)                                                                        \
    do {                                                                                           \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(f->err.code, (wanted));                                                   \
        f->err = (struct err){0};                                                                  \
    } while (0)

static int
open_fixture(void **state)
{
    struct fixture *f = mem_zalloc(sizeof(*f));
    struct user user;

    f->db = test_db_new(true);
    arena_init(&f->arena);
    OK(pg_connect(f->db->conninfo, &f->conn, &f->err));
    pg_begin(f->conn);
    OK(user_repo_add(f->conn, "ann", "hash", 1000000, &f->user_id, &f->err));
    OK(user_repo_find(f->conn, "ann", &user, &f->err));
    OK(node_repo_lock_space(f->conn, user.space_id, &f->space, &f->err));
    OK(pg_commit(f->conn, &f->err));
    pg_begin(f->conn);
    *state = f;
    return 0;
}

static int
close_fixture(void **state)
{
    struct fixture *f = *state;

    pg_close(f->conn);
    test_db_free(f->db);
    arena_release(&f->arena);
    free(f);
    return 0;
}

static int64_t
number(struct fixture *f, const char *sql)
{
    AUTO_ROWS struct pg_rows *rows = NULL;

    OK(pg_run(f->conn, sql, NULL, &rows, &f->err));
    return pg_int(rows, 0, 0);
}

/* --- building trees --- */

static int64_t
add_folder(struct fixture *f, int64_t parent_id, const char *name)
{
    struct node node = {.space_id = f->space.id,
                        .parent_id = parent_id,
                        .kind = NODE_FOLDER,
                        .mtime_us = 1000000,
                        .seq = 1};

    snprintf(node.name, sizeof(node.name), "%s", name);
    OK(node_repo_insert(f->conn, &node, &f->err));
    return node.id;
}

static const char SQL_CONTENT[] =
    "insert into contents (id, size_bytes, chunk_count, chunks, refs) values ($1, 10, 0, '', 1) "
    "on conflict (id) do update set refs = contents.refs + 1, unreferenced_at = null";

/* 10 bytes of the content `seed`. */
static int64_t
add_file(struct fixture *f, int64_t parent_id, const char *name, int seed)
{
    struct node node = {.space_id = f->space.id,
                        .parent_id = parent_id,
                        .kind = NODE_FILE,
                        .content_id = digest_of(&seed, sizeof(seed)),
                        .size_bytes = 10,
                        .mime = "text/plain",
                        .mtime_us = 1234567890123456,
                        .seq = 1};
    AUTO_PARAMS struct pg_params params = PG_PARAMS_EMPTY;

    snprintf(node.name, sizeof(node.name), "%s", name);
    pg_add_digest(&params, &node.content_id);
    OK(pg_run(f->conn, SQL_CONTENT, &params, NULL, &f->err));
    OK(node_repo_insert(f->conn, &node, &f->err));
    OK(node_repo_use(f->conn, f->space.id, 10, &f->err));
    return node.id;
}

static struct node
get(struct fixture *f, int64_t node_id)
{
    struct node node;

    OK(node_repo_get(f->conn, node_id, &node, &f->err));
    return node;
}

static size_t
walk(struct fixture *f, const char *raw, struct node *nodes)
{
    struct path path;
    size_t found;

    OK(path_parse(slice_of(raw), &f->arena, &path, &f->err));
    OK(node_repo_walk(f->conn, f->space.id, &path, nodes, &found, &f->err));
    return found;
}

/* --- spaces --- */

static void
test_each_lock_of_a_space_is_the_next_in_order(void **state)
{
    struct fixture *f = *state;
    struct space again;

    assert_int_equal(f->space.seq, 1);
    assert_int_equal(f->space.quota_bytes, 1000000);
    OK(node_repo_lock_space(f->conn, f->space.id, &again, &f->err));
    assert_int_equal(again.seq, 2);
    OK(node_repo_use(f->conn, f->space.id, 100, &f->err));
    OK(node_repo_use(f->conn, f->space.id, -30, &f->err));
    OK(node_repo_get_space(f->conn, f->space.id, &again, &f->err));
    assert_int_equal(again.seq, 2);
    assert_int_equal(again.used_bytes, 70);
    assert_int_equal(again.root_id, f->space.root_id);
    FAILS(node_repo_lock_space(f->conn, f->space.id + 1000, &again, &f->err), ERR_LOGIN);
}

/* --- looking --- */

static void
test_a_walk_goes_as_far_as_the_path_exists(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t b = add_folder(f, a, "b \u00fc");
    int64_t c = add_file(f, b, "c.txt", 1);
    struct node nodes[6];

    assert_int_equal(walk(f, "/", nodes), 1);
    assert_int_equal(nodes[0].id, f->space.root_id);
    assert_string_equal(nodes[0].name, "");
    assert_int_equal(nodes[0].parent_id, 0);
    assert_int_equal(walk(f, "/a/b%20%c3%bc/c.txt", nodes), 4);
    assert_int_equal(nodes[1].id, a);
    assert_int_equal(nodes[2].id, b);
    assert_int_equal(nodes[3].id, c);
    assert_int_equal(nodes[3].parent_id, b);
    assert_int_equal(nodes[3].kind, NODE_FILE);
    assert_int_equal(nodes[3].size_bytes, 10);
    assert_int_equal(nodes[3].mtime_us, 1234567890123456);
    assert_int_equal(nodes[3].content_seq, 1);
    assert_string_equal(nodes[3].mime, "text/plain");
    assert_int_equal(walk(f, "/a/x/c.txt", nodes), 2);
    assert_int_equal(walk(f, "/A", nodes), 1);
    assert_int_equal(walk(f, "/a/b%20%c3%bc/c.txt/d/e", nodes), 4);
}

static void
test_a_listing_is_in_byte_order_and_in_pages(void **state)
{
    static const char *const names[] = {"B", "a", "a b",    "a-b",       "a.b",
                                        "b", "z", "\u00e4", "\U0001f600"};
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    struct fixture *f = *state;
    AUTO_FREE struct node *nodes = mem_array(4, sizeof(*nodes));
    const struct change_range all = {.until_seq = INT64_MAX, .removed_until = INT64_MAX};
    char after[PATH_NAME_MAX_BYTES + 1] = "";
    size_t seen = 0;
    size_t count;

    for (int i = COUNT - 1; i >= 0; i--)
        add_folder(f, f->space.root_id, names[i]);
    do {
        OK(change_repo_members(f->conn, f->space.root_id, &all, false, seen == 0 ? NULL : after,
                               nodes, 4, &count, &f->err));
        for (size_t i = 0; i < count; i++)
            assert_string_equal(nodes[i].name, names[seen++]);
        if (count > 0)
            snprintf(after, sizeof(after), "%s", nodes[count - 1].name);
    } while (count > 0);
    assert_int_equal(seen, COUNT);
}

/* --- changing --- */

static void
test_a_name_that_is_taken_does_not_spoil_the_transaction(void **state)
{
    struct fixture *f = *state;
    struct node node = {.space_id = f->space.id, .parent_id = f->space.root_id, .name = "x"};

    add_file(f, f->space.root_id, "x", 1);
    FAILS(node_repo_insert(f->conn, &node, &f->err), ERR_EXISTS);
    add_folder(f, f->space.root_id, "y");
}

static void
test_new_bytes_keep_the_node_and_change_its_stamps(void **state)
{
    struct fixture *f = *state;
    int64_t id = add_file(f, f->space.root_id, "x", 1);
    struct node before = get(f, id);
    struct node node = before;

    node.size_bytes = 77;
    node.seq = 9;
    snprintf(node.mime, sizeof(node.mime), "image/png");
    OK(node_repo_set_content(f->conn, &node, &f->err));
    OK(node_repo_set_mtime(f->conn, id, 5, &f->err));
    node = get(f, id);
    assert_int_equal(node.size_bytes, 77);
    assert_int_equal(node.seq, 9);
    assert_int_equal(node.content_seq, 9);
    assert_int_equal(node.mtime_us, 5);
    assert_int_equal(node.created_us, before.created_us);
    assert_string_equal(node.mime, "image/png");
    OK(node_repo_stamp(f->conn, (int64_t[]){id, f->space.root_id}, 2, 12, &f->err));
    assert_int_equal(get(f, id).seq, 12);
    assert_int_equal(get(f, id).content_seq, 9);
    assert_int_equal(get(f, f->space.root_id).seq, 12);
    node.id = f->space.root_id;
    FAILS(node_repo_set_content(f->conn, &node, &f->err), ERR_NOT_FOUND);
}

static void
test_a_move_takes_the_tree_along(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t b = add_folder(f, f->space.root_id, "b");
    struct node nodes[5];

    add_file(f, a, "x", 1);
    OK(node_repo_move(f->conn, a, b, "c", 5, &f->err));
    assert_int_equal(walk(f, "/b/c/x", nodes), 4);
    assert_int_equal(nodes[2].id, a);
    assert_int_equal(nodes[2].seq, 5);
    FAILS(node_repo_move(f->conn, f->space.root_id, b, "c2", 5, &f->err), ERR_NOT_FOUND);
    add_folder(f, b, "taken");
    FAILS(node_repo_move(f->conn, a, b, "taken", 6, &f->err), ERR_EXISTS);
}

static void
set_prop(struct fixture *f, int64_t node_id, const char *name, const char *value)
{
    struct prop prop = {node_id, "urn:x", (char *)name, (char *)value, "de"};

    OK(prop_repo_set(f->conn, &prop, &f->err));
}

static void
test_a_copy_has_everything_below_and_counts_its_contents(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t sub = add_folder(f, a, "sub");
    int64_t target = add_folder(f, f->space.root_id, "target");
    struct node nodes[6];
    struct prop *props;
    size_t prop_count;
    int64_t copy;

    add_file(f, a, "1", 1);
    add_file(f, sub, "2", 1);
    add_file(f, sub, "3", 3);
    set_prop(f, a, "p", "<b/>");
    set_prop(f, sub, "q", "v");
    OK(node_repo_copy(f->conn, a, false, target, "copy", 8, &copy, &f->err));
    assert_int_equal(walk(f, "/target/copy/sub/3", nodes), 5);
    assert_int_equal(nodes[2].id, copy);
    assert_int_equal(nodes[2].seq, 8);
    assert_int_equal(nodes[4].content_seq, 8);
    assert_int_equal(nodes[4].mtime_us, 1234567890123456);
    assert_string_equal(nodes[4].mime, "text/plain");
    assert_int_equal(number(f, "select refs from contents where refs = 4"), 4);
    assert_int_equal(number(f, "select refs from contents where refs = 2"), 2);
    OK(prop_repo_list(f->conn, (int64_t[]){nodes[3].id, copy}, 2, &f->arena, &props, &prop_count,
                      &f->err));
    assert_int_equal(prop_count, 2);
    assert_string_equal(props[0].ns, "urn:x");
    assert_string_equal(props[0].lang, "de");
    assert_int_equal(walk(f, "/a/sub/3", nodes), 4);
    FAILS(node_repo_copy(f->conn, a, false, target, "copy", 9, &copy, &f->err), ERR_EXISTS);
}

static void
test_a_shallow_copy_and_the_copy_of_a_file_are_one_node(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t file = add_file(f, a, "1", 1);
    struct tree_totals totals;
    int64_t copy;

    OK(node_repo_copy(f->conn, a, true, f->space.root_id, "b", 2, &copy, &f->err));
    OK(node_repo_subtree(f->conn, copy, &totals, &f->err));
    assert_int_equal(totals.folders, 1);
    assert_int_equal(totals.files, 0);
    OK(node_repo_copy(f->conn, file, false, copy, "1", 3, &copy, &f->err));
    OK(node_repo_subtree(f->conn, copy, &totals, &f->err));
    assert_int_equal(totals.files, 1);
    assert_int_equal(totals.bytes, 10);
    FAILS(node_repo_copy(f->conn, 999999, false, a, "n", 3, &copy, &f->err), ERR_NOT_FOUND);
}

static void
test_properties_are_set_replaced_and_removed(void **state)
{
    struct fixture *f = *state;
    int64_t id = add_folder(f, f->space.root_id, "a");
    struct prop *props;
    size_t count;

    set_prop(f, id, "b", "1");
    set_prop(f, id, "a", "2");
    set_prop(f, id, "b", "3");
    OK(prop_repo_list(f->conn, &id, 1, &f->arena, &props, &count, &f->err));
    assert_int_equal(count, 2);
    assert_string_equal(props[0].name, "a");
    assert_string_equal(props[1].value, "3");
    OK(prop_repo_remove(f->conn, id, "urn:x", "b", &f->err));
    OK(prop_repo_remove(f->conn, id, "urn:x", "never", &f->err));
    OK(prop_repo_list(f->conn, &id, 1, &f->arena, &props, &count, &f->err));
    assert_int_equal(count, 1);
    OK(prop_repo_list(f->conn, NULL, 0, &f->arena, &props, &count, &f->err));
    assert_int_equal(count, 0);
}

/* --- trash --- */

static void
trash(struct fixture *f, int64_t node_id, const char *path)
{
    struct node node = get(f, node_id);

    OK(node_repo_trash(f->conn, &node, path, 20, &f->err));
}

static void
test_a_tree_goes_to_the_trash_and_comes_back(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t b = add_folder(f, a, "b");
    struct trash_entry entries[4];
    struct trash_entry entry;
    struct node nodes[5];
    size_t count;

    add_file(f, b, "1", 1);
    add_file(f, b, "2", 2);
    trash(f, b, "/a/b");
    assert_int_equal(walk(f, "/a/b", nodes), 2);
    OK(node_repo_trash_list(f->conn, f->space.id, 0, &f->arena, entries, 4, &count, &f->err));
    assert_int_equal(count, 1);
    assert_int_equal(entries[0].node_id, b);
    assert_int_equal(entries[0].parent_id, a);
    assert_int_equal(entries[0].kind, NODE_FOLDER);
    assert_int_equal(entries[0].bytes, 20);
    assert_string_equal(entries[0].path, "/a/b");
    assert_in_range(entries[0].deleted_us, clock_now_us() - 60000000, clock_now_us() + 60000000);
    OK(node_repo_trash_get(f->conn, f->space.id, b, &f->arena, &entry, &f->err));
    FAILS(node_repo_trash_get(f->conn, f->space.id + 1, b, &f->arena, &entry, &f->err),
          ERR_NOT_FOUND);
    add_folder(f, a, "b");
    OK(node_repo_trash_restore(f->conn, b, a, "b2", 21, &f->err));
    assert_int_equal(walk(f, "/a/b2/1", nodes), 4);
    assert_int_equal(nodes[2].seq, 21);
    FAILS(node_repo_trash_restore(f->conn, b, a, "b3", 22, &f->err), ERR_NOT_FOUND);
    OK(node_repo_trash_list(f->conn, f->space.id, 0, &f->arena, entries, 4, &count, &f->err));
    assert_int_equal(count, 0);
}

static void
test_what_is_below_the_trash_is_not_live(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t b = add_folder(f, a, "b");
    bool live;
    char *path;

    OK(node_repo_is_live(f->conn, b, &live, &f->err));
    assert_true(live);
    OK(node_repo_path(f->conn, b, &f->arena, &path, &f->err));
    assert_string_equal(path, "/a/b");
    OK(node_repo_path(f->conn, f->space.root_id, &f->arena, &path, &f->err));
    assert_string_equal(path, "/");
    trash(f, a, "/a");
    OK(node_repo_is_live(f->conn, b, &live, &f->err));
    assert_false(live);
    OK(node_repo_is_live(f->conn, 999999, &live, &f->err));
    assert_false(live);
    FAILS(node_repo_path(f->conn, b, &f->arena, &path, &f->err), ERR_NOT_FOUND);
}

static void
test_totals_leave_out_the_trash(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t b = add_folder(f, f->space.root_id, "b");
    struct tree_totals totals;

    add_file(f, a, "1", 1);
    add_file(f, b, "2", 2);
    trash(f, b, "/b");
    OK(node_repo_totals(f->conn, &totals, &f->err));
    assert_int_equal(totals.files, 1);
    assert_int_equal(totals.folders, 1);
    assert_int_equal(totals.bytes, 10);
}

/* Purges to the end; returns the steps it took. */
static int
purge_all(struct fixture *f, int64_t space_id, int64_t before_us, uint64_t *ret_purged)
{
    bool more = true;
    int steps = 0;

    *ret_purged = 0;
    for (; more; steps++) {
        uint64_t purged;

        OK(node_repo_purge_step(f->conn, space_id, before_us, &purged, &more, &f->err));
        assert_in_range(purged, 0, 501);
        *ret_purged += purged;
    }
    return steps;
}

static const char SQL_WIDE[] =
    "insert into nodes (space_id, parent_id, kind, name, mtime, seq, content_seq) "
    "select n.space_id, n.id, 0, 'd' || i, now(), 1, 1 from nodes n, generate_series(1, 1200) i "
    "where n.name = 'wide'";
static const char SQL_FILES[] =
    "with fresh as ("
    "  insert into nodes (space_id, parent_id, kind, name, content_id, size_bytes, mtime, seq,"
    "    content_seq)"
    "  select n.space_id, n.id, 1, 'f' || i, c.id, 10, now(), 1, 1"
    "  from nodes n, generate_series(1, 2) i, (select id from contents limit 1) c"
    "  where n.name like 'd%' and n.name <> 'd7'"
    "  returning id"
    ") "
    "update contents set refs = refs + (select count(*) from fresh)";

static void
test_a_purge_takes_any_tree_apart_in_bounded_steps(void **state)
{
    struct fixture *f = *state;
    int64_t wide = add_folder(f, f->space.root_id, "wide");
    int64_t below = wide;
    uint64_t purged;
    struct space space;

    add_file(f, wide, "file", 1);
    for (int i = 0; i < 300; i++)
        below = add_folder(f, below, "deep");
    OK(pg_run(f->conn, SQL_WIDE, NULL, NULL, &f->err));
    OK(pg_run(f->conn, SQL_FILES, NULL, NULL, &f->err));
    set_prop(f, wide, "p", "v");
    OK(node_repo_use(f->conn, f->space.id, (1199 + 300) * 2 * 10, &f->err));
    trash(f, wide, "/wide");
    purge_all(f, f->space.id, clock_now_us() - 3600000000, &purged);
    assert_int_equal(purged, 0);
    purge_all(f, f->space.id + 1, clock_now_us() + 3600000000, &purged);
    assert_int_equal(purged, 0);
    purge_all(f, f->space.id, clock_now_us() + 3600000000, &purged);
    assert_int_equal(purged, 1 + 1 + 300 + 1200 + (1199 + 300) * 2);
    assert_int_equal(number(f, "select count(*) from nodes"), 1);
    assert_int_equal(number(f, "select count(*) from trash"), 0);
    assert_int_equal(number(f, "select count(*) from props"), 0);
    assert_int_equal(number(f, "select sum(refs)::bigint from contents"), 0);
    OK(node_repo_get_space(f->conn, f->space.id, &space, &f->err));
    assert_int_equal(space.used_bytes, 0);
}

static void
test_what_is_being_purged_cannot_be_restored(void **state)
{
    struct fixture *f = *state;
    int64_t wide = add_folder(f, f->space.root_id, "wide");
    struct trash_entry entry;
    uint64_t purged;
    size_t count;
    bool more;

    OK(pg_run(f->conn, SQL_WIDE, NULL, NULL, &f->err));
    trash(f, wide, "/wide");
    OK(node_repo_purge_step(f->conn, 0, clock_now_us() + 3600000000, &purged, &more, &f->err));
    assert_int_equal(purged, 500);
    assert_true(more);
    FAILS(node_repo_trash_get(f->conn, f->space.id, wide, &f->arena, &entry, &f->err),
          ERR_NOT_FOUND);
    FAILS(node_repo_trash_restore(f->conn, wide, f->space.root_id, "w", 3, &f->err), ERR_NOT_FOUND);
    OK(node_repo_trash_list(f->conn, f->space.id, 0, &f->arena, &entry, 1, &count, &f->err));
    assert_int_equal(count, 0);
    purge_all(f, 0, 0, &purged); /* begun is ended, whatever the date */
    assert_int_equal(purged, 701);
}

static void
test_the_tree_of_a_removed_user_is_purged_with_its_space(void **state)
{
    struct fixture *f = *state;
    int64_t a = add_folder(f, f->space.root_id, "a");
    int64_t old = add_folder(f, f->space.root_id, "old");
    struct node nodes[2];
    struct path path = {0};
    struct space space;
    struct user user;
    uint64_t purged;
    size_t found;

    add_file(f, a, "1", 1);
    add_file(f, old, "2", 2);
    trash(f, old, "/old");
    OK(user_repo_remove(f->conn, f->user_id, &f->err));
    FAILS(user_repo_find(f->conn, "ann", &user, &f->err), ERR_NOT_FOUND);
    FAILS(node_repo_lock_space(f->conn, f->space.id, &space, &f->err), ERR_LOGIN);
    FAILS(node_repo_walk(f->conn, f->space.id, &path, nodes, &found, &f->err), ERR_LOGIN);
    purge_all(f, 0, 0, &purged);
    assert_int_equal(purged, 5);
    assert_int_equal(number(f, "select count(*) from spaces"), 0);
    assert_int_equal(number(f, "select count(*) from nodes"), 0);
    assert_int_equal(number(f, "select sum(refs)::bigint from contents"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_lock_of_a_space_is_the_next_in_order),
        TEST(test_a_walk_goes_as_far_as_the_path_exists),
        TEST(test_a_listing_is_in_byte_order_and_in_pages),
        TEST(test_a_name_that_is_taken_does_not_spoil_the_transaction),
        TEST(test_new_bytes_keep_the_node_and_change_its_stamps),
        TEST(test_a_move_takes_the_tree_along),
        TEST(test_a_copy_has_everything_below_and_counts_its_contents),
        TEST(test_a_shallow_copy_and_the_copy_of_a_file_are_one_node),
        TEST(test_properties_are_set_replaced_and_removed),
        TEST(test_a_tree_goes_to_the_trash_and_comes_back),
        TEST(test_what_is_below_the_trash_is_not_live),
        TEST(test_totals_leave_out_the_trash),
        TEST(test_a_purge_takes_any_tree_apart_in_bounded_steps),
        TEST(test_what_is_being_purged_cannot_be_restored),
        TEST(test_the_tree_of_a_removed_user_is_purged_with_its_space),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
