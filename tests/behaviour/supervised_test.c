/* SPDX-License-Identifier: MIT
 *
 * The lives of supervised children: many of them, trees of them, who they are, what else is in
 * their nursery, and what is refused.
 */
#include "kids.h"

TEST_MAIN

#define HOUR_NS (3600 * HD_SECOND_NS)

/* ---- many ---- */

enum { MANY = 1000 };

static struct kid *many_kids(void)
{
    struct kid *kids = calloc(MANY, sizeof(*kids));
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof(name), "k%d", i);
        kids[i] = kid_make(name, NULL);
    }
    return kids;
}

static int all_of_many(void *arg)
{
    const hd_strategy *strategy = arg;
    struct kid *kids = many_kids();
    const hd_supervision s = {.size = sizeof(s), .strategy = *strategy, .intensity = MANY};
    HD_NURSERY(n, .supervision = &s) {
        for (int i = 0; i < MANY; i++) kid_supervise(n, &kids[i], HD_PERMANENT);
        for (int i = 0; i < MANY; i++) kid_await(&kids[i]);
        if (*strategy == HD_ONE_FOR_ONE) {
            for (int i = 0; i < MANY; i++) kid_end(&kids[i], -EIO);
        } else {
            kid_end(&kids[*strategy == HD_ONE_FOR_ALL ? MANY / 2 : 0], -EIO);
        }
        for (int i = 0; i < MANY; i++) kid_await(&kids[i]);
        for (int i = 0; i < MANY; i++) {
            hd_supervised state = {0};
            EXPECT_EQ(hd_supervised_look(n, kids[i].name, &state), 0);
            EXPECT_EQ(state.starts, 2);
        }
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    for (int i = 0; i < MANY; i++) EXPECT_EQ(kids[i].calls, 2);
    free(kids);
    return 0;
}

TEST_WORLDS(a_thousand_start_anew, options)
{
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        rt_run(all_of_many, &s, options);
    }
}

static int short_lived(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return -EIO; /* Of a temporary child that is nobody's concern. */
}

static int come_and_go(void *arg)
{
    (void)arg;
    atomic_int calls = 0;
    struct kid stays = kid_make("stays", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &stays, HD_PERMANENT);
        for (int i = 0; i < MANY; i++) {
            EXPECT_EQ(hd_supervise(n, "guest", HD_TEMPORARY, short_lived, &calls), 0);
            kids_until_gone(n, "guest");
        }
        kid_end(&stays, 0);
        kid_await(&stays);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(calls, MANY);
    EXPECT_EQ(stays.calls, 2);
    return 0;
}

TEST_WORLDS(who_has_gone_is_forgotten, options) { rt_run(come_and_go, NULL, options); }

/* ---- all at once ---- */

enum { CROWD = 24, STARTS = 2000 };

struct crowd {
    struct crowder {
        struct crowd *crowd;
        int error;
        atomic_bool running;
    } crowders[CROWD];
    hd_supervision supervision;
    atomic_int starts;
    hd_notify enough;
};

/* Fails after a moment, or heeds a cancel. */
static int jostle(void *arg)
{
    struct crowder *c = arg;
    EXPECT(!atomic_exchange(&c->running, true)); /* never twice at once */
    const int starts = atomic_fetch_add(&c->crowd->starts, 1);
    if (starts == STARTS) hd_notify_one(&c->crowd->enough);
    for (int i = 0; i < starts % 7 && !hd_cancelled(); i++) hd_yield();
    atomic_store(&c->running, false);
    return hd_cancelled() ? -ECANCELED : c->error;
}

static void add_crowd(hd_nursery *n, struct crowd *crowd)
{
    for (int i = 0; i < CROWD; i++) {
        char name[8];
        snprintf(name, sizeof(name), "c%d", i);
        crowd->crowders[i].crowd = crowd;
        crowd->crowders[i].error = -1000 - i;
        const int err = hd_supervise(n, name, i % 2 ? HD_PERMANENT : HD_TRANSIENT, jostle,
                                     &crowd->crowders[i]);
        EXPECT(err == 0 || err == -ECANCELED);
    }
}

