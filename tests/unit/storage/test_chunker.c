/*
 * The cut points are a stored format, so every expectation here is a golden one.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/text.h"
#include "storage/chunker.h"
#include "storage/gear.h"
#include "support/mem_store.h"

enum { NOISE_BYTES = 8 << 20, ZERO_BYTES = 3000000, CUTS_AT_MOST = 200 };

struct cuts {
    size_t count;
    size_t lens[CUTS_AT_MOST];
    uint64_t hashes[CUTS_AT_MOST];
};

static uint8_t *noise;

static void
add_cut(struct cuts *cuts, size_t len, uint64_t hash)
{
    assert_true(cuts->count < CUTS_AT_MOST);
    cuts->lens[cuts->count] = len;
    cuts->hashes[cuts->count++] = hash;
}

/* Feeds the data in pieces, as a stream would bring it. */
static void
cut_all(const struct chunker_sizes *sizes, const uint8_t *data, size_t len, size_t piece,
        struct cuts *cuts)
{
    struct chunker chunker;
    size_t off = 0, fed = 0, found;
    uint64_t hash;

    cuts->count = 0;
    chunker_init(&chunker, sizes);
    while (fed < len) {
        fed = len - fed < piece ? len : fed + piece;
        while ((found = chunker_cut(&chunker, data + off, fed - off, false, &hash)) > 0) {
            add_cut(cuts, found, hash);
            off += found;
        }
    }
    while ((found = chunker_cut(&chunker, data + off, len - off, true, &hash)) > 0) {
        add_cut(cuts, found, hash);
        off += found;
    }
    assert_int_equal(off, len);
}

static void
assert_lens(const struct cuts *cuts, const size_t *lens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(cuts->lens[i], lens[i]);
}

/* SHA-256 of one line "offset length hash" a cut. */
static void
assert_fingerprint(const struct cuts *cuts, const char *expected)
{
    crypto_hash_sha256_state sha;
    uint8_t digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof(digest) + 1];
    size_t off = 0;

    crypto_hash_sha256_init(&sha);
    for (size_t i = 0; i < cuts->count; i++) {
        char line[80];
        int len = snprintf(line, sizeof(line), "%zu %zu %" PRIu64 "\n", off, cuts->lens[i],
                           cuts->hashes[i]);

        crypto_hash_sha256_update(&sha, (const uint8_t *)line, (size_t)len);
        off += cuts->lens[i];
    }
    crypto_hash_sha256_final(&sha, digest);
    text_hex(hex, digest, sizeof(digest));
    assert_string_equal(hex, expected);
}

static void
test_the_gear_table_follows_its_rule(void **state)
{
    uint64_t gear[GEAR_SIZE], sum = 0;
    uint8_t bytes[GEAR_SIZE * 8], digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof(digest) + 1];

    (void)state;
    gear_fill(gear);
    for (unsigned i = 0; i < GEAR_SIZE; i++) {
        sum ^= gear[i];
        for (unsigned j = 0; j < 8; j++)
            bytes[8 * i + j] = (uint8_t)(gear[i] >> (56 - 8 * j));
    }
    assert_int_equal(gear[0], 0x3B5D3C7D207E37DC);
    assert_int_equal(gear[1], 0x784D68BA91123086);
    assert_int_equal(gear[255], 0xAABD2B2A451504E1);
    assert_int_equal(sum, 0xE40BC79453CA7333);
    crypto_hash_sha256(digest, bytes, sizeof(bytes));
    text_hex(hex, digest, sizeof(digest));
    assert_string_equal(hex, "9df0a720752a7d211fdebaf39bed01610983756fc340a1cfef41052b7356ae73");
}

static void
test_the_sizes_of_the_store_cut_as_they_always_did(void **state)
{
    static const size_t lens[] = {
        278755, 88644,  296107, 404445, 750279, 308596, 612881, 284656, 279012,
        442646, 245891, 196426, 368418, 100296, 290129, 400109, 381067, 431204,
        528985, 80993,  510062, 214918, 308538, 263686, 321865,
    };
    struct cuts cuts;

    (void)state;
    cut_all(&chunker_store_sizes, noise, NOISE_BYTES, NOISE_BYTES, &cuts);
    assert_int_equal(cuts.count, 25);
    assert_lens(&cuts, lens, 25);
    assert_int_equal(cuts.hashes[0], 246016313389745837);
    assert_int_equal(cuts.hashes[24], 1725831654560482558);
    assert_fingerprint(&cuts, "5bed5c80a78db066542ef588eb22aae5f51b2a26d6ff80274c1a783a91963c47");
}

static void
test_large_sizes_cut_as_they_always_did(void **state)
{
    static const struct chunker_sizes sizes = {262144, 1048576, 4194304, 1};
    static const size_t lens[] = {278755, 827435,  1633517, 1252205,
                                  593103, 2103531, 805973,  894089};
    struct cuts cuts;

    (void)state;
    cut_all(&sizes, noise, NOISE_BYTES, NOISE_BYTES, &cuts);
    assert_int_equal(cuts.count, 8);
    assert_lens(&cuts, lens, 8);
}

