/*
 * How much does an HTTP server do? Sends one kind of request over connections that are kept alive,
 * checks the status and the length of every reply (or each byte of it), and prints what came of it
 * as JSON. bench/http runs it against several servers; it is of use alone, too:
 *
 *   http_load --method PUT --size 4K --count 1000 http://127.0.0.1:8086/webdav/folder/#
 *
 *   --method GET          GET, PUT, PROPFIND, ...
 *   --connections 1       at once
 *   --threads 0           0: one for one connection, two for more
 *   --count N             requests at most; --seconds 10: none begins later
 *   --limit 600           seconds after which it gives up
 *   --size SIZE           of a file that is sent, or that comes; or of a range
 *   --range-of SIZE       ranges at random places of a file of that size
 *   --files N             # in the path counts from 0 to N-1 and again; 0: to the end
 *   --seed N              another one, other bytes; --text: bytes that pack
 *   --compare             every byte that comes is the one that was sent with this seed
 *   --status N            wanted; else 201 for PUT, 206 for ranges, 207 for PROPFIND, 200
 *   --user NAME:PASSWORD  Basic authentication
 *   --header 'Depth: 1'   as often as need be
 *   --body TEXT           of every request
 *   --touch PATH          before each request a PUT there, which is not counted
 *   --warm SIZE           touches and frees so much memory before it begins
 *
 * Bytes are made from seed and number of the file, so that what was sent by one call can be
 * compared by another. Large files are made in memory before anything is measured.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "bench/bench.h"
#include "bench/bench_load.h"

enum { THREADS_MAX = 16, CONNECTIONS_MAX = 20000, HEADERS_SIZE = 1024 };

static const uint64_t MOST = (uint64_t)1 << 50;

struct options {
    struct bench_load_plan plan;
    uint64_t connections, threads, limit, warm;
    double seconds;
    char headers[HEADERS_SIZE];
};

/* ---- the command line ----------------------------------------------------------------------- */

enum option_number {
    OPTION_METHOD = 1,
    OPTION_CONNECTIONS,
    OPTION_THREADS,
    OPTION_COUNT,
    OPTION_SECONDS,
    OPTION_LIMIT,
    OPTION_SIZE,
    OPTION_RANGE_OF,
    OPTION_FILES,
    OPTION_SEED,
    OPTION_TEXT,
    OPTION_COMPARE,
    OPTION_STATUS,
    OPTION_USER,
    OPTION_HEADER,
    OPTION_BODY,
    OPTION_TOUCH,
    OPTION_WARM,
};

static const struct option OPTIONS[] = {
    {"method", required_argument, NULL, OPTION_METHOD},
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"range-of", required_argument, NULL, OPTION_RANGE_OF},
    {"files", required_argument, NULL, OPTION_FILES},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"text", no_argument, NULL, OPTION_TEXT},
    {"compare", no_argument, NULL, OPTION_COMPARE},
    {"status", required_argument, NULL, OPTION_STATUS},
    {"user", required_argument, NULL, OPTION_USER},
    {"header", required_argument, NULL, OPTION_HEADER},
    {"body", required_argument, NULL, OPTION_BODY},
    {"touch", required_argument, NULL, OPTION_TOUCH},
    {"warm", required_argument, NULL, OPTION_WARM},
    {NULL, 0, NULL, 0},
};

static uint64_t
number_of(const char *text)
{
    uint64_t value;

    if (!text_parse_size(slice_of(text), MOST, &value))
        bench_die("%s: a number is wanted, or a size like 64, 8K, 10M, 2G", text);
    return value;
}

static void
add_header(struct options *options, const char *line)
{
    size_t len = strlen(options->headers);
    int n = snprintf(options->headers + len, HEADERS_SIZE - len, "%s\r\n", line);

    if (n < 0 || (size_t)n >= HEADERS_SIZE - len)
        bench_die("headers of more than %d bytes", HEADERS_SIZE);
}

/* RFC 4648 section 4. */
static void
add_user(struct options *options, const char *user)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[HEADERS_SIZE] = "Authorization: Basic ";
    size_t len = strlen(user), at = strlen(line);

    if (at + (len + 2) / 3 * 4 >= sizeof(line))
        bench_die("the user's name is too long");
    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = 0;

        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < len ? (unsigned char)user[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            line[at++] = i + j > len ? '=' : DIGITS[bits >> (18 - 6 * j) & 63];
    }
    line[at] = 0;
    add_header(options, line);
}

