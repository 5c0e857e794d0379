/* SPDX-License-Identifier: MIT
 *
 * The simulated network: bytes arrive whole and in order whatever the links do; each fault shows
 * as it does in life, and can be told from its absence.
 */
#include "seeds.h"

#include <arpa/inet.h>
#include <netinet/in.h>

TEST_MAIN

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 31 + at / 251);
}

/* What is on its way arrives, and whoever can run does: the network takes less than that. */
static void let_arrive(void)
{
    EXPECT_EQ(hd_sleep_ms(1), 0);
}

/* ---- a server that echoes ---- */

static int echo_one(void *arg)
{
    const hd_io conn = {(uint64_t)(uintptr_t)arg};
    char buffer[3000];
    ssize_t n;
    while ((n = hd_read(conn, buffer, sizeof(buffer))) > 0) {
        if (hd_write_all(conn, buffer, (size_t)n, NULL) != 0) break;
    }
    hd_close(conn);
    return 0;
}

static int echo_server(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    EXPECT_EQ(hd_tcp_listen(&listener, ":7", NULL), 0);
    while (hd_accept(listener, &conn, NULL) == 0) {
        hd_task *task;
        EXPECT_EQ(hd_spawn(&task, echo_one, (void *)(uintptr_t)conn.private_), 0);
        hd_detach(task);
    }
    hd_close(listener);
    return 0;
}

static hd_sim_host *add_echo(const char *name)
{
    hd_sim_host *host;
    EXPECT_EQ(hd_sim_host_add(&host, name, NULL, echo_server, NULL), 0);
    let_arrive();
    return host;
}

struct sending {
    hd_io conn;
    size_t bytes;
};

static int send_pattern(void *arg)
{
    const struct sending *sending = arg;
    unsigned char buffer[1777];
    for (size_t done = 0; done < sending->bytes;) {
        const size_t left = sending->bytes - done;
        const size_t n = left < sizeof(buffer) ? left : sizeof(buffer);
        for (size_t i = 0; i < n; i++) buffer[i] = byte_at(done + i);
        const int err = hd_write_all(sending->conn, buffer, n, NULL);
        if (err) return err;
        done += n;
    }
    return hd_shutdown(sending->conn, SHUT_WR);
}

