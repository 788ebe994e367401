/* Quarantine, healing, reading back in turn, and what an operator is told. */
#include <pthread.h>
#include <stdio.h>

#include "base/metrics.h"
#include "uploads.h"

static const char SQL_QUARANTINED[] =
    "select count(*) from chunks where quarantined_at is not null";
static const char SQL_VERIFIED[] = "select count(*) from chunks where verified_at is not null";
static const char SQL_CHUNK_REFS[] = "select coalesce(sum(refs), 0)::bigint from chunks";

static struct blob_key
key_of(const struct upload *upload, size_t at)
{
    return (struct blob_key){upload->written[at].id, upload->written[at].generation};
}

static enum chunk_mark
quarantine(struct chunk_index *index, struct blob_key key)
{
    enum chunk_mark mark;
    struct err err = {0};

    if (chunk_index_quarantine(index, &key, "a test", &mark, &err) < 0)
        fail_msg("%s", err.msg);
    return mark;
}

/* The rows of these chunks name the blobs of that upload. */
static void
assert_stored(struct chunk_index *index, const struct upload *upload, bool expected)
{
    struct blob_key keys[CHUNKS_MAX];
    bool named[CHUNKS_MAX];
    struct err err = {0};

    for (size_t i = 0; i < upload->content.written_count; i++)
        keys[i] = key_of(upload, i);
    assert_int_equal(chunk_index_named(index, keys, upload->content.written_count, named, &err), 0);
    for (size_t i = 0; i < upload->content.written_count; i++)
        assert_int_equal(named[i], expected);
}

/* No node has these contents; their chunks must be counted right all the same. */
static void
assert_exact(struct test_db *db)
{
    struct chunk_drift drift = verify(db, false);

    assert_int_equal(drift.chunks_wrong, 0);
    assert_int_equal(drift.chunks_missing, 0);
}

/* --- quarantine --- */

static void
test_a_chunk_is_quarantined_once_and_only_by_its_generation(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;
    struct blob_key other;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    other = key_of(&upload, 0);
    other.generation++;
    assert_int_equal(quarantine(index, other), CHUNK_MARK_NONE);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 0);
    assert_int_equal(quarantine(index, key_of(&upload, 0)), CHUNK_MARK_NEW);
    assert_int_equal(quarantine(index, key_of(&upload, 0)), CHUNK_MARK_OLD);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 1);
}

static void
test_a_quarantined_chunk_is_not_known_and_not_leased(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload, again;

    make_upload(&upload, (int[]){1, 2, 3}, 3);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 1));
    assert_int_equal(lease_upload(index, &again, (int[]){1, 2, 3}, 3), 2);
    assert_int_equal(again.content.written_count, 1);
    assert_true(digest_eq(&again.written[0].id, &upload.written[1].id));
    assert_int_equal(test_db_number(db, "select count(*) from chunks where lease_until > now()"),
                     2);
}

/* --- healing --- */

static void
test_the_same_file_uploaded_again_heals(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct manifest *manifest = NULL;
    struct upload upload, again;
    struct err err = {0};

    make_upload(&upload, (int[]){1, 2, 3}, 3);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 0));
    quarantine(index, key_of(&upload, 2));
    assert_int_equal(lease_upload(index, &again, (int[]){1, 2, 3}, 3), 1);
    attach(db, &again);
    assert_int_equal(again.healed_count, 2);
    assert_int_equal(again.loser_count, 0);
    assert_stored(index, &again, true);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 0);
    assert_int_equal(test_db_number(db, SQL_VERIFIED), 2);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 3);
    assert_exact(db);
    assert_int_equal(chunk_index_load_manifest(index, &upload.content.content_id, &manifest, &err),
                     0);
    for (size_t i = 0; i < 3; i++) {
        const struct stored_chunk *chunk = &manifest->entries[i].chunk;

        for (size_t w = 0; w < again.content.written_count; w++)
            if (digest_eq(&chunk->id, &again.written[w].id))
                assert_true(chunk->check == again.written[w].check);
    }
    manifest_unref(manifest);
}

