/*
 * How much does reading ahead bring? A content is drained through the real content_reader over a
 * real local store, with N chunks fetched ahead of the one being handed out (what the setting
 * local_read_prefetch says), and through readers that do less ahead (bench_ahead.h).
 *
 *   BENCH_FILE_MB=192 BENCH_CHUNK_KB=256 BENCH_PREFETCH=1,2,4,8,16 BENCH_THROTTLE_MBPS=0,300,100
 *   BENCH_REPS=5 BENCH_COLD=1 (0: warm only; 2: drop the machine's caches of names, too; root)
 *   BENCH_PREFETCH_KIND=data,open,willneed BENCH_THROTTLE_MODE=deadline (or additive)
 *   BENCH_WORKERS=16 BENCH_SEED=1 BENCH_DIR=/var/tmp
 *
 * Each repetition runs every variant in every scenario, in another order each time. Before a cold
 * run the files' pages are dropped, and counted with mincore(): what was left is printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_ahead.h"
#include "storage/blob_local.h"
#include "storage/content_reader.h"
#include "support/mem_index.h"

enum {
    PREFIX_COUNT = 256,
    BLOCK_BYTES = 256 * 1024, /* what the server asks of a reader at once */
    QUEUE_JOBS = 4096,
    CACHE_BYTES = 64 << 20,
    WARM_SPARE_BYTES = 64 << 20,
    VARIANTS_MAX = 1 + 3 * BENCH_LIST_MAX,
    SCENARIOS_MAX = 2 * BENCH_LIST_MAX,
};

/* KIND_NONE opens and reads each file when its turn comes: N = 0 of all the others. */
enum kind { KIND_NONE, KIND_DATA, KIND_OPEN, KIND_WILLNEED, KIND_COUNT };

static const char *const KIND_NAMES[KIND_COUNT] = {"none", "data", "open", "willneed"};

struct variant {
    enum kind kind;
    unsigned ahead_count;
};

struct scenario {
    bool is_cold;
    uint64_t mib_per_sec; /* 0: as fast as it goes */
};

struct row {
    struct bench_series mib_per_sec, ms, cpu_ms;
    struct bench_series resident; /* per cent, before the run */
};

struct bench {
    uint64_t file_bytes, chunk_bytes, seed;
    uint64_t depths[BENCH_LIST_MAX];
    size_t depth_count;
    uint64_t reps;
    uint64_t cold;
    bool is_additive;
    bool has_kind[KIND_COUNT];
    struct variant variants[VARIANTS_MAX];
    size_t variant_count;
    struct scenario scenarios[SCENARIOS_MAX];
    size_t scenario_count;

    struct store store;
    struct manifest *manifest;
    int prefix_fds[PREFIX_COUNT];
    uint64_t drained_check; /* XXH3-64 of the whole content */
    struct row rows[SCENARIOS_MAX][VARIANTS_MAX];
};

/* ---- what is asked for ---------------------------------------------------------------------- */

static void
add_variants(struct bench *bench, enum kind kind)
{
    for (size_t i = 0; i < bench->depth_count; i++)
        bench->variants[bench->variant_count++] =
            (struct variant){kind, (unsigned)bench->depths[i]};
}

static void
read_kinds(struct bench *bench)
{
    AUTO_FREE char *list = mem_strdup(bench_text("BENCH_PREFETCH_KIND", "data,open,willneed"));
    char *rest = list, *word;

    while ((word = strsep(&rest, ",")) != NULL) {
        enum kind kind = KIND_DATA;

        while (kind < KIND_COUNT && strcmp(word, KIND_NAMES[kind]) != 0)
            kind++;
        if (kind == KIND_COUNT || bench->has_kind[kind])
            bench_die("BENCH_PREFETCH_KIND: data, open and willneed, each at most once");
        bench->has_kind[kind] = true;
        add_variants(bench, kind);
    }
}

