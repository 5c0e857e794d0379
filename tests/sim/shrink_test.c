/* SPDX-License-Identifier: MIT
 *
 * Failures that are made small: few preemptions, few faults, and the same failure when replayed.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/sanitizer.h"
#include "rt.h"

TEST_MAIN

/* ---- logs ---- */

static char from[64], to[72];

static void begin(void)
{
    snprintf(from, sizeof(from), "/tmp/heddle-shrink-%d", (int)getpid());
    snprintf(to, sizeof(to), "%s.min", from);
}

static void end(void)
{
    char meta[96];
    const char *const logs[] = {from, to};
    for (int i = 0; i < 2; i++) {
        snprintf(meta, sizeof(meta), "%s.meta", logs[i]);
        (void)unlink(meta);
        (void)unlink(logs[i]); /* Some tests have only one. */
    }
}

struct size {
    unsigned switches, faults, steps;
    hd_verdict verdict;
};

static struct size size_of(const char *path)
{
    struct size size = {0};
    hd_log *log = NULL;
    hd_log_event event;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    while (hd_log_next(log, &event) == 1) {
        size.switches += event.kind == HD_LOG_CHOICE && event.b;
        size.faults += event.kind == HD_LOG_FAULT;
        size.steps += event.kind == HD_LOG_STEP;
        if (event.kind == HD_LOG_VERDICT) size.verdict = (hd_verdict)event.a;
    }
    hd_log_close(log);
    return size;
}

/* A failing schedule leaves its tasks behind, which AddressSanitizer would call a leak. */
static hd_explore_options options_of(const char *sampler)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    options.sampler = sampler;
    options.fork = HDI_ASAN;
    return options;
}

static void find_it(hd_fn *fn, void *arg, hd_explore_options options, hd_verdict verdict)
{
    hd_explore_result result;
    options.log = from;
    EXPECT_EQ(hd_explore(fn, arg, &options, &result), 0);
    EXPECT_EQ(result.verdict, verdict);
}

/* What hd_run() says when it replays, in a process of its own. */
static int replay(hd_fn *fn, const char *path)
{
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        hd_options options = HD_OPTIONS_INIT;
        options.replay = path;
        options.world = HD_WORLD_SIM;
        _exit(hd_run(fn, NULL, &options) == -ENOTRECOVERABLE ? 1 : 0);
    }
    int status;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- preemptions ---- */

enum { CLERKS = 4 };

static int balance;
static bool is_right, is_fatal;

static int pay_in(void *arg)
{
    (void)arg;
    hd_race_point();
    if (is_right) {
        hd_atomic_add(&balance, 1);
    } else {
        const int seen = hd_atomic_load(&balance);
        hd_atomic_store(&balance, seen + 1);
    }
    hd_race_point();
    return 0;
}

static int bank(void *arg)
{
    (void)arg;
    hd_task *clerks[CLERKS];
    balance = 0;
    for (int i = 0; i < CLERKS; i++) clerks[i] = rt_spawn(NULL, pay_in, NULL);
    for (int i = 0; i < CLERKS; i++) rt_join(clerks[i]);
    if (is_fatal && balance != CLERKS) raise(SIGKILL);
    hd_assert(balance == CLERKS);
    return 0;
}

TEST(one_preemption_is_enough)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(bank, NULL, options, HD_VERDICT_ASSERT);
    const int runs = hd_shrink(bank, NULL, &options, from, to, 0);
    EXPECT(runs > 2 && runs <= 200);
    const struct size was = size_of(from), is = size_of(to);
    EXPECT(was.switches > 1);
    EXPECT_EQ(is.switches, 1);
    EXPECT_EQ(is.verdict, HD_VERDICT_ASSERT);
    end();
}

TEST(the_small_one_replays)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(bank, NULL, options, HD_VERDICT_ASSERT);
    EXPECT(hd_shrink(bank, NULL, &options, from, to, 0) > 0);
    EXPECT_EQ(replay(bank, to), 1);
    /* And can be made smaller by nobody. */
    const struct size small = size_of(to);
    EXPECT(hd_shrink(bank, NULL, &options, to, from, 0) > 0);
    EXPECT_EQ(size_of(from).switches, small.switches);
    end();
}

TEST(runs_are_counted)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(bank, NULL, options, HD_VERDICT_ASSERT);
    EXPECT_EQ(hd_shrink(bank, NULL, &options, from, to, 1), 2);
    EXPECT_EQ(size_of(to).switches, size_of(from).switches); /* as it was */
    EXPECT_EQ(hd_shrink(bank, NULL, &options, from, to, 5), 5);
    EXPECT(size_of(to).switches <= size_of(from).switches);
    end();
}

TEST(a_crash_becomes_small)
{
    hd_explore_options options = options_of("random");
    options.fork = true;
    is_fatal = true;
    begin();
    find_it(bank, NULL, options, HD_VERDICT_CRASH);
    options.fork = false; /* The log says that it must be. */
    EXPECT(hd_shrink(bank, NULL, &options, from, to, 0) > 0);
    EXPECT(size_of(from).switches > 1);
    EXPECT_EQ(size_of(to).switches, 1);
    end();
}

/* ---- deadlocks that nobody has to be preempted for ---- */

static hd_mutex one, two;

