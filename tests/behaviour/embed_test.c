/* SPDX-License-Identifier: MIT
 *
 * A runtime inside another event loop, here one of poll().
 */
#include "nets.h"

#include <poll.h>
#include <pthread.h>

TEST_MAIN

static hd_options embedded(void)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.embedded = true;
    return options;
}

static hd_runtime *create_embedded(void)
{
    const hd_options options = embedded();
    return rt_create(&options);
}

static bool is_readable(hd_runtime *runtime, int timeout_ms)
{
    struct pollfd entry = {.fd = hd_runtime_fd(runtime), .events = POLLIN};
    const int count = poll(&entry, 1, timeout_ms);
    EXPECT(count >= 0);
    return count == 1;
}

/* The other loop: it looks at nothing but the descriptor. Returns how often it was woken. */
static int loop_until(hd_runtime *runtime, atomic_int *flag)
{
    int wakes = 0;
    while (atomic_load(flag) == 0) {
        EXPECT(is_readable(runtime, 20000));
        EXPECT(hd_run_once(runtime, HD_NOW) >= 0);
        wakes++;
    }
    return wakes;
}

static int set_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
    return 0;
}

/* ---- running ---- */

TEST(tasks_run_when_the_loop_says_so)
{
    hd_runtime *runtime = create_embedded();
    atomic_int ran = 0;
    EXPECT_EQ(hd_run_once(runtime, HD_NOW), 0);
    EXPECT(!is_readable(runtime, 0));
    hd_task *task = rt_spawn(runtime, set_flag, &ran);
    EXPECT_EQ(atomic_load(&ran), 0);
    EXPECT(is_readable(runtime, 0) && is_readable(runtime, 0)); /* until it is run */
    EXPECT_EQ(hd_run_once(runtime, HD_NOW), 1);
    EXPECT_EQ(atomic_load(&ran), 1);
    EXPECT(!is_readable(runtime, 0));
    EXPECT_EQ(hd_run_once(runtime, HD_NOW), 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

TEST(a_deadline_ends_the_run)
{
    hd_runtime *runtime = create_embedded();
    const int64_t deadline = hd_now(runtime) + 5 * HD_MS_NS;
    EXPECT_EQ(hd_run_once(runtime, deadline), 0);
    EXPECT(hd_now(runtime) >= deadline);
    atomic_int ran = 0;
    hd_detach(rt_spawn(runtime, set_flag, &ran));
    EXPECT_EQ(hd_run_once(runtime, hd_now(runtime) + 1000 * HD_SECOND_NS), 1);
    hd_runtime_destroy(runtime);
}

static int sleep_and_set(void *flag)
{
    EXPECT_EQ(hd_sleep_ms(5), 0);
    return set_flag(flag);
}

TEST(a_deadline_of_a_task_wakes_the_loop)
{
    hd_runtime *runtime = create_embedded();
    for (int i = 0; i < 3; i++) {
        atomic_int woke = 0;
        const int64_t began = hd_now(runtime);
        hd_task *task = rt_spawn(runtime, sleep_and_set, &woke);
        EXPECT(loop_until(runtime, &woke) < 10); /* and not again and again */
        EXPECT(hd_now(runtime) - began >= 5 * HD_MS_NS);
        EXPECT_EQ(rt_join(task), 0);
        EXPECT(!is_readable(runtime, 0));
    }
    hd_runtime_destroy(runtime);
}

/* ---- from elsewhere ---- */

struct other {
    hd_runtime *runtime;
    atomic_int ran;
};

static void *spawn_from_thread(void *arg)
{
    struct other *other = arg;
    hd_detach(rt_spawn(other->runtime, set_flag, &other->ran));
    return NULL;
}

TEST(a_spawn_by_a_thread_wakes_the_loop)
{
    struct other other = {create_embedded(), 0};
    pthread_t thread;
    EXPECT_EQ(hd_run_once(other.runtime, HD_NOW), 0);
    EXPECT(!is_readable(other.runtime, 0));
    EXPECT_EQ(pthread_create(&thread, NULL, spawn_from_thread, &other), 0);
    loop_until(other.runtime, &other.ran);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    hd_runtime_destroy(other.runtime);
}

static int do_block(void *arg)
{
    (void)arg;
    usleep(2000);
    return 7;
}

static int call_blocking(void *flag)
{
    int result = 0;
    EXPECT_EQ(hd_blocking(do_block, NULL, &result), 0);
    EXPECT_EQ(result, 7);
    return set_flag(flag);
}

TEST(a_blocking_call_comes_back_to_the_loop)
{
    hd_runtime *runtime = create_embedded();
    atomic_int done = 0;
    hd_task *task = rt_spawn(runtime, call_blocking, &done);
    loop_until(runtime, &done);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* Nothing runs in the loop by that: who drives it looks for what it waits for, too. */
TEST(a_thread_waits_for_another_pool)
{
    hd_runtime *runtime = create_embedded();
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = hd_dispatcher_io(runtime);
    EXPECT(options.dispatcher != NULL);
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_at(&task, do_block, NULL, &options, HD_SITE), 0);
    EXPECT_EQ(rt_join(task), 7);
    hd_runtime_destroy(runtime);
}

/* A thread that waits for a task runs it. */
TEST(waiting_threads_do_the_work)
{
    hd_runtime *runtime = create_embedded();
    atomic_int woke = 0;
    EXPECT_EQ(rt_join(rt_spawn(runtime, sleep_and_set, &woke)), 0);
    EXPECT_EQ(atomic_load(&woke), 1);
    atomic_store(&woke, 0);
    hd_detach(rt_spawn(runtime, sleep_and_set, &woke));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&woke), 1);
    hd_runtime_destroy(runtime);
}

