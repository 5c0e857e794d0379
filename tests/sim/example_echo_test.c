/* SPDX-License-Identifier: MIT
 *
 * The example echo, over networks that are slow, and that fail; and a fault planted in it: what a
 * short write has left is forgotten.
 */
#include "planted.h"

static int write_once_until(hd_io io, const void *buffer, size_t bytes, size_t *done,
                            int64_t deadline)
{
    if (!planted) return hd_write_all_until(io, buffer, bytes, done, deadline);
    const ssize_t n = hd_write_until(io, buffer, bytes, deadline);
    return n < 0 ? (int)n : 0;
}

#define main               example_main
#define hd_write_all_until write_once_until
#include "../../examples/echo.c" /* NOLINT(bugprone-suspicious-include) */
#undef hd_write_all_until
#undef main

static struct echo echo = {.idle_ms = 60000};
static struct server server = {
    .name = "echo",
    .connection = echo_connection,
    .check = echo_check,
    .arg = &echo,
    .connections_max = 3, /* The last client waits for one to end. */
};
static struct hosted hosted = {":7007", &server};

TEST_WORLDS(sends_back_what_it_gets, options)
{
    rt_run(server_self_test, &server, options);
}

static int over_a_bad_network(void *arg)
{
    (void)arg;
    hosted_add("server", &hosted);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, 10 * HD_SECOND_NS), 0);
    return echo_check("server:7007", NULL);
}

TEST_WORLDS(over_slow_and_lossy_links, options)
{
    if (rt_is_sim(options)) rt_run(over_a_bad_network, NULL, options);
}

/* Connections that are reset fail; the server stays, and serves the next. */
static int through_resets(void *arg)
{
    (void)arg;
    hosted_add("server", &hosted);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS | HD_SIM_CHAOS_RESETS, HD_SECOND_NS), 0);
    while (hd_now(NULL) < 2 * HD_SECOND_NS) {
        const int err = echo_check("server:7007", NULL);
        EXPECT(err != -EBADMSG);
        hd_sleep_ms(10);
    }
    return echo_check("server:7007", NULL);
}

TEST_WORLDS(outlives_resets, options)
{
    if (rt_is_sim(options)) rt_run(through_resets, NULL, options);
}

/* ---- the fault ---- */

static int small_talk(void *arg)
{
    (void)arg;
    hosted_add("server", &hosted);
    struct talker talker = {"server:7007", 1000};
    return talk(&talker);
}

TEST(finds_a_short_write_that_is_not_continued)
{
    planted_found(small_talk, 50);
}

TEST_MAIN
