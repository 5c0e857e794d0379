/* SPDX-License-Identifier: MIT
 *
 * Stackless tasks that end while they wait, at every wait point: what they had won, but not
 * looked at, is given back, and their places in queues are free.
 */
#include "waitpoints.h"

TEST_MAIN

enum { ITEMS = 5, PERMITS = 2 };

/* ---- channels ---- */

struct traffic {
    hd_chan *chan;
    uint64_t sent, got, dropped;
};

static void put(uint64_t *set, int item)
{
    EXPECT(!(*set >> item & 1));
    *set |= UINT64_C(1) << item;
}

static void undelivered(void *item, void *arg)
{
    put(&((struct traffic *)arg)->dropped, *(int *)item);
}

/* Receives until the channel is closed; ends at a cancel without another look. */
struct receiving {
    struct traffic *traffic;
    int item;
    bool begun;
    hd_wait wait;
    hd_case cases[1];
};

static hd_poll receiving_poll(void *state, int *result)
{
    struct receiving *self = state;
    *result = -ECANCELED;
    if (hd_cancelled()) return HD_READY; /* The wait is left in the state. */
    for (;;) {
        if (!self->begun) self->cases[0] = (hd_case)HD_RECV(self->traffic->chan, &self->item);
        self->begun = true;
        const int which = hd_select_poll(&self->wait, self->cases, 1, 0, HD_FOREVER);
        if (which == -EAGAIN) return HD_PENDING;
        self->begun = false;
        EXPECT_EQ(which, 0);
        *result = 0;
        if (self->cases[0].result == -EPIPE) return HD_READY;
        put(&self->traffic->got, self->item);
    }
}

static int send_all(void *arg)
{
    struct traffic *traffic = arg;
    for (int item = 0; item < ITEMS; item++) {
        hd_yield();
        EXPECT_EQ(hd_chan_send(traffic->chan, &item), 0);
        put(&traffic->sent, item);
    }
    EXPECT_EQ(hd_chan_close(traffic->chan), 0);
    return 0;
}

static void hit_receiver(size_t capacity)
{
    struct traffic traffic = {.sent = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = capacity;
    options.undelivered = undelivered;
    options.arg = &traffic;
    EXPECT_EQ(hd_chan_create_with(&traffic.chan, sizeof(int), &options), 0);
    hd_task *sender = rt_spawn(NULL, send_all, &traffic);
    const struct receiving state = {.traffic = &traffic};
    wp_spawn_poll(receiving_poll, &state, sizeof(state));
    const int err = wp_join();
    for (int item; hd_chan_recv(traffic.chan, &item) == 0;) put(&traffic.got, item);
    EXPECT_EQ(rt_join(sender), 0);
    hd_chan_destroy(traffic.chan);
    EXPECT_EQ(traffic.got & traffic.dropped, 0);
    EXPECT_EQ(traffic.got | traffic.dropped, traffic.sent);
    if (!err) EXPECT_EQ(traffic.dropped, 0);
}

WAITPOINTS(a_receiver_that_ends_handed_over)
{
    hit_receiver(0);
}

WAITPOINTS(a_receiver_that_ends_buffered)
{
    hit_receiver(2);
}

/* ---- what can be held ---- */

struct held {
    hd_mutex mutex;
    hd_rwlock rwlock;
    hd_sem sem;
    hd_notify notify;
    hd_case_kind kind;
    int rounds;
    bool over; /* no more notifications */
};

static void release(struct held *held)
{
    switch ((int)held->kind) {
    case HD_CASE_LOCK: hd_mutex_unlock(&held->mutex); return;
    case HD_CASE_READ_LOCK: hd_rwlock_read_unlock(&held->rwlock); return;
    case HD_CASE_WRITE_LOCK: hd_rwlock_write_unlock(&held->rwlock); return;
    case HD_CASE_ACQUIRE: EXPECT_EQ(hd_sem_release(&held->sem, PERMITS), 0); return;
    default: return;
    }
}

static void had_it(void *arg)
{
    struct held *held = arg;
    held->rounds++;
    release(held);
}

static int hold_now_and_then(void *arg)
{
    struct held *held = arg;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_mutex_lock(&held->mutex), 0);
        EXPECT_EQ(hd_rwlock_write_lock(&held->rwlock), 0);
        EXPECT_EQ(hd_sem_acquire(&held->sem, 1), 0);
        for (int k = 0; k < 3; k++) hd_yield();
        EXPECT_EQ(hd_sem_release(&held->sem, 1), 0);
        hd_rwlock_write_unlock(&held->rwlock);
        hd_mutex_unlock(&held->mutex);
        hd_yield();
    }
    return 0;
}

