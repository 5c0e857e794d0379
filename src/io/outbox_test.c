/* SPDX-License-Identifier: MIT
 *
 * Sending later: that it happens, keeps the order, and loses nothing.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle/net.h>
#include <heddle/time.h>

#include "io/outbox.h"
#include "nets.h"

TEST_MAIN

/* Without io_uring there is no outbox, and nothing to test. */
static bool has_outbox(void)
{
    return strcmp(hd_runtime_io(hd_runtime_self()), "io_uring") == 0;
}

static enum hdi_unsent state(hd_io io)
{
    struct hdi_source *source = hdi_source_of(io);
    hdi_lock_take(&source->out.waitable.lock);
    const enum hdi_unsent sending = source->sending;
    hdi_lock_give(&source->out.waitable.lock);
    return sending;
}

/* The lane's worker sees to it. */
static void until(hd_io io, enum hdi_unsent wanted)
{
    while (state(io) != wanted) EXPECT_EQ(hd_sleep_ms(1), 0);
}

/* The descriptor, without what hd_io_fd() does before. */
static int fd_of(hd_io io)
{
    return hdi_source_of(io)->fd;
}

/* Leave a byte to be sent. */
static void leave(hd_io io, char byte)
{
    EXPECT_EQ(hd_write(io, &byte, 1), 1);
    if (has_outbox()) EXPECT_EQ(state(io), HDI_UNSENT_QUEUED);
}

static void run(int (*fn)(void *arg), const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(fn, NULL, &own);
}

/* ---- order ---- */

enum { PIECES = 300, PIECE_MAX = 9000 };

static size_t piece_bytes(unsigned i)
{
    return 1 + (i * 37 + i * i) % (i % 7 == 0 ? PIECE_MAX : 300);
}

static int read_pieces(void *arg)
{
    static char got[PIECE_MAX];
    const hd_io io = *(hd_io *)arg;
    for (unsigned i = 0; i < PIECES; i++) {
        EXPECT_EQ(hd_read_exact(io, got, piece_bytes(i), NULL), 0);
        for (size_t j = 0; j < piece_bytes(i); j++) EXPECT_EQ(got[j], (char)(i + j));
    }
    return 0;
}

