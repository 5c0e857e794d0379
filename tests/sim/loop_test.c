/* SPDX-License-Identifier: MIT
 *
 * The loop of a simulation: ticks, the events that are to come and how many may be, cohorts, long
 * waits, assertions, and the figures of all that.
 */
#include "death.h"
#include "rt.h"

TEST_MAIN

#define YEAR (365 * 24 * 3600 * HD_SECOND_NS)

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    return options;
}

static hd_sim_stats figures(void)
{
    hd_sim_stats stats;
    EXPECT_EQ(hd_sim_summary(hd_runtime_self(), &stats), 0);
    return stats;
}

/* ---- logs ---- */

static char log_path[64];

static void make_log(hd_options *options)
{
    snprintf(log_path, sizeof(log_path), "/tmp/heddle-loop-XXXXXX");
    const int fd = mkstemp(log_path);
    EXPECT(fd >= 0);
    close(fd);
    options->record = log_path;
}

static void drop_log(void)
{
    char meta[sizeof(log_path) + 8];
    snprintf(meta, sizeof(meta), "%s.meta", log_path);
    EXPECT_EQ(unlink(log_path), 0);
    EXPECT_EQ(unlink(meta), 0);
}

/* The warnings in the log that have these words; `last` is when the last of them was. */
static int count_warnings(const char *words, int64_t *last)
{
    hd_log *log;
    EXPECT_EQ(hd_log_open(&log, log_path), 0);
    EXPECT(hd_log_about(log)->complete);
    int count = 0;
    for (hd_log_event event; hd_log_next(log, &event) == 1;) {
        if (event.kind != HD_LOG_WARNING || !strstr(event.text, words)) continue;
        if (last) *last = event.time_ns;
        count++;
    }
    hd_log_close(log);
    return count;
}

/* ---- ticks ---- */

static int yield_ten_times(void *arg)
{
    const int64_t tick_ns = *(int64_t *)arg, before = hd_now(NULL);
    for (int i = 0; i < 10; i++) hd_yield();
    EXPECT_EQ(hd_now(NULL), before + 10 * tick_ns);
    return 0;
}

TEST(a_step_takes_a_tick)
{
    const int64_t ticks[] = {1, 1000, 1000000, HD_SECOND_NS};
    for (int i = 0; i < 4; i++) {
        hd_options options = sim(1);
        int64_t tick_ns = ticks[i];
        options.sim_tick_ns = tick_ns == 1000 ? 0 : tick_ns; /* the default */
        EXPECT_EQ(hd_run(yield_ten_times, &tick_ns, &options), 0);
    }
    hd_options options = sim(1);
    hd_runtime *runtime;
    options.sim_tick_ns = -1;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
    options.sim_tick_ns = HD_SECOND_NS + 1;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
    options.sim_tick_ns = 0;
    options.sim_long_wait_ns = -1;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
}

static int sleep_for_years(void *arg)
{
    (void)arg;
    const hd_sim_stats before = figures();
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 10 * YEAR), 0);
    const hd_sim_stats after = figures();
    EXPECT(after.ticks - before.ticks >= (uint64_t)(20 * 10 * YEAR / 1000));
    EXPECT_EQ(after.events - before.events, 20);
    EXPECT(after.runs - before.runs <= 21);
    return 0;
}

/* Millions of times as many would take days. */
TEST(ticks_that_nothing_needs_are_skipped)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        hd_options options = sim(seed);
        if (seed % 2) options.sim_order = HD_SIM_WORKERS;
        EXPECT_EQ(hd_run(sleep_for_years, NULL, &options), 0);
    }
}

/* ---- a full queue ---- */

#define EVENTS_MAX 4
#define SLEEPERS   25

static int64_t deadlines[SLEEPERS];
static int running_max, awake; /* timers at once; tasks that have slept */

static int sleeper(void *arg)
{
    const int number = (int)(uintptr_t)arg;
    const int64_t now_ns = hd_now(NULL);
    deadlines[number] = now_ns + (10 + number * 7 % 5) * HD_MS_NS;
    int running = 0;
    for (int i = 0; i < SLEEPERS; i++) running += deadlines[i] > now_ns;
    if (running > running_max) running_max = running;
    EXPECT_EQ(hd_sleep_until(deadlines[number]), 0);
    awake++;
    return 0;
}

