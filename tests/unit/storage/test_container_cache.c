#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/container/container_cache.h"
#include "support/mem_backend.h"
#include "support/packed.h"

enum { CHUNKS = 40, CHUNK_BYTES = 9000, THREADS = 8 };

struct fixture {
    struct blob_backend *backend;
    struct container_cache *cache;
    struct packed packed[CHUNKS];
};

static struct blob_key
key_of(const struct packed *packed)
{
    return (struct blob_key){packed->chunk.id, packed->chunk.generation};
}

static int
set_up(void **state)
{
    struct fixture *fix = mem_zalloc(sizeof(*fix));

    fix->backend = mem_backend_new(1);
    fix->cache = container_cache_new(16);
    for (unsigned i = 0; i < CHUNKS; i++) {
        uint8_t *plain = packed_data(PACKED_TILE, CHUNK_BYTES);
        struct blob_key key;
        struct err err = {0};

        plain[0] = (uint8_t)i;
        fix->packed[i] = packed_of(plain, CHUNK_BYTES, CHUNK_LZ4, 12);
        key = key_of(&fix->packed[i]);
        assert_int_equal(blob_put(fix->backend, &key, fix->packed[i].stored,
                                  fix->packed[i].chunk.stored_bytes, &err),
                         0);
    }
    *state = fix;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fix = *state;

    container_cache_free(fix->cache);
    for (unsigned i = 0; i < CHUNKS; i++)
        packed_release(&fix->packed[i]);
    blob_free(fix->backend);
    free(fix);
    return 0;
}

static struct container *
open_chunk(struct fixture *fix, unsigned i)
{
    struct container *container;
    struct err err = {0};

    if (container_cache_open(fix->cache, fix->backend, &fix->packed[i].chunk, &container, &err) < 0)
        return NULL;
    return container;
}

static void
test_a_head_is_read_once(void **state)
{
    struct fixture *fix = *state;
    struct container *first = open_chunk(fix, 0), *second = open_chunk(fix, 0);
    uint8_t dst[CHUNK_BYTES];
    struct err err = {0};

    assert_ptr_equal(first, second);
    assert_int_equal(mem_backend_calls(fix->backend, MEM_READ), 1);
    assert_int_equal(container_read(first, 0, dst, CHUNK_BYTES, &err), 0);
    assert_memory_equal(dst, fix->packed[0].plain, CHUNK_BYTES);
    assert_int_equal(mem_backend_calls(fix->backend, MEM_READ), 2);
    container_unref(first);
    container_unref(second);
}

static void
test_the_number_of_handles_is_bounded_and_the_latest_stay(void **state)
{
    struct fixture *fix = *state;
    unsigned calls;

    for (unsigned i = 0; i < CHUNKS; i++) {
        container_unref(open_chunk(fix, 0)); /* never the oldest of its set */
        container_unref(open_chunk(fix, i));
        assert_true(container_cache_count(fix->cache) <= 16);
    }
    assert_true(container_cache_count(fix->cache) >= 8);
    calls = mem_backend_calls(fix->backend, MEM_READ);
    assert_int_equal(calls, CHUNKS);
    container_unref(open_chunk(fix, 0));
    container_unref(open_chunk(fix, CHUNKS - 1));
    assert_int_equal(mem_backend_calls(fix->backend, MEM_READ), calls);
}

static void
test_a_handle_outlives_its_place(void **state)
{
    struct fixture *fix = *state;
    struct container *held = open_chunk(fix, 3);
    uint8_t dst[CHUNK_BYTES];
    struct err err = {0};

    for (unsigned i = 0; i < CHUNKS; i++)
        container_unref(open_chunk(fix, i));
    assert_int_equal(container_read(held, 0, dst, CHUNK_BYTES, &err), 0);
    assert_memory_equal(dst, fix->packed[3].plain, CHUNK_BYTES);
    container_unref(held);
}

static void
test_a_chunk_written_again_has_another_handle(void **state)
{
    struct fixture *fix = *state;
    struct container *old = open_chunk(fix, 5), *new;

    fix->packed[5].chunk.generation++;
    assert_null(open_chunk(fix, 5)); /* there is none yet, and that is not remembered */
    mem_backend_move(fix->backend, &fix->packed[5].chunk.id, fix->packed[5].chunk.generation);
    new = open_chunk(fix, 5);
    assert_non_null(new);
    assert_ptr_not_equal(old, new);
    container_unref(old);
    container_unref(new);
}

static void
test_damage_in_memory_is_forgotten_by_the_backend(void **state)
{
    struct fixture *fix = *state;
    struct container *container;
    uint8_t dst[CHUNK_BYTES];
    struct err err = {0};

    mem_backend_flip_cached(fix->backend, &fix->packed[7].chunk.id);
    container = open_chunk(fix, 7);
    assert_non_null(container);
    mem_backend_flip_cached(fix->backend, &fix->packed[7].chunk.id);
    assert_int_equal(container_read(container, 0, dst, CHUNK_BYTES, &err), 0);
    assert_memory_equal(dst, fix->packed[7].plain, CHUNK_BYTES);
    container_unref(container);
}

static void *
open_many(void *arg)
{
    struct fixture *fix = arg;
    uint8_t byte;

    for (unsigned i = 0; i < 20 * CHUNKS; i++) {
        struct container *container = open_chunk(fix, i * 7 % CHUNKS);
        struct err err = {0};

        if (container == NULL || container_read(container, 0, &byte, 1, &err) < 0 ||
            byte != fix->packed[i * 7 % CHUNKS].plain[0])
            return fix;
        container_unref(container);
    }
    return NULL;
}

static void
test_threads_share_the_cache(void **state)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_many, *state), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_head_is_read_once),
        TEST(test_the_number_of_handles_is_bounded_and_the_latest_stay),
        TEST(test_a_handle_outlives_its_place),
        TEST(test_a_chunk_written_again_has_another_handle),
        TEST(test_damage_in_memory_is_forgotten_by_the_backend),
        TEST(test_threads_share_the_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
