/*
 * mem: the arena is a chain of blocks. Small pieces are cut from the first one; a piece too big
 * to share a block gets one of its own behind it, so that the first keeps serving small ones.
 */
#include "base/mem.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_BLOCK_BYTES = 8192, ARENA_ALIGN = alignof(max_align_t) };

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t cap;
    alignas(max_align_t) char data[];
};

/* No log_error() here: there may be no memory left for it. */
static _Noreturn void
mem_die(const char *why)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "oxicloudd: %s, stopping\n", why);

    if (write(STDERR_FILENO, line, (size_t)len) < 0) {
        /* nobody left to tell */
    }
    abort();
}

void *
mem_alloc(size_t len)
{
    void *ptr = malloc(len > 0 ? len : 1);

    if (!ptr)
        mem_die("out of memory");
    return ptr;
}

void *
mem_zalloc(size_t len)
{
    return mem_array(1, len);
}

void *
mem_realloc(void *ptr, size_t len)
{
    void *moved = realloc(ptr, len > 0 ? len : 1);

    if (!moved)
        mem_die("out of memory");
    return moved;
}

void *
mem_array(size_t count, size_t size)
{
    size_t len;
    void *ptr;

    if (__builtin_mul_overflow(count, size, &len))
        mem_die("allocation size overflows");
    ptr = calloc(len > 0 ? len : 1, 1);
    if (!ptr)
        mem_die("out of memory");
    return ptr;
}

void *
mem_grow(void *ptr, size_t *cap, size_t need, size_t size)
{
    size_t want = need;
    size_t doubled;
    size_t len;

    if (need <= *cap)
        return ptr;
    if (want < 8)
        want = 8;
    if (!__builtin_mul_overflow(*cap, (size_t)2, &doubled) && doubled > want)
        want = doubled;
    if (__builtin_mul_overflow(want, size, &len))
        mem_die("allocation size overflows");
    ptr = mem_realloc(ptr, len);
    *cap = want;
    return ptr;
}

char *
mem_strdup(const char *str)
{
    return mem_strndup(str, strlen(str));
}

char *
mem_strndup(const char *str, size_t len)
{
    size_t used = strnlen(str, len);
    char *copy = mem_alloc(used + 1);

    memcpy(copy, str, used);
    copy[used] = 0;
    return copy;
}

/* Writes into `dst` of `cap` bytes; more than fits only measures. */
static __attribute__((format(printf, 3, 0))) size_t
format(char *dst, size_t cap, const char *fmt, va_list args)
{
    int len = vsnprintf(dst, cap, fmt, args);

    if (len < 0)
        mem_die("a format does not print");
    return (size_t)len;
}

char *
mem_printf(const char *fmt, ...)
{
    va_list args;
    size_t len;
    char *str;

    va_start(args, fmt);
    len = format(NULL, 0, fmt, args);
    va_end(args);
    str = mem_alloc(len + 1);
    va_start(args, fmt);
    format(str, len + 1, fmt, args);
    va_end(args);
    return str;
}

void
arena_init(struct arena *arena)
{
    arena->blocks = NULL;
}

void
arena_release(struct arena *arena)
{
    struct arena_block *block = arena->blocks;

    while (block) {
        struct arena_block *next = block->next;

        free(block);
        block = next;
    }
    arena->blocks = NULL;
}

static struct arena_block *
block_new(size_t cap)
{
    size_t len;
    struct arena_block *block;

    if (__builtin_add_overflow(cap, sizeof(*block), &len))
        mem_die("allocation size overflows");
    block = mem_alloc(len);
    block->next = NULL;
    block->used = 0;
    block->cap = cap;
    return block;
}

/* A block of its own, not in front: the first block may still have room. */
static void *
alloc_alone(struct arena *arena, size_t len)
{
    struct arena_block *block = block_new(len);

    block->used = len;
    if (arena->blocks) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        arena->blocks = block;
    }
    return block->data;
}

void *
arena_alloc(struct arena *arena, size_t len)
{
    struct arena_block *block = arena->blocks;
    void *ptr;

    if (len > ARENA_BLOCK_BYTES / 4)
        return alloc_alone(arena, len);
    len = (len + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (!block || block->cap - block->used < len) {
        block = block_new(ARENA_BLOCK_BYTES);
        block->next = arena->blocks;
        arena->blocks = block;
    }
    ptr = block->data + block->used;
    block->used += len;
    return ptr;
}

void *
arena_zalloc(struct arena *arena, size_t len)
{
    return memset(arena_alloc(arena, len), 0, len);
}

void *
arena_dup(struct arena *arena, const void *data, size_t len)
{
    void *copy = arena_alloc(arena, len);

    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

char *
arena_strdup(struct arena *arena, const char *str)
{
    return arena_dup(arena, str, strlen(str) + 1);
}

char *
arena_strndup(struct arena *arena, const char *str, size_t len)
{
    size_t used = strnlen(str, len);
    char *copy = arena_alloc(arena, used + 1);

    memcpy(copy, str, used);
    copy[used] = 0;
    return copy;
}

char *
arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    size_t len;
    char *str;

    va_start(args, fmt);
    len = format(NULL, 0, fmt, args);
    va_end(args);
    str = arena_alloc(arena, len + 1);
    va_start(args, fmt);
    format(str, len + 1, fmt, args);
    va_end(args);
    return str;
}