static int lock_both(void *arg)
{
    hd_mutex *first = arg ? &one : &two, *second = arg ? &two : &one;
    EXPECT_EQ(hd_mutex_lock(first), 0);
    hd_sleep_ms(1);
    EXPECT_EQ(hd_mutex_lock(second), 0);
    hd_mutex_unlock(second);
    hd_mutex_unlock(first);
    return 0;
}

static int cross(void *arg)
{
    (void)arg;
    hd_mutex_init(&one);
    hd_mutex_init(&two);
    hd_task *a = rt_spawn(NULL, lock_both, NULL), *b = rt_spawn(NULL, lock_both, &one);
    rt_join(a);
    rt_join(b);
    return 0;
}

TEST(none_may_be_enough)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(cross, NULL, options, HD_VERDICT_DEADLOCK);
    EXPECT(hd_shrink(cross, NULL, &options, from, to, 0) > 0);
    const struct size is = size_of(to);
    EXPECT_EQ(is.switches, 0);
    EXPECT_EQ(is.verdict, HD_VERDICT_DEADLOCK);
    end();
}

/* ---- faults ---- */

enum { READS = 20, FAILURES = 3 };

/* Fails if enough reads do. */
static int read_often(void *arg)
{
    (void)arg;
    hd_io file;
    char byte = 'x';
    int failures = 0;
    hd_sim_disk_options disk = HD_SIM_DISK_OPTIONS_INIT;
    EXPECT_EQ(hd_file_open(&file, "/file", O_RDWR | O_CREAT, 0644), 0);
    EXPECT_EQ(hd_pwrite(file, &byte, 1, 0), 1);
    disk.read_ppm = HD_SIM_ALWAYS / 2;
    EXPECT_EQ(hd_sim_disk(NULL, &disk), 0);
    for (int i = 0; i < READS; i++) failures += hd_pread(file, &byte, 1, 0) != 1;
    EXPECT_EQ(hd_close(file), 0);
    hd_assert(failures < FAILURES);
    return 0;
}

TEST(faults_that_are_not_needed_do_not_happen)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(read_often, NULL, options, HD_VERDICT_ASSERT);
    EXPECT(size_of(from).faults > FAILURES);
    EXPECT(hd_shrink(read_often, NULL, &options, from, to, 0) > 0);
    EXPECT_EQ(size_of(to).faults, FAILURES);
    EXPECT_EQ(replay(read_often, to), 1);
    end();
}

enum { DATAGRAMS = 20, LOST = 2 };

/* Fails if enough datagrams are lost; that some come late or twice does not matter. */
static int send_often(void *arg)
{
    (void)arg;
    hd_io sender, receiver;
    hd_addr addr;
    hd_sim_link_options link = HD_SIM_LINK_OPTIONS_INIT;
    bool arrived[DATAGRAMS] = {false};
    int missing = 0;
    link.loss_ppm = link.duplicate_ppm = link.reorder_ppm = HD_SIM_ALWAYS / 4;
    EXPECT_EQ(hd_udp_open(&receiver, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_udp_open(&sender, "127.0.0.1:0"), 0);
    EXPECT_EQ(hd_local_addr(receiver, &addr), 0);
    EXPECT_EQ(hd_sim_link(NULL, NULL, &link), 0);
    unsigned char got;
    for (int i = 0; i < DATAGRAMS; i++) {
        const unsigned char number = (unsigned char)i;
        EXPECT_EQ(hd_send_to(sender, &number, 1, &addr), 1);
    }
    while (hd_recv_from_until(receiver, &got, 1, NULL, hd_after_ms(1000)) == 1) arrived[got] = true;
    for (int i = 0; i < DATAGRAMS; i++) missing += !arrived[i];
    EXPECT_EQ(hd_close(sender), 0);
    EXPECT_EQ(hd_close(receiver), 0);
    hd_assert(missing < LOST);
    return 0;
}

TEST(nor_those_of_the_network)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(send_often, NULL, options, HD_VERDICT_ASSERT);
    EXPECT(size_of(from).faults > LOST);
    EXPECT(hd_shrink(send_often, NULL, &options, from, to, 0) > 0);
    EXPECT_EQ(size_of(to).faults, LOST);
    EXPECT_EQ(replay(send_often, to), 1);
    end();
}

/* ---- what cannot be made small ---- */

TEST(another_program_is_told)
{
    const hd_explore_options options = options_of("random");
    begin();
    find_it(bank, NULL, options, HD_VERDICT_ASSERT);
    is_right = true;
    EXPECT_EQ(hd_shrink(bank, NULL, &options, from, to, 0), -EPROTO);
    EXPECT(access(to, F_OK) != 0);
    end();
}

TEST(what_did_not_fail_is_refused)
{
    hd_options options = HD_OPTIONS_INIT;
    begin();
    options.world = HD_WORLD_SIM;
    options.record = from;
    is_right = true;
    EXPECT_EQ(hd_run(bank, NULL, &options), 0);
    EXPECT_EQ(hd_shrink(bank, NULL, NULL, from, to, 0), -EINVAL);
    EXPECT_EQ(hd_shrink(bank, NULL, NULL, to, from, 0), -ENOENT);
    EXPECT_EQ(hd_shrink(NULL, NULL, NULL, from, to, 0), -EINVAL);
    end();
}