/* Waits for it a few times. */
struct holding {
    struct held *held;
    hd_case one;
    int rounds;
    bool begun;
    hd_wait wait;
    hd_case cases[1];
};

static hd_poll holding_poll(void *state, int *result)
{
    struct holding *self = state;
    *result = -ECANCELED;
    if (hd_cancelled()) return HD_READY;
    *result = 0;
    for (; self->rounds < 3; self->rounds++) {
        if (!self->begun) self->cases[0] = self->one;
        self->begun = true;
        const int which = hd_select_poll(&self->wait, self->cases, 1, 0, HD_FOREVER);
        if (which == -EAGAIN) return HD_PENDING;
        self->begun = false;
        EXPECT_EQ(which, 0);
        had_it(self->held);
    }
    return HD_READY;
}

static void expect_free(struct held *held)
{
    EXPECT_EQ(hd_mutex_lock_try(&held->mutex), 0);
    hd_mutex_unlock(&held->mutex);
    EXPECT_EQ(hd_rwlock_write_lock_try(&held->rwlock), 0);
    hd_rwlock_write_unlock(&held->rwlock);
    EXPECT_EQ(hd_sem_permits(&held->sem), PERMITS);
    hd_mutex_fini(&held->mutex);
    hd_rwlock_fini(&held->rwlock);
    hd_sem_fini(&held->sem);
}

static void hit_holder(struct held *held, hd_case one)
{
    held->kind = one.kind;
    hd_task *others[2];
    for (int i = 0; i < 2; i++) others[i] = rt_spawn(NULL, hold_now_and_then, held);
    const struct holding state = {.held = held, .one = one};
    wp_spawn_poll(holding_poll, &state, sizeof(state));
    const int err = wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    if (!err) EXPECT_EQ(held->rounds, 3);
    expect_free(held);
}

WAITPOINTS(a_mutex_won_by_a_task_that_ends)
{
    struct held held = {.sem = HD_SEM_INIT(PERMITS)};
    hit_holder(&held, (hd_case)HD_LOCK(&held.mutex));
}

WAITPOINTS(a_read_lock_won_by_a_task_that_ends)
{
    struct held held = {.sem = HD_SEM_INIT(PERMITS)};
    hit_holder(&held, (hd_case)HD_READ_LOCK(&held.rwlock));
}

WAITPOINTS(a_write_lock_won_by_a_task_that_ends)
{
    struct held held = {.sem = HD_SEM_INIT(PERMITS)};
    hit_holder(&held, (hd_case)HD_WRITE_LOCK(&held.rwlock));
}

WAITPOINTS(permits_won_by_a_task_that_ends)
{
    struct held held = {.sem = HD_SEM_INIT(PERMITS)};
    hit_holder(&held, (hd_case)HD_ACQUIRE(&held.sem, PERMITS));
}

/* ---- a notification goes to the next ---- */

static int notify_three_times(void *arg)
{
    struct held *held = arg;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) hd_yield();
        const int before = held->rounds;
        hd_notify_one(&held->notify);
        while (held->rounds == before) EXPECT_EQ(hd_sleep_ms(1), 0); /* Somebody gets it. */
    }
    held->over = true;
    hd_notify_all(&held->notify);
    return 0;
}

static int await_notifications(void *arg)
{
    struct held *held = arg;
    while (!held->over) {
        EXPECT_EQ(hd_notify_wait(&held->notify), 0);
        held->rounds++;
    }
    return 0;
}

static hd_poll notified_poll(void *state, int *result)
{
    struct holding *self = state;
    *result = -ECANCELED;
    if (hd_cancelled()) return HD_READY;
    *result = 0;
    while (!self->held->over) {
        if (!self->begun) self->cases[0] = self->one;
        self->begun = true;
        const int which = hd_select_poll(&self->wait, self->cases, 1, 0, HD_FOREVER);
        if (which == -EAGAIN) return HD_PENDING;
        self->begun = false;
        EXPECT_EQ(which, 0);
        self->held->rounds++;
    }
    return HD_READY;
}

WAITPOINTS(a_notification_won_by_a_task_that_ends)
{
    struct held held = {.rounds = 0};
    hd_task *notifier = rt_spawn(NULL, notify_three_times, &held);
    hd_task *other = rt_spawn(NULL, await_notifications, &held);
    const struct holding state = {.held = &held, .one = HD_NOTIFIED(&held.notify)};
    wp_spawn_poll(notified_poll, &state, sizeof(state));
    (void)wp_join();
    EXPECT_EQ(rt_join(notifier), 0);
    EXPECT_EQ(rt_join(other), 0);
    hd_notify_fini(&held.notify);
}
