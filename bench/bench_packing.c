#include "bench/bench_packing.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "bench/bench_pages.h"
#include "storage/container/codec.h"
#include "storage/container/container_pack.h"

enum { MIB = 1 << 20, CHUNK_AVERAGE = 256 << 10 };

int64_t
bench_thread_cpu_ns(void)
{
    struct timespec used;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* ---- speed and size of known bytes ---------------------------------------------------------- */

/* Packs chunk after chunk; MiB of plain bytes a second. */
static double
pack_speed(const struct container_form *form, const uint8_t *plain, size_t len, size_t chunk_bytes,
           uint8_t *dst)
{
    struct digest id = {{0}};
    int64_t start_ns = bench_thread_cpu_ns();

    for (size_t off = 0; off < len; off += chunk_bytes)
        (void)container_pack(form, &id, plain + off, chunk_bytes, dst);
    return (double)len / MIB / ((double)(bench_thread_cpu_ns() - start_ns) / 1e9);
}

static void
table_packing(const struct bench_packing *bench)
{
    static const struct {
        const char *name;
        enum bench_pages kind;
        unsigned block_log2;
        bool is_product; /* chunks of its average size, and raw where it does not pay */
    } ROWS[] = {
        {"compressible_bs4k", BENCH_PAGES_TILE, 12, false},
        {"compressible_bs64k", BENCH_PAGES_TILE, 16, false},
        {"random_bs4k", BENCH_PAGES_RANDOM, 12, false},
        {"random_bs64k", BENCH_PAGES_RANDOM, 16, false},
        {"mixed_bs4k", BENCH_PAGES_MIXED, 12, false},
        {"random_product", BENCH_PAGES_RANDOM, 14, true},
        {"compressible_product", BENCH_PAGES_TILE, 14, true},
    };
    enum { ROW_COUNT = sizeof(ROWS) / sizeof(ROWS[0]) };
    static struct bench_series speed[ROW_COUNT][2];
    uint8_t *dst = mem_alloc(container_pack_bound(bench->pack_bytes, 12));
    uint8_t *plain[BENCH_PAGES_COUNT] = {NULL};

    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (plain[ROWS[i].kind] == NULL)
            plain[ROWS[i].kind] = bench_pages_new(ROWS[i].kind, bench->pack_bytes);
    }

    for (uint64_t rep = 0; rep < bench->reps; rep++) {
        for (size_t i = 0; i < 2 * ROW_COUNT; i++) {
            size_t turn = bench_turn(rep, bench->reps, i, 2 * ROW_COUNT), row = turn / 2;
            struct container_form form = {.codec = turn % 2 == 0 ? CHUNK_LZ4 : CHUNK_ZSTD,
                                          .block_log2 = ROWS[row].block_log2,
                                          .is_forced = !ROWS[row].is_product};

            bench_add(&speed[row][turn % 2],
                      pack_speed(&form, plain[ROWS[row].kind], bench->pack_bytes,
                                 ROWS[row].is_product ? CHUNK_AVERAGE : bench->pack_bytes, dst));
        }
    }
    printf(
        "\n### Packing, MiB of plain bytes a second of processor time\n\n| case | LZ4 | Zstandard |\n"
        "| --- | ---: | ---: |\n");
    for (size_t i = 0; i < ROW_COUNT; i++)
        printf("| `%s` | %.0f | %.0f |\n", ROWS[i].name, bench_spread_of(&speed[i][0]).median,
               bench_spread_of(&speed[i][1]).median);
    for (size_t i = 0; i < BENCH_PAGES_COUNT; i++)
        free(plain[i]);
    free(dst);
}

static double
ratio_of(const uint8_t *plain, size_t len, enum chunk_codec codec, unsigned block_log2,
         uint8_t *dst)
{
    struct container_form form = {.codec = codec, .block_log2 = block_log2};
    struct digest id = digest_of(plain, len);
    size_t stored = container_pack(&form, &id, plain, len, dst);

    return stored > 0 ? (double)stored / (double)len : 1;
}

static void
table_ratios(const struct bench_packing *bench)
{
    static const struct {
        const char *name;
        enum bench_pages kind;
        const char *seed[4]; /* LZ4 4 KiB, 64 KiB; Zstandard 4 KiB, 64 KiB */
    } ROWS[] = {
        {"random", BENCH_PAGES_RANDOM, {"1.0064", "1.0041", "1.0045", "1.0003"}},
        {"compressible (a tile of 64 bytes)",
         BENCH_PAGES_TILE,
         {"0.0240", "0.0052", "0.0225", "0.0015"}},
        {"mixed", BENCH_PAGES_MIXED, {"0.5152", "0.5056", "0.5135", "0.5031"}},
        {"zero pages", BENCH_PAGES_ZERO, {"0.0084", "0.0043", "0.0067", "0.0005"}},
        {"synthetic: 2/3 zero, 1/3 random pages",
         BENCH_PAGES_ZERO_RANDOM,
         {"0.3412", "0.3384", "0.3394", "0.3352"}},
        {"synthetic: an idle machine's memory", BENCH_PAGES_IDLE, {"", "", "", ""}},
    };
    uint8_t *dst = mem_alloc(container_pack_bound(bench->image_bytes, 12));

    printf("\n### What is stored of a plain byte\n\n"
           "| data | LZ4, 4 KiB | 16 KiB | 64 KiB | Zstandard, 4 KiB | 16 KiB | 64 KiB |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        uint8_t *plain = bench_pages_new(ROWS[i].kind, bench->image_bytes);

        printf("| %s |", ROWS[i].name);
        for (unsigned c = 0; c < 6; c++) {
            const char *seed = c % 3 == 1 ? "" : ROWS[i].seed[c / 3 * 2 + c % 3 / 2];

            printf(" %.4f%s%s%s |",
                   ratio_of(plain, bench->image_bytes, c < 3 ? CHUNK_LZ4 : CHUNK_ZSTD,
                            12 + c % 3 * 2, dst),
                   *seed ? " (" : "", seed, *seed ? ")" : "");
        }
        printf("\n");
        free(plain);
    }
    free(dst);
}

