/* SPDX-License-Identifier: MIT
 *
 * locks: the fast ways of src/sync against sleeping, handing over against giving up, and the
 * end of objects against those on their way out.
 */
#include <errno.h>
#include <string.h>

#include <heddle/select.h>
#include <heddle/sync.h>

#include "rt.h"

/* ---- mutex ---- */

struct shared {
    hd_mutex mutex;
    int total; /* plain: the mutex orders it */
};

static void shared_init(struct shared *s)
{
    memset(s, 0, sizeof(*s));
    MODEL_NAME(s->mutex);
}

static void add_one(struct shared *s)
{
    MODEL_EQUAL(hd_mutex_lock(&s->mutex), 0);
    MODEL_WRITE(s->total, MODEL_READ(s->total) + 1);
    hd_mutex_unlock(&s->mutex);
}

static void adder(void *arg)
{
    add_one(arg);
}

MODEL(mutex_two_threads, .sc = 5, .tso = 4, .pso = 4, .kills = "mutex_plain_unlock")
{
    struct shared s;
    shared_init(&s);
    void *t = model_thread(adder, &s);
    add_one(&s);
    add_one(&s);
    model_join(t);
    MODEL_EQUAL(MODEL_READ(s.total), 3);
    hd_mutex_fini(&s.mutex);
}

/* One waits, one barges: the woken one sleeps again, and is woken again. */
MODEL(mutex_barging, .sc = 3, .tso = 2, .pso = 2, .kills = "mutex_plain_unlock mutex_woken_kept")
{
    struct shared s;
    shared_init(&s);
    MODEL_EQUAL(hd_mutex_lock(&s.mutex), 0);
    void *a = model_thread(adder, &s);
    void *b = model_thread(adder, &s);
    hd_mutex_unlock(&s.mutex);
    add_one(&s);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(MODEL_READ(s.total), 3);
    hd_mutex_fini(&s.mutex);
}

/* Taken again and again before the one that waits: in the end it is handed over. */
MODEL(mutex_hog, .sc = 4, .tso = 3, .pso = 3)
{
    struct shared s;
    shared_init(&s);
    void *t = model_thread(adder, &s);
    for (int i = 0; i < 4; i++) add_one(&s);
    model_join(t);
    MODEL_EQUAL(MODEL_READ(s.total), 5);
    hd_mutex_fini(&s.mutex);
}

