/*
 * What does a new chunk cost? Files of one chunk each are created in 256 prefix folders, eight at
 * a time, in several ways:
 *
 *   stat+create    fstatat(), then open(O_CREAT | O_TRUNC): check, then act
 *   O_EXCL         open(O_CREAT | O_EXCL): what the product does
 *   O_TMPFILE+link a file without a name, linked when it is whole
 *
 * and, second, what it costs to have them on the disk, in the ways a store could go about it; one
 * of these is the product itself (blob_put, blob_sync).
 *
 *   BENCH_CHUNKS=4000 BENCH_CHUNK_KB=8,64,256 BENCH_CONCURRENCY=8 BENCH_REPS=9
 *   BENCH_DURABLE_REPS=5 BENCH_RUNS=3 BENCH_WAYS=create,durable (or names of ways as below)
 *   BENCH_DIR=/var/tmp
 *
 * Each repetition runs every way of a table, in another order each time, in folders of its own. What was
 * written is held against its length and cut to nothing afterwards, outside the time measured;
 * the files themselves are removed at the very end, because a file system may be slow to create
 * files right after many were deleted. System calls are counted in a pass of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "storage/blob_local.h"

enum {
    PREFIX_COUNT = 256,
    FILE_MODE = 0640,
    THREADS = 16,
    QUEUE_JOBS = 4096,
    SYNCS_AT_ONCE = 16,
    RUNS_MAX = 3,
    WAYS_MAX = 8,
    WARM_SPARE_BYTES = 64 << 20,
};

enum call { CALL_STAT, CALL_OPEN, CALL_LINK, CALL_WRITE, CALL_CLOSE, CALL_SYNC, CALL_COUNT };

static const char *const CALL_NAMES[CALL_COUNT] = {"stat",  "open",  "link",
                                                   "write", "close", "sync"};

/* One way, once: files that lie in folders of their own. */
struct cell {
    const struct way *way;
    struct blob_backend *backend;
    struct workers *workers;
    int prefix_fds[PREFIX_COUNT];
    struct blob_key *keys;
    size_t count;
    const void *data;
    size_t len;
    bool is_counting;
    _Atomic uint64_t calls[CALL_COUNT];
};

struct way {
    const char *name;
    bool is_durable; /* belongs to the second table */
    bool is_product;
    bool is_opaque; /* its calls are made elsewhere and cannot be counted here */
    void (*write_one)(struct cell *cell, const struct blob_key *key);
    void (*settle)(struct cell *cell); /* when all are written; may be NULL */
};

/* What one way came to with one size of chunk, a value a repetition. */
struct row {
    struct bench_series chunks_per_sec, ms, settle_ms, cpu_us; /* cpu: a chunk */
    uint64_t calls[CALL_COUNT];                                /* all chunks of one pass */
};

struct bench {
    uint64_t chunk_count, reps, durable_reps, runs, width;
    uint64_t chunk_kib[BENCH_LIST_MAX];
    size_t size_count;
    const struct way *ways[WAYS_MAX];
    size_t way_count;
    struct workers *workers;
    const char *folder;
    void *data;
    unsigned cell_count;
    struct row rows[RUNS_MAX][BENCH_LIST_MAX][WAYS_MAX];
};

/* ---- system calls, counted ------------------------------------------------------------------ */

static void
count_call(struct cell *cell, enum call call)
{
    if (cell->is_counting)
        atomic_fetch_add_explicit(&cell->calls[call], 1, memory_order_relaxed);
}

static void
fail(const char *what)
{
    bench_die("%s: %s", what, strerror(errno));
}

static bool
call_stat(struct cell *cell, int at_fd, const char *name)
{
    struct stat st;

    count_call(cell, CALL_STAT);
    return fstatat(at_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int
call_open(struct cell *cell, int at_fd, const char *name, int flags)
{
    int fd = openat(at_fd, name, flags | O_CLOEXEC, FILE_MODE);

    count_call(cell, CALL_OPEN);
    if (fd < 0)
        fail("open");
    return fd;
}

static void
call_link(struct cell *cell, int fd, int at_fd, const char *name)
{
    char path[64];

    count_call(cell, CALL_LINK);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, at_fd, name, AT_SYMLINK_FOLLOW) < 0)
        fail("link");
}

static void
call_write(struct cell *cell, int fd)
{
    for (size_t off = 0; off < cell->len;) {
        ssize_t done = write(fd, (const char *)cell->data + off, cell->len - off);

        count_call(cell, CALL_WRITE);
        if (done <= 0)
            fail("write");
        off += (size_t)done;
    }
}

