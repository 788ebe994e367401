#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "storage/chunk_check.h"
#include "support/mem_store.h"

enum { CHUNK_BYTES = 50000 };

static uint8_t *noise;

struct fixture {
    struct mem_store *mem;
    struct stored_chunk chunk;
    uint8_t bytes[CHUNK_BYTES];
};

static int
set_up(void **state)
{
    struct fixture *fix = malloc(sizeof(*fix));
    struct manifest *manifest;
    struct err err = {0};
    struct digest id;

    fix->mem = mem_store_new(2, 16);
    id = mem_store_add(fix->mem, noise, CHUNK_BYTES);
    assert_int_equal(store_manifest(&fix->mem->store, &id, &manifest, &err), 0);
    fix->chunk = manifest->entries[0].chunk;
    manifest_unref(manifest);
    *state = fix;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fix = *state;

    mem_store_free(fix->mem);
    free(fix);
    return 0;
}

static enum err_code
check(struct fixture *fix, bool deep)
{
    struct err err = {0};
    int rc = deep ? chunk_check_deep(&fix->mem->store, &fix->chunk, fix->bytes, &err)
                  : chunk_check_read(&fix->mem->store, &fix->chunk, fix->bytes, &err);

    assert_int_equal(rc, err.code == ERR_NONE ? 0 : -1);
    return err.code;
}

static void
test_a_good_chunk_is_read_once(void **state)
{
    struct fixture *fix = *state;

    assert_int_equal(check(fix, false), ERR_NONE);
    assert_memory_equal(fix->bytes, noise, CHUNK_BYTES);
    assert_int_equal(check(fix, true), ERR_NONE);
    assert_int_equal(mem_backend_calls(fix->mem->backend, MEM_READ), 2);
}

/* The bytes are those that were stored, but not those the chunk is named after. */
static void
test_only_a_deep_check_asks_for_the_id(void **state)
{
    struct fixture *fix = *state;

    fix->chunk.id.bytes[31] ^= 1;
    fix->chunk.codec = CHUNK_RAW; /* a container has the id in its head */
    fix->chunk.stored_bytes = CHUNK_BYTES;
    fix->chunk.check = digest_check(noise, CHUNK_BYTES);
    mem_index_lose(fix->mem->index, &fix->chunk.id);
    assert_int_equal(check(fix, false), ERR_NOT_FOUND);
    struct blob_key key = {fix->chunk.id, fix->chunk.generation};
    struct err err = {0};

    assert_int_equal(blob_put(fix->mem->backend, &key, noise, CHUNK_BYTES, &err), 0);
    assert_int_equal(check(fix, false), ERR_NONE);
    assert_int_equal(check(fix, true), ERR_CORRUPT);
}

static void
test_a_deep_check_asks_the_device_and_not_the_cache(void **state)
{
    struct fixture *fix = *state;

    mem_backend_flip_cached(fix->mem->backend, &fix->chunk.id);
    assert_int_equal(check(fix, true), ERR_NONE);
    assert_int_equal(mem_backend_calls(fix->mem->backend, MEM_READ), 1);
}

static void
test_a_read_is_tried_three_times(void **state)
{
    struct fixture *fix = *state;

    mem_backend_fail(fix->mem->backend, MEM_READ, 1, 2, ERR_IO);
    assert_int_equal(check(fix, true), ERR_NONE);
    mem_backend_fail(fix->mem->backend, MEM_READ, 1, 3, ERR_IO);
    assert_int_equal(check(fix, true), ERR_IO);
    mem_backend_fail(fix->mem->backend, MEM_READ, 1, 1, ERR_UNAVAILABLE);
    assert_int_equal(check(fix, true), ERR_UNAVAILABLE);
}

static void
test_a_form_of_a_later_version_is_not_damage(void **state)
{
    struct fixture *fix = *state;
    struct err err = {0};

    fix->chunk.codec = (enum chunk_codec)7;
    assert_int_equal(chunk_check_read(&fix->mem->store, &fix->chunk, fix->bytes, &err), -1);
    assert_false(chunk_check_is_bad(&err));
}

static void
test_a_blob_that_no_row_names_is_not_quarantined(void **state)
{
    struct fixture *fix = *state;
    struct err why = {.code = ERR_CORRUPT}, err = {0};
    bool is_bad = true;

    fix->chunk.generation++;
    assert_int_equal(chunk_check_quarantine(&fix->mem->store, &fix->chunk, &why, &is_bad, &err), 0);
    assert_false(is_bad);
    assert_int_equal(mem_index_quarantined_count(fix->mem->index), 0);
    fix->chunk.generation--;
    assert_int_equal(chunk_check_quarantine(&fix->mem->store, &fix->chunk, &why, &is_bad, &err), 0);
    assert_true(is_bad);
    assert_int_equal(mem_index_quarantined_count(fix->mem->index), 1);
}

static int
start(void **state)
{
    (void)state;
    noise = mem_store_noise(3, CHUNK_BYTES);
    return 0;
}

static int
stop(void **state)
{
    (void)state;
    free(noise);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_good_chunk_is_read_once),
        TEST(test_only_a_deep_check_asks_for_the_id),
        TEST(test_a_deep_check_asks_the_device_and_not_the_cache),
        TEST(test_a_read_is_tried_three_times),
        TEST(test_a_form_of_a_later_version_is_not_damage),
        TEST(test_a_blob_that_no_row_names_is_not_quarantined),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
