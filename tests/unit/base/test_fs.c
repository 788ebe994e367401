#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/mem.h"
#include "support/test_dir.h"

static char *root;

static int
setup(void **state)
{
    (void)state;
    root = test_dir_make();
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    test_dir_remove(root);
    return 0;
}

static void
test_a_file_comes_back_as_it_was_written(void **state)
{
    AUTO_FREE char *path = mem_printf("%s/whole", root);
    AUTO_BUF struct buf out = {.max = 100};
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(fs_write_file(path, "a\0b", 3, 0640, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(fs_read_file(path, 3, &out, &err), 0);
    assert_true(slice_eq(buf_slice(&out), SLICE("a\0b")));
}

static int
count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = -2; /* "." and ".." */

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void
test_writing_replaces_and_leaves_nothing_aside(void **state)
{
    AUTO_FREE char *dir = mem_printf("%s/replace", root);
    AUTO_FREE char *path = mem_printf("%s/file", dir);
    AUTO_BUF struct buf out = {.max = 100};
    struct err err = {0};

    (void)state;
    assert_int_equal(fs_mkdir_p(dir, 0700, &err), 0);
    assert_int_equal(fs_write_file(path, "old and long", 12, 0600, &err), 0);
    assert_int_equal(fs_write_file(path, "new", 3, 0600, &err), 0);
    assert_int_equal(fs_read_file(path, 100, &out, &err), 0);
    assert_string_equal(out.data, "new");
    assert_int_equal(count_entries(dir), 1);
}

static void
test_a_failed_write_leaves_nothing_aside(void **state)
{
    AUTO_FREE char *dir = mem_printf("%s/failed", root);
    AUTO_FREE char *path = mem_printf("%s/taken", dir);
    struct err err = {0};

    (void)state;
    assert_int_equal(fs_mkdir_p(path, 0700, &err), 0);
    assert_int_equal(fs_write_file(path, "x", 1, 0600, &err), -1); /* a directory is in the way */
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(count_entries(dir), 1);
}

static void
test_a_full_disk_has_a_code_of_its_own(void **state)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fs_write_all(fd, "x", 1, &err), -1);
    assert_int_equal(err.code, ERR_QUOTA);
}

static void
test_reading_stops_at_the_limit(void **state)
{
    AUTO_FREE char *path = mem_printf("%s/large", root);
    AUTO_FREE char *data = mem_zalloc(50000);
    AUTO_BUF struct buf out = {.max = 100000};
    AUTO_BUF struct buf small = {.max = 100};
    struct err err = {0};

    (void)state;
    assert_int_equal(fs_write_file(path, data, 50000, 0600, &err), 0);
    assert_int_equal(fs_read_file(path, 49999, &out, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    buf_clear(&out);
    assert_int_equal(fs_read_file(path, 50000, &out, &err), 0);
    assert_int_equal(out.len, 50000);
    assert_int_equal(fs_read_file(path, 50000, &small, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_int_equal(fs_read_file("/dev/zero", 1000, &small, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
}

static void
test_what_is_missing_is_not_found(void **state)
{
    AUTO_FREE char *path = mem_printf("%s/no/such", root);
    AUTO_BUF struct buf out = {.max = 100};
    struct err err = {0};
    uint64_t bytes;

    (void)state;
    assert_int_equal(fs_read_file(path, 10, &out, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(fs_write_file(path, "", 0, 0600, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(fs_sync_dir(path, &err), -1);
    assert_int_equal(fs_free_bytes(path, &bytes, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void
test_a_short_file_is_corrupt_when_read_in_full(void **state)
{
    AUTO_FREE char *path = mem_printf("%s/short", root);
    AUTO_CLOSE int fd = -1;
    struct err err = {0};
    char got[10] = "";

    (void)state;
    assert_int_equal(fs_write_file(path, "0123456789", 10, 0600, &err), 0);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fs_pread_all(fd, got, 4, 6, &err), 0);
    assert_memory_equal(got, "6789", 4);
    assert_int_equal(fs_pread_all(fd, got, 0, 99, &err), 0);
    assert_int_equal(fs_pread_all(fd, got, 5, 6, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_int_equal(fs_pread_all(fd, got, 1, UINT64_MAX, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(fs_pread_all(fd, got, 2, INT64_MAX, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void
test_directories_are_made_with_their_parents(void **state)
{
    AUTO_FREE char *deep = mem_printf("%s//a/b///c/", root);
    AUTO_FREE char *file = mem_printf("%s/plain", root);
    AUTO_FREE char *below = mem_printf("%s/plain/x", root);
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(fs_mkdir_p(deep, 0700, &err), 0);
    assert_int_equal(fs_mkdir_p(deep, 0700, &err), 0);
    assert_int_equal(stat(deep, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(fs_mkdir_p("/", 0700, &err), 0);
    assert_int_equal(fs_mkdir_p(".", 0700, &err), 0);
    assert_int_equal(fs_mkdir_p("", 0700, &err), -1);
    assert_int_equal(fs_write_file(file, "x", 1, 0600, &err), 0);
    assert_int_equal(fs_mkdir_p(file, 0700, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(fs_mkdir_p(below, 0700, &err), -1);
}

static void
test_free_space_is_known(void **state)
{
    struct err err = {0};
    uint64_t bytes = 0;

    (void)state;
    assert_int_equal(fs_free_bytes(root, &bytes, &err), 0);
    assert_true(bytes > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_comes_back_as_it_was_written),
        cmocka_unit_test(test_writing_replaces_and_leaves_nothing_aside),
        cmocka_unit_test(test_a_failed_write_leaves_nothing_aside),
        cmocka_unit_test(test_a_full_disk_has_a_code_of_its_own),
        cmocka_unit_test(test_reading_stops_at_the_limit),
        cmocka_unit_test(test_what_is_missing_is_not_found),
        cmocka_unit_test(test_a_short_file_is_corrupt_when_read_in_full),
        cmocka_unit_test(test_directories_are_made_with_their_parents),
        cmocka_unit_test(test_free_space_is_known),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
