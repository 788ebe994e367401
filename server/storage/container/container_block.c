#include "storage/container/container_block.h"

#include <string.h>

#include "storage/container/codec.h"

bool
container_block_is_sound(const struct container_block *block, const void *stored)
{
    return container_head_block_check(stored, block[1].off - block[0].off) == block->check;
}

bool
container_block_unpack(const struct container_head *head, const struct container_block *blocks,
                       uint32_t i, const void *stored, void *dst)
{
    size_t stored_len = blocks[i + 1].off - blocks[i].off;
    size_t plain_len = container_head_plain_len(head, i);

    if (stored_len != plain_len)
        return codec_unpack(head->codec, stored, stored_len, dst, plain_len);
    memcpy(dst, stored, plain_len); /* it did not pay to pack it */
    return true;
}

const char *
container_fault_text(enum container_fault fault)
{
    switch (fault) {
    case CONTAINER_SOUND: break;
    case CONTAINER_FAULT_CHECK: return "is not what was stored";
    case CONTAINER_FAULT_DECODE: return "does not unpack";
    case CONTAINER_FAULT_READ: return "cannot be read";
    case CONTAINER_FAULT_COUNT: break;
    }
    return "is sound";
}
