/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of nested nurseries, of starting a child and of waiting
 * for a token; and a token or a nursery that is cancelled at any moment of the same program. No
 * task, permit or memory is lost, and the results are what was done.
 */
#include "waitpoints.h"

TEST_MAIN

enum { WORKERS = 3, ROUNDS = 2, PERMITS = 2 };

/* Whatever runs here is counted: only the driving thread touches it. */
struct house {
    hd_token *token, *leaf; /* leaf is derived from it, and cancelled by an outsider at last */
    hd_sem sem;
    int live;               /* children that have begun and not ended */
    int rounds;             /* that workers have made in whole */
    int ready;              /* servers that were */
};

static void house_init(struct house *h)
{
    *h = (struct house){.token = hd_token_create(NULL), .sem = HD_SEM_INIT(PERMITS)};
    h->leaf = hd_token_create(h->token);
    EXPECT(h->token && h->leaf);
}

/* Nothing is left behind. */
static void house_fini(struct house *h)
{
    EXPECT_EQ(h->live, 0);
    EXPECT_EQ(hd_sem_permits(&h->sem), PERMITS);
    hd_sem_fini(&h->sem);
    hd_token_unref(h->leaf);
    hd_token_unref(h->token);
}

static int house_left(struct house *h, int err)
{
    h->live--;
    return err;
}

static void yield_times(int times)
{
    for (int i = 0; i < times; i++) hd_yield();
}

/* From outside: what waits for the token goes on. */
static int cancel_at_last(void *arg)
{
    struct house *h = arg;
    yield_times(6);
    EXPECT_EQ(hd_sleep_ms(2), 0);
    hd_token_cancel(h->token);
    return 0;
}

/* ---- children ---- */

static int worker(void *arg)
{
    struct house *h = arg;
    int err = 0;
    h->live++;
    for (int i = 0; i < ROUNDS && !err; i++) {
        err = hd_sem_acquire(&h->sem, 1);
        if (err) break;
        hd_yield();
        err = hd_sleep_ms(1);
        EXPECT_EQ(hd_sem_release(&h->sem, 1), 0);
        h->rounds += !err;
    }
    return house_left(h, err);
}

static int park_until_cancelled(void)
{
    int err;
    do err = hd_park();
    while (!err);
    return err;
}

static int idler(void *arg)
{
    struct house *h = arg;
    h->live++;
    return house_left(h, park_until_cancelled());
}

/* Ready from inside a scope and a nursery of its own; it serves until the token is cancelled, and
 * that is success. */
static int server(void *arg)
{
    struct house *h = arg;
    h->live++;
    HD_SCOPE(s, .token = h->leaf) {
        HD_NURSERY(n) {
            const int err = hd_go(n, idler, h);
            EXPECT(err == 0 || err == -ECANCELED || err == -ETIMEDOUT);
            yield_times(2);
            h->ready++;
            hd_ready(h);
            (void)park_until_cancelled();
        }
        const int result = hd_nursery_result();
        EXPECT(result == 0 || result == -ECANCELED || result == -ETIMEDOUT);
    }
    return house_left(h, hd_checkpoint(0));
}

/* ---- a victim that owns nested nurseries ---- */

static int start_and_wait(struct house *h, hd_nursery *inner)
{
    void *got = NULL;
    const int ready = h->ready;
    int err = hd_start(inner, server, h, &got);
    EXPECT_EQ(h->ready, ready + (err == 0)); /* never both */
    EXPECT(got == (err ? NULL : h));
    if (err) return err;
    do err = hd_token_wait(h->leaf, wp_until());
    while (wp_again(err) && !hd_cancelled()); /* its own deadline, not the nursery's */
    if (err) hd_nursery_cancel(inner);
    return err;
}

static int stay(struct house *h)
{
    int err = 0;
    HD_NURSERY(outer, .deadline = wp_until()) {
        for (int i = 0; i < WORKERS && !err; i++) err = hd_go(outer, worker, h);
        HD_NURSERY(inner) {
            if (!err) err = start_and_wait(h, inner);
        }
        if (!err) err = hd_nursery_result();
        if (!err) EXPECT_EQ(hd_nursery_look(outer).spawned, WORKERS);
    }
    return err ? err : hd_nursery_result();
}

