/* SPDX-License-Identifier: MIT
 *
 * HD_SAVE_FP: a fiber's own rounding mode, which others do not see.
 */
#include "rt.h"

TEST_MAIN

/* The control word, without libm: 0 is rounding to nearest. */
#if defined(__x86_64__)
static unsigned rounding(void)
{
    unsigned word;
    __asm__ volatile("stmxcsr %0" : "=m"(word));
    return word >> 13 & 3;
}

static void set_rounding(unsigned mode)
{
    unsigned word;
    __asm__ volatile("stmxcsr %0" : "=m"(word));
    word = (word & ~(3u << 13)) | mode << 13;
    __asm__ volatile("ldmxcsr %0" : : "m"(word));
}
#else
static unsigned rounding(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word >> 22 & 3;
}

static void set_rounding(unsigned mode)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    word = (word & ~(UINT64_C(3) << 22)) | (uint64_t)mode << 22;
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
}
#endif

static int keep_mode(void *arg)
{
    const unsigned mode = *(unsigned *)arg;
    EXPECT_EQ(rounding(), 0); /* not a neighbour's */
    set_rounding(mode);
    for (int i = 0; i < 20; i++) {
        hd_yield();
        EXPECT_EQ(rounding(), mode);
    }
    hd_waker_wake(hd_waker_self());
    EXPECT_EQ(hd_park(), 0);
    EXPECT_EQ(rounding(), mode);
    return 0; /* leaves its mode behind for nobody */
}

static int see_nothing(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(rounding(), 0);
        hd_yield();
    }
    return 0;
}

static hd_poll see_nothing_poll(void *state, int *result)
{
    *result = 0;
    EXPECT_EQ(rounding(), 0);
    if (++*(int *)state == 20) return HD_READY;
    hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

TEST_WORLDS(a_fiber_that_saves_it_keeps_its_mode_to_itself, options)
{
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        const hd_options own = rt_workers(options, workers);
        hd_runtime *runtime = rt_create(&own);
        static unsigned modes[] = {0, 1, 2, 3};
        hd_task *tasks[16];
        hd_spawn_options saving = {.size = sizeof(saving), .runtime = runtime};
        saving.flags = HD_SAVE_FP;
        for (int i = 0; i < 16; i += 4) {
            EXPECT_EQ(hd_spawn_with(&tasks[i], keep_mode, &modes[i / 4], &saving), 0);
            tasks[i + 1] = rt_spawn(runtime, see_nothing, NULL);
            tasks[i + 2] = rt_spawn_poll(runtime, see_nothing_poll, NULL, sizeof(int));
            EXPECT_EQ(hd_spawn_with(&tasks[i + 3], keep_mode, &modes[3 - i / 4], &saving), 0);
        }
        for (int i = 0; i < 16; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
        EXPECT_EQ(rounding(), 0);
        hd_runtime_destroy(runtime);
    }
}