static bool
take_option(struct options *options, int which, const char *value)
{
    struct bench_load_plan *plan = &options->plan;

    switch (which) {
    case OPTION_METHOD: plan->method = value; break;
    case OPTION_CONNECTIONS: options->connections = number_of(value); break;
    case OPTION_THREADS: options->threads = number_of(value); break;
    case OPTION_COUNT: plan->count = number_of(value); break;
    case OPTION_SECONDS: options->seconds = strtod(value, NULL); break;
    case OPTION_LIMIT: options->limit = number_of(value); break;
    case OPTION_SIZE:
        plan->size = number_of(value);
        plan->has_length = true;
        break;
    case OPTION_RANGE_OF: plan->range_of = number_of(value); break;
    case OPTION_FILES: plan->files = number_of(value); break;
    case OPTION_SEED: plan->data.seed = number_of(value); break;
    case OPTION_TEXT: plan->data.is_text = true; break;
    case OPTION_COMPARE: plan->is_compared = true; break;
    case OPTION_STATUS: plan->status = (int)number_of(value); break;
    case OPTION_USER: add_user(options, value); break;
    case OPTION_HEADER: add_header(options, value); break;
    case OPTION_BODY: plan->body = value; break;
    case OPTION_TOUCH: plan->touch = value; break;
    case OPTION_WARM: options->warm = number_of(value); break;
    default: return false;
    }
    return true;
}

/* http://ADDRESS:PORT/PATH */
static void
take_url(struct bench_load_plan *plan, const char *url)
{
    static const char SCHEME[] = "http://";
    const char *host = url + sizeof(SCHEME) - 1;
    size_t len = strncmp(url, SCHEME, sizeof(SCHEME) - 1) == 0 ? strcspn(host, "/") : 0;
    char address[64] = "";
    char *colon;
    uint64_t port = 0;

    if (len > 0 && len < sizeof(address) && host[len] == '/')
        memcpy(address, host, len);
    colon = strchr(address, ':');
    plan->host = mem_strdup(address);
    if (colon != NULL)
        *colon = 0;
    if (colon == NULL || !text_parse_u64(slice_of(colon + 1), UINT16_MAX, &port) ||
        inet_pton(AF_INET, address, &plan->address.sin_addr) != 1)
        bench_die("%s: http://ADDRESS:PORT/PATH is wanted, with an address of IPv4", url);
    plan->address.sin_family = AF_INET;
    plan->address.sin_port = htons((uint16_t)port);
    plan->path = host + len;
}

static int
usual_status(const struct bench_load_plan *plan)
{
    if (plan->is_put)
        return 201;
    if (plan->range_of > 0)
        return 206;
    return strcmp(plan->method, "PROPFIND") == 0 ? 207 : 200;
}

static void
check_options(struct options *options)
{
    struct bench_load_plan *plan = &options->plan;

    plan->is_put = strcmp(plan->method, "PUT") == 0;
    if (plan->is_put) /* its reply may say anything */
        plan->has_length = false;
    if (plan->status == 0)
        plan->status = usual_status(plan);
    if (options->threads == 0)
        options->threads = options->connections > 1 ? 2 : 1;
    if (options->threads > THREADS_MAX || options->connections < options->threads ||
        options->connections > CONNECTIONS_MAX)
        bench_die("from 1 to %d threads, and from one for each to %d connections", THREADS_MAX,
                  CONNECTIONS_MAX);
    if (plan->range_of > 0 && (plan->size == 0 || plan->size > plan->range_of))
        bench_die("a range is wanted that fits into the file");
    plan->headers = options->headers;
}