static int many_sleepers(void *arg)
{
    hd_sim_stats *stats = arg;
    hd_task *tasks[SLEEPERS];
    memset(deadlines, 0, sizeof(deadlines));
    running_max = awake = 0;
    for (uintptr_t i = 0; i < SLEEPERS; i++) tasks[i] = rt_spawn(NULL, sleeper, (void *)i);
    for (int i = 0; i < SLEEPERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    *stats = figures();
    return 0;
}

static void expect_limited(const hd_options *options)
{
    hd_sim_stats stats;
    EXPECT_EQ(hd_run(many_sleepers, &stats, options), 0);
    EXPECT_EQ(awake, SLEEPERS);
    /* At a point a task may be about to sleep, and find that it need not any more. */
    if (!options->sampler) EXPECT_EQ(running_max, EVENTS_MAX);
    EXPECT_EQ(stats.depth_max, EVENTS_MAX);
    EXPECT(stats.pauses > 0 && stats.pauses <= SLEEPERS);
    EXPECT(stats.warnings >= 2 * stats.pauses - 1); /* It may be full still. */
    if (!options->sampler) EXPECT_EQ(stats.events, SLEEPERS);
}

TEST(a_full_queue_stops_the_tasks)
{
    static const char *const samplers[] = {NULL, "random", "fair", "cohort", "pct:3"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        hd_options options = sim(seed);
        options.sim_events_max = EVENTS_MAX;
        options.sampler = samplers[seed % 5];
        if (seed >= 35) {
            options.sampler = NULL;
            options.sim_order = HD_SIM_WORKERS;
        }
        expect_limited(&options);
    }
}

/* With room for all of them nobody stops. */
TEST(room_for_all_stops_nobody)
{
    hd_options options = sim(3);
    options.sim_events_max = SLEEPERS + 1;
    hd_sim_stats stats;
    EXPECT_EQ(hd_run(many_sleepers, &stats, &options), 0);
    EXPECT_EQ(running_max, SLEEPERS);
    EXPECT_EQ(stats.pauses, 0);
    EXPECT_EQ(stats.warnings, 0);
    EXPECT_EQ(stats.depth_max, SLEEPERS);
}

TEST(a_full_queue_is_in_the_log)
{
    hd_options options = sim(7);
    options.sim_events_max = EVENTS_MAX;
    make_log(&options);
    hd_sim_stats stats, again;
    EXPECT_EQ(hd_run(many_sleepers, &stats, &options), 0);
    EXPECT_EQ(count_warnings("no task runs until there is room", NULL), (int)stats.pauses);
    EXPECT(count_warnings("tasks run again", NULL) >= (int)stats.pauses - 1);
    options = sim(0);
    options.replay = log_path; /* It has the seed and the limit. */
    EXPECT_EQ(hd_run(many_sleepers, &again, &options), 0);
    EXPECT_EQ(again.pauses, stats.pauses);
    drop_log();
}

/* ---- a full network ---- */

#define STREAM_BYTES 400000

static int serve_once(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    unsigned char buffer[5000];
    size_t done = 0;
    ssize_t n;
    EXPECT_EQ(hd_tcp_listen(&listener, ":7", NULL), 0);
    EXPECT_EQ(hd_accept(listener, &conn, NULL), 0);
    while ((n = hd_read(conn, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(buffer[i], (done + (size_t)i) % 251);
        done += (size_t)n;
    }
    EXPECT_EQ(done, STREAM_BYTES);
    hd_close(conn);
    hd_close(listener);
    return 0;
}

static int stream(void *arg)
{
    (void)arg;
    static unsigned char bytes[STREAM_BYTES];
    for (size_t i = 0; i < STREAM_BYTES; i++) bytes[i] = (unsigned char)(i % 251);
    hd_task *server = rt_spawn(NULL, serve_once, NULL);
    hd_io conn;
    EXPECT_EQ(hd_sleep_ms(1), 0); /* It listens by then. */
    EXPECT_EQ(hd_tcp_connect(&conn, "localhost:7", NULL), 0);
    EXPECT_EQ(hd_write_all(conn, bytes, STREAM_BYTES, NULL), 0);
    hd_close(conn);
    EXPECT_EQ(rt_join(server), 0);
    const hd_sim_stats stats = figures();
    /* What is answered, tells of room, and ends the connection does not wait. */
    EXPECT(stats.depth_max <= 2 + 8);
    EXPECT(stats.pauses > 0);
    return 0;
}

TEST(bytes_wait_for_room)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        hd_options options = sim(seed);
        options.sim_events_max = 2;
        if (seed % 2) options.sim_order = HD_SIM_WORKERS;
        EXPECT_EQ(hd_run(stream, NULL, &options), 0);
    }
}

static int flood(void *arg)
{
    (void)arg;
    hd_io from, to;
    hd_addr addr;
    char buffer[8];
    EXPECT_EQ(hd_udp_open(&to, "127.0.0.1:9"), 0);
    EXPECT_EQ(hd_udp_open(&from, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_addr_parse(&addr, "127.0.0.1:9"), 0);
    for (int i = 0; i < 100; i++) EXPECT_EQ(hd_send_to(from, "datagram", 8, &addr), 8);
    int came = 0;
    const int64_t deadline = hd_now(NULL) + HD_SECOND_NS;
    while (hd_recv_from_until(to, buffer, sizeof(buffer), NULL, deadline) == 8) came++;
    hd_close(from);
    hd_close(to);
    EXPECT(came >= 8 && came <= 10);
    return 0;
}

TEST(datagrams_are_dropped)
{
    hd_options options = sim(1);
    options.sim_events_max = 10;
    EXPECT_EQ(hd_run(flood, NULL, &options), 0);
}

/* ---- cohorts ---- */

#define COHORT_TASKS 100000
#define PLACES       4

static int last_of_place[PLACES], places_seen, place_now;

/* In the order they were spawned, place by place. */
static int member(int place, void *arg)
{
    const int number = (int)(uintptr_t)arg;
    if (place != place_now) places_seen++;
    place_now = place;
    EXPECT(last_of_place[place] < number);
    last_of_place[place] = number;
    return 0;
}

static int member_0(void *arg) { return member(0, arg); }
static int member_1(void *arg) { return member(1, arg); }
static int member_2(void *arg) { return member(2, arg); }
static int member_3(void *arg) { return member(3, arg); }

static int crowd(void *arg)
{
    static hd_fn *const fns[PLACES] = {member_0, member_1, member_2, member_3};
    hd_sim_stats *stats = arg;
    hd_nursery nursery;
    place_now = -1;
    places_seen = 0;
    for (int i = 0; i < PLACES; i++) last_of_place[i] = -1;
    EXPECT_EQ(hd_nursery_open(&nursery, NULL), 0);
    hd_hold_begin(HD_SITE); /* so that none of them begins before all are there */
    for (uintptr_t i = 0; i < COHORT_TASKS; i++) {
        EXPECT_EQ(hd_go(&nursery, fns[i % PLACES], (void *)i), 0);
    }
    hd_hold_end();
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    *stats = figures();
    return 0;
}

/* It takes a few looks at each task; one look at all of them for each step would take minutes. */
TEST(a_hundred_thousand_in_four_cohorts)
{
    hd_options options = sim(1);
    options.sampler = "cohort";
    hd_sim_stats stats;
    EXPECT_EQ(hd_run(crowd, &stats, &options), 0);
    EXPECT_EQ(places_seen, PLACES);
    for (int i = 0; i < PLACES; i++) EXPECT_EQ(last_of_place[i], COHORT_TASKS - PLACES + i);
    EXPECT_EQ(stats.spawned, COHORT_TASKS + 1);
    EXPECT_EQ(stats.completed, COHORT_TASKS);
    EXPECT(stats.cohorts >= PLACES && stats.cohorts <= 2 * PLACES);
    EXPECT(stats.cohort_mean > COHORT_TASKS / (2.5 * PLACES));
    EXPECT(stats.choices >= COHORT_TASKS - 1 && stats.steps >= COHORT_TASKS);
}

/* ---- long waits ---- */

static hd_chan *never;
static int64_t waited_from;

static int wait_long(void *arg)
{
    (void)arg;
    int item;
    waited_from = hd_now(NULL);
    EXPECT_EQ(hd_chan_recv_until(never, &item, waited_from + 5 * HD_SECOND_NS), -ETIMEDOUT);
    return 0;
}

static int wait_briefly(void *arg)
{
    (void)arg;
    int item;
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(hd_chan_recv_until(never, &item, hd_now(NULL) + 900 * HD_MS_NS), -ETIMEDOUT);
    }
    return 0;
}

static int sleep_long(void *arg)
{
    (void)arg;
    return hd_sleep_ms(7000);
}

static int wait_in_three_ways(void *arg)
{
    static hd_fn *const fns[3] = {wait_long, wait_briefly, sleep_long};
    static const char *const names[3] = {"long", "brief", "sleeper"};
    hd_task *tasks[3];
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    never = hd_chan_create(sizeof(int), 0);
    for (int i = 0; i < 3; i++) {
        options.name = names[i];
        EXPECT_EQ(hd_spawn_at(&tasks[i], fns[i], NULL, &options, HD_SITE), 0);
    }
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_chan_destroy(never);
    *(hd_sim_stats *)arg = figures();
    return 0;
}

TEST(a_long_wait_is_worth_one_warning)
{
    hd_options options = sim(5);
    make_log(&options);
    hd_sim_stats stats;
    int64_t at_ns = 0;
    EXPECT_EQ(hd_run(wait_in_three_ways, &stats, &options), 0);
    EXPECT_EQ(count_warnings("\"long\" has waited for 1000000 ticks: receive", &at_ns), 1);
    EXPECT(at_ns >= waited_from + HD_SECOND_NS && at_ns <= waited_from + HD_SECOND_NS + 100000);
    EXPECT_EQ(count_warnings("\"brief\"", NULL), 0);
    EXPECT_EQ(count_warnings("\"sleeper\"", NULL), 0);
    /* It joins two of them that take long. */
    EXPECT_EQ(count_warnings("\"main\" has waited for 1000000 ticks: join a task", NULL), 2);
    EXPECT_EQ(stats.warnings, 3);
    options = sim(0);
    options.replay = log_path;
    EXPECT_EQ(hd_run(wait_in_three_ways, &stats, &options), 0);
    EXPECT_EQ(stats.warnings, 3);
    drop_log();
}

static void note_line(void *arg, const char *line)
{
    if (strstr(line, "has waited for")) ++*(int *)arg;
}

TEST(long_waits_are_told_to_who_asks)
{
    hd_sim_stats stats;
    hd_options options = sim(5);
    int lines = 0;
    options.log = note_line;
    options.log_arg = &lines;
    EXPECT_EQ(hd_run(wait_in_three_ways, &stats, &options), 0);
    EXPECT_EQ(lines, 3);
    EXPECT_EQ(stats.warnings, 3);
    options.sim_long_wait_ns = HD_FOREVER;
    EXPECT_EQ(hd_run(wait_in_three_ways, &stats, &options), 0);
    EXPECT_EQ(lines, 3);
    options.sim_long_wait_ns = 0;
    options.log = NULL;
    EXPECT_EQ(hd_run(wait_in_three_ways, &stats, &options), 0);
    EXPECT_EQ(stats.warnings, 0); /* Nobody asked. */
}

/* ---- assertions ---- */

static int fail_in_the_middle(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        hd_yield();
        hd_assert(i != 50);
    }
    return 0;
}

