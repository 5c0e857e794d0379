/* SPDX-License-Identifier: MIT
 *
 * Locks under fire: fibers of two runtimes and plain threads on the same objects, with
 * deadlines and cancels that come at any moment. What is plain here is protected by the lock
 * under test only, so ThreadSanitizer checks its orders.
 */
#include "stress.h"

TEST_MAIN

enum { FIBERS = 12, THREADS = 2, RUNTIMES = 2 };

struct scene {
    hd_runtime *runtimes[RUNTIMES];
    int (*body)(struct scene *scene, struct stress_random *random);
    unsigned rounds;
    void *subject;
    atomic_uint seeds;
};

static int enter(struct scene *scene)
{
    struct stress_random random = stress_random_init(atomic_fetch_add(&scene->seeds, 1));
    for (unsigned i = 0; i < scene->rounds; i++) {
        const int err = scene->body(scene, &random);
        if (err) return err;
    }
    return 0;
}

static int fiber_main(void *arg)
{
    return enter(arg);
}

static void *thread_main(void *arg)
{
    EXPECT_EQ(enter(arg), 0);
    return NULL;
}

static hd_task *spawn_into(hd_runtime *runtime, hd_fn *fn, void *arg)
{
    const hd_spawn_options options = stress_into(runtime);
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

static void start(struct scene *scene)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    for (int i = 0; i < RUNTIMES; i++) scene->runtimes[i] = stress_runtime(&options);
}

static void stop(struct scene *scene)
{
    for (int i = 0; i < RUNTIMES; i++) hd_runtime_destroy(scene->runtimes[i]);
}

/* Run the body in all, `rounds` times each. With `cancels`, half of the fibers are cancelled
 * at some time; they must end with -ECANCELED or normally. */
static void play(struct scene *scene, bool cancels)
{
    start(scene);
    hd_task *tasks[FIBERS];
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < FIBERS; i++) {
        tasks[i] = spawn_into(scene->runtimes[i % RUNTIMES], fiber_main, scene);
    }
    for (int i = 0; i < THREADS; i++) stress_start(&threads, thread_main, scene);
    for (int i = 0; cancels && i < FIBERS; i += 2) hd_cancel(tasks[i]);
    for (int i = 0; i < FIBERS; i++) {
        int result;
        EXPECT_EQ(hd_join(tasks[i], &result), 0);
        EXPECT(result == 0 || (cancels && i % 2 == 0 && result == -ECANCELED));
    }
    stress_join(&threads);
    stop(scene);
}

/* A deadline: none, far, near, or passed. */
static int64_t some_deadline(struct stress_random *random)
{
    static const int64_t ns[] = {10000000000, 200000, 20000, 1000};
    const unsigned draw = stress_below(random, 8);
    return draw < 4 ? hd_now(NULL) + ns[draw] : draw == 4 ? HD_NOW : HD_FOREVER;
}

/* ---- mutex ---- */

struct counter {
    hd_mutex mutex;
    int inside;
    uint64_t total;
    atomic_ullong expected;
};

static int count_one(struct counter *c, struct stress_random *random)
{
    if (c->inside++ != 0) abort();
    c->total++;
    if (stress_below(random, 16) == 0) hd_yield();
    c->inside--;
    hd_mutex_unlock(&c->mutex);
    atomic_fetch_add_explicit(&c->expected, 1, memory_order_relaxed);
    return 0;
}

static int lock_somehow(struct scene *scene, struct stress_random *random)
{
    struct counter *c = scene->subject;
    int err;
    if (stress_below(random, 8) == 0) {
        hd_case cases[] = {HD_LOCK(&c->mutex), HD_AT(hd_now(NULL) + 20000)};
        const int which = hd_select(cases, 2);
        err = which == 0 ? cases[0].result : which == 1 ? -ETIMEDOUT : which;
    } else {
        err = hd_mutex_lock_until(&c->mutex, some_deadline(random));
    }
    if (err == -ETIMEDOUT || err == -EAGAIN) return 0;
    return err ? err : count_one(c, random);
}

