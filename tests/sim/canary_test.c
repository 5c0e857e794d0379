/* SPDX-License-Identifier: MIT
 *
 * Canaries for the determinism check: programs that are not deterministic, each for one
 * well-known reason, must give different digests for one seed. Were they all equal, the
 * check (tests/determinism) would prove nothing.
 *
 * What differs only between processes is seen by running this program again. The event log then
 * says where: each fiber notes what it has decided, and the first difference is such a note. Which
 * kind of fault it is says `scripts/determinism --diagnose`, whose tests run the canaries too.
 */
#include "test.h"

#include <inttypes.h>
#include <sys/personality.h>
#include <time.h>

#include "base/sanitizer.h"

enum { FIBERS = 4, RUNS = 20 };

/* How often a fiber yields: all that the canaries decide. */
typedef unsigned decide_fn(unsigned index);

struct fiber {
    decide_fn *decide;
    unsigned index;
};

static int deciding_fiber(void *arg)
{
    const struct fiber *self = arg;
    const unsigned yields = self->decide(self->index) % 16;
    char text[32];
    snprintf(text, sizeof(text), "fiber %u yields %u times", self->index, yields);
    hd_log_note(text);
    for (unsigned i = yields; i > 0; i--) hd_yield();
    return 0;
}

/* The same as a program of its own. */
static int decide_all(void *arg)
{
    struct fiber fibers[FIBERS];
    hd_task *tasks[FIBERS];
    for (unsigned i = 0; i < FIBERS; i++) {
        fibers[i] = (struct fiber){*(decide_fn *const *)arg, i};
        EXPECT_EQ(hd_spawn(&tasks[i], deciding_fiber, &fibers[i]), 0);
    }
    for (unsigned i = 0; i < FIBERS; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    return 0;
}

static uint64_t digest_of(decide_fn *decide)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = 7;
    hd_runtime *runtime;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), 0);
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = runtime;
    struct fiber fibers[FIBERS];
    for (unsigned i = 0; i < FIBERS; i++) {
        fibers[i] = (struct fiber){decide, i};
        EXPECT_EQ(hd_spawn_with(NULL, deciding_fiber, &fibers[i], &into), 0);
    }
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

/* ---- in one process ---- */

static bool differs_within_process(decide_fn *decide)
{
    const uint64_t first = digest_of(decide);
    for (int i = 1; i < RUNS; i++) {
        if (digest_of(decide) != first) return true;
    }
    return false;
}

static unsigned by_index(unsigned index)
{
    return 3 * index + 1;
}

TEST(a_sound_program_does_not_differ)
{
    EXPECT(!differs_within_process(by_index));
}

static unsigned by_virtual_clock(unsigned index)
{
    return (unsigned)(hd_now(NULL) / 1000) + index;
}

TEST(virtual_time_does_not_differ)
{
    EXPECT(!differs_within_process(by_virtual_clock));
}

static unsigned by_real_clock(unsigned index)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)(now.tv_nsec / 64) + index;
}

TEST(the_real_clock_differs)
{
    EXPECT(differs_within_process(by_real_clock));
}

static unsigned by_static_state(unsigned index)
{
    static unsigned calls;
    return calls++ + index;
}

TEST(static_state_that_survives_differs)
{
    EXPECT(differs_within_process(by_static_state));
}

static hd_explore_result explore(decide_fn *decide, bool fork)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.sampler = "all:1";
    options.schedules = 100;
    options.fork = fork;
    EXPECT_EQ(hd_explore(decide_all, &decide, &options, &result), 0);
    return result;
}

TEST(static_state_is_a_divergence_to_the_explorer)
{
    EXPECT_EQ(explore(by_index, false).verdict, HD_VERDICT_NONE);
    const hd_explore_result result = explore(by_static_state, false);
    EXPECT_EQ(result.verdict, HD_VERDICT_DIVERGED);
    EXPECT(strstr(result.message, "outlives the run"));
}

TEST(static_state_is_harmless_to_processes_of_their_own)
{
    EXPECT_EQ(explore(by_static_state, true).verdict, HD_VERDICT_NONE);
}

TEST(the_real_clock_is_a_divergence_in_any_process)
{
    EXPECT_EQ(explore(by_real_clock, false).verdict, HD_VERDICT_DIVERGED);
    EXPECT_EQ(explore(by_real_clock, true).verdict, HD_VERDICT_DIVERGED);
}

