/* SPDX-License-Identifier: MIT
 *
 * Supervised nurseries in virtual time: pauses, windows and jitter to the nanosecond; a cancel
 * at every step; and rules that hold whatever the children do.
 */
#include "base/sanitizer.h"
#include "kids.h"
#include "sched/runtime.h"

TEST_MAIN

#define MS   HD_MS_NS
#define HOUR (3600 * HD_SECOND_NS)

enum { SEEDS = HDI_TSAN ? 20 : 200 };

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    return options;
}

/* ---- times, exactly ---- */

enum { CALLS = 12 };

/* A child that lives for so long, each time, and notes when it started. Alone, so that what it
 * sleeps is exact. */
struct diary {
    hd_supervision supervision;
    int64_t lives_ns[CALLS]; /* how long each call lives */
    int calls;               /* so far */
    int last;                /* the call that ends for good; 0: none */
    int64_t started_ns[CALLS], ended_ns[CALLS];
};

static int live_and_die(void *arg)
{
    struct diary *d = arg;
    const int i = d->calls++;
    EXPECT(i < CALLS);
    const int64_t now = hd_now(NULL);
    d->started_ns[i] = now;
    if (d->lives_ns[i]) EXPECT_EQ(hd_sleep_until(now + d->lives_ns[i]), 0);
    d->ended_ns[i] = hd_now(NULL);
    EXPECT_EQ(d->ended_ns[i], now + d->lives_ns[i]);
    return d->calls == d->last ? 0 : -EIO;
}

static int keep_diary(void *arg)
{
    struct diary *d = arg;
    HD_NURSERY(n, .supervision = &d->supervision) {
        EXPECT_EQ(hd_supervise(n, "diarist", HD_TRANSIENT, live_and_die, d), 0);
    }
    return hd_nursery_result();
}

/* The pause after call i, from 0. */
static int64_t pause_after(const struct diary *d, int i)
{
    return d->started_ns[i + 1] - d->ended_ns[i];
}

static struct diary diary_of(int64_t backoff_ns, int64_t backoff_max_ns, int last)
{
    return (struct diary){
        .supervision = {.size = sizeof(hd_supervision), .intensity = CALLS, .period_ns = 1,
                        .backoff_ns = backoff_ns, .backoff_max_ns = backoff_max_ns},
        .last = last,
    };
}

TEST(pauses_double_up_to_the_longest)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        static const int64_t expected[] = {100 * MS, 200 * MS, 400 * MS, 800 * MS, 1000 * MS,
                                           1000 * MS};
        struct diary d = diary_of(100 * MS, 1000 * MS, 7);
        d.supervision.strategy = (hd_strategy)(seed % 3); /* alone it is all the same */
        EXPECT_EQ(hd_run(keep_diary, &d, &options), 0);
        EXPECT_EQ(d.calls, 7);
        for (int i = 0; i < 6; i++) EXPECT_EQ(pause_after(&d, i), expected[i]);
    }
}

/* The pauses are 10, 20, 40 ms; the next is 80, unless the child lived for more than 40. */
TEST(who_lived_longer_than_the_last_pause_begins_with_the_first)
{
    static const struct {
        int64_t life_ns, pause_ns;
    } cases[] = {{0, 80 * MS}, {40 * MS, 80 * MS}, {40 * MS + 1, 10 * MS}, {HOUR, 10 * MS}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        for (uint64_t seed = 1; seed <= 6; seed++) {
            const hd_options options = sim(seed);
            struct diary d = diary_of(10 * MS, HOUR, 6);
            d.supervision.strategy = (hd_strategy)(seed % 3);
            d.lives_ns[3] = cases[k].life_ns;
            EXPECT_EQ(hd_run(keep_diary, &d, &options), 0);
            EXPECT_EQ(pause_after(&d, 2), 40 * MS);
            EXPECT_EQ(pause_after(&d, 3), cases[k].pause_ns);
            EXPECT_EQ(pause_after(&d, 4), 2 * cases[k].pause_ns);
        }
    }
}

