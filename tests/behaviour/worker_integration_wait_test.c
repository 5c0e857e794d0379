/* SPDX-License-Identifier: MIT
 *
 * Workers and structure, the second part: children that wait, wake, share, block and are
 * cancelled in a queue; what belongs to a task; counting and ending. The first part is
 * tests/behaviour/worker_integration_test.c.
 */
#include "nurseries.h"

#include <pthread.h>
#include <sched.h>

TEST_MAIN

#define MS HD_MS_NS

static hd_stats stats_now(void)
{
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    return stats;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static void go_many(hd_nursery *n, int how_many, hd_fn *fn, void *arg)
{
    for (int i = 0; i < how_many; i++) nur_go(n, fn, arg);
}

static void run_with(hd_fn *fn, const hd_options *options, unsigned workers)
{
    const hd_options own = rt_workers(options, workers);
    rt_run(fn, NULL, &own);
}

/* ---- waking ---- */

struct sleeper {
    hd_waker waker;
    atomic_int asleep, open;
};

static int sleep_until_open(void *arg)
{
    struct sleeper *s = arg;
    s->waker = hd_waker_self();
    atomic_store(&s->asleep, 1);
    int err = 0;
    while (!atomic_load(&s->open) && !err) err = hd_park();
    return err;
}

static void *wake_it(void *arg)
{
    struct sleeper *s = arg;
    while (!atomic_load(&s->asleep)) sched_yield();
    atomic_store(&s->open, 1);
    hd_waker_wake(s->waker);
    return NULL;
}

TEST(a_thread_wakes_a_child_and_its_nursery_ends)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    hd_runtime *runtime = rt_create(&options);
    for (int i = 0; i < 50; i++) {
        struct sleeper s = {.open = 0};
        pthread_t thread = 0;
        HD_NURSERY(n, .runtime = runtime) {
            nur_go(n, sleep_until_open, &s);
            EXPECT_EQ(pthread_create(&thread, NULL, wake_it, &s), 0);
        }
        EXPECT_EQ(hd_nursery_result(), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    hd_runtime_destroy(runtime);
}

FIBER_TEST(siblings_wake_each_other)
{
    struct sleeper s[10];
    memset(s, 0, sizeof(s));
    HD_NURSERY(n) {
        for (int i = 0; i < 10; i++) nur_go(n, sleep_until_open, &s[i]);
        for (int i = 9; i >= 0; i--) {
            rt_until(&s[i].asleep);
            atomic_store(&s[i].open, 1);
            hd_waker_wake(s[i].waker);
        }
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

struct nap {
    int64_t at, woke;
};

static int nap(void *arg)
{
    struct nap *self = arg;
    const int err = hd_sleep_until(self->at);
    self->woke = hd_now(NULL);
    return err;
}

FIBER_TEST(hundreds_of_sleeping_children_wake_in_time_never_early)
{
    enum { NAPS = 300 };
    static struct nap naps[NAPS];
    HD_NURSERY(n) {
        for (int i = 0; i < NAPS; i++) {
            naps[i] = (struct nap){.at = hd_now(NULL) + i * 7919 % 10 * MS};
            nur_go(n, nap, &naps[i]);
        }
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    for (int i = 0; i < NAPS; i++) EXPECT(naps[i].woke >= naps[i].at);
    return 0;
}

FIBER_TEST(sleeping_children_are_cancelled_long_before_their_time)
{
    const int64_t start = hd_now(NULL);
    static struct nap naps[100];
    HD_NURSERY(n) {
        for (int i = 0; i < 100; i++) {
            naps[i] = (struct nap){.at = start + (3600 + i) * 1000 * MS};
            nur_go(n, nap, &naps[i]);
        }
        EXPECT_EQ(hd_sleep_ms(1), 0);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    EXPECT(hd_now(NULL) - start < 100 * 1000 * MS);
    return 0;
}

/* ---- cancelled in the queue: it still ends, and the nursery still hears of it ---- */

static int cancel_before_run(void *arg)
{
    (void)arg;
    atomic_int ran = 0;
    hd_nursery n;
    nur_open(&n, NULL);
    hd_task *tasks[20];
    for (int i = 0; i < 20; i++) tasks[i] = nur_spawn(&n, count, &ran, NULL, 0);
    for (int i = 0; i < 20; i++) hd_cancel(tasks[i]); /* one worker: none has begun */
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(ran, 20);
    EXPECT_EQ(hd_nursery_look(&n).succeeded, 20);
    EXPECT_EQ(hd_nursery_leave(&n), 0);
    for (int i = 0; i < 20; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(children_cancelled_between_queue_and_run_end_as_others, options)
{
    run_with(cancel_before_run, options, 1);
}

static int cancel_all_before_run(void *arg)
{
    (void)arg;
    HD_NURSERY(n) {
        go_many(n, 50, nur_park, NULL);
        for (int i = 0; i < 50; i++) nur_go_poll(n, nur_park_poll, NULL, 0);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    EXPECT_EQ(stats_now().alive, 1);
    return 0;
}

TEST_WORLDS(a_nursery_cancelled_before_anybody_ran_ends, options)
{
    run_with(cancel_all_before_run, options, 1);
}

/* ---- handing over ---- */

struct pong {
    hd_chan *there, *back;
    int rounds;
};

static int answer(void *arg)
{
    struct pong *p = arg;
    int ball, err;
    while ((err = hd_chan_recv(p->there, &ball)) == 0) {
        ball++;
        err = hd_chan_send(p->back, &ball);
        if (err) return err;
    }
    return err == -EPIPE ? 0 : err;
}

static int serve(void *arg)
{
    struct pong *p = arg;
    for (int ball = 0; ball < p->rounds;) {
        int err = hd_chan_send(p->there, &ball);
        const int before = ball;
        if (!err) err = hd_chan_recv(p->back, &ball);
        if (err) return err;
        EXPECT_EQ(ball, before + 1);
    }
    return hd_chan_close(p->there);
}

FIBER_TEST(two_children_play_ping_pong)
{
    struct pong p = {hd_chan_create(sizeof(int), 0), hd_chan_create(sizeof(int), 0), 2000};
    HD_NURSERY(n) {
        nur_go(n, answer, &p);
        nur_go(n, serve, &p);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    hd_chan_destroy(p.there);
    hd_chan_destroy(p.back);
    return 0;
}

struct locked {
    hd_mutex mutex;
    long number;
};

static int add_locked(void *arg)
{
    struct locked *l = arg;
    for (int i = 0; i < 200; i++) {
        const int err = hd_mutex_lock(&l->mutex);
        if (err) return err;
        const long before = l->number;
        if (i % 20 == 0) hd_yield(); /* others come meanwhile, and wait */
        l->number = before + 1;
        hd_mutex_unlock(&l->mutex);
    }
    return 0;
}

FIBER_TEST(children_that_share_a_mutex)
{
    struct locked l = {.number = 0};
    HD_NURSERY(n) go_many(n, 8, add_locked, &l);
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(l.number, 1600);
    hd_mutex_fini(&l.mutex);
    return 0;
}

struct phases {
    hd_barrier barrier;
    atomic_int arrived;
};

static int go_through_phases(void *arg)
{
    struct phases *p = arg;
    for (int phase = 1; phase <= 20; phase++) {
        atomic_fetch_add(&p->arrived, 1);
        int err = hd_barrier_wait(&p->barrier);
        if (err < 0) return err;
        EXPECT(atomic_load(&p->arrived) >= 5 * phase); /* all of this phase */
        err = hd_barrier_wait(&p->barrier);
        if (err < 0) return err;
    }
    return 0;
}

FIBER_TEST(children_that_meet_at_a_barrier)
{
    struct phases p = {.arrived = 0};
    EXPECT_EQ(hd_barrier_init(&p.barrier, 5), 0);
    HD_NURSERY(n) go_many(n, 5, go_through_phases, &p);
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(p.arrived, 100);
    hd_barrier_fini(&p.barrier);
    return 0;
}

/* ---- blocking and pinning ---- */

struct pipe_pair {
    int ends[2];
    atomic_int reading;
};

static int read_one(void *arg)
{
    struct pipe_pair *p = arg;
    char byte;
    atomic_store(&p->reading, 1);
    return read(p->ends[0], &byte, 1) == 1 ? byte : -EIO;
}

static int read_blocking(void *arg)
{
    int byte = 0;
    const int err = hd_blocking(read_one, arg, &byte);
    return err ? err : byte;
}

static int write_one(void *arg)
{
    struct pipe_pair *p = arg;
    rt_until(&p->reading);
    return write(p->ends[1], "x", 1) == 1 ? 0 : -EIO;
}

static int block_and_unblock(void *arg)
{
    (void)arg;
    struct pipe_pair p = {.reading = 0};
    EXPECT_EQ(pipe(p.ends), 0);
    hd_task *reader = NULL;
    HD_NURSERY(n) {
        reader = nur_spawn(n, read_blocking, &p, NULL, 0);
        nur_go(n, write_one, &p); /* on the only worker */
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(rt_join(reader), 'x');
    close(p.ends[0]);
    close(p.ends[1]);
    return 0;
}

TEST(a_child_that_blocks_does_not_block_the_worker)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 1};
    rt_run(block_and_unblock, NULL, &options);
}

static int stay_on_thread(void *arg)
{
    (void)arg;
    const pid_t first = gettid();
    for (int i = 0; i < 50; i++) {
        hd_yield();
        EXPECT_EQ(gettid(), first);
    }
    return 0;
}

FIBER_TEST(pinned_children_stay_on_their_worker)
{
    HD_NURSERY(n) {
        for (int i = 0; i < 8; i++) hd_detach(nur_spawn(n, stay_on_thread, NULL, NULL, HD_PINNED));
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

/* ---- what belongs to a task ---- */

static int keep_name(void *arg)
{
    const uint64_t id = hd_self_id();
    for (int i = 0; i < 10; i++) {
        EXPECT(strcmp(hd_self_name(), arg) == 0);
        EXPECT_EQ(hd_self_id(), id);
        hd_yield();
    }
    return 0;
}

FIBER_TEST(children_keep_name_and_id_wherever_they_run)
{
    static char names[20][16];
    HD_NURSERY(n) {
        for (int i = 0; i < 20; i++) {
            snprintf(names[i], sizeof(names[i]), "child-%d", i);
            hd_detach(nur_spawn(n, keep_name, names[i], names[i], 0));
        }
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

static const hd_local request = HD_LOCAL(NULL, hd_local_share);

static int see_request(void *arg)
{
    EXPECT(hd_local_get(&request) == arg);
    hd_yield();
    return hd_local_get(&request) == arg ? 0 : -EIO;
}

FIBER_TEST(children_inherit_task_local_values)
{
    int mine;
    EXPECT_EQ(hd_local_set(&request, &mine), 0);
    HD_NURSERY(n) go_many(n, 10, see_request, &mine);
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(hd_local_set(&request, NULL), 0);
    return 0;
}

static __attribute__((noinline)) int use_stack(int depth)
{
    volatile char frame[1024];
    frame[depth % 1024] = (char)depth;
    const int below = depth > 0 ? use_stack(depth - 1) : 0;
    return below + (frame[depth % 1024] == (char)depth); /* after the call: a frame each */
}

static int use_large_stack(void *arg)
{
    (void)arg;
    EXPECT_EQ(use_stack(700), 701);
    return hd_stack_high_water() > 700 * 1024 ? 0 : -EIO;
}

FIBER_TEST(children_may_have_stacks_of_any_size)
{
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.stack_bytes = 4 << 20;
        for (int i = 0; i < 4; i++) {
            EXPECT_EQ(hd_spawn_with(NULL, use_large_stack, NULL, &options), 0);
        }
        options.stack_bytes = 1; /* but not that */
        EXPECT_EQ(hd_spawn_with(NULL, nur_nothing, NULL, &options), -EINVAL);
        EXPECT_EQ(hd_nursery_look(n).spawned, 4);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

/* ---- counting, looking, ending ---- */

static int dump_children(void *arg)
{
    struct nur_actor a;
    char *text = NULL;
    size_t size = 0;
    (void)arg;
    nur_actor_init(&a);
    HD_NURSERY(n) {
        hd_detach(nur_spawn(n, nur_act, &a, "seen-in-the-dump", 0));
        rt_until(&a.begun);
        FILE *out = open_memstream(&text, &size);
        hd_runtime_dump(hd_runtime_self(), out);
        fclose(out);
        nur_let_end(&a, 0);
    }
    EXPECT(text && strstr(text, "seen-in-the-dump"));
    free(text);
    return 0;
}

TEST_WORLDS(children_are_in_the_dump, options) { rt_run(dump_children, NULL, options); }

static atomic_int dropped;

static void note_drop(void *state)
{
    (void)state;
    atomic_fetch_add(&dropped, 1);
}

TEST_WORLDS(pending_children_are_dropped_once_when_the_runtime_ends, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    hd_nursery n;
    atomic_store(&dropped, 0);
    nur_open(&n, &of);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.nursery = &n;
    spawn.drop = note_drop;
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(hd_spawn_poll_with(NULL, nur_park_poll, NULL, 8, &spawn), 0);
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&dropped), 10);
    EXPECT_EQ(hd_nursery_look(&n).live, 0);
    (void)hd_nursery_leave(&n);
    hd_runtime_destroy(runtime);
}

/* ---- workers that have nothing to do ---- */

static int quiet_pause(void *arg)
{
    (void)arg;
    atomic_int ran = 0;
    for (int round = 0; round < 5; round++) {
        HD_NURSERY(n) go_many(n, 4, count, &ran);
        EXPECT_EQ(hd_sleep_ms(2), 0);
    }
    EXPECT_EQ(ran, 20);
    if (hd_runtime_world(hd_runtime_self()) == HD_WORLD_LIVE) EXPECT(stats_now().parks > 0);
    return 0;
}

TEST_WORLDS(workers_sleep_between_nurseries_and_wake_for_the_next, options)
{
    run_with(quiet_pause, options, 2);
}

static void *nursery_on_thread(void *arg)
{
    atomic_int ran = 0;
    for (int i = 0; i < 50; i++) {
        HD_NURSERY(n, .runtime = arg) go_many(n, 5, count, &ran);
        EXPECT_EQ(hd_nursery_result(), 0);
        EXPECT_EQ(ran, 5 * (i + 1));
    }
    return NULL;
}

TEST(threads_wait_for_their_own_children_only)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    hd_runtime *runtime = rt_create(&options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    hd_nursery n; /* whose child never ends meanwhile */
    nur_open(&n, &of);
    nur_go(&n, nur_park, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, nursery_on_thread, runtime), 0);
    }
    for (int i = 0; i < 4; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(hd_nursery_look(&n).live, 1);
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- waiting for one, or for others ---- */

FIBER_TEST(the_first_of_several_children_by_select)
{
    struct nur_actor a[3];
    hd_task *tasks[3];
    hd_nursery n;
    nur_open(&n, NULL);
    for (int i = 0; i < 3; i++) {
        nur_actor_init(&a[i]);
        tasks[i] = nur_spawn(&n, nur_act, &a[i], NULL, 0);
    }
    int results[3] = {0};
    nur_let_end(&a[1], 21);
    hd_case cases[] = {HD_JOIN(tasks[0], &results[0]), HD_JOIN(tasks[1], &results[1]),
                       HD_JOIN(tasks[2], &results[2])};
    EXPECT_EQ(hd_select(cases, 3), 1);
    EXPECT_EQ(results[1], 21);
    nur_let_end(&a[0], 20);
    nur_let_end(&a[2], 22);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT_EQ(rt_join(tasks[0]), 20);
    EXPECT_EQ(rt_join(tasks[2]), 22);
    return 0;
}

struct owners {
    struct nur_actor slow;
    atomic_int quick_left;
};

static int own_slow(void *arg)
{
    struct owners *o = arg;
    HD_NURSERY(n) nur_go(n, nur_act, &o->slow);
    EXPECT_EQ(atomic_load(&o->quick_left), 1);
    return 0;
}

static int own_quick(void *arg)
{
    struct owners *o = arg;
    atomic_int ran = 0;
    HD_NURSERY(n) go_many(n, 10, count, &ran);
    atomic_store(&o->quick_left, 1);
    nur_let_end(&o->slow, 0); /* Only now can the other be left. */
    return 0;
}

FIBER_TEST(owners_do_not_wait_for_each_other_s_children)
{
    struct owners o = {.quick_left = 0};
    nur_actor_init(&o.slow);
    HD_NURSERY(n) {
        nur_go(n, own_slow, &o);
        nur_go(n, own_quick, &o);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

static int join_previous(void *arg)
{
    return arg ? rt_join(arg) + 1 : 0;
}

FIBER_TEST(a_chain_of_children_that_join_each_other)
{
    hd_task *last = NULL;
    HD_NURSERY(n) {
        for (int i = 0; i < 100; i++) last = nur_spawn(n, join_previous, last, NULL, 0);
    }
    EXPECT_EQ(rt_join(last), 99);
    return 0;
}
