/* SPDX-License-Identifier: MIT
 *
 * Recording and replaying, event by event.
 */
#include "log/record.h"

#include <signal.h>
#include <sys/resource.h>

#include "log/identity.h"
#include "logs.h"

TEST_MAIN

static hd_runtime *made(const char *sampler)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = 9;
    options.sampler = sampler;
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), 0);
    return runtime;
}

/* Files of its own: hdi_logfile_create() would take a memfd's name for what it is. */
static const char *log_path(void)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/heddle-record-%d", (int)getpid());
    return path;
}

static void drop(void)
{
    char meta[80];
    snprintf(meta, sizeof(meta), "%s.meta", log_path());
    EXPECT_EQ(unlink(log_path()), 0);
    EXPECT_EQ(unlink(meta), 0);
}

static struct hdi_log *begin(hd_runtime *runtime)
{
    struct hdi_log *log = NULL;
    EXPECT_EQ(hdi_log_begin(&log, log_path(), runtime), 0);
    return log;
}

static hd_log *reopened(void)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, log_path()), 0);
    return log;
}

static void touch(struct hdi_log *log, const void *object)
{
    const struct hdi_event_record event = {.kind = HD_LOG_STEP, .task = 1, .object = object};
    hdi_log_event(log, &event);
}

static void expect_object(hd_log *log, uint64_t number)
{
    hd_log_event event;
    EXPECT_EQ(hd_log_next(log, &event), 1);
    EXPECT_EQ(event.a, number);
}

/* ---- recording ---- */

TEST(objects_are_numbered)
{
    hd_runtime *runtime = made("random");
    struct hdi_log *log = begin(runtime);
    char objects[3];
    touch(log, &objects[2]);
    touch(log, &objects[0]);
    touch(log, &objects[2]);
    hdi_log_forget(log, &objects[2]);
    touch(log, &objects[1]);
    touch(log, &objects[2]);
    touch(log, &objects[0]);
    EXPECT_EQ(hdi_log_end(log), 0);
    hd_log *read = reopened();
    static const uint64_t numbers[] = {1, 2, 1, 3, 4, 2};
    for (size_t i = 0; i < 6; i++) expect_object(read, numbers[i]);
    hd_log_close(read);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(files_have_no_directories)
{
    hd_runtime *runtime = made("random");
    struct hdi_log *log = begin(runtime);
    const hd_site far = {"/a/b/c.c", 3, "f"}, near = {"c.c", 3, "g"}, odd = {"../x/", -7, "h"};
    const hd_site *sites[] = {&far, &near, &odd};
    for (size_t i = 0; i < 3; i++) {
        hdi_log_event(log, &(struct hdi_event_record){.kind = HD_LOG_STEP, .site = sites[i]});
    }
    EXPECT_EQ(hdi_log_end(log), 0);
    hd_log *read = reopened();
    hd_log_event event;
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(hd_log_next(read, &event), 1);
        EXPECT(strcmp(event.file, "c.c") == 0 && event.line == 3);
    }
    EXPECT_EQ(hd_log_next(read, &event), 1);
    EXPECT(strcmp(event.file, "") == 0 && event.line == 0);
    hd_log_close(read);
    hd_runtime_destroy(runtime);
    drop();
}

static uint64_t events_now(void)
{
    hd_log *read = reopened();
    const uint64_t events = hd_log_about(read)->events;
    hd_log_close(read);
    return events;
}

