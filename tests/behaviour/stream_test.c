/* SPDX-License-Identifier: MIT
 *
 * Reading and writing: the same of TCP, of Unix sockets and of pipes.
 */
#include "nets.h"

#include <limits.h>
#include <pthread.h>
#include <sys/uio.h>

TEST_MAIN

/* ---- what is written is read ---- */

static void some_bytes(hd_io ends[2], enum nets_kind kind)
{
    char text[16];
    size_t done = 0;
    EXPECT_EQ(hd_read_until(ends[0], text, sizeof(text), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_write_all(ends[1], "hello, world", 12, &done), 0);
    EXPECT_EQ(done, 12);
    EXPECT_EQ(hd_read_exact(ends[0], text, 5, &done), 0);
    EXPECT_EQ(done, 5);
    EXPECT_EQ(hd_read_exact(ends[0], text + 5, 7, NULL), 0);
    EXPECT(memcmp(text, "hello, world", 12) == 0);
    EXPECT_EQ(hd_read_until(ends[0], text, sizeof(text), HD_NOW), -EAGAIN);
    if (kind != NETS_PIPE) nets_expect_byte(ends[0], ends[1], '!');
}

TEST_IO(what_is_written_is_read, options) { nets_each_kind(some_bytes, options); }

static void in_parts(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    char a[3], b[1], c[20];
    const struct iovec out[] = {{"one", 3}, {"", 0}, {"twothree", 8}};
    const struct iovec in[] = {{a, 3}, {c, 0}, {b, 1}, {c, sizeof(c)}};
    char all[11];
    size_t have = 0;
    ssize_t n = hd_writev(ends[1], out, 3);
    EXPECT(n > 0 && n <= 11);
    if (n < 11) EXPECT_EQ(hd_write_all(ends[1], &"onetwothree"[n], 11 - (size_t)n, NULL), 0);
    while (have < sizeof(all)) { /* Each may be short, and fills its parts in order. */
        n = hd_readv(ends[0], in, 4);
        EXPECT(n > 0);
        for (size_t i = 0; i < (size_t)n; i++) all[have++] = i < 3 ? a[i] : i < 4 ? b[0] : c[i - 4];
    }
    EXPECT_EQ(have, 11);
    EXPECT(memcmp(all, "onetwothree", 11) == 0);
    EXPECT_EQ(hd_readv_until(ends[0], in, 4, HD_NOW), -EAGAIN);
}

TEST_IO(parts_are_filled_in_order, options) { nets_each_kind(in_parts, options); }

static void wrong_counts(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    const struct iovec part = {"x", 1};
    EXPECT_EQ(hd_readv(ends[0], &part, -1), -EINVAL);
    EXPECT_EQ(hd_readv(ends[0], &part, IOV_MAX + 1), -EINVAL);
    EXPECT_EQ(hd_writev(ends[1], &part, -1), -EINVAL);
    EXPECT_EQ(hd_writev(ends[1], &part, IOV_MAX + 1), -EINVAL);
    EXPECT_EQ(hd_write(ends[1], "", 0), 0);
    EXPECT_EQ(hd_write_all(ends[1], "", 0, NULL), 0);
    EXPECT_EQ(hd_read_exact(ends[0], NULL, 0, NULL), 0);
    nets_expect_byte(ends[1], ends[0], '1');
}

TEST_IO(counts_are_checked, options) { nets_each_kind(wrong_counts, options); }

/* It does not wait for more when something is there. */
static void no_bytes(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    char two[2];
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_write_all(ends[1], "123", 3, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    EXPECT_EQ(hd_read(ends[0], two, 0), 0);
    EXPECT_EQ(hd_read_exact(ends[0], two, 2, NULL), 0);
    EXPECT(memcmp(two, "23", 2) == 0);
}

TEST_IO(reading_nothing_takes_nothing, options) { nets_each_kind(no_bytes, options); }

/* ---- the end ---- */

static void to_the_end(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    char text[8];
    size_t done = 9;
    EXPECT_EQ(hd_write_all(ends[1], "abc", 3, NULL), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(hd_read_exact(ends[0], text, 5, &done), -EPIPE);
    EXPECT_EQ(done, 3);
    EXPECT(memcmp(text, "abc", 3) == 0);
    EXPECT_EQ(hd_read(ends[0], text, 1), 0); /* for good */
    EXPECT_EQ(hd_read_until(ends[0], text, 1, HD_NOW), 0);
    EXPECT_EQ(hd_read_exact(ends[0], text, 1, &done), -EPIPE);
    EXPECT_EQ(done, 0);
}

TEST_IO(the_end_is_told_after_the_rest, options) { nets_each_kind(to_the_end, options); }

static void end_while_waiting(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(nets_end(&reader), 0);
}

TEST_IO(the_end_wakes_who_reads, options) { nets_each_kind(end_while_waiting, options); }

/* It takes a reset to tell TCP, and that comes after the first bytes. */
static void nobody_reads(hd_io ends[2], enum nets_kind kind)
{
    size_t done;
    int err = 0;
    EXPECT_EQ(hd_close(ends[0]), 0);
    while (!err) err = hd_write_all(ends[1], "x", 1, &done);
    EXPECT(err == -EPIPE || (kind == NETS_TCP && err == -ECONNRESET));
    EXPECT_EQ(done, 0);
    EXPECT_EQ(hd_write(ends[1], "x", 1), -EPIPE);
}

TEST_IO(a_reader_that_is_gone_is_an_error, options) { nets_each_kind(nobody_reads, options); }

static void gone_while_waiting(hd_io ends[2], enum nets_kind kind)
{
    struct nets_call writer;
    nets_fill(ends[1]);
    nets_begin(&writer, ends[1], nets_do_write);
    EXPECT_EQ(hd_close(ends[0]), 0);
    const int err = nets_end(&writer);
    EXPECT(err == -EPIPE || (kind != NETS_PIPE && err == -ECONNRESET));
}

TEST_IO(a_reader_that_goes_wakes_who_writes, options)
{
    nets_each_kind(gone_while_waiting, options);
}

/* ---- giving up ---- */

static void late(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    char byte;
    size_t done = 9;
    int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, deadline), -ETIMEDOUT); /* It has passed. */
    EXPECT_EQ(hd_write_all(ends[1], "a", 1, NULL), 0);
    char two[2];
    const int64_t patience_ms = nets_in_sim() ? 50 : 1000; /* The first byte comes before. */
    EXPECT_EQ(hd_read_exact_until(ends[0], two, 2, &done, hd_after_ms(patience_ms)), -ETIMEDOUT);
    EXPECT_EQ(done, 1);
    nets_fill(ends[1]);
    deadline = hd_after_ms(3);
    EXPECT_EQ(hd_write_until(ends[1], "b", 1, deadline), -ETIMEDOUT);
    EXPECT_EQ(hd_write_all_until(ends[1], "b", 1, &done, hd_after_ms(3)), -ETIMEDOUT);
    EXPECT_EQ(done, 0);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_read(ends[0], two, 2) > 0, true);
}

