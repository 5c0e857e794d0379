/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <signal.h>
#include <stdarg.h>

#define EXIT_SKIP 77

static int env_int(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    fprintf(stderr, "# %s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

void test_skip(const char *why)
{
    fprintf(stderr, "# skip: %s\n", why);
    fflush(NULL);
    _exit(EXIT_SKIP);
}

static int run_child(const struct test *test, const hd_options *options)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm((unsigned)env_int("HEDDLE_TEST_TIMEOUT", 120));
        test->run(options);
        fflush(NULL);
        exit(0); /* not _exit: the leak checker runs at exit */
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static const char *describe(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status)) {
        const int sig = WTERMSIG(status);
        snprintf(text, size, "%s", sig == SIGALRM ? "timed out" : strsignal(sig));
    } else {
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
    }
    return text;
}

static bool passed(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether the kernel has io_uring for us: a runtime that is to use it can wait for a pipe. */
static int try_uring(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    int err = hd_pipe(ends);
    if (!err) err = (int)hd_read_until(ends[0], &byte, 1, hd_now(NULL) + 1);
    return err == -ETIMEDOUT ? 0 : EXIT_SKIP;
}

static void probe_uring(const hd_options *options)
{
    exit(hd_run(try_uring, NULL, options));
}

/* What is set in the environment would win over the test. */
static int run_live(const struct test *test)
{
    hd_options live = HD_OPTIONS_INIT;
    live.world = HD_WORLD_LIVE;
    if (test->runs == TEST_IN_WORLDS) return run_child(test, &live);
    static const struct test probe = {.name = "probe", .run = probe_uring};
    unsetenv("HEDDLE_IO");
    live.io = HD_IO_EPOLL;
    int status = run_child(test, &live);
    if (!passed(status)) {
        printf("# in live, by epoll\n");
        return status;
    }
    live.io = HD_IO_URING;
    if (!passed(run_child(&probe, &live))) {
        printf("# %s: not by io_uring, which this kernel does not have\n", test->name);
        return status;
    }
    status = run_child(test, &live);
    if (!passed(status)) printf("# in live, by io_uring\n");
    return status;
}

/* Every other seed has points, so that fibers also give way before each call: the library under its
 * own explorer. */
static const char *sampler_of(uint64_t seed)
{
    static const char *const samplers[] = {"random", "pct:3", "pos", "urw", "cohort"};
    const char *given = getenv("HEDDLE_TEST_SAMPLER");
    if (given) return given[0] ? given : NULL;
    return seed % 2 ? NULL : samplers[seed / 2 % (sizeof(samplers) / sizeof(samplers[0]))];
}

static int run_sim(const struct test *test)
{
    int status = 0;
    const int seeds = env_int("HEDDLE_TEST_SEEDS", 20);
    for (int seed = 1; seed <= seeds && passed(status); seed++) {
        hd_options sim = HD_OPTIONS_INIT;
        sim.world = HD_WORLD_SIM;
        sim.seed = (uint64_t)env_int("HEDDLE_SEED", seed);
        sim.sampler = sampler_of(sim.seed);
        status = run_child(test, &sim);
        if (!passed(status)) {
            printf("# in sim; repeat with: HEDDLE_SEED=%llu HEDDLE_TEST_SAMPLER=%s %s %s\n",
                   (unsigned long long)sim.seed, sim.sampler ? sim.sampler : "",
                   program_invocation_name, test->name);
        }
        if (getenv("HEDDLE_SEED")) break;
    }
    return status;
}

static int run_test(const struct test *test)
{
    if (test->runs == TEST_ONCE) return run_child(test, NULL);
    const int status = run_live(test);
    return passed(status) && test->runs != TEST_BY_DRIVERS ? run_sim(test) : status;
}

static bool wanted(const struct test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], test->name) == 0) return true;
    }
    return argc < 2;
}

int test_main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    int number = 0, failed = 0;
    for (const struct test *test = test_first; test; test = test->next) {
        if (list) puts(test->name);
        if (list || !wanted(test, argc, argv)) continue;
        const int status = run_test(test);
        number++;
        char text[64];
        if (passed(status)) {
            printf("ok %d %s\n", number, test->name);
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
            printf("ok %d %s # SKIP\n", number, test->name);
        } else {
            failed++;
            printf("not ok %d %s - %s\n", number, test->name, describe(status, text, sizeof(text)));
        }
    }
    if (list) return 0;
    if (number == 0) {
        fprintf(stderr, "no such test; --list shows what there is\n");
        return 2;
    }
    printf("1..%d\n", number);
    return failed ? 1 : 0;
}
