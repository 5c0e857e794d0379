/* SPDX-License-Identifier: MIT
 *
 * The simulated network beside TCP: datagrams, Unix sockets, pipes, names, calls that move less
 * than they could, and the one call that makes a mix of all faults.
 */
#include "rt.h"

TEST_MAIN

#define SEEDS 40

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    return options;
}

static void each_seed(hd_fn *fn, void *arg)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        const int result = hd_run(fn, arg, &options);
        if (result) test_fail(__FILE__, __LINE__, "seed %d: %d", (int)seed, result);
    }
}

/* ---- datagrams ---- */

enum { DATAGRAMS = 100 };

struct arrived {
    unsigned count, doubled, overtaken, missing;
};

/* Send numbered datagrams over such a link and look at what comes. */
static struct arrived send_numbered(const hd_sim_link_options *link)
{
    hd_io from, to;
    hd_addr addr, sender;
    EXPECT_EQ(hd_sim_link(NULL, NULL, link), 0);
    EXPECT_EQ(hd_udp_open(&to, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_udp_open(&from, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_local_addr(to, &addr), 0);
    for (unsigned i = 0; i < DATAGRAMS; i++) {
        EXPECT_EQ(hd_send_to(from, &i, sizeof(i), &addr), sizeof(i));
    }
    struct arrived arrived = {0};
    bool seen[DATAGRAMS] = {0};
    unsigned number, last = 0;
    while (hd_recv_from_until(to, &number, sizeof(number), &sender, hd_after_ms(1000)) ==
           sizeof(number)) {
        EXPECT(number < DATAGRAMS);
        arrived.count++;
        arrived.doubled += seen[number];
        arrived.overtaken += number < last;
        seen[number] = true;
        last = number;
    }
    for (unsigned i = 0; i < DATAGRAMS; i++) arrived.missing += !seen[i];
    EXPECT_EQ(hd_local_addr(from, &addr), 0);
    EXPECT_EQ(hd_addr_port(&sender), hd_addr_port(&addr));
    hd_close(from);
    hd_close(to);
    return arrived;
}

static int datagrams(void *arg)
{
    (void)arg;
    struct arrived all = send_numbered(NULL);
    EXPECT_EQ(all.count, DATAGRAMS);
    EXPECT_EQ(all.doubled + all.overtaken + all.missing, 0);
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.loss_ppm = 300000;
    all = send_numbered(&link);
    EXPECT(all.missing > 5 && all.missing < 70);
    EXPECT_EQ(all.doubled, 0);
    link = (hd_sim_link_options){.size = sizeof(link), .duplicate_ppm = 300000};
    all = send_numbered(&link);
    EXPECT_EQ(all.missing, 0);
    EXPECT(all.doubled > 5 && all.doubled < 70);
    link = (hd_sim_link_options){.size = sizeof(link), .reorder_ppm = 300000};
    all = send_numbered(&link);
    EXPECT_EQ(all.missing + all.doubled, 0);
    EXPECT(all.overtaken > 5);
    return 0;
}

TEST(datagrams_are_lost_doubled_and_overtaken_as_the_link_says)
{
    each_seed(datagrams, NULL);
}

static int datagram_edges(void *arg)
{
    (void)arg;
    hd_io io, to;
    hd_addr addr;
    char buffer[8];
    static char large[70000];
    EXPECT_EQ(hd_udp_open(&to, "127.0.0.1:53"), 0);
    EXPECT_EQ(hd_udp_open(&io, ":53"), -EADDRINUSE);
    EXPECT_EQ(hd_udp_open(&io, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_addr_parse(&addr, "127.0.0.1:53"), 0);
    EXPECT_EQ(hd_send_to(io, large, sizeof(large), &addr), -EMSGSIZE);
    EXPECT_EQ(hd_send_to(io, "0123456789", 10, &addr), 10);
    EXPECT_EQ(hd_recv_from(to, buffer, sizeof(buffer), NULL), 10); /* The rest is lost. */
    EXPECT(memcmp(buffer, "01234567", 8) == 0);
    EXPECT_EQ(hd_send_to(io, "", 0, &addr), 0);
    EXPECT_EQ(hd_recv_from(to, buffer, sizeof(buffer), NULL), 0);
    /* Connected, one hears that nobody is there. */
    hd_close(to);
    EXPECT_EQ(hd_udp_connect(io, &addr), 0);
    EXPECT_EQ(hd_write(io, "x", 1), 1);
    EXPECT_EQ(hd_read(io, buffer, sizeof(buffer)), -ECONNREFUSED);
    hd_close(io);
    return 0;
}

TEST(datagrams_have_their_edges)
{
    each_seed(datagram_edges, NULL);
}

/* ---- Unix sockets and pipes ---- */

static int unix_names(void *arg)
{
    (void)arg;
    hd_io listener, conn, other;
    char byte = 'x';
    EXPECT_EQ(hd_unix_connect(&conn, "/tmp/sock"), -ENOENT);
    EXPECT_EQ(hd_unix_listen(&listener, "/tmp/sock", NULL), 0);
    EXPECT_EQ(hd_unix_listen(&other, "/tmp/sock", NULL), -EADDRINUSE);
    EXPECT_EQ(hd_unix_connect(&conn, "/tmp/sock"), 0);
    EXPECT_EQ(hd_write_all(conn, "hello", 5, NULL), 0);
    EXPECT_EQ(hd_accept(listener, &other, NULL), 0);
    char text[5];
    EXPECT_EQ(hd_read_exact(other, text, 5, NULL), 0);
    EXPECT(memcmp(text, "hello", 5) == 0);
    hd_close(other);
    EXPECT_EQ(hd_read(conn, &byte, 1), 0);
    EXPECT_EQ(hd_write(conn, &byte, 1), -EPIPE);
    hd_close(conn);
    hd_close(listener);
    EXPECT_EQ(hd_unix_connect(&conn, "/tmp/sock"), -ECONNREFUSED); /* The path is still there. */
    EXPECT_EQ(hd_unix_listen(&other, "/tmp/sock", NULL), -EADDRINUSE);
    EXPECT_EQ(hd_unlink("/tmp/sock"), 0);
    EXPECT_EQ(hd_unix_listen(&other, "/tmp/sock", NULL), 0);
    hd_close(other);
    EXPECT_EQ(hd_unix_listen(&other, "@name", NULL), 0);
    hd_close(other);
    EXPECT_EQ(hd_unix_connect(&conn, "@name"), -ECONNREFUSED);
    EXPECT_EQ(hd_unix_listen(&other, "@name", NULL), 0); /* An abstract one went. */
    hd_close(other);
    return 0;
}

TEST(unix_sockets_have_paths)
{
    each_seed(unix_names, NULL);
}

static int drain(void *arg)
{
    const hd_io *io = arg;
    char buffer[777];
    ssize_t n;
    int total = 0;
    while ((n = hd_read(*io, buffer, sizeof(buffer))) > 0) total += (int)n;
    EXPECT_EQ(n, 0);
    return total;
}

static int pipes(void *arg)
{
    (void)arg;
    hd_io ends[2];
    static char large[200000];
    EXPECT_EQ(hd_pipe(ends), 0);
    EXPECT_EQ(hd_write(ends[0], "x", 1), -EBADF);
    hd_task *reader = rt_spawn(NULL, drain, &ends[0]);
    EXPECT_EQ(hd_write_all(ends[1], large, sizeof(large), NULL), 0);
    hd_close(ends[1]);
    EXPECT_EQ(rt_join(reader), sizeof(large));
    hd_close(ends[0]);
    EXPECT_EQ(hd_pipe(ends), 0);
    size_t done;
    /* Nobody reads: it holds so much. */
    EXPECT_EQ(hd_write_all_until(ends[1], large, sizeof(large), &done, hd_after_ms(1)),
              -ETIMEDOUT);
    EXPECT_EQ(done, 64 << 10);
    hd_close(ends[0]);
    EXPECT_EQ(hd_write(ends[1], "x", 1), -EPIPE);
    hd_close(ends[1]);
    return 0;
}

TEST(pipes_hold_64_kib)
{
    each_seed(pipes, NULL);
}

/* ---- short calls ---- */

/* How many reads 10,000 bytes take, 100 at a time. */
static unsigned count_reads(void)
{
    hd_io ends[2];
    char bytes[10000] = {0}, buffer[100];
    EXPECT_EQ(hd_pipe(ends), 0);
    EXPECT_EQ(hd_write_all(ends[1], bytes, sizeof(bytes), NULL), 0);
    hd_close(ends[1]);
    unsigned reads = 0;
    while (hd_read(ends[0], buffer, sizeof(buffer)) > 0) reads++;
    hd_close(ends[0]);
    return reads;
}

static int short_calls(void *arg)
{
    (void)arg;
    EXPECT(count_reads() > 105);
    EXPECT_EQ(hd_sim_calls(0, 0), 0);
    EXPECT_EQ(count_reads(), 100);
    EXPECT_EQ(hd_sim_calls(HD_SIM_ALWAYS, 0), 0);
    EXPECT(count_reads() > 150);
    return 0;
}

TEST(reads_and_writes_are_short_as_often_as_is_said)
{
    each_seed(short_calls, NULL);
}

/* ---- names ---- */

static int names(void *arg)
{
    (void)arg;
    hd_addr addrs[8];
    char text[HD_ADDR_TEXT_MAX];
    hd_sim_host *host;
    EXPECT_EQ(hd_resolve("a.example", 80, addrs, 8), -ENOENT);
    EXPECT_EQ(hd_sim_name("a.example", "1.2.3.4,5.6.7.8"), 0);
    EXPECT_EQ(hd_resolve("A.example", 80, addrs, 8), 2);
    EXPECT(strcmp(hd_addr_format(&addrs[0], text), "1.2.3.4:80") == 0);
    EXPECT_EQ(hd_sim_name("b.example", "not an address"), -EINVAL);
    EXPECT_EQ(hd_sim_host_add(&host, "b.example", "9.9.9.9", NULL, NULL), 0);
    EXPECT_EQ(hd_resolve("b.example", 1, addrs, 8), 1);
    EXPECT(strcmp(hd_addr_format(&addrs[0], text), "9.9.9.9:1") == 0);
    EXPECT_EQ(hd_sim_name("b.example", NULL), 0);
    EXPECT_EQ(hd_resolve("b.example", 1, addrs, 8), -ENOENT);
    EXPECT_EQ(hd_resolve("localhost", 1, addrs, 8), 2);
    /* Faults: of one name, then of any. */
    EXPECT_EQ(hd_sim_name_fault("a.example", -EAGAIN, HD_SIM_ALWAYS, HD_SECOND_NS), 0);
    const int64_t before = hd_now(NULL);
    EXPECT_EQ(hd_resolve("a.example", 80, addrs, 8), -EAGAIN);
    EXPECT(hd_now(NULL) - before >= HD_SECOND_NS);
    EXPECT_EQ(hd_resolve_until("a.example", 80, addrs, 8, hd_after_ms(10)), -ETIMEDOUT);
    EXPECT_EQ(hd_resolve("localhost", 1, addrs, 8), 2);
    EXPECT_EQ(hd_sim_name_fault(NULL, -ENOENT, HD_SIM_ALWAYS, 0), 0);
    EXPECT_EQ(hd_resolve("localhost", 1, addrs, 8), -ENOENT);
    EXPECT_EQ(hd_sim_name_fault("a.example", -EAGAIN, 0, 0), 0);
    EXPECT_EQ(hd_resolve("a.example", 80, addrs, 8), 2);
    return 0;
}

TEST(names_resolve_as_they_were_given)
{
    each_seed(names, NULL);
}

/* ---- a thread, and nobody who comes ---- */

TEST(a_plain_thread_reads_and_writes)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const hd_options options = sim(seed);
        hd_runtime *runtime = rt_create(&options);
        hd_io ends[2];
        char text[5];
        EXPECT_EQ(hd_unix_pair(ends), 0);
        EXPECT_EQ(hd_write_all(ends[0], "hello", 5, NULL), 0);
        EXPECT_EQ(hd_read_exact(ends[1], text, 5, NULL), 0);
        EXPECT_EQ(hd_read_until(ends[1], text, 5, hd_after_ms(1)), -ETIMEDOUT);
        EXPECT_EQ(hd_read(ends[1], text, 5), -EDEADLK); /* Nothing is on its way. */
        hd_runtime_destroy(runtime); /* and closes them */
    }
}

static int wait_for_ever(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    EXPECT_EQ(hd_tcp_listen(&listener, ":80", NULL), 0);
    return hd_accept(listener, &conn, NULL);
}

TEST(a_wait_that_nothing_can_end_is_a_deadlock)
{
    hd_options options = sim(3);
    options.deadlock = HD_DEADLOCK_WAIT;
    EXPECT_EQ(hd_run(wait_for_ever, NULL, &options), -EDEADLK);
}

/* ---- live ---- */

static int not_in_live(void *arg)
{
    (void)arg;
    hd_sim_host *host;
    EXPECT_EQ(hd_sim_host_add(&host, "a", NULL, NULL, NULL), -ENOTSUP);
    EXPECT(!hd_sim_host_self());
    EXPECT(!hd_sim_host_find("localhost"));
    EXPECT_EQ(hd_sim_link(NULL, NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_cut(NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_partition(NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_heal(NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_patience(1, 1), -ENOTSUP);
    EXPECT_EQ(hd_sim_reset(NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_reset_conn((hd_io){0}), -ENOTSUP);
    EXPECT_EQ(hd_sim_forget_conn((hd_io){0}), -ENOTSUP);
    EXPECT_EQ(hd_sim_window((hd_io){0}, 1), -ENOTSUP);
    EXPECT_EQ(hd_sim_calls(0, 0), -ENOTSUP);
    EXPECT_EQ(hd_sim_name("a", "1.2.3.4"), -ENOTSUP);
    EXPECT_EQ(hd_sim_name_fault("a", -EAGAIN, 1, 0), -ENOTSUP);
    EXPECT_EQ(hd_sim_program("a", NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_program_fault("a", -EAGAIN, 1, 0), -ENOTSUP);
    EXPECT_EQ(hd_sim_disk(NULL, NULL), -ENOTSUP);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_ALL, 1), -ENOTSUP);
    return 0;
}

TEST(live_has_no_simulated_network)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    rt_run(not_in_live, NULL, &options);
}
