#include <pthread.h>

#include "uploads.h"

static const char SQL_CHUNKS[] = "select count(*) from chunks";
static const char SQL_CONTENTS[] = "select count(*) from contents";
static const char SQL_REFS[] = "select coalesce(sum(refs), 0)::bigint from contents";
static const char SQL_CHUNK_REFS[] = "select coalesce(sum(refs), 0)::bigint from chunks";
static const char SQL_LEASES[] = "select count(*) from chunks where lease_until > now()";

/* --- lease --- */

static void
test_a_lease_tells_known_from_new(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;
    struct digest ids[] = {chunk_id(9), chunk_id(1), chunk_id(8), chunk_id(2)};
    bool known[4];
    struct err err = {0};

    make_upload(&upload, (int[]){1, 2, 3}, 3);
    attach(db, &upload);
    assert_int_equal(test_db_number(db, SQL_LEASES), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(chunk_index_lease(index, ids, 4, LEASE_SECS, known, &err), 0);
        assert_false(known[0]);
        assert_true(known[1]);
        assert_false(known[2]);
        assert_true(known[3]);
        assert_int_equal(test_db_number(db, SQL_LEASES), 2);
    }
}

static void
test_a_lease_is_renewed_only_in_its_second_half(void **state)
{
    static const char SQL[] = "select count(*) from chunks where xmin::text::bigint"
                              " = (select min(xmin::text::bigint) from chunks)";
    static const char SQL_LONG[] =
        "select count(*) from chunks where lease_until > now() + interval '599 seconds'";
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;
    bool known[2];
    struct err err = {0};

    make_upload(&upload, (int[]){1, 2}, 2);
    attach(db, &upload);
    test_db_script(db, "update chunks set lease_until = now() + interval '301 seconds'");
    assert_int_equal(chunk_index_lease(index, upload.distinct, 2, 600, known, &err), 0);
    assert_true(known[0] && known[1]);
    assert_int_equal(test_db_number(db, SQL_LONG), 0);
    test_db_script(db, "update chunks set lease_until = now() + interval '299 seconds'");
    assert_int_equal(chunk_index_lease(index, upload.distinct, 1, 600, known, &err), 0);
    assert_true(known[0]);
    assert_int_equal(test_db_number(db, SQL_LONG), 1);
    assert_int_equal(test_db_number(db, SQL), 1);
    /* A shorter one does not shorten it. */
    assert_int_equal(chunk_index_lease(index, upload.distinct, 1, 10, known, &err), 0);
    assert_int_equal(test_db_number(db, SQL_LONG), 1);
}

/* --- attach and manifests --- */

static void
test_what_is_attached_can_be_loaded(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct manifest *manifest = NULL;
    struct upload upload;
    struct err err = {0};

    make_upload(&upload, (int[]){5, 6, 5, 7}, 4);
    attach(db, &upload);
    assert_int_equal(upload.loser_count, 0);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 3);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 3);
    assert_int_equal(chunk_index_load_manifest(index, &upload.content.content_id, &manifest, &err),
                     0);
    assert_int_equal(manifest->chunk_count, 4);
    assert_int_equal(manifest->size_bytes, 4 * CHUNK_SIZE);
    for (size_t i = 0; i < 4; i++) {
        const struct stored_chunk *chunk = &manifest->entries[i].chunk;
        struct digest id = chunk_id((int[]){5, 6, 5, 7}[i]);
        size_t w = 0;

        assert_true(digest_eq(&chunk->id, &id));
        while (!digest_eq(&upload.written[w].id, &id))
            w++;
        assert_true(chunk->generation == upload.written[w].generation);
        assert_true(chunk->check == upload.written[w].check);
    }
    manifest_unref(manifest);
}

static void
test_an_empty_content_is_one_too(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct manifest *manifest = NULL;
    struct upload upload;
    struct err err = {0};

    make_upload(&upload, NULL, 0);
    attach(db, &upload);
    attach(db, &upload);
    assert_int_equal(test_db_number(db, SQL_REFS), 2);
    assert_int_equal(chunk_index_load_manifest(index, &upload.content.content_id, &manifest, &err),
                     0);
    assert_int_equal(manifest->chunk_count, 0);
    manifest_unref(manifest);
}

