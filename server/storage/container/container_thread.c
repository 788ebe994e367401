#include "storage/container/container_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

/* Threads begin to count at different places, so that they do not time their reads in step. */
enum { READ_COUNT_STEP = 37 };

enum { WHOLE_STEP_BYTES = 256 << 10 };

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic unsigned thread_count;
static _Thread_local struct container_thread *own;

static void
free_thread(void *ptr)
{
    struct container_thread *thread = ptr;

    for (unsigned i = 0; i < thread->buffer_count; i++)
        free(thread->buffers[i]);
    free(thread->whole);
    (void)ZSTD_freeCCtx(thread->zstd_pack);
    (void)ZSTD_freeDCtx(thread->zstd_unpack);
    free(thread->lz4_pack);
    free(thread->lz4_pack_high);
    free(thread);
    own = NULL;
}

static void
make_key(void)
{
    if (pthread_key_create(&key, free_thread) != 0)
        abort(); /* the process has hundreds of them, and needs this one */
}

static struct container_thread *
make_own(void)
{
    struct container_thread *thread = mem_zalloc(sizeof(*thread));

    (void)pthread_once(&key_once, make_key);
    if (pthread_setspecific(key, thread) != 0)
        abort(); /* no memory: as mem_alloc() */
    thread->read_count =
        atomic_fetch_add_explicit(&thread_count, READ_COUNT_STEP, memory_order_relaxed);
    own = thread;
    return thread;
}

struct container_thread *
container_thread_own(void)
{
    return own != NULL ? own : make_own();
}

uint8_t *
container_thread_take(struct container_thread *thread, size_t len)
{
    if (len > CONTAINER_BUFFER_BYTES)
        return mem_alloc(len);
    if (thread->buffer_count == 0)
        return mem_alloc(CONTAINER_BUFFER_BYTES);
    return thread->buffers[--thread->buffer_count];
}

void
container_thread_give(struct container_thread *thread, uint8_t *buffer, size_t len)
{
    if (buffer == NULL)
        return;
    if (len > CONTAINER_BUFFER_BYTES || thread->buffer_count == CONTAINER_BUFFERS_KEPT)
        free(buffer);
    else
        thread->buffers[thread->buffer_count++] = buffer;
}

uint8_t *
container_thread_whole(struct container_thread *thread, size_t len)
{
    if (thread->whole_cap >= len)
        return thread->whole;
    free(thread->whole);
    thread->whole_cap = (len + WHOLE_STEP_BYTES - 1) / WHOLE_STEP_BYTES * WHOLE_STEP_BYTES;
    thread->whole = mem_alloc(thread->whole_cap);
    return thread->whole;
}
