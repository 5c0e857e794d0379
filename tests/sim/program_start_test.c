/* SPDX-License-Identifier: MIT
 *
 * Simulated programs: how long they take to start, how they fail to, and that exploring and seeds
 * find what is wrong with a parent.
 */
#include "base/sanitizer.h"
#include "programs.h"
#include "seeds.h"

TEST_MAIN

/* ---- starting ---- */

static int64_t began_ns;

static int note_time(const hd_sim_process *self, void *arg)
{
    (void)self;
    (void)arg;
    began_ns = hd_now(NULL);
    return 0;
}

static int64_t latency(void)
{
    const int64_t before = hd_now(NULL);
    EXPECT_EQ(programs_finish(programs_start("timed", note_time, NULL, NULL)), 0);
    return began_ns - before;
}

static int64_t latency_min, latency_max;

static int starts(void *arg)
{
    (void)arg;
    const int64_t ns = latency();
    if (ns < latency_min) latency_min = ns;
    if (ns > latency_max) latency_max = ns;
    EXPECT_EQ(hd_sim_program_fault("timed", -EAGAIN, 0, HD_SECOND_NS), 0);
    EXPECT(latency() >= HD_SECOND_NS);
    return 0;
}

TEST(how_long_it_takes_to_start_is_drawn)
{
    latency_min = HD_SECOND_NS;
    each_seed(starts);
    EXPECT(latency_min < HD_MS_NS / 4);
    EXPECT(latency_max > HD_MS_NS / 2 && latency_max < 2 * HD_MS_NS);
}

static unsigned failures;

static int faults(void *arg)
{
    const char *const argv[] = {"true", NULL}, *const other[] = {"other", NULL};
    hd_child *child;
    (void)arg;
    EXPECT_EQ(hd_sim_program("true", programs_true, NULL), 0);
    EXPECT_EQ(hd_sim_program("other", programs_true, NULL), 0);
    EXPECT_EQ(hd_sim_program_fault("true", -ENOMEM, HD_SIM_ALWAYS, 0), 0);
    EXPECT_EQ(hd_child_start(&child, argv, &programs_piped), -ENOMEM);
    EXPECT_EQ(hd_child_start(&child, other, &programs_piped), 0);
    EXPECT_EQ(programs_finish(child), 0);
    EXPECT_EQ(hd_sim_program_fault("true", -EAGAIN, HD_SIM_ALWAYS / 2, 0), 0);
    for (int i = 0; i < 10; i++) {
        const int err = hd_child_start(&child, argv, &programs_piped);
        EXPECT(err == 0 || err == -EAGAIN);
        failures += err != 0;
        if (!err) EXPECT_EQ(programs_finish(child), 0);
    }
    EXPECT_EQ(hd_sim_program_fault("true", 0, 0, 0), -EINVAL);
    EXPECT_EQ(hd_sim_program_fault("true", -EAGAIN, 0, -1), -EINVAL);
    return 0;
}

TEST(starting_fails_when_that_is_asked_for)
{
    failures = 0;
    each_seed(faults);
    EXPECT(failures > 3 * SEEDS && failures < 7 * SEEDS);
}

static int through_chaos(void *arg)
{
    const char *const argv[] = {"true", NULL};
    hd_child *child;
    (void)arg;
    EXPECT_EQ(hd_sim_program("true", programs_true, NULL), 0);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_PROGRAMS, 10 * HD_SECOND_NS), 0);
    for (int i = 0; i < 20; i++) {
        const int err = hd_child_start(&child, argv, &programs_piped);
        EXPECT(err == 0 || err == -EAGAIN);
        failures += err != 0;
        if (!err) EXPECT_EQ(programs_finish(child), 0);
    }
    EXPECT_EQ(hd_sleep_ms(11000), 0);
    for (int i = 0; i < 20; i++) {
        child = programs_start("true", programs_true, NULL, NULL);
        EXPECT_EQ(programs_finish(child), 0);
    }
    return 0;
}

TEST(chaos_keeps_programs_from_starting_for_a_while)
{
    failures = 0;
    each_seed(through_chaos);
    EXPECT(failures > SEEDS);
}

/* ---- the same seed, the same run ---- */

static uint64_t digest;

static int talk(void *arg)
{
    (void)arg;
    hd_child *child = programs_start("cat", programs_cat, NULL, &programs_piped);
    EXPECT_EQ(hd_write_all(hd_child_pipe(child, 0), "weft", 4, NULL), 0);
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    programs_expect(hd_child_pipe(child, 1), "weft");
    return programs_finish(child);
}

