#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/workers.h"

enum { PATIENCE_MS = 20000 };

/* A gate that jobs wait at until the test opens it; nobody waits for ever. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int arrived;
    bool open;
};

static void
gate_init(struct gate *gate)
{
    pthread_mutex_init(&gate->mutex, NULL);
    clock_cond_init(&gate->cond);
    gate->arrived = 0;
    gate->open = false;
}

static void
gate_release(struct gate *gate)
{
    pthread_cond_destroy(&gate->cond);
    pthread_mutex_destroy(&gate->mutex);
}

static void
gate_pass(void *arg)
{
    struct gate *gate = arg;
    struct timespec at = clock_deadline(PATIENCE_MS);

    pthread_mutex_lock(&gate->mutex);
    gate->arrived++;
    pthread_cond_broadcast(&gate->cond);
    while (!gate->open && pthread_cond_timedwait(&gate->cond, &gate->mutex, &at) == 0)
        ;
    pthread_mutex_unlock(&gate->mutex);
}

static bool
gate_await(struct gate *gate, int count)
{
    struct timespec at = clock_deadline(PATIENCE_MS);
    bool there;

    pthread_mutex_lock(&gate->mutex);
    while (gate->arrived < count && pthread_cond_timedwait(&gate->cond, &gate->mutex, &at) == 0)
        ;
    there = gate->arrived >= count;
    pthread_mutex_unlock(&gate->mutex);
    return there;
}

static void
gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->cond);
    pthread_mutex_unlock(&gate->mutex);
}

static struct workers *
crew(unsigned threads, size_t queue)
{
    struct workers *workers = NULL;
    struct err err = {0};

    if (workers_new("test", threads, queue, &workers, &err) < 0)
        fail_msg("%s", err.msg);
    return workers;
}

static void
count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void
test_what_is_queued_runs_before_the_end(void **state)
{
    struct workers *workers = crew(3, 1000);
    struct err err = {0};
    atomic_int count = 0;

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(workers_submit(workers, count_up, &count, &err), 0);
    workers_free(workers);
    assert_int_equal(count, 1000);
    workers_free(NULL);
}

static void
test_a_full_queue_is_busy_and_recovers(void **state)
{
    struct workers *workers = crew(1, 2);
    struct err err = {0};
    struct gate gate;
    atomic_int count = 0;
    size_t queued;
    size_t running;

    (void)state;
    gate_init(&gate);
    assert_int_equal(workers_submit(workers, gate_pass, &gate, &err), 0);
    assert_true(gate_await(&gate, 1));
    assert_int_equal(workers_submit(workers, count_up, &count, &err), 0);
    assert_int_equal(workers_submit(workers, count_up, &count, &err), 0);
    assert_int_equal(workers_submit(workers, count_up, &count, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    workers_load(workers, &queued, &running);
    assert_int_equal(queued, 2);
    assert_int_equal(running, 1);
    gate_open(&gate);
    workers_free(workers);
    assert_int_equal(count, 2);
    gate_release(&gate);
}

struct order {
    int next;
    bool kept;
};

struct order_job {
    struct order *order;
    int number;
};

static void
check_order(void *arg)
{
    struct order_job *job = arg;

    if (job->order->next++ != job->number)
        job->order->kept = false;
}

static void
test_jobs_run_in_the_order_they_came(void **state)
{
    struct workers *workers = crew(1, 100);
    struct order order = {0, true};
    struct order_job jobs[100];
    struct err err = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct order_job){&order, i};
        assert_int_equal(workers_submit(workers, check_order, &jobs[i], &err), 0);
    }
    workers_free(workers);
    assert_int_equal(order.next, 100);
    assert_true(order.kept);
}

struct tally {
    struct workers *workers;
    atomic_int calls[500];
    atomic_int active;
    atomic_int most_active;
};

static void
tally_call(void *ctx, size_t i)
{
    struct tally *tally = ctx;
    int active = atomic_fetch_add(&tally->active, 1) + 1;
    int most = atomic_load(&tally->most_active);

    while (active > most && !atomic_compare_exchange_weak(&tally->most_active, &most, active))
        ;
    atomic_fetch_add(&tally->calls[i], 1);
    sched_yield();
    atomic_fetch_sub(&tally->active, 1);
}

static void
test_each_calls_every_number_once_and_keeps_the_width(void **state)
{
    static const unsigned widths[] = {0, 1, 2, 3, 8, 100};
    struct workers *workers = crew(4, 16);

    (void)state;
    for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
        struct tally tally;

        memset(&tally, 0, sizeof(tally));
        workers_each(workers, 500, widths[w], tally_call, &tally);
        for (int i = 0; i < 500; i++)
            assert_int_equal(tally.calls[i], 1);
        assert_true(tally.most_active <= (widths[w] > 1 ? (int)widths[w] : 1));
        assert_true(tally.most_active <= 5);
    }
    workers_each(workers, 0, 8, tally_call, NULL);
    workers_free(workers);
}

static void
meet(void *ctx, size_t i)
{
    (void)i;
    gate_pass(ctx);
}

static void *
open_when_three_wait(void *arg)
{
    struct gate *gate = arg;
    bool there = gate_await(gate, 3);

    gate_open(gate);
    return there ? gate : NULL;
}

static void
test_each_runs_side_by_side(void **state)
{
    struct workers *workers = crew(4, 16);
    struct gate gate;
    pthread_t opener;
    void *there;

    (void)state;
    gate_init(&gate);
    assert_int_equal(pthread_create(&opener, NULL, open_when_three_wait, &gate), 0);
    workers_each(workers, 3, 3, meet, &gate);
    pthread_join(opener, &there);
    assert_non_null(there);
    workers_free(workers);
    gate_release(&gate);
}

static void
test_each_with_a_busy_crew_is_done_by_the_caller(void **state)
{
    struct workers *workers = crew(1, 3);
    struct err err = {0};
    struct tally tally;
    struct gate gate;
    atomic_int count = 0;
    size_t queued;
    size_t running;

    (void)state;
    memset(&tally, 0, sizeof(tally));
    gate_init(&gate);
    assert_int_equal(workers_submit(workers, gate_pass, &gate, &err), 0);
    assert_true(gate_await(&gate, 1));
    assert_int_equal(workers_submit(workers, count_up, &count, &err), 0);
    workers_each(workers, 500, 8, tally_call, &tally);
    for (int i = 0; i < 500; i++)
        assert_int_equal(tally.calls[i], 1);
    /* the helpers that never started do not keep places of the queue */
    workers_load(workers, &queued, &running);
    assert_int_equal(queued, 1);
    assert_int_equal(workers_submit(workers, count_up, &count, &err), 0);
    workers_each(workers, 500, 8, tally_call, &tally);
    gate_open(&gate);
    workers_free(workers);
    assert_int_equal(count, 2);
    gate_release(&gate);
}