static void
read_scenarios(struct bench *bench)
{
    uint64_t limits[BENCH_LIST_MAX];
    size_t limit_count = bench_numbers("BENCH_THROTTLE_MBPS", "0,300,100", limits);

    bench->cold = bench_number("BENCH_COLD", 1, 0, 2);
    for (size_t i = 0; i < limit_count; i++) {
        for (unsigned cold = 0; cold <= (bench->cold > 0 ? 1u : 0u); cold++)
            bench->scenarios[bench->scenario_count++] = (struct scenario){cold == 1, limits[i]};
    }
}

static void
read_variables(struct bench *bench)
{
    bench->file_bytes = bench_number("BENCH_FILE_MB", 192, 1, 65536) << 20;
    bench->chunk_bytes = bench_number("BENCH_CHUNK_KB", 256, 1, 65536) << 10;
    bench->depth_count = bench_numbers("BENCH_PREFETCH", "1,2,4,8,16", bench->depths);
    for (size_t i = 0; i < bench->depth_count; i++) {
        if (bench->depths[i] < 1 || bench->depths[i] > 64)
            bench_die("BENCH_PREFETCH: 1 to 64; reading nothing ahead is always measured too");
    }
    bench->variants[bench->variant_count++] = (struct variant){KIND_NONE, 0};
    read_kinds(bench);
    read_scenarios(bench);
    bench->reps = bench_number("BENCH_REPS", 5, 1, BENCH_REPS_MAX);
    bench->is_additive = strcmp(bench_text("BENCH_THROTTLE_MODE", "deadline"), "additive") == 0;
    bench->seed = bench_number("BENCH_SEED", 1, 0, UINT64_MAX);
}

/* Nothing is ever cold there. */
static void
skip_cold_on_tmpfs(struct bench *bench, const char *folder)
{
    struct statfs st;
    size_t kept = 0;

    if (bench->cold == 0 || statfs(folder, &st) < 0 || st.f_type != TMPFS_MAGIC)
        return;
    for (size_t s = 0; s < bench->scenario_count; s++) {
        if (!bench->scenarios[s].is_cold)
            bench->scenarios[kept++] = bench->scenarios[s];
    }
    bench->scenario_count = kept;
    printf("- cold rows skipped: tmpfs\n");
}

/* ---- the store ------------------------------------------------------------------------------ */

/* SplitMix64, from a start of its own for each chunk: nothing is alike, nothing compresses. */
static void
fill_noise(uint8_t *data, size_t len, uint64_t state)
{
    for (size_t off = 0; off < len; off += sizeof(uint64_t)) {
        uint64_t z = state += 0x9E3779B97F4A7C15;
        size_t left = len - off;

        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        z ^= z >> 31;
        memcpy(data + off, &z, left < sizeof(z) ? left : sizeof(z));
    }
}

static struct stored_chunk
put_chunk(struct bench *bench, const uint8_t *data, size_t len)
{
    struct stored_chunk chunk = {
        .id = digest_of(data, len),
        .generation = rand_u64(),
        .size_bytes = (uint32_t)len,
        .stored_bytes = (uint32_t)len,
        .check = digest_check(data, len),
        .codec = CHUNK_RAW,
    };
    struct blob_key key = {chunk.id, chunk.generation};
    struct err err = {0};

    bench_must(blob_put(bench->store.backend, &key, data, len, &err), &err);
    return chunk;
}

static void
sync_chunks(struct bench *bench, const struct stored_chunk *chunks, size_t count)
{
    AUTO_FREE struct blob_key *keys = mem_array(count, sizeof(*keys));
    struct err err = {0};

    for (size_t i = 0; i < count; i++)
        keys[i] = (struct blob_key){chunks[i].id, chunks[i].generation};
    bench_must(blob_sync(bench->store.backend, keys, count, 0, &err), &err);
}

static int
compare_ids(const void *a, const void *b)
{
    return digest_cmp(a, b);
}