static void
test_what_is_not_there_is_not_found_and_what_is_torn_corrupt(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct manifest *manifest = NULL;
    struct upload upload;
    struct err err = {0};

    make_upload(&upload, (int[]){1, 2}, 2);
    assert_int_equal(chunk_index_load_manifest(index, &upload.content.content_id, &manifest, &err),
                     -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    attach(db, &upload);
    test_db_script(db, "delete from chunks where id = (select id from chunks limit 1)");
    assert_int_equal(chunk_index_load_manifest(index, &upload.content.content_id, &manifest, &err),
                     -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_int_equal(verify(db, false).chunks_missing, 1);
}

static void
test_the_second_upload_of_a_content_loses_its_chunks(void **state)
{
    struct test_db *db = *state;
    struct upload first, second;

    make_upload(&first, (int[]){1, 2, 3}, 3);
    make_upload(&second, (int[]){1, 2, 3}, 3);
    attach(db, &first);
    attach(db, &second);
    assert_int_equal(second.loser_count, 3);
    assert_int_equal(test_db_number(db, SQL_REFS), 2);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 3);
    /* The same blobs again: rows name them, so they must not be given up. */
    attach(db, &first);
    assert_int_equal(first.loser_count, 0);
}

static void
test_a_chunk_that_came_first_wins_over_ours(void **state)
{
    struct test_db *db = *state;
    struct upload first, second;
    struct digest shared = chunk_id(2);

    make_upload(&first, (int[]){1, 2}, 2);
    make_upload(&second, (int[]){2, 3}, 2);
    attach(db, &first);
    attach(db, &second);
    assert_int_equal(second.loser_count, 1);
    assert_true(digest_eq(&second.written[second.losers[0]].id, &shared));
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 4);
    assert_int_equal(verify(db, false).chunks_wrong, 0);
}

static void
test_a_known_chunk_that_went_away_stops_the_upload(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload first, second;
    struct err err = {0};

    make_upload(&first, (int[]){1, 2}, 2);
    attach(db, &first);
    assert_int_equal(lease_upload(index, &second, (int[]){2, 3}, 2), 1);
    unref(db, &first);
    test_db_script(db, "update chunks set lease_until = now() - interval '1 second'");
    assert_int_equal(collect_all(index, 0), 2);
    assert_int_equal(pg_pool_transact(db->pool, work_attach, &second, NULL, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(test_db_number(db, SQL_CONTENTS), 0);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 0);
}

static void
test_a_content_without_references_is_revived(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload first, second;

    make_upload(&first, (int[]){1, 1, 2}, 3);
    make_upload(&second, (int[]){1, 1, 2}, 3);
    attach(db, &first);
    unref(db, &first);
    assert_int_equal(test_db_number(db, SQL_REFS), 0);
    attach(db, &second);
    assert_int_equal(second.loser_count, 2);
    assert_int_equal(collect_all(index, 0), 0);
    assert_int_equal(test_db_number(db, SQL_REFS), 1);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 2);
}