/* ---- I/O ---- */

struct talk {
    hd_addr at;
    atomic_int listening, done;
};

static int answer(void *arg)
{
    struct talk *talk = arg;
    hd_io listener = nets_listen(), conn;
    char bytes[64];
    ssize_t n;
    talk->at = nets_addr(listener);
    atomic_store(&talk->listening, 1);
    EXPECT_EQ(hd_accept(listener, &conn, NULL), 0);
    while ((n = hd_read(conn, bytes, sizeof(bytes))) > 0) {
        EXPECT_EQ(hd_write_all(conn, bytes, (size_t)n, NULL), 0);
    }
    EXPECT_EQ(n, 0);
    nets_close(conn, listener);
    atomic_store(&talk->done, 1);
    return 0;
}

static void *ask(void *arg)
{
    struct talk *talk = arg;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, (struct sockaddr *)talk->at.bytes, talk->at.length), 0);
    for (int i = 0; i < 100; i++) {
        char byte = 0;
        EXPECT_EQ(send(fd, "q", 1, 0), 1);
        EXPECT_EQ(recv(fd, &byte, 1, 0), 1);
        EXPECT_EQ(byte, 'q');
        if (i % 10 == 0) usleep(500);
    }
    close(fd);
    return NULL;
}

TEST(a_socket_wakes_the_loop)
{
    hd_runtime *runtime = create_embedded();
    struct talk talk = {.listening = 0};
    pthread_t thread;
    EXPECT_EQ(strcmp(hd_runtime_io(runtime), "epoll"), 0);
    hd_task *task = rt_spawn(runtime, answer, &talk);
    loop_until(runtime, &talk.listening);
    EXPECT_EQ(pthread_create(&thread, NULL, ask, &talk), 0);
    loop_until(runtime, &talk.done);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT(!is_readable(runtime, 0));
    hd_runtime_destroy(runtime);
}

/* ---- edges ---- */

static int run_inside(void *arg)
{
    EXPECT_EQ(hd_run_once(arg, HD_NOW), -EINVAL);
    return 0;
}

TEST_WORLDS(only_embedded_ones_are_driven, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(hd_run_once(runtime, HD_NOW), -EINVAL);
    EXPECT_EQ(hd_runtime_fd(runtime), -EINVAL);
    hd_runtime_destroy(runtime);
}

TEST(a_task_does_not_drive_its_own_runtime)
{
    hd_runtime *runtime = create_embedded();
    EXPECT_EQ(rt_join(rt_spawn(runtime, run_inside, runtime)), 0);
    hd_runtime_destroy(runtime);
}

TEST(options_that_make_no_sense_are_refused)
{
    hd_options options = embedded();
    EXPECT(hd_options_error(&options) == NULL);
    options.workers = 2;
    EXPECT(hd_options_error(&options) != NULL);
    options = embedded();
    options.world = HD_WORLD_SIM;
    EXPECT(hd_options_error(&options) != NULL);
}

static int wait_for_ever(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    nets_pair(NETS_PIPE, ends);
    return (int)hd_read(ends[0], &byte, 1);
}

TEST(destroying_ends_what_waits)
{
    const unsigned fds = nets_count_fds();
    hd_runtime *runtime = create_embedded();
    hd_detach(rt_spawn(runtime, wait_for_ever, NULL));
    EXPECT(hd_run_once(runtime, HD_NOW) > 0);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(nets_count_fds(), fds);
}

/* A fiber of one runtime drives another, as a server within a server would. */
static int drive_other(void *arg)
{
    hd_runtime *inner = arg;
    atomic_int woke = 0;
    hd_task *task = rt_spawn(inner, sleep_and_set, &woke);
    while (atomic_load(&woke) == 0) {
        EXPECT_EQ(hd_fd_wait(hd_runtime_fd(inner), HD_WAIT_READ, HD_FOREVER), HD_WAIT_READ);
        EXPECT(hd_run_once(inner, HD_NOW) >= 0);
    }
    return rt_join(task);
}

TEST_DRIVERS(one_runtime_inside_another, options)
{
    const hd_options own = rt_workers(options, 1); /* The same thread each time. */
    hd_runtime *inner = create_embedded();
    rt_run(drive_other, inner, &own);
    hd_runtime_destroy(inner);
}