static void mutex_scene(bool cancels)
{
    struct counter c = {.total = 0};
    struct scene scene = {
        .body = lock_somehow, .subject = &c, .rounds = stress_count(20000)};
    play(&scene, cancels);
    EXPECT_EQ(c.total, atomic_load(&c.expected));
    EXPECT_EQ(hd_mutex_lock_try(&c.mutex), 0);
    hd_mutex_unlock(&c.mutex);
    hd_mutex_fini(&c.mutex);
}

TEST(mutex_excludes_fibers_and_threads) { mutex_scene(false); }
TEST(mutex_with_cancels) { mutex_scene(true); }

/* Some hold it almost always and take it back at once. The others get it all the same: the
 * hogs go on until they have. */
struct contest {
    hd_mutex mutex;
    atomic_int left; /* who have not had their share */
};

static int hog(void *arg)
{
    struct contest *t = arg;
    while (atomic_load_explicit(&t->left, memory_order_relaxed) > 0) {
        EXPECT_EQ(hd_mutex_lock(&t->mutex), 0);
        for (volatile int i = 0; i < 2000; i++) continue;
        hd_mutex_unlock(&t->mutex);
    }
    return 0;
}

static int modest(void *arg)
{
    struct contest *t = arg;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(hd_mutex_lock(&t->mutex), 0);
        hd_mutex_unlock(&t->mutex);
        hd_yield();
    }
    atomic_fetch_sub(&t->left, 1);
    return 0;
}