static void
inner_each(void *ctx, size_t i)
{
    struct tally *tally = ctx;

    (void)i;
    workers_each(tally->workers, 20, 4, tally_call, tally);
}

static void
outer_job(void *arg)
{
    struct tally *tally = arg;

    workers_each(tally->workers, 10, 4, inner_each, tally);
}

static void
test_each_inside_jobs_of_the_same_crew_never_hangs(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct err err = {0};
        struct tally tally;

        memset(&tally, 0, sizeof(tally));
        tally.workers = crew(threads, 1000); /* room for all jobs and all helpers */
        for (int i = 0; i < 50; i++)
            assert_int_equal(workers_submit(tally.workers, outer_job, &tally, &err), 0);
        outer_job(&tally);
        workers_free(tally.workers);
        for (int i = 0; i < 20; i++)
            assert_int_equal(tally.calls[i], 51 * 10);
    }
}

static void
test_a_crew_without_threads_or_queue_is_refused(void **state)
{
    struct workers *workers = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(workers_new("none", 0, 1, &workers, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(workers_new("none", 1, 0, &workers, &err), -1);
    assert_null(workers);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_queued_runs_before_the_end),
        cmocka_unit_test(test_a_full_queue_is_busy_and_recovers),
        cmocka_unit_test(test_jobs_run_in_the_order_they_came),
        cmocka_unit_test(test_each_calls_every_number_once_and_keeps_the_width),
        cmocka_unit_test(test_each_runs_side_by_side),
        cmocka_unit_test(test_each_with_a_busy_crew_is_done_by_the_caller),
        cmocka_unit_test(test_each_inside_jobs_of_the_same_crew_never_hangs),
        cmocka_unit_test(test_a_crew_without_threads_or_queue_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
