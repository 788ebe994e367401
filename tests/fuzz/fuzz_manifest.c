/*
 * fuzz_manifest: the packed list of a content's chunks, as the database keeps it: the input is
 * records of 36 bytes.
 */
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "storage/manifest.h"

/* Each chunk is found by its first and by its last byte, and they follow each other. */
static void
check_places(const struct manifest *manifest)
{
    uint64_t off = 0;

    for (size_t i = 0; i < manifest->chunk_count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];

        CHECK(entry->off == off);
        CHECK(manifest_find(manifest, off) == i);
        off += entry->chunk.size_bytes;
        CHECK(manifest_find(manifest, off - 1) == i);
    }
    CHECK(off == manifest->size_bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t count = len / MANIFEST_RECORD_BYTES;
    struct stored_chunk *chunks = mem_array(count + 1, sizeof(*chunks));
    struct manifest *manifest;
    struct err err = {0};
    bool has_empty = false;

    for (size_t i = 0; i < count; i++) {
        uint8_t packed[MANIFEST_RECORD_BYTES];

        manifest_unpack(data + i * MANIFEST_RECORD_BYTES, &chunks[i].id, &chunks[i].size_bytes);
        manifest_pack(packed, &chunks[i].id, chunks[i].size_bytes);
        CHECK(memcmp(packed, data + i * MANIFEST_RECORD_BYTES, sizeof(packed)) == 0);
        has_empty = has_empty || chunks[i].size_bytes == 0;
    }
    if (manifest_new(chunks, count, &manifest, &err) == 0) {
        struct digest id = digest_of(data, count * MANIFEST_RECORD_BYTES);

        CHECK(!has_empty && manifest->chunk_count == count);
        CHECK(digest_eq(&manifest->content_id, &id));
        check_places(manifest);
        manifest_unref(manifest);
    } else {
        CHECK(has_empty && err.code == ERR_CORRUPT);
        fuzz_check_err(&err);
    }
    free(chunks);
    return 0;
}
