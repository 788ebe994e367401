/*
 * driver: runs a fuzz program built with gcc, as libFuzzer does for one built with clang, and with
 * the same words:
 *
 *   x [-max_total_time=SECS] [-seed=N] [-artifact_prefix=PATH] FOLDER...
 *       every file of the folders, then mutations of them; without a seed, or 0, others each time.
 *       An input that fails is saved under the prefix.
 *   x FILE...
 *       these inputs, once each
 *
 * Code compiled with -fsanitize-coverage=trace-pc tells which ways it took: an input that took a
 * new one is kept in memory and mutated further. Without it only the files are.
 *
 * A child runs the inputs, the parent waits. Whatever ends the child, the input that did it still
 * lies in the memory they share.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
    INPUT_MAX = 64 << 10,
    POOL_MAX = 20000,
    POOL_MAX_BYTES = 256 << 20,
    WAYS_MAX = 1 << 16,
    HANG_SECS = 30, /* for one input */
    MUTATIONS_MAX = 8,
    REPEATS_MAX = 100,
};

struct shared {
    _Atomic uint64_t run_count;
    size_t len;
    uint8_t input[INPUT_MAX];
};

struct input {
    uint8_t *data;
    size_t len;
};

static struct {
    double secs;
    uint64_t seed;
    const char *save_prefix;
} options = {.secs = 2, .save_prefix = "./crash-"};

static struct shared *shared;
static struct input pool[POOL_MAX];
static size_t pool_count;
static size_t pool_bytes;
static uint64_t random_state;

/* ---- ways through the code ---- */

static uint8_t ways_seen[WAYS_MAX]; /* a bit for once, twice, four times, ... in one input */
static uint8_t hits[WAYS_MAX];      /* of the present input */
static uint16_t taken[WAYS_MAX];    /* those with hits */
static size_t taken_count;
static uintptr_t last_place;

/* Called by the compiler's doing at each branch; a way is a pair of places in a row. */
__attribute__((no_sanitize_coverage, no_sanitize_address, no_sanitize_undefined)) void
__sanitizer_cov_trace_pc(void)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)LLVMFuzzerTestOneInput;
    uint16_t way = (uint16_t)(place ^ place >> 16 ^ last_place);

    last_place = place << 1;
    if (hits[way] == 0)
        taken[taken_count++] = way;
    hits[way] += hits[way] < UINT8_MAX;
}

__attribute__((no_sanitize_coverage)) static void
forget_ways(void)
{
    while (taken_count > 0)
        hits[taken[--taken_count]] = 0;
    last_place = 0;
}

/* Did the input take a way that none before took, or took so often? */
__attribute__((no_sanitize_coverage)) static bool
learn_ways(void)
{
    bool is_new = false;

    for (size_t i = 0; i < taken_count; i++) {
        uint8_t bit = (uint8_t)(1u << (31 - __builtin_clz(hits[taken[i]])));

        is_new = is_new || !(ways_seen[taken[i]] & bit);
        ways_seen[taken[i]] |= bit;
    }
    return is_new;
}

/* ---- chance ---- */

/* xorshift64*: the same numbers for the same seed, everywhere. */
static uint64_t
next_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static size_t
below(size_t most)
{
    return most == 0 ? 0 : next_random() % most;
}

/* Mostly short, sometimes as long as it can be. */
static size_t
some_length(size_t most)
{
    size_t cap = below(8) == 0 ? most : below(4) == 0 ? 64 : 8;

    return below((cap < most ? cap : most) + 1);
}

/* ---- mutations of shared->input ---- */

/* Puts a piece in the place of `gone` bytes; what does not fit is cut off. */
static void
replace(size_t at, size_t gone, const void *piece, size_t piece_len)
{
    size_t tail = shared->len - at - gone;
    uint8_t *place = shared->input + at;

    if (piece_len > INPUT_MAX - at)
        piece_len = INPUT_MAX - at;
    if (tail > INPUT_MAX - at - piece_len)
        tail = INPUT_MAX - at - piece_len;
    memmove(place + piece_len, place + gone, tail);
    memcpy(place, piece, piece_len);
    shared->len = at + piece_len + tail;
}