static void
call_close(struct cell *cell, int fd)
{
    count_call(cell, CALL_CLOSE);
    if (close(fd) < 0)
        fail("close");
}

static void
call_sync(struct cell *cell, int fd)
{
    count_call(cell, CALL_SYNC);
    if (fsync(fd) < 0)
        fail("sync");
}

/* ---- the ways ------------------------------------------------------------------------------- */

static int
prefix_fd(struct cell *cell, const struct blob_key *key)
{
    return cell->prefix_fds[key->id.bytes[0]];
}

static void
write_stat_create(struct cell *cell, const struct blob_key *key)
{
    char name[BLOB_NAME_SIZE];
    int fd;

    blob_name(name, key);
    if (call_stat(cell, prefix_fd(cell, key), name))
        return;
    fd = call_open(cell, prefix_fd(cell, key), name, O_WRONLY | O_CREAT | O_TRUNC);
    call_write(cell, fd);
    call_close(cell, fd);
}

static int
create_excl(struct cell *cell, const struct blob_key *key)
{
    char name[BLOB_NAME_SIZE];
    int fd;

    blob_name(name, key);
    fd = call_open(cell, prefix_fd(cell, key), name, O_WRONLY | O_CREAT | O_EXCL);
    call_write(cell, fd);
    return fd;
}

static void
write_excl(struct cell *cell, const struct blob_key *key)
{
    call_close(cell, create_excl(cell, key));
}

static void
write_tmpfile_link(struct cell *cell, const struct blob_key *key)
{
    char name[BLOB_NAME_SIZE];
    int fd = call_open(cell, prefix_fd(cell, key), ".", O_WRONLY | O_TMPFILE);

    blob_name(name, key);
    call_write(cell, fd);
    call_link(cell, fd, prefix_fd(cell, key), name);
    call_close(cell, fd);
}

static void
write_and_sync(struct cell *cell, const struct blob_key *key)
{
    int fd = create_excl(cell, key);

    call_sync(cell, fd);
    call_close(cell, fd);
}

static void
write_product(struct cell *cell, const struct blob_key *key)
{
    struct err err = {0};

    bench_must(blob_put(cell->backend, key, cell->data, cell->len, &err), &err);
}

static void
sync_folder(void *ctx, size_t i)
{
    struct cell *cell = ctx;

    call_sync(cell, cell->prefix_fds[i]);
}

static void
settle_folders(struct cell *cell)
{
    workers_each(cell->workers, PREFIX_COUNT, SYNCS_AT_ONCE, sync_folder, cell);
}

static void
sync_file(void *ctx, size_t i)
{
    struct cell *cell = ctx;
    char name[BLOB_NAME_SIZE];
    int fd;

    blob_name(name, &cell->keys[i]);
    fd = call_open(cell, prefix_fd(cell, &cell->keys[i]), name, O_RDONLY);
    call_sync(cell, fd);
    call_close(cell, fd);
}

static void
settle_sweep(struct cell *cell)
{
    workers_each(cell->workers, cell->count, SYNCS_AT_ONCE, sync_file, cell);
    settle_folders(cell);
}

static void
settle_product(struct cell *cell)
{
    struct err err = {0};

    bench_must(blob_sync(cell->backend, cell->keys, cell->count, 0, &err), &err);
}

static void
settle_syncfs(struct cell *cell)
{
    count_call(cell, CALL_SYNC);
    if (syncfs(cell->prefix_fds[0]) < 0)
        fail("syncfs");
}

/* The first of each table is what the others are held against. */
static const struct way WAYS[] = {
    {.name = "stat+create", .write_one = write_stat_create},
    {.name = "O_EXCL", .write_one = write_excl},
    {.name = "O_TMPFILE+link", .write_one = write_tmpfile_link},
    {.name = "write only", .is_durable = true, .write_one = write_excl},
    {.name = "fsync each",
     .is_durable = true,
     .write_one = write_and_sync,
     .settle = settle_folders},
    {.name = "sweep by 16", .is_durable = true, .write_one = write_excl, .settle = settle_sweep},
    {.name = "sync_file_range+sweep",
     .is_durable = true,
     .is_product = true,
     .is_opaque = true,
     .write_one = write_product,
     .settle = settle_product},
    {.name = "syncfs", .is_durable = true, .write_one = write_excl, .settle = settle_syncfs},
};

enum { WAY_COUNT = sizeof(WAYS) / sizeof(WAYS[0]) };

