/* SPDX-License-Identifier: MIT
 *
 * waitpoints: a cancel and a timeout at every wait of a task, found systematically in sim.
 *
 *   WAITPOINTS(a_receiver)          a test: runs its body many times, as the first fiber
 *   {
 *       ... spawn helpers ...
 *       wp_spawn(victim, arg);      the task whose waits are tried; one in each run
 *       int err = wp_join();        its result, checked against what was done to it
 *       ... EXPECT that nothing is lost; whatever was spawned must be joined or end ...
 *   }
 *
 * For each seed and order the body runs once undisturbed, and every time the victim
 * suspends is a wait point. Then it runs again for each point, with a cancel that comes
 * there: at once, or after one, two or three runs of others, so that it meets what would
 * have ended the wait. Point 0 is before the victim's first run. The same is done with
 * timeouts: the victim takes its deadlines from wp_until(), which is never, but for the
 * wait in question. In the mode `timeout` it gives up then; in `retry` it tries again while
 * wp_again(err), and must end as if nothing had happened.
 *
 * Every run must end, with no task alive. A failure of any kind, also a crash or a hang,
 * names the seed, the order, the mode, the point and the delay, and the command that
 * repeats it: WAITPOINT=7:random:cancel:3:1 program test, in one process.
 */
#ifndef TEST_WAITPOINTS_H
#define TEST_WAITPOINTS_H

#include <fcntl.h>
#include <sys/mman.h>

#include "base/sanitizer.h"
#include "rt.h"
#include "sched/runtime.h"
#include "task/state.h"

enum { WP_SEEDS = HDI_TSAN ? 2 : 16, WP_DELAYS = 4, WP_POINTS_MAX = 200, WP_RUN_SECONDS = 20 };

enum wp_mode { WP_COUNT, WP_CANCEL, WP_TIMEOUT, WP_RETRY, WP_MODES };
static const char *const wp_mode_names[WP_MODES] = {"count", "cancel", "timeout", "retry"};
static const char *const wp_order_names[] = {"random", "workers"};

/* One run, as in WAITPOINT. */
struct wp_run {
    uint64_t seed;
    hd_sim_order order;
    enum wp_mode mode;
    unsigned point, delay;
};

typedef void wp_body(void);

/* How a sweep went; shared with the process that does it. */
struct wp_outcome {
    bool failed;
    struct wp_run run;     /* the last one */
    unsigned runs, points; /* points: the most in one run */
    unsigned hits[WP_MODES]; /* victims that ended by the cancel or the timeout */
};

/* The run under way. Only the driving thread touches it. */
static struct {
    struct wp_run run;
    hd_task *victim;
    bool spawned, joined;
    unsigned points;               /* the victim has suspended so often */
    unsigned calls;                /* of wp_until() */
    unsigned calls_at[WP_POINTS_MAX + 1];
    int64_t times[WP_POINTS_MAX + 1];
    bool armed;                    /* a cancel comes after `countdown` more runs */
    unsigned countdown;
    unsigned target_call;          /* WP_TIMEOUT, WP_RETRY: which deadline is to pass */
    int64_t target_time;
    int result;
} wp;

/* ---- for bodies ---- */

static inline void wp_register_(hd_task *victim)
{
    EXPECT(!wp.spawned);
    wp.spawned = true;
    wp.victim = victim;
    if (wp.run.mode == WP_CANCEL && wp.run.point == 0) hd_cancel(victim);
}

/* Spawn the victim: a fiber, or a stackless task. */
#define wp_spawn(fn, arg)               wp_register_(rt_spawn(NULL, (fn), (arg)))
#define wp_spawn_poll(fn, state, bytes) wp_register_(rt_spawn_poll(NULL, (fn), (state), (bytes)))

/* The deadline of the victim's next wait. */
static inline int64_t wp_until(void)
{
    wp.calls++;
    return wp.calls == wp.target_call ? wp.target_time : HD_FOREVER;
}

/* Whether the victim is to try again. */
static inline bool wp_again(int err)
{
    return err == -ETIMEDOUT && wp.run.mode == WP_RETRY;
}

