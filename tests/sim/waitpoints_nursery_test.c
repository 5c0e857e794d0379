/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of owners and children of nested nurseries, and of
 * scopes: whatever was spawned ends before its nursery is left, and nothing is lost.
 */
#include "waitpoints.h"

#include "nurseries.h"

TEST_MAIN

#define MS HD_MS_NS

struct tally {
    int begun, ended, outer_left, inner_left;
    hd_chan *chan;
};

static int nap(void *arg)
{
    struct tally *t = arg;
    t->begun++;
    const int err = hd_sleep_ms(1);
    t->ended++;
    return err;
}

static int yield_some(void *arg)
{
    struct tally *t = arg;
    t->begun++;
    for (int i = 0; i < 3; i++) hd_yield();
    t->ended++;
    return 0;
}

static int send_two(void *arg)
{
    struct tally *t = arg;
    t->begun++;
    int err = 0;
    for (int i = 0; i < 2 && !err; i++) err = hd_chan_send(t->chan, &i);
    t->ended++;
    return err;
}

static void go_if_open(hd_nursery *n, hd_fn *fn, struct tally *t)
{
    const int err = hd_go(n, fn, t);
    EXPECT(err == 0 || (err == -ECANCELED && hd_cancelled()));
}

/* ---- an owner of nested nurseries ---- */

static int inner_work(struct tally *t)
{
    int err = 0;
    HD_NURSERY(inner) {
        const int begun = t->begun, ended = t->ended;
        go_if_open(inner, send_two, t);
        go_if_open(inner, nap, t);
        for (int i = 0, item; i < 2 && !err; i++) err = hd_chan_recv(t->chan, &item);
        hd_nursery_close(inner);
        EXPECT(t->begun >= begun && t->ended >= ended);
    }
    t->inner_left++;
    return err ? err : hd_nursery_result();
}

static int nested_owner(void *arg)
{
    struct tally *t = arg;
    int err = 0;
    HD_NURSERY(outer) {
        go_if_open(outer, nap, t);
        go_if_open(outer, yield_some, t);
        for (int i = 0; i < 2 && !err; i++) err = inner_work(t);
        if (!err) err = hd_sleep_ms(1);
    }
    EXPECT_EQ(t->begun, t->ended); /* Nobody is left. */
    t->outer_left++;
    return err ? err : hd_nursery_result();
}

WAITPOINTS(nested_nurseries)
{
    struct tally t = {.chan = hd_chan_create(sizeof(int), 0)};
    wp_spawn(nested_owner, &t);
    const int err = wp_join();
    EXPECT_EQ(t.outer_left, 1);
    EXPECT_EQ(t.begun, t.ended);
    if (!err) EXPECT_EQ(t.inner_left, 2);
    if (!err) EXPECT_EQ(t.begun, 6);
    hd_chan_destroy(t.chan);
}

/* ---- one child of a nursery: the others go on ---- */

static int one_of_them(void *arg)
{
    struct tally *t = arg;
    for (int i = 0, item; i < 2; i++) {
        int err;
        do err = hd_chan_recv_until(t->chan, &item, wp_until());
        while (wp_again(err));
        if (err) return err;
    }
    return hd_sleep_ms(1);
}

WAITPOINTS(a_child)
{
    struct tally t = {.chan = hd_chan_create(sizeof(int), 2)};
    hd_nursery n;
    const hd_nursery_options collect = {.size = sizeof(collect), .on_error = HD_ON_ERROR_COLLECT};
    nur_open(&n, &collect);
    nur_go(&n, send_two, &t);
    nur_go(&n, nap, &t);
    wp_register_(nur_spawn(&n, one_of_them, &t, NULL, 0));
    const int err = wp_join();
    EXPECT_EQ(hd_nursery_wait(&n), err); /* What the child was told is the result. */
    const hd_nursery_info info = hd_nursery_look(&n);
    EXPECT_EQ(info.state, HD_NURSERY_CLOSED);
    EXPECT_EQ(info.spawned, 3);
    EXPECT_EQ(info.succeeded, err ? 2 : 3);
    EXPECT_EQ(info.cancelled, err == -ECANCELED);
    EXPECT_EQ(info.failed, err == -ETIMEDOUT); /* A deadline of its own is its own affair. */
    EXPECT_EQ(hd_nursery_leave(&n), err);
    EXPECT_EQ(t.ended, 2);
    hd_chan_destroy(t.chan);
}

/* ---- scopes with deadlines ---- */

static int scoped(void *arg)
{
    struct tally *t = arg;
    for (int i = 0, item; i < 2; i++) {
        int err = 0;
        do {
            HD_SCOPE(outer, .deadline = wp_until()) {
                HD_SCOPE(inner) err = hd_chan_recv(t->chan, &item);
            }
        } while (wp_again(err));
        if (err) return err;
        t->inner_left++;
    }
    return 0;
}