static void
test_another_file_with_the_same_chunk_heals(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload, other;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 0));
    quarantine(index, key_of(&upload, 1));
    assert_int_equal(lease_upload(index, &other, (int[]){2, 7, 1}, 3), 0);
    attach(db, &other);
    assert_int_equal(other.loser_count, 0);
    assert_stored(index, &other, true);
    assert_stored(index, &upload, false);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 0);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 5);
    assert_exact(db);
}

static void
test_of_two_uploads_that_heal_one_wins(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload, first, second;

    make_upload(&upload, (int[]){1}, 1);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 0));
    lease_upload(index, &first, (int[]){1}, 1);
    lease_upload(index, &second, (int[]){1, 4}, 2);
    attach(db, &second);
    attach(db, &first);
    assert_int_equal(second.loser_count, 0);
    assert_int_equal(first.loser_count, 1);
    assert_stored(index, &second, true);
    assert_exact(db);
}

static int
attach_fails(struct test_db *db, struct upload *upload)
{
    struct err err = {0};
    int rc = pg_pool_transact(db->pool, work_attach, upload, NULL, &err);

    assert_int_equal(rc, -1);
    return err.code;
}

/* It was known when it was leased, and so it was not written. */
static void
test_an_upload_that_relies_on_a_chunk_gone_bad_is_refused(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload, same, other;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    assert_int_equal(lease_upload(index, &same, (int[]){1, 2}, 2), 2);
    assert_int_equal(lease_upload(index, &other, (int[]){1, 2, 3}, 3), 2);
    quarantine(index, key_of(&upload, 1));
    assert_int_equal(attach_fails(db, &same), ERR_BUSY);
    assert_int_equal(attach_fails(db, &other), ERR_BUSY);
    assert_exact(db);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 2);
    lease_upload(index, &same, (int[]){1, 2}, 2);
    attach(db, &same);
    attach(db, &other); /* sent again, or late: it finds the chunk healed */
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 0);
    assert_exact(db);
}

static void
test_a_quarantined_chunk_that_nothing_names_is_collected(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 0));
    unref(db, &upload);
    assert_int_equal(collect_all(index, 0), 2);
    assert_int_equal(test_db_number(db, "select count(*) from chunks"), 0);
}

enum { HEALERS = 4, HEAL_ROUNDS = 30, SHARED_CHUNKS = 6 };

struct healer {
    struct test_db *db;
    int number;
    int busy;
};

/* Each uploads contents of its own and one that all share, of the same chunks. */
static void *
heal_and_hurt(void *arg)
{
    struct healer *healer = arg;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(healer->db->pool);
    struct upload *upload = mem_alloc(sizeof(*upload));

    for (int round = 0; round < HEAL_ROUNDS; round++) {
        int seeds[SHARED_CHUNKS + 1];
        size_t count = SHARED_CHUNKS + (size_t)(round % 2);
        struct err err = {0};

        for (int i = 0; i < SHARED_CHUNKS; i++)
            seeds[i] = (i + healer->number) % SHARED_CHUNKS;
        if (round % 3 == 0)
            for (int i = 0; i < SHARED_CHUNKS; i++)
                seeds[i] = i;
        seeds[SHARED_CHUNKS] = 1000 + healer->number * HEAL_ROUNDS + round;
        lease_upload(index, upload, seeds, count);
        if (pg_pool_transact(healer->db->pool, work_attach, upload, NULL, &err) < 0) {
            assert_int_equal(err.code, ERR_BUSY);
            healer->busy++;
        } else if (upload->content.written_count > 0) {
            quarantine(index, key_of(upload, 0));
        }
        test_db_script(healer->db, "update chunks set quarantined_at = now() where id = (select id "
                                   "from chunks order by random() limit 1)");
    }
    free(upload);
    return NULL;
}

