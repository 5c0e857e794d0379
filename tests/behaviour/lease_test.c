/* SPDX-License-Identifier: MIT
 *
 * Reading by leases, and echoing: what comes, whoever waits, and how waits end. How leases go with
 * copies is in lease_mix_test.c, what else they are written to in lease_write_test.c.
 */
#include "leases.h"

#include <netinet/in.h>
#include <pthread.h>

TEST_MAIN

static const size_t sizes[] = {64, 1, 2048, LEASES_LARGE, HD_LEASE_MAX, 70000, 300000, 1, 64};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* ---- what comes ---- */

static void all_sizes(hd_io ends[2], enum nets_kind kind)
{
    for (size_t i = 0; i < SIZES; i++) {
        leases_pass(ends[1], ends[0], sizes[i], i);
        if (kind != NETS_PIPE) leases_pass(ends[0], ends[1], sizes[i], i);
    }
}

TEST_IO(messages_of_all_sizes_arrive, options)
{
    const hd_options own = rt_one_lane(options);
    nets_each_kind(all_sizes, &own);
    nets_each_kind(all_sizes, options);
}

/* One message after the other; the peer copies. */
static int echo_all_sizes(void *arg)
{
    hd_io ends[2];
    const size_t rounds = nets_in_sim() ? 2 : 20;
    (void)arg;
    nets_pair(NETS_TCP, ends);
    struct leases_way back = {ends[0], ends[0]};
    hd_task *echo = rt_spawn(NULL, leases_carry, &back);
    for (size_t i = 0; i < rounds * SIZES; i++) {
        struct leases_part part = {.io = ends[1], .bytes = sizes[i % SIZES], .at = i};
        hd_task *reader = rt_spawn(NULL, leases_copy, &part);
        EXPECT_EQ(leases_send(&part), 0);
        EXPECT_EQ(rt_join(reader), 0);
    }
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    EXPECT_EQ(rt_join(echo), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(echoes_of_all_sizes, options) { leases_run(echo_all_sizes, NULL, options); }

/* Both ends echo what was sent first: some thousand times through the same buffers. */
static int to_and_fro(void *arg)
{
    hd_io ends[2];
    const size_t bytes = *(size_t *)arg, all = bytes * (nets_in_sim() ? 50 : 3000);
    leases_pair(ends, bytes > 2048);
    struct leases_way back = {ends[0], ends[0]};
    struct leases_part part = {.io = ends[1], .bytes = bytes};
    hd_task *echo = rt_spawn(NULL, leases_carry, &back);
    EXPECT_EQ(leases_send(&part), 0);
    for (size_t got = 0, sent = bytes; got < all;) {
        hd_lease lease = {0};
        const ssize_t n = hd_lease_read(ends[1], &lease);
        EXPECT(n > 0 && (size_t)n <= sent - got);
        for (size_t i = 0; i < lease.count; i++, got++) {
            EXPECT_EQ(lease.bytes[i], leases_byte(got % bytes));
        }
        if (lease.count > all - sent) lease.count = all - sent;
        sent += lease.count;
        EXPECT_EQ(hd_lease_write(ends[1], &lease), 0);
    }
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    EXPECT_EQ(rt_join(echo), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(a_message_goes_to_and_fro, options)
{
    size_t bytes = 64;
    leases_run(to_and_fro, &bytes, options);
    bytes = 5000;
    leases_run(to_and_fro, &bytes, options);
}

/* ---- many at once; who writes does not wait for the echoes ---- */

enum { CROWD = 100, CROWD_SIM = 10 };

struct member {
    hd_io ends[2];
    struct leases_way back;
    struct leases_part part;
    hd_task *echo, *writer, *reader;
};

static size_t crowd_size(void)
{
    return nets_in_sim() ? CROWD_SIM : CROWD;
}

static int pipelined(void *arg)
{
    struct member *members = calloc(CROWD, sizeof(*members));
    (void)arg;
    for (size_t i = 0; i < crowd_size(); i++) {
        struct member *member = &members[i];
        const size_t piece = i % 2 ? LEASES_LARGE : 64;
        nets_pair(NETS_TCP, member->ends);
        member->back = (struct leases_way){member->ends[0], member->ends[0]};
        member->part = (struct leases_part){member->ends[1], piece * 20, i, piece};
        member->echo = rt_spawn(NULL, leases_carry, &member->back);
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < crowd_size(); i++) {
            members[i].writer = rt_spawn(NULL, leases_send, &members[i].part);
            members[i].reader = rt_spawn(NULL, leases_copy, &members[i].part);
        }
        for (size_t i = 0; i < crowd_size(); i++) {
            EXPECT_EQ(rt_join(members[i].writer), 0);
            EXPECT_EQ(rt_join(members[i].reader), 0);
        }
    }
    for (size_t i = 0; i < crowd_size(); i++) {
        EXPECT_EQ(hd_shutdown(members[i].ends[1], SHUT_WR), 0);
        EXPECT_EQ(rt_join(members[i].echo), 0);
        nets_close(members[i].ends[0], members[i].ends[1]);
    }
    free(members);
    return 0;
}

TEST_IO(many_echo_what_is_pipelined, options) { leases_run(pipelined, NULL, options); }

/* ---- the end, and errors ---- */

static void to_the_end(hd_io ends[2], enum nets_kind kind)
{
    hd_lease lease = {0};
    leases_pass(ends[1], ends[0], kind == NETS_TCP ? LEASES_LARGE : 100, 0);
    struct leases_part rest = {.io = ends[1], .bytes = 1000};
    EXPECT_EQ(leases_send(&rest), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    rest.io = ends[0];
    EXPECT_EQ(leases_take(&rest), 0);
    for (int i = 0; i < 2; i++) { /* for good */
        EXPECT_EQ(hd_lease_read(ends[0], &lease), 0);
        EXPECT_EQ(hd_lease_read_until(ends[0], &lease, HD_NOW), 0);
        EXPECT(leases_is_none(&lease));
    }
}

TEST_IO(the_end_is_told_after_the_rest, options) { nets_each_kind(to_the_end, options); }

/* A call by a task of its own. */
struct reading {
    hd_io io;
    int64_t deadline;
    atomic_int begun;
    hd_lease lease;
    hd_task *task;
};

static int read_one(void *arg)
{
    struct reading *reading = arg;
    atomic_store(&reading->begun, 1);
    const ssize_t n = hd_lease_read_until(reading->io, &reading->lease, reading->deadline);
    if (n <= 0) EXPECT(leases_is_none(&reading->lease));
    else EXPECT_EQ(reading->lease.count, n);
    return (int)n;
}

/* It waits by then, or is about to. */
static void begin(struct reading *reading, hd_io io)
{
    *reading = (struct reading){.io = io, .deadline = HD_FOREVER};
    reading->task = rt_spawn(NULL, read_one, reading);
    rt_until(&reading->begun);
    hd_yield();
}

static int wait_for_the_end(void *arg)
{
    hd_io ends[2];
    struct reading reading;
    (void)arg;
    for (int much = 0; much < 2; much++) {
        leases_pair(ends, much);
        begin(&reading, ends[0]);
        EXPECT_EQ(hd_close(ends[1]), 0);
        EXPECT_EQ(rt_join(reading.task), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_IO(the_end_wakes_who_reads, options) { leases_run(wait_for_the_end, NULL, options); }

static int wait_for_a_reset(void *arg)
{
    const struct linger at_once = {1, 0};
    hd_io ends[2];
    struct reading reading;
    (void)arg;
    for (int much = 0; much < 2; much++) {
        leases_pair(ends, much);
        begin(&reading, ends[0]);
        EXPECT_EQ(hd_set_option(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        EXPECT_EQ(hd_close(ends[1]), 0);
        EXPECT_EQ(rt_join(reading.task), -ECONNRESET);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_IO(a_reset_is_told, options) { leases_run(wait_for_a_reset, NULL, options); }

static int use_wrongly(void *arg)
{
    hd_io ends[2];
    hd_lease lease = {0};
    (void)arg;
    leases_pair(ends, false);
    EXPECT_EQ(hd_lease_write(ends[1], &lease), -EINVAL);
    lease = leases_one(ends[1], ends[0], 20, 0);
    const hd_lease before = lease;
    struct leases_part more = {.io = ends[1], .bytes = 10};
    EXPECT_EQ(leases_send(&more), 0);
    EXPECT_EQ(hd_lease_read(ends[0], &lease), -EINVAL);
    EXPECT(memcmp(&lease, &before, sizeof(lease)) == 0);
    hd_lease_end(&lease);
    EXPECT(leases_is_none(&lease));
    hd_lease_end(&lease); /* It was none. */
    EXPECT_EQ(hd_lease_write(ends[1], &lease), -EINVAL);
    more.io = ends[0];
    EXPECT_EQ(leases_take(&more), 0);
    lease = leases_one(ends[1], ends[0], 20, 0);
    nets_close(ends[0], ends[1]);
    const size_t count = lease.count;
    EXPECT_EQ(hd_lease_write(ends[1], &lease), -EBADF);
    EXPECT_EQ(lease.count, count); /* It goes on. */
    leases_expect(lease.bytes, count, 0);
    hd_lease_end(&lease);
    EXPECT_EQ(hd_lease_read(ends[0], &lease), -EBADF);
    EXPECT_EQ(hd_lease_read((hd_io){0}, &lease), -EBADF);
    EXPECT(leases_is_none(&lease));
    return 0;
}

TEST_IO(wrong_use_is_told, options) { rt_run_plain(use_wrongly, NULL, options); }

/* As by hd_read() and hd_write(); also while somebody waits to accept. */
static int use_listener(void *arg)
{
    hd_lease lease = {0};
    hd_io ends[2];
    struct nets_call accepting;
    char byte;
    (void)arg;
    leases_pair(ends, false);
    const hd_io listener = nets_listen();
    nets_begin(&accepting, listener, nets_do_accept);
    EXPECT_EQ(hd_read_until(listener, &byte, 1, HD_NOW), -ENOTCONN);
    EXPECT_EQ(hd_lease_read_until(listener, &lease, HD_NOW), -ENOTCONN);
    lease = leases_one(ends[1], ends[0], 20, 0);
    EXPECT_EQ(hd_write(listener, "x", 1), -ENOTCONN);
    EXPECT_EQ(hd_lease_write(listener, &lease), -ENOTCONN);
    EXPECT(!leases_is_none(&lease));
    hd_lease_end(&lease);
    const hd_io conn = nets_connect(listener);
    EXPECT_EQ(nets_end(&accepting), 0);
    nets_close(ends[0], ends[1]);
    nets_close(conn, listener);
    return 0;
}

TEST_IO(a_listener_has_no_bytes, options) { leases_run(use_listener, NULL, options); }

/* ---- giving up ---- */

static void late(hd_io ends[2], enum nets_kind kind)
{
    hd_lease lease = {0};
    leases_pass(ends[1], ends[0], kind == NETS_TCP ? LEASES_LARGE : 100, 0);
    for (size_t i = 0; i < SIZES; i++) {
        EXPECT_EQ(hd_lease_read_until(ends[0], &lease, HD_NOW), -EAGAIN);
        const int64_t deadline = hd_now(NULL) + 1000000;
        EXPECT_EQ(hd_lease_read_until(ends[0], &lease, deadline), -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= deadline);
        EXPECT(leases_is_none(&lease));
        leases_pass(ends[1], ends[0], sizes[i], i);
    }
    /* What has come is there, whatever the deadline. */
    EXPECT_EQ(hd_write_all(ends[1], "n", 1, NULL), 0);
    hd_case readable = HD_READABLE(ends[0]);
    EXPECT_EQ(hd_select(&readable, 1), 0);
    EXPECT_EQ(hd_lease_read_until(ends[0], &lease, HD_NOW), 1);
    EXPECT_EQ(lease.bytes[0], 'n');
    hd_lease_end(&lease);
}

TEST_IO(a_read_that_gave_up_takes_nothing, options)
{
    const hd_options own = rt_one_lane(options);
    nets_each_kind(late, &own);
    nets_each_kind(late, options);
}

static int cancelled(void *arg)
{
    hd_io ends[2];
    struct reading reading;
    (void)arg;
    for (int much = 0; much < 2; much++) {
        leases_pair(ends, much);
        begin(&reading, ends[0]);
        hd_cancel(reading.task);
        EXPECT_EQ(rt_join(reading.task), -ECANCELED);
        leases_pass(ends[1], ends[0], much ? 70000 : 64, 0);
        begin(&reading, ends[0]);
        EXPECT_EQ(hd_close(ends[0]), 0);
        EXPECT_EQ(rt_join(reading.task), -ECANCELED);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(a_cancel_or_a_close_ends_a_wait, options) { leases_run(cancelled, NULL, options); }

/* ---- nothing is lost: each reader is cancelled, or times out, about when a message comes ---- */

struct messages {
    hd_io io;
    size_t bytes, count;
};

static int send_messages(void *arg)
{
    const struct messages *messages = arg;
    for (size_t i = 0; i < messages->count; i++) {
        struct leases_part part = {.io = messages->io, .bytes = messages->bytes};
        part.at = i * messages->bytes;
        EXPECT_EQ(leases_send(&part), 0);
        for (size_t k = 0; k < i % 4; k++) hd_yield();
    }
    return 0;
}

static void be_impatient(const struct messages *messages, hd_io io)
{
    const size_t all = messages->bytes * messages->count;
    for (size_t got = 0, turn = 0; got < all; turn++) {
        struct reading reading = {.io = io, .deadline = HD_FOREVER};
        if (turn % 2) reading.deadline = hd_now(NULL) + (int64_t)(turn % 50) * 1000;
        reading.task = rt_spawn(NULL, read_one, &reading);
        for (size_t i = 0; i < turn % 6; i++) hd_yield();
        if (turn % 3) hd_cancel(reading.task);
        const int n = rt_join(reading.task);
        EXPECT(n > 0 || n == -ECANCELED || n == -ETIMEDOUT);
        if (n < 0) continue;
        leases_expect(reading.lease.bytes, reading.lease.count, got);
        got += reading.lease.count;
        hd_lease_end(&reading.lease);
    }
}

static int impatient(void *arg)
{
    const size_t bytes[] = {64, 5000, LEASES_LARGE, 40000};
    (void)arg;
    for (int i = 0; i < 4; i++) {
        hd_io ends[2];
        leases_pair(ends, bytes[i] > 2048);
        struct messages messages = {ends[1], bytes[i], nets_in_sim() ? 15 : 300};
        hd_task *writer = rt_spawn(NULL, send_messages, &messages);
        be_impatient(&messages, ends[0]);
        EXPECT_EQ(rt_join(writer), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_IO(a_read_that_ends_early_loses_nothing, options) { leases_run(impatient, NULL, options); }

/* It is closed about when much comes. What has come by then is nobody's. */
static int close_amid(void *arg)
{
    const int rounds = nets_in_sim() ? 10 : 200;
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        hd_io ends[2];
        struct reading reading;
        leases_pair(ends, true);
        begin(&reading, ends[0]);
        struct leases_part part = {.io = ends[1], .bytes = LEASES_LARGE};
        EXPECT_EQ(leases_send(&part), 0);
        for (int k = 0; k < i % 4; k++) hd_yield();
        EXPECT_EQ(hd_close(ends[0]), 0);
        const int n = rt_join(reading.task);
        EXPECT(n > 0 || n == -ECANCELED || n == -EBADF);
        if (n > 0) leases_expect(reading.lease.bytes, reading.lease.count, 0);
        hd_lease_end(&reading.lease);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(a_close_amid_what_comes, options)
{
    hd_options own = rt_one_lane(options);
    rt_run(close_amid, NULL, &own);
    own = rt_workers(options, 4);
    rt_run_plain(close_amid, NULL, &own); /* It may be closed before it is used. */
}

/* ---- who reads ---- */

struct threaded {
    struct leases_part sent, expected;
};

static int connect_two(void *arg)
{
    struct threaded *threaded = arg;
    hd_io ends[2];
    leases_pair(ends, true);
    threaded->sent.io = ends[1];
    threaded->expected.io = ends[0];
    return 0;
}

static void *send_from_thread(void *arg)
{
    EXPECT_EQ(leases_send(arg), 0);
    return NULL;
}

/* In sim a thread drives the runtime while it waits, so there is only one. */
TEST_IO(a_thread_reads, options)
{
    hd_runtime *runtime = rt_create(options);
    const size_t bytes = rt_is_sim(options) ? 100000 : 1 << 20;
    struct threaded threaded = {.sent.bytes = bytes, .sent.piece = 3000, .expected.bytes = bytes};
    hd_lease lease = {0};
    pthread_t thread;
    EXPECT_EQ(rt_join(rt_spawn(runtime, connect_two, &threaded)), 0);
    const hd_io io = threaded.expected.io;
    EXPECT_EQ(hd_lease_read_until(io, &lease, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_lease_read_until(io, &lease, hd_after_ms(2)), -ETIMEDOUT);
    if (rt_is_sim(options)) {
        hd_task *task = rt_spawn(runtime, leases_send, &threaded.sent);
        EXPECT_EQ(leases_take(&threaded.expected), 0);
        EXPECT_EQ(rt_join(task), 0);
    } else {
        EXPECT_EQ(pthread_create(&thread, NULL, send_from_thread, &threaded.sent), 0);
        EXPECT_EQ(leases_take(&threaded.expected), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    nets_close(io, threaded.sent.io);
    hd_runtime_destroy(runtime);
}

/* A thread writes its leases back, too. */
struct echo_thread {
    struct leases_way back;
    hd_sem over;
};

static void *echo_by_thread(void *arg)
{
    struct echo_thread *echo = arg;
    EXPECT_EQ(leases_carry(&echo->back), 0);
    hd_sem_release(&echo->over, 1);
    return NULL;
}

static int talk_to_thread(void *arg)
{
    hd_io ends[2];
    pthread_t thread;
    (void)arg;
    leases_pair(ends, true);
    struct echo_thread echo = {.back = {ends[0], ends[0]}};
    EXPECT_EQ(hd_sem_init(&echo.over, 0), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, echo_by_thread, &echo), 0);
    for (size_t i = 0; i < 3 * SIZES; i++) {
        struct leases_part part = {.io = ends[1], .bytes = sizes[i % SIZES], .at = i};
        hd_task *reader = rt_spawn(NULL, leases_take, &part);
        EXPECT_EQ(leases_send(&part), 0);
        EXPECT_EQ(rt_join(reader), 0);
    }
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    EXPECT_EQ(hd_sem_acquire(&echo.over, 1), 0); /* The worker hears of the end meanwhile. */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    hd_sem_fini(&echo.over);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_thread_echoes, options) { leases_run(talk_to_thread, NULL, options); }

/* ---- stackless tasks ---- */

struct echoing {
    hd_io io;
    hd_wait wait;
    hd_case cases[1];
    hd_lease lease;
    bool waiting;
};

/* What there is to do next. Returns: > 0: go on; 0: the end; -EAGAIN. */
static ssize_t echo_step(struct echoing *e)
{
    if (e->waiting) return -EAGAIN;
    if (leases_is_none(&e->lease)) return hd_lease_read_until(e->io, &e->lease, HD_NOW);
    const int err = hd_lease_write_until(e->io, &e->lease, HD_NOW);
    return err ? err : 1;
}

static hd_poll echo_poll(void *state, int *result)
{
    struct echoing *e = state;
    for (;;) {
        const ssize_t n = echo_step(e);
        if (n > 0) continue;
        if (n != -EAGAIN) {
            *result = (int)n;
            return HD_READY;
        }
        if (!e->waiting) {
            e->cases[0] = (hd_case)HD_READABLE(e->io);
            if (!leases_is_none(&e->lease)) e->cases[0] = (hd_case)HD_WRITABLE(e->io);
        }
        const int which = hd_select_poll(&e->wait, e->cases, 1, 0, HD_FOREVER);
        e->waiting = which == -EAGAIN;
        if (e->waiting) return HD_PENDING;
        EXPECT_EQ(which, 0);
    }
}

static int echo_stackless(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < NETS_PIPE; kind++) {
        hd_io ends[2];
        nets_pair((enum nets_kind)kind, ends);
        const struct echoing e = {.io = ends[0]};
        hd_task *task = rt_spawn_poll(NULL, echo_poll, &e, sizeof(e));
        for (size_t i = 0; i < 3 * SIZES; i++) {
            struct leases_part part = {.io = ends[1], .bytes = sizes[i % SIZES], .at = i};
            hd_task *reader = rt_spawn(NULL, leases_take, &part);
            EXPECT_EQ(leases_send(&part), 0);
            EXPECT_EQ(rt_join(reader), 0);
        }
        EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
        EXPECT_EQ(rt_join(task), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_IO(stackless_tasks_echo, options) { leases_run(echo_stackless, NULL, options); }

/* ---- datagrams ---- */

static int datagrams(void *arg)
{
    hd_io a, b;
    hd_lease lease = {0};
    (void)arg;
    EXPECT_EQ(hd_udp_open(&a, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_udp_open(&b, "127.0.0.1:0"), 0);
    const hd_addr at = nets_addr(a), from = nets_addr(b);
    EXPECT_EQ(hd_udp_connect(b, &at), 0);
    EXPECT_EQ(hd_udp_connect(a, &from), 0);
    const size_t lengths[] = {1, 3000, HD_LEASE_MAX, 40000};
    for (size_t i = 0; i < 4; i++) {
        const size_t seen = lengths[i] < HD_LEASE_MAX ? lengths[i] : HD_LEASE_MAX;
        char *bytes = leases_make(lengths[i], i);
        EXPECT_EQ(hd_write(b, bytes, lengths[i]), lengths[i]);
        EXPECT_EQ(hd_lease_read(a, &lease), seen); /* cut */
        leases_expect(lease.bytes, lease.count, i);
        EXPECT_EQ(hd_lease_write(a, &lease), 0);
        EXPECT_EQ(hd_read(b, bytes, lengths[i]), seen);
        leases_expect(bytes, seen, i);
        free(bytes);
    }
    EXPECT_EQ(hd_write(b, "z", 1), 1);
    EXPECT_EQ(hd_lease_read(a, &lease), 1);
    lease.count = 0;
    EXPECT_EQ(hd_lease_write(a, &lease), 0); /* That is no empty datagram. */
    EXPECT(leases_is_none(&lease));
    nets_expect_byte(a, b, 'y');
    nets_close(a, b);
    return 0;
}

TEST_IO(datagrams_are_whole_or_cut, options) { leases_run(datagrams, NULL, options); }