TEST(mutex_starves_nobody)
{
    struct contest t = {.left = 6};
    struct scene scene = {.subject = &t};
    start(&scene);
    hd_task *tasks[8];
    for (int i = 0; i < 8; i++) {
        tasks[i] = spawn_into(scene.runtimes[i % 2], i < 2 ? hog : modest, &t);
    }
    for (int i = 0; i < 8; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    hd_mutex_fini(&t.mutex);
    stop(&scene);
}

/* The last user frees what the mutex lives in. */
struct object {
    hd_mutex mutex;
    int users;
};

static void leave(struct object *o)
{
    EXPECT_EQ(hd_mutex_lock(&o->mutex), 0);
    const bool last = --o->users == 0;
    hd_mutex_unlock(&o->mutex);
    if (!last) return;
    hd_mutex_fini(&o->mutex);
    memset(o, 0xff, sizeof(*o));
    free(o);
}

static int leave_fn(void *arg)
{
    leave(arg);
    return 0;
}

TEST(mutex_goes_with_its_last_user)
{
    struct scene scene = {.subject = NULL};
    start(&scene);
    for (unsigned i = 0; i < stress_count(3000); i++) {
        struct object *o = calloc(1, sizeof(*o));
        o->users = 4;
        hd_task *tasks[3];
        for (int k = 0; k < 3; k++) tasks[k] = spawn_into(scene.runtimes[k % 2], leave_fn, o);
        leave(o);
        for (int k = 0; k < 3; k++) EXPECT_EQ(hd_join(tasks[k], NULL), 0);
    }
    stop(&scene);
}

/* ---- semaphore ---- */

enum { PERMITS = 5 };

struct room {
    hd_sem sem;
    atomic_int inside;
};

static int visit(struct scene *scene, struct stress_random *random)
{
    struct room *room = scene->subject;
    const uint32_t wants = 1 + stress_below(random, PERMITS);
    int err;
    if (stress_below(random, 8) == 0) {
        hd_case cases[] = {HD_ACQUIRE(&room->sem, wants), HD_AT(hd_now(NULL) + 20000)};
        const int which = hd_select(cases, 2);
        err = which == 0 ? cases[0].result : which == 1 ? -ETIMEDOUT : which;
    } else {
        err = hd_sem_acquire_until(&room->sem, wants, some_deadline(random));
    }
    if (err == -ETIMEDOUT || err == -EAGAIN) return 0;
    if (err) return err;
    EXPECT(atomic_fetch_add(&room->inside, (int)wants) + (int)wants <= PERMITS);
    if (stress_below(random, 4) == 0) hd_yield();
    atomic_fetch_sub(&room->inside, (int)wants);
    EXPECT_EQ(hd_sem_release(&room->sem, wants), 0);
    return 0;
}

static void sem_scene(bool cancels)
{
    struct room room = {.sem = HD_SEM_INIT(PERMITS)};
    struct scene scene = {.body = visit, .subject = &room, .rounds = stress_count(10000)};
    play(&scene, cancels);
    EXPECT_EQ(hd_sem_permits(&room.sem), PERMITS);
    EXPECT_EQ(hd_sem_acquire_try(&room.sem, PERMITS), 0);
    hd_sem_fini(&room.sem);
}

TEST(semaphore_keeps_its_permits) { sem_scene(false); }
TEST(semaphore_with_cancels) { sem_scene(true); }

/* ---- reader-writer lock ---- */

struct book {
    hd_rwlock rwlock;
    uint64_t pages[2]; /* equal, except while somebody writes */
};

static int use_book(struct scene *scene, struct stress_random *random)
{
    struct book *b = scene->subject;
    const bool write = stress_below(random, 4) == 0;
    const int64_t deadline = some_deadline(random);
    const int err = write ? hd_rwlock_write_lock_until(&b->rwlock, deadline)
                          : hd_rwlock_read_lock_until(&b->rwlock, deadline);
    if (err == -ETIMEDOUT || err == -EAGAIN) return 0;
    if (err) return err;
    EXPECT_EQ(b->pages[0], b->pages[1]);
    if (write) b->pages[0]++;
    if (stress_below(random, 8) == 0) hd_yield();
    if (write) b->pages[1]++;
    if (write) {
        hd_rwlock_write_unlock(&b->rwlock);
    } else {
        hd_rwlock_read_unlock(&b->rwlock);
    }
    return 0;
}

static void rwlock_scene(bool cancels)
{
    struct book b = {.pages = {0, 0}};
    struct scene scene = {.body = use_book, .subject = &b, .rounds = stress_count(10000)};
    play(&scene, cancels);
    EXPECT_EQ(hd_rwlock_write_lock_try(&b.rwlock), 0);
    EXPECT(b.pages[0] > 0 && b.pages[0] == b.pages[1]);
    hd_rwlock_write_unlock(&b.rwlock);
    hd_rwlock_fini(&b.rwlock);
}

TEST(rwlock_keeps_readers_from_writers) { rwlock_scene(false); }
TEST(rwlock_with_cancels) { rwlock_scene(true); }

/* ---- condition: what is put is taken ---- */

struct box {
    hd_mutex mutex;
    hd_cond changed;
    int items;
    uint64_t taken, put;
};

/* By turns: puts one, then takes one, so nobody waits for ever. */
static int put_and_take(struct scene *scene, struct stress_random *random)
{
    struct box *b = scene->subject;
    int err = hd_mutex_lock(&b->mutex);
    if (err) return err;
    b->items++;
    b->put++;
    hd_mutex_unlock(&b->mutex);
    if (stress_below(random, 8) == 0) {
        hd_cond_broadcast(&b->changed);
    } else {
        hd_cond_signal(&b->changed);
    }
    if (stress_below(random, 2) == 0) hd_yield();
    EXPECT_EQ(hd_mutex_lock(&b->mutex), 0);
    while (b->items == 0) {
        const int64_t deadline =
            stress_below(random, 2) ? HD_FOREVER : hd_now(NULL) + 1000 * stress_below(random, 50);
        err = hd_cond_wait_until(&b->changed, &b->mutex, deadline ? deadline : 1);
        EXPECT(err == 0 || err == -ETIMEDOUT);
    }
    b->items--;
    b->taken++;
    hd_mutex_unlock(&b->mutex);
    return 0;
}

TEST(condition_loses_no_signal)
{
    struct box b = {.items = 0};
    struct scene scene = {.body = put_and_take, .subject = &b, .rounds = stress_count(10000)};
    play(&scene, false);
    EXPECT_EQ(b.items, 0);
    EXPECT_EQ(b.taken, b.put);
    hd_cond_fini(&b.changed);
    hd_mutex_fini(&b.mutex);
}

/* ---- notify: ping-pong with all that can go wrong ---- */

struct table {
    hd_notify ping, pong;
    int ball; /* plain: the notifications order it */
    int rounds;
};

static int return_ball(void *arg)
{
    struct table *t = arg;
    for (int i = 0; i < t->rounds; i++) {
        EXPECT_EQ(hd_notify_wait(&t->ping), 0);
        t->ball++;
        hd_notify_one(&t->pong);
    }
    return 0;
}

TEST(notify_plays_ball)
{
    struct table t = {.rounds = (int)stress_count(20000)};
    struct scene scene = {.subject = NULL};
    start(&scene);
    hd_task *task = spawn_into(scene.runtimes[0], return_ball, &t);
    for (int i = 0; i < t.rounds; i++) {
        t.ball++;
        hd_notify_one(&t.ping);
        while (hd_notify_wait_until(&t.pong, hd_now(NULL) + 5000) == -ETIMEDOUT) continue;
    }
    EXPECT_EQ(hd_join(task, NULL), 0);
    EXPECT_EQ(t.ball, 2 * t.rounds);
    hd_notify_fini(&t.ping);
    hd_notify_fini(&t.pong);
    stop(&scene);
}

/* ---- barrier: some leave and come again ---- */

struct meeting {
    hd_barrier barrier;
    atomic_uint serials, met;
    unsigned rounds;
};

static int come(void *arg)
{
    struct meeting *m = arg;
    for (unsigned i = 0; i < m->rounds;) {
        const int how = hd_barrier_wait_until(&m->barrier, hd_now(NULL) + (i % 3 ? 100000 : 3000));
        if (how == -ETIMEDOUT) continue;
        EXPECT(how == 0 || how == HD_BARRIER_SERIAL);
        if (how == HD_BARRIER_SERIAL) atomic_fetch_add(&m->serials, 1);
        atomic_fetch_add(&m->met, 1);
        i++;
    }
    return 0;
}

TEST(barrier_counts_who_is_there)
{
    enum { PARTIES = 4 };
    struct meeting m = {.barrier = HD_BARRIER_INIT(PARTIES), .rounds = stress_count(3000)};
    struct scene scene = {.subject = NULL};
    start(&scene);
    hd_task *tasks[PARTIES];
    for (int i = 0; i < PARTIES; i++) tasks[i] = spawn_into(scene.runtimes[i % 2], come, &m);
    for (int i = 0; i < PARTIES; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    EXPECT_EQ(m.serials, m.rounds);
    EXPECT_EQ(m.met, PARTIES * m.rounds);
    hd_barrier_fini(&m.barrier);
    stop(&scene);
}

/* ---- group and once: on memory that goes at once ---- */

struct job {
    hd_group group;
    hd_once once;
    int made;
};

static int make(void *arg)
{
    struct job *job = arg;
    job->made++;
    return 0;
}

static int work(void *arg)
{
    struct job *job = arg;
    EXPECT_EQ(hd_once_call(&job->once, make, job), 0);
    EXPECT_EQ(job->made, 1);
    hd_group_done(&job->group);
    return 0;
}

TEST(group_goes_when_all_is_done)
{
    struct scene scene = {.subject = NULL};
    start(&scene);
    for (unsigned i = 0; i < stress_count(5000); i++) {
        struct job *job = calloc(1, sizeof(*job));
        EXPECT_EQ(hd_group_add(&job->group, 4), 0);
        for (int k = 0; k < 4; k++) hd_detach(spawn_into(scene.runtimes[k % 2], work, job));
        EXPECT_EQ(hd_group_wait(&job->group), 0);
        hd_once_fini(&job->once);
        memset(job, 0xff, sizeof(*job));
        free(job);
    }
    stop(&scene);
}
