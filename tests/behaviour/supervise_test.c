/* SPDX-License-Identifier: MIT
 *
 * Supervised nurseries: who is restarted, in which order, when the nursery gives up, and what a
 * cancel does. Exact times are in tests/sim/supervise_test.c.
 */
#include "kids.h"

TEST_MAIN

#define HOUR_NS (3600 * HD_SECOND_NS)

/* ---- every strategy, every kind ---- */

enum { A, B, C, THREE };

struct matrix {
    hd_strategy strategy;
    hd_restart middle, last; /* the kinds of B and C; A is permanent */
    int result;              /* of B's first call */
};

struct family {
    struct kid kids[THREE];
    hd_restart kinds[THREE];
    bool gone[THREE];
    int calls[THREE]; /* expected */
};

static bool is_restarted(hd_restart kind, int result)
{
    return kind == HD_PERMANENT || (kind == HD_TRANSIENT && result < 0);
}

/* Kid i ends with this result: what should happen to whom. */
static void expect_end(struct family *f, hd_strategy strategy, int i, int result)
{
    if (!is_restarted(f->kinds[i], result)) {
        f->gone[i] = true;
        return;
    }
    for (int j = 0; j < THREE; j++) {
        const bool concerned = j == i || strategy == HD_ONE_FOR_ALL ||
                               (strategy == HD_REST_FOR_ONE && j > i);
        if (!concerned || f->gone[j]) continue;
        f->gone[j] = f->kinds[j] == HD_TEMPORARY;
        f->calls[j] += !f->gone[j];
    }
}

/* Wait until it has happened. */
static void await_family(hd_nursery *n, struct family *f, const int before[THREE])
{
    for (int i = 0; i < THREE; i++) {
        for (int starts = before[i]; starts < f->calls[i]; starts++) kid_await(&f->kids[i]);
        if (f->gone[i]) kids_until_gone(n, f->kids[i].name);
    }
}

static void end_one(hd_nursery *n, struct family *f, hd_strategy strategy, int i, int result)
{
    int before[THREE];
    memcpy(before, f->calls, sizeof(before));
    expect_end(f, strategy, i, result);
    kid_end(&f->kids[i], result);
    await_family(n, f, before);
}