/* The first way of a table, or way_count when it has none. */
static size_t
base_of(struct bench *bench, bool is_durable)
{
    size_t w = 0;

    while (w < bench->way_count && bench->ways[w]->is_durable != is_durable)
        w++;
    return w;
}

/* ---- one cell ------------------------------------------------------------------------------- */

static void
open_folders(struct bench *bench, struct cell *cell)
{
    AUTO_FREE char *root = mem_printf("%s/%06u", bench->folder, bench->cell_count++);
    struct err err = {0};

    if (mkdir(root, 0750) < 0)
        fail(root);
    bench_must(blob_local_open(root, 1, bench->workers, &cell->backend, &err), &err);
    for (unsigned i = 0; i < PREFIX_COUNT; i++) {
        AUTO_FREE char *path = mem_printf("%s/.blobs/%02x", root, i);

        cell->prefix_fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (cell->prefix_fds[i] < 0)
            fail(path);
    }
}

/* Names as chunks have them: the same in each cell, spread over the folders. */
static void
make_keys(struct cell *cell)
{
    cell->keys = mem_array(cell->count, sizeof(*cell->keys));
    for (size_t i = 0; i < cell->count; i++)
        cell->keys[i] = (struct blob_key){digest_of(&i, sizeof(i)), i};
}

/* Nothing of before is left to be written, and memory is at hand. */
static void
make_ready(struct cell *cell)
{
    if (syncfs(cell->prefix_fds[0]) < 0)
        fail("syncfs");
    bench_warm_memory(cell->count * cell->len + WARM_SPARE_BYTES);
}

static void
write_nth(void *ctx, size_t i)
{
    struct cell *cell = ctx;

    cell->way->write_one(cell, &cell->keys[i]);
}

