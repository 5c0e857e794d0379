/* SPDX-License-Identifier: MIT
 *
 * every_wait: one of everything a fiber or a stackless task can wait on, each in a state in
 * which it would wait for ever.
 */
#ifndef TEST_EVERY_WAIT_H
#define TEST_EVERY_WAIT_H

#include "nurseries.h"

struct waits {
    hd_chan *empty, *full;
    hd_mutex held, with_cond;
    hd_cond cond;
    hd_rwlock rwlock;
    hd_sem sem;
    hd_barrier barrier;
    hd_once once;
    hd_group group, in_once;
    hd_notify notify;
    hd_oneshot oneshot;
    hd_broadcast *broadcast;
    hd_broadcast_receiver broadcast_receiver;
    hd_watch *watch;
    hd_watch_receiver watch_receiver;
    hd_token *token;
    hd_task *parked, *caller;
    int number;
};

static inline int waits_in_once_(void *arg)
{
    struct waits *w = arg;
    hd_group_done(&w->group);
    EXPECT_EQ(hd_group_wait(&w->in_once), 0);
    return 0;
}

static inline int waits_call_once_(void *arg)
{
    struct waits *w = arg;
    return hd_once_call(&w->once, waits_in_once_, w);
}

/* Context: a fiber, which then holds two locks. */
static inline void waits_init(struct waits *w)
{
    memset(w, 0, sizeof(*w));
    w->empty = hd_chan_create(sizeof(int), 0);
    w->full = hd_chan_create(sizeof(int), 1);
    w->broadcast = hd_broadcast_create(sizeof(int), 4);
    w->watch = hd_watch_create(sizeof(int), &w->number);
    w->token = hd_token_create(NULL);
    EXPECT(w->empty && w->full && w->broadcast && w->watch && w->token);
    EXPECT_EQ(hd_chan_send(w->full, &w->number), 0);
    EXPECT_EQ(hd_broadcast_subscribe(w->broadcast, &w->broadcast_receiver), 0);
    hd_watch_subscribe(w->watch, &w->watch_receiver);
    EXPECT_EQ(hd_oneshot_init(&w->oneshot, sizeof(int), NULL), 0);
    EXPECT_EQ(hd_barrier_init(&w->barrier, 2), 0);
    EXPECT_EQ(hd_mutex_lock(&w->held), 0);
    EXPECT_EQ(hd_rwlock_write_lock(&w->rwlock), 0);
    EXPECT_EQ(hd_group_add(&w->in_once, 1), 0);
    EXPECT_EQ(hd_group_add(&w->group, 1), 0);
    w->caller = rt_spawn(NULL, waits_call_once_, w);
    EXPECT_EQ(hd_group_wait(&w->group), 0); /* It is inside. */
    EXPECT_EQ(hd_group_add(&w->group, 1), 0);
    w->parked = rt_spawn(NULL, nur_park, NULL);
}

/* Context: the same fiber; nobody waits any more. */
static inline void waits_fini(struct waits *w)
{
    hd_group_done(&w->in_once);
    EXPECT_EQ(rt_join(w->caller), 0);
    hd_cancel(w->parked);
    EXPECT_EQ(rt_join(w->parked), -ECANCELED);
    EXPECT_EQ(hd_chan_count(w->full), 1);
    EXPECT_EQ(hd_sem_permits(&w->sem), 0);
    hd_mutex_unlock(&w->held);
    EXPECT_EQ(hd_mutex_lock_try(&w->with_cond), 0); /* Whoever waited gave it back. */
    hd_mutex_unlock(&w->with_cond);
    hd_rwlock_write_unlock(&w->rwlock);
    hd_mutex_fini(&w->held);
    hd_mutex_fini(&w->with_cond);
    hd_cond_fini(&w->cond);
    hd_rwlock_fini(&w->rwlock);
    hd_sem_fini(&w->sem);
    hd_barrier_fini(&w->barrier);
    hd_once_fini(&w->once);
    hd_group_done(&w->group);
    hd_group_fini(&w->group);
    hd_group_fini(&w->in_once);
    hd_notify_fini(&w->notify);
    hd_broadcast_unsubscribe(&w->broadcast_receiver);
    hd_broadcast_destroy(w->broadcast);
    hd_watch_destroy(w->watch);
    hd_chan_destroy(w->empty);
    hd_chan_destroy(w->full);
    hd_token_unref(w->token);
}

