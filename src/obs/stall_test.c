/* SPDX-License-Identifier: MIT
 *
 * Reports about tasks that stall, and about tasks that somebody wonders about.
 */
#include "rt.h"

#include <signal.h>

#include "base/sanitizer.h"
#include "sched/runtime.h"

TEST_MAIN

static hd_options live(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.report_stalls = true;
    options.stall_ns = 20 * INT64_C(1000000); /* one worker has none unless told */
    return options;
}

/* Under ThreadSanitizer a signal waits for the next system call. */
static bool has_frames(const char *text)
{
    return HDI_TSAN || strstr(text, "    #0 ") != NULL;
}

static unsigned count_of(const char *text, const char *words)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) count++;
    return count;
}

/* ---- stalls ---- */

static _Atomic(bool) enough;

static int compute(void *arg)
{
    const int64_t until_ns = hd_now(NULL) + *(const int64_t *)arg;
    while (!hdi_load_acquire(&enough) && hd_now(NULL) < until_ns) hdi_cpu_relax();
    return 0;
}

struct program {
    hd_options options;
    int64_t long_ns; /* at most */
    unsigned tasks;
    unsigned reports; /* then one task more stalls, is reported too, and all end */
};

static char heard[16384];
static size_t heard_length;

static ssize_t hear(int from)
{
    const ssize_t n = read(from, heard + heard_length, sizeof(heard) - 1 - heard_length);
    if (n > 0) heard_length += (size_t)n;
    heard[heard_length] = '\0';
    return n;
}

static void hear_of(int from, const char *name, unsigned reports)
{
    while (count_of(heard, name) < reports) EXPECT(hear(from) > 0);
}

/* Runs it. Returns what it writes to stderr. */
static const char *said_by(const struct program *program)
{
    int ends[2];
    heard_length = 0;
    heard[0] = '\0';
    EXPECT_EQ(pipe(ends), 0);
    const int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    hd_runtime *runtime = rt_create(&program->options);
    hd_spawn_options named = HD_SPAWN_OPTIONS_INIT;
    named.runtime = runtime;
    named.name = "hog";
    hd_task *tasks[4], *witness = NULL;
    int64_t long_ns = program->long_ns;
    for (unsigned i = 0; i < program->tasks; i++) {
        EXPECT_EQ(hd_spawn_with(&tasks[i], compute, &long_ns, &named), 0);
    }
    if (program->reports > 0) {
        hear_of(ends[0], "\"hog\"", program->reports);
        /* While this one is waited for, the monitor looks at the others again and again. */
        named.name = "witness";
        EXPECT_EQ(hd_spawn_with(&witness, compute, &long_ns, &named), 0);
        hear_of(ends[0], "\"witness\"", 1);
        hdi_store_release(&enough, true);
        EXPECT_EQ(rt_join(witness), 0);
    }
    for (unsigned i = 0; i < program->tasks; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_runtime_destroy(runtime);
    dup2(before, STDERR_FILENO);
    while (hear(ends[0]) > 0) continue;
    close(ends[0]);
    return heard;
}

#define MOST_NS INT64_C(60000000000)

TEST(a_stall_is_reported_once_with_name_site_and_backtrace)
{
    const struct program program = {live(1), MOST_NS, 1, 1};
    const char *said = said_by(&program);
    EXPECT_EQ(count_of(said, "heddle: worker 0 has run task "), 1);
    EXPECT_EQ(count_of(said, "has run"), 2);
    EXPECT_EQ(count_of(said, " \"hog\", spawned at "), 1);
    EXPECT(strstr(said, "stall_test.c:") != NULL);
    EXPECT(strstr(said, " in said_by(), for ") != NULL);
    EXPECT(strstr(said, " ms\n") != NULL);
    EXPECT(has_frames(said));
}

TEST(every_task_that_stalls_is_reported)
{
    const struct program program = {live(1), MOST_NS, 3, 3};
    EXPECT_EQ(count_of(said_by(&program), " \"hog\", spawned at "), 3);
}

TEST(nothing_is_said_unless_somebody_asked_for_it)
{
    struct program program = {live(1), 100000000, 1, 0};
    program.options.report_stalls = false;
    EXPECT_EQ(strlen(said_by(&program)), 0);
    program.options.report_stalls = true;
    program.options.stall_ns = INT64_C(10000000000);
    EXPECT_EQ(strlen(said_by(&program)), 0);
}

/* ---- the signal ---- */

static volatile sig_atomic_t mine;

static void count_mine(int number)
{
    (void)number;
    mine++;
}

static void count_mine_too(int number, siginfo_t *what, void *machine)
{
    (void)what, (void)machine;
    count_mine(number);
}

static void program_has(struct sigaction before)
{
    const hd_options options = live(1);
    struct sigaction now;
    mine = 0;
    EXPECT_EQ(sigaction(SIGURG, &before, NULL), 0);
    hd_runtime *runtime = rt_create(&options), *other = rt_create(&options);
    EXPECT_EQ(raise(SIGURG), 0);
    EXPECT_EQ(mine, before.sa_handler == SIG_IGN ? 0 : 1);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(sigaction(SIGURG, NULL, &now), 0);
    EXPECT(now.sa_handler != before.sa_handler);
    hd_runtime_destroy(other);
    EXPECT_EQ(sigaction(SIGURG, NULL, &now), 0);
    EXPECT(now.sa_handler == before.sa_handler);
}

TEST(the_program_keeps_its_own_handler)
{
    program_has((struct sigaction){.sa_handler = count_mine});
    program_has((struct sigaction){.sa_sigaction = count_mine_too, .sa_flags = SA_SIGINFO});
    program_has((struct sigaction){.sa_handler = SIG_IGN});
}

/* ---- inquiries ---- */

static char answer[16384];

/* Context: a task. */
static const char *ask_about(hd_task *task)
{
    FILE *out = fmemopen(answer, sizeof(answer), "w");
    EXPECT(out != NULL);
    hdi_monitor_report(hd_runtime_self(), task, "it is late", out);
    EXPECT_EQ(fclose(out), 0);
    return answer;
}

static hd_task *spawn_named(hd_fn *fn, void *arg)
{
    hd_spawn_options named = HD_SPAWN_OPTIONS_INIT;
    named.name = "child";
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &named), 0);
    return task;
}

