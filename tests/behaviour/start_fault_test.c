/* SPDX-License-Identifier: MIT
 *
 * Every system call fails in turn (tests/faults.h) that starts and ends a runtime, its driver and
 * its dispatchers, that they sleep in, and that brings them into another event loop. And some fail
 * again and again.
 */
#include "faults.h"

#include <poll.h>

TEST_MAIN

/* ---- beginning and ending ---- */

static int end_at_once(void *arg)
{
    (void)arg;
    return 0;
}

TEST_DRIVERS(a_runtime, options)
{
    hd_options own = *options;
    own.workers = 3;
    faults_each(end_at_once, NULL, &own);
    faults_expect("pthread_create");
    faults_expect("mmap");
}

/* Something to wait for, so that there is a driver. */
static int wait_a_little(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char byte;
    int err = hd_pipe(ends);
    if (err) return err;
    err = (int)hd_read_until(ends[0], &byte, 1, hd_after_ms(1));
    nets_close(ends[0], ends[1]);
    return err == -ETIMEDOUT ? 0 : err;
}

TEST_DRIVERS(a_driver, options)
{
    const bool ring = options->io == HD_IO_URING;
    const hd_options own = rt_one_lane(options); /* In the same order each time: none is skipped. */
    faults_each(wait_a_little, NULL, &own);
    faults_expect("eventfd");
    faults_expect(ring ? "io_uring_queue_init_params" : "epoll_create1");
    faults_expect(ring ? "io_uring_register_buf_ring" : "epoll_ctl");
}

/* Who has no ring, for whatever reason, has an epoll. */
static int wait_by_any(void *arg)
{
    const int err = faults_run_scenario(arg);
    if (faults_plan.hit && strncmp(faults_plan.fault->name, "io_uring_", 9) == 0) EXPECT_EQ(err, 0);
    return err;
}

TEST(any_driver)
{
    struct faults_scenario scenario = {wait_a_little, HD_OPTIONS_INIT};
    unsetenv("HEDDLE_IO");
    scenario.options.world = HD_WORLD_LIVE;
    faults_each_run(wait_by_any, &scenario, NULL);
    if (atomic_load(&faults_of("io_uring_queue_init_params")->asked) == 0) test_skip("no io_uring");
    EXPECT(atomic_load(&faults_of("epoll_create1")->asked) > 0);
}

static int seven(void *arg)
{
    (void)arg;
    return 7;
}

static int on_all(hd_dispatcher *two, hd_dispatcher *one)
{
    int result = 0;
    int err = hd_on_call(two, seven, NULL, &result);
    if (!err) EXPECT_EQ(result, 7);
    if (!err) err = hd_on_call(one, seven, NULL, &result);
    return err ? err : hd_blocking(seven, NULL, &result);
}

static int use_dispatchers(void *arg)
{
    (void)arg;
    hd_dispatcher *two, *one;
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.workers = 2;
    int err = hd_dispatcher_create(&two, &options);
    if (err) return err;
    err = hd_dispatcher_single(&one, NULL);
    if (!err) {
        err = on_all(two, one);
        hd_dispatcher_unref(one);
    }
    hd_dispatcher_unref(two);
    return err;
}

TEST_DRIVERS(dispatchers, options) { faults_each(use_dispatchers, NULL, options); }

/* ---- in another event loop ---- */

static atomic_int done;

static int talk(hd_io ends[2])
{
    char byte;
    int result = 0;
    int err = (int)hd_read_until(ends[0], &byte, 1, hd_after_ms(1));
    if (err != -ETIMEDOUT) return err;
    err = hd_blocking(seven, NULL, &result);
    if (!err) err = hd_write_all(ends[1], "x", 1, NULL);
    return err ? err : hd_read_exact(ends[0], &byte, 1, NULL);
}

static int embedded_main(void *arg)
{
    (void)arg;
    hd_io ends[2];
    int err = hd_unix_pair(ends);
    if (!err) {
        err = talk(ends);
        nets_close(ends[0], ends[1]);
    }
    atomic_store(&done, 1);
    return err;
}

/* The other loop looks at nothing but the descriptor. */
static void loop(hd_runtime *runtime)
{
    while (atomic_load(&done) == 0) {
        struct pollfd entry = {.fd = hd_runtime_fd(runtime), .events = POLLIN};
        EXPECT(poll(&entry, 1, 20000) == 1);
        EXPECT(hd_run_once(runtime, HD_NOW) >= 0);
    }
}

static int embed(void *arg)
{
    (void)arg;
    hd_runtime *runtime;
    hd_task *task;
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.embedded = true;
    int err = hd_runtime_create(&runtime, &options);
    if (err) return err;
    atomic_store(&done, 0);
    spawn.runtime = runtime;
    err = hd_spawn_with(&task, embedded_main, NULL, &spawn);
    if (!err) {
        loop(runtime);
        err = rt_join(task);
    }
    hd_runtime_destroy(runtime);
    return err;
}

TEST(embedded)
{
    faults_each_run(embed, NULL, NULL);
    faults_expect("timerfd_create");
    faults_expect("timerfd_settime");
    faults_expect("epoll_create1");
    faults_expect("epoll_ctl");
    faults_expect("epoll_wait");
    faults_expect("eventfd");
}