TEST_IO(deadlines_end_reads_and_writes, options) { nets_each_kind(late, options); }

static void cancelled(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    struct nets_call call;
    char byte;
    nets_begin(&call, ends[0], nets_do_read);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_expect_byte(ends[1], ends[0], 'c');
    size_t filled = nets_fill(ends[1]);
    nets_begin(&call, ends[1], nets_do_write);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    while (filled > 0) { /* Nothing was written, and nothing lost. */
        char block[4096];
        const ssize_t n = hd_read(ends[0], block, filled < 4096 ? filled : 4096);
        EXPECT(n > 0);
        filled -= (size_t)n;
    }
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(3)), -ETIMEDOUT);
}

TEST_IO(cancel_ends_reads_and_writes, options) { nets_each_kind(cancelled, options); }

/* ---- nothing is lost: each reader is cancelled, or times out, about when a byte comes ---- */

enum { NUMBERS = 300 };

static int write_numbers(void *arg)
{
    const hd_io *out = arg;
    for (int i = 0; i < NUMBERS; i++) {
        const char byte = (char)i;
        EXPECT_EQ(hd_write_all(*out, &byte, 1, NULL), 0);
        hd_yield();
    }
    return 0;
}

static void impatient(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    hd_task *writer = rt_spawn(NULL, write_numbers, &ends[1]);
    int next = 0, given_up = 0;
    while (next < NUMBERS) {
        struct nets_call call = {.io = ends[0], .fn = nets_do_read, .deadline = HD_FOREVER};
        if (given_up % 2) call.deadline = hd_now(NULL) + 20000;
        hd_task *reader = rt_spawn(NULL, nets_call_, &call);
        for (int i = 0; i < given_up % 5; i++) hd_yield();
        hd_cancel(reader);
        const int n = rt_join(reader);
        EXPECT(n == 1 || n == -ECANCELED || n == -ETIMEDOUT);
        given_up++;
        if (n != 1) continue;
        EXPECT_EQ(call.byte, (char)next);
        next++;
    }
    EXPECT_EQ(rt_join(writer), 0);
}