static int run_matrix(void *arg)
{
    const struct matrix *m = arg;
    static const char *const names[THREE] = {"A", "B", "C"};
    struct family f = {.kinds = {HD_PERMANENT, m->middle, m->last}};
    for (int i = 0; i < THREE; i++) f.kids[i] = kid_make(names[i], NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = m->strategy};
    HD_NURSERY(n, .supervision = &s) {
        for (int i = 0; i < THREE; i++) {
            kid_begin(n, &f.kids[i], f.kinds[i]);
            f.calls[i] = 1;
        }
        end_one(n, &f, m->strategy, B, m->result);
        end_one(n, &f, m->strategy, A, 0);
        for (int i = 0; i < THREE; i++) {
            hd_supervised state = {0};
            const int err = hd_supervised_look(n, f.kids[i].name, &state);
            EXPECT_EQ(err, f.gone[i] ? -ENOENT : 0);
            if (err) continue;
            EXPECT_EQ(state.starts, f.calls[i]);
            EXPECT(state.running);
        }
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    for (int i = 0; i < THREE; i++) EXPECT_EQ(f.kids[i].calls, f.calls[i]);
    return 0;
}

TEST_WORLDS(every_strategy_and_every_kind, options)
{
    struct matrix m;
    for (m.strategy = HD_ONE_FOR_ONE; m.strategy <= HD_REST_FOR_ONE; m.strategy++) {
        for (m.middle = HD_PERMANENT; m.middle <= HD_TEMPORARY; m.middle++) {
            for (m.last = HD_PERMANENT; m.last <= HD_TEMPORARY; m.last++) {
                for (m.result = -EIO; m.result <= 0; m.result += EIO) {
                    rt_run(run_matrix, &m, options);
                }
            }
        }
    }
}

/* ---- order ---- */

enum { SIX = 6 };

struct order {
    hd_strategy strategy;
    int failing;
    const char *expected; /* upper case: who starts, after the first starts */
};

static void starts_of(const struct kids_log *log, unsigned from, char *text)
{
    const unsigned length = log->length;
    for (unsigned i = from; i < length; i++) {
        if (log->text[i] < 'a') *text++ = log->text[i];
    }
    *text = '\0';
}

static int run_order(void *arg)
{
    const struct order *o = arg;
    struct kids_log log = {0};
    struct kid kids[SIX] = {0};
    char starts[KIDS_LOG_BYTES];
    const hd_supervision s = {.size = sizeof(s), .strategy = o->strategy};
    HD_NURSERY(n, .supervision = &s) {
        for (int i = 0; i < SIX; i++) {
            const char name[] = {(char)('A' + i), '\0'};
            kids[i] = kid_make(name, &log);
            kid_begin(n, &kids[i], i % 2 ? HD_TRANSIENT : HD_PERMANENT);
        }
        const unsigned before = log.length;
        kid_end(&kids[o->failing], -EIO);
        for (const char *c = o->expected; *c; c++) kid_await(&kids[*c - 'A']);
        starts_of(&log, before, starts);
        if (strcmp(starts, o->expected) != 0) {
            test_fail(__FILE__, __LINE__, "started %s, expected %s", starts, o->expected);
        }
        hd_nursery_cancel(n);
    }
    return 0;
}

/* With one worker, what a fiber does first is done before it lets another start. */
TEST_WORLDS(they_start_anew_in_the_order_they_were_added, options)
{
    const hd_options one = rt_workers(options, 1);
    struct order cases[] = {
        {HD_ONE_FOR_ALL, 0, "ABCDEF"}, {HD_ONE_FOR_ALL, 3, "ABCDEF"},
        {HD_ONE_FOR_ALL, 5, "ABCDEF"}, {HD_REST_FOR_ONE, 0, "ABCDEF"},
        {HD_REST_FOR_ONE, 3, "DEF"},   {HD_REST_FOR_ONE, 5, "F"},
        {HD_ONE_FOR_ONE, 3, "D"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rt_run(run_order, &cases[i], &one);
    }
}

/* ---- giving up ---- */

struct giving_up {
    int result, expected;
    hd_on_error on_error;
    hd_strategy strategy;
};

static int run_giving_up(void *arg)
{
    const struct giving_up *g = arg;
    struct kid bad = kid_make("bad", NULL), other = kid_make("other", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = g->strategy, .intensity = 2,
                              .period_ns = HOUR_NS};
    HD_NURSERY(n, .supervision = &s, .on_error = g->on_error) {
        kid_begin(n, &other, HD_PERMANENT);
        kid_supervise(n, &bad, HD_PERMANENT);
        for (int i = 0; i < 3; i++) {
            kid_await(&bad);
            if (i && g->strategy == HD_ONE_FOR_ALL) kid_await(&other);
            kid_end(&bad, g->result);
        }
        EXPECT_EQ(hd_nursery_wait(n), g->expected);
        const hd_nursery_info info = hd_nursery_look(n);
        EXPECT_EQ(info.state, HD_NURSERY_CANCELLED);
        EXPECT_EQ(info.cause.reason, HD_REASON_FAILURE);
        EXPECT_EQ(info.cause.error, g->expected);
        EXPECT_EQ(info.failed, 1);
        hd_child_error error;
        EXPECT_EQ(hd_nursery_error(n, 0, &error), 0);
        EXPECT_EQ(error.error, g->expected);
        EXPECT_EQ(error.task, info.cause.task);
        EXPECT(strcmp(error.name, "bad") == 0);
        hd_supervised state;
        EXPECT_EQ(hd_supervised_look(n, "bad", &state), -ENOENT);
    }
    EXPECT_EQ(hd_nursery_result(), g->expected);
    EXPECT_EQ(bad.calls, 3);
    EXPECT_EQ(other.calls, g->strategy == HD_ONE_FOR_ALL ? 3 : 1); /* a round is one restart */
    EXPECT_EQ(other.asked, other.calls);
    return 0;
}

TEST_WORLDS(too_many_restarts_end_the_nursery, options)
{
    struct giving_up cases[] = {
        {-EIO, -EIO, HD_ON_ERROR_CANCEL, HD_ONE_FOR_ONE},
        {0, -ESRCH, HD_ON_ERROR_CANCEL, HD_ONE_FOR_ONE},
        {7, -ESRCH, HD_ON_ERROR_COLLECT, HD_REST_FOR_ONE},
        {-EIO, -EIO, HD_ON_ERROR_IGNORE, HD_ONE_FOR_ONE},
        {-EIO, -EIO, HD_ON_ERROR_CANCEL, HD_ONE_FOR_ALL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rt_run(run_giving_up, &cases[i], options);
    }
}

/* ---- cancelling ---- */

static int cancel_the_running(void *arg)
{
    const hd_strategy *strategy = arg;
    struct kid kids[THREE] = {0};
    const hd_supervision s = {.size = sizeof(s), .strategy = *strategy};
    HD_NURSERY(n, .supervision = &s) {
        for (int i = 0; i < THREE; i++) {
            kids[i] = kid_make((const char[]){(char)('A' + i), '\0'}, NULL);
            kid_begin(n, &kids[i], HD_PERMANENT);
        }
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    for (int i = 0; i < THREE; i++) {
        EXPECT_EQ(kids[i].calls, 1);
        EXPECT_EQ(kids[i].asked, 1);
    }
    return 0;
}

TEST_WORLDS(a_cancel_restarts_nobody, options)
{
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        rt_run(cancel_the_running, &s, options);
    }
}

/* In a pause of an hour. */
static int cancel_the_pausing(void *arg)
{
    const hd_strategy *strategy = arg;
    struct kid kid = kid_make("kid", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = *strategy, .backoff_ns = HOUR_NS};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &kid, HD_PERMANENT);
        kid_end(&kid, -EIO);
        kids_until_resting(n, "kid");
        hd_supervised state = {0};
        EXPECT_EQ(hd_supervised_look(n, "kid", &state), 0);
        EXPECT_EQ(state.starts, 1);
        EXPECT_EQ(state.last, -EIO);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    EXPECT_EQ(kid.calls, 1);
    return 0;
}

TEST_WORLDS(a_cancel_ends_a_pause, options)
{
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        rt_run(cancel_the_pausing, &s, options);
    }
}

static int time_out_the_pausing(void *arg)
{
    const hd_strategy *strategy = arg;
    struct kid kid = kid_make("kid", NULL);
    const hd_supervision s = {.size = sizeof(s), .strategy = *strategy, .backoff_ns = HOUR_NS};
    int err = 0;
    kid_end(&kid, -EIO);
    HD_NURSERY(n, .supervision = &s, .deadline = hd_after_ms(20)) {
        err = hd_supervise(n, "kid", HD_PERMANENT, kid_main, &kid);
    }
    if (err) EXPECT_EQ(err, -ETIMEDOUT); /* so late on a busy machine */
    EXPECT_EQ(hd_nursery_result(), err ? 0 : -ETIMEDOUT);
    EXPECT(kid.calls <= 1);
    return 0;
}

TEST_WORLDS(so_does_a_deadline, options)
{
    for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
        rt_run(time_out_the_pausing, &s, options);
    }
}

