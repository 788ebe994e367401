#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "support/test_db.h"

enum { DEADLINE_MS = 60000 };

/* The tests below share one cluster in a storage folder whose path is longer than a socket's may
 * be, below folders that only their owner can enter; a test finds the server stopped. */
static char *top;
static char *storage;

static void
make_storage(void)
{
    char part[101];
    struct err err = {0};

    memset(part, 'x', 100);
    part[100] = '\0';
    top = test_dir_make();
    storage = mem_printf("%s/%s/%s", top, part, part);
    assert_int_equal(fs_mkdir_p(storage, 0700, &err), 0);
}

static int
group_start(void **state)
{
    struct err err = {0};

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    make_storage();
    return rand_start(&err);
}

static int
group_stop(void **state)
{
    (void)state;
    free(storage);
    test_dir_remove(top);
    return 0;
}

static struct pg_embedded *
start(void)
{
    struct pg_embedded *embedded = NULL;
    struct err err = {0};

    if (pg_embedded_start(storage, &embedded, &err) < 0)
        fail_msg("%s", err.msg);
    return embedded;
}

static int
run_script(const char *conninfo, const char *sql, struct err *err)
{
    struct pg_conn *conn = NULL;
    int result;

    if (pg_connect(conninfo, &conn, err) < 0)
        return -1;
    result = pg_script(conn, sql, err);
    pg_close(conn);
    return result;
}

