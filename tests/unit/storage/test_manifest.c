#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "storage/manifest.h"

enum { CHUNKS = 5 };

static struct stored_chunk
chunk_of(unsigned number, uint32_t size_bytes)
{
    return (struct stored_chunk){
        .id = digest_of(&number, sizeof(number)),
        .generation = number,
        .size_bytes = size_bytes,
        .stored_bytes = size_bytes,
    };
}

static struct manifest *
new_manifest(unsigned number, size_t chunk_count)
{
    struct stored_chunk chunks[CHUNKS];
    struct manifest *manifest;
    struct err err = {0};

    for (size_t i = 0; i < chunk_count; i++)
        chunks[i] = chunk_of(number * 100 + (unsigned)i, 10 * ((uint32_t)i + 1));
    assert_int_equal(manifest_new(chunks, chunk_count, &manifest, &err), 0);
    return manifest;
}

static void
test_a_record_is_id_and_little_endian_length(void **state)
{
    struct digest id = digest_of("abc", 3), again;
    uint8_t record[MANIFEST_RECORD_BYTES];
    uint32_t size_bytes;

    (void)state;
    manifest_pack(record, &id, 0x01020304);
    assert_memory_equal(record, id.bytes, DIGEST_BYTES);
    assert_memory_equal(record + DIGEST_BYTES, "\x04\x03\x02\x01", 4);
    manifest_unpack(record, &again, &size_bytes);
    assert_true(digest_eq(&id, &again));
    assert_int_equal(size_bytes, 0x01020304);
}

static void
test_the_content_id_is_the_digest_of_the_records(void **state)
{
    struct manifest *manifest = new_manifest(1, 2);
    uint8_t packed[2 * MANIFEST_RECORD_BYTES];
    struct digest expected;

    (void)state;
    manifest_pack(packed, &manifest->entries[0].chunk.id, 10);
    manifest_pack(packed + MANIFEST_RECORD_BYTES, &manifest->entries[1].chunk.id, 20);
    expected = digest_of(packed, sizeof(packed));
    assert_true(digest_eq(&manifest->content_id, &expected));
    assert_int_equal(manifest->size_bytes, 30);
    assert_int_equal(manifest->entries[1].off, 10);
    manifest_unref(manifest);
}

static void
test_the_empty_content_has_a_manifest(void **state)
{
    struct manifest *manifest = new_manifest(1, 0);
    struct digest nothing = digest_of("", 0);

    (void)state;
    assert_true(digest_eq(&manifest->content_id, &nothing));
    assert_int_equal(manifest->size_bytes, 0);
    assert_int_equal(manifest->chunk_count, 0);
    manifest_unref(manifest);
}

static void
test_a_chunk_without_bytes_is_corrupt(void **state)
{
    struct stored_chunk chunks[2] = {chunk_of(1, 10), chunk_of(2, 0)};
    struct manifest *manifest;
    struct err err = {0};

    (void)state;
    assert_int_equal(manifest_new(chunks, 2, &manifest, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
}

static void
test_each_byte_is_found_in_its_chunk(void **state)
{
    struct manifest *manifest = new_manifest(1, CHUNKS);

    (void)state;
    for (uint64_t off = 0; off < manifest->size_bytes; off++) {
        size_t at = manifest_find(manifest, off);

        assert_true(manifest->entries[at].off <= off);
        assert_true(off - manifest->entries[at].off < manifest->entries[at].chunk.size_bytes);
    }
    manifest_unref(manifest);
}

static void
test_the_cache_hands_out_what_was_put(void **state)
{
    struct manifest_cache *cache = manifest_cache_new(1 << 20);
    struct manifest *manifest = new_manifest(1, CHUNKS), *found;
    struct digest id = manifest->content_id;

    (void)state;
    assert_null(manifest_cache_get(cache, &id));
    manifest_cache_put(cache, manifest);
    manifest_unref(manifest);
    found = manifest_cache_get(cache, &id);
    assert_non_null(found);
    assert_int_equal(found->size_bytes, 150);
    manifest_cache_drop(cache, &id);
    assert_null(manifest_cache_get(cache, &id));
    assert_int_equal(found->chunk_count, CHUNKS); /* still ours */
    manifest_unref(found);
    manifest_cache_free(cache);
}

static void
test_a_newer_list_of_the_same_content_replaces_the_older(void **state)
{
    struct manifest_cache *cache = manifest_cache_new(1 << 20);
    struct manifest *old = new_manifest(1, 1), *newer = new_manifest(1, 1), *found;

    (void)state;
    newer->entries[0].chunk.generation = 77;
    manifest_cache_put(cache, old);
    manifest_cache_put(cache, newer);
    found = manifest_cache_get(cache, &old->content_id);
    assert_int_equal(found->entries[0].chunk.generation, 77);
    manifest_unref(found);
    manifest_unref(old);
    manifest_unref(newer);
    manifest_cache_free(cache);
}

static bool
has(struct manifest_cache *cache, const struct digest *id)
{
    struct manifest *found = manifest_cache_get(cache, id);

    manifest_unref(found);
    return found != NULL;
}

static void
test_the_cache_forgets_the_least_recently_used_first(void **state)
{
    enum { COUNT = 8 };
    struct manifest_cache *cache = manifest_cache_new(2000); /* a few of 5 chunks */
    struct digest ids[COUNT];
    size_t left = 0;

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        struct manifest *manifest = new_manifest(i, CHUNKS);

        ids[i] = manifest->content_id;
        manifest_cache_put(cache, manifest);
        manifest_unref(manifest);
        assert_true(has(cache, &ids[0])); /* and so it is the most recently used */
    }
    for (unsigned i = 1; i < COUNT; i++)
        left += has(cache, &ids[i]);
    assert_true(has(cache, &ids[COUNT - 1]));
    assert_false(has(cache, &ids[1]));
    assert_in_range(left, 1, 4);
    manifest_cache_free(cache);
}

static void
test_what_is_larger_than_the_cache_is_not_kept(void **state)
{
    struct manifest_cache *cache = manifest_cache_new(100);
    struct manifest *manifest = new_manifest(1, CHUNKS);

    (void)state;
    manifest_cache_put(cache, manifest);
    assert_false(has(cache, &manifest->content_id));
    manifest_unref(manifest);
    manifest_cache_free(cache);
}

static int
start(void **state)
{
    struct err err = {0};

    (void)state;
    return rand_start(&err);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_id_and_little_endian_length),
        cmocka_unit_test(test_the_content_id_is_the_digest_of_the_records),
        cmocka_unit_test(test_the_empty_content_has_a_manifest),
        cmocka_unit_test(test_a_chunk_without_bytes_is_corrupt),
        cmocka_unit_test(test_each_byte_is_found_in_its_chunk),
        cmocka_unit_test(test_the_cache_hands_out_what_was_put),
        cmocka_unit_test(test_a_newer_list_of_the_same_content_replaces_the_older),
        cmocka_unit_test(test_the_cache_forgets_the_least_recently_used_first),
        cmocka_unit_test(test_what_is_larger_than_the_cache_is_not_kept),
    };

    return cmocka_run_group_tests(tests, start, NULL);
}