static int note_digest(void *arg)
{
    hd_task *parents[6];
    for (int i = 0; i < 6; i++) parents[i] = rt_spawn(NULL, talk, arg);
    for (int i = 0; i < 6; i++) EXPECT_EQ(rt_join(parents[i]), 0);
    digest = hd_runtime_digest(hd_runtime_self());
    return 0;
}

TEST(children_are_the_same_for_the_same_seed)
{
    expect_digests(note_digest, &digest);
}

/* ---- parents that are wrong ---- */

enum { MUCH = 200000 }; /* more than a pipe has room for */

static int write_much(const hd_sim_process *self, void *arg)
{
    static const char much[MUCH];
    (void)self;
    (void)arg;
    return hd_write_all(hd_stdout(), much, MUCH, NULL) ? 1 : 0;
}

static void drain(hd_io io)
{
    static char bytes[4096];
    size_t count = 0;
    for (ssize_t n; (n = hd_read(io, bytes, sizeof(bytes))) > 0;) count += (size_t)n;
    hd_assert(count == MUCH);
}

static int drain_first(void *arg)
{
    (void)arg;
    hd_child *child = programs_start("much", write_much, NULL, &programs_piped);
    drain(hd_child_pipe(child, 1));
    return programs_finish(child);
}

static int wait_first(void *arg)
{
    (void)arg;
    hd_child *child = programs_start("much", write_much, NULL, &programs_piped);
    hd_assert(hd_child_wait(child, NULL) == 0);
    drain(hd_child_pipe(child, 1));
    hd_child_free(child);
    return 0;
}

static hd_explore_result explore(hd_fn *fn)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.schedules = 50;
    options.fork = HDI_ASAN; /* A failing schedule leaves its tasks behind. */
    EXPECT_EQ(hd_explore(fn, NULL, &options, &result), 0);
    return result;
}

/* What was closed by its end, and not by itself, is no handle that it should not use. */
static int withstand(const hd_sim_process *self, void *arg)
{
    char byte;
    (void)self;
    (void)arg;
    hd_assert(hd_shield() == 0);
    hd_assert(programs_say("+") == 0);
    hd_assert(hd_read(hd_stdin(), &byte, 1) < 0);
    hd_assert(hd_read(hd_stdin(), &byte, 1) == -EBADF);
    hd_assert(hd_unshield() == 0);
    return 0;
}

static int end_withstanding(void *arg)
{
    char byte;
    (void)arg;
    hd_child *child = programs_start("withstand", withstand, NULL, &programs_piped);
    hd_assert(hd_read(hd_child_pipe(child, 1), &byte, 1) == 1);
    hd_assert(hd_child_kill(child, SIGKILL) == 0);
    return programs_finish(child) == SIGKILL ? 0 : 1;
}

TEST(handles_that_end_with_it_are_no_fault) { EXPECT_EQ(explore(end_withstanding).verdict, 0); }

TEST(a_parent_that_waits_before_it_drains_deadlocks)
{
    EXPECT_EQ(explore(drain_first).verdict, HD_VERDICT_NONE);
    EXPECT_EQ(explore(wait_first).verdict, HD_VERDICT_DEADLOCK);
}

/* Ends well when it is told to, once it is ready for that. */
static int end_well(const hd_sim_process *self, void *arg)
{
    static const int ends[] = {SIGTERM};
    hd_chan *signals;
    int number;
    (void)self;
    (void)arg;
    if (hd_signal_open(&signals, ends, 1) != 0 || programs_say("+") != 0) return 1;
    const int err = hd_chan_recv(signals, &number);
    hd_signal_close(signals);
    return err ? 1 : 0;
}

static int stop_it(bool ask)
{
    char byte;
    hd_child *child = programs_start("service", end_well, NULL, &programs_piped);
    if (ask) EXPECT_EQ(hd_read(hd_child_pipe(child, 1), &byte, 1), 1);
    else (void)hd_sleep_until(hd_now(NULL) + HD_MS_NS * 3 / 4); /* It should be there by now. */
    (void)hd_child_kill(child, SIGTERM);
    return programs_finish(child);
}

static int stop_ready(void *arg)
{
    (void)arg;
    return stop_it(true);
}

static int stop_hastily(void *arg)
{
    (void)arg;
    return stop_it(false);
}

TEST(some_seeds_find_a_signal_that_comes_too_early)
{
    unsigned found = 0;
    each_seed(stop_ready);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        const int status = hd_run(stop_hastily, NULL, &options);
        EXPECT(status == 0 || status == SIGTERM);
        found += status != 0;
    }
    EXPECT(found > 0 && found < SEEDS);
}