TEST(a_longest_pause_that_is_no_double_is_reached)
{
    const hd_options options = sim(1);
    struct diary d = diary_of(3, 10, 6); /* 3 6 10 10 10 */
    d.supervision.period_ns = 1;
    EXPECT_EQ(hd_run(keep_diary, &d, &options), 0);
    struct diary huge = diary_of(HD_FOREVER / 2, HD_FOREVER, 2);
    EXPECT_EQ(hd_run(keep_diary, &huge, &options), 0);
    EXPECT_EQ(pause_after(&huge, 0), HD_FOREVER / 2);
    EXPECT_EQ(d.calls, 6);
}

/* ---- the window ---- */

/* Two restarts within a second are allowed. The third failure comes this long after the first. */
static int fail_three_times(int64_t after_ns, uint64_t seed)
{
    const hd_options options = sim(seed);
    struct diary d = diary_of(100 * MS, 0, 4);
    d.supervision.intensity = 2;
    d.supervision.period_ns = HD_SECOND_NS;
    d.supervision.strategy = (hd_strategy)(seed % 3);
    /* fails, pause 100; lives 300 and fails, pause 100; the rest */
    d.lives_ns[0] = 50 * MS;
    d.lives_ns[1] = 300 * MS;
    d.lives_ns[2] = after_ns - 500 * MS;
    const int result = hd_run(keep_diary, &d, &options);
    EXPECT_EQ(d.ended_ns[2] - d.ended_ns[0], after_ns);
    EXPECT_EQ(d.calls, result ? 3 : 4);
    return result;
}

TEST(a_restart_counts_until_the_period_has_passed)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        EXPECT_EQ(fail_three_times(600 * MS, seed), -EIO);
        EXPECT_EQ(fail_three_times(HD_SECOND_NS - 1, seed), -EIO);
        EXPECT_EQ(fail_three_times(HD_SECOND_NS, seed), -EIO);
        EXPECT_EQ(fail_three_times(HD_SECOND_NS + 1, seed), 0);
        EXPECT_EQ(fail_three_times(2 * HD_SECOND_NS, seed), 0);
    }
}

/* The window slides: a failure every 600 ms for ever is no more than two in a second. */
TEST(the_window_slides)
{
    const hd_options options = sim(3);
    struct diary d = diary_of(0, 0, CALLS);
    d.supervision.intensity = 2;
    d.supervision.period_ns = HD_SECOND_NS;
    for (int i = 0; i < CALLS; i++) d.lives_ns[i] = 600 * MS;
    EXPECT_EQ(hd_run(keep_diary, &d, &options), 0);
    d.calls = 0;
    d.lives_ns[8] = 300 * MS; /* It fails 900 ms after the one before the last. */
    EXPECT_EQ(hd_run(keep_diary, &d, &options), -EIO);
    EXPECT_EQ(d.calls, 9);
}

/* ---- jitter ---- */

static void keep_jittered(struct diary *d, unsigned percent, uint64_t seed)
{
    const hd_options options = sim(seed);
    *d = diary_of(1000 * MS, 1000 * MS, CALLS);
    d->supervision.jitter_percent = percent;
    EXPECT_EQ(hd_run(keep_diary, d, &options), 0);
}

TEST(jitter_is_of_the_seed_and_within_its_bounds)
{
    static const unsigned percents[] = {1, 25, 100};
    struct diary d, again;
    for (size_t k = 0; k < sizeof(percents) / sizeof(*percents); k++) {
        const int64_t span_ns = 10 * MS * percents[k];
        int64_t least = HD_FOREVER, most = 0, first = -1;
        int repeated = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            keep_jittered(&d, percents[k], seed);
            keep_jittered(&again, percents[k], seed);
            repeated += pause_after(&d, 0) == first;
            first = pause_after(&d, 0);
            for (int i = 0; i + 1 < CALLS; i++) {
                const int64_t pause = pause_after(&d, i);
                EXPECT_EQ(pause, pause_after(&again, i));
                EXPECT(pause >= 1000 * MS - span_ns && pause <= 1000 * MS);
                if (pause < least) least = pause;
                if (pause > most) most = pause;
            }
        }
        /* All of it is used, by seeds that differ. */
        EXPECT(least < 1000 * MS - span_ns * 9 / 10 && most > 1000 * MS - span_ns / 10);
        EXPECT(repeated < SEEDS / 10);
    }
}