static void
test_healing_and_hurting_at_once_leaves_exact_counts(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct healer healers[HEALERS];
    pthread_t threads[HEALERS];
    struct upload last;
    uint64_t retries = metric_value(METRIC_DB_RETRIES);

    for (int i = 0; i < HEALERS; i++) {
        healers[i] = (struct healer){db, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, heal_and_hurt, &healers[i]), 0);
    }
    for (int i = 0; i < HEALERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(metric_value(METRIC_DB_RETRIES), retries); /* no deadlock */
    assert_exact(db);
    lease_upload(index, &last, (int[]){0, 1, 2, 3, 4, 5}, SHARED_CHUNKS);
    attach(db, &last);
    assert_int_equal(last.loser_count, 0);
    assert_stored(index, &last, true);
    assert_exact(db);
}

/* --- reading back in turn --- */

struct turn {
    int64_t interval_secs;
    struct stored_chunk chunks[CHUNKS_MAX];
    size_t cap, count;
    bool release;
    uint64_t released;
};

static int
work_next(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct turn *turn = ctx;

    return chunk_repo_scrub_next(conn, turn->interval_secs, turn->chunks, turn->cap, &turn->count,
                                 err);
}

static int
work_verified(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct turn *turn = ctx;

    return chunk_repo_verified(conn, turn->chunks, turn->count, turn->release, &turn->released,
                               err);
}

static size_t
next_chunks(struct test_db *db, struct turn *turn)
{
    struct err err = {0};

    if (pg_pool_run(db->pool, work_next, turn, &err) < 0)
        fail_msg("%s", err.msg);
    return turn->count;
}

static void
verified(struct test_db *db, struct turn *turn)
{
    struct err err = {0};

    if (pg_pool_run(db->pool, work_verified, turn, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
test_chunks_are_read_back_in_turn_and_shared_by_nodes(void **state)
{
    struct test_db *db = *state;
    struct turn one = {.interval_secs = 3600, .cap = 2}, two = {.interval_secs = 3600, .cap = 9};
    struct upload upload;
    bool is_first[CHUNKS_MAX] = {false};

    make_upload(&upload, (int[]){1, 2, 3, 4, 5}, 5);
    attach(db, &upload);
    assert_int_equal(next_chunks(db, &one), 0); /* just written */
    test_db_script(db, "update chunks set created_at = now() - interval '1 day'");
    test_db_script(db, "update chunks set verified_at = now() - interval '2 hours'"
                       " where id in (select id from chunks order by id limit 3)");
    assert_int_equal(next_chunks(db, &one), 2); /* those that were never read */
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 2; j++)
            is_first[i] |= digest_eq(&upload.written[i].id, &one.chunks[j].id);
    assert_true(is_first[3] && is_first[4]);
    assert_int_equal(next_chunks(db, &two), 3); /* another node does not get the same */
    verified(db, &one);
    verified(db, &two);
    assert_int_equal(next_chunks(db, &two), 0);
    assert_int_equal(test_db_number(db, SQL_VERIFIED), 5);
}

static void
test_a_chunk_of_a_node_that_died_comes_back(void **state)
{
    struct test_db *db = *state;
    struct turn turn = {.interval_secs = 0, .cap = 9};
    struct upload upload;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    assert_int_equal(next_chunks(db, &turn), 2);
    assert_int_equal(next_chunks(db, &turn), 0);
    test_db_script(db, "update chunks set scrub_until = scrub_until - interval '1 day'");
    assert_int_equal(next_chunks(db, &turn), 2);
}

static void
test_only_a_repair_releases_from_quarantine(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct turn turn = {.cap = 9};
    struct upload upload;

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    quarantine(index, key_of(&upload, 0));
    assert_int_equal(next_chunks(db, &turn), 1); /* the scrub leaves it alone */
    memcpy(turn.chunks, upload.written, 2 * sizeof(turn.chunks[0]));
    turn.count = 2;
    verified(db, &turn);
    assert_int_equal(turn.released, 0);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 1);
    turn.release = true;
    turn.chunks[0].generation++; /* of another blob one knows nothing */
    verified(db, &turn);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 1);
    turn.chunks[0].generation--;
    verified(db, &turn);
    assert_int_equal(turn.released, 1);
    assert_int_equal(test_db_number(db, SQL_QUARANTINED), 0);
}

/* --- what an operator is told --- */

struct search {
    struct digest ids[4];
    size_t id_count;
    struct arena arena;
    struct chunk_file files[8];
    size_t cap, count;
};