static void
check_and_cut(struct cell *cell)
{
    for (size_t i = 0; i < cell->count; i++) {
        char name[BLOB_NAME_SIZE];
        struct stat st;
        AUTO_CLOSE int fd = -1;

        blob_name(name, &cell->keys[i]);
        fd = openat(prefix_fd(cell, &cell->keys[i]), name, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            fail(name);
        if (st.st_size != (off_t)cell->len)
            bench_die("%s has %lld bytes", name, (long long)st.st_size);
        if (ftruncate(fd, 0) < 0)
            fail("cut");
    }
}

static void
release_cell(struct cell *cell)
{
    for (unsigned i = 0; i < PREFIX_COUNT; i++)
        (void)close(cell->prefix_fds[i]);
    blob_free(cell->backend);
    free(cell->keys);
    free(cell);
}

/* is_counting: an untimed pass, which leaves the numbers of calls instead. */
static void
run_cell(struct bench *bench, const struct way *way, uint64_t kib, bool is_counting,
         struct row *row)
{
    struct cell *cell = mem_zalloc(sizeof(*cell));
    int64_t start_us, written_us, end_us, cpu_us;

    cell->way = way;
    cell->workers = bench->workers;
    cell->count = bench->chunk_count;
    cell->data = bench->data;
    cell->len = (size_t)kib << 10;
    cell->is_counting = is_counting;
    make_keys(cell);
    open_folders(bench, cell);
    make_ready(cell);
    cpu_us = bench_cpu_us();
    start_us = clock_mono_us();
    workers_each(bench->workers, cell->count, (unsigned)bench->width, write_nth, cell);
    written_us = clock_mono_us();
    if (way->settle != NULL)
        way->settle(cell);
    end_us = clock_mono_us();
    cpu_us = bench_cpu_us() - cpu_us;
    check_and_cut(cell);
    if (is_counting) {
        for (unsigned i = 0; i < CALL_COUNT; i++)
            row->calls[i] = cell->calls[i];
    } else {
        bench_add(&row->chunks_per_sec, (double)cell->count / ((double)(end_us - start_us) / 1e6));
        bench_add(&row->ms, (double)(end_us - start_us) / 1e3);
        bench_add(&row->settle_ms, (double)(end_us - written_us) / 1e3);
        bench_add(&row->cpu_us, (double)cpu_us / (double)cell->count);
    }
    release_cell(cell);
}

/* One table, one size of chunk. */
static void
run_table(struct bench *bench, size_t run, size_t s, bool is_durable)
{
    size_t reps = is_durable ? bench->durable_reps : bench->reps;
    size_t first = base_of(bench, is_durable), count = 0;

    while (first + count < bench->way_count && bench->ways[first + count]->is_durable == is_durable)
        count++;
    for (size_t w = first; w < first + count; w++)
        run_cell(bench, bench->ways[w], bench->chunk_kib[s], true, &bench->rows[run][s][w]);
    for (size_t rep = 0; rep < reps; rep++) {
        for (size_t i = 0; i < count; i++) {
            size_t w = first + bench_turn(rep, reps, i, count);

            run_cell(bench, bench->ways[w], bench->chunk_kib[s], false, &bench->rows[run][s][w]);
        }
    }
}

static void
run_once(struct bench *bench, size_t run)
{
    for (size_t s = 0; s < bench->size_count; s++) {
        run_table(bench, run, s, false);
        run_table(bench, run, s, true);
    }
}

/* ---- what came out -------------------------------------------------------------------------- */

static void
print_calls(struct bench *bench)
{
    printf("\n### System calls a chunk, counted\n\n| way |");
    for (unsigned c = 0; c < CALL_COUNT; c++)
        printf(" %s |", CALL_NAMES[c]);
    printf(" all | with names |\n| --- |");
    for (unsigned c = 0; c < CALL_COUNT + 2; c++)
        printf(" ---: |");
    printf("\n");
    for (size_t w = 0; w < bench->way_count; w++) {
        const uint64_t *calls = bench->rows[0][0][w].calls;
        double n = (double)bench->chunk_count;
        uint64_t all = 0;

        if (bench->ways[w]->is_opaque)
            continue;
        printf("| %s |", bench->ways[w]->name);
        for (unsigned c = 0; c < CALL_COUNT; c++) {
            all += calls[c];
            printf(" %.4g |", (double)calls[c] / n);
        }
        printf(" %.4g | %.4g |\n", (double)all / n,
               (double)(calls[CALL_STAT] + calls[CALL_OPEN] + calls[CALL_LINK]) / n);
    }
}

static double
mib_per_sec(struct bench *bench, size_t s, double chunks_per_sec)
{
    return chunks_per_sec * (double)bench->chunk_kib[s] / 1024;
}

static void
print_line(struct bench *bench, size_t run, size_t s, size_t w)
{
    const struct way *way = bench->ways[w];
    const struct row *row = &bench->rows[run][s][w];
    size_t base = base_of(bench, way->is_durable);
    struct bench_spread speed = bench_spread_of(&row->chunks_per_sec);
    struct bench_spread ratio =
        bench_ratio_of(&row->chunks_per_sec, &bench->rows[run][s][base].chunks_per_sec);
    char text[BENCH_PERCENT_SIZE] = "";

    if (w != base)
        bench_percent(text, &ratio);
    printf("| %c | %" PRIu64 " KiB | %s%s | %.0f (%.0f to %.0f) | %.0f |", 'A' + (int)run,
           bench->chunk_kib[s], way->name, way->is_product ? " **(the product)**" : "",
           speed.median, speed.least, speed.most, mib_per_sec(bench, s, speed.median));
    if (way->is_durable)
        printf(" %.0f | %.0f |", bench_spread_of(&row->ms).median,
               bench_spread_of(&row->settle_ms).median);
    printf(" %.0f | %s |\n", bench_spread_of(&row->cpu_us).median, text);
}

static void
print_table(struct bench *bench, bool is_durable)
{
    size_t base = base_of(bench, is_durable);

    if (base == bench->way_count)
        return;
    printf("\n### %s\n\n| run | chunk | way | chunks/s (least to most) | MB/s |%s CPU us/chunk "
           "| Δ chunks/s vs %s |\n| --- | ---: | --- | --- | ---: |%s ---: | --- |\n",
           is_durable ? "Every run: on the disk" : "Every run: creating",
           is_durable ? " ms | of it after the last write |" : "", bench->ways[base]->name,
           is_durable ? " ---: | ---: |" : "");
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t s = 0; s < bench->size_count; s++) {
            for (size_t w = 0; w < bench->way_count; w++) {
                if (bench->ways[w]->is_durable == is_durable)
                    print_line(bench, run, s, w);
            }
        }
    }
}

/* The verdict falls only when all repetitions of all runs agree. */
static void
print_verdict(struct bench *bench, size_t s, size_t w, size_t base)
{
    bool is_noise = false;
    struct bench_spread first = {0};

    printf("| %" PRIu64 " KiB | %s%s |", bench->chunk_kib[s], bench->ways[w]->name,
           bench->ways[w]->is_product ? " **(the product)**" : "");
    for (size_t run = 0; run < bench->runs; run++) {
        struct bench_spread ratio = bench_ratio_of(&bench->rows[run][s][w].chunks_per_sec,
                                                   &bench->rows[run][s][base].chunks_per_sec);
        char text[BENCH_PERCENT_SIZE];

        if (run == 0)
            first = ratio;
        is_noise = is_noise || bench_is_noise(&ratio) || (ratio.median > 1) != (first.median > 1);
        bench_percent(text, &ratio);
        printf(" %s |", text);
    }
    printf(" %s |\n", is_noise ? "inconclusive" : first.median > 1 ? "faster" : "slower");
}

