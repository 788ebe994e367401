#include "bench/bench_load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/bench_reply.h"

enum {
    HEAD_SIZE = 2048,
    BUFFER_SIZE = 256 << 10,
    DROP_MAX = 1 << 20,
    TOUCH_SIZE = 64,
    READS_IN_A_ROW = 16, /* then the next connection has its turn */
    EVENTS = 64,
    WAIT_MS = 1000,
    ERRORS_MAX = 100,
};

struct connection {
    struct bench_load *load;
    int fd;
    bool waits_to_send;
    bool is_touching; /* the request under way is none that counts */
    bool is_again;    /* sent once more, because the server had closed the connection */
    uint64_t served;  /* replies since it was opened */
    uint64_t number, offset, random;
    int64_t began_ns;
    char head[HEAD_SIZE];
    const unsigned char *body;
    size_t head_len, body_len, sent; /* sent: of both together */
    unsigned char *own;              /* a body made for one request */
    struct bench_reply reply;
};

struct bench_load {
    const struct bench_load_plan *plan;
    struct bench_load_turn *turn;
    struct connection *connections;
    size_t count, busy;
    int epoll;
    char *buffer;
    struct bench_load_result result;
};

/* ---- opening and closing -------------------------------------------------------------------- */

static void
open_connection(struct connection *c)
{
    const struct bench_load_plan *plan = c->load->plan;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int on = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const void *)&plan->address, sizeof(plan->address)) < 0)
        bench_die("connect to %s: %s", plan->host, strerror(errno));
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(c->load->epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        bench_die("watch a connection: %s", strerror(errno));
    c->waits_to_send = false;
    c->served = 0;
}

static void
reopen_connection(struct connection *c)
{
    (void)close(c->fd);
    open_connection(c);
    c->load->result.reconnects++;
}

static void
wait_to_send(struct connection *c, bool waits)
{
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};

    if (c->waits_to_send == waits)
        return;
    c->waits_to_send = waits;
    if (epoll_ctl(c->load->epoll, EPOLL_CTL_MOD, c->fd, &event) < 0)
        bench_die("watch a connection: %s", strerror(errno));
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool
take_number(struct connection *c)
{
    const struct bench_load_plan *plan = c->load->plan;

    if (atomic_load(&c->load->turn->is_stopped) || clock_mono_ns() >= plan->stop_ns)
        return false;
    c->number = atomic_fetch_add(&c->load->turn->next, 1);
    return c->number < plan->count;
}

static uint64_t
file_of(const struct connection *c)
{
    uint64_t files = c->load->plan->files;

    return files > 0 ? c->number % files : c->number;
}

static void
choose_body(struct connection *c)
{
    const struct bench_load_plan *plan = c->load->plan;

    c->body_len = 0;
    if (c->is_touching) {
        bench_data_fill(&plan->data, UINT64_MAX - c->number, 0, c->own, TOUCH_SIZE);
        c->body = c->own;
        c->body_len = TOUCH_SIZE;
    } else if (plan->is_put && plan->bodies != NULL) {
        c->body = plan->bodies + file_of(c) * plan->size;
        c->body_len = plan->size;
    } else if (plan->is_put) {
        bench_data_fill(&plan->data, file_of(c), 0, c->own, plan->size);
        c->body = c->own;
        c->body_len = plan->size;
    } else if (plan->body != NULL) {
        c->body = (const unsigned char *)plan->body;
        c->body_len = strlen(plan->body);
    }
}

/* "Range: bytes=..." somewhere in the file, or nothing. */
static void
choose_range(struct connection *c, char *dst, size_t size)
{
    const struct bench_load_plan *plan = c->load->plan;

    c->offset = 0;
    *dst = 0;
    if (plan->range_of == 0 || c->is_touching)
        return;
    c->offset = bench_data_random(&c->random) % (plan->range_of - plan->size + 1);
    (void)snprintf(dst, size, "Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n", c->offset,
                   c->offset + plan->size - 1);
}

