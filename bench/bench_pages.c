#include "bench/bench_pages.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "storage/chunker.h"

enum { PAGE = 4096, TILE = 64, CODE_FILE_MOST = 64 << 20, SHARE_STEPS = 20 };

static const uint64_t PAGES_SEED = UINT64_C(0x5EED5EED00000001);
static const char CODE_FILE[] = "/proc/self/exe";

uint64_t
bench_pages_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void
fill_random(uint8_t *dst, size_t len, uint64_t *state)
{
    for (size_t off = 0; off < len; off += sizeof(uint64_t)) {
        uint64_t word = bench_pages_draw(state);

        memcpy(dst + off, &word, sizeof(word));
    }
}

/* What a heap is full of: pointers near each other, small numbers, nothing. */
static void
fill_structs(uint8_t *dst, uint64_t *state)
{
    struct record {
        uint64_t next, parent;
        uint32_t kind, count;
        uint64_t spare;
    } records[PAGE / sizeof(struct record)];

    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        uint64_t draw = bench_pages_draw(state);

        records[i] = (struct record){
            .next = UINT64_C(0x00007f3a10000000) + (draw & 0xfffff0),
            .parent = UINT64_C(0x00007f3a10000000) + (draw >> 24 & 0xffff00),
            .kind = (uint32_t)(draw >> 60),
            .count = (uint32_t)(draw >> 50 & 0xff),
        };
    }
    memcpy(dst, records, PAGE);
}

/* The order is drawn: neighbours are not alike. */
static void
shuffle_pages(uint8_t *data, size_t count, uint64_t *state)
{
    uint8_t spare[PAGE];

    for (size_t i = count; i > 1; i--) {
        size_t j = bench_pages_draw(state) % i;

        memcpy(spare, data + j * PAGE, PAGE);
        memcpy(data + j * PAGE, data + (i - 1) * PAGE, PAGE);
        memcpy(data + (i - 1) * PAGE, spare, PAGE);
    }
}

static void
fill_idle(uint8_t *data, size_t count, uint64_t *state)
{
    AUTO_BUF struct buf code = {0};
    struct err err = {0};

    buf_init(&code, CODE_FILE_MOST);
    bench_must(fs_read_file(CODE_FILE, CODE_FILE_MOST, &code, &err), &err);
    for (size_t i = 0; i < count; i++) {
        size_t share = i % SHARE_STEPS; /* of 5 % each */

        if (share >= 12 && share < 15 && code.len >= PAGE)
            memcpy(data + i * PAGE, code.data + bench_pages_draw(state) % (code.len / PAGE) * PAGE,
                   PAGE);
        else if (share >= 15 && share < 18)
            fill_structs(data + i * PAGE, state);
        else if (share >= 18)
            fill_random(data + i * PAGE, PAGE, state);
    }
    shuffle_pages(data, count, state);
}

uint8_t *
bench_pages_new(enum bench_pages kind, size_t len)
{
    uint8_t *data = mem_zalloc(len), tile[TILE];
    uint64_t state = PAGES_SEED;
    size_t count = len / PAGE;

    fill_random(tile, TILE, &state);
    if (kind == BENCH_PAGES_IDLE)
        fill_idle(data, count, &state);
    for (size_t i = 0; i < count; i++) {
        uint8_t *page = data + i * PAGE;

        if (kind == BENCH_PAGES_RANDOM || (kind == BENCH_PAGES_MIXED && i % 2 == 1) ||
            (kind == BENCH_PAGES_ZERO_RANDOM && i % 3 == 2))
            fill_random(page, PAGE, &state);
        else if (kind == BENCH_PAGES_TILE || kind == BENCH_PAGES_MIXED)
            for (size_t off = 0; off < PAGE; off += TILE)
                memcpy(page + off, tile, TILE);
    }
    if (kind == BENCH_PAGES_ZERO_RANDOM)
        shuffle_pages(data, count, &state);
    return data;
}

/* ---- real files ----------------------------------------------------------------------------- */

struct real {
    uint8_t *data;
    size_t len, most;
    size_t *lens;
    size_t count, cap;
};

static void
cut_file(struct real *real, const uint8_t *data, size_t len)
{
    struct chunker chunker;

    chunker_init(&chunker, &chunker_store_sizes);
    while (len > 0) {
        size_t cut = chunker_cut(&chunker, data, len, true, NULL);

        real->lens = mem_grow(real->lens, &real->cap, real->count + 1, sizeof(*real->lens));
        real->lens[real->count++] = cut;
        data += cut;
        len -= cut;
    }
}

static void
add_file(struct real *real, const char *path, size_t size)
{
    AUTO_BUF struct buf bytes = {0};
    struct err err = {0};

    if (size == 0 || size > real->most - real->len)
        return;
    buf_init(&bytes, size + 1);
    if (fs_read_file(path, size, &bytes, &err) < 0 || bytes.len == 0)
        return; /* it changed meanwhile, or is not for us */
    memcpy(real->data + real->len, bytes.data, bytes.len);
    cut_file(real, real->data + real->len, bytes.len);
    real->len += bytes.len;
}

static int
compare_names(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* No folder fills more than its share. */
static void
add_folder(struct real *real, char *folder, size_t most)
{
    char *roots[] = {folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, compare_names);
    size_t start = real->len;
    FTSENT *entry;

    if (walk == NULL)
        bench_die("walk through %s", folder);
    while (real->len - start < most && (entry = fts_read(walk)) != NULL) {
        if (entry->fts_info == FTS_F)
            add_file(real, entry->fts_accpath, (size_t)entry->fts_statp->st_size);
    }
    (void)fts_close(walk);
}

uint8_t *
bench_pages_real(const char *folders, size_t most, size_t *ret_len, size_t **ret_chunk_lens,
                 size_t *ret_chunk_count)
{
    struct real real = {.data = mem_alloc(most), .most = most};
    size_t folder_count = 1;

    for (const char *at = folders; *at != 0; at++)
        folder_count += *at == ',';
    chunker_start();
    for (const char *at = folders; *at != 0;) {
        size_t len = strcspn(at, ",");
        AUTO_FREE char *folder = mem_strndup(at, len);

        add_folder(&real, folder, most / folder_count);
        at += len + (at[len] == ',');
    }
    *ret_len = real.len;
    *ret_chunk_lens = real.lens;
    *ret_chunk_count = real.count;
    return real.data;
}
