#include "storage/container/container_head.h"

#include <endian.h>
#include <string.h>

#include "storage/container/codec.h"

static const char MAGIC[8] = {'o', 'x', 'i', 'c', 'h', 'u', 'n', 'k'};

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_CODEC = 9,
    AT_BLOCK_LOG2 = 10,
    AT_FLAGS = 11,
    AT_PLAIN_BYTES = 12,
    AT_STORED_BYTES = 16,
    AT_BLOCK_COUNT = 20,
    AT_CHUNK_ID = 24,
};

/* ---- numbers, little-endian ----------------------------------------------------------------- */

static uint32_t
load_u32(const uint8_t *src)
{
    uint32_t value;

    memcpy(&value, src, sizeof(value));
    return le32toh(value);
}

static void
store_u32(uint8_t *dst, uint32_t value)
{
    value = htole32(value);
    memcpy(dst, &value, sizeof(value));
}

static uint64_t
load_u64(const uint8_t *src)
{
    uint64_t value;

    memcpy(&value, src, sizeof(value));
    return le64toh(value);
}

static void
store_u64(uint8_t *dst, uint64_t value)
{
    value = htole64(value);
    memcpy(dst, &value, sizeof(value));
}

/* ---- sizes ---------------------------------------------------------------------------------- */

uint32_t
container_head_block_count(uint32_t plain_bytes, unsigned block_log2)
{
    return ((plain_bytes - 1) >> block_log2) + 1;
}

/* What the check covers: header and index. */
static size_t
checked_bytes(uint32_t block_count)
{
    return CONTAINER_HEADER_BYTES + (size_t)block_count * CONTAINER_ENTRY_BYTES;
}

size_t
container_head_bytes(uint32_t block_count)
{
    return checked_bytes(block_count) + CONTAINER_CHECK_BYTES;
}

size_t
container_head_plain_len(const struct container_head *head, uint32_t i)
{
    size_t left = head->plain_bytes - ((size_t)i << head->block_log2);
    size_t block_bytes = (size_t)1 << head->block_log2;

    return left < block_bytes ? left : block_bytes;
}

uint32_t
container_head_block_check(const void *stored, size_t len)
{
    return (uint32_t)digest_check(stored, len);
}

/* ---- writing -------------------------------------------------------------------------------- */

void
container_head_write_entry(uint8_t *dst, uint32_t i, uint32_t stored_len, uint32_t check)
{
    uint8_t *entry = dst + CONTAINER_HEADER_BYTES + (size_t)i * CONTAINER_ENTRY_BYTES;

    store_u32(entry, stored_len);
    store_u32(entry + sizeof(uint32_t), check);
}

