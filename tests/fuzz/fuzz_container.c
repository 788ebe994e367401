/*
 * fuzz_container: a packed chunk. The input's first byte says how much of it is made right before
 * it is parsed, since hardly any other input gets past the checks: bit 0 the checks of the blocks,
 * bit 1 the check of the head; bit 2 asks for Zstandard. The rest is the container.
 */
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "storage/container/container.h"
#include "storage/container/container_head.h"
#include "storage/container/container_pack.h"

enum { AT_PLAIN_BYTES = 12, AT_STORED_BYTES = 16, AT_BLOCK_COUNT = 20, AT_CHUNK_ID = 24 };

/* Bytes that end where they end, so that a read past them is noticed. */
struct bytes_source {
    struct stored_source base;
    const uint8_t *bytes;
    size_t len;
};

static int
source_read(struct stored_source *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    struct bytes_source *source = (struct bytes_source *)base;

    CHECK(len > 0 && off <= source->len && len <= source->len - off);
    memcpy(dst, source->bytes + off, len);
    (void)err;
    return 0;
}

static void
source_free(struct stored_source *base)
{
    free(base);
}

static const struct stored_source_ops SOURCE_OPS = {.read = source_read, .free = source_free};

static uint32_t
u32_at(const uint8_t *bytes, size_t at)
{
    uint32_t value;

    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static void
mend_checks(uint8_t *bytes, size_t len, unsigned how)
{
    uint32_t count = u32_at(bytes, AT_BLOCK_COUNT);
    size_t checked = CONTAINER_HEADER_BYTES + (size_t)count * CONTAINER_ENTRY_BYTES;
    size_t off = checked + CONTAINER_CHECK_BYTES;

    if (count > len || off > len)
        return;
    for (uint32_t i = 0; (how & 1) != 0 && i < count; i++) {
        uint8_t *entry = bytes + CONTAINER_HEADER_BYTES + (size_t)i * CONTAINER_ENTRY_BYTES;
        uint32_t stored = u32_at(entry, 0), check;

        if (stored > len - off)
            break;
        check = container_head_block_check(bytes + off, stored);
        memcpy(entry + sizeof(check), &check, sizeof(check));
        off += stored;
    }
    if ((how & 2) != 0) {
        uint64_t check = digest_check(bytes, checked);

        memcpy(bytes + checked, &check, sizeof(check));
    }
}

/* Through a handle the same bytes come out as whole, and parts of them are parts of them. */
static void
check_handle(const struct stored_chunk *chunk, const uint8_t *bytes, const uint8_t *plain)
{
    struct bytes_source *source = mem_zalloc(sizeof(*source));
    uint8_t *part = mem_alloc(chunk->size_bytes);
    uint32_t from = chunk->size_bytes / 3;
    struct container *container;
    struct err err = {0};

    *source = (struct bytes_source){{&SOURCE_OPS}, bytes, chunk->stored_bytes};
    CHECK(container_open(&source->base, chunk, &container_tuning_default, &container, &err) == 0);
    CHECK(container_read(container, from, part, chunk->size_bytes - from, &err) == 0);
    CHECK(memcmp(part, plain + from, chunk->size_bytes - from) == 0);
    container_unref(container);
    free(part);
}

static void
try_container(uint8_t *bytes, size_t len, unsigned how)
{
    struct stored_chunk chunk = {
        .size_bytes = u32_at(bytes, AT_PLAIN_BYTES),
        .stored_bytes = (uint32_t)len,
        .codec = (how & 4) != 0 ? CHUNK_ZSTD : CHUNK_LZ4,
    };
    struct err err = {0};
    uint8_t *plain;

    memcpy(chunk.id.bytes, bytes + AT_CHUNK_ID, DIGEST_BYTES);
    if (chunk.size_bytes > 1 << 20)
        return; /* not a mistake, but slow */
    plain = mem_alloc((size_t)chunk.size_bytes + 1);
    if (container_unpack(&chunk, bytes, plain, NULL, &err) == 0) {
        CHECK(u32_at(bytes, AT_STORED_BYTES) == len);
        check_handle(&chunk, bytes, plain);
    } else {
        CHECK(err.code == ERR_CORRUPT || err.code == ERR_INTERNAL);
        fuzz_check_err(&err);
    }
    free(plain);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *bytes;

    if (len < 1 + CONTAINER_HEADER_BYTES)
        return 0;
    bytes = mem_alloc(len - 1);
    memcpy(bytes, data + 1, len - 1);
    mend_checks(bytes, len - 1, data[0]);
    try_container(bytes, len - 1, data[0]);
    free(bytes);
    return 0;
}