/* ---- fibers: a call that waits for ever ---- */

typedef int waits_call(struct waits *w);

static inline int waits_park_(struct waits *w) { return nur_park(w); }
static inline int waits_sleep_(struct waits *w)
{
    (void)w;
    return hd_sleep_until(HD_FOREVER);
}
static inline int waits_sleep_ms_(struct waits *w)
{
    (void)w;
    return hd_sleep_ms(INT64_C(1) << 40);
}
static inline int waits_interval_(struct waits *w)
{
    hd_interval interval;
    (void)w;
    EXPECT_EQ(hd_interval_init(&interval, HD_FOREVER - 1, 1, HD_MISSED_SKIP), 0);
    return hd_interval_wait(&interval, NULL);
}
static inline int waits_recv_(struct waits *w) { return hd_chan_recv(w->empty, &w->number); }
static inline int waits_recv_until_(struct waits *w)
{
    return hd_chan_recv_until(w->empty, &w->number, HD_FOREVER - 1);
}
static inline int waits_send_(struct waits *w) { return hd_chan_send(w->full, &w->number); }
static inline int waits_send_many_(struct waits *w)
{
    return (int)hd_chan_send_many(w->full, &w->number, 1);
}
static inline int waits_recv_many_(struct waits *w)
{
    return (int)hd_chan_recv_many(w->empty, &w->number, 1);
}
static inline int waits_mutex_(struct waits *w) { return hd_mutex_lock(&w->held); }
static inline int waits_cond_(struct waits *w)
{
    int err = hd_mutex_lock(&w->with_cond);
    if (err) return err;
    do err = hd_cond_wait(&w->cond, &w->with_cond);
    while (err == 0);
    EXPECT(hd_mutex_held(&w->with_cond)); /* also then */
    hd_mutex_unlock(&w->with_cond);
    return err;
}
static inline int waits_read_(struct waits *w) { return hd_rwlock_read_lock(&w->rwlock); }
static inline int waits_write_(struct waits *w) { return hd_rwlock_write_lock(&w->rwlock); }
static inline int waits_sem_(struct waits *w) { return hd_sem_acquire(&w->sem, 1); }
static inline int waits_barrier_(struct waits *w) { return hd_barrier_wait(&w->barrier); }
static inline int waits_once_(struct waits *w)
{
    return hd_once_call(&w->once, waits_in_once_, w);
}
static inline int waits_group_(struct waits *w) { return hd_group_wait(&w->group); }
static inline int waits_notify_(struct waits *w) { return hd_notify_wait(&w->notify); }
static inline int waits_oneshot_(struct waits *w)
{
    return hd_oneshot_recv(&w->oneshot, &w->number);
}
static inline int waits_broadcast_(struct waits *w)
{
    return hd_broadcast_recv(&w->broadcast_receiver, &w->number);
}
static inline int waits_watch_(struct waits *w)
{
    return hd_watch_changed(&w->watch_receiver, &w->number);
}
static inline int waits_token_(struct waits *w) { return hd_token_wait(w->token, HD_FOREVER); }
static inline int waits_join_(struct waits *w) { return hd_join(w->parked, NULL); }
static inline int waits_join_until_(struct waits *w)
{
    return hd_join_until(w->parked, NULL, HD_FOREVER - 1);
}
static inline int waits_select_(struct waits *w)
{
    hd_case cases[] = {HD_RECV(w->empty, &w->number), HD_SEND(w->full, &w->number),
                       HD_LOCK(&w->held), HD_TOKEN(w->token), HD_JOIN(w->parked, NULL)};
    return hd_select(cases, 5);
}
/* Its children are cancelled with it, and end the wait. */
static inline int waits_nursery_(struct waits *w)
{
    (void)w;
    hd_nursery n;
    nur_open(&n, NULL);
    for (int i = 0; i < 2; i++) (void)hd_go(&n, nur_park, NULL);
    const int result = hd_nursery_leave(&n);
    return result ? result : hd_park(); /* it was cancelled before it could spawn */
}

