/* SPDX-License-Identifier: MIT
 *
 * nets: handles that are connected to each other, for tests of I/O. All expect success.
 */
#ifndef TEST_NETS_H
#define TEST_NETS_H

#include <sys/socket.h>

#include "proc.h"
#include "rt.h"

/* Each kind of stream; all but the last go both ways. */
enum nets_kind { NETS_TCP, NETS_UNIX, NETS_PIPE, NETS_KINDS };

static inline bool nets_in_sim(void)
{
    return hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM;
}

static inline hd_io nets_listen(void)
{
    hd_io listener;
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.1:0", NULL), 0);
    return listener;
}

static inline hd_addr nets_addr(hd_io io)
{
    hd_addr addr;
    EXPECT_EQ(hd_local_addr(io, &addr), 0);
    return addr;
}

static inline hd_io nets_connect(hd_io listener)
{
    const hd_addr addr = nets_addr(listener);
    hd_io conn;
    EXPECT_EQ(hd_connect(&conn, &addr), 0);
    return conn;
}

static inline hd_io nets_accept(hd_io listener)
{
    hd_io conn;
    EXPECT_EQ(hd_accept(listener, &conn, NULL), 0);
    return conn;
}

static inline void nets_close(hd_io a, hd_io b)
{
    EXPECT_EQ(hd_close(a), 0);
    EXPECT_EQ(hd_close(b), 0);
}

/* Two ends: what is written to ends[1] is read from ends[0]. */
static inline void nets_pair(enum nets_kind kind, hd_io ends[2])
{
    if (kind == NETS_PIPE) EXPECT_EQ(hd_pipe(ends), 0);
    if (kind == NETS_UNIX) EXPECT_EQ(hd_unix_pair(ends), 0);
    if (kind != NETS_TCP) return;
    const hd_io listener = nets_listen();
    ends[1] = nets_connect(listener);
    ends[0] = nets_accept(listener);
    EXPECT_EQ(hd_close(listener), 0);
}

/* Call it with two ends of each kind, as the first fiber of a runtime for each. */
struct nets_each {
    void (*fn)(hd_io ends[2], enum nets_kind kind);
    enum nets_kind kind;
};

static inline int nets_each_(void *arg)
{
    const struct nets_each *each = arg;
    hd_io ends[2];
    nets_pair(each->kind, ends);
    each->fn(ends, each->kind);
    (void)hd_close(ends[0]); /* Or it was closed. */
    (void)hd_close(ends[1]);
    return 0;
}

static inline void nets_each_kind(void (*fn)(hd_io ends[2], enum nets_kind kind),
                                  const hd_options *options)
{
    for (int kind = 0; kind < NETS_KINDS; kind++) {
        struct nets_each each = {fn, (enum nets_kind)kind};
        rt_run(nets_each_, &each, options);
    }
}

/* By then the kernel has made all the room there will be: a receiver's TCP may acknowledge, and a
 * sender's try again, only after 200 ms. */
static inline int64_t nets_full_after_ms_(hd_io io)
{
    hd_addr addr;
    const bool tcp = hd_local_addr(io, &addr) == 0 && addr.family != AF_UNIX;
    return tcp ? 300 : 10;
}

/* Write until there is no room, nor will be. Returns how many bytes that were. */
static inline size_t nets_fill(hd_io io)
{
    static const char block[4096];
    const int64_t quiet_ms = nets_full_after_ms_(io);
    size_t all = 0;
    for (;;) {
        ssize_t n = hd_write_until(io, block, sizeof(block), HD_NOW);
        if (n == -EAGAIN) n = hd_write_until(io, block, 1, hd_after_ms(quiet_ms));
        if (n == -ETIMEDOUT) return all;
        EXPECT(n > 0);
        all += (size_t)n;
    }
}

/* Read to the end. */
static inline void nets_drain(hd_io io)
{
    char block[4096];
    ssize_t n;
    while ((n = hd_read(io, block, sizeof(block))) > 0) continue;
    EXPECT_EQ(n, 0);
}

/* A byte goes from one end to the other. */
static inline void nets_expect_byte(hd_io from, hd_io to, char byte)
{
    char got = 0;
    EXPECT_EQ(hd_write_all(from, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_read_exact(to, &got, 1, NULL), 0);
    EXPECT_EQ(got, byte);
}

/* The descriptors that the process has open, and two. */
static inline unsigned nets_count_fds(void)
{
    return proc_count("fd");
}

/* A task that makes one call, and then tells what it returned. */
struct nets_call {
    hd_io io;
    ssize_t (*fn)(struct nets_call *call);
    int64_t deadline;
    atomic_int begun;
    char byte;
    hd_task *task;
};

static inline int nets_call_(void *arg)
{
    struct nets_call *call = arg;
    atomic_store(&call->begun, 1);
    return (int)call->fn(call);
}

/* Begin it; it waits by then, or is about to. */
static inline void nets_begin(struct nets_call *call, hd_io io,
                              ssize_t (*fn)(struct nets_call *call))
{
    *call = (struct nets_call){.io = io, .fn = fn, .deadline = HD_FOREVER};
    call->task = rt_spawn(NULL, nets_call_, call);
    rt_until(&call->begun);
    hd_yield();
}

static inline int nets_end(struct nets_call *call)
{
    return rt_join(call->task);
}

static inline ssize_t nets_do_read(struct nets_call *call)
{
    return hd_read_until(call->io, &call->byte, 1, call->deadline);
}

static inline ssize_t nets_do_write(struct nets_call *call)
{
    return hd_write_until(call->io, &call->byte, 1, call->deadline);
}

/* Two ends of a connection on each of which somebody has waited: its driver knows them. */
static inline void nets_watched_pair(hd_io ends[2])
{
    nets_pair(NETS_TCP, ends);
    for (int i = 0; i < 2; i++) {
        struct nets_call reader;
        nets_begin(&reader, ends[i], nets_do_read);
        EXPECT_EQ(hd_write(ends[1 - i], "w", 1), 1);
        EXPECT_EQ(nets_end(&reader), 1);
    }
}

static inline ssize_t nets_do_accept(struct nets_call *call)
{
    hd_io conn;
    const int err = hd_accept_until(call->io, &conn, NULL, call->deadline);
    return err ? err : hd_close(conn);
}

#endif