static void run_to_failure(void *arg)
{
    EXPECT_EQ(hd_run(fail_in_the_middle, NULL, arg), -ENOTRECOVERABLE);
}

/* In a process of its own: the task is left as it is, which AddressSanitizer would call a leak. */
TEST(an_assertion_ends_the_run_and_its_log)
{
    hd_options options = sim(1);
    make_log(&options);
    const struct death death = death_of(run_to_failure, &options);
    EXPECT_EQ(death.status, 0);
    EXPECT(strstr(death.text, "assertion failed: loop_test.c:"));
    hd_log *log;
    EXPECT_EQ(hd_log_open(&log, log_path), 0);
    EXPECT(hd_log_about(log)->complete && !hd_log_about(log)->damage);
    hd_log_kind before = 0, last = 0;
    for (hd_log_event event; hd_log_next(log, &event) == 1;) {
        before = last;
        last = event.kind;
        if (last == HD_LOG_ASSERT) EXPECT(strcmp(event.text, "i != 50") == 0);
    }
    hd_log_close(log);
    EXPECT_EQ(before, HD_LOG_ASSERT);
    EXPECT_EQ(last, HD_LOG_VERDICT);
    drop_log();
}

/* ---- figures ---- */

TEST(only_a_simulation_has_a_summary)
{
    hd_sim_stats stats;
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(hd_sim_summary(runtime, &stats), -ENOTSUP);
    EXPECT_EQ(hd_sim_summary(NULL, &stats), -EINVAL);
    EXPECT_EQ(hd_sim_summary(runtime, NULL), -EINVAL);
    hd_runtime_destroy(runtime);
}