static const struct {
    const char *name;
    waits_call *call;
} waits_all[] = {
    {"park", waits_park_},           {"sleep", waits_sleep_},
    {"sleep_ms", waits_sleep_ms_},   {"interval", waits_interval_},
    {"recv", waits_recv_},           {"recv_until", waits_recv_until_},
    {"send", waits_send_},           {"send_many", waits_send_many_},
    {"recv_many", waits_recv_many_}, {"mutex", waits_mutex_},
    {"cond", waits_cond_},           {"read_lock", waits_read_},
    {"write_lock", waits_write_},    {"sem", waits_sem_},
    {"barrier", waits_barrier_},     {"once", waits_once_},
    {"group", waits_group_},         {"notify", waits_notify_},
    {"oneshot", waits_oneshot_},     {"broadcast", waits_broadcast_},
    {"watch", waits_watch_},         {"token", waits_token_},
    {"join", waits_join_},           {"join_until", waits_join_until_},
    {"select", waits_select_},       {"nursery", waits_nursery_},
};
enum { WAITS = sizeof(waits_all) / sizeof(waits_all[0]) };

/* A child that makes one of these calls, twice: what ended it stays. */
struct waits_child {
    struct waits *waits;
    int which;
    atomic_int begun;
};

static inline int waits_child_fn(void *arg)
{
    struct waits_child *child = arg;
    atomic_store(&child->begun, 1);
    const int err = waits_all[child->which].call(child->waits);
    if (child->which != WAITS - 1) EXPECT_EQ(waits_all[child->which].call(child->waits), err);
    return err;
}

/* ---- stackless tasks: a case that never happens ---- */

enum { WAITS_CASES = 14 };

static inline hd_case waits_case(struct waits *w, int which)
{
    switch (which) {
    case 0: return (hd_case)HD_NEVER;
    case 1: return (hd_case)HD_RECV(w->empty, &w->number);
    case 2: return (hd_case)HD_SEND(w->full, &w->number);
    case 3: return (hd_case)HD_AT(HD_FOREVER);
    case 4: return (hd_case)HD_JOIN(w->parked, NULL);
    case 5: return (hd_case)HD_LOCK(&w->held);
    case 6: return (hd_case)HD_READ_LOCK(&w->rwlock);
    case 7: return (hd_case)HD_WRITE_LOCK(&w->rwlock);
    case 8: return (hd_case)HD_ACQUIRE(&w->sem, 1);
    case 9: return (hd_case)HD_NOTIFIED(&w->notify);
    case 10: return (hd_case)HD_ONESHOT(&w->oneshot, &w->number);
    case 11: return (hd_case)HD_CHANGED(&w->watch_receiver, &w->number);
    case 12: return (hd_case)HD_BROADCAST(&w->broadcast_receiver, &w->number);
    default: return (hd_case)HD_ALL_DONE(&w->group);
    }
}

struct waits_poll {
    hd_case c;
    hd_wait wait;
    atomic_int *begun;
};

static inline hd_poll waits_poll_fn(void *state, int *result)
{
    struct waits_poll *p = state;
    const int which = hd_select_poll(&p->wait, &p->c, 1, 0, HD_FOREVER);
    atomic_store(p->begun, 1);
    if (which == -EAGAIN) return HD_PENDING;
    *result = which < 0 ? which : -EXDEV; /* it cannot happen */
    return HD_READY;
}

/* Let everybody who is ready run until they wait. Context: a fiber, with one worker. */
static inline void waits_settle(void)
{
    for (int i = 0; i < 200; i++) hd_yield();
}

#endif