/* One that was asked to end goes on for a while, and all others wait for it. */
static int cancel_a_round(void *arg)
{
    (void)arg;
    struct kid a = kid_make("A", NULL), b = kid_make("B", NULL), c = kid_make("C", NULL);
    b.deaf = true;
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &a, HD_PERMANENT);
        kid_begin(n, &b, HD_PERMANENT);
        kid_begin(n, &c, HD_PERMANENT);
        kid_end(&a, -EIO);
        kids_until_resting(n, "A");
        kids_until_resting(n, "C");
        hd_nursery_cancel(n);
        kids_until_gone(n, "A");
        kids_until_gone(n, "C");
        kid_end(&b, -ENXIO); /* The error of a cancelled child is an error all the same. */
    }
    EXPECT_EQ(hd_nursery_result(), -ENXIO);
    EXPECT_EQ(a.calls + b.calls + c.calls, 3);
    return 0;
}

TEST_WORLDS(a_cancel_ends_a_round, options) { rt_run(cancel_a_round, NULL, options); }

/* ---- rounds ---- */

static int wait_for_the_deaf(void *arg)
{
    (void)arg;
    struct kid a = kid_make("A", NULL), b = kid_make("B", NULL), c = kid_make("C", NULL);
    b.deaf = true;
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &a, HD_PERMANENT);
        kid_begin(n, &b, HD_TRANSIENT);
        kid_begin(n, &c, HD_PERMANENT);
        kid_end(&a, -EIO);
        kids_until_resting(n, "A");
        kids_until_resting(n, "C");
        for (int i = 0; i < 20; i++) hd_yield();
        EXPECT_EQ(a.calls + b.calls + c.calls, 3);
        hd_supervised state = {0};
        EXPECT_EQ(hd_supervised_look(n, "B", &state), 0);
        EXPECT(state.running);
        kid_end(&b, 0); /* It was asked: whatever it returns, it starts anew. */
        kid_await(&a);
        kid_await(&b);
        kid_await(&c);
        b.deaf = false; /* from its next call on, which does not come: */
        kid_end(&b, 0); /* it was not asked this time, and ends for good. */
        kids_until_gone(n, "B");
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(a.calls, 2);
    EXPECT_EQ(b.calls, 2);
    EXPECT_EQ(c.calls, 2);
    return 0;
}

