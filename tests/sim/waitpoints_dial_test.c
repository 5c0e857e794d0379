/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of a task that resolves a name, or connects by one.
 */
#include "waitpoints.h"

#include <heddle/sim.h>

TEST_MAIN

static int resolve(void *arg)
{
    hd_addr addrs[4];
    int count;
    (void)arg;
    do count = hd_resolve_until("two", 80, addrs, 4, wp_until());
    while (wp_again(count));
    if (count < 0) return count;
    EXPECT_EQ(count, 2);
    return 0;
}

WAITPOINTS(a_name_that_is_resolved)
{
    EXPECT_EQ(hd_sim_name("two", "127.0.0.1,127.0.0.2"), 0);
    wp_spawn(resolve, NULL);
    (void)wp_join();
}

/* Every connection that is accepted ends, because whoever made it closes it. */
static int serve(void *arg)
{
    const hd_io *listener = arg;
    hd_io conn;
    char byte;
    int err;
    while ((err = hd_accept(*listener, &conn, NULL)) == 0) {
        EXPECT(hd_read(conn, &byte, 1) <= 0);
        EXPECT_EQ(hd_close(conn), 0);
    }
    return err;
}

static int dial(void *place)
{
    hd_io conn;
    int err;
    do err = hd_tcp_connect_until(&conn, place, NULL, wp_until());
    while (wp_again(err));
    return err ? err : hd_close(conn);
}

/* With a listener there, and the name resolved to these. */
static void connect_by_name(const char *addresses)
{
    hd_io listener;
    char place[] = "name:80";
    EXPECT_EQ(hd_sim_name("name", addresses), 0);
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.2:80", NULL), 0);
    hd_task *server = rt_spawn(NULL, serve, &listener);
    wp_spawn(dial, place);
    (void)wp_join();
    EXPECT_EQ(hd_sleep_ms(1000), 0); /* virtual: what is on its way arrives */
    EXPECT_EQ(hd_close(listener), 0);
    EXPECT_EQ(rt_join(server), -ECANCELED);
}

WAITPOINTS(a_connect_to_one_address) { connect_by_name("127.0.0.2"); }

WAITPOINTS(a_connect_to_several_addresses)
{
    connect_by_name("127.0.0.1,127.0.0.2,127.0.0.2,127.0.0.3");
}