static void expect_child(const char *said)
{
    EXPECT(strncmp(said, "heddle: it is late: task ", 25) == 0);
    EXPECT(strstr(said, " \"child\", spawned at ") != NULL);
    EXPECT(strstr(said, " in spawn_named()\n") != NULL);
}

struct meeting {
    hd_chan *chan;
    _Atomic(int) here;
};

static int wait_for_item(void *arg)
{
    struct meeting *meeting = arg;
    int item = 0;
    hdi_store_release(&meeting->here, 1);
    EXPECT_EQ(hd_chan_recv(meeting->chan, &item), 0);
    return item;
}

static int ask_about_a_sleeper(void *arg)
{
    (void)arg;
    struct meeting meeting = {.chan = hd_chan_create(sizeof(int), 1)};
    hd_task *task = spawn_named(wait_for_item, &meeting);
    rt_until(&meeting.here);
    const char *said = ask_about(task);
    expect_child(said);
    EXPECT(strstr(said, "  waits for about ") != NULL);
    EXPECT(strstr(said, "receive") != NULL);
    EXPECT(strstr(said, "    #0 ") != NULL);
    const int seven = 7;
    EXPECT_EQ(hd_chan_send(meeting.chan, &seven), 0);
    EXPECT_EQ(rt_join(task), 7); /* It has slept on meanwhile. */
    hd_chan_destroy(meeting.chan);
    return 0;
}

TEST_WORLDS(a_sleeping_fiber_is_described, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(ask_about_a_sleeper, NULL, &own);
}

static int sleep_shortly(void *arg)
{
    hdi_store_release((_Atomic(int) *)arg, 1);
    return hd_sleep_ms(20);
}

