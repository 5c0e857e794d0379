/* SPDX-License-Identifier: MIT
 *
 * Runs that are recorded, read, compared and replayed.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "death.h"
#include "rt.h"

TEST_MAIN

/* ---- a directory for the logs ---- */

static char dir[64];

static const char *path_of(const char *name)
{
    static char paths[4][96];
    static unsigned next;
    if (!dir[0]) {
        snprintf(dir, sizeof(dir), "/tmp/heddle-logs-XXXXXX");
        EXPECT(mkdtemp(dir));
    }
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static void drop(const char *name)
{
    const char *path = path_of(name);
    char *meta;
    EXPECT_EQ(unlink(path), 0);
    EXPECT(asprintf(&meta, "%s.meta", path) > 0);
    EXPECT_EQ(unlink(meta), 0);
    free(meta);
}

static void end(void)
{
    EXPECT_EQ(rmdir(dir), 0);
}

static size_t read_all(const char *path, char *bytes, size_t room)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    const ssize_t n = read(fd, bytes, room);
    EXPECT(n >= 0 && (size_t)n < room);
    close(fd);
    return (size_t)n;
}

/* ---- a program ---- */

struct bank {
    hd_mutex mutex;
    hd_chan *done;
    int balance;
    int rounds;
    int odd; /* what the second clerk does otherwise */
};

static int clerk(void *arg)
{
    struct bank *bank = arg;
    for (int i = 0; i < bank->rounds; i++) {
        EXPECT_EQ(hd_mutex_lock(&bank->mutex), 0);
        const int seen = hd_race_read(&bank->balance);
        if (i % 5 == 0) EXPECT_EQ(hd_sleep_ms(1), 0);
        if (bank->odd && i == 3) hd_race_point();
        hd_race_write(&bank->balance, seen + 1);
        hd_mutex_unlock(&bank->mutex);
    }
    hd_log_note("done");
    return hd_chan_send(bank->done, &bank->rounds);
}

static int run_bank(void *arg)
{
    struct bank *bank = arg;
    hd_task *clerks[4];
    int rounds;
    bank->done = hd_chan_create(sizeof(int), 1);
    EXPECT(bank->done);
    bank->balance = 0;
    bank->mutex = (hd_mutex){0}; /* It remembers how it was used. */
    for (int i = 0; i < 4; i++) clerks[i] = rt_spawn(NULL, clerk, bank);
    for (int i = 0; i < 4; i++) EXPECT_EQ(hd_chan_recv(bank->done, &rounds), 0);
    for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(clerks[i]), 0);
    hd_chan_destroy(bank->done);
    hd_assert(bank->balance == 4 * bank->rounds);
    return 0;
}

/* Both from one place: the site of the first task is an event like others. */
static int run(hd_fn *fn, void *arg, hd_options *options)
{
    options->world = HD_WORLD_SIM;
    return hd_run(fn, arg, options);
}

static int record(const char *path, const char *sampler, uint64_t seed, struct bank *bank)
{
    hd_options options = HD_OPTIONS_INIT;
    options.seed = seed;
    options.sampler = sampler;
    options.record = path;
    return run(run_bank, bank, &options);
}

static int replay(const char *path, struct bank *bank)
{
    hd_options options = HD_OPTIONS_INIT;
    options.seed = 12345; /* The log has another. */
    options.replay = path;
    return run(run_bank, bank, &options);
}

static hd_log *open_log(const char *path)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    return log;
}

static const char *const samplers[] = {NULL, "random", "pct:3", "pos"};
#define SAMPLERS (sizeof(samplers) / sizeof(samplers[0]))

/* ---- recording ---- */

TEST(two_runs_have_the_same_bytes)
{
    static char one[1 << 20], two[1 << 20];
    struct bank bank = {.rounds = 10};
    for (size_t i = 0; i < SAMPLERS; i++) {
        EXPECT_EQ(record(path_of("one"), samplers[i], 7, &bank), 0);
        EXPECT_EQ(record(path_of("two"), samplers[i], 7, &bank), 0);
        const size_t bytes = read_all(path_of("one"), one, sizeof(one));
        EXPECT_EQ(read_all(path_of("two"), two, sizeof(two)), bytes);
        EXPECT(memcmp(one, two, bytes) == 0);
        EXPECT_EQ(record(path_of("two"), samplers[i], 8, &bank), 0);
        hd_log *a = open_log(path_of("one")), *b = open_log(path_of("two"));
        uint64_t at;
        EXPECT_EQ(hd_log_compare(a, b, &at), 2);
        hd_log_close(a);
        hd_log_close(b);
    }
    drop("one");
    drop("two");
    end();
}