static void
test_references_are_counted_exactly_or_not_at_all(void **state)
{
    struct test_db *db = *state;
    struct upload upload, other;
    struct err err = {0};

    make_upload(&upload, (int[]){1}, 1);
    make_upload(&other, (int[]){2}, 1);
    attach(db, &upload);
    assert_int_equal(change_refs(db, &upload, 5, &err), 0);
    assert_int_equal(change_refs(db, &upload, -4, &err), 0);
    assert_int_equal(test_db_number(db, SQL_REFS), 2);
    assert_int_equal(change_refs(db, &upload, -3, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_int_equal(test_db_number(db, SQL_REFS), 2);
    assert_int_equal(change_refs(db, &other, 1, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* --- collect --- */

static void
test_everything_deleted_is_collected_also_repeated_chunks(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;
    int seeds[CHUNKS_MAX];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CHUNKS_MAX; i++)
            seeds[i] = (int)(rand_u64() % 40);
        make_upload(&upload, seeds, CHUNKS_MAX);
        attach(db, &upload);
        assert_int_equal(verify(db, false).chunks_wrong, 0);
        test_db_script(db, "update contents set refs = 0, unreferenced_at = now()");
    }
    assert_int_equal(collect_all(index, 3600), 0);
    assert_int_equal(collect_all(index, 0), 40);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 0);
    assert_int_equal(test_db_number(db, SQL_CONTENTS), 0);
}

static void
test_the_collector_passes_over_leases_and_references(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload gone, kept, next;

    make_upload(&gone, (int[]){1, 2, 3}, 3);
    make_upload(&kept, (int[]){3}, 1);
    attach(db, &gone);
    attach(db, &kept);
    unref(db, &gone);
    assert_int_equal(lease_upload(index, &next, (int[]){2}, 1), 1);
    assert_int_equal(collect_all(index, 0), 1);
    attach(db, &next);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 2);
    assert_int_equal(verify(db, false).chunks_wrong, 0);
}

static void
test_the_grace_time_counts_from_the_last_reference(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;

    make_upload(&upload, (int[]){1}, 1);
    attach(db, &upload);
    unref(db, &upload);
    test_db_script(db, "update contents set unreferenced_at = now() - interval '1 hour'");
    assert_int_equal(collect_all(index, 1800), 0); /* the content; its chunk only now */
    assert_int_equal(test_db_number(db, SQL_CONTENTS), 0);
    test_db_script(db, "update chunks set unreferenced_at = now() - interval '1 hour'");
    assert_int_equal(collect_all(index, 1800), 1);
}

static void
test_a_blob_is_named_by_id_and_generation(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    struct upload upload;
    struct blob_key keys[3];
    bool named[3];
    struct err err = {0};

    make_upload(&upload, (int[]){1}, 1);
    attach(db, &upload);
    keys[0] = (struct blob_key){upload.written[0].id, upload.written[0].generation + 1};
    keys[1] = (struct blob_key){upload.written[0].id, upload.written[0].generation};
    keys[2] = (struct blob_key){chunk_id(2), upload.written[0].generation};
    assert_int_equal(chunk_index_named(index, keys, 3, named, &err), 0);
    assert_false(named[0]);
    assert_true(named[1]);
    assert_false(named[2]);
}

/* --- looking at all --- */

static int
work_page(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct stored_chunk chunks[3];
    bool quarantined[3];
    struct digest *last = NULL;
    struct digest after;
    size_t *total = ctx;
    size_t count;

    *total = 0;
    do {
        if (chunk_repo_page(conn, last, chunks, quarantined, 3, &count, err) < 0)
            return -1;
        for (size_t i = 0; i < count; i++) {
            if (last != NULL)
                assert_true(digest_cmp(last, &chunks[i].id) < 0);
            after = chunks[i].id;
            last = &after;
        }
        *total += count;
    } while (count > 0);
    return 0;
}

static int
work_totals(struct pg_conn *conn, void *ctx, struct err *err)
{
    return chunk_repo_totals(conn, ctx, err);
}

static void
test_pages_and_totals_cover_every_chunk(void **state)
{
    struct test_db *db = *state;
    struct chunk_totals totals;
    struct upload upload;
    struct err err = {0};
    size_t count;

    make_upload(&upload, (int[]){1, 2, 3, 4, 5, 6, 7}, 7);
    attach(db, &upload);
    assert_int_equal(pg_pool_run(db->pool, work_page, &count, &err), 0);
    assert_int_equal(count, 7);
    assert_int_equal(pg_pool_run(db->pool, work_totals, &totals, &err), 0);
    assert_int_equal(totals.chunks, 7);
    assert_int_equal(totals.chunk_bytes, 7 * CHUNK_SIZE);
    assert_int_equal(totals.contents, 1);
}

/* No node has these contents, so that every one of them is wrong; chunks are wrong by hand. */
static void
test_verify_finds_and_repairs_drift(void **state)
{
    struct test_db *db = *state;
    struct chunk_drift drift;
    struct upload upload;

    make_upload(&upload, (int[]){1, 2, 3}, 3);
    attach(db, &upload);
    test_db_script(db, "update chunks set refs = refs + 2 where id = (select id from chunks "
                       "order by id limit 1)");
    drift = verify(db, false);
    assert_int_equal(drift.contents_wrong, 1);
    assert_int_equal(drift.chunks_wrong, 1);
    drift = verify(db, true);
    assert_int_equal(drift.contents_wrong, 1);
    assert_int_equal(drift.chunks_wrong, 1);
    drift = verify(db, false);
    assert_int_equal(drift.contents_wrong, 0);
    assert_int_equal(drift.chunks_wrong, 0);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 3);
}

/* --- at the same time --- */

enum { THREADS = 4, ROUNDS = 60 };

struct racer {
    struct test_db *db;
    pthread_barrier_t *barrier;
    struct upload upload;
    size_t won;
    size_t failures;
    unsigned seed;
};

static void
run_racers(struct test_db *db, struct racer *racers, size_t count, void *(*fn)(void *))
{
    pthread_t threads[THREADS + 1];
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++) {
        racers[i].db = db;
        racers[i].barrier = &barrier;
        racers[i].seed = (unsigned)i + 1;
        pthread_create(&threads[i], NULL, fn, &racers[i]);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void *
race_attach(void *arg)
{
    struct racer *racer = arg;
    struct err err = {0};

    for (int round = 0; round < ROUNDS; round++) {
        int seeds[] = {round * 10, round * 10 + 1, round * 10 + 2};

        make_upload(&racer->upload, seeds, 3);
        pthread_barrier_wait(racer->barrier);
        if (pg_pool_transact(racer->db->pool, work_attach, &racer->upload, NULL, &err) < 0)
            racer->failures++;
        else
            racer->won += 3 - racer->upload.loser_count;
    }
    return NULL;
}

static void
test_uploads_of_one_new_content_store_it_once(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct racer *racers = mem_array(THREADS, sizeof(*racers));
    size_t won = 0;

    run_racers(db, racers, THREADS, race_attach);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(racers[i].failures, 0);
        won += racers[i].won;
    }
    assert_int_equal(won, 3 * ROUNDS);
    assert_int_equal(test_db_number(db, SQL_CONTENTS), ROUNDS);
    assert_int_equal(test_db_number(db, SQL_REFS), ROUNDS * THREADS);
    assert_int_equal(test_db_number(db, SQL_CHUNK_REFS), 3 * ROUNDS);
}