WAITPOINTS(scopes)
{
    struct tally t = {.chan = hd_chan_create(sizeof(int), 0)};
    hd_task *sender = rt_spawn(NULL, send_two, &t);
    wp_spawn(scoped, &t);
    const int err = wp_join();
    if (!err) EXPECT_EQ(t.inner_left, 2);
    if (err) EXPECT(t.inner_left < 2);
    if (err) hd_cancel(sender);
    (void)rt_join(sender);
    hd_chan_destroy(t.chan);
}

/* ---- a nursery with a deadline ---- */

static int with_deadline(void *arg)
{
    struct tally *t = arg;
    int result;
    do {
        HD_NURSERY(n, .deadline = wp_until()) {
            go_if_open(n, nap, t);
            go_if_open(n, nap, t);
            go_if_open(n, yield_some, t);
        }
        EXPECT_EQ(t->begun, t->ended);
        result = hd_nursery_result();
    } while (wp_again(result));
    return hd_cancelled() ? -ECANCELED : result;
}

WAITPOINTS(a_nursery_with_a_deadline)
{
    struct tally t = {.begun = 0};
    wp_spawn(with_deadline, &t);
    const int err = wp_join();
    EXPECT_EQ(t.begun, t.ended);
    if (!err) EXPECT(t.ended >= 3);
}

/* ---- behind a shield nothing is felt, and it is told afterwards ---- */

static int shielded(void *arg)
{
    struct tally *t = arg;
    HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
        HD_NURSERY(n) {
            nur_go(n, nap, t);
            nur_go(n, yield_some, t);
            EXPECT_EQ(hd_sleep_ms(1), 0);
        }
        EXPECT_EQ(hd_nursery_result(), 0);
        EXPECT_EQ(t->ended, 2);
    }
    return hd_sleep_ms(1);
}

WAITPOINTS(a_nursery_behind_a_shield)
{
    struct tally t = {.begun = 0};
    wp_spawn(shielded, &t);
    (void)wp_join();
    EXPECT_EQ(t.ended, 2);
}

/* ---- stackless owners ---- */

struct poll_owner {
    hd_nursery nursery;
    struct tally *tally;
    int rounds;
    bool opened;
};

static hd_poll own_by_poll(void *state, int *result)
{
    struct poll_owner *self = state;
    for (; self->rounds < 3; self->rounds++) {
        if (!self->opened) {
            nur_open(&self->nursery, NULL);
            self->opened = true;
            go_if_open(&self->nursery, nap, self->tally);
            go_if_open(&self->nursery, yield_some, self->tally);
        }
        int left;
        if (hd_nursery_wait_poll(&self->nursery, &left) == HD_PENDING) return HD_PENDING;
        EXPECT_EQ(self->tally->begun, self->tally->ended);
        EXPECT_EQ(hd_nursery_leave(&self->nursery), left);
        self->opened = false;
        *result = left;
        if (left) return HD_READY;
    }
    return HD_READY;
}

WAITPOINTS(a_stackless_owner)
{
    struct tally t = {.begun = 0};
    const struct poll_owner owner = {.tally = &t};
    wp_spawn_poll(own_by_poll, &owner, sizeof(owner));
    const int err = wp_join();
    EXPECT_EQ(t.begun, t.ended);
    if (!err && !t.begun) EXPECT_EQ(wp.run.mode, WP_CANCEL);
}

/* ---- join policies and daemons ---- */

static int quorum_owner(void *arg)
{
    struct tally *t = arg;
    HD_NURSERY(n, .join = HD_JOIN_QUORUM, .quorum = 2) {
        for (int i = 0; i < 2; i++) go_if_open(n, nap, t);
        for (int i = 0; i < 2; i++) go_if_open(n, yield_some, t);
        (void)hd_go(n, nur_park, NULL);
    }
    EXPECT_EQ(t->begun, t->ended);
    if (hd_cancelled()) return -ECANCELED;
    return hd_nursery_result();
}

WAITPOINTS(a_quorum)
{
    struct tally t = {.begun = 0};
    wp_spawn(quorum_owner, &t);
    (void)wp_join();
    EXPECT_EQ(t.begun, t.ended);
}

static int daemon_owner(void *arg)
{
    struct tally *t = arg;
    hd_nursery n;
    nur_open(&n, NULL);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &n;
    options.flags = HD_DAEMON;
    (void)hd_spawn_with(NULL, nur_park, NULL, &options);
    go_if_open(&n, nap, t);
    const int err = hd_sleep_ms(2);
    (void)hd_nursery_leave(&n);
    EXPECT_EQ(t->begun, t->ended);
    return err;
}

WAITPOINTS(daemons)
{
    struct tally t = {.begun = 0};
    wp_spawn(daemon_owner, &t);
    const int err = wp_join();
    if (!err) EXPECT_EQ(t.ended, 1);
}