static int
work_files(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct search *search = ctx;

    return chunk_repo_files(conn, search->ids, search->id_count, &search->arena, search->files,
                            search->cap, &search->count, err);
}

static const char SQL_TREE[] =
    "insert into users (id, name, password_hash) overriding system value values (1, 'anna', '');"
    "insert into spaces (id, owner_id, root_id) overriding system value values (1, 1, 901);"
    "insert into nodes (id, space_id, parent_id, kind, name, mtime, seq, content_seq) values"
    " (901, 1, null, 0, '', now(), 1, 1), (902, 1, 901, 0, 'folder', now(), 1, 1),"
    " (903, 1, null, 0, 'old', now(), 1, 1);"
    "insert into trash (node_id, space_id, parent_id, path) values (903, 1, 902, '/folder/old');";

static void
add_file(struct test_db *db, int parent_id, const char *name, const struct upload *upload)
{
    char hex[DIGEST_HEX_SIZE], sql[512];

    digest_hex(hex, &upload->content.content_id);
    snprintf(sql, sizeof(sql),
             "insert into nodes (space_id, parent_id, kind, name, content_id, size_bytes, mtime,"
             " seq, content_seq) values (1, %d, 1, '%s', '\\x%s', %d, now(), 1, 1);"
             "update spaces set used_bytes = used_bytes + %d",
             parent_id, name, hex, CHUNK_SIZE, CHUNK_SIZE);
    test_db_script(db, sql);
}

static void
test_the_files_of_a_bad_chunk_are_found_with_their_paths(void **state)
{
    static const char *const paths[] = {"/folder/a", "/folder/old/b"};
    struct test_db *db = *state;
    struct search search = {.id_count = 1, .cap = 8};
    struct upload a, b, c;
    struct err err = {0};

    make_upload(&a, (int[]){1, 2, 1}, 3);
    make_upload(&b, (int[]){2, 3}, 2);
    make_upload(&c, (int[]){4}, 1);
    attach(db, &a);
    attach(db, &b);
    attach(db, &c);
    test_db_script(db, SQL_TREE);
    add_file(db, 902, "a", &a);
    add_file(db, 903, "b", &b);
    add_file(db, 901, "c", &c);
    arena_init(&search.arena);
    search.ids[0] = chunk_id(2);
    assert_int_equal(pg_pool_run(db->pool, work_files, &search, &err), 0);
    assert_int_equal(search.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(search.files[i].owner, "anna");
        assert_string_equal(search.files[i].path, paths[i]);
        assert_int_equal(search.files[i].in_trash, i == 1);
        assert_true(digest_eq(&search.files[i].chunk_id, &search.ids[0]));
    }
    search.ids[1] = chunk_id(4);
    search.ids[2] = chunk_id(99);
    search.id_count = 3;
    assert_int_equal(pg_pool_run(db->pool, work_files, &search, &err), 0);
    assert_int_equal(search.count, 3);
    search.cap = 1;
    assert_int_equal(pg_pool_run(db->pool, work_files, &search, &err), 0);
    assert_int_equal(search.count, 1);
    arena_release(&search.arena);
}

static int
work_health(struct pg_conn *conn, void *ctx, struct err *err)
{
    return chunk_repo_health(conn, ctx, err);
}