TEST(events_are_held_back_until_a_flush)
{
    hd_runtime *runtime = made("random");
    struct hdi_log *log = begin(runtime);
    touch(log, NULL);
    EXPECT_EQ(events_now(), 0);
    EXPECT_EQ(hdi_log_flush(log), 0);
    EXPECT_EQ(events_now(), 1);
    touch(log, NULL);
    EXPECT_EQ(events_now(), 1);
    hdi_log_through(log);
    EXPECT_EQ(events_now(), 2);
    touch(log, NULL);
    EXPECT_EQ(events_now(), 3);
    EXPECT_EQ(hdi_log_end(log), 0);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(a_failure_is_remembered)
{
    hd_runtime *runtime = made("random");
    struct hdi_log *log = begin(runtime);
    const struct rlimit limit = {600, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    touch(log, NULL);
    EXPECT_EQ(hdi_log_flush(log), 0);
    for (int i = 0; i < 100; i++) touch(log, log);
    EXPECT_EQ(hdi_log_failed(log), 0);
    EXPECT_EQ(hdi_log_flush(log), -EFBIG);
    EXPECT_EQ(hdi_log_failed(log), -EFBIG);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    touch(log, NULL); /* There is room again, but a log has no holes. */
    EXPECT_EQ(hdi_log_flush(log), -EFBIG);
    EXPECT_EQ(hdi_log_end(log), -EFBIG);
    EXPECT_EQ(events_now(), 1);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(the_program_is_named)
{
    uint8_t identity[HDI_IDENTITY_BYTES], zero[HDI_IDENTITY_BYTES] = {0};
    hdi_identity_get(identity);
    EXPECT(strcmp(hdi_identity_name(), "test_log_record") == 0);
    if (memcmp(identity, zero, sizeof(zero)) == 0) test_skip("this linker makes no build IDs");
}

/* ---- options ---- */

TEST(options_survive)
{
    char text[HDI_LOG_STRING_MAX];
    hd_options recorded = HD_OPTIONS_INIT;
    uint64_t number = 0;
    recorded.world = HD_WORLD_SIM;
    recorded.policy = HD_POLICY_LOCAL;
    recorded.quantum_ops = 77;
    recorded.inject_latency_ns = INT64_C(1) << 40;
    recorded.sampler = "random";
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, &recorded), 0);
    EXPECT(hdi_log_options_put(runtime->sim.schedule, text, sizeof(text)) < (int)sizeof(text));
    hd_runtime_destroy(runtime);
    hd_options read = HD_OPTIONS_INIT;
    EXPECT_EQ(hdi_log_options_get(text, &read), 0);
    EXPECT_EQ(read.policy, HD_POLICY_LOCAL);
    EXPECT_EQ(read.quantum_ops, 77);
    EXPECT_EQ(read.inject_latency_ns, INT64_C(1) << 40);
    EXPECT_EQ(read.workers, 1);
    EXPECT(hdi_log_options_number(text, "steps_max", &number));
    EXPECT(!hdi_log_options_number(text, "steps", &number));
    EXPECT(!hdi_log_options_number("", "steps", &number));
}

TEST(options_that_make_no_sense_are_refused)
{
    static const char *const texts[] = {"workers",     "workers=",    "workers=x",
                                        "workers=1x",  "workers=-1",  "=1",
                                        "workers=4294967296", "workers=99999999999999999999"};
    hd_options options = HD_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (hdi_log_options_get(texts[i], &options) != -EBADMSG) {
            test_fail(__FILE__, __LINE__, "%s was taken", texts[i]);
        }
    }
    EXPECT_EQ(hdi_log_options_get("  later_option=3 workers=5 ", &options), 0);
    EXPECT_EQ(options.workers, 5);
}

/* ---- replaying ---- */

static const struct hdi_event_record spawn = {.kind = HD_LOG_SPAWN, .task = 1, .text = "main"};
static const struct hdi_event_record choice = {.kind = HD_LOG_CHOICE, .task = 4, .a = 2};
static const struct hdi_event_record ended = {.kind = HD_LOG_END, .task = 1, .a = 5};

/* A log of these events; it lacks its end if `cut`. */
static struct hdi_replay *replay_of(hd_runtime *runtime, const struct hdi_event_record *events,
                                    size_t count, bool cut)
{
    struct hdi_log *log = begin(runtime);
    struct hdi_replay *replay = NULL;
    const char *error = NULL;
    hd_options options = HD_OPTIONS_INIT;
    for (size_t i = 0; i < count; i++) hdi_log_event(log, &events[i]);
    EXPECT_EQ(hdi_log_end(log), 0);
    if (cut) {
        hd_log *read = reopened();
        const off_t bytes = (off_t)hd_log_about(read)->file_bytes;
        hd_log_close(read);
        EXPECT_EQ(truncate(log_path(), bytes - 1), 0);
    }
    EXPECT_EQ(hdi_replay_open(&replay, log_path(), &options, &error), 0);
    EXPECT_EQ(options.seed, 9);
    EXPECT_EQ(options.world, HD_WORLD_SIM);
    EXPECT(strcmp(options.sampler, "pct:2:9") == 0);
    hdi_replay_begin(replay, runtime);
    return replay;
}

TEST(a_replay_takes_choices_and_checks_the_rest)
{
    hd_runtime *runtime = made("pct:2:9");
    const struct hdi_event_record events[] = {spawn, choice, ended};
    struct hdi_replay *replay = replay_of(runtime, events, 3, false);
    uint64_t task = 0;
    EXPECT(hdi_replay_check(replay, &spawn));
    EXPECT_EQ(hdi_replay_choice(replay, &task), 0);
    EXPECT_EQ(task, 4);
    EXPECT(hdi_replay_check(replay, &ended));
    EXPECT(!hdi_replay_difference(replay));
    EXPECT(!hdi_replay_check(replay, &ended)); /* One too many. */
    EXPECT(strstr(hdi_replay_difference(replay), "the log has its end"));
    EXPECT_EQ(hdi_replay_choice(replay, &task), -EPROTO);
    hdi_replay_close(replay);
    hd_runtime_destroy(runtime);
    drop();
}