static int jostle_for_long(void *arg)
{
    struct crowd *crowd = arg;
    HD_NURSERY(n, .supervision = &crowd->supervision) {
        add_crowd(n, crowd);
        EXPECT_EQ(hd_notify_wait(&crowd->enough), 0);
        hd_nursery_cancel(n);
    }
    for (int i = 0; i < CROWD; i++) EXPECT(!crowd->crowders[i].running);
    return 0;
}

TEST_WORLDS(all_fail_all_the_time, options)
{
    const hd_options four = rt_workers(options, 4);
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        struct crowd crowd = {.supervision = {.size = sizeof(hd_supervision), .strategy = s,
                                              .intensity = 1000000}};
        rt_run(jostle_for_long, &crowd, &four);
    }
}

/* Several fail at the moment it gives up: the one that was too many counts. */
static int jostle_to_the_end(void *arg)
{
    struct crowd *crowd = arg;
    HD_NURSERY(n, .supervision = &crowd->supervision) {
        add_crowd(n, crowd);
        const int result = hd_nursery_wait(n);
        EXPECT(result <= -1000 && result > -1000 - CROWD);
        EXPECT_EQ(hd_nursery_look(n).cause.error, result);
    }
    return 0;
}

TEST_WORLDS(the_one_too_many_is_the_result, options)
{
    const hd_options four = rt_workers(options, 4);
    for (unsigned intensity = 1; intensity <= 40; intensity++) {
        struct crowd crowd = {.supervision = {.size = sizeof(hd_supervision),
                                              .strategy = (hd_strategy)(intensity % 3),
                                              .intensity = intensity, .period_ns = HOUR_NS}};
        rt_run(jostle_to_the_end, &crowd, &four);
    }
}

/* With one worker, and without a pause. */
static int fail_at_once(void *arg)
{
    atomic_int *calls = arg;
    atomic_fetch_add(calls, 1);
    return -EIO;
}

static int let_others_run(void *arg)
{
    const hd_strategy *strategy = arg;
    atomic_int calls = 0;
    const hd_supervision s = {.size = sizeof(s), .strategy = *strategy, .intensity = 1000000};
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, "busy", HD_PERMANENT, fail_at_once, &calls), 0);
        rt_until(&calls);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED); /* It did not come to giving up. */
    int err = 0;
    HD_NURSERY(n, .supervision = &s, .deadline = hd_after_ms(1)) {
        err = hd_supervise(n, "busy", HD_PERMANENT, fail_at_once, &calls);
    }
    if (err) EXPECT_EQ(err, -ETIMEDOUT); /* so late on a busy machine */
    EXPECT_EQ(hd_nursery_result(), err ? 0 : -ETIMEDOUT);
    return 0;
}

TEST_WORLDS(who_fails_at_once_lets_others_run, options)
{
    const hd_options one = rt_workers(options, 1);
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        rt_run(let_others_run, &s, &one);
    }
}

/* ---- nurseries in nurseries ---- */

struct nested {
    atomic_int inner_calls, crashes;
    int heals_at; /* the call of the inner one that does not fail; 0: none */
};

static int crash(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return -EIO;
}

static int inner(void *arg)
{
    struct nested *nested = arg;
    if (atomic_fetch_add(&nested->inner_calls, 1) + 1 == nested->heals_at) return 0;
    const hd_supervision s = {.size = sizeof(s), .intensity = 1, .period_ns = HOUR_NS};
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, "crash", HD_TRANSIENT, crash, &nested->crashes), 0);
    }
    return hd_nursery_result();
}

static int outer(void *arg)
{
    struct nested *nested = arg;
    const hd_supervision s = {.size = sizeof(s), .period_ns = HOUR_NS}; /* intensity 3 */
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, "inner", HD_TRANSIENT, inner, nested), 0);
    }
    return hd_nursery_result();
}

