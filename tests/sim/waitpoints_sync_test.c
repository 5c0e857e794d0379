/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait on conditions, notifications, barriers, onces and
 * groups, and on all of them and locks in one select: no signal is lost, nobody is stuck.
 */
#include "waitpoints.h"

TEST_MAIN

enum { ROUNDS = 3 };

static void yield_times(int times)
{
    for (int i = 0; i < times; i++) hd_yield();
}

/* ---- condition, and notification: a queue with two consumers ---- */

struct market {
    hd_mutex mutex;
    hd_cond cond;
    hd_notify notify;
    int goods, sold;
    bool closed;
};

/* One signal for each: if the victim takes one along, the other must not sleep on. */
static int produce(void *arg)
{
    struct market *market = arg;
    for (int i = 1; i <= ROUNDS; i++) {
        yield_times(3);
        EXPECT_EQ(hd_mutex_lock(&market->mutex), 0);
        market->goods++;
        hd_cond_signal(&market->cond);
        hd_mutex_unlock(&market->mutex);
        while (market->sold < i) EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    EXPECT_EQ(hd_mutex_lock(&market->mutex), 0);
    market->closed = true;
    hd_cond_broadcast(&market->cond);
    hd_mutex_unlock(&market->mutex);
    return 0;
}

static int consume_until(struct market *market, int64_t (*until)(void))
{
    int err = hd_mutex_lock(&market->mutex);
    if (err) return err;
    while (!err && !market->closed) {
        if (market->goods > 0) {
            market->goods--;
            market->sold++;
            continue;
        }
        do err = hd_cond_wait_until(&market->cond, &market->mutex, until());
        while (wp_again(err) && market->goods == 0 && !market->closed);
        if (wp_again(err)) err = 0;
        EXPECT(hd_mutex_held(&market->mutex)); /* whatever it returned */
    }
    hd_mutex_unlock(&market->mutex);
    return err;
}

static int64_t never(void)
{
    return HD_FOREVER;
}

static int consume(void *arg)
{
    return consume_until(arg, never);
}

static int consuming_victim(void *arg)
{
    return consume_until(arg, wp_until);
}

/* As long as goods are there somebody sells them: a lost signal is a run without end, which
 * the alarm finds. */
WAITPOINTS(condition)
{
    struct market market = {.goods = 0};
    hd_mutex_init(&market.mutex);
    hd_cond_init(&market.cond);
    hd_task *producer = rt_spawn(NULL, produce, &market);
    hd_task *other = rt_spawn(NULL, consume, &market);
    wp_spawn(consuming_victim, &market);
    (void)wp_join();
    EXPECT_EQ(rt_join(producer), 0);
    EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(market.sold, ROUNDS);
    hd_cond_fini(&market.cond);
    hd_mutex_fini(&market.mutex);
}

static int announce(void *arg)
{
    struct market *market = arg;
    for (int i = 1; i <= ROUNDS; i++) {
        yield_times(3);
        market->goods++;
        hd_notify_one(&market->notify);
        while (market->sold < i) EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    market->closed = true;
    hd_notify_one(&market->notify); /* remembered, if nobody waits just now */
    return 0;
}

static int look_until(struct market *market, int64_t (*until)(void))
{
    while (!market->closed) {
        market->sold += market->goods;
        market->goods = 0;
        int err;
        do err = hd_notify_wait_until(&market->notify, until());
        while (wp_again(err));
        if (err) return err;
    }
    hd_notify_one(&market->notify); /* pass it on */
    return 0;
}

static int look(void *arg)
{
    return look_until(arg, never);
}

static int looking_victim(void *arg)
{
    return look_until(arg, wp_until);
}

WAITPOINTS(notification)
{
    struct market market = {.goods = 0};
    hd_notify_init(&market.notify);
    hd_task *announcer = rt_spawn(NULL, announce, &market);
    hd_task *other = rt_spawn(NULL, look, &market);
    wp_spawn(looking_victim, &market);
    (void)wp_join();
    EXPECT_EQ(rt_join(announcer), 0);
    EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(market.sold, ROUNDS);
    hd_notify_fini(&market.notify);
}

/* ---- barrier ---- */

struct meeting {
    hd_barrier barrier;
    int met, serial;
};

static void count_meeting(struct meeting *meeting, int got)
{
    EXPECT(got == 0 || got == HD_BARRIER_SERIAL);
    meeting->met++;
    meeting->serial += got == HD_BARRIER_SERIAL;
}

static int meet_often(void *arg)
{
    struct meeting *meeting = arg;
    for (int i = 0; i < ROUNDS; i++) {
        yield_times(2);
        count_meeting(meeting, hd_barrier_wait(&meeting->barrier));
    }
    return 0;
}

struct meeting_victim {
    struct meeting *meeting;
    int rounds;
};

static int meeting_victim(void *arg)
{
    struct meeting_victim *self = arg;
    for (; self->rounds < ROUNDS; self->rounds++) {
        int got;
        do got = hd_barrier_wait_until(&self->meeting->barrier, wp_until());
        while (wp_again(got));
        if (got < 0) return got;
        count_meeting(self->meeting, got);
    }
    return 0;
}

WAITPOINTS(barrier)
{
    struct meeting meeting = {.met = 0};
    struct meeting_victim victim = {&meeting, 0};
    EXPECT_EQ(hd_barrier_init(&meeting.barrier, 3), 0);
    hd_task *others[2];
    for (int i = 0; i < 2; i++) others[i] = rt_spawn(NULL, meet_often, &meeting);
    wp_spawn(meeting_victim, &victim);
    (void)wp_join();
    for (; victim.rounds < ROUNDS; victim.rounds++) { /* We come in its place. */
        count_meeting(&meeting, hd_barrier_wait(&meeting.barrier));
    }
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(meeting.met, 3 * ROUNDS);
    EXPECT_EQ(meeting.serial, ROUNDS);
    hd_barrier_fini(&meeting.barrier);
}

/* ---- once ---- */

struct setup {
    hd_once once;
    int calls, fail_first;
    bool running;
};

static int set_up(void *arg)
{
    struct setup *setup = arg;
    EXPECT(!setup->running);
    setup->running = true;
    yield_times(3);
    setup->running = false;
    return ++setup->calls <= setup->fail_first ? -EIO : 0;
}

static int call_once(void *arg)
{
    struct setup *setup = arg;
    int err;
    do err = hd_once_call(&setup->once, set_up, setup);
    while (err == -EIO);
    EXPECT(hd_once_done(&setup->once));
    return err;
}

static int once_victim(void *arg)
{
    struct setup *setup = arg;
    int err;
    do err = hd_once_call_until(&setup->once, set_up, setup, wp_until());
    while (wp_again(err) || err == -EIO);
    if (!err) EXPECT(hd_once_done(&setup->once));
    return err;
}

static void hit_once(int fail_first)
{
    struct setup setup = {.fail_first = fail_first};
    hd_once_init(&setup.once);
    hd_task *others[2];
    for (int i = 0; i < 2; i++) others[i] = rt_spawn(NULL, call_once, &setup);
    wp_spawn(once_victim, &setup);
    (void)wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(setup.calls, fail_first + 1);
    hd_once_fini(&setup.once);
}

WAITPOINTS(once)
{
    hit_once(0);
}

WAITPOINTS(once_that_fails_at_first)
{
    hit_once(2);
}

/* ---- wait group ---- */

static int do_one(void *arg)
{
    yield_times(2);
    hd_group_done(arg);
    return 0;
}

static int group_victim(void *arg)
{
    int err;
    do err = hd_group_wait_until(arg, wp_until());
    while (wp_again(err));
    return err;
}

WAITPOINTS(wait_group)
{
    hd_group group = {{0}};
    EXPECT_EQ(hd_group_add(&group, ROUNDS), 0);
    hd_task *tasks[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) tasks[i] = rt_spawn(NULL, do_one, &group);
    wp_spawn(group_victim, &group);
    (void)wp_join();
    EXPECT_EQ(hd_group_wait(&group), 0);
    for (int i = 0; i < ROUNDS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_group_fini(&group);
}

/* ---- all in one select: whichever is had is given back ---- */

struct shelf {
    hd_mutex mutex;
    hd_rwlock rwlock;
    hd_sem sem;
    hd_group group;
    int had;
};

enum { PERMITS = 4 };
enum { HAD_MUTEX, HAD_READ, HAD_WRITE, HAD_PERMITS, HAD_ALL_DONE, SHELF };

static void lay_out(struct shelf *shelf, hd_case cases[SHELF])
{
    cases[HAD_MUTEX] = (hd_case)HD_LOCK(&shelf->mutex);
    cases[HAD_READ] = (hd_case)HD_READ_LOCK(&shelf->rwlock);
    cases[HAD_WRITE] = (hd_case)HD_WRITE_LOCK(&shelf->rwlock);
    cases[HAD_PERMITS] = (hd_case)HD_ACQUIRE(&shelf->sem, PERMITS);
    cases[HAD_ALL_DONE] = (hd_case)HD_ALL_DONE(&shelf->group);
}

static void give_back(struct shelf *shelf, int which)
{
    shelf->had++;
    switch (which) {
    case HAD_MUTEX: hd_mutex_unlock(&shelf->mutex); return;
    case HAD_READ: hd_rwlock_read_unlock(&shelf->rwlock); return;
    case HAD_WRITE: hd_rwlock_write_unlock(&shelf->rwlock); return;
    case HAD_PERMITS: EXPECT_EQ(hd_sem_release(&shelf->sem, PERMITS), 0); return;
    default: EXPECT_EQ(which, HAD_ALL_DONE); return;
    }
}

static int shelf_victim(void *arg)
{
    struct shelf *shelf = arg;
    for (int i = 0; i < 4; i++) {
        hd_case cases[SHELF];
        int which;
        lay_out(shelf, cases);
        do which = hd_select_until(cases, SHELF, 0, wp_until());
        while (wp_again(which));
        if (which < 0) return which;
        give_back(shelf, which);
        hd_yield();
    }
    return 0;
}

struct shelf_state {
    struct shelf *shelf;
    bool begun;
    int64_t deadline;
    hd_wait wait;
    hd_case cases[SHELF];
};

static hd_poll shelf_poll(void *state, int *result)
{
    struct shelf_state *self = state;
    for (int rounds = 0; self->shelf->had < 4; rounds++) {
        if (!self->begun) {
            lay_out(self->shelf, self->cases);
            self->deadline = wp_until();
            self->begun = true;
        }
        *result = hd_select_poll(&self->wait, self->cases, SHELF, 0, self->deadline);
        if (*result == -EAGAIN) return HD_PENDING;
        self->begun = false;
        if (wp_again(*result)) continue;
        if (*result < 0) return HD_READY;
        give_back(self->shelf, *result);
    }
    *result = 0;
    return HD_READY;
}

static int hold_everything(void *arg)
{
    struct shelf *shelf = arg;
    EXPECT_EQ(hd_mutex_lock(&shelf->mutex), 0);
    EXPECT_EQ(hd_rwlock_write_lock(&shelf->rwlock), 0);
    EXPECT_EQ(hd_sem_acquire(&shelf->sem, 1), 0);
    yield_times(4);
    EXPECT_EQ(hd_sem_release(&shelf->sem, 1), 0);
    yield_times(2);
    hd_mutex_unlock(&shelf->mutex);
    hd_rwlock_write_unlock(&shelf->rwlock);
    yield_times(2);
    hd_group_done(&shelf->group);
    return 0;
}

static void hit_shelf(bool stackless)
{
    struct shelf shelf = {.had = 0};
    EXPECT_EQ(hd_sem_init(&shelf.sem, PERMITS), 0);
    EXPECT_EQ(hd_group_add(&shelf.group, 2), 0);
    hd_task *others[2];
    for (int i = 0; i < 2; i++) others[i] = rt_spawn(NULL, hold_everything, &shelf);
    const struct shelf_state state = {.shelf = &shelf};
    if (stackless) {
        wp_spawn_poll(shelf_poll, &state, sizeof(state));
    } else {
        wp_spawn(shelf_victim, &shelf);
    }
    const int err = wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    if (!err) EXPECT_EQ(shelf.had, 4);
    EXPECT_EQ(hd_mutex_lock_try(&shelf.mutex), 0);
    hd_mutex_unlock(&shelf.mutex);
    EXPECT_EQ(hd_rwlock_write_lock_try(&shelf.rwlock), 0);
    hd_rwlock_write_unlock(&shelf.rwlock);
    EXPECT_EQ(hd_sem_permits(&shelf.sem), PERMITS);
    EXPECT_EQ(hd_group_wait_try(&shelf.group), 0);
    hd_mutex_fini(&shelf.mutex);
    hd_rwlock_fini(&shelf.rwlock);
    hd_sem_fini(&shelf.sem);
    hd_group_fini(&shelf.group);
}

WAITPOINTS(select_over_locks)
{
    hit_shelf(false);
}

WAITPOINTS(select_over_locks_by_a_stackless_task)
{
    hit_shelf(true);
}
