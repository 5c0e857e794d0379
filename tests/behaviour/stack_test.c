/* SPDX-License-Identifier: MIT
 *
 * A fiber's stack: its size, its limit, and what is said when it overflows.
 */
#include "rt.h"

#include "death.h"

TEST_MAIN

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Use the stack until the frame is this far below `top`. Frame addresses, since a
 * sanitizer may keep locals elsewhere. */
static __attribute__((noinline)) size_t dig(const char *top, size_t bytes)
{
    volatile char frame[200];
    frame[0] = frame[199] = 1;
    /* All of it, or a compiler keeps two bytes: ThreadSanitizer follows 65,536 calls, no more. */
    __asm__ volatile("" : : "r"(frame) : "memory");
    const size_t used = (size_t)(top - (const char *)__builtin_frame_address(0));
    const size_t deepest = used < bytes ? dig(top, bytes) : used;
    return deepest + (frame[0] - frame[199]);
}

struct use {
    size_t bytes;
};

static int use_stack(void *arg)
{
    const struct use *use = arg;
    EXPECT(dig(__builtin_frame_address(0), use->bytes) >= use->bytes);
    hd_yield();
    return 0;
}

/* ---- sizes ---- */

static const size_t sizes[] = {16 * KIB, 17 * KIB, 64 * KIB, 100 * KIB, MIB, 3 * MIB, 64 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

TEST_WORLDS(a_fiber_can_use_the_stack_it_asked_for, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[SIZES];
    struct use uses[SIZES];
    for (int i = 0; i < SIZES; i++) {
        /* Some is the library's and the caller's; sanitizers make frames larger. */
        uses[i].bytes = (sizes[i] - 6 * KIB < 8 * MIB) ? sizes[i] - 6 * KIB : 8 * MIB;
        hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime};
        spawn.stack_bytes = sizes[i];
        EXPECT_EQ(hd_spawn_with(&tasks[i], use_stack, &uses[i], &spawn), 0);
    }
    for (int i = 0; i < SIZES; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(the_runtimes_size_is_the_default, options)
{
    hd_options own = *options;
    own.stack_bytes = 512 * KIB;
    struct use use = {500 * KIB};
    rt_run(use_stack, &use, &own);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST_WORLDS(sizes_out_of_range_are_refused, options)
{
    static const size_t bad[] = {1, 16 * KIB - 1, 1024 * MIB + 1, SIZE_MAX};
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 4; i++) {
        hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime};
        spawn.stack_bytes = bad[i];
        hd_task *task = NULL;
        EXPECT_EQ(hd_spawn_with(&task, nothing, NULL, &spawn), -EINVAL);
        EXPECT(task == NULL);
    }
    hd_runtime_destroy(runtime);
}

/* ---- high water ---- */

static int measure(void *arg)
{
    const struct use *use = arg;
    const size_t before = hd_stack_high_water();
    EXPECT(before > 0);
    (void)dig(__builtin_frame_address(0), use->bytes);
    const size_t after = hd_stack_high_water();
    EXPECT(after >= use->bytes && after > before);
    EXPECT(after <= use->bytes + 24 * KIB);
    hd_yield();
    EXPECT(hd_stack_high_water() >= after); /* it does not go back */
    return 0;
}

static hd_poll measure_poll(void *state, int *result)
{
    (void)state;
    *result = (int)hd_stack_high_water();
    return HD_READY;
}

TEST_WORLDS(the_high_water_mark_grows_with_use, options)
{
    EXPECT_EQ(hd_stack_high_water(), 0);
    hd_runtime *runtime = rt_create(options);
    hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime};
    spawn.stack_bytes = 256 * KIB;
    struct use use = {100 * KIB};
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, measure, &use, &spawn), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, measure_poll, NULL, 0)), 0);
    hd_runtime_destroy(runtime);
}

/* ---- guards ---- */