static void *
race_lease(void *arg)
{
    struct racer *racer = arg;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(racer->db->pool);
    int seeds[] = {0, 1, 2};

    for (int round = 0; round < ROUNDS; round++) {
        if (racer->seed == 1)
            test_db_script(racer->db, "update chunks set lease_until = null");
        pthread_barrier_wait(racer->barrier);
        if (lease_upload(index, &racer->upload, seeds, 3) != 3)
            racer->failures++;
        pthread_barrier_wait(racer->barrier);
    }
    return NULL;
}

static void
test_leases_taken_at_once_are_known_to_all(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct racer *racers = mem_array(THREADS, sizeof(*racers));

    make_upload(&racers[0].upload, (int[]){0, 1, 2}, 3);
    attach(db, &racers[0].upload);
    run_racers(db, racers, THREADS, race_lease);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(racers[i].failures, 0);
}

/* Leases, attaches and drops contents out of few chunks; what was leased must be there. */
static void
churn(struct racer *racer, struct chunk_index *index)
{
    int seeds[6];
    struct err err = {0};

    for (int i = 0; i < 6; i++)
        seeds[i] = (int)(rand_r(&racer->seed) % 12);
    (void)lease_upload(index, &racer->upload, seeds, 6);
    if (pg_pool_transact(racer->db->pool, work_attach, &racer->upload, NULL, &err) < 0)
        racer->failures += err.code != ERR_BUSY; /* its lease was taken away: a fair answer */
    else if (change_refs(racer->db, &racer->upload, -1, &err) < 0)
        racer->failures++;
}

static void *
race_churn(void *arg)
{
    struct racer *racer = arg;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(racer->db->pool);

    pthread_barrier_wait(racer->barrier);
    for (int round = 0; round < ROUNDS; round++) {
        if (racer->seed == THREADS + 1) {
            test_db_script(racer->db, "update chunks set lease_until = null where id in (select "
                                      "id from chunks where refs > 0 for update skip locked)");
            (void)collect_all(index, 0);
        } else {
            churn(racer, index);
        }
    }
    return NULL;
}

static void
test_collecting_during_uploads_leaves_exact_counts(void **state)
{
    struct test_db *db = *state;
    AUTO_FREE struct chunk_index *index = chunk_repo_index(db->pool);
    AUTO_FREE struct racer *racers = mem_array(THREADS + 1, sizeof(*racers));

    run_racers(db, racers, THREADS + 1, race_churn);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(racers[i].failures, 0);
    assert_int_equal(verify(db, false).chunks_wrong, 0);
    assert_int_equal(verify(db, false).contents_wrong, 0);
    assert_int_equal(verify(db, false).chunks_missing, 0);
    test_db_script(db, "update chunks set lease_until = null");
    (void)collect_all(index, 0);
    assert_int_equal(test_db_number(db, SQL_CHUNKS), 0);
    assert_int_equal(test_db_number(db, SQL_CONTENTS), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_db_open, test_db_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_tells_known_from_new),
        TEST(test_a_lease_is_renewed_only_in_its_second_half),
        TEST(test_what_is_attached_can_be_loaded),
        TEST(test_an_empty_content_is_one_too),
        TEST(test_what_is_not_there_is_not_found_and_what_is_torn_corrupt),
        TEST(test_the_second_upload_of_a_content_loses_its_chunks),
        TEST(test_a_chunk_that_came_first_wins_over_ours),
        TEST(test_a_known_chunk_that_went_away_stops_the_upload),
        TEST(test_a_content_without_references_is_revived),
        TEST(test_references_are_counted_exactly_or_not_at_all),
        TEST(test_everything_deleted_is_collected_also_repeated_chunks),
        TEST(test_the_collector_passes_over_leases_and_references),
        TEST(test_the_grace_time_counts_from_the_last_reference),
        TEST(test_a_blob_is_named_by_id_and_generation),
        TEST(test_pages_and_totals_cover_every_chunk),
        TEST(test_verify_finds_and_repairs_drift),
        TEST(test_uploads_of_one_new_content_store_it_once),
        TEST(test_leases_taken_at_once_are_known_to_all),
        TEST(test_collecting_during_uploads_leaves_exact_counts),
    };

    return cmocka_run_group_tests(tests, test_db_start, test_db_stop);
}