static void
test_small_sizes_cut_as_they_always_did(void **state)
{
    static const struct chunker_sizes sizes = {16384, 65536, 262144, 1};
    static const size_t lens[] = {28128, 87550, 64925, 67788, 30364, 38273};
    struct cuts cuts;

    (void)state;
    cut_all(&sizes, noise, NOISE_BYTES, NOISE_BYTES, &cuts);
    assert_int_equal(cuts.count, 109);
    assert_lens(&cuts, lens, 6);
    assert_fingerprint(&cuts, "4ce8e48dd9a1a22f6ebcd17a04ce00d4bba4b78ce7d2ade021fb9106a54ee4db");
}

static void
test_prefixes_cut_as_they_always_did(void **state)
{
    static const struct {
        size_t len;
        size_t count;
        size_t lens[5];
        uint64_t first_hash; /* 1: any */
    } cases[] = {
        {0, 0, {0}, 1},
        {1, 1, {1}, 0},
        {65535, 1, {65535}, 0},
        {65536, 1, {65536}, 0},
        {65537, 1, {65537}, 0},
        {262144, 1, {262144}, 11175431122743242436U},
        {1048577, 4, {278755, 88644, 296107, 385071}, 246016313389745837},
        {1234567, 5, {278755, 88644, 296107, 404445, 166616}, 246016313389745837},
    };
    struct cuts cuts;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cut_all(&chunker_store_sizes, noise, cases[i].len, NOISE_BYTES, &cuts);
        assert_int_equal(cuts.count, cases[i].count);
        assert_lens(&cuts, cases[i].lens, cases[i].count);
        if (cases[i].first_hash != 1)
            assert_int_equal(cuts.hashes[0], cases[i].first_hash);
    }
}

static void
test_zeros_are_cut_at_the_most(void **state)
{
    static const size_t lens[] = {1048576, 1048576, 902848};
    AUTO_FREE uint8_t *zeros = mem_zalloc(ZERO_BYTES);
    struct cuts cuts;

    (void)state;
    cut_all(&chunker_store_sizes, zeros, ZERO_BYTES, 4096, &cuts);
    assert_int_equal(cuts.count, 3);
    assert_lens(&cuts, lens, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(cuts.hashes[i], 14169102344523991076U);
}

static void
test_cuts_do_not_depend_on_the_size_of_the_pieces(void **state)
{
    static const size_t pieces[] = {1, 7, 4096, 65536};
    static const struct chunker_sizes odd = {16385, 65536, 262143, 1};
    const struct chunker_sizes *sizes[] = {&chunker_store_sizes, &odd};
    struct cuts whole, cuts;

    (void)state;
    for (size_t s = 0; s < 2; s++) {
        cut_all(sizes[s], noise, NOISE_BYTES - 1, NOISE_BYTES, &whole);
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            cut_all(sizes[s], noise, NOISE_BYTES - 1, pieces[i], &cuts);
            assert_int_equal(cuts.count, whole.count);
            assert_lens(&cuts, whole.lens, whole.count);
            assert_memory_equal(cuts.hashes, whole.hashes, whole.count * sizeof(uint64_t));
        }
    }
}

static void
test_cuts_realign_after_an_inserted_byte(void **state)
{
    AUTO_FREE uint8_t *longer = mem_alloc(NOISE_BYTES + 1);
    struct cuts before, after;

    (void)state;
    longer[0] = 'x';
    memcpy(longer + 1, noise, NOISE_BYTES);
    cut_all(&chunker_store_sizes, noise, NOISE_BYTES, NOISE_BYTES, &before);
    cut_all(&chunker_store_sizes, longer, NOISE_BYTES + 1, NOISE_BYTES, &after);
    for (size_t i = 1; i <= 10; i++)
        assert_int_equal(after.lens[after.count - i], before.lens[before.count - i]);
}

/* Every average there is a mask for, at level 1; and the levels the others allow. */
static void
test_every_average_from_16_kib_to_1_mib_is_cut(void **state)
{
    struct cuts cuts;

    (void)state;
    for (size_t average = 16 << 10; average <= 1 << 20; average *= 2) {
        struct chunker_sizes sizes = {average / 4, average, average * 4, 1};

        cut_all(&sizes, noise, NOISE_BYTES / 4, NOISE_BYTES, &cuts);
        for (size_t i = 0; i + 1 < cuts.count; i++)
            assert_in_range(cuts.lens[i], sizes.least_bytes, sizes.most_bytes);
        sizes.level = 0;
        cut_all(&sizes, noise, NOISE_BYTES / 4, NOISE_BYTES, &cuts);
    }
}

static int
start(void **state)
{
    struct err err = {0};

    (void)state;
    chunker_start();
    noise = mem_store_noise(1, NOISE_BYTES);
    return rand_start(&err);
}

static int
stop(void **state)
{
    (void)state;
    free(noise);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gear_table_follows_its_rule),
        cmocka_unit_test(test_the_sizes_of_the_store_cut_as_they_always_did),
        cmocka_unit_test(test_large_sizes_cut_as_they_always_did),
        cmocka_unit_test(test_small_sizes_cut_as_they_always_did),
        cmocka_unit_test(test_prefixes_cut_as_they_always_did),
        cmocka_unit_test(test_zeros_are_cut_at_the_most),
        cmocka_unit_test(test_cuts_do_not_depend_on_the_size_of_the_pieces),
        cmocka_unit_test(test_cuts_realign_after_an_inserted_byte),
        cmocka_unit_test(test_every_average_from_16_kib_to_1_mib_is_cut),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
