/*
 * W10 and W11 of tests/blackbox/test_weak_points.py, which no client can see: that every name is
 * synced before an upload is done, and that a sync that failed is never tried again on the same
 * file. The C library's calls are replaced here; the real ones are made as system calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "storage/blob_local.h"
#include "storage/content_reader.h"
#include "support/mem_store.h"
#include "support/test_db.h"

enum { BODY_BYTES = 6 << 20, PREFETCH = 2, THREADS = 4, QUEUE = 64 };

/* Of the calls so far. The one that brings a count to fail_at fails with EIO. */
struct syncs {
    atomic_uint count;
    atomic_uint fail_at; /* 0: none does */
};

static struct syncs of_files, of_folders;

static int
sync_counted(struct syncs *syncs, long call, int fd)
{
    if (atomic_fetch_add(&syncs->count, 1) + 1 == atomic_load(&syncs->fail_at)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

static int
sync_fd(long call, int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return sync_counted(S_ISDIR(st.st_mode) ? &of_folders : &of_files, call, fd);
}

int
fsync(int fd)
{
    return sync_fd(SYS_fsync, fd);
}

int
fdatasync(int fd)
{
    return sync_fd(SYS_fdatasync, fd);
}

struct place {
    char *root;
    uint8_t *body;
    struct mem_store *mem;
};

static void
count_anew(unsigned file_fails_at, unsigned folder_fails_at)
{
    atomic_store(&of_files.count, 0);
    atomic_store(&of_folders.count, 0);
    atomic_store(&of_files.fail_at, file_fails_at);
    atomic_store(&of_folders.fail_at, folder_fails_at);
}

static int
note_blob(void *ctx, const struct blob_key *key, uint64_t stored_bytes, int64_t changed_at_us,
          struct err *err)
{
    unsigned *count = ctx;

    (void)key;
    (void)stored_bytes;
    (void)changed_at_us;
    (void)err;
    ++*count;
    return 0;
}

/* And in how many folders they lie. */
static unsigned
count_blobs(struct place *place, unsigned *ret_folders)
{
    unsigned total = 0, folders = 0;
    struct err err = {0};

    for (unsigned prefix = 0; prefix < 256; prefix++) {
        unsigned count = 0;

        assert_int_equal(blob_list(place->mem->backend, (uint8_t)prefix, note_blob, &count, &err),
                         0);
        total += count;
        folders += count > 0;
    }
    *ret_folders = folders;
    return total;
}

/* An upload up to the point where its bytes are durable; then it is given up. */
static int
upload(struct place *place, struct err *err)
{
    struct ingest *ingest = ingest_new(&place->mem->store, BODY_BYTES);
    const struct ingest_content *content;
    int rc = ingest_push(ingest, place->body, BODY_BYTES, err);

    if (rc == 0)
        rc = ingest_finish(ingest, &content, err);
    ingest_free(ingest);
    return rc;
}

static void
assert_stored(struct place *place, const struct digest *id)
{
    AUTO_FREE uint8_t *back = mem_alloc(BODY_BYTES);
    struct byte_range whole = {0, BODY_BYTES};
    struct content_reader *reader;
    struct err err = {0};
    size_t off = 0, got;

    assert_int_equal(content_reader_open(&place->mem->store, id, whole, &reader, &err), 0);
    do {
        assert_int_equal(content_reader_read(reader, back + off, BODY_BYTES - off, &got, &err), 0);
        off += got;
    } while (got > 0 && off < BODY_BYTES);
    content_reader_free(reader);
    assert_memory_equal(back, place->body, BODY_BYTES);
}

static void
test_w10_an_upload_is_done_when_every_blob_and_every_folder_is_synced(void **state)
{
    struct place *place = *state;
    unsigned blobs, folders;

    count_anew(0, 0);
    mem_store_add(place->mem, place->body, BODY_BYTES);
    blobs = count_blobs(place, &folders);
    assert_true(blobs > 4 && folders > 1);
    assert_int_equal(atomic_load(&of_files.count), blobs);
    assert_int_equal(atomic_load(&of_folders.count), folders);
}

static void
test_w10_a_folder_that_cannot_be_synced_fails_the_upload(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    unsigned folders;

    count_anew(0, 2);
    assert_int_equal(upload(place, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(count_blobs(place, &folders), 0);
}

static void
test_w11_a_file_whose_sync_failed_is_discarded_and_never_synced_again(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct digest id;
    unsigned blobs, folders;

    count_anew(3, 0);
    assert_int_equal(upload(place, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(count_blobs(place, &folders), 0); /* nothing is left to be adopted */

    count_anew(0, 0);
    id = mem_store_add(place->mem, place->body, BODY_BYTES);
    blobs = count_blobs(place, &folders);
    assert_int_equal(atomic_load(&of_files.count), blobs); /* each written and synced anew */
    assert_stored(place, &id);
}

static int
open_place(void **state)
{
    struct place *place = mem_zalloc(sizeof(*place));
    struct blob_backend *backend;
    struct workers *workers;
    struct err err = {0};

    place->root = test_dir_make();
    count_anew(0, 0);
    assert_int_equal(workers_new("store", THREADS, QUEUE, &workers, &err), 0);
    assert_int_equal(blob_local_open(place->root, PREFETCH, workers, &backend, &err), 0);
    place->mem = mem_store_with(backend, workers);
    place->body = mem_store_noise(11, BODY_BYTES);
    *state = place;
    return 0;
}

static int
close_place(void **state)
{
    struct place *place = *state;

    mem_store_free(place->mem);
    test_dir_remove(place->root);
    free(place->body);
    free(place);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_w10_an_upload_is_done_when_every_blob_and_every_folder_is_synced, open_place,
            close_place),
        cmocka_unit_test_setup_teardown(test_w10_a_folder_that_cannot_be_synced_fails_the_upload,
                                        open_place, close_place),
        cmocka_unit_test_setup_teardown(
            test_w11_a_file_whose_sync_failed_is_discarded_and_never_synced_again, open_place,
            close_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