static void
test_health_shows_backlog_quarantine_and_age(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct chunk_health health;
    struct upload upload, gone;
    struct err err = {0};

    assert_int_equal(pg_pool_run(db->pool, work_health, &health, &err), 0);
    assert_int_equal(health.backlog_contents + health.backlog_chunks + health.backlog_bytes, 0);
    assert_int_equal(health.backlog_age_secs, 0);
    assert_int_equal(health.verified_age_secs, 0);
    make_upload(&upload, (int[]){1, 2, 3}, 3);
    make_upload(&gone, (int[]){7, 8}, 2);
    attach(db, &upload);
    attach(db, &gone);
    unref(db, &gone);
    quarantine(index, key_of(&upload, 0));
    test_db_script(db, "update chunks set created_at = now() - interval '100 seconds'");
    test_db_script(db, "update contents set unreferenced_at = now() - interval '50 seconds'"
                       " where refs = 0");
    assert_int_equal(pg_pool_run(db->pool, work_health, &health, &err), 0);
    assert_int_equal(health.backlog_contents, 1);
    assert_int_equal(health.backlog_chunks, 0);
    assert_in_range(health.backlog_age_secs, 50, 60);
    assert_in_range(health.verified_age_secs, 100, 110);
    assert_int_equal(health.quarantined, 1);
    test_db_script(db, "delete from contents where refs = 0");
    test_db_script(db, "update chunks set refs = 0, unreferenced_at = now() - interval '70 seconds'"
                       " where id in (select id from chunks order by id limit 2)");
    assert_int_equal(pg_pool_run(db->pool, work_health, &health, &err), 0);
    assert_int_equal(health.backlog_contents, 0);
    assert_int_equal(health.backlog_chunks, 2);
    assert_int_equal(health.backlog_bytes, 2 * CHUNK_SIZE);
    assert_in_range(health.backlog_age_secs, 70, 80);
}

struct preview {
    int64_t grace_secs;
    uint64_t chunks, bytes;
};

static int
work_collectable(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct preview *preview = ctx;

    return chunk_repo_collectable(conn, preview->grace_secs, &preview->chunks, &preview->bytes,
                                  err);
}

static void
test_a_preview_says_what_a_collect_then_takes(void **state)
{
    static const int64_t graces[] = {3600, 0};
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload kept, gone, leased;
    struct err err = {0};

    make_upload(&kept, (int[]){1, 2, 3}, 3);
    make_upload(&gone, (int[]){3, 4, 5, 4, 6}, 5);
    attach(db, &kept);
    attach(db, &gone);
    unref(db, &gone);
    lease_upload(index, &leased, (int[]){6}, 1);
    for (size_t i = 0; i < 2; i++) {
        struct preview preview = {.grace_secs = graces[i]};

        assert_int_equal(pg_pool_run(db->pool, work_collectable, &preview, &err), 0);
        assert_int_equal(preview.chunks, i == 0 ? 0 : 2);
        assert_int_equal(preview.bytes, preview.chunks * CHUNK_SIZE);
        assert_int_equal(collect_all(index, graces[i]), preview.chunks);
    }
}

static void
test_used_bytes_that_drifted_are_found_and_set_right(void **state)
{
    struct test_db *db = *state;
    struct upload upload;

    make_upload(&upload, (int[]){1}, 1);
    attach(db, &upload);
    test_db_script(db, SQL_TREE);
    add_file(db, 902, "a", &upload);
    assert_int_equal(verify(db, false).spaces_wrong, 0);
    test_db_script(db, "update spaces set used_bytes = 4711");
    assert_int_equal(verify(db, false).spaces_wrong, 1);
    assert_int_equal(verify(db, true).spaces_wrong, 1);
    assert_int_equal(test_db_number(db, "select used_bytes from spaces"), CHUNK_SIZE);
    assert_int_equal(verify(db, true).spaces_wrong, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_db_open, test_db_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_chunk_is_quarantined_once_and_only_by_its_generation),
        TEST(test_a_quarantined_chunk_is_not_known_and_not_leased),
        TEST(test_the_same_file_uploaded_again_heals),
        TEST(test_another_file_with_the_same_chunk_heals),
        TEST(test_of_two_uploads_that_heal_one_wins),
        TEST(test_an_upload_that_relies_on_a_chunk_gone_bad_is_refused),
        TEST(test_a_quarantined_chunk_that_nothing_names_is_collected),
        TEST(test_healing_and_hurting_at_once_leaves_exact_counts),
        TEST(test_chunks_are_read_back_in_turn_and_shared_by_nodes),
        TEST(test_a_chunk_of_a_node_that_died_comes_back),
        TEST(test_only_a_repair_releases_from_quarantine),
        TEST(test_the_files_of_a_bad_chunk_are_found_with_their_paths),
        TEST(test_health_shows_backlog_quarantine_and_age),
        TEST(test_a_preview_says_what_a_collect_then_takes),
        TEST(test_used_bytes_that_drifted_are_found_and_set_right),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