/* A deadline that passes at once: whoever leaves takes nothing along. */
static void impatient(void *arg)
{
    struct shared *s = arg;
    const int err = hd_mutex_lock_until(&s->mutex, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (err) return;
    MODEL_WRITE(s->total, MODEL_READ(s->total) + 1);
    hd_mutex_unlock(&s->mutex);
}

MODEL(mutex_timeout, .sc = 3, .tso = 2, .pso = 2)
{
    struct shared s;
    shared_init(&s);
    MODEL_EQUAL(hd_mutex_lock(&s.mutex), 0);
    void *a = model_thread(impatient, &s), *b = model_thread(adder, &s);
    hd_mutex_unlock(&s.mutex);
    model_join(a);
    model_join(b);
    MODEL_CHECK(MODEL_READ(s.total) >= 1);
    MODEL_EQUAL(hd_mutex_lock_try(&s.mutex), 0);
    hd_mutex_unlock(&s.mutex);
    hd_mutex_fini(&s.mutex);
}

/* A fiber waits; it is cancelled while the mutex is unlocked. */
static int lock_once(void *arg)
{
    struct shared *s = arg;
    const int err = hd_mutex_lock(&s->mutex);
    if (err) return err;
    MODEL_WRITE(s->total, MODEL_READ(s->total) + 1);
    hd_mutex_unlock(&s->mutex);
    return 0;
}

MODEL(mutex_fiber_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct shared s;
    shared_init(&s);
    hd_runtime *rt = rt_start(1);
    MODEL_EQUAL(hd_mutex_lock(&s.mutex), 0);
    hd_task *task = rt_fiber(rt, lock_once, &s);
    rt_settle(rt);
    hd_cancel(task);
    hd_mutex_unlock(&s.mutex);
    add_one(&s);
    const int err = rt_join(task);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    MODEL_EQUAL(MODEL_READ(s.total), err ? 1 : 2);
    hd_mutex_fini(&s.mutex);
    rt_stop(rt);
}

/* The last user ends it, while the unlock that let it in may still be at work. */
struct counted {
    hd_mutex mutex;
    int users;
};

static void leave(void *arg)
{
    struct counted *c = arg;
    MODEL_EQUAL(hd_mutex_lock(&c->mutex), 0);
    const bool last = --c->users == 0;
    hd_mutex_unlock(&c->mutex);
    if (!last) return;
    hd_mutex_fini(&c->mutex);
    model_free(c);
}

MODEL(mutex_last_user, .sc = 4, .tso = 3, .pso = 3, .kills = "mutex_fini_blind")
{
    struct counted *c = model_alloc(sizeof(*c));
    c->users = 2;
    void *t = model_thread(leave, c);
    leave(c);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- select: handed over, or not at all ---- */

struct either {
    hd_mutex mutex;
    hd_sem sem;
};

static int select_either(void *arg)
{
    struct either *e = arg;
    hd_case cases[] = {HD_LOCK(&e->mutex), HD_ACQUIRE(&e->sem, 1)};
    const int which = hd_select(cases, 2);
    if (which == 0) hd_mutex_unlock(&e->mutex);
    return which;
}

static void release_one(void *sem)
{
    MODEL_EQUAL(hd_sem_release(sem, 1), 0);
}

MODEL(locks_select, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct either e = {.sem = HD_SEM_INIT(0)};
    hd_runtime *rt = rt_start(1);
    MODEL_EQUAL(hd_mutex_lock(&e.mutex), 0);
    hd_task *task = rt_fiber(rt, select_either, &e);
    rt_settle(rt);
    void *t = model_thread(release_one, &e.sem);
    hd_mutex_unlock(&e.mutex);
    const int which = rt_join(task);
    model_join(t);
    MODEL_CHECK(which == 0 || which == 1);
    MODEL_EQUAL(hd_sem_permits(&e.sem), 1 - which);
    MODEL_EQUAL(hd_mutex_lock_try(&e.mutex), 0);
    hd_mutex_unlock(&e.mutex);
    hd_mutex_fini(&e.mutex);
    hd_sem_fini(&e.sem);
    rt_stop(rt);
}

/* ---- semaphore ---- */

MODEL(sem_wait_release, .sc = 5, .tso = 5, .pso = 5, .kills = "sem_flag_late")
{
    hd_sem sem = HD_SEM_INIT(0);
    MODEL_NAME(sem);
    void *a = model_thread(release_one, &sem);
    MODEL_EQUAL(hd_sem_acquire(&sem, 1), 0);
    model_join(a);
    MODEL_EQUAL(hd_sem_permits(&sem), 0);
    hd_sem_fini(&sem);
}

static void acquire_two(void *sem)
{
    MODEL_EQUAL(hd_sem_acquire(sem, 2), 0);
    MODEL_EQUAL(hd_sem_release(sem, 2), 0);
}

MODEL(sem_batch, .sc = 3, .tso = 2, .pso = 2, .kills = "sem_flag_late")
{
    hd_sem sem = HD_SEM_INIT(1);
    MODEL_NAME(sem);
    void *a = model_thread(acquire_two, &sem), *b = model_thread(release_one, &sem);
    MODEL_EQUAL(hd_sem_acquire(&sem, 1), 0);
    MODEL_EQUAL(hd_sem_release(&sem, 1), 0);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(hd_sem_permits(&sem), 2);
    hd_sem_fini(&sem);
}

/* Permits are handed over to one that is cancelled: it has them, or they are still there. */
static int acquire_one(void *sem)
{
    return hd_sem_acquire(sem, 1);
}

MODEL(sem_cancelled, .sc = 2, .tso = 2, .pso = 1, RT_STEPS)
{
    hd_sem sem = HD_SEM_INIT(0);
    hd_runtime *rt = rt_start(1);
    hd_task *first = rt_fiber(rt, acquire_one, &sem), *second = rt_fiber(rt, acquire_one, &sem);
    rt_settle(rt);
    hd_cancel(first);
    MODEL_EQUAL(hd_sem_release(&sem, 1), 0);
    const int err = rt_join(first);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    if (!err) MODEL_EQUAL(hd_sem_release(&sem, 1), 0);
    MODEL_EQUAL(rt_join(second), 0);
    MODEL_EQUAL(hd_sem_permits(&sem), 0);
    hd_sem_fini(&sem);
    rt_stop(rt);
}

/* ---- reader-writer lock ---- */

struct book {
    hd_rwlock rwlock;
    int page; /* plain: the lock orders it */
};

static void writer(void *arg)
{
    struct book *b = arg;
    MODEL_EQUAL(hd_rwlock_write_lock(&b->rwlock), 0);
    MODEL_WRITE(b->page, MODEL_READ(b->page) + 1);
    hd_rwlock_write_unlock(&b->rwlock);
}

static void reader(void *arg)
{
    struct book *b = arg;
    MODEL_EQUAL(hd_rwlock_read_lock(&b->rwlock), 0);
    (void)MODEL_READ(b->page);
    hd_rwlock_read_unlock(&b->rwlock);
}

static void rwlock_scene(void (*other)(void *), void (*third)(void *))
{
    struct book b;
    memset(&b, 0, sizeof(b));
    MODEL_NAME(b.rwlock);
    void *s = model_thread(other, &b), *t = third ? model_thread(third, &b) : NULL;
    writer(&b);
    reader(&b);
    model_join(s);
    if (t) model_join(t);
    MODEL_CHECK(MODEL_READ(b.page) >= 1);
    MODEL_EQUAL(hd_rwlock_write_lock_try(&b.rwlock), 0);
    hd_rwlock_write_unlock(&b.rwlock);
    hd_rwlock_fini(&b.rwlock);
}

MODEL(rwlock_reader, .sc = 4, .tso = 4, .pso = 4) { rwlock_scene(reader, NULL); }
MODEL(rwlock_two_readers, .sc = 3, .tso = 2, .pso = 2, .kills = "rwlock_last_relaxed")
{
    rwlock_scene(reader, reader);
}
MODEL(rwlock_two_writers, .sc = 3, .tso = 2, .pso = 2, .kills = "rwlock_last_relaxed")
{
    rwlock_scene(writer, reader);
}

/* A writer that gives up lets the readers behind it in. */
static void impatient_writer(void *arg)
{
    struct book *b = arg;
    const int err = hd_rwlock_write_lock_until(&b->rwlock, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (!err) hd_rwlock_write_unlock(&b->rwlock);
}

MODEL(rwlock_writer_leaves, .sc = 3, .tso = 2, .pso = 2)
{
    struct book b;
    memset(&b, 0, sizeof(b));
    MODEL_NAME(b.rwlock);
    MODEL_EQUAL(hd_rwlock_read_lock(&b.rwlock), 0);
    void *s = model_thread(impatient_writer, &b), *t = model_thread(reader, &b);
    model_join(t); /* It reads beside us, once the writer has gone. */
    hd_rwlock_read_unlock(&b.rwlock);
    model_join(s);
    hd_rwlock_fini(&b.rwlock);
}

/* ---- condition ---- */

struct box {
    hd_mutex mutex;
    hd_cond cond;
    int full;
};

static void fill(void *arg)
{
    struct box *b = arg;
    MODEL_EQUAL(hd_mutex_lock(&b->mutex), 0);
    MODEL_WRITE(b->full, 1);
    hd_mutex_unlock(&b->mutex);
    hd_cond_signal(&b->cond);
}

MODEL(cond_signal, .sc = 4, .tso = 3, .pso = 3, .kills = "cond_count_ignored")
{
    struct box b;
    memset(&b, 0, sizeof(b));
    MODEL_NAME(b.mutex);
    MODEL_NAME(b.cond);
    void *t = model_thread(fill, &b);
    MODEL_EQUAL(hd_mutex_lock(&b.mutex), 0);
    while (!MODEL_READ(b.full)) MODEL_EQUAL(hd_cond_wait(&b.cond, &b.mutex), 0);
    hd_mutex_unlock(&b.mutex);
    model_join(t);
    hd_cond_fini(&b.cond);
    hd_mutex_fini(&b.mutex);
}

/* ---- barrier ---- */

static int meet(void *barrier)
{
    return hd_barrier_wait(barrier);
}

static void cancel(void *task)
{
    hd_cancel(task);
}

MODEL(barrier_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "barrier_cancel_wins")
{
    hd_barrier barrier = HD_BARRIER_INIT(2);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, meet, &barrier);
    rt_settle(rt);
    void *t = model_thread(cancel, task);
    const int how = hd_barrier_wait_try(&barrier);
    model_join(t);
    MODEL_CHECK(how == HD_BARRIER_SERIAL || how == -EAGAIN);
    MODEL_EQUAL(rt_join(task), how == HD_BARRIER_SERIAL ? 0 : -ECANCELED);
    hd_barrier_fini(&barrier);
    rt_stop(rt);
}

/* ---- once ---- */

struct lazy {
    hd_once once;
    int calls; /* plain: the once orders it */
};

static int fail_first(void *arg)
{
    struct lazy *lazy = arg;
    MODEL_WRITE(lazy->calls, MODEL_READ(lazy->calls) + 1);
    return MODEL_READ(lazy->calls) == 1 ? 7 : 0;
}

static void call(void *arg)
{
    struct lazy *lazy = arg;
    const int err = hd_once_call(&lazy->once, fail_first, lazy);
    MODEL_CHECK(err == 0 || err == 7);
    if (err == 0) MODEL_EQUAL(MODEL_READ(lazy->calls), 2);
}

MODEL(once_fails_first, .sc = 4, .tso = 3, .pso = 3)
{
    struct lazy lazy;
    memset(&lazy, 0, sizeof(lazy));
    MODEL_NAME(lazy.once);
    void *a = model_thread(call, &lazy);
    call(&lazy);
    model_join(a);
    MODEL_EQUAL(MODEL_READ(lazy.calls), 2);
    hd_once_fini(&lazy.once);
}

/* ---- group: its memory goes as soon as the wait returns ---- */

struct work {
    hd_group group;
    int done; /* plain: the group orders it */
};

static void work(void *arg)
{
    struct work *w = arg;
    MODEL_WRITE(w->done, 1);
    hd_group_done(&w->group);
}

MODEL(group_goes, .sc = 5, .tso = 4, .pso = 4, .kills = "group_wait_blind")
{
    struct work *w = model_alloc(sizeof(*w));
    MODEL_EQUAL(hd_group_add(&w->group, 1), 0);
    void *t = model_thread(work, w);
    MODEL_EQUAL(hd_group_wait(&w->group), 0);
    MODEL_EQUAL(MODEL_READ(w->done), 1);
    model_free(w);
    model_join(t);
}

/* ---- notify ---- */

struct news {
    hd_notify notify;
    int first, second; /* plain: written before a notification */
    _Atomic(uint32_t) sent;
};

static void news_init(struct news *n)
{
    memset(n, 0, sizeof(*n));
    MODEL_NAME(n->notify);
    MODEL_NAME(n->sent);
}

static void send_first(void *arg)
{
    struct news *n = arg;
    MODEL_WRITE(n->first, 1);
    hd_notify_one(&n->notify);
}

static void send_second(void *arg)
{
    struct news *n = arg;
    MODEL_WRITE(n->second, 1);
    hd_notify_one(&n->notify);
    hdi_store_relaxed(&n->sent, 1); /* on purpose: it is the notification that orders */
}

MODEL(notify_wait, .sc = 5, .tso = 5, .pso = 5)
{
    struct news n;
    news_init(&n);
    void *t = model_thread(send_first, &n);
    MODEL_EQUAL(hd_notify_wait(&n.notify), 0);
    MODEL_EQUAL(MODEL_READ(n.first), 1);
    model_join(t);
    MODEL_EQUAL(hd_notify_wait_try(&n.notify), -EAGAIN);
    hd_notify_fini(&n.notify);
}

/* Two are merged into one: it brings the news of both. */
MODEL(notify_merged, .sc = 4, .tso = 4, .pso = 4, .kills = "notify_merged_silently")
{
    struct news n;
    news_init(&n);
    hd_notify_one(&n.notify);
    void *t = model_thread(send_second, &n);
    const bool sent = hdi_load_relaxed(&n.sent);
    if (hd_notify_wait_try(&n.notify) == 0 && sent) MODEL_EQUAL(MODEL_READ(n.second), 1);
    model_join(t);
    hd_notify_fini(&n.notify);
}

/* One notification, two that wait, one of them cancelled: it is never lost. */
static int await_news(void *notify)
{
    return hd_notify_wait(notify);
}

MODEL(notify_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_notify notify = {{0}};
    hd_runtime *rt = rt_start(1);
    hd_task *first = rt_fiber(rt, await_news, &notify);
    hd_task *second = rt_fiber(rt, await_news, &notify);
    rt_settle(rt);
    hd_cancel(first);
    hd_notify_one(&notify);
    const int err = rt_join(first);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    if (!err) hd_notify_one(&notify);
    MODEL_EQUAL(rt_join(second), 0);
    MODEL_EQUAL(hd_notify_wait_try(&notify), -EAGAIN);
    hd_notify_fini(&notify);
    rt_stop(rt);
}
