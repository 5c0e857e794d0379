/* SPDX-License-Identifier: MIT
 *
 * The example chat, with a client that does not read and leaves; and a fault planted in it: a post
 * waits for room in an outbox, so that a client which leaves with a full one holds up everybody.
 */
#include "planted.h"

static int create_waiting(hd_chan **chan, size_t item_bytes, const hd_chan_options *options)
{
    hd_chan_options own = *options;
    if (planted) own.overflow = HD_OVERFLOW_WAIT;
    return hd_chan_create_with(chan, item_bytes, &own);
}

#define main                example_main
#define hd_chan_create_with create_waiting
#include "../../examples/chat.c" /* NOLINT(bugprone-suspicious-include) */
#undef hd_chan_create_with
#undef main

static struct room room;
static struct server server = {
    .name = "chat",
    .connection = chat_connection,
    .check = chat_check,
    .arg = &room,
    .connections_max = 10,
};
static struct hosted hosted = {":7008", &server};

TEST_WORLDS(people_talk_while_one_sleeps, options)
{
    rt_run(server_self_test, &server, options);
    EXPECT(!room.first);
}

static int over_a_network(void *arg)
{
    (void)arg;
    hosted_add("server", &hosted);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, HD_SECOND_NS), 0);
    return chat_check("server:7008", &room);
}

TEST_WORLDS(over_a_network, options)
{
    if (!rt_is_sim(options)) return;
    rt_run(over_a_network, NULL, options);
    EXPECT(!room.first);
}

/* ---- the fault ---- */

TEST(finds_a_post_that_waits_for_who_has_left)
{
    planted_found(over_a_network, 50);
}

TEST_MAIN
