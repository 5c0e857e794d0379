/* SPDX-License-Identifier: MIT
 *
 * What a connection has taken arrives, once and in order: however many there are, whatever has no
 * room, whoever closes, and whatever ends. A driver may send it later, and all at once; nobody is
 * to notice. What it looks like from inside is tested in src/io/outbox_test.c.
 */
#include "base/sanitizer.h"
#include "files.h"
#include "outside.h"

TEST_MAIN

static char pattern(size_t at)
{
    return (char)(at * 7 + at / 251);
}

static void make_pattern(char *bytes, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++) bytes[i] = pattern(at + i);
}

static void run(hd_fn *fn, void *arg, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(fn, arg, &own);
}

static bool is_broken(ssize_t err)
{
    return err == -EPIPE || err == -ECONNRESET;
}

/* ---- many at once ---- */

/* More than one call sends, and more than there is memory for. What is written to one is a page
 * and a byte, so that a byte too many would be in another's. */
enum { MANY = 300, FIRST = 4000, SECOND = 97 };

static void write_to_many(hd_io (*pairs)[2], size_t bytes, size_t at)
{
    char piece[FIRST];
    for (size_t i = 0; i < MANY; i++) {
        make_pattern(piece, bytes, i * 1000 + at);
        EXPECT_EQ(hd_write(pairs[i][1], piece, bytes), bytes);
    }
}