static int staying_victim(void *arg)
{
    struct house *h = arg;
    int err;
    do {
        h->rounds = 0;
        err = stay(h);
        EXPECT_EQ(h->live, 0); /* All have ended by then, however it was left. */
    } while (wp_again(err));
    if (!err) EXPECT_EQ(h->rounds, WORKERS * ROUNDS);
    return err;
}

WAITPOINTS(nested_nurseries)
{
    struct house h;
    house_init(&h);
    hd_task *canceller = rt_spawn(NULL, cancel_at_last, &h);
    wp_spawn(staying_victim, &h);
    (void)wp_join();
    EXPECT_EQ(rt_join(canceller), 0);
    house_fini(&h);
}

/* ---- the victim is a child, with siblings that go on ---- */

static hd_task *spawn_child(hd_nursery *n, hd_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = n;
    hd_task *handle = NULL;
    EXPECT_EQ(hd_spawn_with(&handle, fn, arg, &options), 0);
    return handle;
}

WAITPOINTS(a_child_of_nested_nurseries)
{
    struct house h, others;
    house_init(&h);
    house_init(&others);
    hd_task *canceller = rt_spawn(NULL, cancel_at_last, &h);
    HD_NURSERY(outer) {
        EXPECT_EQ(hd_go(outer, worker, &others), 0);
        HD_NURSERY(inner) {
            wp_register_(spawn_child(inner, staying_victim, &h));
            EXPECT_EQ(hd_go(inner, worker, &others), 0);
        }
        const int result = hd_nursery_result();
        EXPECT_EQ(wp_join(), result); /* A child's outcome is the nursery's. */
        /* A cancel that a child heeded does not concern its siblings; an error does. */
        if (result != -ETIMEDOUT) EXPECT(others.rounds >= ROUNDS);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(rt_join(canceller), 0);
    house_fini(&others);
    house_fini(&h);
}

/* ---- a chain of nurseries, each with a child that owns the next; one is the victim ---- */

enum { DEPTH = 3 };

struct level {
    struct house *house;
    int depth, victim;
};

static int level_body(struct level *l, hd_nursery *n);

static int level(void *arg)
{
    struct level *l = arg;
    const bool victim = l->depth == l->victim;
    int err = 0;
    l->house->live++;
    do {
        HD_NURSERY(n, .deadline = victim ? wp_until() : HD_FOREVER) err = level_body(l, n);
        if (!err) err = hd_nursery_result();
    } while (victim && wp_again(err));
    return house_left(l->house, err);
}

/* In memory that goes with the nursery: its child must not outlive it. */
static int level_body(struct level *l, hd_nursery *n)
{
    struct level *next = malloc(sizeof(*next));
    *next = (struct level){l->house, l->depth + 1, l->victim};
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = n;
    hd_task *child = NULL;
    int err = hd_go(n, worker, l->house);
    if (!err && next->depth <= DEPTH) err = hd_spawn_with(&child, level, next, &options);
    if (child && next->depth == l->victim && !wp.spawned) {
        wp_register_(child);
    } else if (child) {
        hd_detach(child);
    }
    if (!err) err = hd_sleep_ms(1);
    if (err == -ECANCELED) err = hd_checkpoint(0); /* Spawning does not say why it is refused. */
    const int result = hd_nursery_wait(n);
    memset(next, 0xff, sizeof(*next));
    free(next);
    return result ? result : err; /* A child's error is why the body was cancelled. */
}

static void cancel_in_chain(int victim)
{
    struct house h;
    house_init(&h);
    struct level first = {&h, 1, victim};
    hd_task *root = NULL;
    if (victim == 1) {
        wp_spawn(level, &first);
    } else {
        root = rt_spawn(NULL, level, &first);
    }
    const int err = root ? rt_join(root) : 0;
    const int hit = wp_join();
    if (root) EXPECT_EQ(err, hit); /* It went all the way up. */
    if (!hit) EXPECT(h.rounds >= DEPTH * ROUNDS);
    house_fini(&h);
}

WAITPOINTS(the_outermost_of_a_chain) { cancel_in_chain(1); }
WAITPOINTS(one_in_the_middle_of_a_chain) { cancel_in_chain(2); }
WAITPOINTS(the_innermost_of_a_chain) { cancel_in_chain(3); }

/* ---- a stackless owner ---- */

enum keeper_step { KEEPER_OPENS, KEEPER_WAITS, KEEPER_LEAVES };

struct keeper {
    struct house *house;
    enum keeper_step step;
    int err;
    int64_t until;
    hd_nursery nursery;
    hd_wait wait;
    hd_case token;
};

static void keeper_open(struct keeper *k)
{
    EXPECT_EQ(hd_nursery_open(&k->nursery, NULL), 0);
    for (int i = 0; i < WORKERS && !k->err; i++) k->err = hd_go(&k->nursery, worker, k->house);
    k->token = (hd_case)HD_TOKEN(k->house->leaf);
    k->until = wp_until();
}

/* Returns false if it has to wait. */
static bool keeper_wait(struct keeper *k)
{
    int err = hd_select_poll(&k->wait, &k->token, 1, 0, k->until);
    while (wp_again(err)) {
        k->until = wp_until();
        err = hd_select_poll(&k->wait, &k->token, 1, 0, k->until);
    }
    if (err == -EAGAIN) return false;
    if (err < 0) hd_nursery_cancel(&k->nursery);
    if (!k->err) k->err = err;
    return true;
}

static hd_poll keeper_poll(void *state, int *result)
{
    struct keeper *k = state;
    switch (k->step) {
    case KEEPER_OPENS:
        keeper_open(k);
        k->step = KEEPER_WAITS; /* fall through */
    case KEEPER_WAITS:
        if (!keeper_wait(k)) return HD_PENDING;
        k->step = KEEPER_LEAVES; /* fall through */
    case KEEPER_LEAVES: break;
    }
    int left;
    if (hd_nursery_wait_poll(&k->nursery, &left) == HD_PENDING) return HD_PENDING;
    EXPECT_EQ(k->house->live, 0);
    EXPECT_EQ(hd_nursery_leave(&k->nursery), left);
    EXPECT_EQ(hd_nursery_result(), left);
    *result = k->err ? k->err : left;
    /* It gave up by itself, and cancelled them for it. */
    if (k->err == -ETIMEDOUT) EXPECT(left == 0 || left == -ECANCELED);
    return HD_READY;
}

WAITPOINTS(a_stackless_owner)
{
    struct house h;
    house_init(&h);
    hd_task *canceller = rt_spawn(NULL, cancel_at_last, &h);
    const struct keeper keeper = {.house = &h};
    wp_spawn_poll(keeper_poll, &keeper, sizeof(keeper));
    const int err = wp_join();
    EXPECT_EQ(rt_join(canceller), 0);
    if (!err) EXPECT_EQ(h.rounds, WORKERS * ROUNDS);
    house_fini(&h);
}

/* ---- starting, and nothing else ---- */

static int slowly_ready(void *arg)
{
    struct house *h = arg;
    h->live++;
    yield_times(2);
    const int err = hd_sleep_ms(1);
    if (err) return house_left(h, err);
    h->ready++;
    hd_ready(h);
    yield_times(1);
    return house_left(h, 0);
}

/* It is cancelled, and becomes ready all the same. */
static int stubborn(void *arg)
{
    struct house *h = arg;
    h->live++;
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    h->ready++;
    hd_ready(h);
    EXPECT_EQ(hd_unshield(), 0);
    return house_left(h, 0);
}

/* It is never ready. */
static int reluctant(void *arg)
{
    struct house *h = arg;
    h->live++;
    return house_left(h, hd_sleep_ms(1));
}

static int start_all(struct house *h, hd_nursery *n)
{
    hd_fn *const children[] = {slowly_ready, stubborn, reluctant};
    for (int i = 0; i < 3; i++) {
        void *got = NULL;
        const int ready = h->ready;
        const int err = hd_start(n, children[i], h, &got);
        EXPECT_EQ(h->ready, ready + (err == 0));
        EXPECT(got == (err ? NULL : h));
        if (children[i] == reluctant && err == -EPIPE) continue; /* It ended in good order. */
        EXPECT(err != -EPIPE);
        if (err) return err;
    }
    return 0;
}

static int starting_victim(void *arg)
{
    struct house *h = arg;
    int err = 0;
    do {
        HD_NURSERY(n, .deadline = wp_until()) err = start_all(h, n);
        EXPECT_EQ(h->live, 0);
        if (!err) err = hd_nursery_result();
    } while (wp_again(err));
    return err;
}

WAITPOINTS(starting_children)
{
    struct house h;
    house_init(&h);
    wp_spawn(starting_victim, &h);
    if (wp_join() == 0) EXPECT(h.ready >= 2);
    house_fini(&h);
}

/* ---- starting a child in another's nursery: only the starter can cancel it ---- */

enum { SLOW_MS = 100, SOON_NS = 20 * HD_MS_NS };

struct guest {
    struct house house;
    hd_nursery *nursery;
    bool over;
};

static int ready_late(void *arg)
{
    struct house *h = arg;
    h->live++;
    const int err = hd_sleep_ms(SLOW_MS);
    if (err) return house_left(h, err);
    h->ready++;
    hd_ready(h);
    return house_left(h, park_until_cancelled());
}

/* Cut short, it returns at once, and the child has ended by then. */
static int start_abroad(struct guest *g)
{
    struct house *h = &g->house;
    const int64_t began_ns = hd_now(NULL);
    const int live = h->live;
    void *got = NULL;
    const int err = hd_start(g->nursery, ready_late, h, &got);
    EXPECT(got == (err ? NULL : h));
    EXPECT_EQ(h->live, live + (err == 0));
    EXPECT_EQ(err != 0, hd_cancelled());
    if (err) EXPECT(hd_now(NULL) - began_ns < SOON_NS);
    return err;
}

static int guest_victim(void *arg)
{
    struct guest *g = arg;
    int err = 0;
    for (int i = 0; i < ROUNDS && !err; i++) {
        do {
            HD_SCOPE(s, .deadline = wp_until()) err = start_abroad(g);
        } while (wp_again(err));
    }
    g->over = true;
    return err;
}

/* Time passes in small steps, so that what comes some runs later comes soon. */
static int tick(void *arg)
{
    struct guest *g = arg;
    while (!g->over) EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

WAITPOINTS(starting_children_in_anothers_nursery)
{
    struct guest g = {.over = false};
    house_init(&g.house);
    hd_task *ticks = rt_spawn(NULL, tick, &g);
    HD_NURSERY(n) {
        g.nursery = n;
        wp_spawn(guest_victim, &g);
        const int err = wp_join();
        if (!err) EXPECT_EQ(g.house.ready, ROUNDS);
        EXPECT_EQ(hd_nursery_look(n).live, (unsigned)g.house.ready);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(rt_join(ticks), 0);
    house_fini(&g.house);
}

/* ---- tokens, and nothing else ---- */

static int token_victim(void *arg)
{
    struct house *h = arg;
    int err;
    do err = hd_token_wait(h->leaf, wp_until());
    while (wp_again(err));
    if (err) return err;
    EXPECT(hd_token_cancelled(h->leaf));
    hd_token *own = hd_token_create(NULL);
    hd_case cases[] = {HD_TOKEN(own), HD_ACQUIRE(&h->sem, PERMITS), HD_TOKEN(own)};
    do err = hd_select_until(cases, 3, 0, wp_until());
    while (wp_again(err));
    hd_token_unref(own); /* Nobody waits for it any more. */
    if (err != 1) return err;
    EXPECT_EQ(hd_sem_release(&h->sem, PERMITS), 0);
    return 0;
}

static int hold_permits(void *arg)
{
    struct house *h = arg;
    EXPECT_EQ(hd_sem_acquire(&h->sem, 1), 0);
    EXPECT_EQ(hd_sleep_ms(4), 0);
    EXPECT_EQ(hd_sem_release(&h->sem, 1), 0);
    return 0;
}

WAITPOINTS(waiting_for_tokens)
{
    struct house h;
    house_init(&h);
    hd_task *holder = rt_spawn(NULL, hold_permits, &h);
    hd_task *canceller = rt_spawn(NULL, cancel_at_last, &h);
    wp_spawn(token_victim, &h);
    (void)wp_join();
    EXPECT_EQ(rt_join(canceller), 0);
    EXPECT_EQ(rt_join(holder), 0);
    house_fini(&h);
}

/* ---- a token or a nursery that is cancelled at any moment ---- */

/* The victim is not the one that suffers: it is cancelled at one of its many waits, and cancels
 * the token, or the nursery, at that moment of the program. */
struct trigger {
    struct house house;
    hd_token *token;     /* of the outer nursery; NULL: the nursery itself is cancelled */
    hd_nursery *nursery; /* NULL: it is not open any more */
    hd_notify pull;
    bool over;
};

static int trigger_victim(void *arg)
{
    struct trigger *t = arg;
    int err = 0;
    while (!t->over && !err) err = hd_notify_wait_until(&t->pull, wp_until());
    if (err == -ETIMEDOUT && wp.run.mode == WP_RETRY) return 0;
    if (!err) return 0;
    if (t->token) {
        hd_token_cancel(t->token);
    } else if (t->nursery) {
        hd_nursery_cancel(t->nursery);
    }
    return err;
}

/* Pulls it as often as the others run. */
static int puller(void *arg)
{
    struct trigger *t = arg;
    for (int i = 0; i < 12 && !t->over; i++) {
        hd_notify_one(&t->pull);
        yield_times(2);
        if (i % 4 == 3) EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    return 0;
}

static int triggered(void *arg)
{
    struct trigger *t = arg;
    struct house *h = &t->house;
    int err = 0;
    HD_NURSERY(outer, .token = t->token) {
        t->nursery = outer;
        for (int i = 0; i < WORKERS && !err; i++) err = hd_go(outer, worker, h);
        HD_NURSERY(inner) {
            void *got = NULL;
            if (!err) err = hd_start(inner, server, h, &got);
            EXPECT(got == (err ? NULL : h));
            if (!err) err = hd_token_wait(h->leaf, HD_FOREVER);
        }
        if (!err) err = hd_nursery_result();
        if (!err) err = hd_nursery_wait(outer);
        t->nursery = NULL;
    }
    EXPECT_EQ(h->live, 0);
    EXPECT(!hd_cancelled()); /* It was the nursery's, and that has been left. */
    const int result = hd_nursery_result();
    EXPECT(result == 0 || result == -ECANCELED);
    if (!err && !result) EXPECT_EQ(h->rounds, WORKERS * ROUNDS);
    t->over = true;
    hd_notify_one(&t->pull);
    return err ? err : result;
}

static void pull_trigger(hd_token *token)
{
    struct trigger t = {.token = token};
    house_init(&t.house);
    hd_task *canceller = rt_spawn(NULL, cancel_at_last, &t.house);
    hd_task *task = rt_spawn(NULL, triggered, &t);
    hd_task *pulls = rt_spawn(NULL, puller, &t);
    wp_spawn(trigger_victim, &t);
    const int pulled = wp_join();
    const int err = rt_join(task);
    EXPECT(err == 0 || (err == -ECANCELED && pulled));
    EXPECT_EQ(rt_join(pulls), 0);
    EXPECT_EQ(rt_join(canceller), 0);
    hd_notify_fini(&t.pull);
    house_fini(&t.house);
}

WAITPOINTS(a_token_cancelled_at_any_moment)
{
    hd_token *token = hd_token_create(NULL);
    pull_trigger(token);
    hd_token_unref(token);
}

WAITPOINTS(a_nursery_cancelled_at_any_moment)
{
    pull_trigger(NULL);
}