static void
write_head(struct connection *c)
{
    const struct bench_load_plan *plan = c->load->plan;
    const char *path = c->is_touching ? plan->touch : plan->path;
    size_t before = strcspn(path, "#");
    char number[24] = "", range[80];
    int len;

    if (path[before] != 0)
        (void)snprintf(number, sizeof(number), "%" PRIu64, file_of(c));
    choose_range(c, range, sizeof(range));
    len = snprintf(c->head, sizeof(c->head),
                   "%s %.*s%s%s HTTP/1.1\r\nHost: %s\r\n%s%sContent-Length: %zu\r\n\r\n",
                   c->is_touching ? "PUT" : plan->method, (int)before, path, number,
                   path[before] != 0 ? path + before + 1 : "", plan->host, plan->headers, range,
                   c->body_len);
    if (len < 0 || (size_t)len >= sizeof(c->head))
        bench_die("the head of a request is longer than %zu bytes", sizeof(c->head));
    c->head_len = (size_t)len;
}

/* Returns 0, also when the socket is full; -1 with err. */
static int
send_more(struct connection *c, struct err *err)
{
    while (c->sent < c->head_len + c->body_len) {
        size_t of_head = c->sent < c->head_len ? c->sent : c->head_len;
        size_t of_body = c->sent - of_head;
        struct iovec parts[2] = {
            {c->head + of_head, c->head_len - of_head},
            {(void *)(uintptr_t)(c->body + of_body), c->body_len - of_body},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = c->body_len > 0 ? 2 : 1};
        ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n < 0)
            return err_errno(err, errno, "send a request");
        c->sent += (size_t)n;
    }
    wait_to_send(c, c->sent < c->head_len + c->body_len);
    return 0;
}

static int
send_request(struct connection *c, struct err *err)
{
    c->sent = 0;
    bench_reply_begin(&c->reply);
    c->began_ns = clock_mono_ns();
    return send_more(c, err);
}

/* The next request, or none: then the connection is closed. */
static int
begin_next(struct connection *c, struct err *err)
{
    bool touched = c->is_touching;

    c->is_touching = false;
    c->is_again = false;
    if (!touched) {
        if (!take_number(c)) {
            (void)close(c->fd);
            c->fd = -1;
            c->load->busy--;
            return 0;
        }
        c->is_touching = c->load->plan->touch != NULL;
    }
    choose_body(c);
    write_head(c);
    return send_request(c, err);
}

/* ---- replies -------------------------------------------------------------------------------- */

static int
compare(void *ctx, uint64_t off, const char *data, size_t len, struct err *err)
{
    struct connection *c = ctx;

    if (bench_data_is(&c->load->plan->data, file_of(c), c->offset + off, data, len))
        return 0;
    return err_set(err, ERR_CORRUPT, "other bytes than were sent, from byte %" PRIu64,
                   c->offset + off);
}

static int
check_reply(const struct connection *c, struct err *err)
{
    const struct bench_load_plan *plan = c->load->plan;
    int status = c->reply.status;

    if (c->is_touching ? status / 100 != 2 : status != plan->status)
        return err_set(err, ERR_INVALID, "status %d", status);
    if (!c->is_touching && plan->has_length && c->reply.body_bytes != plan->size)
        return err_set(err, ERR_INVALID, "%" PRIu64 " bytes came of %" PRIu64, c->reply.body_bytes,
                       plan->size);
    if (c->sent < c->head_len + c->body_len)
        return err_set(err, ERR_INVALID, "status %d before all was sent", status);
    return 0;
}

static int
reply_is_there(struct connection *c, struct err *err)
{
    struct bench_load_result *result = &c->load->result;

    if (check_reply(c, err) < 0)
        return -1;
    if (!c->is_touching) {
        bench_latency_add(&result->latency, (uint64_t)(clock_mono_ns() - c->began_ns));
        result->bytes_sent += c->body_len;
        result->bytes_received += c->reply.body_bytes;
    }
    c->served++;
    if (c->reply.is_closing)
        reopen_connection(c);
    return begin_next(c, err);
}

/* A server may close a connection that it keeps alive just when the next request comes. */
static bool
may_send_again(const struct connection *c)
{
    return c->served > 0 && !c->is_again && c->reply.state == REPLY_HEAD && c->reply.line_len == 0;
}

static int
connection_is_closed(struct connection *c, struct err *err)
{
    if (may_send_again(c)) {
        reopen_connection(c);
        c->is_again = true;
        return send_request(c, err);
    }
    if (bench_reply_end(&c->reply, err) < 0)
        return -1;
    return reply_is_there(c, err);
}