void
container_head_write(uint8_t *dst, const struct container_head *head, const struct digest *chunk_id)
{
    size_t checked = checked_bytes(head->block_count);

    memcpy(dst + AT_MAGIC, MAGIC, sizeof(MAGIC));
    dst[AT_VERSION] = CONTAINER_VERSION;
    dst[AT_CODEC] = (uint8_t)head->codec;
    dst[AT_BLOCK_LOG2] = (uint8_t)head->block_log2;
    dst[AT_FLAGS] = 0;
    store_u32(dst + AT_PLAIN_BYTES, head->plain_bytes);
    store_u32(dst + AT_STORED_BYTES, head->stored_bytes);
    store_u32(dst + AT_BLOCK_COUNT, head->block_count);
    memcpy(dst + AT_CHUNK_ID, chunk_id->bytes, DIGEST_BYTES);
    store_u64(dst + checked, digest_check(dst, checked));
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Of a later version nothing but the magic and this number is known to mean the same. */
static int
check_version(const uint8_t *bytes, struct err *err)
{
    if (memcmp(bytes + AT_MAGIC, MAGIC, sizeof(MAGIC)) != 0)
        return err_set(err, ERR_CORRUPT, "it is no container");
    if (bytes[AT_VERSION] != CONTAINER_VERSION)
        return err_set(err, ERR_INTERNAL, "container version %u, this program knows %d",
                       bytes[AT_VERSION], CONTAINER_VERSION);
    return 0;
}

static int
check_row(const struct stored_chunk *chunk, struct err *err)
{
    if (!codec_is_known(chunk->codec))
        return err_set(err, ERR_INTERNAL, "codec %d is not known to this program",
                       (int)chunk->codec);
    if (chunk->size_bytes == 0 || chunk->size_bytes > CONTAINER_PLAIN_MOST)
        return err_set(err, ERR_CORRUPT, "its row has a size that no container has");
    return 0;
}

/* The row came first and by another way: what differs from it is damaged or misplaced. */
static int
check_against_row(const uint8_t *bytes, const struct stored_chunk *chunk, struct err *err)
{
    if (bytes[AT_CODEC] != (uint8_t)chunk->codec)
        return err_set(err, ERR_CORRUPT, "its head has another codec than its row");
    if (load_u32(bytes + AT_PLAIN_BYTES) != chunk->size_bytes ||
        load_u32(bytes + AT_STORED_BYTES) != chunk->stored_bytes)
        return err_set(err, ERR_CORRUPT, "its head has other sizes than its row");
    if (memcmp(bytes + AT_CHUNK_ID, chunk->id.bytes, DIGEST_BYTES) != 0)
        return err_set(err, ERR_CORRUPT, "its head names another chunk");
    return 0;
}

static int
check_blocks(const uint8_t *bytes, const struct container_head *head, struct err *err)
{
    if (head->block_log2 < CONTAINER_BLOCK_LOG2_LEAST ||
        head->block_log2 > CONTAINER_BLOCK_LOG2_MOST || bytes[AT_FLAGS] != 0)
        return err_set(err, ERR_CORRUPT, "its head makes no sense");
    if (head->block_count != container_head_block_count(head->plain_bytes, head->block_log2))
        return err_set(err, ERR_CORRUPT, "its head has too few or too many blocks");
    if (head->stored_bytes <= container_head_bytes(head->block_count))
        return err_set(err, ERR_CORRUPT, "it ends in its head");
    return 0;
}

int
container_head_parse(const uint8_t *bytes, size_t len, const struct stored_chunk *chunk,
                     struct container_head *ret_head, struct err *err)
{
    struct container_head head;

    if (check_row(chunk, err) < 0)
        return -1;
    if (len < CONTAINER_HEADER_BYTES)
        return err_set(err, ERR_CORRUPT, "it ends in its head");
    if (check_version(bytes, err) < 0 || check_against_row(bytes, chunk, err) < 0)
        return -1;
    head = (struct container_head){
        .codec = chunk->codec,
        .block_log2 = bytes[AT_BLOCK_LOG2],
        .plain_bytes = chunk->size_bytes,
        .stored_bytes = chunk->stored_bytes,
        .block_count = load_u32(bytes + AT_BLOCK_COUNT),
    };
    if (check_blocks(bytes, &head, err) < 0)
        return -1;
    *ret_head = head;
    return 0;
}

int
container_head_parse_index(const struct container_head *head, const uint8_t *bytes,
                           struct container_block *ret_blocks, struct err *err)
{
    size_t checked = checked_bytes(head->block_count);
    const uint8_t *entry = bytes + CONTAINER_HEADER_BYTES;
    uint32_t off = (uint32_t)container_head_bytes(head->block_count);

    if (digest_check(bytes, checked) != load_u64(bytes + checked))
        return err_set(err, ERR_CORRUPT, "its head is not what was stored");
    for (uint32_t i = 0; i < head->block_count; i++, entry += CONTAINER_ENTRY_BYTES) {
        uint32_t stored_len = load_u32(entry);

        ret_blocks[i] = (struct container_block){off, load_u32(entry + sizeof(uint32_t))};
        if (stored_len == 0 || stored_len > container_head_plain_len(head, i) ||
            __builtin_add_overflow(off, stored_len, &off) || off > head->stored_bytes)
            return err_set(err, ERR_CORRUPT, "block %u has an impossible length", i);
    }
    if (off != head->stored_bytes)
        return err_set(err, ERR_CORRUPT, "there are bytes behind its last block");
    ret_blocks[head->block_count] = (struct container_block){off, 0};
    return 0;
}
