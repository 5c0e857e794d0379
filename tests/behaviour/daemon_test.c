/* SPDX-License-Identifier: MIT
 *
 * Daemons: children that do not keep a nursery from ending, and are cancelled when all
 * others have ended.
 */
#include "nurseries.h"

TEST_MAIN

struct server {
    atomic_int started, served, ended;
    hd_chan *requests;
    hd_cause cause;
};

/* Answers requests until it is cancelled. */
static int serve(void *arg)
{
    struct server *server = arg;
    atomic_store(&server->started, 1);
    int request, err;
    while ((err = hd_chan_recv(server->requests, &request)) == 0) {
        atomic_fetch_add(&server->served, request);
    }
    server->cause = hd_self_cause();
    atomic_fetch_add(&server->ended, 1);
    return err;
}

static int ask(void *arg)
{
    struct server *server = arg;
    const int one = 1;
    for (int i = 0; i < 10; i++) {
        const int err = hd_chan_send(server->requests, &one);
        if (err) return err;
        hd_yield();
    }
    return 0;
}

FIBER_TEST(a_daemon_serves_until_the_others_have_ended)
{
    struct server server = {.requests = hd_chan_create(sizeof(int), 0)};
    hd_nursery n;
    nur_open(&n, NULL);
    nur_daemon(&n, serve, &server);
    for (int i = 0; i < 3; i++) nur_go(&n, ask, &server);
    EXPECT_EQ(hd_nursery_look(&n).daemons, 1);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0); /* Its cancel is nobody's failure. */
    EXPECT_EQ(server.served, 30);
    EXPECT_EQ(server.ended, 1);
    EXPECT(server.cause.reason != HD_REASON_NONE);
    EXPECT(server.cause.root != HD_REASON_NONE && server.cause.root != HD_REASON_PARENT);
    hd_chan_destroy(server.requests);
    return 0;
}

/* While it is open others may still come. */
FIBER_TEST(an_open_nursery_keeps_its_daemons)
{
    struct server server = {.requests = hd_chan_create(sizeof(int), 0)};
    hd_nursery n;
    nur_open(&n, NULL);
    nur_daemon(&n, serve, &server);
    nur_go(&n, ask, &server);
    nur_until_live(&n, 1);
    while (atomic_load(&server.served) < 10) hd_yield(); /* It may hold the last one still. */
    for (int i = 0; i < 50; i++) hd_yield();
    EXPECT_EQ(hd_nursery_look(&n).live, 1);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_go(&n, ask, &server);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT_EQ(server.served, 20);
    hd_chan_destroy(server.requests);
    return 0;
}

FIBER_TEST(closing_with_daemons_only_cancels_them)
{
    hd_nursery n;
    struct nur_actor slow;
    nur_open(&n, NULL);
    nur_actor_init(&slow);
    nur_daemon(&n, nur_act, &slow);
    nur_daemon(&n, nur_park, NULL);
    EXPECT_EQ(hd_nursery_look(&n).live, 2);
    EXPECT_EQ(hd_nursery_look(&n).daemons, 2);
    hd_nursery_close(&n);
    nur_until_live(&n, 1); /* nur_park heeded it */
    EXPECT_STATE(&n, HD_NURSERY_CLOSING); /* The other takes its time, and is waited for. */
    nur_expect_refused(&n, -EPIPE);
    nur_end(&n, &slow, 0);
    EXPECT_STATE(&n, HD_NURSERY_CLOSED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT(slow.cancelled);
    return 0;
}

FIBER_TEST(daemons_are_cancelled_when_the_last_other_ends_not_before)
{
    hd_nursery n;
    struct nur_actor a, b, daemon;
    nur_open(&n, NULL);
    nur_actor_init(&daemon);
    nur_daemon(&n, nur_act, &daemon);
    hd_task *told = nur_spawn(&n, nur_park, NULL, NULL, HD_DAEMON);
    nur_go_actor(&n, &a);
    nur_go_actor(&n, &b);
    hd_nursery_close(&n);
    nur_end(&n, &a, 0);
    for (int i = 0; i < 50; i++) hd_yield();
    EXPECT_EQ(hd_join_try(told, NULL), -EAGAIN); /* b is still there */
    nur_let_end(&b, 0);
    EXPECT_EQ(rt_join(told), -ECANCELED);
    nur_let_end(&daemon, -ECANCELED);
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 2);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT(daemon.cancelled);
    return 0;
}