/* ---- again and again ---- */

static const char *failing;
static int failing_with;
static unsigned failing_all_but; /* the last of so many; 0: all fail */
static atomic_uint failing_calls;

static int fail_often(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    if (strcmp(name, failing) != 0) return 0;
    const unsigned call = atomic_fetch_add(&failing_calls, 1);
    const unsigned group = failing_all_but;
    return group > 0 && call % group == group - 1 ? 0 : failing_with;
}

static void begin_to_fail(const char *name, int err, unsigned all_but)
{
    failing = name;
    failing_with = err;
    failing_all_but = all_but;
    atomic_store(&failing_calls, 0);
    hdi_sys_fault = fail_often;
}

/* It is called too often then, and never too late. */
TEST(a_timer_that_is_never_set)
{
    begin_to_fail("timerfd_settime", -EPERM, 0);
    do EXPECT_EQ(embed(NULL), 0);
    while (atomic_load(&failing_calls) < 3); /* Some waits are over before they begin. */
    hdi_sys_fault = NULL;
}

/* A sandbox that does not know the call: the sleepers use the older one, and do sleep. */
static int sleep_by_steps(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    EXPECT_EQ(hd_pipe(ends), 0);
    for (unsigned steps = 0, calls = 0; calls < 10; steps++) { /* Some end before they sleep. */
        EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(4)), -ETIMEDOUT);
        calls = atomic_load(&failing_calls);
        EXPECT(calls <= 10 * (steps + 1)); /* Without a sleep it is thousands. */
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST(a_sandbox_without_epoll_pwait2)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.io = HD_IO_EPOLL;
    options = rt_one_lane(&options);
    static const int errors[] = {-ENOSYS, -EPERM};
    for (int i = 0; i < 2; i++) {
        begin_to_fail("epoll_pwait2", errors[i], 0);
        rt_run(sleep_by_steps, NULL, &options);
        hdi_sys_fault = NULL;
    }
}

/* Each byte of the stream says where it is. */
static int count_bytes(void *arg)
{
    char bytes[64];
    ssize_t n;
    int sum = 0;
    while ((n = hd_read(*(hd_io *)arg, bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(bytes[i], (char)sum++);
    }
    return n < 0 ? (int)n : sum;
}

static int talk_on(void *arg)
{
    hd_io ends[2];
    char bytes[10];
    (void)arg;
    nets_pair(NETS_TCP, ends);
    hd_task *reader = rt_spawn(NULL, count_bytes, &ends[0]);
    /* It is watched then, so that the lane sends. */
    EXPECT_EQ(hd_read_until(ends[1], bytes, 1, hd_after_ms(1)), -ETIMEDOUT);
    for (int i = 0, sum = 0; i < 100; i++) {
        for (size_t at = 0; at < sizeof(bytes); at++) bytes[at] = (char)sum++;
        EXPECT_EQ(hd_write_all(ends[1], bytes, sizeof(bytes), NULL), 0);
        hd_yield();
        if (i % 10 == 0) EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(rt_join(reader), 1000);
    EXPECT_EQ(hd_close(ends[0]), 0);
    return 0;
}

static int close_it(void *arg)
{
    return hd_close(*(hd_io *)arg);
}

/* From a dispatcher whose workers have no lane. The reader's end is gone, not only its handle. */
static int close_from_afar(void *arg)
{
    hd_io ends[2];
    hd_dispatcher *other;
    struct nets_call reader;
    int err = 0;
    (void)arg;
    EXPECT_EQ(hd_dispatcher_single(&other, NULL), 0);
    EXPECT_EQ(hd_pipe(ends), 0);
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_on_call(other, close_it, &ends[0], &err), 0);
    EXPECT_EQ(err, 0);
    EXPECT_EQ(nets_end(&reader), -ECANCELED);
    EXPECT_EQ(hd_write(ends[1], "x", 1), -EPIPE);
    EXPECT_EQ(hd_close(ends[1]), 0);
    hd_dispatcher_unref(other);
    return 0;
}

/* A thread of the program gets signals, and closes meanwhile what a ring has to let go of. */
TEST_DRIVERS(a_cancel_that_is_interrupted, options)
{
    const hd_options own = rt_one_lane(options);
    begin_to_fail("io_uring_register_sync_cancel", -EINTR, 2);
    rt_run(close_from_afar, NULL, &own);
    hdi_sys_fault = NULL;
    if (options->io == HD_IO_URING) EXPECT_EQ(atomic_load(&failing_calls), 2);
}

/* A kernel that is short of memory, or a process that gets many signals. */
TEST_DRIVERS(entering_the_kernel_mostly_fails, options)
{
    static const char *const names[] = {"epoll_wait", "epoll_pwait2", "io_uring_enter",
                                        "io_uring_enter2"};
    static const int errors[] = {-EINTR, -ENOMEM, -EAGAIN, -EBUSY};
    const hd_options own = rt_one_lane(options);
    unsigned calls = 0;
    for (int i = 0; i < 4; i++) {
        for (int e = 0; e < 4; e++) {
            begin_to_fail(names[i], errors[e], 4);
            rt_run(talk_on, NULL, &own);
            hdi_sys_fault = NULL;
            calls += atomic_load(&failing_calls);
        }
    }
    EXPECT(calls > 16);
}