/* Join the victim. Returns 0, or what was done to it: -ECANCELED, -ETIMEDOUT. */
static inline int wp_join(void)
{
    wp.result = rt_join(wp.victim);
    wp.victim = NULL;
    wp.joined = true;
    const int allowed = wp.run.mode == WP_CANCEL    ? -ECANCELED
                        : wp.run.mode == WP_TIMEOUT ? -ETIMEDOUT : 0;
    if (wp.result != 0) EXPECT_EQ(wp.result, allowed);
    return wp.result;
}

/* ---- one run ---- */

static void wp_ran(struct hd_task *task)
{
    if (!wp.victim) return;
    if (task == wp.victim && hdi_word_lifecycle(hdi_load_relaxed(&task->word)) == HDI_IDLE) {
        EXPECT(wp.points < WP_POINTS_MAX);
        wp.points++;
        wp.calls_at[wp.points] = wp.calls;
        wp.times[wp.points] = hd_now(NULL);
        if (wp.run.mode == WP_CANCEL && wp.points == wp.run.point) {
            wp.armed = true;
            wp.countdown = wp.run.delay;
        }
    }
    if (wp.armed && wp.countdown-- == 0) {
        wp.armed = false;
        hd_cancel(wp.victim);
    }
}

static int wp_main(void *arg)
{
    wp_body **body = arg;
    (*body)();
    return 0;
}

static void wp_execute(struct wp_outcome *outcome, wp_body *body, struct wp_run run)
{
    outcome->run = run;
    outcome->runs++;
    /* What the undisturbed run told about the point. */
    const unsigned call = run.mode >= WP_TIMEOUT ? wp.calls_at[run.point] : 0;
    const int64_t time = call ? wp.times[run.point] + 1 + run.delay * INT64_C(1000) : 0;
    if (run.mode == WP_COUNT) memset(&wp, 0, sizeof(wp));
    wp.run = run;
    wp.spawned = wp.joined = wp.armed = false;
    wp.points = wp.calls = 0;
    wp.target_call = call;
    wp.target_time = time;

    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = run.seed;
    options.sim_order = run.order;
    hd_runtime *runtime = rt_create(&options);
    runtime->sim.ran = wp_ran;
    alarm(WP_RUN_SECONDS);
    hd_task *task = rt_spawn(runtime, wp_main, &body);
    const int err = hd_join(task, NULL);
    if (err == -EDEADLK) hd_runtime_dump(runtime, stderr);
    EXPECT_EQ(err, 0); /* -EDEADLK: somebody is stuck */
    EXPECT(wp.spawned && wp.joined);
    EXPECT(wp.points >= run.point); /* The same way up to there. */
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    hd_runtime_destroy(runtime);
    outcome->hits[run.mode] += wp.result != 0;
}

/* ---- all runs ---- */

/* Returns the number of points. The arrays of `wp` are then about this seed and order. */
static unsigned wp_count(struct wp_outcome *outcome, wp_body *body, uint64_t seed,
                         hd_sim_order order)
{
    const struct wp_run undisturbed = {.seed = seed, .order = order, .mode = WP_COUNT};
    wp_execute(outcome, body, undisturbed);
    if (wp.points > outcome->points) outcome->points = wp.points;
    return wp.points;
}

/* The arrays outlive the runs that follow: those only see the points again up to theirs. */
static void wp_disturb(struct wp_outcome *outcome, wp_body *body, struct wp_run run)
{
    static unsigned calls_at[WP_POINTS_MAX + 1];
    static int64_t times[WP_POINTS_MAX + 1];
    memcpy(calls_at, wp.calls_at, sizeof(calls_at));
    memcpy(times, wp.times, sizeof(times));
    for (run.delay = 0; run.delay < WP_DELAYS; run.delay++) {
        wp_execute(outcome, body, run);
        memcpy(wp.calls_at, calls_at, sizeof(calls_at));
        memcpy(wp.times, times, sizeof(times));
    }
}