TEST(what_a_log_says)
{
    struct bank bank = {.rounds = 10};
    uint64_t kinds[64] = {0}, sequence = 0, step = 0;
    int64_t time_ns = 0;
    EXPECT_EQ(record(path_of("log"), "pct:3:100", 42, &bank), 0);
    hd_log *log = open_log(path_of("log"));
    const hd_log_info *info = hd_log_about(log);
    EXPECT(info->complete && !info->damage);
    EXPECT_EQ(info->seed, 42);
    EXPECT(strcmp(info->sampler, "pct:3:100") == 0);
    EXPECT(strcmp(info->library, hd_version()) == 0);
    EXPECT(strstr(program_invocation_short_name, info->program) == program_invocation_short_name);
    EXPECT(strstr(info->options, "workers=1"));
    hd_log_event event, last = {0};
    while (hd_log_next(log, &event) == 1) {
        EXPECT(event.sequence == sequence + 1 && event.step >= step && event.time_ns >= time_ns);
        sequence = event.sequence;
        step = event.step;
        time_ns = event.time_ns;
        kinds[event.kind % 64]++;
        if (event.kind == HD_LOG_NOTE) EXPECT(strcmp(event.text, "done") == 0);
        last = event;
    }
    EXPECT_EQ(sequence, info->events);
    EXPECT(last.kind == HD_LOG_VERDICT && last.a == HD_VERDICT_NONE);
    EXPECT_EQ(kinds[HD_LOG_SPAWN], 5);
    EXPECT_EQ(kinds[HD_LOG_END], 5);
    EXPECT_EQ(kinds[HD_LOG_NOTE], 4);
    EXPECT(kinds[HD_LOG_STEP] > 80 && kinds[HD_LOG_CHOICE] > 0 && kinds[HD_LOG_WAKE] > 0);
    EXPECT_EQ(kinds[HD_LOG_STEP], step);
    hd_log_close(log);
    drop("log");
    end();
}

TEST(an_event_takes_few_bytes)
{
    struct bank bank = {.rounds = 1000};
    for (size_t i = 0; i < SAMPLERS; i++) {
        EXPECT_EQ(record(path_of("log"), samplers[i], 42, &bank), 0);
        hd_log *log = open_log(path_of("log"));
        const hd_log_info *info = hd_log_about(log);
        EXPECT(info->events > 4000);
        EXPECT((double)info->file_bytes / (double)info->events < 8.0);
        hd_log_close(log);
    }
    drop("log");
    end();
}

/* The time of day is beside the log. */
TEST(the_sidecar)
{
    struct bank bank = {.rounds = 1};
    char text[512] = "";
    EXPECT_EQ(record(path_of("log"), "random", 1, &bank), 0);
    text[read_all(path_of("log.meta"), text, sizeof(text))] = 0;
    int year, events, error = 1;
    EXPECT_EQ(sscanf(text, "{\"started\": \"%d-", &year), 1);
    EXPECT(year > 2000);
    const char *rest = strstr(text, "\"events\": ");
    EXPECT(rest && sscanf(rest, "\"events\": %d", &events) == 1 && events > 0);
    rest = strstr(text, "\"error\": ");
    EXPECT(rest && sscanf(rest, "\"error\": %d}", &error) == 1 && error == 0);
    drop("log");
    end();
}

/* ---- replaying ---- */

TEST(a_replay_takes_the_same_steps)
{
    struct bank bank = {.rounds = 10};
    for (size_t i = 0; i < SAMPLERS; i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            EXPECT_EQ(record(path_of("log"), samplers[i], seed, &bank), 0);
            EXPECT_EQ(replay(path_of("log"), &bank), 0);
        }
    }
    drop("log");
    end();
}

static void replay_odd(void *path)
{
    struct bank bank = {.rounds = 10, .odd = 1};
    EXPECT_EQ(replay(path, &bank), -ENOTRECOVERABLE);
}

TEST(a_replay_of_another_program_says_where_it_differs)
{
    struct bank bank = {.rounds = 10};
    EXPECT_EQ(record(path_of("log"), "random", 3, &bank), 0);
    const struct death death = death_of(replay_odd, (void *)path_of("log"));
    EXPECT_EQ(death.status, 0);
    EXPECT(strstr(death.text, "at step "));
    EXPECT(strstr(death.text, "the log has "));
    EXPECT(!strstr(death.text, "another build")); /* It is this one. */
    drop("log");
    end();
}

