/* SPDX-License-Identifier: MIT
 *
 * Simulated hosts: who is where, what a crash does to tasks, connections and listeners, and that
 * a client which tries again gets through chaos.
 */
#include "seeds.h"

TEST_MAIN

/* ---- who is where ---- */

static int is_on(void *arg)
{
    EXPECT(strcmp(hd_sim_host_name(hd_sim_host_self()), arg) == 0);
    return 0;
}

static int is_on_with_child(void *arg)
{
    (void)is_on(arg);
    return rt_join(rt_spawn(NULL, is_on, arg));
}

static int places(void *arg)
{
    (void)arg;
    hd_sim_host *a, *b, *none;
    hd_task *task;
    EXPECT_EQ(hd_sim_host_add(&a, "a", NULL, is_on_with_child, "a"), 0);
    EXPECT_EQ(hd_sim_host_add(&b, "b", "1.2.3.4,fd01::1", is_on_with_child, "b"), 0);
    EXPECT_EQ(hd_sim_host_add(&none, "b", NULL, NULL, NULL), -EEXIST);
    EXPECT_EQ(hd_sim_host_add(&none, "c", "1.2.3.4", NULL, NULL), -EEXIST);
    EXPECT_EQ(hd_sim_host_add(&none, "c", "1.2.3", NULL, NULL), -EINVAL);
    EXPECT_EQ(hd_sim_spawn(b, &task, is_on_with_child, "b"), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT(hd_sim_host_find("a") == a);
    EXPECT(!hd_sim_host_find("c"));
    return is_on_with_child("localhost");
}

TEST(a_task_is_where_its_parent_is)
{
    each_seed(places);
}

/* ---- each has its own ports and paths ---- */

static int answer_name(void *arg)
{
    hd_io listener, conn;
    (void)arg;
    const char *name = hd_sim_host_name(hd_sim_host_self());
    EXPECT_EQ(hd_tcp_listen(&listener, ":80", NULL), 0);
    while (hd_accept(listener, &conn, NULL) == 0) {
        EXPECT_EQ(hd_write_all(conn, name, 1, NULL), 0);
        hd_close(conn);
    }
    hd_close(listener);
    return 0;
}

/* What answers there; 0: nobody. */
static char ask(const char *place)
{
    hd_io conn;
    char byte = 0;
    if (hd_tcp_connect(&conn, place, NULL) != 0) return 0;
    if (hd_read(conn, &byte, 1) != 1) byte = 0;
    hd_close(conn);
    return byte;
}

static int ask_self(void *arg)
{
    (void)arg;
    return ask("127.0.0.1:80");
}

static int own_places(void *arg)
{
    (void)arg;
    hd_sim_host *a, *b;
    hd_task *task;
    EXPECT_EQ(hd_sim_host_add(&a, "a", NULL, answer_name, NULL), 0);
    EXPECT_EQ(hd_sim_host_add(&b, "b", NULL, answer_name, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(ask("a:80"), 'a');
    EXPECT_EQ(ask("b:80"), 'b');
    EXPECT_EQ(ask("127.0.0.1:80"), 0);
    EXPECT_EQ(hd_sim_spawn(b, &task, ask_self, NULL), 0);
    EXPECT_EQ(rt_join(task), 'b');
    return 0;
}

TEST(hosts_have_ports_of_their_own)
{
    each_seed(own_places);
}

/* ---- crashing ---- */

struct server {
    unsigned boots, cancelled, down, unspawned;
};

static struct server seen;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int serve_one(void *arg)
{
    const hd_io conn = {(uint64_t)(uintptr_t)arg};
    char byte;
    ssize_t n;
    while ((n = hd_read(conn, &byte, 1)) == 1 && (n = hd_write(conn, &byte, 1)) == 1) continue;
    seen.cancelled += n == -ECANCELED || n == -EHOSTDOWN;
    seen.down += hd_write_until(conn, &byte, 1, HD_NOW) == -EHOSTDOWN;
    seen.unspawned += hd_spawn(NULL, nothing, NULL) != 0;
    hd_close(conn);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    seen.boots++;
    EXPECT_EQ(hd_tcp_listen(&listener, ":80", NULL), 0);
    int err;
    while ((err = hd_accept(listener, &conn, NULL)) == 0) {
        hd_task *task;
        EXPECT_EQ(hd_spawn(&task, serve_one, (void *)(uintptr_t)conn.private_), 0);
        hd_detach(task);
    }
    seen.cancelled += err == -ECANCELED || err == -EINVAL;
    hd_close(listener);
    return 0;
}

static int crash(void *arg)
{
    (void)arg;
    hd_sim_host *server;
    hd_io conn, second;
    char byte = 'x';
    seen = (struct server){0};
    EXPECT_EQ(hd_sim_host_add(&server, "server", NULL, serve, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_tcp_connect(&conn, "server:80", NULL), 0);
    EXPECT_EQ(hd_write(conn, &byte, 1), 1);
    EXPECT_EQ(hd_read(conn, &byte, 1), 1);
    EXPECT_EQ(hd_sim_crash(server), 0);
    EXPECT_EQ(hd_sim_crash(server), -EALREADY);
    EXPECT(!hd_sim_host_up(server));
    EXPECT_EQ(hd_sim_spawn(server, NULL, serve, NULL), -EHOSTDOWN);
    /* Silence. */
    EXPECT_EQ(hd_read_until(conn, &byte, 1, hd_after_ms(1000)), -ETIMEDOUT);
    EXPECT_EQ(seen.cancelled, 2);
    EXPECT_EQ(seen.down, 1);
    EXPECT_EQ(seen.unspawned, 1);
    EXPECT_EQ(hd_tcp_connect(&second, "server:80", NULL), -ETIMEDOUT);
    EXPECT_EQ(hd_sim_restart(server), 0);
    EXPECT_EQ(hd_sim_restart(server), -EALREADY);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(seen.boots, 2);
    /* It listens at the same place, and knows nothing of the old connection. */
    EXPECT_EQ(hd_tcp_connect(&second, "server:80", NULL), 0);
    EXPECT_EQ(hd_write(second, &byte, 1), 1);
    EXPECT_EQ(hd_read(second, &byte, 1), 1);
    EXPECT_EQ(hd_write(conn, &byte, 1), 1);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ECONNRESET);
    hd_close(conn);
    hd_close(second);
    EXPECT_EQ(hd_sim_crash(hd_sim_host_self()), -EINVAL);
    return 0;
}

TEST(a_crash_is_silence_and_a_restart_resets)
{
    each_seed(crash);
}

/* What is on its way to a host that is down gets there when it is up again, as a reset. */
static int sent_while_down(void *arg)
{
    (void)arg;
    hd_sim_host *server;
    hd_io conn;
    char byte = 'x';
    EXPECT_EQ(hd_sim_host_add(&server, "server", NULL, serve, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_tcp_connect(&conn, "server:80", NULL), 0);
    EXPECT_EQ(hd_sim_crash(server), 0);
    EXPECT_EQ(hd_write(conn, &byte, 1), 1);
    EXPECT_EQ(hd_read_until(conn, &byte, 1, hd_after_ms(1000)), -ETIMEDOUT);
    EXPECT_EQ(hd_sim_restart(server), 0);
    EXPECT_EQ(hd_read(conn, &byte, 1), -ECONNRESET);
    hd_close(conn);
    return 0;
}

TEST(what_was_sent_while_it_was_down_is_answered_by_a_reset)
{
    each_seed(sent_while_down);
}

/* ---- descriptors that were passed ---- */

static unsigned passed;

static int pass_and_crash(void *arg)
{
    (void)arg;
    hd_io pair[2], ends[2];
    char byte;
    int got;
    unsigned count = 1;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    EXPECT_EQ(hd_pipe(ends), 0);
    const int fd = hd_io_fd(ends[1]);
    EXPECT_EQ(hd_send_fds(pair[0], "x", 1, &fd, 1), 1);
    EXPECT_EQ(hd_send_fds(pair[0], "y", 1, &fd, 1), 1);
    EXPECT_EQ(hd_recv_fds(pair[1], &byte, 1, &got, &count), 1);
    (void)hd_sleep_ms(1000); /* until it is crashed, or the end */
    if (passed++) return 0; /* The runtime closes what is open. */
    EXPECT_EQ(hd_io_adopt(&pair[0], got, 0), -EHOSTDOWN);
    EXPECT_EQ(hd_close(pair[1]), 0);
    return 0;
}

static int crashed_while_passing(void *arg)
{
    (void)arg;
    hd_sim_host *host;
    passed = 0;
    EXPECT_EQ(hd_sim_host_add(&host, "a", NULL, pass_and_crash, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(10), 0);
    EXPECT_EQ(hd_sim_crash(host), 0);
    EXPECT_EQ(hd_sleep_ms(10), 0);
    EXPECT_EQ(passed, 1);
    EXPECT_EQ(hd_sim_restart(host), 0);
    EXPECT_EQ(hd_sleep_ms(10), 0);
    return 0;
}

TEST(a_crash_ends_what_was_passed)
{
    each_seed(crashed_while_passing);
}

/* ---- chaos ---- */

/* One request and its answer, within a deadline. */
static int request(void)
{
    hd_io conn;
    char byte = 'x';
    const int64_t deadline = hd_after_ms(2000);
    int err = hd_tcp_connect_until(&conn, "server:80", NULL, deadline);
    if (err) return err;
    err = hd_write_all_until(conn, &byte, 1, NULL, deadline);
    if (!err) err = hd_read_exact_until(conn, &byte, 1, NULL, deadline);
    if (!err) EXPECT_EQ(byte, 'x');
    hd_close(conn);
    return err;
}

static unsigned failed; /* requests, of all seeds */
static unsigned boots;

static int through_chaos(void *arg)
{
    (void)arg;
    hd_sim_host *server;
    seen = (struct server){0};
    EXPECT_EQ(hd_sim_host_add(&server, "server", NULL, serve, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    const int64_t end = hd_now(NULL) + 60 * HD_SECOND_NS;
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_ALL, 60 * HD_SECOND_NS), 0);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_ALL, 1), -EINVAL);
    unsigned bad = 0;
    while (hd_now(NULL) < end + HD_SECOND_NS) {
        bad += request() != 0;
        EXPECT_EQ(hd_sleep_ms(100), 0);
    }
    /* It is over: all is well again. */
    EXPECT(hd_sim_host_up(server));
    for (unsigned i = 0; i < 20; i++) EXPECT_EQ(request(), 0);
    failed += bad;
    boots += seen.boots;
    return 0;
}

TEST(chaos_ends_and_was_felt)
{
    each_seed(through_chaos);
    EXPECT(failed > SEEDS);
    EXPECT(boots > SEEDS + SEEDS / 4);
}

/* Also if the seed took the only kind away. */
static int one_at_a_time(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 4; i++) {
        EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, HD_SECOND_NS), 0);
        EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, HD_SECOND_NS), -EINVAL);
        EXPECT_EQ(hd_sleep_ms(999), 0);
        EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, HD_SECOND_NS), -EINVAL);
        EXPECT_EQ(hd_sleep_ms(2), 0);
    }
    return 0;
}

TEST(chaos_comes_one_at_a_time)
{
    each_seed(one_at_a_time);
}

/* ---- the same seed, the same run ---- */

static uint64_t digest;

static int note_digest(void *arg)
{
    const int err = through_chaos(arg);
    digest = hd_runtime_digest(hd_runtime_self());
    return err;
}

TEST(chaos_is_the_same_for_the_same_seed)
{
    expect_digests(note_digest, &digest);
}