/* Jitter does not let a pause of nothing seem long, or a short one make the next begin anew. */
static int64_t live_beside(int64_t life_ns)
{
    const hd_options options = sim(5);
    struct diary d = diary_of(100 * MS, 800 * MS, 3);
    d.supervision.jitter_percent = 100;
    d.lives_ns[1] = life_ns;
    EXPECT_EQ(hd_run(keep_diary, &d, &options), 0);
    return pause_after(&d, 1);
}

TEST(a_life_is_measured_against_the_whole_pause)
{
    /* The same draws: after 200 ms less a part, or after 100 ms less the same part. */
    EXPECT_EQ(live_beside(100 * MS) / 1000, 2 * live_beside(100 * MS + 1) / 1000);
}

/* ---- the pause of a round ---- */

struct mourner {
    int64_t takes_ns; /* to heed a cancel */
    int calls;
    int64_t ended_ns, started_ns[3];
};

static int heed_slowly(void *arg)
{
    struct mourner *m = arg;
    m->started_ns[m->calls++] = hd_now(NULL);
    EXPECT_EQ(hd_sleep_until(HD_FOREVER - 1), -ECANCELED);
    EXPECT_EQ(hd_shield(), 0);
    if (m->takes_ns) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + m->takes_ns), 0);
    EXPECT_EQ(hd_unshield(), 0);
    m->ended_ns = hd_now(NULL);
    return -ECANCELED;
}

static int fail_once(void *arg)
{
    struct diary *d = arg;
    d->started_ns[d->calls++] = hd_now(NULL);
    const int err = hd_sleep_until(hd_now(NULL) + (d->calls == 1 ? 10 * MS : HOUR));
    d->ended_ns[d->calls - 1] = hd_now(NULL);
    return err ? err : -EIO;
}

/* Returns how long after the failure the round started. */
static int64_t round_after(int64_t takes_ns, uint64_t seed)
{
    struct mourner m = {.takes_ns = takes_ns};
    struct diary d = diary_of(100 * MS, 0, 0);
    const hd_options options = sim(seed);
    hd_runtime *runtime = rt_create(&options);
    d.supervision.strategy = HD_ONE_FOR_ALL;
    HD_NURSERY(n, .runtime = runtime, .supervision = &d.supervision) {
        EXPECT_EQ(hd_supervise(n, "mourner", HD_PERMANENT, heed_slowly, &m), 0);
        EXPECT_EQ(hd_supervise(n, "failing", HD_PERMANENT, fail_once, &d), 0);
        EXPECT_EQ(hd_sleep_ms(10000), 0);
        hd_nursery_cancel(n);
    }
    hd_runtime_destroy(runtime);
    EXPECT_EQ(m.calls, 2);
    EXPECT_EQ(d.calls, 2);
    EXPECT(m.started_ns[1] <= d.started_ns[1]); /* in the order they were added */
    EXPECT(d.started_ns[1] - m.started_ns[1] < MS);
    return m.started_ns[1] - d.ended_ns[0];
}

/* The pause goes on while the others end: it is not added to what they need. */
TEST(a_round_starts_when_all_have_ended_and_the_pause_is_over)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        EXPECT_EQ(round_after(0, seed), 100 * MS);
        EXPECT_EQ(round_after(99 * MS, seed), 100 * MS);
        const int64_t late = round_after(250 * MS, seed);
        EXPECT(late >= 250 * MS && late < 251 * MS);
    }
}

/* B fails at 0, 100 and 300 ms and pauses for 100, 200 and 400; A, before it, fails at 400 ms and
 * would pause for 100. */
static int pause_within_a_pause(void *arg)
{
    struct diary *a = arg, *b = a + 1;
    HD_NURSERY(n, .supervision = &a->supervision) {
        EXPECT_EQ(hd_supervise(n, "A", HD_TRANSIENT, live_and_die, a), 0);
        EXPECT_EQ(hd_supervise(n, "B", HD_TRANSIENT, live_and_die, b), 0);
    }
    return hd_nursery_result();
}