/* ---- real files -------------------------------------------------------------------- */

struct real_result {
    struct bench_series pack, unpack; /* MiB/s of plain bytes */
    uint64_t stored, packed_chunks;
};

static void
real_chunk(const struct container_form *form, const uint8_t *plain, size_t len, uint8_t *dst,
           uint8_t *back, int64_t ns[2], struct real_result *result)
{
    struct stored_chunk chunk = {.id = {{0}}, .size_bytes = (uint32_t)len, .codec = form->codec};
    int64_t start_ns = bench_thread_cpu_ns();
    size_t stored = container_pack(form, &chunk.id, plain, len, dst);
    struct err err = {0};

    ns[0] += bench_thread_cpu_ns() - start_ns;
    result->stored += stored > 0 ? stored : len;
    result->packed_chunks += stored > 0;
    start_ns = bench_thread_cpu_ns();
    chunk.stored_bytes = (uint32_t)stored;
    if (stored > 0)
        bench_must(container_unpack(&chunk, dst, back, NULL, &err), &err);
    else
        memcpy(back, plain, len);
    ns[1] += bench_thread_cpu_ns() - start_ns;
}

static void
table_real(const struct bench_packing *bench)
{
    static const struct container_form FORMS[] = {
        {CHUNK_LZ4, 0, 12, false},  {CHUNK_LZ4, 0, 14, false},  {CHUNK_LZ4, 0, 15, false},
        {CHUNK_LZ4, 0, 16, false},  {CHUNK_LZ4, 9, 16, false},  {CHUNK_ZSTD, 1, 16, false},
        {CHUNK_ZSTD, 3, 12, false}, {CHUNK_ZSTD, 3, 14, false}, {CHUNK_ZSTD, 3, 16, false},
        {CHUNK_ZSTD, 9, 16, false},
    };
    enum { FORM_COUNT = sizeof(FORMS) / sizeof(FORMS[0]) };
    static struct real_result results[FORM_COUNT];
    size_t len, *lens, chunk_count;
    uint8_t *plain =
        bench_pages_real(bench->real_folders, bench->real_bytes, &len, &lens, &chunk_count);
    uint8_t *dst = mem_alloc((size_t)2 * MIB), *back = mem_alloc(MIB);
    uint64_t reps = bench->reps < 3 ? bench->reps : 3;

    for (uint64_t rep = 0; rep < reps; rep++) {
        for (size_t i = 0; i < FORM_COUNT; i++) {
            size_t f = bench_turn(rep, reps, i, FORM_COUNT), off = 0;
            int64_t ns[2] = {0, 0};

            results[f].stored = results[f].packed_chunks = 0;
            for (size_t c = 0; c < chunk_count; off += lens[c++])
                real_chunk(&FORMS[f], plain + off, lens[c], dst, back, ns, &results[f]);
            bench_add(&results[f].pack, (double)len / MIB / ((double)ns[0] / 1e9));
            bench_add(&results[f].unpack, (double)len / MIB / ((double)ns[1] / 1e9));
        }
    }
    printf("\n### Real files: %zu MiB, cut into %zu chunks\n\n"
           "| codec, level | block | chunks packed | stored of a byte | packs, MiB/s | unpacks, "
           "MiB/s |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
           len >> 20, chunk_count);
    for (size_t f = 0; f < FORM_COUNT; f++)
        printf("| %s, %d | %u KiB | %" PRIu64 " | %.4f | %.0f | %.0f |\n",
               codec_name(FORMS[f].codec), FORMS[f].level, 1U << (FORMS[f].block_log2 - 10),
               results[f].packed_chunks, (double)results[f].stored / (double)len,
               bench_spread_of(&results[f].pack).median,
               bench_spread_of(&results[f].unpack).median);
    free(plain);
    free(lens);
    free(dst);
    free(back);
}

static void
print_digest_speed(const struct bench_packing *bench)
{
    uint8_t *plain = bench_pages_new(BENCH_PAGES_RANDOM, bench->pack_bytes);
    struct bench_series speed = {.count = 0};

    for (uint64_t rep = 0; rep < bench->reps; rep++) {
        int64_t start_ns = bench_thread_cpu_ns();

        for (size_t off = 0; off < bench->pack_bytes; off += CHUNK_AVERAGE)
            (void)digest_of(plain + off, CHUNK_AVERAGE);
        bench_add(&speed, (double)bench->pack_bytes / MIB /
                              ((double)(bench_thread_cpu_ns() - start_ns) / 1e9));
    }
    printf("\nThe digest of every chunk, which is taken anyway: %.0f MiB/s.\n",
           bench_spread_of(&speed).median);
    free(plain);
}

void
bench_packing_tables(const struct bench_packing *packing)
{
    table_packing(packing);
    print_digest_speed(packing);
    table_ratios(packing);
    table_real(packing);
}