TEST_WORLDS(who_gives_up_is_restarted_by_the_nursery_around, options)
{
    struct nested fails = {0}, heals = {.heals_at = 3};
    EXPECT_EQ(hd_run(outer, &fails, options), -EIO);
    EXPECT_EQ(fails.inner_calls, 4);
    EXPECT_EQ(fails.crashes, 8);
    EXPECT_EQ(hd_run(outer, &heals, options), 0);
    EXPECT_EQ(heals.inner_calls, 3);
    EXPECT_EQ(heals.crashes, 4);
}

/* The tree of a child goes with it. */
static int branch(void *arg)
{
    struct kid *leaf = arg;
    HD_NURSERY(n) {
        EXPECT_EQ(hd_go(n, kid_main, leaf), 0);
    }
    return hd_nursery_result();
}

static int restart_a_tree(void *arg)
{
    (void)arg;
    struct kid leaf = kid_make("leaf", NULL), a = kid_make("A", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &a, HD_PERMANENT);
        EXPECT_EQ(hd_supervise(n, "branch", HD_PERMANENT, branch, &leaf), 0);
        kid_await(&leaf);
        kid_end(&a, -EIO);
        kid_await(&leaf);
        EXPECT_EQ(leaf.asked, 1);
        kid_await(&a);
        kid_end(&leaf, -EIO);
        kid_await(&leaf);
        kid_await(&a);
        EXPECT_EQ(leaf.asked, 1);
        EXPECT_EQ(a.asked, 1);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(leaf.calls, 3);
    EXPECT_EQ(a.calls, 3);
    return 0;
}

TEST_WORLDS(a_child_goes_with_its_tree, options) { rt_run(restart_a_tree, NULL, options); }

/* ---- who and where ---- */

struct self {
    uint64_t id;
    int calls, result;
};

static int look_at_self(void *arg)
{
    struct self *self = arg;
    EXPECT(strcmp(hd_self_name(), "self") == 0);
    if (self->calls++ == 0) self->id = hd_self_id();
    EXPECT_EQ(hd_self_id(), self->id); /* the same task */
    EXPECT_EQ(hd_self_cause().reason, HD_REASON_NONE);
    return self->calls < 3 ? -EIO : 0;
}

static int be_one_task(void *arg)
{
    struct self *self = arg;
    const hd_supervision s = {.size = sizeof(s)};
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, "self", HD_TRANSIENT, look_at_self, self), 0);
        hd_nursery_close(n); /* Restarts are no spawns. */
        EXPECT_EQ(hd_nursery_wait(n), 0);
        EXPECT_EQ(hd_nursery_look(n).spawned, 1);
    }
    EXPECT_EQ(self->calls, 3);
    return 0;
}

TEST_WORLDS(it_is_one_task_all_the_time, options)
{
    struct self self = {0};
    rt_run(be_one_task, &self, options);
}

/* Why an asked call was asked. */
static int tell_cause(void *arg)
{
    hd_cause *cause = arg;
    EXPECT_EQ(hd_sleep_until(HD_FOREVER - 1), -ECANCELED);
    if (cause->reason == HD_REASON_NONE) *cause = hd_self_cause();
    return -ECANCELED;
}

static int ask_for_a_reason(void *arg)
{
    (void)arg;
    hd_cause cause = {0};
    struct kid kid = kid_make("kid", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, "cause", HD_PERMANENT, tell_cause, &cause), 0);
        kid_begin(n, &kid, HD_PERMANENT);
        for (hd_supervised state = {0}; state.starts < 1; hd_yield()) {
            EXPECT_EQ(hd_supervised_look(n, "cause", &state), 0);
        }
        kid_end(&kid, -EIO);
        kid_await(&kid);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(cause.reason, HD_REASON_FAILURE);
    EXPECT_EQ(cause.error, -EIO);
    EXPECT(cause.task != 0);
    return 0;
}

TEST_WORLDS(who_is_asked_knows_why, options) { rt_run(ask_for_a_reason, NULL, options); }

/* A child that adds another. */
struct adder {
    hd_nursery *nursery;
    struct kid added;
};

