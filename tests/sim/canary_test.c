/* SPDX-License-Identifier: MIT
 *
 * Canaries for the determinism check: programs that are not deterministic, each for one
 * well-known reason, must give different digests for one seed. Were they all equal, the
 * check (tests/determinism) would prove nothing.
 *
 * What differs only between processes is seen by running this program again.
 */
#include "test.h"

#include <inttypes.h>
#include <sys/personality.h>
#include <time.h>

#include "ctx/sanitizer.h"

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
    for (unsigned i = self->decide(self->index) % 16; i > 0; i--) hd_yield();
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

static const struct {
    const char *name;
    decide_fn *decide;
} canaries[] = {
    {"sound", by_index},
    {"heap", by_heap_address},
    {"code", by_code_address},
    {"task", by_task_address},
    {"keyed", by_pointer_keyed_order},
    {"uninitialised", by_uninitialised_memory},
};

/* What the others run in another process: prints the digest of CANARY. */
TEST(digest_for_another_process)
{
    const char *name = getenv("CANARY");
    if (!name) name = "sound";
    for (size_t i = 0; i < sizeof(canaries) / sizeof(canaries[0]); i++) {
        if (strcmp(name, canaries[i].name) == 0) {
            printf("# digest %016" PRIx64 "\n", digest_of(canaries[i].decide));
            return;
        }
    }
    EXPECT(!"a known canary");
}

static uint64_t digest_of_process(void)
{
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("/proc names the emulator");
    char command[256], line[128];
    snprintf(command, sizeof(command), "/proc/%d/exe digest_for_another_process", (int)getpid());
    FILE *pipe = popen(command, "re");
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

TEST_MAIN
