#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rand.h"
#include "storage/blob_local.h"
#include "support/test_dir.h"

struct place {
    char *root;
    struct workers *workers;
    struct blob_backend *be;
};

static struct blob_key
key_of(unsigned number)
{
    struct blob_key key = {.id = digest_of(&number, sizeof(number)), .generation = number};

    return key;
}

static char *
path_of(const struct place *place, const struct blob_key *key)
{
    char name[BLOB_NAME_SIZE];

    blob_name(name, key);
    return mem_printf("%s/store/.blobs/%.2s/%s", place->root, name, name);
}

static void
put(struct place *place, const struct blob_key *key, const char *text)
{
    struct err err = {0};

    if (blob_put(place->be, key, text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
}

static void
test_a_blob_is_read_back_whole_and_in_part(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(1);
    struct err err = {0};
    char text[16] = {0};
    uint64_t stored_bytes;

    put(place, &key, "hello world");
    assert_int_equal(blob_sync(place->be, &key, 1, 0, &err), 0);
    assert_int_equal(blob_read(place->be, &key, 0, text, 11, &err), 0);
    assert_string_equal(text, "hello world");
    assert_int_equal(blob_read(place->be, &key, 6, text, 5, &err), 0);
    assert_memory_equal(text, "world", 5);
    assert_int_equal(blob_stat(place->be, &key, &stored_bytes, &err), 0);
    assert_int_equal(stored_bytes, 11);
    blob_forget(place->be, &key);
}

static void
test_a_name_that_is_taken_is_refused_and_left_alone(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(2);
    struct err err = {0};
    char text[5];

    put(place, &key, "first");
    assert_int_equal(blob_put(place->be, &key, "other", 5, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(blob_read(place->be, &key, 0, text, 5, &err), 0);
    assert_memory_equal(text, "first", 5);
}

static void
test_two_generations_of_a_chunk_live_side_by_side(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(3), other = key;
    struct err err = {0};
    char text[5];

    other.generation++;
    put(place, &key, "first");
    put(place, &other, "other");
    assert_int_equal(blob_remove(place->be, &key, &err), 0);
    assert_int_equal(blob_read(place->be, &other, 0, text, 5, &err), 0);
    assert_memory_equal(text, "other", 5);
}

static void
test_only_a_missing_blob_is_not_found(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(4), missing = key_of(5);
    struct err err = {0};
    char *path = path_of(place, &key);
    char text[8];
    uint64_t stored_bytes;

    put(place, &key, "short");
    assert_int_equal(blob_read(place->be, &missing, 0, text, 1, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(blob_stat(place->be, &missing, &stored_bytes, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(blob_read(place->be, &key, 0, text, 6, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* something that cannot be read */
    assert_int_equal(blob_read(place->be, &key, 0, text, 5, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(rmdir(path), 0);
    free(path);
}

static void
test_removing_twice_is_fine(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(6);
    struct err err = {0};

    put(place, &key, "x");
    assert_int_equal(blob_remove(place->be, &key, &err), 0);
    assert_int_equal(blob_remove(place->be, &key, &err), 0);
}

static void
test_a_blob_that_was_swept_fails_the_sync(void **state)
{
    struct place *place = *state;
    struct blob_key keys[40];
    struct err err = {0};

    for (unsigned i = 0; i < 40; i++) {
        keys[i] = key_of(100 + i);
        put(place, &keys[i], "x");
    }
    assert_int_equal(blob_sync(place->be, keys, 40, 0, &err), 0);
    assert_int_equal(blob_remove(place->be, &keys[23], &err), 0);
    assert_int_equal(blob_sync(place->be, keys, 40, 0, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
}

static void
test_a_sync_counts_as_a_change(void **state)
{
    static const struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    struct place *place = *state;
    struct blob_key key = key_of(7);
    struct err err = {0};
    char *path = path_of(place, &key);
    struct stat st;

    put(place, &key, "x");
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    assert_int_equal(blob_sync(place->be, &key, 1, 0, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mtim.tv_sec > 1000);
    free(path);
}

/* A file size limit stands in for a full disk: write() fails in the middle of the blob. */
static void
test_a_put_that_fails_half_way_leaves_nothing(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(8);
    struct rlimit old, small;
    struct err err = {0};
    char *path = path_of(place, &key);
    static char data[8192];
    int rc;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){4096, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = blob_put(place->be, &key, data, sizeof(data), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(access(path, F_OK), -1);
    free(path);
}

struct listing {
    size_t count;
    struct blob_key last;
    int64_t changed_at_us;
};

static int
note(void *ctx, const struct blob_key *key, uint64_t stored_bytes, int64_t changed_at_us,
     struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    assert_int_equal(stored_bytes, 6);
    listing->count++;
    listing->last = *key;
    listing->changed_at_us = changed_at_us;
    return 0;
}

static void
test_a_listing_passes_over_what_is_not_ours(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(9);
    struct listing listing = {0};
    struct err err = {0};
    char *path = path_of(place, &key);
    char *foreign = mem_printf("%s.tmp", path);

    /* a prefix of its own */
    for (unsigned i = 0; key.id.bytes[0] != 0xee; i++)
        key = key_of(100000 + i);
    free(path);
    free(foreign);
    path = path_of(place, &key);
    foreign = mem_printf("%s.tmp", path);
    put(place, &key, "listed");
    assert_int_equal(fs_write_file(foreign, "x", 1, 0600, &err), 0);
    assert_int_equal(blob_list(place->be, 0xee, note, &listing, &err), 0);
    assert_int_equal(listing.count, 1);
    assert_memory_equal(&listing.last, &key, sizeof(key));
    assert_true(clock_now_us() - listing.changed_at_us < 60000000);
    assert_int_equal(blob_list(place->be, 0xee, note, &listing, &err), 0);
    assert_int_equal(listing.count, 2); /* from the start again */
    assert_int_equal(unlink(foreign), 0);
    free(path);
    free(foreign);
}

static int
end_listing(void *ctx, const struct blob_key *key, uint64_t stored_bytes, int64_t changed_at_us,
            struct err *err)
{
    (void)ctx;
    (void)key;
    (void)stored_bytes;
    (void)changed_at_us;
    return err_set(err, ERR_BUSY, "enough");
}

static void
test_a_listing_ends_when_told_to(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(10);
    struct err err = {0};

    put(place, &key, "listed");
    assert_int_equal(blob_list(place->be, key.id.bytes[0], end_listing, NULL, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
}

static void
test_health_leaves_nothing_behind(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    char *path = mem_printf("%s/store/.blobs", place->root);
    DIR *folder;
    struct dirent *entry;
    uint64_t free_bytes;

    assert_int_equal(blob_health(place->be, &err), 0);
    folder = opendir(path);
    while ((entry = readdir(folder)) != NULL)
        assert_int_not_equal(strncmp(entry->d_name, ".health", 7), 0);
    closedir(folder);
    free(path);
    assert_int_equal(blob_free_bytes(place->be, &free_bytes, &err), 0);
    assert_true(free_bytes > 0);
}

static void
test_blobs_are_there_after_opening_again(void **state)
{
    struct place *place = *state;
    struct blob_key key = key_of(11);
    struct blob_backend *again;
    struct err err = {0};
    char *root = mem_printf("%s/store", place->root);
    char text[6];

    put(place, &key, "stays!");
    assert_int_equal(blob_local_open(root, 0, place->workers, &again, &err), 0);
    assert_int_equal(again->read_prefetch, 1);
    assert_int_equal(blob_read(again, &key, 0, text, 6, &err), 0);
    assert_memory_equal(text, "stays!", 6);
    blob_free(again);
    free(root);
}

static void
test_a_store_where_there_is_a_file_is_refused(void **state)
{
    struct place *place = *state;
    struct blob_backend *be;
    struct err err = {0};
    char *root = mem_printf("%s/file", place->root);

    assert_int_equal(fs_write_file(root, "x", 1, 0600, &err), 0);
    assert_int_equal(blob_local_open(root, 1, place->workers, &be, &err), -1);
    free(root);
}

static void
test_names_are_read_back_and_others_refused(void **state)
{
    struct blob_key key = {.id = digest_of("abc", 3), .generation = 0x0123456789abcdef}, again;
    char name[BLOB_NAME_SIZE];

    (void)state;
    blob_name(name, &key);
    assert_string_equal(name, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"
                              "-0123456789abcdef.blob");
    assert_int_equal(blob_parse_name(name, &again), 0);
    assert_memory_equal(&again, &key, sizeof(key));
    name[0] = 'B'; /* two names for one blob would be one too many */
    assert_int_equal(blob_parse_name(name, &again), -1);
    name[0] = 'b';
    name[64] = '_';
    assert_int_equal(blob_parse_name(name, &again), -1);
    assert_int_equal(blob_parse_name("", &again), -1);
    assert_int_equal(blob_parse_name("..", &again), -1);
}

static int
start(void **state)
{
    struct place *place = mem_zalloc(sizeof(*place));
    struct err err = {0};
    char *root;

    place->root = test_dir_make();
    if (rand_start(&err) < 0)
        return -1;
    root = mem_printf("%s/store", place->root);
    if (workers_new("blobs", 4, 64, &place->workers, &err) < 0 ||
        blob_local_open(root, 2, place->workers, &place->be, &err) < 0)
        return -1;
    free(root);
    *state = place;
    return 0;
}

static int
stop(void **state)
{
    struct place *place = *state;

    blob_free(place->be);
    workers_free(place->workers);
    test_dir_remove(place->root);
    free(place);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_blob_is_read_back_whole_and_in_part),
        cmocka_unit_test(test_a_name_that_is_taken_is_refused_and_left_alone),
        cmocka_unit_test(test_two_generations_of_a_chunk_live_side_by_side),
        cmocka_unit_test(test_only_a_missing_blob_is_not_found),
        cmocka_unit_test(test_removing_twice_is_fine),
        cmocka_unit_test(test_a_blob_that_was_swept_fails_the_sync),
        cmocka_unit_test(test_a_sync_counts_as_a_change),
        cmocka_unit_test(test_a_put_that_fails_half_way_leaves_nothing),
        cmocka_unit_test(test_a_listing_passes_over_what_is_not_ours),
        cmocka_unit_test(test_a_listing_ends_when_told_to),
        cmocka_unit_test(test_health_leaves_nothing_behind),
        cmocka_unit_test(test_blobs_are_there_after_opening_again),
        cmocka_unit_test(test_a_store_where_there_is_a_file_is_refused),
        cmocka_unit_test(test_names_are_read_back_and_others_refused),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