TEST_WORLDS(every_kind_of_guard_runs_fibers, options)
{
    for (int guard = HD_GUARD_AUTO; guard <= HD_GUARD_CANARY; guard++) {
        hd_options own = *options;
        own.guard = (hd_guard)guard;
        hd_runtime *runtime;
        const int err = hd_runtime_create(&runtime, &own);
        if (guard == HD_GUARD_MADVISE && err == -ENOTSUP) continue; /* an older kernel */
        EXPECT_EQ(err, 0);
        struct use use = {50 * KIB};
        hd_task *tasks[40];
        for (int i = 0; i < 40; i++) tasks[i] = rt_spawn(runtime, use_stack, &use);
        for (int i = 0; i < 40; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
        hd_runtime_destroy(runtime);
    }
}

/* ---- overflow ---- */

static const hd_site here = {"deep/recursion.c", 512, "dig_too_deep"};

struct overflow {
    hd_options options;
    size_t bytes; /* of stack used; the fiber has 64 KiB */
    bool yields;
};

static int overflow_fiber(void *arg)
{
    const struct overflow *overflow = arg;
    (void)dig(__builtin_frame_address(0), overflow->bytes);
    if (overflow->yields) {
        hd_yield();
        _exit(3); /* the switch should have found it */
    }
    return 0;
}

static int spawn_overflow(void *arg)
{
    hd_spawn_options spawn = {.size = sizeof(spawn), .name = "digger", .site = &here};
    spawn.stack_bytes = 64 * KIB;
    for (int i = 0; i < 5; i++) EXPECT_EQ(rt_join(rt_spawn(NULL, nothing, NULL)), 0);
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, overflow_fiber, arg, &spawn), 0);
    fprintf(stderr, "fiber %llu\n", (unsigned long long)hd_task_id(task));
    return rt_join(task);
}

static void overflow_in_run(void *arg)
{
    struct overflow *overflow = arg;
    (void)hd_run(spawn_overflow, overflow, &overflow->options);
}

static void overflow_in_runtime(void *arg)
{
    struct overflow *overflow = arg;
    hd_runtime *runtime = rt_create(&overflow->options);
    (void)rt_join(rt_spawn(runtime, spawn_overflow, overflow));
    hd_runtime_destroy(runtime);
}

static void expect_report(const struct death *death)
{
    unsigned long long id = 0;
    EXPECT_EQ(sscanf(death->text, "fiber %llu", &id), 1);
    char wanted[200];
    snprintf(wanted, sizeof(wanted),
             "heddle: stack overflow in fiber %llu \"digger\" spawned at deep/recursion.c:512 "
             "(dig_too_deep): 65536 bytes of stack",
             id);
    if (!strstr(death->text, wanted)) test_fail(__FILE__, __LINE__, "said: %s", death->text);
}

TEST_WORLDS(an_overflow_is_reported_and_fatal, options)
{
    static const hd_guard guards[] = {HD_GUARD_AUTO, HD_GUARD_MPROTECT};
    for (int i = 0; i < 2; i++) {
        struct overflow overflow = {.options = *options, .bytes = MIB};
        overflow.options.guard = guards[i];
        overflow.options.stack_bytes = 256 * KIB;
        const struct death death = death_of(overflow_in_run, &overflow);
        EXPECT_EQ(death_signal(&death), SIGSEGV);
        expect_report(&death);
    }
}

TEST_WORLDS(a_runtime_reports_overflows_if_asked, options)
{
    struct overflow overflow = {.options = *options, .bytes = MIB};
    overflow.options.stack_bytes = 256 * KIB;
    struct death death = death_of(overflow_in_runtime, &overflow);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
    EXPECT(!strstr(death.text, "heddle: stack overflow"));
    overflow.options.report_overflow = true;
    death = death_of(overflow_in_runtime, &overflow);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
    expect_report(&death);
}

TEST_WORLDS(a_canary_reports_at_the_next_switch, options)
{
    for (int yields = 0; yields < 2; yields++) {
        struct overflow overflow = {.options = *options, .bytes = 68 * KIB, .yields = yields};
        overflow.options.guard = HD_GUARD_CANARY;
        overflow.options.stack_bytes = 256 * KIB;
        const struct death death = death_of(overflow_in_run, &overflow);
        EXPECT_EQ(death_signal(&death), SIGABRT);
        expect_report(&death);
    }
}
