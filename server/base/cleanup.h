/*
 * cleanup: release at the end of a scope. Every owning local starts empty; handing over is
 * visible as TAKE or TAKE_FD.
 */
#ifndef OXI_BASE_CLEANUP_H
#define OXI_BASE_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static inline void
cleanup_free(void *ptr)
{
    free(*(void **)ptr);
}

static inline void
cleanup_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* where the result matters, the caller closes by hand */
}

static inline void
cleanup_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))

#define CLEANUP_JOIN2(a, b) a##b
#define CLEANUP_JOIN(a, b) CLEANUP_JOIN2(a, b)

/* Holds the mutex until the scope ends. */
#define LOCK_SCOPE(mutex)                                                                          \
    __attribute__((cleanup(cleanup_unlock), unused)) pthread_mutex_t *CLEANUP_JOIN(                \
        lock_scope_, __LINE__) = (pthread_mutex_lock(mutex), (mutex))

/* The value of a pointer, which is NULL from then on. */
#define TAKE(ptr)                                                                                  \
    ({                                                                                             \
        __typeof__(ptr) take_value_ = (ptr);                                                       \
        (ptr) = NULL;                                                                              \
        take_value_;                                                                               \
    })

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int take_fd_ = (fd);                                                                       \
        (fd) = -1;                                                                                 \
        take_fd_;                                                                                  \
    })

#endif