TEST(the_longer_of_two_pauses_counts)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct diary both[2] = {diary_of(100 * MS, 0, 2), diary_of(0, 0, 4)};
        struct diary *a = &both[0], *b = &both[1];
        const hd_options options = sim(seed);
        a->supervision.strategy = HD_REST_FOR_ONE;
        a->lives_ns[0] = 400 * MS;
        EXPECT_EQ(hd_run(pause_within_a_pause, both, &options), 0);
        EXPECT_EQ(b->started_ns[2], b->ended_ns[1] + 200 * MS);
        const int64_t late_ns = a->started_ns[1] - (b->ended_ns[2] + 400 * MS);
        EXPECT(late_ns >= 0 && late_ns < MS / 100); /* both wake up, and one at a time runs */
        EXPECT(b->started_ns[3] >= a->started_ns[1]);
    }
}

/* ---- whatever they do ---- */

enum { FOLK = 7 };

/* Seen by all: in sim only one runs at a time, and from its start or its end to its first wait or
 * its judgement nothing else does. */
struct folk {
    struct member {
        struct folk *folk;
        int number;
        bool running;
        unsigned long started, failed; /* when, in events; 0: never */
    } members[FOLK];
    hd_supervision supervision;
    hd_nursery *nursery; /* NULL: not open, or about to be left */
    uint64_t seed, draws;
    unsigned long events, starts, failures, asked;
    bool cancelled;
};

static uint64_t draw(struct folk *f, uint64_t below)
{
    uint64_t x = f->seed * UINT64_C(0x9e3779b97f4a7c15) + ++f->draws * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ (x >> 27)) % below;
}

/* It starts: those before it run, and of those that a failure concerned nobody does since then. */
static void check_start(struct folk *f, const struct member *m)
{
    EXPECT(!m->running); /* never twice at once */
    EXPECT(!f->cancelled);
    if (f->supervision.strategy == HD_ONE_FOR_ONE) return;
    const bool all = f->supervision.strategy == HD_ONE_FOR_ALL;
    for (int i = 0; i < FOLK; i++) {
        const struct member *other = &f->members[i];
        if (i < m->number) EXPECT(other->running || other->started == 0);
        if (!other->running) continue;
        for (int j = 0; j < FOLK; j++) {
            const bool concerned = all || j < i;
            if (concerned) EXPECT(other->started > f->members[j].failed);
        }
    }
}

static int muddle_along(void *arg)
{
    struct member *m = arg;
    struct folk *f = m->folk;
    check_start(f, m);
    m->started = ++f->events;
    m->running = true;
    f->starts++;
    int err = 0;
    for (uint64_t naps = draw(f, 4); naps > 0 && !err; naps--) {
        err = hd_sleep_until(hd_now(NULL) + (int64_t)draw(f, 50 * MS));
    }
    if (err && draw(f, 2)) { /* takes its time */
        EXPECT_EQ(hd_shield(), 0);
        EXPECT_EQ(hd_sleep_until(hd_now(NULL) + (int64_t)draw(f, 100 * MS)), 0);
        EXPECT_EQ(hd_unshield(), 0);
    }
    m->running = false;
    if (hd_cancelled()) {
        f->asked++;
    } else {
        m->failed = ++f->events;
        f->failures++;
    }
    return hd_cancelled() ? -ECANCELED : draw(f, 2) ? -EIO : 0;
}

static int live_together(void *arg)
{
    struct folk *f = arg;
    HD_NURSERY(n, .supervision = &f->supervision) {
        for (int i = 0; i < FOLK; i++) {
            char name[8];
            snprintf(name, sizeof(name), "m%d", i);
            f->members[i].folk = f;
            f->members[i].number = i;
            EXPECT_EQ(hd_supervise(n, name, HD_PERMANENT, muddle_along, &f->members[i]), 0);
        }
        EXPECT_EQ(hd_sleep_ms(2000), 0);
        f->cancelled = true;
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    for (int i = 0; i < FOLK; i++) EXPECT(!f->members[i].running);
    return 0;
}

static struct folk folk_of(uint64_t seed, hd_strategy strategy)
{
    return (struct folk){
        .seed = seed,
        .supervision = {.size = sizeof(hd_supervision), .strategy = strategy, .period_ns = 1,
                        .intensity = 1000, .jitter_percent = 50,
                        .backoff_ns = seed % 3 ? 5 * MS : 0, .backoff_max_ns = 50 * MS},
    };
}

static uint64_t digest_of(struct folk *f)
{
    const hd_options options = sim(f->seed);
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, live_together, f)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

TEST(rules_hold_for_every_seed_and_runs_repeat)
{
    unsigned long failures = 0, asked = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
            struct folk f = folk_of(seed, s), again = folk_of(seed, s);
            const uint64_t digest = digest_of(&f);
            EXPECT(digest == digest_of(&again));
            EXPECT_EQ(f.starts, again.starts);
            failures += f.failures;
            asked += f.asked;
        }
    }
    EXPECT(failures > SEEDS * 50 && asked > SEEDS * 50);
}

