/*
 * fixture: the services over a real database and a backend in memory, and the few steps most
 * tests of them are made of. Each test asks for a user of its own, and so for an empty tree.
 */
#ifndef OXI_TESTS_SERVICE_FIXTURE_H
#define OXI_TESTS_SERVICE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/rand.h"
#include "meta/chunk_repo.h"
#include "meta/pg_pool.h"
#include "service/files.h"
#include "service/trash.h"
#include "service/users.h"
#include "storage/chunker.h"
#include "storage/container/container_cache.h"
#include "storage/content_reader.h"
#include "support/mem_backend.h"
#include "support/test_db.h"

#define PASSWORD "correct horse"

struct fixture {
    struct config config;
    struct test_db *db;
    struct pg_pool *pool; /* of db */
    struct workers *workers;
    struct blob_backend *backend;
    struct chunk_index *index;
    struct manifest_cache *manifests;
    struct container_cache *containers;
    struct store store;
    struct files files;
    struct arena arena;
    /* of the test */
    unsigned user_count;
    struct principal me;
    struct err err;
};

static inline int
fixture_setup(void **state)
{
    struct fixture *fix = mem_zalloc(sizeof(*fix));
    struct err err = {0};

    assert_int_equal(rand_start(&err), 0);
    chunker_start();
    assert_int_equal(test_db_start(state), 0);
    assert_int_equal(config_load("/dev/null", &fix->config, &err), 0);
    fix->config.hash_memory_cost_kib = 8192;
    fix->config.hash_time_cost = 1;
    fix->db = test_db_new(true);
    fix->pool = fix->db->pool;
    assert_int_equal(workers_new("test", 4, 64, &fix->workers, &err), 0);
    fix->backend = mem_backend_new(2);
    fix->index = chunk_repo_index(fix->pool);
    fix->manifests = manifest_cache_new(1 << 20);
    fix->containers = container_cache_new(16);
    fix->store = (struct store){.backend = fix->backend,
                                .index = fix->index,
                                .manifests = fix->manifests,
                                .containers = fix->containers,
                                .workers = fix->workers,
                                .sizes = chunker_store_sizes,
                                .lease_secs = 3600,
                                .ingest_memory_bytes = 16 << 20};
    fix->files = (struct files){.config = &fix->config, .pool = fix->pool, .store = &fix->store};
    arena_init(&fix->arena);
    *state = fix;
    return 0;
}

static inline int
fixture_teardown(void **state)
{
    struct fixture *fix = *state;

    arena_release(&fix->arena);
    workers_free(fix->workers);
    container_cache_free(fix->containers);
    manifest_cache_free(fix->manifests);
    free(fix->index);
    blob_free(fix->backend);
    test_db_free(fix->db);
    config_release(&fix->config);
    free(fix);
    return test_db_stop(state);
}

/* Before each test: an empty tree. */
static inline int
fixture_user(void **state)
{
    struct fixture *fix = *state;
    char name[32];

    fix->err = (struct err){0};
    fix->config.enable_user_storage_quotas = false;
    snprintf(name, sizeof(name), "user%u", ++fix->user_count);
    assert_int_equal(users_add(fix->pool, &fix->config, name, SLICE(PASSWORD), -1, &fix->err), 0);
    assert_int_equal(users_principal(fix->pool, name, &fix->me, &fix->err), 0);
    return 0;
}

static inline struct path
path_of(struct fixture *fix, const char *text)
{
    struct path path;
    struct err err = {0};

    assert_int_equal(path_parse(slice_of(text), &fix->arena, &path, &err), 0);
    return path;
}

/* The code of what happened, and a clean slate. */
static inline enum err_code
outcome(struct fixture *fix, int rc)
{
    enum err_code code = fix->err.code;

    assert_int_equal(rc, code == ERR_NONE ? 0 : -1);
    fix->err = (struct err){0};
    return code;
}

static inline enum err_code
make(struct fixture *fix, const char *text)
{
    struct path path = path_of(fix, text);
    struct node node;

    return outcome(fix, files_make_folder(&fix->files, &fix->me, &path, NULL, &node, &fix->err));
}

static inline enum err_code
put_guarded(struct fixture *fix, const char *text, const char *bytes,
            const struct files_guard *guard, bool *ret_created)
{
    struct path path = path_of(fix, text);
    struct ingest *ingest = ingest_new(&fix->store, strlen(bytes));
    struct files_write write = {.path = &path, .mtime_us = -1};
    struct node node;
    bool created = false;
    int rc;

    if (guard)
        write.guard = *guard;
    assert_int_equal(ingest_push(ingest, bytes, strlen(bytes), &fix->err), 0);
    assert_int_equal(ingest_finish(ingest, &write.content, &fix->err), 0);
    rc = files_write(&fix->files, &fix->me, &write, ingest, &node, &created, &fix->err);
    ingest_free(ingest);
    if (ret_created)
        *ret_created = created;
    return outcome(fix, rc);
}

/* Asks only: nothing stays claimed. */
static inline enum err_code
may_write(struct fixture *fix, const char *text, uint64_t size_bytes)
{
    struct path path = path_of(fix, text);
    struct files_claim claim = {0};
    enum err_code code = outcome(
        fix, files_may_write(&fix->files, &fix->me, &path, size_bytes, NULL, &claim, &fix->err));

    files_release(&fix->files, &claim);
    return code;
}

static inline enum err_code
put(struct fixture *fix, const char *text, const char *bytes)
{
    return put_guarded(fix, text, bytes, NULL, NULL);
}

static inline enum err_code
stat_node(struct fixture *fix, const char *text, struct node *ret_node)
{
    struct path path = path_of(fix, text);

    return outcome(fix, files_stat(&fix->files, &fix->me, &path, ret_node, &fix->err));
}

static inline enum err_code
removed(struct fixture *fix, const char *text)
{
    struct path path = path_of(fix, text);

    return outcome(fix, files_remove(&fix->files, &fix->me, &path, NULL, &fix->err));
}

/* What stands at a path: "-" nothing, "/" a folder, else the bytes of the file. */
static inline const char *
what(struct fixture *fix, const char *text)
{
    struct node node;
    struct content_reader *reader;
    struct byte_range range = {0};
    char *bytes;
    size_t len = 0, got;

    if (stat_node(fix, text, &node) != ERR_NONE)
        return "-";
    if (node.kind == NODE_FOLDER)
        return "/";
    range.len = node.size_bytes;
    bytes = arena_zalloc(&fix->arena, node.size_bytes + 1);
    assert_int_equal(content_reader_open(&fix->store, &node.content_id, range, &reader, &fix->err),
                     0);
    do {
        assert_int_equal(
            content_reader_read(reader, bytes + len, node.size_bytes + 1 - len, &got, &fix->err),
            0);
        len += got;
    } while (got > 0);
    content_reader_free(reader);
    return bytes;
}

static inline int
drift_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    return chunk_repo_verify(conn, false, ctx, err);
}

/* After each test: whatever was done, references are exact. */
static inline int
fixture_check(void **state)
{
    struct fixture *fix = *state;
    struct chunk_drift drift = {0};

    assert_int_equal(pg_pool_transact(fix->pool, drift_work, &drift, NULL, &fix->err), 0);
    assert_int_equal(drift.contents_wrong, 0);
    assert_int_equal(drift.chunks_wrong, 0);
    assert_int_equal(drift.chunks_missing, 0);
    assert_int_equal(drift.spaces_wrong, 0);
    arena_release(&fix->arena);
    arena_init(&fix->arena);
    return 0;
}

#define SERVICE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_user, fixture_check)

#endif