static int many_at_once(void *arg)
{
    (void)arg;
    static hd_io pairs[MANY][2];
    static char got[FIRST + SECOND];
    for (size_t i = 0; i < MANY; i++) nets_watched_pair(pairs[i]);
    for (int round = 0; round < 3; round++) {
        write_to_many(pairs, FIRST, 0);
        write_to_many(pairs, SECOND, FIRST);
        for (size_t i = 0; i < MANY; i++) {
            EXPECT_EQ(hd_read_exact(pairs[i][0], got, sizeof(got), NULL), 0);
            for (size_t j = 0; j < sizeof(got); j++) EXPECT_EQ(got[j], pattern(i * 1000 + j));
        }
    }
    /* Closed at once, each before the next. */
    for (size_t i = 0; i < MANY; i++) {
        EXPECT_EQ(hd_write(pairs[i][1], "z", 1), 1);
        EXPECT_EQ(hd_close(pairs[i][1]), 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        EXPECT_EQ(hd_read(pairs[i][0], got, 2), 1);
        EXPECT_EQ(got[0], 'z');
        EXPECT_EQ(hd_read(pairs[i][0], got, 1), 0);
        EXPECT_EQ(hd_close(pairs[i][0]), 0);
    }
    return 0;
}

TEST_DRIVERS(many_connections_at_once, options) { run(many_at_once, NULL, options); }

static int in_parts(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char got[10];
    const struct iovec parts[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}, {"f", 1}};
    const struct iovec more[] = {{"gh", 2}, {"ij", 2}};
    nets_watched_pair(ends);
    EXPECT_EQ(hd_writev(ends[1], parts, 4), 6);
    EXPECT_EQ(hd_writev(ends[1], more, 2), 4);
    EXPECT_EQ(hd_read_exact(ends[0], got, sizeof(got), NULL), 0);
    EXPECT(memcmp(got, "abcdefghij", sizeof(got)) == 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(several_parts, options) { run(in_parts, NULL, options); }

/* ---- errors ---- */

/* One end has gone, and the other knows. */
static hd_io connect_broken(void)
{
    const struct linger at_once = {1, 0};
    hd_io ends[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_set_option(ends[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(hd_close(ends[0]), 0);
    hd_case gone = HD_READABLE(ends[1]);
    EXPECT_EQ(hd_select(&gone, 1), 0);
    return ends[1];
}

static int write_to_broken(void *arg)
{
    (void)arg;
    const hd_io io = connect_broken();
    ssize_t n;
    while ((n = hd_write(io, "x", 1)) == 1) EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT(is_broken(n));
    return hd_close(io);
}

TEST_DRIVERS(the_next_write_tells_of_an_error, options) { run(write_to_broken, NULL, options); }

static int shut_broken(void *arg)
{
    (void)arg;
    const hd_io io = connect_broken();
    const ssize_t n = hd_write(io, "x", 1);
    EXPECT(n == 1 || is_broken(n));
    if (n == 1) EXPECT(is_broken(hd_shutdown(io, SHUT_WR)));
    return hd_close(io);
}

TEST_DRIVERS(or_a_shutdown, options) { run(shut_broken, NULL, options); }

/* ---- beside others ---- */

struct wrong {
    hd_io io;
    hd_io file;
};

/* The kernel refuses it, and has to go on with what stands behind. */
static int write_wrongly(void *arg)
{
    struct wrong *wrong = arg;
    EXPECT(hd_pwrite(wrong->file, "", SIZE_MAX, 0) < 0);
    EXPECT_EQ(hd_write(wrong->io, "b", 1), 1);
    return 0;
}

static int beside_a_wrong_one(void *arg)
{
    (void)arg;
    hd_io a[2], b[2];
    char got;
    files_begin();
    nets_watched_pair(a);
    nets_watched_pair(b);
    struct wrong wrong = {.io = b[1]};
    wrong.file = files_open(files_path("wrong"), O_RDWR | O_CREAT);
    hd_task *task = rt_spawn(NULL, write_wrongly, &wrong);
    EXPECT_EQ(hd_write(a[1], "a", 1), 1);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(hd_read(a[0], &got, 1), 1);
    EXPECT_EQ(got, 'a');
    EXPECT_EQ(hd_read(b[0], &got, 1), 1);
    EXPECT_EQ(got, 'b');
    nets_close(a[0], a[1]);
    nets_close(b[0], b[1]);
    EXPECT_EQ(hd_close(wrong.file), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(beside_a_call_that_the_kernel_refuses, options)
{
    run(beside_a_wrong_one, NULL, options);
}

static int as_a_datagram(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_send_to(ends[1], "x", 1, NULL), -EINVAL); /* It would overtake. */
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_connection_takes_no_datagrams, options) { run(as_a_datagram, NULL, options); }

/* ---- no room; the other end is a socket of the system's, so that nothing reads ahead ---- */

/* All that is taken without waiting: some of it only by us. */
static size_t write_till_full(hd_io io)
{
    char piece[700];
    size_t all = 0;
    for (;;) {
        make_pattern(piece, sizeof(piece), all);
        const ssize_t n = hd_write_until(io, piece, sizeof(piece), HD_NOW);
        if (n == -EAGAIN) return all;
        EXPECT(n > 0);
        all += (size_t)n;
    }
}

static int fill_and_end(void *arg)
{
    struct outside *outside = arg;
    const hd_io io = outside_connect(outside);
    outside->taken = write_till_full(io);
    switch (outside->end) {
    case END_CLOSE: EXPECT_EQ(hd_close(io), 0); break;
    case END_CLOSE_BY_THREAD: outside_close_by_thread(io); break;
    case END_SHUTDOWN: EXPECT_EQ(hd_shutdown(io, SHUT_WR), 0); break;
    case END_RUNTIME:
    case ENDS: break;
    }
    hd_sem_release(&outside->begin, 1);
    if (outside->end == END_RUNTIME) return 0;
    EXPECT_EQ(hd_sem_acquire(&outside->over, 1), 0); /* Nothing but the end tells it to stop. */
    if (outside->end == END_SHUTDOWN) EXPECT_EQ(hd_close(io), 0);
    return 0;
}

static void with_outside(struct outside *outside, hd_fn *fn, const hd_options *options)
{
    pthread_t thread;
    outside_init(outside);
    EXPECT_EQ(pthread_create(&thread, NULL, outside_read, outside), 0);
    run(fn, outside, options);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT(outside->taken > 0);
    EXPECT_EQ(outside->got, outside->taken);
    outside_fini(outside);
}

TEST_DRIVERS(what_was_taken_arrives_before_the_end, options)
{
    for (int end = 0; end < ENDS; end++) {
        struct outside outside = {.end = (enum end)end, .byte = pattern};
        with_outside(&outside, fill_and_end, options);
    }
}

/* Pieces of all sizes, with less room than most of them need. */
static int squeeze(void *arg)
{
    struct outside *outside = arg;
    static char piece[9000];
    const hd_io io = outside_connect(outside);
    hd_sem_release(&outside->begin, 1);
    for (size_t i = 0; outside->taken < 1 << 20; i++) {
        const size_t bytes = 1 + (i * 997 + i * i) % (i % 5 == 0 ? sizeof(piece) : 1500);
        make_pattern(piece, bytes, outside->taken);
        EXPECT_EQ(hd_write_all(io, piece, bytes, NULL), 0);
        outside->taken += bytes;
        if (i % 3 == 0) hd_yield();
    }
    return hd_close(io);
}

TEST_DRIVERS(little_room_for_much, options)
{
    struct outside outside = {.end = END_CLOSE, .byte = pattern};
    with_outside(&outside, squeeze, options);
}

/* ---- a reset ---- */

struct resetting {
    struct outside outside;
    atomic_int go, has;
};

static void *reset_outside(void *arg)
{
    struct resetting *resetting = arg;
    const struct linger at_once = {1, 0};
    const int fd = accept(resetting->outside.listener, NULL, NULL);
    EXPECT(fd >= 0 && send(fd, "w", 1, 0) == 1);
    while (!atomic_load(&resetting->go)) sched_yield();
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(fd);
    atomic_store(&resetting->has, 1);
    return NULL;
}

/* The kernel tells of a reset once; if that was to who sends, who reads hears of it, too. Here the
 * worker does not enter the kernel between the reset and the sending. */
static int read_after_reset(void *arg)
{
    struct resetting *resetting = arg;
    const hd_io io = outside_connect(&resetting->outside);
    char byte;
    const ssize_t n = hd_write(io, "x", 1);
    EXPECT_EQ(n, 1);
    atomic_store(&resetting->go, 1);
    while (!atomic_load(&resetting->has)) continue;
    EXPECT(hd_io_fd(io) >= 0); /* That has it sent. */
    EXPECT_EQ(hd_read(io, &byte, 1), -ECONNRESET);
    EXPECT_EQ(hd_read(io, &byte, 1), 0);
    return hd_close(io);
}

TEST_DRIVERS(a_reset_is_no_end, options)
{
    for (int i = 0; i < 20; i++) { /* The kernel may be entered all the same, by its clock. */
        struct resetting resetting = {.go = 0};
        pthread_t thread;
        outside_init(&resetting.outside);
        EXPECT_EQ(pthread_create(&thread, NULL, reset_outside, &resetting), 0);
        run(read_after_reset, &resetting, options);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        outside_fini(&resetting.outside);
    }
}

/* ---- others than the worker that watches ---- */

static int write_from_elsewhere(void *arg)
{
    (void)arg;
    hd_dispatcher *single;
    hd_io ends[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    for (int i = 0; i < 100; i++) {
        struct nets_call reader;
        nets_begin(&reader, ends[0], nets_do_read);
        /* That one sleeps, and so does its worker: nobody else sends. */
        HD_ON(single) EXPECT_EQ(hd_write(ends[1], "x", 1), 1);
        EXPECT_EQ(nets_end(&reader), 1);
    }
    hd_dispatcher_unref(single);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_write_from_another_dispatcher, options) { run(write_from_elsewhere, NULL, options); }

struct closer {
    hd_io io;
    atomic_int go;
};

static int close_when_told(void *arg)
{
    struct closer *closer = arg;
    while (!atomic_load(&closer->go)) continue; /* on a worker of its own */
    return hd_close(closer->io);
}

/* It is closed while it is being sent, or before, or after. */
static int close_from_elsewhere(void *arg)
{
    (void)arg;
    hd_dispatcher *single;
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    hd_spawn_options there = HD_SPAWN_OPTIONS_INIT;
    there.dispatcher = single;
    for (int i = 0; i < 300; i++) {
        hd_io ends[2];
        hd_task *task;
        char got[2];
        nets_watched_pair(ends);
        struct closer closer = {.io = ends[1]};
        EXPECT_EQ(hd_spawn_with(&task, close_when_told, &closer, &there), 0);
        EXPECT_EQ(hd_write(ends[1], "z", 1), 1);
        atomic_store(&closer.go, 1);
        EXPECT_EQ(hd_read_exact(ends[0], got, 1, NULL), 0);
        EXPECT_EQ(got[0], 'z');
        EXPECT_EQ(hd_read(ends[0], got, 1), 0);
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    hd_dispatcher_unref(single);
    return 0;
}

TEST_DRIVERS(a_close_from_another_dispatcher, options) { run(close_from_elsewhere, NULL, options); }

/* Who has a copy of the descriptor goes on, whichever worker closes ours. */
static int close_what_others_have(void *arg)
{
    (void)arg;
    hd_dispatcher *single;
    hd_io ends[2];
    char got;
    nets_watched_pair(ends);
    const int copy = dup(hd_io_fd(ends[1]));
    EXPECT(copy >= 0);
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    HD_ON(single) EXPECT_EQ(hd_close(ends[1]), 0);
    hd_dispatcher_unref(single);
    EXPECT_EQ(send(copy, "q", 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(hd_read(ends[0], &got, 1), 1);
    EXPECT_EQ(got, 'q');
    close(copy);
    EXPECT_EQ(hd_read(ends[0], &got, 1), 0);
    return hd_close(ends[0]);
}

TEST_DRIVERS(a_close_leaves_copies_alone, options) { run(close_what_others_have, NULL, options); }

/* ---- a process that forks ---- */

/* What such a process may do with what is its parent's. */
static void ask_for_it(hd_io io) { (void)hd_io_fd(io); }
static void close_it(hd_io io) { EXPECT_EQ(hd_close(io), 0); }

struct touching {
    void (*touch)(hd_io io);
};

static int fork_before_it_is_sent(void *arg)
{
    const struct touching *touching = arg;
    hd_io ends[2];
    char got[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_write(ends[1], "z", 1), 1);
    fflush(stdout);
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        EXPECT(freopen("/dev/null", "w", stderr) != NULL); /* What it had, it leaks. */
        touching->touch(ends[1]); /* A copy of the bytes is there, too, but not to be sent. */
        exit(0);
    }
    EXPECT_EQ(waitpid(pid, NULL, 0), pid);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(hd_read_exact(ends[0], got, 1, NULL), 0);
    EXPECT_EQ(hd_read(ends[0], got, 1), 0);
    return hd_close(ends[0]);
}

TEST_DRIVERS(a_child_that_exits_sends_nothing, options)
{
    struct touching touching = {ask_for_it};
    run(fork_before_it_is_sent, &touching, options);
}

TEST_DRIVERS(a_child_that_closes_it_sends_nothing, options)
{
    struct touching touching = {close_it};
    run(fork_before_it_is_sent, &touching, options);
}

/* Such a process may have a runtime of its own, and something to send at its end. */
static int leave_and_exit(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_write(ends[1], "c", 1), 1);
    exit(0);
}

struct forking {
    const hd_options *options;
    atomic_int may, has; /* bytes are left; the child has ended */
};

static void *fork_beside(void *arg)
{
    struct forking *forking = arg;
    while (!atomic_load(&forking->may)) sched_yield();
    fflush(stdout);
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1); /* What it had, it leaks. */
        const hd_options own = rt_one_lane(forking->options);
        rt_run(leave_and_exit, NULL, &own);
        _exit(1);
    }
    EXPECT_EQ(waitpid(pid, NULL, 0), pid);
    atomic_store(&forking->has, 1);
    return NULL;
}

/* The worker stays with the task, so that nothing is sent meanwhile. */
static int leave_while_it_forks(void *arg)
{
    struct forking *forking = arg;
    hd_io ends[2];
    char got[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_write(ends[1], "z", 1), 1);
    atomic_store(&forking->may, 1);
    while (!atomic_load(&forking->has)) sched_yield();
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(hd_read_exact(ends[0], got, 1, NULL), 0);
    EXPECT_EQ(got[0], 'z');
    EXPECT_EQ(hd_read(ends[0], got, 1), 0);
    return hd_close(ends[0]);
}

TEST_DRIVERS(a_child_with_a_runtime_sends_its_own, options)
{
    if (HDI_ASAN || HDI_TSAN || getenv("HEDDLE_TEST_EMULATED")) {
        test_skip("a process of several threads that was forked starts no thread there");
    }
    struct forking forking = {.options = options};
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, fork_beside, &forking), 0);
    run(leave_while_it_forks, &forking, options);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}