/* What an upload of these chunks would have come to. */
static void
register_content(struct bench *bench, const struct stored_chunk *chunks, size_t count)
{
    AUTO_FREE uint8_t *packed = mem_array(count, MANIFEST_RECORD_BYTES);
    AUTO_FREE struct digest *ids = mem_array(count, sizeof(*ids));
    AUTO_FREE size_t *losers = mem_array(count, sizeof(*losers));
    struct ingest_content content = {
        .chunk_count = count,
        .packed = packed,
        .distinct_count = count,
        .distinct_ids = ids,
        .written_count = count,
        .written = chunks,
    };
    size_t loser_count;
    struct err err = {0};

    for (size_t i = 0; i < count; i++) {
        manifest_pack(packed + i * MANIFEST_RECORD_BYTES, &chunks[i].id, chunks[i].size_bytes);
        ids[i] = chunks[i].id;
    }
    qsort(ids, count, sizeof(*ids), compare_ids);
    bench_must(manifest_new(chunks, count, &bench->manifest, &err), &err);
    content.content_id = bench->manifest->content_id;
    content.size_bytes = bench->manifest->size_bytes;
    bench_must(mem_index_register(bench->store.index, &content, losers, &loser_count, &err), &err);
}

static void
open_prefixes(struct bench *bench, const char *folder)
{
    for (unsigned i = 0; i < PREFIX_COUNT; i++) {
        AUTO_FREE char *path = mem_printf("%s/.blobs/%02x", folder, i);

        bench->prefix_fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (bench->prefix_fds[i] < 0)
            bench_die("open %s: %s", path, strerror(errno));
    }
}

static void
build_content(struct bench *bench)
{
    size_t count = (size_t)((bench->file_bytes + bench->chunk_bytes - 1) / bench->chunk_bytes);
    AUTO_FREE struct stored_chunk *chunks = mem_array(count, sizeof(*chunks));
    AUTO_FREE uint8_t *data = mem_alloc(bench->chunk_bytes);
    XXH3_state_t *check = XXH3_createState();

    (void)XXH3_64bits_reset(check);
    for (size_t i = 0; i < count; i++) {
        uint64_t left = bench->file_bytes - i * bench->chunk_bytes;
        size_t len = left < bench->chunk_bytes ? left : bench->chunk_bytes;

        fill_noise(data, len, (bench->seed << 32) + i);
        chunks[i] = put_chunk(bench, data, len);
        (void)XXH3_64bits_update(check, data, len);
    }
    bench->drained_check = XXH3_64bits_digest(check);
    (void)XXH3_freeState(check);
    sync_chunks(bench, chunks, count); /* dirty pages cannot be dropped */
    register_content(bench, chunks, count);
}

static void
build_store(struct bench *bench, const char *folder)
{
    struct store *store = &bench->store;
    unsigned thread_count = (unsigned)bench_number("BENCH_WORKERS", 16, 1, 256);
    struct err err = {0};

    bench_must(workers_new("storage", thread_count, QUEUE_JOBS, &store->workers, &err), &err);
    bench_must(blob_local_open(folder, 1, store->workers, &store->backend, &err), &err);
    store->index = mem_index_new();
    store->manifests = manifest_cache_new(CACHE_BYTES);
    store->sizes = chunker_store_sizes;
    open_prefixes(bench, folder);
    build_content(bench);
}

static void
release_store(struct bench *bench)
{
    for (unsigned i = 0; i < PREFIX_COUNT; i++)
        (void)close(bench->prefix_fds[i]);
    manifest_unref(bench->manifest);
    manifest_cache_free(bench->store.manifests);
    mem_index_free(bench->store.index);
    workers_free(bench->store.workers);
    blob_free(bench->store.backend);
}

/* ---- warm and cold -------------------------------------------------------------------------- */

static int
open_chunk(struct bench *bench, size_t i)
{
    const struct stored_chunk *chunk = &bench->manifest->entries[i].chunk;
    struct blob_key key = {chunk->id, chunk->generation};
    char name[BLOB_NAME_SIZE];
    int fd;

    blob_name(name, &key);
    fd = openat(bench->prefix_fds[key.id.bytes[0]], name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("open %s: %s", name, strerror(errno));
    return fd;
}

static void
drop_names(void)
{
    AUTO_CLOSE int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "3", 1) != 1)
        bench_die("BENCH_COLD=2 needs root: %s", strerror(errno));
}