TEST_IO(a_cancelled_read_takes_nothing, options) { nets_each_kind(impatient, options); }

/* ---- a lot ---- */

struct flood {
    hd_io io;
    size_t bytes;
    bool slow;
};

static unsigned char byte_at(size_t i)
{
    return (unsigned char)((i * 2654435761u) >> 13);
}

static int flood_write(void *arg)
{
    const struct flood *flood = arg;
    unsigned char block[12007];
    for (size_t at = 0; at < flood->bytes;) {
        const size_t left = flood->bytes - at, n = left < sizeof(block) ? left : sizeof(block);
        for (size_t i = 0; i < n; i++) block[i] = byte_at(at + i);
        EXPECT_EQ(hd_write_all(flood->io, block, n, NULL), 0);
        at += n;
    }
    return 0;
}

static int flood_read(void *arg)
{
    const struct flood *flood = arg;
    unsigned char block[8009]; /* both fit on a small stack */
    for (size_t at = 0, turn = 0; at < flood->bytes; turn++) {
        const ssize_t n = hd_read(flood->io, block, turn % 7 ? sizeof(block) : 1 + turn % 100);
        EXPECT(n > 0);
        for (size_t i = 0; i < (size_t)n; i++) EXPECT(block[i] == byte_at(at + i));
        at += (size_t)n;
        if (flood->slow && turn % 64 == 0) EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    return 0;
}

static void much(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    const size_t bytes = nets_in_sim() ? 200000 : 10 << 20;
    struct flood in = {ends[0], bytes, true}, out = {ends[1], bytes, false};
    hd_task *writer = rt_spawn(NULL, flood_write, &out);
    EXPECT_EQ(flood_read(&in), 0);
    EXPECT_EQ(rt_join(writer), 0);
}

TEST_IO(a_writer_waits_for_a_slow_reader, options) { nets_each_kind(much, options); }

/* ---- giving up with several parts ---- */

/* The bytes from `at` on, in parts of which the second is empty. */
static ssize_t writev_pattern(hd_io io, size_t at, int64_t deadline)
{
    unsigned char block[5000];
    for (size_t i = 0; i < sizeof(block); i++) block[i] = byte_at(at + i);
    const struct iovec parts[] = {{block, 1}, {NULL, 0}, {block + 1, 999}, {block + 1000, 4000}};
    return hd_writev_until(io, parts, 4, deadline);
}

/* Write until a deadline has ended a write. Returns how many bytes that were. */
static size_t writev_until_full(hd_io io, size_t at)
{
    for (;;) {
        int64_t deadline = HD_NOW;
        ssize_t n = writev_pattern(io, at, deadline);
        if (n == -EAGAIN) {
            deadline = hd_after_ms(10);
            n = writev_pattern(io, at, deadline);
        }
        if (n == -ETIMEDOUT) {
            EXPECT(deadline != HD_NOW && hd_now(NULL) >= deadline);
            EXPECT_EQ(writev_pattern(io, at, deadline), -ETIMEDOUT); /* It has passed. */
            return at;
        }
        EXPECT(n > 0 && n <= 5000);
        at += (size_t)n;
    }
}

static void expect_pattern(hd_io io, size_t from, size_t to)
{
    unsigned char block[5000];
    while (from < to) {
        const size_t n = to - from < sizeof(block) ? to - from : sizeof(block);
        EXPECT_EQ(hd_read_exact(io, block, n, NULL), 0);
        for (size_t i = 0; i < n; i++) EXPECT(block[i] == byte_at(from + i));
        from += n;
    }
}

struct gathering {
    hd_io io;
    size_t at;
    atomic_int begun;
};

static int writev_later(void *arg)
{
    struct gathering *later = arg;
    atomic_store(&later->begun, 1);
    return (int)writev_pattern(later->io, later->at, hd_after_ms(60000));
}

/* One that gives up has written nothing; one that waits long enough has written. */
static void late_parts(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    const size_t full = writev_until_full(ends[1], 0);
    struct gathering later = {.io = ends[1], .at = full};
    hd_task *writer = rt_spawn(NULL, writev_later, &later);
    rt_until(&later.begun);
    expect_pattern(ends[0], 0, full);
    const int n = rt_join(writer);
    EXPECT(n > 0 && n <= 5000);
    expect_pattern(ends[0], full, full + (size_t)n);
    EXPECT_EQ(hd_close(ends[1]), 0);
    char byte;
    EXPECT_EQ(hd_read(ends[0], &byte, 1), 0);
}

TEST_IO(deadlines_end_writes_of_parts, options) { nets_each_kind(late_parts, options); }

/* ---- several at once ---- */

/* Each byte goes to one of two readers. */
static void two_readers(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    struct nets_call first, second;
    nets_begin(&first, ends[0], nets_do_read);
    nets_begin(&second, ends[0], nets_do_read);
    EXPECT_EQ(hd_write_all(ends[1], "ab", 2, NULL), 0);
    EXPECT_EQ(nets_end(&first), 1);
    EXPECT_EQ(nets_end(&second), 1);
    EXPECT_EQ(first.byte + second.byte, 'a' + 'b');
    EXPECT(first.byte != second.byte);
}

TEST_IO(two_readers_share, options) { nets_each_kind(two_readers, options); }

static void both_ways(hd_io ends[2], enum nets_kind kind)
{
    if (kind == NETS_PIPE) return;
    const size_t bytes = nets_in_sim() ? 100000 : 3 << 20;
    struct flood flood[4] = {{ends[0], bytes, false}, {ends[1], bytes, false},
                             {ends[1], bytes, false}, {ends[0], bytes, false}};
    hd_task *tasks[] = {rt_spawn(NULL, flood_read, &flood[0]),
                        rt_spawn(NULL, flood_write, &flood[1]),
                        rt_spawn(NULL, flood_read, &flood[2])};
    EXPECT_EQ(flood_write(&flood[3]), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
}

/* A reader that waits is not in a writer's way. */
TEST_IO(a_handle_is_read_and_written_at_once, options) { nets_each_kind(both_ways, options); }

/* ---- from outside ---- */

static int give_pair(void *arg)
{
    hd_io *ends = arg;
    nets_pair(NETS_TCP, ends);
    return 0;
}

static void *write_from_thread(void *arg)
{
    EXPECT_EQ(flood_write(arg), 0);
    return NULL;
}

/* In sim a thread drives the runtime while it waits, so there is only one. */
TEST_IO(threads_read_and_write, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_io ends[2];
    char byte;
    EXPECT_EQ(rt_join(rt_spawn(runtime, give_pair, ends)), 0);
    struct flood in = {ends[0], 1 << 20, false}, out = {ends[1], 1 << 20, false};
    if (rt_is_sim(options)) {
        in.bytes = out.bytes = 100000;
        hd_task *task = rt_spawn(runtime, flood_write, &out);
        EXPECT_EQ(flood_read(&in), 0);
        EXPECT_EQ(rt_join(task), 0);
    } else {
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, write_from_thread, &out), 0);
        EXPECT_EQ(flood_read(&in), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(2)), -ETIMEDOUT);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, HD_NOW), -EAGAIN);
    nets_close(ends[0], ends[1]);
    EXPECT_EQ(hd_read(ends[0], &byte, 1), -EBADF);
    hd_runtime_destroy(runtime);
}

/* Nobody else could wake it, but the kernel can. */
static int wait_long(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    nets_pair(NETS_TCP, ends);
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    reader.deadline = HD_FOREVER;
    EXPECT_EQ(hd_sleep_ms(30), 0);
    EXPECT_EQ(hd_write_all(ends[1], "x", 1, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, HD_NOW), -EAGAIN);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(one_worker_waits_for_all, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(wait_long, NULL, &own);
}
