/*
 * What does it cost to read packed chunks, and what does packing save? The reader and the packer
 * are the product's own (storage/container); only where the stored bytes come from is the bench's:
 * memory, a file, or memory that takes 100 us to answer.
 *
 *   BENCH_DATASET_MB=8 BENCH_BLOCK_KB=4,8,16,32,64 BENCH_QD=16 BENCH_BATCH_KB=64
 *   BENCH_BACKING=mem (or file: the plain cases read a file in the page cache) BENCH_VERIFY=1
 *   BENCH_MS=100 (one case, one repetition) BENCH_REPS=5 BENCH_PACK_MB=16
 *   BENCH_REAL=/usr/lib/x86_64-linux-gnu,/usr/share BENCH_REAL_MB=64 BENCH_DIR=/var/tmp
 *
 * Cases of a table take turns within each repetition. Every offset is read and compared before
 * anything is timed; calls of the backing are counted in that pass, not in those timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <lz4.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_packing.h"
#include "bench/bench_pages.h"
#include "storage/container/container.h"
#include "storage/container/container_head.h"
#include "storage/container/container_pack.h"

enum {
    PAGE = 4096,
    SEQUENTIAL = 128 << 10,
    OFFSETS = 256, /* drawn beforehand, used in a ring */
    THREADS_MAX = 64,
    DELAY_US = 100,
    CASES_MAX = 32,
};

/* ---- the backing ---------------------------------------------------------------------------- */

enum backing { BACKING_MEM, BACKING_FILE, BACKING_DELAY };

struct source {
    struct stored_source base;
    enum backing backing;
    const uint8_t *bytes;
    int fd;
    bool is_counting;
    _Atomic uint64_t calls, asked, returned;
    _Atomic int in_flight, in_flight_most;
};

