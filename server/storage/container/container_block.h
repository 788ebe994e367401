/*
 * container_block: one block back from its stored form, checked first. Pure; the calling thread's
 * codec contexts are used.
 */
#ifndef OXI_STORAGE_CONTAINER_BLOCK_H
#define OXI_STORAGE_CONTAINER_BLOCK_H

#include <stdbool.h>

#include "storage/container/container_head.h"

enum container_fault {
    CONTAINER_SOUND,
    CONTAINER_FAULT_CHECK,  /* its bytes are not what was stored */
    CONTAINER_FAULT_DECODE, /* they are, but do not unpack */
    CONTAINER_FAULT_READ,   /* the device has not given them; not found here */
    CONTAINER_FAULT_COUNT,
};

/* No codec sees bytes that have not passed. */
bool container_block_is_sound(const struct container_block *block, const void *stored);

/* stored: from blocks[i].off to blocks[i + 1].off; dst takes container_head_plain_len() bytes. It
 * holds anything after false: they do not unpack. */
bool container_block_unpack(const struct container_head *head, const struct container_block *blocks,
                            uint32_t i, const void *stored, void *dst);

const char *container_fault_text(enum container_fault fault);

#endif