/* Small ones, and some that are sent at once. */
static int write_pieces(void *arg)
{
    static char piece[PIECE_MAX];
    (void)arg;
    hd_io ends[2];
    nets_watched_pair(ends);
    hd_task *reader = rt_spawn(NULL, read_pieces, &ends[0]);
    for (unsigned i = 0; i < PIECES; i++) {
        for (size_t j = 0; j < piece_bytes(i); j++) piece[j] = (char)(i + j);
        EXPECT_EQ(hd_write_all(ends[1], piece, piece_bytes(i), NULL), 0);
        if (i % 29 == 0) hd_yield();
    }
    EXPECT_EQ(rt_join(reader), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(order_is_kept, options) { run(write_pieces, options); }

static int write_outside(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char got[4];
    nets_watched_pair(ends);
    leave(ends[1], 'a');
    leave(ends[1], 'b');
    EXPECT_EQ(recv(fd_of(ends[0]), got, 1, MSG_PEEK | MSG_DONTWAIT), has_outbox() ? -1 : 1);
    const int fd = hd_io_fd(ends[1]); /* Others may write there. */
    EXPECT_EQ(state(ends[1]), HDI_UNSENT_NONE);
    EXPECT_EQ(send(fd, "c", 1, MSG_DONTWAIT), 1);
    EXPECT_EQ(hd_write(ends[1], "d", 1), 1);
    EXPECT_EQ(state(ends[1]), HDI_UNSENT_NONE); /* From now on. */
    EXPECT_EQ(hd_read_exact(ends[0], got, 4, NULL), 0);
    EXPECT(memcmp(got, "abcd", 4) == 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(who_takes_the_descriptor_comes_behind, options) { run(write_outside, options); }

/* ---- errors ---- */

static void reset(hd_io io)
{
    const struct linger at_once = {1, 0};
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(hd_close(io), 0);
}

static bool is_broken(ssize_t err)
{
    return err == -EPIPE || err == -ECONNRESET;
}

static int break_off(void *arg)
{
    (void)arg;
    for (int by_shutdown = 0; by_shutdown < 2 && has_outbox(); by_shutdown++) {
        hd_io ends[2];
        nets_watched_pair(ends);
        reset(ends[0]);
        leave(ends[1], 'x');
        until(ends[1], HDI_UNSENT_NONE);
        const ssize_t err = by_shutdown ? hd_shutdown(ends[1], SHUT_WR) : hd_write(ends[1], "y", 1);
        EXPECT(is_broken(err));
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_DRIVERS(errors_are_told_by_the_next_call, options) { run(break_off, options); }

/* ---- ends ---- */

static void expect_last(hd_io io, char last)
{
    char got[2] = {0};
    EXPECT_EQ(hd_read(io, got, 2), 1);
    EXPECT_EQ(got[0], last);
    EXPECT_EQ(hd_read(io, got, 1), 0);
}

static void *close_outside(void *io)
{
    EXPECT_EQ(hd_close(*(hd_io *)io), 0);
    return NULL;
}

static void close_by_thread(hd_io io)
{
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, close_outside, &io), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

static int end_each_way(void *arg)
{
    (void)arg;
    for (int way = 0; way < 3; way++) {
        hd_io ends[2];
        nets_watched_pair(ends);
        leave(ends[1], 'z');
        if (way == 0) EXPECT_EQ(hd_close(ends[1]), 0);
        if (way == 1) close_by_thread(ends[1]);
        if (way == 2) EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
        expect_last(ends[0], 'z');
        if (way == 2) EXPECT_EQ(hd_write(ends[1], "!", 1), -EPIPE);
        (void)hd_close(ends[1]);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_DRIVERS(what_was_left_goes_before_the_end, options) { run(end_each_way, options); }

/* ---- no room ---- */

/* Fill the socket behind the outbox's back, whose buffer is not to grow any more. Returns how many
 * bytes that took. */
static size_t fill(hd_io io)
{
    static const char block[4096];
    const int size = 1 << 16;
    size_t all = 0;
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    for (unsigned idle = 0; idle < 60; idle++) {
        for (ssize_t n; (n = send(fd_of(io), block, sizeof(block), MSG_DONTWAIT)) > 0; idle = 0) {
            all += (size_t)n;
        }
        /* What the peer's kernel takes makes room; the last of it after 200 ms. */
        EXPECT_EQ(hd_sleep_ms(5), 0);
    }
    return all;
}

static void skip(hd_io io, size_t bytes)
{
    static char block[4096];
    while (bytes > 0) {
        const size_t n = bytes < sizeof(block) ? bytes : sizeof(block);
        EXPECT_EQ(hd_read_exact(io, block, n, NULL), 0);
        bytes -= n;
    }
}

static int get_stuck(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_watched_pair(ends);
    if (!has_outbox()) return 0;
    const size_t before = fill(ends[1]);
    leave(ends[1], 'a');
    until(ends[1], HDI_UNSENT_STUCK);
    hd_case writable = HD_WRITABLE(ends[1]);
    EXPECT_EQ(hd_select_until(&writable, 1, 0, hd_after_ms(20)), -ETIMEDOUT);
    struct nets_call writer;
    nets_begin(&writer, ends[1], nets_do_write); /* A zero. */
    skip(ends[0], before);
    char got[2];
    EXPECT_EQ(hd_read_exact(ends[0], got, 2, NULL), 0);
    EXPECT(got[0] == 'a' && got[1] == 0);
    EXPECT_EQ(nets_end(&writer), 1);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(where_there_is_no_room_it_waits, options) { run(get_stuck, options); }

/* What was taken still has to go, but who reads need not wait for that. */
static int shut_both(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_watched_pair(ends);
    if (!has_outbox()) return 0;
    const size_t before = fill(ends[1]);
    struct nets_call reader;
    nets_begin(&reader, ends[1], nets_do_read);
    leave(ends[1], 'a');
    until(ends[1], HDI_UNSENT_STUCK);
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_RDWR), 0);
    EXPECT_EQ(nets_end(&reader), 0);
    skip(ends[0], before);
    expect_last(ends[0], 'a');
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_shutdown_lets_readers_go, options) { run(shut_both, options); }

/* Some descriptors are opened when there is need: now. */
static void carry_much(void)
{
    static const char block[1 << 14];
    hd_io ends[2];
    nets_watched_pair(ends);
    EXPECT_EQ(hd_write_all(ends[1], block, sizeof(block), NULL), 0);
    skip(ends[0], sizeof(block));
    for (int i = 0; i < 3; i++) {
        struct nets_call reader;
        nets_begin(&reader, ends[0], nets_do_read);
        EXPECT_EQ(hd_write(ends[1], block, 1), 1);
        EXPECT_EQ(nets_end(&reader), 1);
    }
    EXPECT_EQ(hdi_source_of(ends[0])->collected, has_outbox());
    nets_close(ends[0], ends[1]);
}

static int end_stuck(void *arg)
{
    (void)arg;
    carry_much();
    for (int way = 0; way < 4; way++) {
        hd_io ends[2];
        nets_watched_pair(ends);
        if (!has_outbox()) return 0;
        const size_t before = fill(ends[1]);
        const unsigned fds = nets_count_fds();
        leave(ends[1], 'a');
        if (way >= 2) until(ends[1], HDI_UNSENT_STUCK);
        if (way == 1 || way == 3) EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
        if (way == 1 || way == 3) EXPECT_EQ(hd_write_until(ends[1], "!", 1, HD_NOW), -EPIPE);
        EXPECT_EQ(hd_close(ends[1]), 0);
        EXPECT_EQ(hd_write(ends[1], "!", 1), -EBADF);
        EXPECT_EQ(nets_count_fds(), fds); /* It lingers. */
        skip(ends[0], before);
        expect_last(ends[0], 'a');
        while (nets_count_fds() >= fds) EXPECT_EQ(hd_sleep_ms(1), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_DRIVERS(what_there_is_no_room_for_lingers, options) { run(end_stuck, options); }

/* ---- ends of runtimes and processes ---- */

/* A listener of the system's, and a connection that was accepted there. */
static int listen_outside(struct sockaddr_in *place)
{
    socklen_t bytes = sizeof(*place);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0 && listen(fd, 1) == 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)place, &bytes), 0);
    return fd;
}

struct outside {
    struct sockaddr_in place;
    int listener;
    bool fills;
    bool exits;
    sem_t ready;         /* posted once `filled` is known */
    _Atomic(int) filled; /* bytes */
    _Atomic(int) got;
};

/* Reads to the end, once the other side has filled its socket. */
static void *read_outside(void *arg)
{
    struct outside *outside = arg;
    static char block[4096];
    char last = 0;
    int all = 0;
    const int fd = accept(outside->listener, NULL, NULL);
    EXPECT(fd >= 0 && send(fd, "w", 1, 0) == 1);
    if (outside->fills) EXPECT_EQ(sem_wait(&outside->ready), 0);
    for (ssize_t n; (n = recv(fd, block, sizeof(block), 0)) > 0;) {
        all += (int)n;
        last = block[n - 1];
        hdi_store_release(&outside->got, all);
    }
    EXPECT_EQ(all, hdi_load_acquire(&outside->filled) + 1);
    EXPECT_EQ(last, 'e');
    close(fd);
    return NULL;
}

static hd_io connect_outside(const struct outside *outside)
{
    hd_io io;
    hd_addr addr;
    char place[32], byte;
    snprintf(place, sizeof(place), "127.0.0.1:%d", ntohs(outside->place.sin_port));
    EXPECT_EQ(hd_addr_parse(&addr, place), 0);
    EXPECT_EQ(hd_connect(&io, &addr), 0);
    EXPECT_EQ(hd_read(io, &byte, 1), 1);
    EXPECT_EQ(hd_read_until(io, &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* The lane hears of it. */
    return io;
}

static int leave_and_end(void *arg)
{
    struct outside *outside = arg;
    const hd_io io = connect_outside(outside);
    const int filled = outside->fills && has_outbox() ? (int)fill(io) : 0;
    leave(io, 'e');
    hdi_store_release(&outside->filled, filled);
    if (outside->fills) EXPECT_EQ(sem_post(&outside->ready), 0);
    if (outside->exits) exit(0);
    if (outside->fills) EXPECT_EQ(hd_close(io), 0);
    return 0;
}

static void end_with(bool fills, const hd_options *options)
{
    struct outside outside = {.fills = fills};
    EXPECT_EQ(sem_init(&outside.ready, 0, 0), 0);
    outside.listener = listen_outside(&outside.place);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, read_outside, &outside), 0);
    const hd_options own = rt_one_lane(options);
    rt_run(leave_and_end, &outside, &own);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(sem_destroy(&outside.ready), 0);
    close(outside.listener);
}

TEST_DRIVERS(a_runtime_that_ends_sends_it, options) { end_with(false, options); }

TEST_DRIVERS(a_runtime_that_ends_waits_for_room, options) { end_with(true, options); }

TEST_DRIVERS(a_process_that_exits_sends_it, options)
{
    struct outside outside = {.exits = true};
    outside.listener = listen_outside(&outside.place);
    fflush(stdout);
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        EXPECT(freopen("/dev/null", "w", stderr) != NULL); /* What it had, it leaks. */
        const hd_options own = rt_one_lane(options);
        rt_run(leave_and_end, &outside, &own);
        _exit(1);
    }
    (void)read_outside(&outside);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    close(outside.listener);
}

/* ---- long runs ---- */

static int compute(void *arg)
{
    struct outside *outside = arg;
    const hd_io io = connect_outside(outside);
    EXPECT_EQ(hd_write(io, "e", 1), 1); /* The monitor may come this moment. */
    while (hdi_load_acquire(&outside->got) == 0) continue; /* No call, so no look. */
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_DRIVERS(the_monitor_sends_it_for_who_computes, options)
{
    struct outside outside = {.fills = false};
    outside.listener = listen_outside(&outside.place);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, read_outside, &outside), 0);
    hd_options own = *options;
    own.workers = 1;
    rt_run(compute, &outside, &own);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    close(outside.listener);
}