/* ---- between processes ---- */

static unsigned spread(uintptr_t bits)
{
    return (unsigned)((bits >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static unsigned by_heap_address(unsigned index)
{
    void *memory = malloc(100);
    const unsigned choice = spread((uintptr_t)memory);
    free(memory);
    return choice + index;
}

static unsigned by_code_address(unsigned index)
{
    return spread((uintptr_t)&by_index >> 8) + index;
}

static unsigned by_task_address(unsigned index)
{
    const hd_waker waker = hd_waker_self();
    const unsigned choice = spread((uintptr_t)waker.task >> 8);
    hd_waker_drop(waker);
    return choice + index;
}

/* Tasks kept in a table by the hash of their address: the order of a walk over it. */
static unsigned by_pointer_keyed_order(unsigned index)
{
    static char objects[FIBERS * 64];
    unsigned rank = 0;
    for (unsigned i = 0; i < FIBERS; i++) {
        rank += spread((uintptr_t)&objects[i * 64]) % 1024 <
                spread((uintptr_t)&objects[index * 64]) % 1024;
    }
    return rank;
}

/* Left over from whoever had the memory before: here a heap's own link, an address. */
static unsigned by_uninitialised_memory(unsigned index)
{
    void *volatile blocks[3];
    for (int i = 0; i < 3; i++) blocks[i] = malloc(200);
    for (int i = 0; i < 3; i++) free(blocks[i]);
    volatile uintptr_t *again = malloc(200);
    EXPECT(again != NULL);
    const unsigned choice = spread(again[0]); /* NOLINT: that is the fault planted here */
    free((void *)again);
    return choice + index;
}

/* The bytes between its fields are nobody's. */
static unsigned by_hash_of_padding(unsigned index)
{
    struct padded {
        char small;
        long large;
    };
    struct padded *padded = malloc(sizeof(*padded));
    EXPECT(padded != NULL);
    padded->small = 1;
    padded->large = 2;
    unsigned hash = 0;
    const volatile unsigned char *bytes = (const volatile unsigned char *)padded;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): that is the fault. */
    for (size_t i = 0; i < sizeof(*padded); i++) hash = hash * 31 + bytes[i];
    free(padded);
    return spread(hash) + index;
}

static const struct {
    const char *name;
    decide_fn *decide;
} canaries[] = {
    {"sound", by_index},
    {"clock", by_real_clock},
    {"static", by_static_state},
    {"padding", by_hash_of_padding},
    {"heap", by_heap_address},
    {"code", by_code_address},
    {"task", by_task_address},
    {"keyed", by_pointer_keyed_order},
    {"uninitialised", by_uninitialised_memory},
};

/* The one in the environment. */
static decide_fn *canary(void)
{
    const char *name = getenv("CANARY");
    if (!name) name = "sound";
    for (size_t i = 0; i < sizeof(canaries) / sizeof(canaries[0]); i++) {
        if (strcmp(name, canaries[i].name) == 0) return canaries[i].decide;
    }
    test_fail(__FILE__, __LINE__, "%s is no canary", name);
}

/* What the others run in another process: prints the digest of CANARY. */
TEST(digest_for_another_process)
{
    printf("# digest %016" PRIx64 "\n", digest_of(canary()));
}

/* The same, in whatever world the environment says. */
TEST(run_for_another_process)
{
    decide_fn *decide = canary();
    const int err = hd_run(decide_all, &decide, NULL);
    EXPECT(err == 0 || err == -ENOTRECOVERABLE);
}

static void need_processes(void)
{
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("/proc names the emulator");
}

static FILE *open_process(const char *test)
{
    char command[256];
    snprintf(command, sizeof(command), "/proc/%d/exe %s", (int)getpid(), test);
    fflush(NULL);
    return popen(command, "re");
}

static uint64_t digest_of_process(void)
{
    char line[128];
    FILE *pipe = open_process("digest_for_another_process");
    EXPECT(pipe != NULL);
    uint64_t digest = 0;
    unsigned found = 0;
    while (fgets(line, sizeof(line), pipe)) {
        if (sscanf(line, "# digest %" SCNx64, &digest) == 1) found++;
    }
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(found, 1);
    return digest;
}

static bool differs_between_processes(const char *canary)
{
    need_processes();
    EXPECT_EQ(setenv("CANARY", canary, 1), 0);
    const uint64_t first = digest_of_process();
    for (int i = 1; i < RUNS; i++) {
        if (digest_of_process() != first) return true;
    }
    return false;
}

/* Address randomisation may have been turned off for us, as for ThreadSanitizer. */
static void need_random_addresses(void)
{
    if (HDI_TSAN || getenv("HEDDLE_TEST_EMULATED")) test_skip("addresses are fixed here");
    const int now = personality(0xffffffff);
    if (now & ADDR_NO_RANDOMIZE) EXPECT(personality((unsigned long)now & ~ADDR_NO_RANDOMIZE) >= 0);
    FILE *file = fopen("/proc/sys/kernel/randomize_va_space", "re");
    if (!file) return;
    const int mode = getc(file);
    fclose(file);
    if (mode == '0') test_skip("this kernel does not randomise addresses");
}

TEST(a_sound_program_does_not_differ_between_processes)
{
    EXPECT(!differs_between_processes("sound"));
}

TEST(heap_addresses_differ)
{
    need_random_addresses();
    if (HDI_ASAN) test_skip("the sanitizer's heap has a fixed place");
    EXPECT(differs_between_processes("heap"));
}

TEST(code_addresses_differ)
{
    need_random_addresses();
    EXPECT(differs_between_processes("code"));
}

TEST(task_addresses_differ)
{
    need_random_addresses();
    EXPECT(differs_between_processes("task"));
}

TEST(pointer_keyed_order_differs)
{
    need_random_addresses();
    EXPECT(differs_between_processes("keyed"));
}

TEST(uninitialised_memory_differs)
{
    need_random_addresses();
    if (HDI_ASAN) test_skip("the sanitizer fills fresh memory");
    EXPECT(differs_between_processes("uninitialised"));
}

/* ---- where it differs ---- */

static void log_of_process(const char *path)
{
    EXPECT_EQ(setenv("HEDDLE_SEED", "7", 1), 0);
    EXPECT_EQ(setenv("HEDDLE_LOG", path, 1), 0);
    FILE *pipe = open_process("run_for_another_process");
    EXPECT(pipe != NULL);
    while (getc(pipe) != EOF) continue;
    EXPECT_EQ(pclose(pipe), 0);
}

/* Whether they differ, which is first seen in what a fiber has decided. */
static bool compare(const char *first, const char *second)
{
    hd_log *a, *b;
    hd_log_event event;
    uint64_t sequence;
    EXPECT_EQ(hd_log_open(&a, first), 0);
    EXPECT_EQ(hd_log_open(&b, second), 0);
    const int err = hd_log_compare(a, b, &sequence);
    EXPECT(err == 0 || err == 1);
    if (err) {
        EXPECT_EQ(hd_log_seek(b, sequence), 0);
        EXPECT_EQ(hd_log_next(b, &event), 1);
        EXPECT_EQ(event.kind, HD_LOG_NOTE);
        fprintf(stderr, "# event %llu: %s\n", (unsigned long long)sequence, event.text);
        EXPECT(strstr(event.text, "yields"));
    }
    hd_log_close(a);
    hd_log_close(b);
    return err;
}

static bool logs_differ(const char *name)
{
    char dir[] = "/tmp/heddle-canary-XXXXXX", paths[2][64], meta[2][64];
    bool differ = false;
    need_processes();
    EXPECT(mkdtemp(dir));
    EXPECT_EQ(setenv("CANARY", name, 1), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%d", dir, i);
        snprintf(meta[i], sizeof(meta[i]), "%s/%d.meta", dir, i);
    }
    log_of_process(paths[0]);
    for (int i = 1; i < RUNS && !differ; i++) {
        log_of_process(paths[1]);
        differ = compare(paths[0], paths[1]);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(unlink(paths[i]), 0);
        EXPECT_EQ(unlink(meta[i]), 0);
    }
    EXPECT_EQ(rmdir(dir), 0);
    return differ;
}

TEST(logs_of_a_sound_program_do_not_differ)
{
    EXPECT(!logs_differ("sound"));
    EXPECT(!logs_differ("static"));
}

TEST(logs_part_where_the_clock_was_read)
{
    EXPECT(logs_differ("clock"));
}

TEST(logs_part_where_an_address_decided)
{
    need_random_addresses();
    EXPECT(logs_differ("keyed"));
    EXPECT(logs_differ("task"));
}

TEST_MAIN