static void
read_command_line(struct options *options, int argc, char **argv)
{
    int which;

    while ((which = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (!take_option(options, which, optarg))
            exit(2); /* getopt has said why */
    }
    if (optind + 1 != argc)
        bench_die("usage: http_load [OPTION...] http://ADDRESS:PORT/PATH");
    take_url(&options->plan, argv[optind]);
    check_options(options);
}

/* ---- bodies --------------------------------------------------------------------------------- */

static size_t
bodies_len(const struct bench_load_plan *plan)
{
    uint64_t files = plan->files > 0 ? plan->files : plan->count, len;

    if (!plan->is_put || plan->size <= BENCH_LOAD_BODY_MAX)
        return 0;
    if (files == UINT64_MAX || __builtin_mul_overflow(files, plan->size, &len) || len > SIZE_MAX)
        bench_die("for large files say how many there are: --count or --files");
    return (size_t)len;
}

static void
make_bodies(struct bench_load_plan *plan)
{
    size_t len = bodies_len(plan);
    unsigned char *bodies;

    if (len == 0)
        return;
    bodies = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bodies == MAP_FAILED)
        bench_die("no %zu bytes of memory for what is to be sent", len);
    for (uint64_t file = 0; file * plan->size < len; file++)
        bench_data_fill(&plan->data, file, 0, bodies + file * plan->size, (size_t)plan->size);
    plan->bodies = bodies;
}

/* ---- running -------------------------------------------------------------------------------- */

static void *
run_thread(void *arg)
{
    bench_load_run(arg);
    return NULL;
}

static void
merge(struct bench_load_result *into, const struct bench_load_result *from)
{
    bench_latency_merge(&into->latency, &from->latency);
    if (into->errors == 0)
        memcpy(into->first_error, from->first_error, sizeof(into->first_error));
    into->errors += from->errors;
    into->reconnects += from->reconnects;
    into->bytes_sent += from->bytes_sent;
    into->bytes_received += from->bytes_received;
}

static double
milliseconds(const struct bench_latency *latency, double part)
{
    return (double)bench_latency_ns(latency, part) / 1e6;
}

static void
print_result(const struct bench_load_result *result, double seconds, double cpu_seconds)
{
    const struct bench_latency *latency = &result->latency;
    json_t *object =
        json_pack("{s:I, s:I, s:s, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f}", "requests",
                  (json_int_t)latency->count, "errors", (json_int_t)result->errors, "first_error",
                  result->first_error, "reconnects", (json_int_t)result->reconnects, "seconds",
                  seconds, "waited_seconds", (double)latency->sum_ns / 1e9, "client_cpu_seconds",
                  cpu_seconds, "bytes_sent", (json_int_t)result->bytes_sent, "bytes_received",
                  (json_int_t)result->bytes_received, "p50_ms", milliseconds(latency, 0.5),
                  "p99_ms", milliseconds(latency, 0.99), "most_ms", milliseconds(latency, 1));

    if (object == NULL)
        bench_die("the result is no JSON");
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(object);
}

static void
run(struct options *options)
{
    static struct bench_load_result result; /* too large for a stack */
    struct bench_load_plan *plan = &options->plan;
    struct bench_load_turn turn = {0};
    struct bench_load *loads[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    uint64_t n = options->threads, opened = 0;
    int64_t began_ns, cpu_us;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t share = options->connections / n + (i < options->connections % n);

        loads[i] = bench_load_new(plan, &turn, (size_t)share, opened);
        opened += share;
    }
    began_ns = clock_mono_ns();
    cpu_us = bench_cpu_us();
    plan->stop_ns = began_ns + (int64_t)(options->seconds * 1e9);
    plan->limit_ns = began_ns + (int64_t)options->limit * 1000000000;
    for (uint64_t i = 1; i < n; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, loads[i]) != 0)
            bench_die("start a thread");
    }
    bench_load_run(loads[0]);
    for (uint64_t i = 1; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    began_ns = clock_mono_ns() - began_ns;
    cpu_us = bench_cpu_us() - cpu_us;
    for (uint64_t i = 0; i < n; i++) {
        merge(&result, bench_load_result(loads[i]));
        bench_load_free(loads[i]);
    }
    print_result(&result, (double)began_ns / 1e9, (double)cpu_us / 1e6);
}

int
main(int argc, char **argv)
{
    static struct options options = {
        .plan = {.method = "GET", .count = UINT64_MAX},
        .connections = 1,
        .seconds = 10,
        .limit = 600,
    };

    read_command_line(&options, argc, argv);
    make_bodies(&options.plan);
    if (options.warm > 0)
        bench_warm_memory((size_t)options.warm);
    run(&options);
    return 0;
}
