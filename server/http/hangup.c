/*
 * When the peer has closed its side, shutdown(SHUT_RD) changes nothing on the wire (there is
 * nothing left to come, and what has come can still be read) but wakes whoever polls the socket.
 * One wake-up can be lost in the same way as the first, so it is repeated, ever more slowly, until
 * the connection is gone; a client that only closed its sending half and waits for a long answer
 * is not disturbed by it.
 *
 * Descriptors are used again as soon as they are closed. The generation of each, under the lock,
 * tells an old event from a new connection.
 */
#include "http/hangup.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    EVENTS_AT_ONCE = 64,
    FIRST_WAIT_MS = 20,
    LONGEST_WAIT_MS = 5000,
};

/* A socket whose peer has closed its side. */
struct hung {
    int fd;
    uint32_t generation;
    int wait_ms; /* until the next wake-up after `at_us` */
    int64_t at_us;
};

struct hangup {
    int epoll_fd;
    int stop_fd;
    pthread_t thread;
    struct hung *hung; /* of the thread alone */
    size_t hung_count;
    size_t hung_cap;

    pthread_mutex_t lock;
    uint32_t *generations; /* by descriptor; 0: not watched */
    size_t generations_cap;
    uint32_t next_generation;
};

static uint64_t
pack(int fd, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint32_t)fd;
}

/* False: the connection is gone. */
static bool
wake(struct hangup *hangup, const struct hung *hung)
{
    LOCK_SCOPE(&hangup->lock);
    if (hangup->generations[hung->fd] != hung->generation)
        return false;
    (void)shutdown(hung->fd, SHUT_RD); /* a socket that cannot be shut down is gone, too */
    return true;
}

static void
note(struct hangup *hangup, uint64_t packed)
{
    hangup->hung =
        mem_grow(hangup->hung, &hangup->hung_cap, hangup->hung_count + 1, sizeof(*hangup->hung));
    hangup->hung[hangup->hung_count++] = (struct hung){.fd = (int)(uint32_t)packed,
                                                       .generation = (uint32_t)(packed >> 32),
                                                       .wait_ms = FIRST_WAIT_MS,
                                                       .at_us = clock_mono_us()};
}

/* Wakes those that are due; returns how long until the next one is, or -1. */
static int
wake_due(struct hangup *hangup)
{
    int64_t now_us = clock_mono_us(), next_us = INT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < hangup->hung_count; i++) {
        struct hung hung = hangup->hung[i];

        if (hung.at_us <= now_us) {
            if (!wake(hangup, &hung))
                continue;
            hung.at_us = now_us + hung.wait_ms * INT64_C(1000);
            hung.wait_ms = hung.wait_ms * 2 < LONGEST_WAIT_MS ? hung.wait_ms * 2 : LONGEST_WAIT_MS;
        }
        if (hung.at_us < next_us)
            next_us = hung.at_us;
        hangup->hung[kept++] = hung;
    }
    hangup->hung_count = kept;
    return kept ? (int)((next_us - now_us) / 1000) + 1 : -1;
}

static void *
hangup_main(void *arg)
{
    struct hangup *hangup = arg;
    struct epoll_event events[EVENTS_AT_ONCE];

    for (;;) {
        int count = epoll_wait(hangup->epoll_fd, events, EVENTS_AT_ONCE, wake_due(hangup));

        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == pack(hangup->stop_fd, 0))
                return NULL;
            note(hangup, events[i].data.u64);
        }
    }
}

static void
hangup_free(struct hangup *hangup)
{
    if (hangup->epoll_fd >= 0)
        close(hangup->epoll_fd);
    if (hangup->stop_fd >= 0)
        close(hangup->stop_fd);
    pthread_mutex_destroy(&hangup->lock);
    free(hangup->generations);
    free(hangup->hung);
    free(hangup);
}

int
hangup_start(struct hangup **ret_hangup, struct err *err)
{
    struct hangup *hangup = mem_zalloc(sizeof(*hangup));
    struct epoll_event event = {.events = EPOLLIN};
    int result;

    pthread_mutex_init(&hangup->lock, NULL);
    hangup->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    hangup->stop_fd = eventfd(0, EFD_CLOEXEC);
    event.data.u64 = pack(hangup->stop_fd, 0);
    if (hangup->epoll_fd < 0 || hangup->stop_fd < 0 ||
        epoll_ctl(hangup->epoll_fd, EPOLL_CTL_ADD, hangup->stop_fd, &event) < 0) {
        (void)err_errno(err, errno, "watch connections");
        hangup_free(hangup);
        return -1;
    }
    result = pthread_create(&hangup->thread, NULL, hangup_main, hangup);
    if (result != 0) {
        hangup_free(hangup);
        return err_errno(err, result, "watch connections");
    }
    *ret_hangup = hangup;
    return 0;
}

void
hangup_stop(struct hangup *hangup)
{
    uint64_t one = 1;

    if (!hangup)
        return;
    if (write(hangup->stop_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(hangup->thread, NULL);
    hangup_free(hangup);
}

void
hangup_add(struct hangup *hangup, int fd)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET};
    size_t old_cap;

    LOCK_SCOPE(&hangup->lock);
    old_cap = hangup->generations_cap;
    hangup->generations = mem_grow(hangup->generations, &hangup->generations_cap, (size_t)fd + 1,
                                   sizeof(*hangup->generations));
    for (size_t i = old_cap; i < hangup->generations_cap; i++)
        hangup->generations[i] = 0;
    if (++hangup->next_generation == 0)
        hangup->next_generation = 1;
    hangup->generations[fd] = hangup->next_generation;
    event.data.u64 = pack(fd, hangup->next_generation);
    /* Unwatched, a connection ends at its idle timeout: not worth refusing it for. */
    (void)epoll_ctl(hangup->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void
hangup_remove(struct hangup *hangup, int fd)
{
    LOCK_SCOPE(&hangup->lock);
    hangup->generations[fd] = 0;
    (void)epoll_ctl(hangup->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}
