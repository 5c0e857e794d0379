/* SPDX-License-Identifier: MIT
 *
 * The example proxy between hosts, its deadlines and its drain; and a fault planted in it: the end
 * of one direction ends the other, which loses its last bytes.
 */
#include "planted.h"

#include <heddle/net.h>

static int shutdown_both(hd_io io, int how)
{
    return hd_shutdown(io, planted ? SHUT_RDWR : how);
}

#define main        example_main
#define hd_shutdown shutdown_both
#include "../../examples/proxy.c" /* NOLINT(bugprone-suspicious-include) */
#undef hd_shutdown
#undef main

static struct proxy proxy = {.to = "target:9000", .connect_ms = 5000, .idle_ms = IDLE_MS};
static struct server server = {
    .name = "proxy",
    .connection = proxy_connection,
    .check = proxy_check,
    .arg = &proxy,
    .connections_max = 10,
    .drain_ms = 100,
};
static struct server target = {.name = "target", .connection = answer_late, .connections_max = 10};
static struct hosted hosted = {":8000", &server}, hosted_target = {":9000", &target};

static void add_hosts(void)
{
    hosted_add("target", &hosted_target);
    hosted_add("proxy", &hosted);
}

TEST_WORLDS(passes_on_and_deadlines, options)
{
    rt_run(server_self_test, &server, options);
}

static int between_hosts(void *arg)
{
    (void)arg;
    add_hosts();
    const int err = talk_through("proxy:8000", 20000);
    return err ? err : stay_silent("proxy:8000");
}

TEST_WORLDS(between_hosts, options)
{
    if (rt_is_sim(options)) rt_run(between_hosts, NULL, options);
}

/* A target that cannot be reached costs its deadline, and only that connection. */
static int unreachable(void *arg)
{
    (void)arg;
    add_hosts();
    hd_io conn;
    char byte;
    EXPECT_EQ(hd_sim_partition(hd_sim_host_find("proxy"), hd_sim_host_find("target")), 0);
    EXPECT_EQ(hd_tcp_connect(&conn, "proxy:8000", NULL), 0);
    const int64_t start = hd_now(NULL);
    EXPECT_EQ(hd_read(conn, &byte, 1), 0);
    const int64_t took_ms = (hd_now(NULL) - start) / HD_MS_NS;
    EXPECT(took_ms >= 4900 && took_ms < 5200);
    hd_close(conn);
    EXPECT_EQ(hd_sim_heal(NULL, NULL), 0);
    return talk_through("proxy:8000", 1000);
}

TEST_WORLDS(gives_up_connecting_in_time, options)
{
    if (rt_is_sim(options)) rt_run(unreachable, NULL, options);
}

/* ---- the drain ---- */

struct slow {
    int64_t ends_ns; /* when it has said all */
    int result;
};

/* A byte every 10 ms, and then the end. */
static int talk_slowly(void *arg)
{
    struct slow *slow = arg;
    hd_io conn;
    int err = hd_tcp_connect(&conn, "proxy:8000", NULL);
    if (err) return slow->result = err;
    while (!err && hd_now(NULL) < slow->ends_ns) {
        err = hd_write_all(conn, "x", 1, NULL);
        if (!err) err = hd_sleep_ms(10);
    }
    char byte;
    if (!err) err = hd_shutdown(conn, SHUT_WR);
    if (!err) err = (int)hd_read(conn, &byte, 1);
    hd_close(conn);
    slow->result = err;
    return 0;
}

/* One connection ends in time and gets its answer, the other is cut off at the limit. */
static int drained(void *arg)
{
    (void)arg;
    add_hosts();
    const int64_t start = hd_now(NULL);
    struct slow quick = {start + 50 * HD_MS_NS, 0}, late = {start + HD_SECOND_NS, 0};
    HD_NURSERY(n) {
        EXPECT_EQ(hd_go(n, talk_slowly, &quick), 0);
        EXPECT_EQ(hd_go(n, talk_slowly, &late), 0);
        hd_sleep_ms(20);
        server_stop(&server); /* as SIGTERM does */
        hd_sleep_ms(2);
        hd_io conn;
        EXPECT_EQ(hd_tcp_connect(&conn, "proxy:8000", NULL), -ECONNREFUSED);
    }
    EXPECT_EQ(quick.result, 1);
    EXPECT(late.result <= 0);
    EXPECT(hd_now(NULL) - start < 200 * HD_MS_NS);
    return 0;
}

TEST_WORLDS(drains_up_to_a_limit, options)
{
    if (rt_is_sim(options)) rt_run(drained, NULL, options);
}

/* ---- the fault ---- */

TEST(finds_a_half_close_that_loses_bytes)
{
    planted_found(between_hosts, 20);
}

TEST_MAIN