static int add_another(void *arg)
{
    struct adder *adder = arg;
    const int err = hd_supervise(adder->nursery, adder->added.name, HD_PERMANENT, kid_main,
                                 &adder->added);
    return err == -EEXIST ? 0 : -EAGAIN;
}

static int add_from_inside(void *arg)
{
    (void)arg;
    struct adder adder = {.added = kid_make("added", NULL)};
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_REST_FOR_ONE};
    HD_NURSERY(n, .supervision = &s) {
        adder.nursery = n;
        EXPECT_EQ(hd_supervise(n, "adder", HD_TRANSIENT, add_another, &adder), 0);
        kids_until_gone(n, "adder"); /* It failed once, then found that the other is there. */
        kid_await(&adder.added);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    return 0;
}

TEST_WORLDS(a_child_may_add_children, options) { rt_run(add_from_inside, NULL, options); }

TEST_WORLDS(a_thread_supervises, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    struct kid a = kid_make("A", NULL), b = kid_make("B", NULL);
    HD_NURSERY(n, .runtime = runtime, .supervision = &s) {
        kid_begin(n, &a, HD_PERMANENT);
        kid_begin(n, &b, HD_PERMANENT);
        kid_end(&a, -EIO);
        kid_await(&a);
        kid_await(&b);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    EXPECT_EQ(a.calls, 2);
    EXPECT_EQ(b.calls, 2);
    hd_runtime_destroy(runtime);
}

/* Ends by the shutdown, not restarted by it. */
static int supervise_to_the_end(void *arg)
{
    struct kid *kid = arg;
    const hd_supervision s = {.size = sizeof(s)};
    HD_NURSERY(n, .supervision = &s) {
        kid_supervise(n, kid, HD_PERMANENT);
    }
    return hd_nursery_result();
}

TEST_WORLDS(a_shutdown_ends_it, options)
{
    hd_runtime *runtime = rt_create(options);
    struct kid kid = kid_make("kid", NULL);
    hd_task *task = rt_spawn(runtime, supervise_to_the_end, &kid);
    kid_await(&kid);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(kid.calls, 1);
    hd_runtime_destroy(runtime);
}

/* ---- others in the nursery ---- */

static int with_plain_children(void *arg)
{
    (void)arg;
    struct kid plain = kid_make("plain", NULL), kid = kid_make("kid", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_go(n, kid_main, &plain), 0);
        kid_await(&plain);
        kid_begin(n, &kid, HD_PERMANENT);
        kid_end(&kid, -EIO);
        kid_await(&kid);
        EXPECT_EQ(plain.asked, 0); /* A round does not concern it, */
        hd_supervised state;
        EXPECT_EQ(hd_supervised_look(n, "plain", &state), -ENOENT);
        kid_end(&plain, -ENXIO); /* and its failure ends the nursery. */
    }
    EXPECT_EQ(hd_nursery_result(), -ENXIO);
    EXPECT_EQ(plain.calls, 1);
    EXPECT_EQ(kid.calls, 2);
    return 0;
}

TEST_WORLDS(plain_children_are_as_ever, options) { rt_run(with_plain_children, NULL, options); }

/* ---- names, options ---- */