static void expect_difference(const struct hdi_event_record *here, const char *words)
{
    hd_runtime *runtime = made("pct:2:9");
    const struct hdi_event_record events[] = {spawn, ended, choice};
    struct hdi_replay *replay = replay_of(runtime, events, 3, false);
    uint64_t task = 77;
    EXPECT(hdi_replay_check(replay, &spawn));
    if (here)
        EXPECT(!hdi_replay_check(replay, here));
    else
        EXPECT_EQ(hdi_replay_choice(replay, &task), -EPROTO);
    EXPECT_EQ(task, 77);
    const char *difference = hdi_replay_difference(replay);
    if (!difference || !strstr(difference, words)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", difference, words);
    }
    EXPECT(!hdi_replay_check(replay, &ended)); /* It was the first that counts. */
    EXPECT(hdi_replay_difference(replay) == difference && strstr(difference, words));
    hdi_replay_close(replay);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(every_difference_is_seen)
{
    const hd_site site = {"x.c", 3, "f"};
    struct hdi_event_record other = ended;
    other.a = 6;
    expect_difference(&other, "event 2, the log has end task 1 a 5, this run end task 1 a 6");
    other = ended;
    other.b = 1;
    expect_difference(&other, "this run end task 1 a 5 b 1");
    other = ended;
    other.task = 2;
    expect_difference(&other, "this run end task 2 a 5");
    other = ended;
    other.text = "why";
    expect_difference(&other, "this run end task 1 a 5 \"why\"");
    other = ended;
    other.site = &site;
    expect_difference(&other, "this run end task 1 a 5 at x.c:3");
    expect_difference(&spawn, "this run spawn task 1 \"main\"");
    expect_difference(NULL, "this run a choice");
}

static int later(void *arg)
{
    (void)arg;
    return hd_sleep_ms(1);
}

TEST(the_time_is_compared)
{
    hd_runtime *runtime = made("pct:2:9");
    const struct hdi_event_record events[] = {spawn, ended};
    struct hdi_replay *replay = replay_of(runtime, events, 2, false);
    hd_task *task = NULL;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    EXPECT(hdi_replay_check(replay, &spawn));
    options.runtime = runtime;
    EXPECT_EQ(hd_spawn_with(&task, later, NULL, &options), 0);
    EXPECT_EQ(hd_join(task, NULL), 0); /* Time passes. */
    EXPECT(!hdi_replay_check(replay, &ended));
    EXPECT(strstr(hdi_replay_difference(replay), " ns, not 0"));
    hdi_replay_close(replay);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(nothing_differs_after_a_cut)
{
    hd_runtime *runtime = made("pct:2:9");
    const struct hdi_event_record events[] = {spawn};
    struct hdi_replay *replay = replay_of(runtime, events, 1, true);
    uint64_t task = 0;
    EXPECT(!hdi_replay_is_cut(replay));
    EXPECT(hdi_replay_check(replay, &spawn));
    EXPECT(hdi_replay_is_cut(replay));
    EXPECT(hdi_replay_check(replay, &spawn));
    EXPECT_EQ(hdi_replay_choice(replay, &task), -ENODATA);
    EXPECT(hdi_replay_check(replay, &ended));
    EXPECT(strstr(hdi_replay_difference(replay), "cut"));
    hdi_replay_close(replay);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(objects_are_numbered_alike)
{
    hd_runtime *runtime = made("pct:2:9");
    char objects[2];
    struct hdi_event_record events[] = {
        {.kind = HD_LOG_STEP, .task = 1, .object = &objects[1]},
        {.kind = HD_LOG_STEP, .task = 1, .object = &objects[0]},
        {.kind = HD_LOG_STEP, .task = 1, .object = &objects[1]},
    };
    struct hdi_replay *replay = replay_of(runtime, events, 3, false);
    for (size_t i = 0; i < 3; i++) {
        events[i].object = events[i].object == &objects[1] ? &objects[0] : &objects[1];
    }
    EXPECT(hdi_replay_check(replay, &events[0]));
    EXPECT(hdi_replay_check(replay, &events[1]));
    hdi_replay_forget(replay, &objects[0]);
    EXPECT(!hdi_replay_check(replay, &events[2])); /* object 3, not 1 */
    hdi_replay_close(replay);
    hd_runtime_destroy(runtime);
    drop();
}

TEST(logs_that_cannot_be_replayed)
{
    static const struct hdi_log_head bad = {
        .program = "", .library = "", .sampler = "", .options = "what is this"};
    hd_options options = HD_OPTIONS_INIT;
    const hd_options before = options;
    struct hdi_replay *replay = NULL;
    const char *error = NULL;
    EXPECT_EQ(hdi_replay_open(&replay, "/nowhere/at/all", &options, &error), -ENOENT);
    EXPECT(error && strstr(error, "no such log"));
    const struct logs_file file = logs_made(&bad, 1, 0);
    EXPECT_EQ(hdi_replay_open(&replay, file.path, &options, &error), -EBADMSG);
    EXPECT(!replay && options.seed == before.seed && options.world == before.world);
}