static int ask_about_a_timer(void *arg)
{
    (void)arg;
    _Atomic(int) here = 0;
    hd_task *task = spawn_named(sleep_shortly, &here);
    rt_until(&here);
    const char *said = ask_about(task);
    expect_child(said);
    EXPECT(strstr(said, " for its time to come\n") != NULL || strstr(said, "turn") != NULL);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(one_that_waits_for_the_time_is_described, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(ask_about_a_timer, NULL, &own);
}

static hd_poll pending(void *state, int *result)
{
    (void)state;
    *result = 0;
    return hd_cancelled() ? HD_READY : HD_PENDING;
}

static hd_poll ask_as_stackless(void *state, int *result)
{
    hd_task *task = *(hd_task **)state;
    const char *said = ask_about(task);
    EXPECT(strstr(said, "  is pending until a waker of it fires\n") != NULL);
    *result = hd_self_id() != 0 ? 5 : 0; /* It is still the running one. */
    return HD_READY;
}

static int ask_about_stackless(void *arg)
{
    (void)arg;
    hd_task *task = rt_spawn_poll(NULL, pending, NULL, 0);
    hd_yield();
    while (hdi_word_lifecycle(hdi_load_acquire(&task->word)) != HDI_IDLE) hd_yield();
    const char *said = ask_about(task);
    EXPECT(strstr(said, "  is pending until a waker of it fires\n") != NULL);
    EXPECT_EQ(rt_join(rt_spawn_poll(NULL, ask_as_stackless, &task, sizeof(task))), 5);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(a_stackless_task_is_described_and_may_ask, options)
{
    rt_run(ask_about_stackless, NULL, options);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int ask_about_others(void *arg)
{
    (void)arg;
    hd_task *task = spawn_named(nothing, NULL);
    const char *said = ask_about(task);
    expect_child(said);
    /* To ask is to give way: in sim the other may have come first. */
    EXPECT(strstr(said, "  waits for its turn to run\n") || strstr(said, "has ended"));
    while (!hdi_task_ended(task)) hd_yield();
    EXPECT(strstr(ask_about(task), "  has ended meanwhile\n") != NULL);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(one_that_is_ready_or_has_ended_is_described, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(ask_about_others, NULL, &own);
}

static int compute_until(void *arg)
{
    struct meeting *meeting = arg;
    hdi_store_release(&meeting->here, 1);
    while (hdi_load_acquire(&meeting->here) == 1) hdi_cpu_relax();
    return 0;
}

static int ask_about_a_runner(void *arg)
{
    const bool frames = *(const bool *)arg;
    struct meeting meeting = {.here = 0};
    hd_task *task = spawn_named(compute_until, &meeting);
    rt_until(&meeting.here);
    const char *said = ask_about(task);
    expect_child(said);
    EXPECT(strstr(said, "  runs on worker ") != NULL);
    EXPECT(frames ? has_frames(said) : !strstr(said, "    #0 "));
    hdi_store_release(&meeting.here, 2);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST(a_running_task_is_described)
{
    hd_options options = live(2);
    bool frames = true;
    rt_run(ask_about_a_runner, &frames, &options);
    options.report_stalls = frames = false;
    rt_run(ask_about_a_runner, &frames, &options);
}

/* ---- while all of them are at work ---- */

enum { ROUNDS = 2000 };

static int ping(void *arg)
{
    hd_chan **chans = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_chan_send(chans[0], &i), 0);
        EXPECT_EQ(hd_chan_recv(chans[1], &(int){0}), 0);
    }
    return 0;
}

static int pong(void *arg)
{
    hd_chan **chans = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int item = -1;
        EXPECT_EQ(hd_chan_recv(chans[0], &item), 0);
        EXPECT_EQ(item, i);
        EXPECT_EQ(hd_chan_send(chans[1], &item), 0);
    }
    return 0;
}

static int ask_all_the_time(void *arg)
{
    (void)arg;
    hd_chan *chans[2] = {hd_chan_create(sizeof(int), 0), hd_chan_create(sizeof(int), 0)};
    hd_task *a = spawn_named(ping, chans), *b = spawn_named(pong, chans);
    while (!hdi_task_ended(a) || !hdi_task_ended(b)) {
        expect_child(ask_about(a));
        expect_child(ask_about(b));
    }
    EXPECT_EQ(rt_join(a) + rt_join(b), 0);
    hd_chan_destroy(chans[0]);
    hd_chan_destroy(chans[1]);
    return 0;
}

TEST_WORLDS(those_who_are_asked_about_do_not_notice, options)
{
    rt_run(ask_all_the_time, NULL, options);
}