static int chance(void *arg)
{
    hd_log_note(arg);
    return 0;
}

/* What a program decides by something else than its input is seen. */
TEST(a_note_is_compared)
{
    hd_options first = HD_OPTIONS_INIT, again = HD_OPTIONS_INIT;
    first.record = again.replay = path_of("log");
    EXPECT_EQ(run(chance, (void *)"one", &first), 0);
    EXPECT_EQ(run(chance, (void *)"one", &again), 0);
    EXPECT_EQ(run(chance, (void *)"two", &again), -ENOTRECOVERABLE);
    hd_log_note("outside of any task, for nobody");
    drop("log");
    end();
}

TEST(files_that_cannot_be_used)
{
    struct bank bank = {.rounds = 1};
    EXPECT_EQ(record("/nowhere/at/all", "random", 1, &bank), -ENOENT);
    EXPECT_EQ(replay("/nowhere/at/all", &bank), -ENOENT);
    EXPECT_EQ(replay("/dev/null", &bank), -EBADMSG);
    EXPECT_EQ(record("/dev/full", "random", 1, &bank), -ENOSPC);
}

/* ---- runs that do not end ---- */

static int killed(void *arg)
{
    (void)arg;
    hd_log_note("the last words");
    return raise(SIGKILL);
}

static void be_killed(void *path)
{
    hd_options options = HD_OPTIONS_INIT;
    options.record = path;
    (void)run(killed, NULL, &options);
}

static uint64_t count_notes(const char *path)
{
    hd_log *log = open_log(path);
    hd_log_event event;
    uint64_t count = 0;
    EXPECT(!hd_log_about(log)->complete && hd_log_about(log)->damage);
    while (hd_log_next(log, &event) == 1) count += event.kind == HD_LOG_NOTE;
    hd_log_close(log);
    return count;
}

/* At most the block under way is lost, and with HEDDLE_LOG_SYNC nothing. */
TEST(who_is_killed_leaves_a_log)
{
    const char *path = path_of("log");
    struct death death = death_of(be_killed, (void *)path);
    EXPECT_EQ(death_signal(&death), SIGKILL);
    EXPECT_EQ(count_notes(path), 0);
    setenv("HEDDLE_LOG_SYNC", "1", 1);
    death = death_of(be_killed, (void *)path);
    EXPECT_EQ(death_signal(&death), SIGKILL);
    EXPECT_EQ(count_notes(path), 1);
    drop("log");
    end();
}

static void fill_the_disk(void *path)
{
    static struct bank bank = {.rounds = 100000};
    const struct rlimit limit = {100000, 100000}; /* within the second block */
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(record(path, "random", 3, &bank), -ENOTRECOVERABLE);
    EXPECT(bank.balance < bank.rounds); /* It did not go on to its end. */
}

TEST(a_disk_that_becomes_full_ends_the_run)
{
    const char *path = path_of("log");
    const struct death death = death_of(fill_the_disk, (void *)path);
    if (death.status != 0 || !strstr(death.text, strerror(EFBIG))) {
        test_fail(__FILE__, __LINE__, "status %d: %s", death.status, death.text);
    }
    hd_log *log = open_log(path);
    const hd_log_info *info = hd_log_about(log);
    EXPECT(!info->complete && info->damage && info->blocks == 1 && info->events > 1000);
    hd_log_close(log);
    drop("log");
    end();
}

static void replay_part(void *path)
{
    struct bank bank = {.rounds = 10};
    EXPECT_EQ(replay(path, &bank), -ENOTRECOVERABLE);
}

/* What was written down is replayed, and where it ends is said. */
TEST(a_log_that_was_cut_is_replayed_as_far_as_it_goes)
{
    struct bank bank = {.rounds = 10};
    const char *path = path_of("log");
    EXPECT_EQ(setenv("HEDDLE_LOG_SYNC", "1", 1), 0);
    EXPECT_EQ(record(path, "random", 3, &bank), 0);
    hd_log *log = open_log(path);
    const uint64_t bytes = hd_log_about(log)->file_bytes;
    hd_log_close(log);
    EXPECT_EQ(truncate(path, (off_t)bytes - 1), 0); /* Nothing but the footer is missing. */
    EXPECT_EQ(replay(path, &bank), 0);
    EXPECT_EQ(truncate(path, (off_t)bytes / 2), 0);
    const struct death death = death_of(replay_part, (void *)path);
    EXPECT_EQ(death.status, 0);
    EXPECT(strstr(death.text, "the log was cut here"));
    drop("log");
    end();
}