/* Bytes that came, -1 with errno. */
static ssize_t
receive_some(struct connection *c, bool *ret_dropped)
{
    uint64_t droppable = c->load->plan->is_compared ? 0 : bench_reply_droppable(&c->reply);

    *ret_dropped = droppable > 0;
    if (droppable > 0)
        return recv(c->fd, NULL, droppable < DROP_MAX ? (size_t)droppable : DROP_MAX, MSG_TRUNC);
    return recv(c->fd, c->load->buffer, BUFFER_SIZE, 0);
}

static int
receive(struct connection *c, struct err *err)
{
    bench_reply_sink *sink =
        c->load->plan->is_compared && !c->load->plan->is_put && !c->is_touching ? compare : NULL;

    for (int i = 0; i < READS_IN_A_ROW; i++) {
        bool dropped;
        ssize_t n = receive_some(c, &dropped);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return connection_is_closed(c, err);
        if (n < 0)
            return err_errno(err, errno, "receive");
        if (dropped)
            bench_reply_drop(&c->reply, (uint64_t)n);
        else if (bench_reply_feed(&c->reply, c->load->buffer, (size_t)n, sink, c, err) < 0)
            return -1;
        if (c->reply.state == REPLY_DONE)
            return reply_is_there(c, err);
    }
    return 0;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void
count_error(struct connection *c, const struct err *err)
{
    struct bench_load_result *result = &c->load->result;

    if (result->errors++ == 0)
        (void)snprintf(result->first_error, sizeof(result->first_error), "request %" PRIu64 ": %s",
                       c->number, err->msg);
    if (result->errors >= ERRORS_MAX)
        atomic_store(&c->load->turn->is_stopped, true);
}

/* What failed is counted, and the next request sent, on a new connection. */
static void
go_on(struct connection *c, int rc, struct err *err)
{
    while (rc < 0) {
        count_error(c, err);
        c->is_touching = false;
        reopen_connection(c);
        rc = begin_next(c, err);
    }
}

static void
handle(struct connection *c, uint32_t events)
{
    struct err err = {0};
    int rc = 0;

    if (c->fd < 0)
        return;
    if ((events & EPOLLOUT) != 0)
        rc = send_more(c, &err);
    if (rc == 0 && (events & ~(uint32_t)EPOLLOUT) != 0)
        rc = receive(c, &err);
    go_on(c, rc, &err);
}

void
bench_load_run(struct bench_load *load)
{
    struct epoll_event events[EVENTS];

    for (size_t i = 0; i < load->count; i++) {
        struct err err = {0};

        go_on(&load->connections[i], begin_next(&load->connections[i], &err), &err);
    }
    while (load->busy > 0) {
        int n = epoll_wait(load->epoll, events, EVENTS, WAIT_MS);

        for (int i = 0; i < n; i++)
            handle(events[i].data.ptr, events[i].events);
        if (clock_mono_ns() > load->plan->limit_ns)
            bench_die("%s %s: not over in time", load->plan->method, load->plan->path);
    }
}

/* ---- making and ending ---------------------------------------------------------------------- */

struct bench_load *
bench_load_new(const struct bench_load_plan *plan, struct bench_load_turn *turn, size_t connections,
               uint64_t first_number)
{
    struct bench_load *load = mem_zalloc(sizeof(*load));
    size_t own = plan->is_put && plan->bodies == NULL ? (size_t)plan->size : 0;

    load->plan = plan;
    load->turn = turn;
    load->count = load->busy = connections;
    load->buffer = mem_alloc(BUFFER_SIZE);
    load->connections = mem_array(connections, sizeof(*load->connections));
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll < 0)
        bench_die("epoll: %s", strerror(errno));
    for (size_t i = 0; i < connections; i++) {
        struct connection *c = &load->connections[i];

        c->load = load;
        c->random = plan->data.seed + (first_number + i) * UINT32_MAX;
        c->own = mem_alloc(own > TOUCH_SIZE ? own : TOUCH_SIZE);
        open_connection(c);
    }
    return load;
}

const struct bench_load_result *
bench_load_result(const struct bench_load *load)
{
    return &load->result;
}

void
bench_load_free(struct bench_load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        if (load->connections[i].fd >= 0)
            (void)close(load->connections[i].fd);
        free(load->connections[i].own);
    }
    (void)close(load->epoll);
    free(load->connections);
    free(load->buffer);
    free(load);
}