static void
change_byte(void)
{
    static const char TELLING[] = "\0\t\n\r \"#%&'()*+,-./0189:;<=>?@AZ[\\]^az{|}~\x7f\x80\xbf\xc0"
                                  "\xc2\xe0\xed\xef\xf0\xf4\xff";
    uint8_t byte = (uint8_t)TELLING[below(sizeof(TELLING) - 1)];
    size_t at = below(shared->len);

    if (shared->len > 0 && below(3) == 0)
        byte = shared->input[at] ^ (uint8_t)(1 << below(8));
    replace(at, shared->len > 0 && below(3) > 0, &byte, 1);
}

static void
insert_word(void)
{
    static const char *const WORDS[] = {
        "0",
        "-1",
        "1",
        "255",
        "256",
        "65536",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "%00",
        "%2F",
        "%2e%2e",
        "%",
        "%C3%A9",
        "..",
        ".",
        "//",
        "&#0;",
        "&lt;",
        "&amp;",
        "<!DOCTYPE x>",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?xml ",
        "xmlns=\"",
        "xmlns:a=\"",
        "xml:lang=\"",
        "DAV:",
        "http://",
        "https://",
        "://",
        "Not ",
        "W/\"",
        "bytes=",
        "\r\n",
        "\xed\xa0\x80",
        "\xc0\xaf",
        "\xef\xbb\xbf",
        "\xef\xbf\xbe",
        "e\xcc\x81",
    };
    const char *word = WORDS[below(sizeof(WORDS) / sizeof(WORDS[0]))];
    size_t at = below(shared->len + 1);
    size_t gone = below(2) ? some_length(shared->len - at) : 0;

    replace(at, gone, word, strlen(word));
}

static void
erase_span(void)
{
    size_t at = below(shared->len);

    replace(at, some_length(shared->len - at), "", 0);
}

static void
repeat_span(void)
{
    static uint8_t piece[INPUT_MAX];
    size_t at = below(shared->len);
    size_t len = some_length(shared->len - at);
    size_t repeats = 1 + (below(4) == 0 ? below(REPEATS_MAX) : 0);

    memcpy(piece, shared->input + at, len);
    at = below(2) ? at : below(shared->len + 1);
    while (repeats-- > 0)
        replace(at, 0, piece, len);
}

static void
take_from_another(void)
{
    const struct input *other = &pool[below(pool_count)];
    size_t from = below(other->len);
    size_t len = some_length(other->len - from);
    size_t at = below(shared->len + 1);

    replace(at, below(2) ? some_length(shared->len - at) : 0, other->data + from, len);
}

static void
mutate(void)
{
    static void (*const MUTATIONS[])(void) = {
        change_byte, change_byte, insert_word, erase_span, repeat_span, take_from_another,
    };
    size_t count = 1 + below(MUTATIONS_MAX);

    while (count-- > 0)
        MUTATIONS[below(sizeof(MUTATIONS) / sizeof(MUTATIONS[0]))]();
}

/* ---- running ---- */

/* In memory of exactly its length, so that one byte too far is seen. True: it went new ways. */
static bool
run_input(void)
{
    uint8_t *copy = mem_alloc(shared->len > 0 ? shared->len : 1);
    bool is_new;

    memcpy(copy, shared->input, shared->len);
    forget_ways();
    (void)LLVMFuzzerTestOneInput(shared->len > 0 ? copy : copy + 1, shared->len);
    is_new = learn_ways();
    free(copy);
    shared->run_count++;
    return is_new;
}

static void
use_input(const void *data, size_t len)
{
    shared->len = len < INPUT_MAX ? len : INPUT_MAX;
    memcpy(shared->input, data, shared->len);
}

static void
keep_input(void)
{
    if (pool_count == POOL_MAX || shared->len > POOL_MAX_BYTES - pool_bytes)
        return;
    pool[pool_count].data = mem_alloc(shared->len + 1);
    memcpy(pool[pool_count].data, shared->input, shared->len);
    pool[pool_count++].len = shared->len;
    pool_bytes += shared->len;
}