static int refuse(void *arg)
{
    (void)arg;
    const hd_supervision s = {.size = sizeof(s)};
    struct kid kid = kid_make("kid", NULL);
    hd_supervised state = {.starts = 7};
    HD_NURSERY(n) {
        EXPECT_EQ(hd_supervise(n, "kid", HD_PERMANENT, kid_main, &kid), -EINVAL);
        EXPECT_EQ(hd_supervised_look(n, "kid", &state), -ENOENT);
    }
    HD_NURSERY(n, .supervision = &s) {
        EXPECT_EQ(hd_supervise(n, NULL, HD_PERMANENT, kid_main, &kid), -EINVAL);
        EXPECT_EQ(hd_supervise(n, "", HD_PERMANENT, kid_main, &kid), -EINVAL);
        EXPECT_EQ(hd_supervise(n, "kid", HD_PERMANENT, NULL, &kid), -EINVAL);
        EXPECT_EQ(hd_supervise(n, "kid", (hd_restart)3, kid_main, &kid), -EINVAL);
        EXPECT_EQ(hd_supervised_look(n, "kid", &state), -ENOENT);
        EXPECT_EQ(hd_supervised_look(n, NULL, &state), -ENOENT);
        EXPECT_EQ(state.starts, 7); /* untouched */
        kid_begin(n, &kid, HD_TRANSIENT);
        EXPECT_EQ(hd_supervise(n, "kid", HD_PERMANENT, kid_main, &kid), -EEXIST);
        HD_NURSERY(other, .supervision = &s) { /* another nursery, other names */
            EXPECT_EQ(hd_supervise(other, "kid", HD_TEMPORARY, kid_main, &kid), 0);
            kid_await(&kid);
            hd_nursery_cancel(other);
        }
        kid_end(&kid, 0);
        kids_until_gone(n, "kid");
        kid_begin(n, &kid, HD_TRANSIENT); /* The name is free again. */
        hd_nursery_close(n);
        EXPECT_EQ(hd_supervise(n, "late", HD_PERMANENT, kid_main, &kid), -EPIPE);
        EXPECT_EQ(hd_supervised_look(n, "late", &state), -ENOENT);
        hd_nursery_cancel(n);
        EXPECT_EQ(hd_supervise(n, "late", HD_PERMANENT, kid_main, &kid), -ECANCELED);
        EXPECT_EQ(hd_supervised_look(n, "late", &state), -ENOENT);
    }
    EXPECT_EQ(kid.calls, 3);
    return 0;
}

TEST_WORLDS(what_is_refused, options) { rt_run(refuse, NULL, options); }

/* A task's name holds 31 bytes; a child's is as long as it is. */
static int name_at_length(void *arg)
{
    (void)arg;
    const hd_supervision s = {.size = sizeof(s)};
    struct kid kids[2] = {kid_make("a", NULL), kid_make("b", NULL)};
    char names[2][80];
    HD_NURSERY(n, .supervision = &s) {
        for (int i = 0; i < 2; i++) {
            memset(names[i], 'x', sizeof(names[i]));
            names[i][78] = (char)('0' + i);
            names[i][79] = '\0';
            EXPECT_EQ(hd_supervise(n, names[i], HD_TEMPORARY, kid_main, &kids[i]), 0);
            kid_await(&kids[i]);
        }
        kid_end(&kids[0], 0);
        kids_until_gone(n, names[0]);
        hd_supervised state;
        EXPECT_EQ(hd_supervised_look(n, names[1], &state), 0);
        hd_nursery_cancel(n);
    }
    return 0;
}

TEST_WORLDS(names_of_any_length, options) { rt_run(name_at_length, NULL, options); }

static int open_badly(void *arg)
{
    (void)arg;
    const size_t size = sizeof(hd_supervision);
    const hd_supervision bad[] = {
        {.size = size - 1},
        {.size = size, .strategy = (hd_strategy)3},
        {.size = size, .intensity = 1000001},
        {.size = size, .period_ns = -1},
        {.size = size, .backoff_ns = -1},
        {.size = size, .backoff_ns = 2, .backoff_max_ns = 1},
        {.size = size, .backoff_max_ns = -1},
        {.size = size, .jitter_percent = 101},
    };
    const hd_supervision good[] = {
        {.size = size, .intensity = 1000000},
        {.size = size, .backoff_ns = HD_FOREVER}, /* over the default maximum */
        {.size = size, .backoff_ns = 1, .backoff_max_ns = 1, .jitter_percent = 100},
    };
    hd_nursery nursery;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        options.supervision = &bad[i];
        EXPECT_EQ(hd_nursery_open(&nursery, &options), -EINVAL);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        options.supervision = &good[i];
        EXPECT_EQ(hd_nursery_open(&nursery, &options), 0);
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    }
    return 0;
}

TEST_WORLDS(options_that_make_no_sense, options) { rt_run(open_badly, NULL, options); }
