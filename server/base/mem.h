/*
 * mem: allocation that does not fail (the process stops with a message when the machine has no
 * memory), and the arena: memory that lives as long as one request.
 */
#ifndef OXI_BASE_MEM_H
#define OXI_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t len);
void *mem_zalloc(size_t len);
void *mem_realloc(void *ptr, size_t len);
/* count * size bytes, zeroed; an overflow stops the process. */
void *mem_array(size_t count, size_t size);
/* Grows an array so that it holds at least `need` elements; *cap is updated. */
void *mem_grow(void *ptr, size_t *cap, size_t need, size_t size);
char *mem_strdup(const char *str);
char *mem_strndup(const char *str, size_t len);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct arena_block;

/* Used by one thread at a time. Everything in it is freed at once. */
struct arena {
    struct arena_block *blocks;
};

void arena_init(struct arena *arena);
void arena_release(struct arena *arena);
void *arena_alloc(struct arena *arena, size_t len); /* aligned for any type, not zeroed */
void *arena_zalloc(struct arena *arena, size_t len);
void *arena_dup(struct arena *arena, const void *data, size_t len);
char *arena_strdup(struct arena *arena, const char *str);
char *arena_strndup(struct arena *arena, const char *str, size_t len);
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