static void
drop_pages(struct bench *bench)
{
    for (size_t i = 0; i < bench->manifest->chunk_count; i++) {
        AUTO_CLOSE int fd = open_chunk(bench, i);

        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    if (bench->cold == 2)
        drop_names();
}

static double
resident_percent(struct bench *bench)
{
    size_t pages = 0, resident = 0;

    for (size_t i = 0; i < bench->manifest->chunk_count; i++) {
        AUTO_CLOSE int fd = open_chunk(bench, i);

        bench_resident(fd, bench->manifest->entries[i].chunk.stored_bytes, &pages, &resident);
    }
    return 100.0 * (double)resident / (double)pages;
}

/* ---- one run -------------------------------------------------------------------------------- */

struct source {
    struct content_reader *reader;
    struct ahead *ahead;
};

static void
open_source(struct bench *bench, struct variant variant, struct source *source)
{
    struct byte_range all = {0, bench->manifest->size_bytes};
    enum ahead_kind kind = variant.kind == KIND_WILLNEED ? AHEAD_WILLNEED : AHEAD_OPEN;
    struct err err = {0};

    if (variant.kind != KIND_DATA) {
        source->ahead = ahead_new(bench->manifest, bench->prefix_fds, bench->store.workers, kind,
                                  variant.ahead_count);
        return;
    }
    bench->store.backend->read_prefetch = variant.ahead_count;
    bench_must(content_reader_open(&bench->store, &bench->manifest->content_id, all,
                                   &source->reader, &err),
               &err);
}

static size_t
read_source(struct source *source, void *dst, size_t cap)
{
    struct err err = {0};
    size_t len;

    bench_must(source->reader != NULL ? content_reader_read(source->reader, dst, cap, &len, &err)
                                      : ahead_read(source->ahead, dst, cap, &len, &err),
               &err);
    return len;
}

static void
close_source(struct source *source)
{
    content_reader_free(source->reader);
    if (source->ahead != NULL)
        ahead_free(source->ahead);
}

/* The slow client: bytes so far are not done before their moment. The additive one, which the
 * seed has, waits for each piece after reading it, as if reading took no time. */
static void
hold_back(struct bench *bench, uint64_t mib_per_sec, int64_t start_us, uint64_t sent, size_t len)
{
    double us_per_byte = 1e6 / (double)(mib_per_sec << 20);
    int64_t until_us = bench->is_additive ? clock_mono_us() + (int64_t)((double)len * us_per_byte)
                                          : start_us + (int64_t)((double)sent * us_per_byte);
    struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static void
drain(struct bench *bench, struct source *source, uint64_t mib_per_sec, int64_t start_us)
{
    AUTO_FREE uint8_t *block = mem_alloc(BLOCK_BYTES);
    XXH3_state_t *check = XXH3_createState();
    uint64_t sent = 0;
    size_t len;

    (void)XXH3_64bits_reset(check);
    while ((len = read_source(source, block, BLOCK_BYTES)) > 0) {
        (void)XXH3_64bits_update(check, block, len);
        sent += len;
        if (mib_per_sec > 0)
            hold_back(bench, mib_per_sec, start_us, sent, len);
    }
    if (sent != bench->file_bytes || XXH3_64bits_digest(check) != bench->drained_check)
        bench_die("what came out is not what was put in");
    (void)XXH3_freeState(check);
}

/* row may be NULL: untimed. */
static void
run(struct bench *bench, struct scenario scenario, struct variant variant, struct row *row)
{
    double resident = 0;
    int64_t start_us, cpu_us;
    struct source source = {0};

    if (scenario.is_cold) {
        bench_warm_memory(bench->file_bytes + WARM_SPARE_BYTES);
        drop_pages(bench);
    }
    if (row != NULL)
        resident = resident_percent(bench);
    start_us = clock_mono_us();
    cpu_us = bench_cpu_us();
    open_source(bench, variant, &source);
    drain(bench, &source, scenario.mib_per_sec, start_us);
    close_source(&source);
    start_us = clock_mono_us() - start_us;
    if (row == NULL)
        return;
    bench_add(&row->mib_per_sec, (double)bench->file_bytes / 1048576 / ((double)start_us / 1e6));
    bench_add(&row->ms, (double)start_us / 1e3);
    bench_add(&row->cpu_ms, (double)(bench_cpu_us() - cpu_us) / 1e3);
    bench_add(&row->resident, resident);
}

static void
run_all(struct bench *bench)
{
    struct scenario warm = {false, 0};

    for (size_t v = 0; v < bench->variant_count; v++)
        run(bench, warm, bench->variants[v], NULL);
    for (size_t rep = 0; rep < bench->reps; rep++) {
        for (size_t s = 0; s < bench->scenario_count; s++) {
            bench_warm_memory(bench->file_bytes + WARM_SPARE_BYTES);
            run(bench, warm, bench->variants[0], NULL); /* all of it is in memory */
            for (size_t i = 0; i < bench->variant_count; i++) {
                size_t v = bench_turn(rep, bench->reps, i, bench->variant_count);

                run(bench, bench->scenarios[s], bench->variants[v], &bench->rows[s][v]);
            }
        }
    }
}

/* ---- what came out -------------------------------------------------------------------------- */

static void
print_scenario(struct bench *bench, size_t s)
{
    struct scenario scenario = bench->scenarios[s];
    double left = 0;

    for (size_t v = 0; v < bench->variant_count; v++) {
        struct bench_spread resident = bench_spread_of(&bench->rows[s][v].resident);

        left = resident.most > left ? resident.most : left;
    }
    printf("%s", scenario.is_cold ? "cold" : "warm");
    if (scenario.is_cold && left > 1)
        printf("(%.0f %% resident)", left);
    if (scenario.mib_per_sec == 0)
        printf(" / unthrottled");
    else
        printf(" / throttled@%" PRIu64 "MB/s", scenario.mib_per_sec);
}

/* The row of this kind and N; of N = 1 and the like. */
static struct row *
row_of(struct bench *bench, size_t s, enum kind kind, unsigned ahead_count)
{
    for (size_t v = 0; v < bench->variant_count; v++) {
        if (bench->variants[v].kind == kind && bench->variants[v].ahead_count == ahead_count)
            return &bench->rows[s][v];
    }
    return NULL;
}

static void
print_gain(const struct row *row, const struct row *base)
{
    struct bench_spread ratio;
    char text[BENCH_PERCENT_SIZE];

    if (base == NULL || base == row) {
        printf(" |");
        return;
    }
    ratio = bench_ratio_of(&row->mib_per_sec, &base->mib_per_sec);
    bench_percent(text, &ratio);
    printf(" %s%s |", text, bench_is_noise(&ratio) ? ", noise" : "");
}

static void
print_line(struct bench *bench, size_t s, size_t v)
{
    struct variant variant = bench->variants[v];
    struct row *row = &bench->rows[s][v];
    struct bench_spread speed = bench_spread_of(&row->mib_per_sec);
    struct bench_spread ms = bench_spread_of(&row->ms);

    printf("| ");
    print_scenario(bench, s);
    printf(" | %s | %u | %.0f | %.1f |", KIND_NAMES[variant.kind], variant.ahead_count,
           speed.median, ms.least);
    print_gain(row, row_of(bench, s, variant.kind, 1));
    print_gain(row, &bench->rows[s][0]);
    printf(" %.2f | %.0f | %.1f |\n", speed.most / speed.least,
           bench_spread_of(&row->cpu_ms).median, bench_spread_of(&row->resident).median);
}

static void
print_long(struct bench *bench)
{
    printf(
        "\n### Every row\n\n"
        "Gains are medians of the ratios within one repetition (least to most); `noise`: the\n"
        "repetitions do not agree on the sign, or it is less than 1 %%. Spread is the fastest over the slowest.\n\n"
        "| scenario | kind | prefetch | med MB/s | min ms | vs N=1 | vs none | spread | CPU ms "
        "| resident %% |\n"
        "| --- | --- | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: |\n");
    for (size_t s = 0; s < bench->scenario_count; s++) {
        for (size_t v = 0; v < bench->variant_count; v++)
            print_line(bench, s, v);
    }
}

static void
print_pivot_row(struct bench *bench, size_t s, enum kind kind)
{
    double best = 0, worst = 0;
    uint64_t best_depth = 0;

    printf("| ");
    print_scenario(bench, s);
    printf(" | %.0f |", bench_spread_of(&bench->rows[s][0].mib_per_sec).median);
    for (size_t i = 0; i < bench->depth_count; i++) {
        struct row *row = row_of(bench, s, kind, (unsigned)bench->depths[i]);
        double median = bench_spread_of(&row->mib_per_sec).median;

        printf(" %.0f |", median);
        if (i == 0 || median < worst)
            worst = median;
        if (median > best) {
            best = median;
            best_depth = bench->depths[i];
        }
    }
    if (best < worst * 1.01)
        printf(" flat |\n");
    else
        printf(" N=%" PRIu64 " |\n", best_depth);
}

static void
print_pivot(struct bench *bench, enum kind kind)
{
    static const char *const TITLES[KIND_COUNT] = {
        [KIND_DATA] = "Reading data ahead: the product's reader",
        [KIND_OPEN] = "Opening ahead only",
        [KIND_WILLNEED] = "Opening ahead, and asking the kernel to read",
    };

    printf("\n### %s (`%s`), median MB/s\n\n| scenario | none |", TITLES[kind], KIND_NAMES[kind]);
    for (size_t i = 0; i < bench->depth_count; i++)
        printf(" N=%" PRIu64 " |", bench->depths[i]);
    printf(" best |\n| --- | ---: |");
    for (size_t i = 0; i < bench->depth_count; i++)
        printf(" ---: |");
    printf(" --- |\n");
    for (size_t s = 0; s < bench->scenario_count; s++)
        print_pivot_row(bench, s, kind);
}

static void
print_kinds(struct bench *bench)
{
    printf("\n### What is done ahead: gain over none\n\n| scenario | N |");
    for (enum kind kind = KIND_DATA; kind < KIND_COUNT; kind++) {
        if (bench->has_kind[kind])
            printf(" %s |", KIND_NAMES[kind]);
    }
    printf("\n| --- | ---: |");
    for (enum kind kind = KIND_DATA; kind < KIND_COUNT; kind++) {
        if (bench->has_kind[kind])
            printf(" --- |");
    }
    printf("\n");
    for (size_t s = 0; s < bench->scenario_count; s++) {
        for (size_t i = 0; i < bench->depth_count; i++) {
            printf("| ");
            print_scenario(bench, s);
            printf(" | %" PRIu64 " |", bench->depths[i]);
            for (enum kind kind = KIND_DATA; kind < KIND_COUNT; kind++) {
                if (bench->has_kind[kind])
                    print_gain(row_of(bench, s, kind, (unsigned)bench->depths[i]),
                               &bench->rows[s][0]);
            }
            printf("\n");
        }
    }
}

static void
print_results(struct bench *bench)
{
    bench_print_others();
    printf("\n%zu chunks of %" PRIu64 " KiB in 256 folders; MB are MiB. Every run gave the bytes "
           "that were\nput in.\n",
           bench->manifest->chunk_count, bench->chunk_bytes >> 10);
    for (enum kind kind = KIND_DATA; kind < KIND_COUNT; kind++) {
        if (bench->has_kind[kind])
            print_pivot(bench, kind);
    }
    print_kinds(bench);
    print_long(bench);
}

int
main(void)
{
    struct bench *bench = mem_zalloc(sizeof(*bench));
    AUTO_FREE char *folder = NULL;
    struct err err = {0};

    bench_must(rand_start(&err), &err);
    read_variables(bench);
    folder = bench_folder_new(bench->file_bytes);
    skip_cold_on_tmpfs(bench, folder);
    build_store(bench, folder);
    bench_print_machine(folder);
    run_all(bench);
    print_results(bench);
    release_store(bench);
    bench_folder_remove(folder);
    free(bench);
    return 0;
}