static void
wait_us(long us)
{
    struct timespec delay = {.tv_nsec = us * 1000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
}

static int
source_fetch(struct source *source, uint64_t off, void *dst, size_t len, struct err *err)
{
    if (source->backing == BACKING_FILE)
        return fs_pread_all(source->fd, dst, len, off, err);
    if (source->backing == BACKING_DELAY)
        wait_us(DELAY_US);
    memcpy(dst, source->bytes + off, len);
    return 0;
}

static int
source_read(struct stored_source *base, uint64_t off, void *dst, size_t len, struct err *err)
{
    struct source *source = (struct source *)base;
    int now, most;

    if (!source->is_counting)
        return source_fetch(source, off, dst, len, err);
    now = atomic_fetch_add(&source->in_flight, 1) + 1;
    most = atomic_load(&source->in_flight_most);
    while (now > most && !atomic_compare_exchange_weak(&source->in_flight_most, &most, now))
        ;
    atomic_fetch_add(&source->calls, 1);
    atomic_fetch_add(&source->asked, len);
    bench_must(source_fetch(source, off, dst, len, err), err);
    atomic_fetch_add(&source->returned, len);
    atomic_fetch_sub(&source->in_flight, 1);
    return 0;
}

static void
source_free(struct stored_source *base)
{
    struct source *source = (struct source *)base;

    if (source->fd >= 0)
        (void)close(source->fd);
    free(source);
}

static const struct stored_source_ops SOURCE_OPS = {.read = source_read, .free = source_free};

static int
temporary_file(const char *folder, const uint8_t *bytes, size_t len)
{
    struct err err = {0};
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        bench_die("open a file without a name in %s: %s", folder, strerror(errno));
    bench_must(fs_write_all(fd, bytes, len, &err), &err);
    return fd;
}

/* ---- images and cases ----------------------------------------------------------------------- */

/* Plain bytes, and one container of them. */
struct image {
    const uint8_t *plain;
    size_t len;
    struct stored_chunk chunk;
    uint8_t *stored; /* of CHUNK_RAW: the plain bytes */
};

struct case_spec {
    const char *name;
    enum chunk_codec codec;
    enum bench_pages kind;
    size_t op_bytes; /* of one read */
    unsigned reads;  /* of one operation */
    unsigned threads;
    enum backing backing;
    unsigned block_log2;
    const char *seed; /* what the seed says, or "" */
};

struct case_run {
    struct case_spec spec;
    struct container_tuning tuning;
    struct image image;
    struct source *source;
    struct container *container; /* NULL: raw */
    const uint64_t *offs;
    struct bench_series ns; /* an operation */
    struct bench_series cpu_ns;
    uint64_t calls, asked, returned;
    int in_flight_most;
};

struct bench {
    size_t dataset_bytes;
    uint64_t reps;
    int64_t run_ns;
    unsigned queue_depth;
    enum backing backing;
    struct container_tuning tuning;
    const char *folder;
    uint8_t *plain[BENCH_PAGES_COUNT]; /* made when first asked for */
    uint64_t page_offs[OFFSETS];
    uint64_t sequential_offs[OFFSETS];
};

static const uint8_t *
plain_of(struct bench *bench, enum bench_pages kind)
{
    if (bench->plain[kind] == NULL)
        bench->plain[kind] = bench_pages_new(kind, bench->dataset_bytes);
    return bench->plain[kind];
}

static struct image
image_of(const uint8_t *plain, size_t len, enum chunk_codec codec, unsigned block_log2)
{
    struct container_form form = {.codec = codec, .block_log2 = block_log2, .is_forced = true};
    struct image image = {
        .plain = plain,
        .len = len,
        .chunk = {.id = digest_of(plain, len), .size_bytes = (uint32_t)len, .codec = codec},
        .stored = mem_alloc(container_pack_bound(len, block_log2)),
    };
    size_t stored = len;

    if (codec == CHUNK_RAW)
        memcpy(image.stored, plain, len);
    else
        stored = container_pack(&form, &image.chunk.id, plain, len, image.stored);
    image.chunk.stored_bytes = (uint32_t)stored;
    return image;
}

static void
case_open(struct bench *bench, struct case_run *run, const struct case_spec *spec,
          const struct container_tuning *tuning)
{
    struct err err = {0};

    memset(run, 0, sizeof(*run));
    run->spec = *spec;
    run->tuning = *tuning;
    run->offs = spec->op_bytes == PAGE ? bench->page_offs : bench->sequential_offs;
    run->image =
        image_of(plain_of(bench, spec->kind), bench->dataset_bytes, spec->codec, spec->block_log2);
    run->source = mem_zalloc(sizeof(*run->source));
    run->source->base.ops = &SOURCE_OPS;
    run->source->backing = spec->backing == BACKING_DELAY ? BACKING_DELAY : bench->backing;
    run->source->bytes = run->image.stored;
    run->source->fd =
        run->source->backing == BACKING_FILE
            ? temporary_file(bench->folder, run->image.stored, run->image.chunk.stored_bytes)
            : -1;
    if (spec->codec != CHUNK_RAW)
        bench_must(container_open(&run->source->base, &run->image.chunk, &run->tuning,
                                  &run->container, &err),
                   &err);
}

static void
case_close(struct case_run *run)
{
    if (run->container != NULL)
        container_unref(run->container);
    else
        source_free(&run->source->base);
    free(run->image.stored);
}

static void
read_one(struct case_run *run, uint64_t off, void *dst)
{
    struct err err = {0};

    if (run->container != NULL)
        bench_must(container_read(run->container, off, dst, run->spec.op_bytes, &err), &err);
    else
        bench_must(stored_source_read(&run->source->base, off, dst, run->spec.op_bytes, &err),
                   &err);
}

/* ---- running a case ------------------------------------------------------------------------- */

struct crew {
    struct case_run *run;
    int64_t run_ns; /* 0: each offset once, compared */
    pthread_barrier_t start;
    _Atomic uint64_t reads;
    _Atomic int64_t cpu_ns;
    _Atomic unsigned next;
};

static void
check_offsets(struct crew *crew, unsigned thread, void *dst)
{
    struct case_run *run = crew->run;

    for (unsigned i = thread; i < OFFSETS; i += run->spec.threads) {
        read_one(run, run->offs[i], dst);
        if (memcmp(dst, run->image.plain + run->offs[i], run->spec.op_bytes) != 0)
            bench_die("%s: wrong bytes", run->spec.name);
        atomic_fetch_add_explicit(&crew->reads, 1, memory_order_relaxed);
    }
}

static void *
crew_work(void *arg)
{
    struct crew *crew = arg;
    struct case_run *run = crew->run;
    unsigned thread = atomic_fetch_add(&crew->next, 1), at = thread * (OFFSETS / THREADS_MAX);
    unsigned stride = run->source->backing == BACKING_DELAY ? 16 : 512; /* reads between looks */
    uint8_t *dst = mem_alloc(run->spec.op_bytes);
    uint64_t reads = 0;
    int64_t until_ns, cpu_ns;

    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* so that 100 us are 100 us */
    (void)pthread_barrier_wait(&crew->start);
    until_ns = clock_mono_ns() + crew->run_ns;
    cpu_ns = bench_thread_cpu_ns();
    if (crew->run_ns == 0)
        check_offsets(crew, thread, dst);
    while (crew->run_ns > 0 && clock_mono_ns() < until_ns) {
        for (unsigned i = 0; i < stride; i++)
            read_one(run, run->offs[at++ % OFFSETS], dst);
        reads += stride;
    }
    atomic_fetch_add_explicit(&crew->cpu_ns, bench_thread_cpu_ns() - cpu_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->reads, reads, memory_order_relaxed);
    free(dst);
    return NULL;
}

/* Nanoseconds an operation, by the clock and by the processors. */
static double
crew_run(struct case_run *run, int64_t run_ns, double *ret_cpu_ns)
{
    struct crew crew = {.run = run, .run_ns = run_ns};
    unsigned count = run->spec.threads;
    pthread_t threads[THREADS_MAX];
    int64_t start_ns;
    double ops;

    (void)pthread_barrier_init(&crew.start, NULL, count);
    start_ns = clock_mono_ns();
    for (unsigned i = 1; i < count; i++) {
        if (pthread_create(&threads[i], NULL, crew_work, &crew) != 0)
            bench_die("no more threads");
    }
    (void)crew_work(&crew);
    for (unsigned i = 1; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&crew.start);
    ops = (double)atomic_load(&crew.reads) / run->spec.reads;
    *ret_cpu_ns = (double)atomic_load(&crew.cpu_ns) / ops;
    return (double)(clock_mono_ns() - start_ns) / ops;
}

static void
case_count(struct case_run *run)
{
    double cpu_ns;

    run->source->is_counting = true;
    (void)crew_run(run, 0, &cpu_ns);
    run->source->is_counting = false;
    run->calls = run->source->calls;
    run->asked = run->source->asked;
    run->returned = run->source->returned;
    run->in_flight_most = run->source->in_flight_most;
}

static void
cases_run(struct bench *bench, struct case_run *runs, size_t count)
{
    double cpu_ns;

    for (size_t i = 0; i < count; i++) {
        case_count(&runs[i]);
        (void)crew_run(&runs[i], bench->run_ns / 4, &cpu_ns);
    }
    for (uint64_t rep = 0; rep < bench->reps; rep++) {
        for (size_t i = 0; i < count; i++) {
            struct case_run *run = &runs[bench_turn(rep, bench->reps, i, count)];

            bench_add(&run->ns, crew_run(run, bench->run_ns, &cpu_ns));
            bench_add(&run->cpu_ns, cpu_ns);
        }
    }
}

/* ---- tables 1 and 2: reads ------------------------------------------------------------------ */

static void
print_time(double ns)
{
    if (ns < 10000)
        printf("%.0f ns", ns);
    else
        printf("%.1f us", ns / 1000);
}

static void
print_case(const struct case_run *run)
{
    struct bench_spread ns = bench_spread_of(&run->ns);
    double bytes = (double)run->spec.op_bytes * run->spec.reads;
    double ops = (double)OFFSETS / run->spec.reads;

    printf("| `%s` | ", run->spec.name);
    print_time(ns.median);
    printf(" (");
    print_time(ns.least);
    printf(" to ");
    print_time(ns.most);
    printf(") | ");
    print_time(bench_spread_of(&run->cpu_ns).median);
    printf(" (");
    print_time(bench_spread_of(&run->cpu_ns).least);
    printf(") | ");
    print_time(ns.median / (bytes / PAGE));
    printf(" | %.2f | %.2f | %.0f | %.0f | %d | %s |\n", bytes / ns.median * 1e9 / (1 << 30),
           (double)run->calls / ops, (double)run->asked / ops, (double)run->returned / ops,
           run->in_flight_most, run->spec.seed);
    (void)fflush(stdout);
}

static void
read_table(struct bench *bench, const struct case_spec *specs, size_t count)
{
    struct case_run *runs = mem_array(count, sizeof(*runs));

    for (size_t i = 0; i < count; i++)
        case_open(bench, &runs[i], &specs[i], &bench->tuning);
    cases_run(bench, runs, count);
    printf(
        "| case | time an operation | processor time (least) | a page of 4 KiB | GiB/s | calls | asked B | returned B "
        "| most in flight | seed |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < count; i++) {
        print_case(&runs[i]);
        case_close(&runs[i]);
    }
    free(runs);
}

static void
table_reads(struct bench *bench)
{
    unsigned qd = bench->queue_depth;
    const struct case_spec specs[] = {
        {"none_random4k_qd1", CHUNK_RAW, BENCH_PAGES_RANDOM, PAGE, 1, 1, 0, 12, ""},
        {"lz4_random4k_qd1", CHUNK_LZ4, BENCH_PAGES_RANDOM, PAGE, 1, 1, 0, 12, "1254 ns"},
        {"zstd_random4k_qd1", CHUNK_ZSTD, BENCH_PAGES_RANDOM, PAGE, 1, 1, 0, 12, "1304 ns"},
        {"lz4_compressible_random4k_qd1", CHUNK_LZ4, BENCH_PAGES_TILE, PAGE, 1, 1, 0, 12, "494 ns"},
        {"zstd_compressible_random4k_qd1", CHUNK_ZSTD, BENCH_PAGES_TILE, PAGE, 1, 1, 0, 12,
         "642 ns"},
        {"none_seq128k_qd1", CHUNK_RAW, BENCH_PAGES_RANDOM, SEQUENTIAL, 1, 1, 0, 12, ""},
        {"lz4_seq128k_qd1", CHUNK_LZ4, BENCH_PAGES_RANDOM, SEQUENTIAL, 1, 1, 0, 12, "35.9 us"},
        {"zstd_seq128k_qd1", CHUNK_ZSTD, BENCH_PAGES_RANDOM, SEQUENTIAL, 1, 1, 0, 12, "37.9 us"},
        {"lz4_compressible_seq128k_qd1", CHUNK_LZ4, BENCH_PAGES_TILE, SEQUENTIAL, 1, 1, 0, 12, ""},
        {"zstd_compressible_seq128k_qd1", CHUNK_ZSTD, BENCH_PAGES_TILE, SEQUENTIAL, 1, 1, 0, 12,
         ""},
        {"lz4_random4k_qd16_shared", CHUNK_LZ4, BENCH_PAGES_RANDOM, PAGE, qd, 1, 0, 12, "20.6 us"},
        {"zstd_random4k_qd16_shared", CHUNK_ZSTD, BENCH_PAGES_RANDOM, PAGE, qd, 1, 0, 12,
         "21.7 us"},
        {"none_random4k_qd16_threads", CHUNK_RAW, BENCH_PAGES_RANDOM, PAGE, qd, qd, 0, 12, ""},
        {"lz4_random4k_qd16_threads", CHUNK_LZ4, BENCH_PAGES_RANDOM, PAGE, qd, qd, 0, 12, ""},
        {"zstd_random4k_qd16_threads", CHUNK_ZSTD, BENCH_PAGES_RANDOM, PAGE, qd, qd, 0, 12, ""},
        {"lz4_compressible_random4k_qd16_threads", CHUNK_LZ4, BENCH_PAGES_TILE, PAGE, qd, qd, 0, 12,
         ""},
    };

    printf("\n### Reads\n\n");
    read_table(bench, specs, sizeof(specs) / sizeof(specs[0]));
}

/* An operation of qd threads is one read of each: with nothing in their way it takes as long as
 * one read of one thread. */
static void
table_delay(struct bench *bench)
{
    unsigned qd = bench->queue_depth;
    const struct case_spec specs[] = {
        {"none_delay100us_qd1", CHUNK_RAW, BENCH_PAGES_TILE, PAGE, 1, 1, BACKING_DELAY, 12, ""},
        {"none_delay100us_qd16", CHUNK_RAW, BENCH_PAGES_TILE, PAGE, qd, qd, BACKING_DELAY, 12, ""},
        {"lz4_delay100us_qd1", CHUNK_LZ4, BENCH_PAGES_TILE, PAGE, 1, 1, BACKING_DELAY, 12, ""},
        {"lz4_delay100us_qd16", CHUNK_LZ4, BENCH_PAGES_TILE, PAGE, qd, qd, BACKING_DELAY, 12, ""},
        {"zstd_delay100us_qd1", CHUNK_ZSTD, BENCH_PAGES_TILE, PAGE, 1, 1, BACKING_DELAY, 12, ""},
        {"zstd_delay100us_qd16", CHUNK_ZSTD, BENCH_PAGES_TILE, PAGE, qd, qd, BACKING_DELAY, 12, ""},
    };

    printf("\n### A backing that takes 100 us\n\n");
    read_table(bench, specs, sizeof(specs) / sizeof(specs[0]));
}

static void
table_block_sizes(struct bench *bench)
{
    static const struct {
        const char *name;
        enum chunk_codec codec;
        enum bench_pages kind;
    } ROWS[] = {
        {"lz4_random4k_qd1", CHUNK_LZ4, BENCH_PAGES_RANDOM},
        {"lz4_compressible_random4k_qd1", CHUNK_LZ4, BENCH_PAGES_TILE},
        {"zstd_compressible_random4k_qd1", CHUNK_ZSTD, BENCH_PAGES_TILE},
    };
    struct case_spec specs[CASES_MAX];
    char *names[CASES_MAX];
    uint64_t sizes[BENCH_LIST_MAX];
    size_t size_count = bench_numbers("BENCH_BLOCK_KB", "4,8,16,32,64", sizes), count = 0;

    for (size_t r = 0; r < 3; r++) {
        for (size_t i = 0; i < size_count && count < CASES_MAX; i++) {
            unsigned log2 = 10 + (unsigned)__builtin_ctzll(sizes[i] | 64);
            bool is_seeds = r == 0 && (log2 == 12 || log2 == 16);

            names[count] = mem_printf("%s_bs%" PRIu64 "k", ROWS[r].name, sizes[i]);
            specs[count] = (struct case_spec){names[count],
                                              ROWS[r].codec,
                                              ROWS[r].kind,
                                              PAGE,
                                              1,
                                              1,
                                              0,
                                              log2,
                                              !is_seeds    ? ""
                                              : log2 == 12 ? "1600 ns"
                                                           : "20.1 us"};
            count++;
        }
    }
    printf("\n### Block size\n\n");
    read_table(bench, specs, count);
    while (count > 0)
        free(names[--count]);
}

/* ---- what each part is worth ---------------------------------------------------------------- */

static void
table_ablations(struct bench *bench, const struct case_spec *spec)
{
    const struct container_tuning product = container_tuning_default;
    struct {
        const char *name;
        struct container_tuning tuning;
    } ways[] = {
        {"as it is", product},           {"as it is, again", product},
        {"no batches", product},         {"batches of 256 KiB", product},
        {"blocks not checked", product}, {"new, zeroed buffers", product},
        {"nothing counted", product},    {"no read timed", product},
        {"every read timed", product},
    };
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    struct case_run runs[WAYS];

    ways[2].tuning.batch_bytes = 0;
    ways[3].tuning.batch_bytes = 256 << 10;
    ways[4].tuning.is_unchecked = true;
    ways[5].tuning.is_unpooled = true;
    ways[6].tuning.is_uncounted = true;
    ways[7].tuning.sample_interval = 0;
    ways[8].tuning.sample_interval = 1;
    for (size_t i = 0; i < WAYS; i++)
        case_open(bench, &runs[i], spec, &ways[i].tuning);
    cases_run(bench, runs, WAYS);
    printf("\n`%s`\n\n| way | processor time an operation | against \"as it is\" | calls |\n"
           "| --- | ---: | ---: | ---: |\n",
           spec->name);
    for (size_t i = 0; i < WAYS; i++) {
        struct bench_spread ratio = bench_ratio_of(&runs[i].cpu_ns, &runs[0].cpu_ns);
        char percent[BENCH_PERCENT_SIZE];

        bench_percent(percent, &ratio);
        printf("| %s | ", ways[i].name);
        print_time(bench_spread_of(&runs[i].cpu_ns).median);
        printf(" | %s%s | %.2f |\n", i == 0 ? "" : percent,
               i > 0 && bench_is_noise(&ratio) ? ", noise" : "",
               (double)runs[i].calls / OFFSETS * spec->reads);
        case_close(&runs[i]);
    }
    (void)fflush(stdout);
}

static void
tables_ablations(struct bench *bench)
{
    const struct case_spec specs[] = {
        {"lz4_compressible_random4k_qd1", CHUNK_LZ4, BENCH_PAGES_TILE, PAGE, 1, 1, 0, 12, ""},
        {"lz4_seq128k_qd1", CHUNK_LZ4, BENCH_PAGES_RANDOM, SEQUENTIAL, 1, 1, 0, 12, ""},
        {"lz4_compressible_seq128k_qd1", CHUNK_LZ4, BENCH_PAGES_TILE, SEQUENTIAL, 1, 1, 0, 12, ""},
    };
    enum backing backing = bench->backing;

    printf("\n### What each part is worth\n");
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        table_ablations(bench, &specs[i]);
    bench->backing = BACKING_FILE;
    printf("\nThe last two again, with a file in the page cache as backing:\n");
    for (size_t i = 1; i < sizeof(specs) / sizeof(specs[0]); i++)
        table_ablations(bench, &specs[i]);
    bench->backing = backing;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void
draw_offsets(struct bench *bench)
{
    uint64_t state = UINT64_C(0x5EED5EED00000002);

    for (size_t i = 0; i < OFFSETS; i++) {
        bench->page_offs[i] = bench_pages_draw(&state) % (bench->dataset_bytes / PAGE) * PAGE;
        bench->sequential_offs[i] = i * SEQUENTIAL % bench->dataset_bytes;
    }
}

static void
set_up(struct bench *bench)
{
    const char *backing;

    bench->dataset_bytes = (size_t)bench_number("BENCH_DATASET_MB", 8, 1, 16) << 20;
    bench->reps = bench_number("BENCH_REPS", 5, 1, BENCH_REPS_MAX);
    bench->run_ns = (int64_t)bench_number("BENCH_MS", 100, 1, 60000) * 1000000;
    bench->queue_depth = (unsigned)bench_number("BENCH_QD", 16, 1, THREADS_MAX);
    bench->tuning = container_tuning_default;
    bench->tuning.batch_bytes = (size_t)bench_number("BENCH_BATCH_KB", 64, 0, 1024) << 10;
    bench->tuning.is_unchecked = bench_number("BENCH_VERIFY", 1, 0, 1) == 0;
    backing = bench_text("BENCH_BACKING", "mem");
    bench->backing = strcmp(backing, "file") == 0 ? BACKING_FILE : BACKING_MEM;
    bench->folder = bench_text("BENCH_DIR", "/var/tmp");
    printf("- LZ4 %s, Zstandard %s\n", LZ4_versionString(), ZSTD_versionString());
    draw_offsets(bench);
}

int
main(void)
{
    struct bench bench = {.reps = 0};
    struct bench_packing packing;
    struct err err = {0};

    bench_must(rand_start(&err), &err);
    printf("<!-- chunk_read -->\n");
    set_up(&bench);
    packing = (struct bench_packing){
        .reps = bench.reps,
        .image_bytes = bench.dataset_bytes,
        .pack_bytes = (size_t)bench_number("BENCH_PACK_MB", 16, 1, 16) << 20,
        .real_bytes = (size_t)bench_number("BENCH_REAL_MB", 64, 1, 1024) << 20,
        .real_folders = bench_text("BENCH_REAL", "/usr/lib/x86_64-linux-gnu,/usr/share"),
    };
    bench_print_machine(bench.folder);
    table_reads(&bench);
    table_delay(&bench);
    table_block_sizes(&bench);
    tables_ablations(&bench);
    bench_packing_tables(&packing);
    bench_print_others();
    for (size_t i = 0; i < BENCH_PAGES_COUNT; i++)
        free(bench.plain[i]);
    return 0;
}