TEST_WORLDS(a_round_waits_for_who_does_not_heed_it, options)
{
    rt_run(wait_for_the_deaf, NULL, options);
}

/* C is deaf, so the round that B began stands still; then A, which it does not concern, fails. */
static int fail_during_a_round(void *arg)
{
    (void)arg;
    struct kids_log log = {0};
    struct kid a = kid_make("A", &log), b = kid_make("B", &log), c = kid_make("C", &log);
    struct kid d = kid_make("D", &log);
    c.deaf = true;
    const hd_supervision s = {.size = sizeof(s), .strategy = HD_REST_FOR_ONE};
    HD_NURSERY(n, .supervision = &s) {
        kid_begin(n, &a, HD_PERMANENT);
        kid_begin(n, &b, HD_PERMANENT);
        kid_begin(n, &c, HD_PERMANENT);
        kid_end(&b, -EIO);
        kids_until_resting(n, "B");
        kid_supervise(n, &d, HD_TEMPORARY); /* A new one waits with the rest. */
        for (int i = 0; i < 20; i++) hd_yield();
        EXPECT_EQ(d.calls, 0);
        kid_end(&a, -EIO);
        kids_until_resting(n, "A");
        EXPECT_EQ(a.calls + b.calls + c.calls + d.calls, 3);
        kid_end(&c, -EIO);
        kid_await(&a);
        kid_await(&b);
        kid_await(&c);
        kid_await(&d);
        EXPECT(memcmp(log.text, "ABCbacABCD", 10) == 0);
        c.deaf = false; /* from its next call on */
        kid_end(&c, 0);
        kid_await(&c);
        kids_until_gone(n, "D");
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(a.calls, 2);
    EXPECT_EQ(b.calls, 2);
    EXPECT_EQ(c.calls, 3);
    EXPECT_EQ(d.calls, 1);
    return 0;
}

TEST_WORLDS(a_failure_during_a_round_widens_it, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(fail_during_a_round, NULL, &one);
}