static void
script(const struct pg_embedded *embedded, const char *sql)
{
    struct err err = {0};

    if (run_script(pg_embedded_conninfo(embedded), sql, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
}

static char *
inside(const char *name)
{
    return mem_printf("%s/%s", storage, name);
}

static void
write_file(const char *name, const char *text)
{
    char *path = inside(name);
    struct err err = {0};

    if (fs_write_file(path, text, strlen(text), 0644, &err) < 0)
        fail_msg("%s", err.msg);
    free(path);
}

static long
server_pid(void)
{
    char *path = inside("postgres/postmaster.pid");
    FILE *file = fopen(path, "re");
    long pid = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    free(path);
    return pid;
}

/* One that has ended and was not waited for yet has no working directory. */
static bool
is_running(long pid)
{
    char link[64], target[8];

    snprintf(link, sizeof(link), "/proc/%ld/cwd", pid);
    return readlink(link, target, sizeof(target)) > 0;
}

static uid_t
owner_of(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    return info.st_uid;
}

/* --- starting --- */

static void
test_it_makes_a_cluster_and_answers(void **state)
{
    struct pg_embedded *embedded = start();
    char proc[32];

    (void)state;
    script(embedded, "create table kept (x bigint); insert into kept values (7)");
    snprintf(proc, sizeof(proc), "/proc/%ld", server_pid());
    if (geteuid() == 0)
        assert_int_not_equal(owner_of(proc), 0);
    else
        assert_int_equal(owner_of(proc), geteuid());
    pg_embedded_stop(embedded);
    assert_int_equal(access(proc, F_OK), -1); /* our own child: waited for */
}

static void
test_it_keeps_what_was_written(void **state)
{
    struct pg_embedded *embedded = start();

    (void)state;
    script(embedded, "do $$ begin assert (select x from kept) = 7; end $$");
    pg_embedded_stop(embedded);
}

static void
test_a_second_one_is_a_guest(void **state)
{
    struct pg_embedded *owner = start();
    struct pg_embedded *guest = start();
    struct err err = {0};

    (void)state;
    script(guest, "select x from kept");
    assert_int_equal(pg_embedded_check(guest, &err), 0);
    pg_embedded_stop(guest);
    script(owner, "select x from kept");
    pg_embedded_stop(owner);
}

static void
test_a_guest_takes_over_when_the_owner_is_gone(void **state)
{
    struct pg_embedded *owner = start();
    struct pg_embedded *guest = start();
    struct err err = {0};

    (void)state;
    pg_embedded_stop(owner);
    assert_int_equal(run_script(pg_embedded_conninfo(guest), "select 1", &err), -1);
    assert_int_equal(pg_embedded_check(guest, &err), 0);
    script(guest, "select x from kept");
    pg_embedded_stop(guest);
}

/* --- crashes --- */

/* A process that starts the server, says so, and waits to be killed. */
static pid_t
start_owner_process(void)
{
    int fds[2];
    char ready;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        struct pg_embedded *embedded = NULL;
        struct err err = {0};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pg_embedded_start(storage, &embedded, &err) < 0 || write(fds[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &ready, 1), 1);
    close(fds[0]);
    return pid;
}

static void
test_the_next_owner_waits_for_an_orphan_to_end(void **state)
{
    struct pg_embedded *embedded;
    long orphan;
    pid_t pid;

    (void)state;
    for (int i = 0; i < 3; i++) {
        pid = start_owner_process();
        orphan = server_pid();
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0); /* while it is not gone, who starts would join it */
        embedded = start();
        assert_int_not_equal(server_pid(), orphan);
        assert_false(is_running(orphan));
        script(embedded, "do $$ begin assert (select x from kept) = 7; end $$");
        pg_embedded_stop(embedded);
    }
}

static void
wait_for_answer(struct pg_embedded *embedded)
{
    struct pg_pool *pool = pg_pool_new(pg_embedded_conninfo(embedded), 1, 100);
    int64_t until_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    struct err err = {0};

    while (pg_pool_ping(pool, &err) < 0) {
        if (clock_mono_us() >= until_us)
            fail_msg("%s", err.msg);
        (void)pg_embedded_check(embedded, &err);
    }
    pg_pool_free(pool);
}

static void
test_a_server_that_crashed_is_started_again(void **state)
{
    struct pg_embedded *embedded = start();
    struct pg_pool *pool = pg_pool_new(pg_embedded_conninfo(embedded), 2, 10000);
    struct err err = {0};
    long before = server_pid();

    (void)state;
    assert_int_equal(pg_pool_ping(pool, &err), 0);
    kill((pid_t)before, SIGKILL);
    wait_for_answer(embedded);
    assert_int_not_equal(server_pid(), before);
    assert_int_equal(pg_pool_ping(pool, &err), 0); /* with a connection of before */
    script(embedded, "do $$ begin assert (select x from kept) = 7; end $$");
    pg_pool_free(pool);
    pg_embedded_stop(embedded);
}

static void
test_a_process_with_an_old_number_is_no_server(void **state)
{
    char *dir = inside("postgres");
    uid_t uid = owner_of(dir);
    struct pg_embedded *embedded;
    char text[32];
    pid_t pid = fork();

    (void)state;
    if (pid == 0) { /* of the server's user, so that the server believes in it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (geteuid() == 0 && setuid(uid) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    snprintf(text, sizeof(text), "%ld\n", (long)pid);
    write_file("postgres/postmaster.pid", text);
    embedded = start();
    script(embedded, "select x from kept");
    pg_embedded_stop(embedded);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    free(dir);
}

/* --- folders that are something else --- */

/* Renames the good cluster away, makes a folder postgres with one file, and starts. */
static enum err_code
start_beside(const char *name, const char *text, char *message, size_t size)
{
    char *good = inside("postgres");
    char *aside = inside("aside");
    char *file = inside(name);
    struct pg_embedded *embedded = NULL;
    struct err err = {0};

    assert_int_equal(rename(good, aside), 0);
    assert_int_equal(mkdir(good, 0700), 0);
    write_file(name, text);
    if (pg_embedded_start(storage, &embedded, &err) == 0)
        pg_embedded_stop(embedded);
    snprintf(message, size, "%s", err.msg);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(good), 0);
    assert_int_equal(rename(aside, good), 0);
    free(good);
    free(aside);
    free(file);
    return err.code;
}

/* As on a full disk: the server runs, and no connection comes about. */
static void
test_a_server_that_takes_nobody_is_given_up_soon_and_says_why(void **state)
{
    AUTO_FREE char *hba = mem_printf("%s/postgres/pg_hba.conf", storage);
    AUTO_FREE char *kept = mem_printf("%s/postgres/pg_hba.kept", storage);
    struct pg_embedded *embedded = NULL;
    int64_t began_us = clock_mono_us();
    struct err err = {0};
    FILE *file;

    (void)state;
    assert_int_equal(rename(hba, kept), 0);
    file = fopen(hba, "w");
    assert_non_null(file);
    assert_true(fputs("local all all reject\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(hba, 0644), 0);
    assert_int_equal(pg_embedded_start(storage, &embedded, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "pg_hba.conf rejects"));
    assert_true(clock_mono_us() - began_us < DEADLINE_MS * INT64_C(1000));
    assert_int_equal(rename(kept, hba), 0);
    pg_embedded_stop(start());
}

static void
test_another_major_version_is_refused_with_advice(void **state)
{
    char message[256];

    (void)state;
    assert_int_equal(start_beside("postgres/PG_VERSION", "9\n", message, sizeof(message)),
                     ERR_CONFLICT);
    assert_non_null(strstr(message, "PostgreSQL 9"));
    assert_non_null(strstr(message, "install postgresql-9"));
}

static void
test_a_folder_with_other_things_is_left_alone(void **state)
{
    char message[256];

    (void)state;
    assert_int_equal(start_beside("postgres/letter.txt", "x", message, sizeof(message)),
                     ERR_CONFLICT);
    assert_non_null(strstr(message, "not empty"));
}

static void
test_a_cluster_half_made_is_made_anew(void **state)
{
    char *good = inside("postgres");
    char *aside = inside("aside");
    char *half = inside("postgres.new/base/1");
    struct pg_embedded *embedded;
    struct err err = {0};

    (void)state;
    assert_int_equal(rename(good, aside), 0);
    assert_int_equal(fs_mkdir_p(half, 0700, &err), 0);
    write_file("postgres.new/PG_VERSION", "15\n");
    write_file("postgres.new/base/1/x", "torn");
    embedded = start();
    script(embedded, "create table fresh (x bigint)");
    pg_embedded_stop(embedded);
    free(half);
    half = inside("postgres.new");
    assert_int_equal(access(half, F_OK), -1);
    free(good);
    free(aside);
    free(half);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_makes_a_cluster_and_answers),
        cmocka_unit_test(test_it_keeps_what_was_written),
        cmocka_unit_test(test_a_second_one_is_a_guest),
        cmocka_unit_test(test_a_guest_takes_over_when_the_owner_is_gone),
        cmocka_unit_test(test_the_next_owner_waits_for_an_orphan_to_end),
        cmocka_unit_test(test_a_server_that_crashed_is_started_again),
        cmocka_unit_test(test_a_process_with_an_old_number_is_no_server),
        cmocka_unit_test(test_a_server_that_takes_nobody_is_given_up_soon_and_says_why),
        cmocka_unit_test(test_another_major_version_is_refused_with_advice),
        cmocka_unit_test(test_a_folder_with_other_things_is_left_alone),
        cmocka_unit_test(test_a_cluster_half_made_is_made_anew),
    };

    return cmocka_run_group_tests(tests, group_start, group_stop);
}