/* ---- a cancel at every step ---- */

/* The run under way. */
static struct {
    struct folk *folk;
    unsigned long steps, cancel_at;
} cut;

static void step(struct hd_task *task)
{
    (void)task;
    if (++cut.steps != cut.cancel_at || !cut.folk->nursery) return;
    cut.folk->cancelled = true;
    hd_nursery_cancel(cut.folk->nursery);
}

/* A child that has supervised children of its own, the first of which fails. */
static int have_children(void *arg)
{
    struct folk *f = arg;
    struct folk own = folk_of(f->seed + 1, HD_REST_FOR_ONE);
    own.supervision.intensity = 1;
    own.supervision.period_ns = HOUR;
    HD_NURSERY(n, .supervision = &own.supervision) {
        for (int i = 0; i < 3; i++) {
            own.members[i].folk = &own;
            own.members[i].number = i;
            const int err = hd_supervise(n, i == 0 ? "x" : i == 1 ? "y" : "z", HD_PERMANENT,
                                         muddle_along, &own.members[i]);
            EXPECT(err == 0 || err == -ECANCELED);
        }
    }
    for (int i = 0; i < 3; i++) EXPECT(!own.members[i].running);
    return hd_nursery_result();
}

static int live_cut_short(void *arg)
{
    struct folk *f = arg;
    HD_NURSERY(n, .supervision = &f->supervision) {
        f->nursery = n;
        int err = 0;
        for (int i = 0; i < 3 && !err; i++) {
            f->members[i].folk = f;
            f->members[i].number = i;
            err = hd_supervise(n, i == 0 ? "a" : i == 1 ? "b" : "c", HD_PERMANENT, muddle_along,
                               &f->members[i]);
        }
        if (!err) err = hd_supervise(n, "d", HD_PERMANENT, have_children, f);
        EXPECT(err == 0 || err == -ECANCELED);
        (void)hd_nursery_wait(n);
        f->nursery = NULL;
    }
    for (int i = 0; i < 3; i++) EXPECT(!f->members[i].running);
    const int result = hd_nursery_result();
    EXPECT(result == -ECANCELED || result == -ESRCH || result == -EIO || result == 0);
    if (result == 0) EXPECT(f->cancelled && f->starts == 0);
    return 0;
}

/* Returns how many steps it took. */
static unsigned long cut_at(uint64_t seed, hd_strategy strategy, unsigned long at)
{
    struct folk f = folk_of(seed, strategy);
    f.supervision.intensity = 4;
    f.supervision.period_ns = HOUR; /* so that it ends by itself */
    const hd_options options = sim(seed);
    hd_runtime *runtime = rt_create(&options);
    cut.folk = &f;
    cut.steps = 0;
    cut.cancel_at = at;
    runtime->sim.ran = step;
    EXPECT_EQ(rt_join(rt_spawn(runtime, live_cut_short, &f)), 0);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    hd_runtime_destroy(runtime);
    return cut.steps;
}

TEST(a_cancel_at_every_step)
{
    const uint64_t seeds = HDI_TSAN ? 4 : 24;
    unsigned long runs = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        for (hd_strategy s = HD_ONE_FOR_ONE; s <= HD_REST_FOR_ONE; s++) {
            const unsigned long steps = cut_at(seed, s, 0);
            for (unsigned long at = 1; at <= steps; at++, runs++) (void)cut_at(seed, s, at);
        }
    }
    fprintf(stderr, "# %lu runs\n", runs);
    EXPECT(runs > seeds * 30);
}