static void
print_side_by_side(struct bench *bench, bool is_durable, size_t base, const char *title)
{
    if (base == bench->way_count)
        return;
    printf("\n### %s: Δ chunks/s vs %s\n\n| chunk | way |", title, bench->ways[base]->name);
    for (size_t run = 0; run < bench->runs; run++)
        printf(" run %c |", 'A' + (int)run);
    printf(" verdict |\n| ---: | --- |");
    for (size_t run = 0; run < bench->runs; run++)
        printf(" --- |");
    printf(" --- |\n");
    for (size_t s = 0; s < bench->size_count; s++) {
        for (size_t w = 0; w < bench->way_count; w++) {
            if (w != base && bench->ways[w]->is_durable == is_durable)
                print_verdict(bench, s, w, base);
        }
    }
}

static size_t
product_of(struct bench *bench)
{
    size_t w = 0;

    while (w < bench->way_count && !bench->ways[w]->is_product)
        w++;
    return w;
}

static void
print_results(struct bench *bench)
{
    bench_print_others();
    printf(
        "\nMB are MiB. Δ is the median of the ratios within one repetition (least to most). The\n"
        "verdict is `inconclusive` unless all repetitions of all runs agree on the sign and it\n"
        "is 1 %% at least. Durable ways sync the 256 folders, too.\n");
    print_calls(bench);
    print_side_by_side(bench, false, base_of(bench, false), "Creating");
    print_side_by_side(bench, true, base_of(bench, true), "On the disk");
    print_side_by_side(bench, true, product_of(bench), "On the disk");
    print_table(bench, false);
    print_table(bench, true);
}

/* ---- what is asked for ---------------------------------------------------------------------- */

static bool
has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        if (strncmp(at, word, len) == 0 && (at[len] == 0 || at[len] == ','))
            return true;
    }
    return false;
}

static void
read_variables(struct bench *bench)
{
    uint64_t largest = 0;
    const char *ways;

    bench->chunk_count = bench_number("BENCH_CHUNKS", 4000, 1, 1000000);
    bench->size_count = bench_numbers("BENCH_CHUNK_KB", "8,64,256", bench->chunk_kib);
    bench->width = bench_number("BENCH_CONCURRENCY", 8, 1, THREADS);
    bench->reps = bench_number("BENCH_REPS", 9, 1, BENCH_REPS_MAX);
    bench->durable_reps = bench_number("BENCH_DURABLE_REPS", 5, 1, BENCH_REPS_MAX);
    bench->runs = bench_number("BENCH_RUNS", 3, 1, RUNS_MAX);
    ways = bench_text("BENCH_WAYS", "create,durable");
    for (size_t w = 0; w < WAY_COUNT; w++) {
        if (has_word(ways, WAYS[w].name) ||
            has_word(ways, WAYS[w].is_durable ? "durable" : "create"))
            bench->ways[bench->way_count++] = &WAYS[w];
    }
    for (size_t s = 0; s < bench->size_count; s++)
        largest = bench->chunk_kib[s] > largest ? bench->chunk_kib[s] : largest;
    if (bench->way_count == 0 || largest == 0 || largest > 1 << 20)
        bench_die("no such way, or no such size of a chunk");
    bench->data = mem_alloc(largest << 10);
    memset(bench->data, 0x5A, largest << 10);
    bench->folder = bench_folder_new(bench->chunk_count * (largest << 10) * 2);
}

int
main(void)
{
    struct bench *bench = mem_zalloc(sizeof(*bench));
    struct err err = {0};

    bench_must(rand_start(&err), &err);
    read_variables(bench);
    bench_must(workers_new("storage", THREADS, QUEUE_JOBS, &bench->workers, &err), &err);
    bench_print_machine(bench->folder);
    for (size_t run = 0; run < bench->runs; run++)
        run_once(bench, run);
    print_results(bench);
    workers_free(bench->workers);
    bench_folder_remove(bench->folder);
    free((char *)bench->folder);
    free(bench->data);
    free(bench);
    return 0;
}
