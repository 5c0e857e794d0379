/* SPDX-License-Identifier: MIT
 *
 * Closing: who waits is told, and a handle that was closed is never another's.
 */
#include "nets.h"

#include <heddle/sim.h>
#include <netinet/in.h>
#include <pthread.h>

TEST_MAIN

/* ---- who waits ---- */

static void while_waiting(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    struct nets_call readers[3], writers[2];
    for (int i = 0; i < 3; i++) nets_begin(&readers[i], ends[0], nets_do_read);
    nets_fill(ends[1]);
    EXPECT(nets_end(&readers[0]) == 1 && nets_end(&readers[1]) == 1 && nets_end(&readers[2]) == 1);
    nets_fill(ends[1]);
    for (int i = 0; i < 2; i++) nets_begin(&writers[i], ends[1], nets_do_write);
    EXPECT_EQ(hd_close(ends[1]), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(nets_end(&writers[i]), -ECANCELED);
    EXPECT_EQ(hd_close(ends[1]), -EBADF);
}

TEST_IO(writers_are_told, options)
{
    const hd_options own = rt_workers(options, 1); /* so that they wait by then */
    nets_each_kind(while_waiting, &own);
}

static void readers_waiting(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    struct nets_call readers[3];
    for (int i = 0; i < 3; i++) nets_begin(&readers[i], ends[0], nets_do_read);
    EXPECT_EQ(hd_close(ends[0]), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(nets_end(&readers[i]), -ECANCELED);
}

TEST_IO(readers_are_told, options)
{
    const hd_options own = rt_workers(options, 1);
    nets_each_kind(readers_waiting, &own);
}

static int close_listener(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen();
    struct nets_call calls[3];
    for (int i = 0; i < 3; i++) nets_begin(&calls[i], listener, nets_do_accept);
    EXPECT_EQ(hd_close(listener), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(nets_end(&calls[i]), -ECANCELED);
    return 0;
}

TEST_IO(accepts_are_told, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(close_listener, NULL, &own);
}

/* Who was told that something came, and finds the handle closed, had waited: not -EBADF. */
static int close_after_news(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        hd_io ends[2];
        struct nets_call reader;
        nets_pair(i % 2 ? NETS_TCP : NETS_UNIX, ends);
        nets_begin(&reader, ends[0], nets_do_read);
        EXPECT_EQ(hd_write_all(ends[1], "x", 1, NULL), 0);
        for (int turns = 0; turns < i % 5; turns++) hd_yield();
        EXPECT_EQ(hd_close(ends[0]), 0);
        const int n = nets_end(&reader);
        EXPECT(n == 1 || n == -ECANCELED);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(news_before_the_close_change_nothing, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(close_after_news, NULL, &own);
}

/* ---- stale handles ---- */

static void expect_stale(hd_io io)
{
    char bytes[8];
    const struct iovec part = {bytes, sizeof(bytes)};
    hd_io none = {0};
    hd_addr addr = {0};
    int fds[1], value = 0;
    unsigned count = 1;
    socklen_t length = sizeof(value);
    EXPECT_EQ(hd_read(io, bytes, 1), -EBADF);
    EXPECT_EQ(hd_read_until(io, bytes, 1, HD_NOW), -EBADF);
    EXPECT_EQ(hd_readv(io, &part, 1), -EBADF);
    EXPECT_EQ(hd_read_exact(io, bytes, 1, NULL), -EBADF);
    EXPECT_EQ(hd_write(io, bytes, 1), -EBADF);
    EXPECT_EQ(hd_writev(io, &part, 1), -EBADF);
    EXPECT_EQ(hd_write_all(io, bytes, 1, NULL), -EBADF);
    EXPECT_EQ(hd_accept(io, &none, NULL), -EBADF);
    EXPECT_EQ(hd_shutdown(io, SHUT_RDWR), -EBADF);
    EXPECT_EQ(hd_local_addr(io, &addr), -EBADF);
    EXPECT_EQ(hd_peer_addr(io, &addr), -EBADF);
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value)), -EBADF);
    EXPECT_EQ(hd_get_option(io, SOL_SOCKET, SO_KEEPALIVE, &value, &length), -EBADF);
    EXPECT_EQ(hd_recv_from(io, bytes, 1, &addr), -EBADF);
    EXPECT_EQ(hd_send_to(io, bytes, 1, NULL), -EBADF);
    EXPECT_EQ(hd_udp_connect(io, &addr), -EBADF);
    EXPECT_EQ(hd_recv_fds(io, bytes, 1, fds, &count), -EBADF);
    EXPECT_EQ(hd_send_fds(io, bytes, 1, fds, 0), -EBADF);
    EXPECT_EQ(hd_pread(io, bytes, 1, 0), -EBADF);
    EXPECT_EQ(hd_io_fd(io), -EBADF);
    EXPECT_EQ(hd_close(io), -EBADF);
    hd_case cases[] = {HD_READABLE(io), HD_NEVER};
    EXPECT_EQ(hd_select(cases, 2), 0);
    EXPECT_EQ(cases[0].result, -EBADF);
    cases[0] = (hd_case)HD_WRITABLE(io);
    EXPECT_EQ(hd_select(cases, 2), 0);
    EXPECT_EQ(cases[0].result, -EBADF);
    EXPECT(none.private_ == 0 && addr.length == 0 && count == 1);
}

static int no_handles(void *arg)
{
    (void)arg;
    expect_stale((hd_io){0}); /* before there is any, and after */
    hd_io ends[2];
    nets_pair(NETS_PIPE, ends);
    expect_stale((hd_io){0});
    expect_stale((hd_io){UINT64_MAX});
    expect_stale((hd_io){ends[0].private_ + (UINT64_C(1) << 32)});
    expect_stale((hd_io){ends[0].private_ | 0xffff0000});
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(what_was_never_a_handle_is_none, options) { rt_run_plain(no_handles, NULL, options); }

/* The system gives the lowest number that is free, so the next connection has the same one. */
static int reused(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen();
    for (int round = 0; round < 10; round++) {
        hd_io old = nets_connect(listener), other = nets_accept(listener);
        struct nets_call reader;
        nets_begin(&reader, old, nets_do_read); /* It is watched. */
        const int fd = hd_io_fd(old);
        EXPECT_EQ(hd_close(old), 0);
        const int err = nets_end(&reader);
        EXPECT(err == -ECANCELED || err == -EBADF);
        hd_io conn = nets_connect(listener), peer = nets_accept(listener);
        if (!nets_in_sim()) EXPECT_EQ(hd_io_fd(conn), fd);
        EXPECT(conn.private_ != old.private_);
        EXPECT_EQ(hd_write_all(peer, "s", 1, NULL), 0); /* what nobody else may see */
        expect_stale(old);
        char byte = 0;
        EXPECT_EQ(hd_read_exact(conn, &byte, 1, NULL), 0);
        EXPECT_EQ(byte, 's');
        nets_expect_byte(conn, peer, 'b');
        EXPECT_EQ(hd_close(other), 0);
        nets_close(conn, peer);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_stale_handle_is_not_the_next_connection, options)
{
    const hd_options alone = rt_workers(options, 1); /* Nobody else takes a descriptor. */
    rt_run_plain(reused, NULL, rt_is_sim(options) ? options : &alone);
}

/* What was on its way to the old one stays away from the new one. */
static int no_old_data(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen();
    for (int round = 0; round < 50; round++) {
        hd_io old = nets_connect(listener), sender = nets_accept(listener);
        struct nets_call reader;
        char text[8];
        nets_begin(&reader, old, nets_do_read);
        EXPECT_EQ(hd_write_all(sender, "old", 3, NULL), 0);
        if (round % 2) hd_yield();
        EXPECT_EQ(hd_close(old), 0);
        const int n = nets_end(&reader);
        EXPECT(n == 1 || n == -ECANCELED || n == -EBADF);
        hd_io conn = nets_connect(listener), peer = nets_accept(listener);
        EXPECT_EQ(hd_read_until(conn, text, 8, hd_now(NULL) + 100000), -ETIMEDOUT);
        EXPECT_EQ(hd_write_all(peer, "new", 3, NULL), 0);
        EXPECT_EQ(hd_read_exact(conn, text, 3, NULL), 0);
        EXPECT(memcmp(text, "new", 3) == 0);
        EXPECT_EQ(hd_close(sender), 0);
        nets_close(conn, peer);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_new_connection_has_nothing_of_the_old, options)
{
    rt_run_plain(no_old_data, NULL, options);
}

/* ---- the other side, and what is left ---- */

/* Nobody has to do anything more for the end to be seen. */
static int close_is_seen(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < NETS_KINDS; kind++) {
        hd_io ends[2];
        char byte;
        struct nets_call waiting;
        nets_pair((enum nets_kind)kind, ends);
        if (kind != NETS_PIPE) nets_begin(&waiting, ends[1], nets_do_read);
        EXPECT_EQ(hd_close(ends[1]), 0);
        if (kind != NETS_PIPE) {
            const int err = nets_end(&waiting);
            EXPECT(err == -ECANCELED || err == -EBADF);
        }
        EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(10000)), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_IO(the_other_side_sees_the_end, options)
{
    rt_run_plain(close_is_seen, NULL, options);
    const hd_options own = rt_workers(options, 1);
    rt_run(close_is_seen, NULL, &own);
}

static void *close_from_thread(void *arg)
{
    EXPECT_EQ(hd_close(*(hd_io *)arg), 0);
    return NULL;
}

static int from_thread(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char byte;
    struct nets_call reader;
    pthread_t thread;
    nets_pair(NETS_TCP, ends);
    nets_begin(&reader, ends[1], nets_do_read);
    EXPECT_EQ(pthread_create(&thread, NULL, close_from_thread, &ends[1]), 0);
    const int err = nets_end(&reader);
    EXPECT(err == -ECANCELED || err == -EBADF);
    EXPECT_EQ(hd_read(ends[0], &byte, 1), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_close(ends[0]), 0);
    return 0;
}

/* A reset that was asked for is one, whoever closes: not an end like any other. */
static int reset_from_thread(void *arg)
{
    const struct linger at_once = {1, 0};
    hd_io ends[2];
    pthread_t thread;
    struct nets_call reader;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        nets_watched_pair(ends);
        nets_begin(&reader, ends[0], nets_do_read);
        EXPECT_EQ(hd_set_option(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, close_from_thread, &ends[1]), 0);
        EXPECT_EQ(nets_end(&reader), -ECONNRESET);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_DRIVERS(a_thread_may_reset, options) { rt_run(reset_from_thread, NULL, options); }

TEST_DRIVERS(a_thread_may_close, options)
{
    rt_run(from_thread, NULL, options);
}

/* What is not closed is, with the runtime. */
static int leave_open(void *arg)
{
    (void)arg;
    hd_io ends[2], listener = nets_listen(), udp;
    struct nets_call reader;
    for (int kind = 0; kind < NETS_KINDS; kind++) nets_pair((enum nets_kind)kind, ends);
    EXPECT_EQ(hd_udp_open(&udp, ":0"), 0);
    nets_begin(&reader, ends[0], nets_do_read);
    hd_cancel(reader.task);
    EXPECT_EQ(nets_end(&reader), -ECANCELED);
    (void)nets_connect(listener);
    return 0;
}

TEST_IO(nothing_is_left_open, options)
{
    const unsigned fds = nets_count_fds();
    rt_run(leave_open, NULL, options);
    EXPECT_EQ(nets_count_fds(), fds);
}

/* Several close, and use, the same handle at once: one succeeds. */
enum { CLOSERS = 4 };

struct fight {
    hd_io io;
    atomic_int closed;
};

static int fight(void *arg)
{
    struct fight *f = arg;
    char byte;
    hd_addr addr;
    for (int i = 0; i < 3; i++) {
        int err = hd_local_addr(f->io, &addr);
        EXPECT(err == 0 || err == -EBADF);
        err = (int)hd_read_until(f->io, &byte, 1, HD_NOW);
        EXPECT(err == -EAGAIN || err == -EBADF);
        hd_yield();
    }
    const int err = hd_close(f->io);
    EXPECT(err == 0 || err == -EBADF);
    if (err == 0) atomic_fetch_add(&f->closed, 1);
    return 0;
}

static int fights(void *arg)
{
    (void)arg;
    for (int round = 0; round < 100; round++) {
        hd_io ends[2];
        nets_pair(round % 2 ? NETS_UNIX : NETS_TCP, ends);
        struct fight f = {.io = ends[0]};
        hd_task *tasks[CLOSERS];
        char byte;
        EXPECT_EQ(hd_read_until(f.io, &byte, 1, hd_now(NULL) + 1000), -ETIMEDOUT);
        for (int i = 0; i < CLOSERS; i++) tasks[i] = rt_spawn(NULL, fight, &f);
        for (int i = 0; i < CLOSERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
        EXPECT_EQ(atomic_load(&f.closed), 1);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(one_of_many_closes, options)
{
    const hd_options own = rt_workers(options, 4);
    rt_run_plain(fights, NULL, &own);
}

/* ---- in sim: told of what is not there ---- */

static int spurious(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sim_calls(0, HD_SIM_ALWAYS / 2), 0);
    for (int i = 0; i < 30; i++) {
        hd_io ends[2];
        struct nets_call reader;
        nets_pair(NETS_UNIX, ends);
        nets_begin(&reader, ends[0], nets_do_read);
        for (int turns = 0; turns < i % 4; turns++) hd_yield();
        EXPECT_EQ(hd_close(ends[0]), 0);
        EXPECT_EQ(nets_end(&reader), -ECANCELED);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(a_false_alarm_before_the_close_changes_nothing, options)
{
    const hd_options own = rt_workers(options, 1);
    if (rt_is_sim(options)) rt_run(spurious, NULL, &own);
}