static void
replay_file(const char *path)
{
    AUTO_BUF struct buf text = {.max = INPUT_MAX};
    struct err err = {0};

    if (fs_read_file(path, INPUT_MAX, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        exit(2);
    }
    use_input(text.len > 0 ? text.data : "", text.len);
    keep_input();
    (void)run_input();
}

static int
is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void
replay_folder(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, alphasort);

    for (int i = 0; i < count; i++) {
        AUTO_FREE char *file = mem_printf("%s/%s", path, entries[i]->d_name);

        replay_file(file);
        free(entries[i]);
    }
    free(entries);
}

static double
now_secs(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The shorter one of two: what is long is slow. */
static const struct input *
choose_base(void)
{
    const struct input *one = &pool[below(pool_count)];
    const struct input *other = &pool[below(pool_count)];

    return one->len < other->len ? one : other;
}

static void
run_mutations(double secs)
{
    double end = now_secs() + secs;

    while (now_secs() < end) {
        const struct input *base = choose_base();

        use_input(base->data, base->len);
        mutate();
        if (run_input())
            keep_input();
    }
}

static void
run_all(int count, char **paths)
{
    bool has_folder = false;
    struct stat info;

    for (int i = 0; i < count; i++) {
        if (paths[i][0] == '-')
            continue;
        if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            replay_folder(paths[i]);
            has_folder = true;
        } else {
            replay_file(paths[i]);
        }
    }
    if (pool_count == 0) {
        fprintf(stderr, "there are no inputs\n");
        exit(2);
    }
    if (has_folder)
        run_mutations(options.secs);
    printf("%zu inputs kept\n", pool_count);
    for (size_t i = 0; i < pool_count; i++)
        free(pool[i].data);
}

/* ---- the parent ---- */

/* What is not known here is libFuzzer's business. */
static void
read_options(int count, char **words)
{
    struct timespec now;

    for (int i = 0; i < count; i++) {
        const char *value = strchr(words[i], '=');

        if (strncmp(words[i], "-max_total_time=", 16) == 0)
            options.secs = strtod(value + 1, NULL);
        else if (strncmp(words[i], "-seed=", 6) == 0)
            options.seed = strtoull(value + 1, NULL, 10);
        else if (strncmp(words[i], "-artifact_prefix=", 17) == 0)
            options.save_prefix = value + 1;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (options.seed == 0)
        options.seed = (uint64_t)now.tv_nsec + 1;
}

static void
save_input(void)
{
    AUTO_FREE char *path = mem_printf("%s%d", options.save_prefix, getpid());
    struct err err = {0};

    if (fs_write_file(path, shared->input, shared->len, 0644, &err) < 0)
        fprintf(stderr, "%s\n", err.msg);
    else
        fprintf(stderr, "the input it ended with: %s\n", path);
}

/* Until the child ends; one that stays with an input is ended. */
static int
watch(pid_t child)
{
    AUTO_CLOSE int fd = pidfd_open(child, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    uint64_t run_count;
    int status = 0;

    do {
        run_count = shared->run_count;
    } while (poll(&ended, 1, HANG_SECS * 1000) == 0 && shared->run_count != run_count);
    if (ended.revents == 0) {
        fprintf(stderr, "no end of one input after %d s\n", HANG_SECS);
        kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

int
main(int argc, char **argv)
{
    pid_t child;
    int status;

    read_options(argc - 1, argv + 1);
    printf("-seed=%llu\n", (unsigned long long)options.seed);
    fflush(stdout);
    random_state = options.seed;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || (child = fork()) < 0) {
        perror(argv[0]);
        return 2;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_all(argc - 1, argv + 1);
        return 0;
    }
    status = watch(child);
    printf("%llu inputs run\n", (unsigned long long)shared->run_count);
    if (status != 0)
        save_input();
    return status == 0 ? 0 : 1;
}