static void expect_pattern(hd_io conn, size_t bytes)
{
    unsigned char buffer[2048];
    size_t done = 0;
    ssize_t n;
    while ((n = hd_read(conn, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(buffer[i], byte_at(done + (size_t)i));
        done += (size_t)n;
    }
    EXPECT_EQ(n, 0);
    EXPECT_EQ(done, bytes);
}

static int receive_pattern(void *arg)
{
    const struct sending *sending = arg;
    expect_pattern(sending->conn, sending->bytes);
    return 0;
}

/* Send so much to the echo server and get it back. */
static void echo_through(const char *place, size_t bytes)
{
    struct sending sending = {.bytes = bytes};
    EXPECT_EQ(hd_tcp_connect(&sending.conn, place, NULL), 0);
    hd_task *task = rt_spawn(NULL, send_pattern, &sending);
    expect_pattern(sending.conn, bytes);
    EXPECT_EQ(rt_join(task), 0);
    hd_close(sending.conn);
}

static int plain_echo(void *arg)
{
    (void)arg;
    add_echo("server");
    echo_through("server:7", 300000);
    echo_through("10.0.0.2:7", 1);
    echo_through("[fd00::2]:7", 0);
    return 0;
}

TEST(a_stream_arrives_whole_and_in_order)
{
    each_seed(plain_echo);
}

static int bad_link_echo(void *arg)
{
    (void)arg;
    add_echo("server");
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.latency_ns = 3 * HD_MS_NS;
    link.jitter_ns = 20 * HD_MS_NS;
    link.loss_ppm = 100000;
    link.reorder_ppm = link.duplicate_ppm = HD_SIM_ALWAYS;
    EXPECT_EQ(hd_sim_link(NULL, NULL, &link), 0);
    echo_through("server:7", 100000);
    return 0;
}

TEST(also_over_a_bad_link)
{
    each_seed(bad_link_echo);
}

/* ---- the link's time ---- */

/* How long 100 kB take there and back. */
static int64_t echo_time(const hd_sim_link_options *link)
{
    EXPECT_EQ(hd_sim_link(NULL, NULL, link), 0);
    const int64_t before = hd_now(NULL);
    echo_through("10.0.0.2:7", 100000);
    return hd_now(NULL) - before;
}

static int link_times(void *arg)
{
    (void)arg;
    add_echo("server");
    const int64_t plain = echo_time(NULL);
    EXPECT(plain > 0);
    EXPECT(plain < 200 * HD_MS_NS);
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.latency_ns = HD_SECOND_NS;
    EXPECT(echo_time(&link) >= 4 * HD_SECOND_NS); /* connect, and there and back */
    link = (hd_sim_link_options){.size = sizeof(link), .bandwidth = 50000};
    const int64_t narrow = echo_time(&link);
    EXPECT(narrow >= 2 * HD_SECOND_NS);
    EXPECT(narrow < 60 * HD_SECOND_NS);
    link = (hd_sim_link_options){.size = sizeof(link), .loss_ppm = 300000};
    EXPECT(echo_time(&link) >= 200 * HD_MS_NS);
    EXPECT(echo_time(NULL) < 200 * HD_MS_NS);
    return 0;
}

TEST(latency_bandwidth_and_loss_take_time)
{
    each_seed(link_times);
}

/* ---- errors of connecting ---- */

static int connect_errors(void *arg)
{
    (void)arg;
    hd_io conn, listener, second;
    add_echo("server");
    EXPECT_EQ(hd_tcp_connect(&conn, "10.0.0.2:8", NULL), -ECONNREFUSED);
    EXPECT_EQ(hd_tcp_connect(&conn, "10.9.9.9:8", NULL), -EHOSTUNREACH);
    EXPECT_EQ(hd_tcp_connect(&conn, "nobody:8", NULL), -ENOENT);
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.1:80", NULL), 0);
    EXPECT_EQ(hd_tcp_listen(&second, "127.0.0.1:80", NULL), -EADDRINUSE);
    EXPECT_EQ(hd_tcp_listen(&second, ":80", NULL), -EADDRINUSE);
    EXPECT_EQ(hd_tcp_listen(&second, "10.9.9.9:80", NULL), -EADDRNOTAVAIL);
    hd_close(listener);
    EXPECT_EQ(hd_tcp_connect(&conn, "127.0.0.1:80", NULL), -ECONNREFUSED);
    EXPECT_EQ(hd_tcp_listen(&second, "127.0.0.1:80", NULL), 0);
    hd_addr addr;
    EXPECT_EQ(hd_local_addr(second, &addr), 0);
    EXPECT_EQ(hd_addr_port(&addr), 80);
    hd_close(second);
    return 0;
}

TEST(connecting_fails_as_in_life)
{
    each_seed(connect_errors);
}

/* ---- a server that keeps its connections, for the test to use both ends ---- */

struct keeper {
    hd_sim_host *host;
    hd_io conn, kept; /* ours and its end of the newest one */
};

static int accept_and_keep(void *arg)
{
    struct keeper *keeper = arg;
    hd_io listener, conn;
    EXPECT_EQ(hd_tcp_listen(&listener, ":9", NULL), 0);
    while (hd_accept(listener, &conn, NULL) == 0) keeper->kept = conn;
    hd_close(listener);
    return 0;
}

static void keeper_connect(struct keeper *keeper)
{
    EXPECT_EQ(hd_tcp_connect(&keeper->conn, "10.0.0.2:9", NULL), 0);
    let_arrive();
}

static void keeper_init(struct keeper *keeper)
{
    *keeper = (struct keeper){0};
    EXPECT_EQ(hd_sim_host_add(&keeper->host, "server", NULL, accept_and_keep, keeper), 0);
    let_arrive();
    keeper_connect(keeper);
}

static void keeper_fini(struct keeper *keeper)
{
    hd_close(keeper->conn);
    hd_close(keeper->kept);
}

/* ---- windows ---- */

static int slow_reader(void *arg)
{
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    char buffer[1000] = {0};
    EXPECT_EQ(hd_sim_window(k.kept, 1000), 0);
    size_t sent = 0, done;
    int err = 0;
    while (!err) {
        err = hd_write_all_until(k.conn, buffer, sizeof(buffer), &done, hd_after_ms(5000));
        sent += done;
    }
    EXPECT_EQ(err, -ETIMEDOUT);
    EXPECT_EQ(sent, 64 << 10); /* what the window was before, and no more */
    /* Reading makes room, but only as much as the window now is. */
    for (size_t left = sent; left > 0;) {
        const ssize_t n = hd_read(k.kept, buffer, left < sizeof(buffer) ? left : sizeof(buffer));
        EXPECT(n > 0);
        left -= (size_t)n;
    }
    size_t more = 0;
    for (err = 0; !err; more += done) {
        err = hd_write_all_until(k.conn, buffer, sizeof(buffer), &done, hd_after_ms(5000));
    }
    EXPECT_EQ(err, -ETIMEDOUT);
    EXPECT_EQ(more, 1000);
    keeper_fini(&k);
    return 0;
}

TEST(a_slow_reader_blocks_its_writer)
{
    each_seed(slow_reader);
}

/* ---- partitions ---- */

static int partitioned(void *arg)
{
    (void)arg;
    hd_sim_host *server = add_echo("server"), *self = hd_sim_host_self();
    char byte = 'x';
    hd_io conn, second;
    EXPECT_EQ(hd_tcp_connect(&conn, "10.0.0.2:7", NULL), 0);
    EXPECT_EQ(hd_sim_partition(server, self), 0);
    EXPECT_EQ(hd_write_all(conn, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_read_until(conn, &byte, 1, hd_after_ms(10000)), -ETIMEDOUT);
    const int64_t before = hd_now(NULL);
    EXPECT_EQ(hd_tcp_connect(&second, "10.0.0.2:7", NULL), -ETIMEDOUT);
    EXPECT(hd_now(NULL) - before >= 20 * HD_SECOND_NS);
    EXPECT_EQ(hd_sim_heal(server, self), 0);
    EXPECT_EQ(hd_read(conn, &byte, 1), 1); /* It goes on where it was. */
    EXPECT_EQ(byte, 'x');
    /* Too long: the sender gives up. */
    EXPECT_EQ(hd_sim_partition(server, NULL), 0);
    EXPECT_EQ(hd_write_all(conn, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ETIMEDOUT);
    EXPECT_EQ(hd_sim_heal(NULL, NULL), 0);
    hd_close(conn);
    echo_through("10.0.0.2:7", 100);
    return 0;
}

TEST(a_partition_is_silence_and_heals)
{
    each_seed(partitioned);
}

static int cut_one_way(void *arg)
{
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    EXPECT_EQ(hd_sim_cut(k.host, hd_sim_host_self()), 0);
    char byte = 'x';
    EXPECT_EQ(hd_write_all(k.conn, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_read(k.kept, &byte, 1), 1); /* There it gets, */
    EXPECT_EQ(hd_write_all(k.kept, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_read(k.conn, &byte, 1), -ETIMEDOUT); /* but nobody hears of it. */
    keeper_fini(&k);
    return 0;
}

TEST(a_link_can_be_cut_one_way)
{
    each_seed(cut_one_way);
}

/* The first is held, and sent again when the second is nearly there. */
static int short_cut(void *arg)
{
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    hd_sim_host *self = hd_sim_host_self();
    char text[6];
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.latency_ns = 10 * HD_MS_NS;
    EXPECT_EQ(hd_sim_link(NULL, NULL, &link), 0);
    EXPECT_EQ(hd_write_all(k.conn, "abc", 3, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(5), 0);
    EXPECT_EQ(hd_write_all(k.conn, "def", 3, NULL), 0);
    EXPECT_EQ(hd_sim_cut(self, k.host), 0);
    EXPECT_EQ(hd_sleep_ms(7), 0);
    EXPECT_EQ(hd_sim_heal(self, k.host), 0);
    EXPECT_EQ(hd_read_exact(k.kept, text, 6, NULL), 0);
    EXPECT(memcmp(text, "abcdef", 6) == 0);
    keeper_fini(&k);
    return 0;
}

TEST(what_was_held_is_not_overtaken)
{
    each_seed(short_cut);
}

/* ---- patience ---- */

/* More than the window, at 100 kB a second: something is always on its way. */
static int streaming(void *arg)
{
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.bandwidth = 100000;
    EXPECT_EQ(hd_sim_link(hd_sim_host_self(), k.host, &link), 0);
    EXPECT_EQ(hd_sim_patience(0, HD_SECOND_NS), 0);
    struct sending sending = {k.conn, 400000};
    hd_task *task = rt_spawn(NULL, send_pattern, &sending);
    struct sending reading = {k.kept, sending.bytes};
    hd_task *reader = rt_spawn(NULL, receive_pattern, &reading);
    EXPECT_EQ(hd_sleep_ms(100), 0);
    EXPECT_EQ(hd_sim_cut(hd_sim_host_self(), k.host), 0);
    EXPECT_EQ(hd_sleep_ms(50), 0); /* at least one packet does not arrive */
    EXPECT_EQ(hd_sim_heal(hd_sim_host_self(), k.host), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(rt_join(reader), 0);
    keeper_fini(&k);
    return 0;
}

TEST(a_sender_that_is_answered_does_not_give_up)
{
    each_seed(streaming);
}

/* A cut of so long while a byte is under way. Returns what the sender reads; *took: when. */
static ssize_t read_over_cut(struct keeper *k, int64_t cut_ns, int64_t *took_ns)
{
    char byte = 'x';
    EXPECT_EQ(hd_sleep_ms(100), 0); /* Nothing else is under way. */
    const int64_t before_ns = hd_now(NULL);
    EXPECT_EQ(hd_write_all(k->conn, &byte, 1, NULL), 0);
    EXPECT_EQ(hd_sim_partition(k->host, hd_sim_host_self()), 0);
    ssize_t n = hd_read_until(k->conn, &byte, 1, before_ns + cut_ns);
    if (n == -ETIMEDOUT && hd_now(NULL) >= before_ns + cut_ns) {
        EXPECT_EQ(hd_sim_heal(k->host, hd_sim_host_self()), 0);
        EXPECT_EQ(hd_write_all(k->kept, &byte, 1, NULL), 0);
        n = hd_read(k->conn, &byte, 1);
    }
    *took_ns = hd_now(NULL) - before_ns;
    EXPECT_EQ(hd_sim_heal(k->host, hd_sim_host_self()), 0);
    return n;
}

static int patience(void *arg)
{
    enum { PATIENCE_MS = 3000, LATENCY_MS = 2 };
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    int64_t took_ns;
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.latency_ns = LATENCY_MS * HD_MS_NS;
    EXPECT_EQ(hd_sim_link(NULL, NULL, &link), 0);
    EXPECT_EQ(hd_sim_patience(-1, 0), -EINVAL);
    EXPECT_EQ(hd_sim_patience(0, -1), -EINVAL);
    EXPECT_EQ(hd_sim_patience(0, PATIENCE_MS * HD_MS_NS), 0);
    EXPECT_EQ(hd_sim_patience(HD_SECOND_NS, 0), 0); /* and leaves the other as it is */
    /* Healed just in time: the byte arrives, and its acknowledgement. */
    EXPECT_EQ(read_over_cut(&k, (PATIENCE_MS - 2 * LATENCY_MS) * HD_MS_NS, &took_ns), 1);
    char byte;
    EXPECT_EQ(hd_read(k.kept, &byte, 1), 1);
    /* It counts from when the byte should have arrived. */
    EXPECT_EQ(read_over_cut(&k, HD_SECOND_NS * 3600, &took_ns), -ETIMEDOUT);
    EXPECT(took_ns >= (PATIENCE_MS + LATENCY_MS) * HD_MS_NS);
    EXPECT(took_ns < (PATIENCE_MS + LATENCY_MS + 1) * HD_MS_NS);
    EXPECT_EQ(hd_write(k.conn, &byte, 1), -EPIPE);
    keeper_fini(&k);
    return 0;
}

TEST(a_sender_gives_up_when_its_patience_ends)
{
    each_seed(patience);
}

/* ---- resets ---- */

static int resets(void *arg)
{
    (void)arg;
    hd_sim_host *server = add_echo("server");
    char byte = 'x';
    hd_io conn;
    EXPECT_EQ(hd_tcp_connect(&conn, "10.0.0.2:7", NULL), 0);
    EXPECT_EQ(hd_sim_reset_conn(conn), 0);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ECONNRESET);
    EXPECT_EQ(hd_write(conn, &byte, 1), -EPIPE);
    EXPECT_EQ(hd_sim_reset_conn(conn), -ENOTCONN);
    hd_close(conn);
    EXPECT_EQ(hd_tcp_connect(&conn, "10.0.0.2:7", NULL), 0);
    EXPECT_EQ(hd_sim_reset(hd_sim_host_self(), server), 1);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ECONNRESET);
    hd_close(conn);
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    link.reset_ppm = HD_SIM_ALWAYS;
    EXPECT_EQ(hd_tcp_connect(&conn, "10.0.0.2:7", NULL), 0);
    EXPECT_EQ(hd_sim_link(hd_sim_host_self(), server, &link), 0);
    EXPECT_EQ(hd_write(conn, &byte, 1), 1);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ECONNRESET);
    hd_close(conn);
    return 0;
}

TEST(connections_are_reset)
{
    each_seed(resets);
}

static int half_open(void *arg)
{
    (void)arg;
    struct keeper k;
    keeper_init(&k);
    EXPECT_EQ(hd_sim_forget_conn(k.kept), 0);
    char byte = 'x';
    EXPECT_EQ(hd_read(k.kept, &byte, 1), -ECONNRESET);
    /* An hour of silence, then a write finds out. */
    EXPECT_EQ(hd_read_until(k.conn, &byte, 1, hd_after_ms(3600000)), -ETIMEDOUT);
    EXPECT_EQ(hd_write(k.conn, &byte, 1), 1);
    EXPECT_EQ(hd_read(k.conn, &byte, 1), -ECONNRESET);
    keeper_fini(&k);
    return 0;
}

TEST(a_half_open_connection_is_silent_until_it_is_written_to)
{
    each_seed(half_open);
}

/* ---- closing ---- */

static int closing(void *arg)
{
    (void)arg;
    struct keeper k;
    char byte = 'x', text[3];
    keeper_init(&k);
    /* What was written before a close arrives. */
    EXPECT_EQ(hd_write_all(k.conn, "abc", 3, NULL), 0);
    hd_close(k.conn);
    EXPECT_EQ(hd_read_exact(k.kept, text, 3, NULL), 0);
    EXPECT(memcmp(text, "abc", 3) == 0);
    EXPECT_EQ(hd_read(k.kept, &byte, 1), 0);
    /* Writing to who has closed: once it is taken, then it is a reset. */
    EXPECT_EQ(hd_write(k.kept, &byte, 1), 1);
    let_arrive();
    EXPECT_EQ(hd_write(k.kept, &byte, 1), -EPIPE);
    hd_close(k.kept);
    /* Closing with bytes unread is a reset. */
    keeper_connect(&k);
    EXPECT_EQ(hd_write_all(k.conn, "abc", 3, NULL), 0);
    let_arrive();
    hd_close(k.kept);
    EXPECT_EQ(hd_read(k.conn, &byte, 1), -ECONNRESET);
    hd_close(k.conn);
    return 0;
}

TEST(closing_is_orderly_or_a_reset)
{
    each_seed(closing);
}