static void wp_sweep_seed(struct wp_outcome *outcome, wp_body *body, uint64_t seed,
                          hd_sim_order order)
{
    const unsigned points = wp_count(outcome, body, seed, order);
    for (int mode = WP_CANCEL; mode < WP_MODES; mode++) {
        for (unsigned point = 0; point <= points; point++) {
            if (mode != WP_CANCEL && wp.calls_at[point] == 0) continue; /* no deadline there */
            const struct wp_run run = {seed, order, (enum wp_mode)mode, point, 0};
            wp_disturb(outcome, body, run);
        }
    }
}

static void wp_sweep_all(struct wp_outcome *outcome, wp_body *body)
{
    for (int order = HD_SIM_RANDOM; order <= HD_SIM_WORKERS; order++) {
        for (uint64_t seed = 1; seed <= WP_SEEDS; seed++) {
            wp_sweep_seed(outcome, body, seed, (hd_sim_order)order);
        }
    }
}

/* In a process of its own, so that any kind of failure can be told with its run. */
static inline struct wp_outcome wp_sweep(wp_body *body, bool quiet)
{
    struct wp_outcome *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (quiet) dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        wp_sweep_all(shared, body);
        exit(0); /* not _exit: the leak checker runs at exit */
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    struct wp_outcome outcome = *shared;
    outcome.failed = status != 0;
    munmap(shared, sizeof(*shared));
    return outcome;
}

/* The value of WAITPOINT that repeats the run. */
static inline const char *wp_describe(const struct wp_run *run)
{
    static char text[80];
    snprintf(text, sizeof(text), "%llu:%s:%s:%u:%u", (unsigned long long)run->seed,
             wp_order_names[run->order], wp_mode_names[run->mode], run->point, run->delay);
    return text;
}

static inline unsigned wp_name_(const char *name, const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) return i;
    }
    test_fail(__FILE__, __LINE__, "WAITPOINT: \"%s\" is nothing known", name);
}

/* WAITPOINT is set: that run alone, after the undisturbed one, in this process. */
static inline void wp_repeat(wp_body *body, const char *text)
{
    char order[16], mode[16];
    unsigned long long seed;
    struct wp_run run;
    struct wp_outcome outcome = {0};
    EXPECT_EQ(sscanf(text, "%llu:%15[^:]:%15[^:]:%u:%u", &seed, order, mode, &run.point,
                     &run.delay), 5);
    run.seed = seed;
    run.order = (hd_sim_order)wp_name_(order, wp_order_names, 2);
    run.mode = (enum wp_mode)wp_name_(mode, wp_mode_names, WP_MODES);
    EXPECT(run.point <= wp_count(&outcome, body, run.seed, run.order));
    if (run.mode != WP_COUNT) wp_execute(&outcome, body, run);
}

/* Every run of the body is fine, and the sweep did something. */
static inline void wp_expect_sound(const char *test, wp_body *body)
{
    const char *one = getenv("WAITPOINT");
    if (one) {
        wp_repeat(body, one);
        return;
    }
    const struct wp_outcome outcome = wp_sweep(body, false);
    if (outcome.failed) {
        test_fail(__FILE__, __LINE__,
                  "%s: seed %llu, order %s, %s at wait point %u, %u runs later\n"
                  "# repeat with: WAITPOINT=%s %s %s",
                  test, (unsigned long long)outcome.run.seed, wp_order_names[outcome.run.order],
                  wp_mode_names[outcome.run.mode], outcome.run.point, outcome.run.delay,
                  wp_describe(&outcome.run), program_invocation_name, test);
    }
    fprintf(stderr, "# %s: %u runs, up to %u wait points, %u cancelled, %u timed out\n", test,
            outcome.runs, outcome.points, outcome.hits[WP_CANCEL], outcome.hits[WP_TIMEOUT]);
    EXPECT(outcome.points > 0);
    EXPECT(outcome.hits[WP_CANCEL] > 0);
}

#define WAITPOINTS(name)                                                                 \
    static void wp_body_##name(void);                                                    \
    TEST(name)                                                                           \
    {                                                                                    \
        wp_expect_sound(#name, wp_body_##name);                                          \
    }                                                                                    \
    static void wp_body_##name(void)

#endif