FIBER_TEST(a_daemon_that_ends_early_ends_nothing)
{
    hd_nursery n;
    struct nur_actor a;
    nur_open(&n, NULL);
    nur_daemon(&n, nur_nothing, NULL);
    nur_go_actor(&n, &a);
    nur_until_live(&n, 1);
    EXPECT_EQ(hd_nursery_look(&n).daemons, 0);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_let_end(&a, 0);
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(hd_nursery_look(&n).spawned, 2);
    EXPECT_EQ(hd_nursery_look(&n).succeeded, 2); /* It is counted as others are. */
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT(!a.cancelled);
    return 0;
}

FIBER_TEST(a_daemon_that_fails_is_a_failure)
{
    hd_nursery n;
    struct nur_actor a;
    int number = -EIO;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    nur_daemon(&n, nur_return, &number);
    nur_until_live(&n, 1);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    hd_child_error error;
    EXPECT_EQ(hd_nursery_error(&n, 0, &error), 0);
    EXPECT(strcmp(error.name, "daemon") == 0);
    a.doomed = true;
    nur_let_end(&a, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    EXPECT(a.cancelled);
    return 0;
}

static int fail_when_cancelled(void *arg)
{
    (void)arg;
    EXPECT_EQ(nur_park(NULL), -ECANCELED);
    return -EIO;
}

FIBER_TEST(a_daemon_that_fails_at_its_end_is_a_failure_too)
{
    hd_nursery n;
    nur_open(&n, NULL);
    nur_daemon(&n, fail_when_cancelled, NULL);
    nur_go(&n, nur_nothing, NULL);
    EXPECT_EQ(hd_nursery_leave(&n), -EIO);
    return 0;
}

FIBER_TEST(a_cancel_reaches_daemons_as_everybody)
{
    hd_nursery n;
    struct nur_actor a;
    nur_open(&n, NULL);
    hd_task *daemon = nur_spawn(&n, nur_park, NULL, NULL, HD_DAEMON);
    nur_go_actor(&n, &a);
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_shield(), 0); /* The body is cancelled too. */
    EXPECT_EQ(rt_join(daemon), -ECANCELED);
    EXPECT_EQ(hd_unshield(), 0);
    nur_let_end(&a, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED); /* A child returned it. */
    return 0;
}

struct tree {
    atomic_int begun, ended;
};

static int daemon_with_children(void *arg)
{
    struct tree *tree = arg;
    HD_NURSERY(n) {
        for (int i = 0; i < 3; i++) nur_go(n, nur_park, NULL);
        atomic_fetch_add(&tree->begun, 1);
    }
    atomic_fetch_add(&tree->ended, 1);
    return hd_nursery_result();
}

FIBER_TEST(the_tree_of_a_daemon_goes_with_it)
{
    struct tree tree = {0};
    hd_nursery n;
    struct nur_actor a;
    nur_open(&n, NULL);
    for (int i = 0; i < 2; i++) nur_daemon(&n, daemon_with_children, &tree);
    nur_go_actor(&n, &a);
    while (atomic_load(&tree.begun) < 2) hd_yield();
    nur_let_end(&a, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT_EQ(atomic_load(&tree.ended), 2);
    return 0;
}

struct park_state {
    atomic_int *dropped;
};

static void drop_it(void *state)
{
    atomic_fetch_add(((struct park_state *)state)->dropped, 1);
}

FIBER_TEST(stackless_daemons)
{
    atomic_int dropped = 0;
    const struct park_state state = {&dropped};
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.flags = HD_DAEMON;
        options.drop = drop_it;
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(hd_spawn_poll_with(NULL, nur_park_poll, &state, sizeof(state), &options),
                      0);
        }
        nur_go(n, nur_nothing, NULL);
        EXPECT_EQ(hd_nursery_look(n).daemons, 3);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(dropped, 3);
    return 0;
}

FIBER_TEST(any_does_not_wait_for_a_daemon_to_succeed)
{
    hd_nursery_options any = {.size = sizeof(any), .join = HD_JOIN_ANY};
    int number = -EIO;
    hd_nursery n;
    nur_open(&n, &any);
    nur_daemon(&n, nur_park, NULL);
    nur_go(&n, nur_return, &number);
    EXPECT_EQ(hd_nursery_leave(&n), -EIO);
    return 0;
}
