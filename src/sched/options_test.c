/* SPDX-License-Identifier: MIT
 *
 * Options: every default, every limit, every sentence of refusal, and the environment.
 */
#include "test.h"

#include "os/thread.h"
#include "sched/runtime.h"

TEST_MAIN

static hd_options resolve(const hd_options *in)
{
    hd_options out;
    const char *wrong = hdi_options_resolve(in, &out);
    if (wrong) test_fail(__FILE__, __LINE__, "refused: %s", wrong);
    EXPECT(hd_options_error(in) == NULL);
    return out;
}

static void expect_refused(const hd_options *in, const char *words)
{
    const char *wrong = hd_options_error(in);
    if (!wrong || !strstr(wrong, words)) {
        test_fail(__FILE__, __LINE__, "expected a refusal with \"%s\", got \"%s\"", words,
                  wrong ? wrong : "none");
    }
    hd_runtime *runtime = (hd_runtime *)(void *)&runtime; /* stays as it is on failure */
    EXPECT_EQ(hd_runtime_create(&runtime, in), -EINVAL);
    EXPECT(runtime == (hd_runtime *)(void *)&runtime);
}

static void expect_the_documented_defaults(const hd_options *o)
{
    EXPECT_EQ(o->size, sizeof(*o));
    EXPECT_EQ(o->world, HD_WORLD_LIVE);
    EXPECT_EQ(o->seed, 0);
    EXPECT_EQ(o->workers, hdi_cpu_count());
    EXPECT_EQ(o->policy, HD_POLICY_FAIR);
    EXPECT_EQ(o->stack_bytes, 64 << 10);
    EXPECT_EQ(o->guard, HD_GUARD_AUTO);
    EXPECT(!o->report_overflow);
    EXPECT_EQ(o->lifo_cap, 3);
    EXPECT_EQ(o->poll_budget, 128);
    EXPECT_EQ(o->inject_interval_min, 8);
    EXPECT_EQ(o->inject_interval_max, 255);
    EXPECT_EQ(o->inject_latency_ns, 1000000);
    EXPECT_EQ(o->ewma_percent, 10);
    EXPECT_EQ(o->steal_scan_max, 4);
    EXPECT_EQ(o->spin_rounds, 16);
    EXPECT_EQ(o->quantum_ns, 10000000);
    EXPECT_EQ(o->quantum_ops, 10000);
    EXPECT_EQ(o->stall_ns, o->workers == 1 ? HD_FOREVER : 20000000);
    EXPECT(!o->report_stalls);
    EXPECT_EQ(o->profile, HD_PROFILE_NONE);
}

TEST(no_options_means_all_defaults)
{
    unsetenv("HEDDLE_SEED");
    const hd_options given = HD_OPTIONS_INIT;
    const hd_options a = resolve(NULL), b = resolve(&given);
    expect_the_documented_defaults(&a);
    expect_the_documented_defaults(&b);
}

TEST(one_worker_is_not_replaced_unless_told)
{
    hd_options given = HD_OPTIONS_INIT;
    given.world = HD_WORLD_LIVE;
    given.workers = 1;
    EXPECT_EQ(resolve(&given).stall_ns, HD_FOREVER);
    given.workers = 2;
    EXPECT_EQ(resolve(&given).stall_ns, 20000000);
    given.workers = 1;
    given.stall_ns = 1;
    EXPECT_EQ(resolve(&given).stall_ns, 1);
}

TEST(more_workers_than_cpus_spin_less)
{
    hd_options given = HD_OPTIONS_INIT;
    given.world = HD_WORLD_LIVE;
    given.workers = HDI_WORKERS_MAX;
    if (hdi_cpu_count() >= HDI_WORKERS_MAX) test_skip("too many CPUs");
    EXPECT_EQ(resolve(&given).spin_rounds, 1);
    given.spin_rounds = 5;
    EXPECT_EQ(resolve(&given).spin_rounds, 5);
}

TEST(what_is_given_is_kept)
{
    hd_options o = HD_OPTIONS_INIT;
    o.world = HD_WORLD_SIM;
    o.sim_order = HD_SIM_WORKERS;
    o.seed = UINT64_MAX;
    o.workers = 256;
    o.policy = HD_POLICY_LOCAL;
    o.stack_bytes = 1u << 30;
    o.guard = HD_GUARD_CANARY;
    o.report_overflow = true;
    o.lifo_cap = 1;
    o.poll_budget = 1;
    o.inject_interval_min = 3;
    o.inject_interval_max = 3;
    o.inject_latency_ns = 1;
    o.ewma_percent = 100;
    o.steal_scan_max = 255;
    o.spin_rounds = 10000;
    o.quantum_ns = 1;
    o.quantum_ops = 1;
    o.stall_ns = HD_FOREVER;
    o.report_stalls = true;
    o.profile = HD_PROFILE_SOVEREIGN;
    const hd_options got = resolve(&o);
    EXPECT_EQ(got.seed == UINT64_MAX, true);
    EXPECT_EQ(got.workers, 256);
    EXPECT_EQ(got.policy, HD_POLICY_LOCAL);
    EXPECT_EQ(got.stack_bytes, 1 << 30);
    EXPECT_EQ(got.guard, HD_GUARD_CANARY);
    EXPECT(got.report_overflow);
    EXPECT_EQ(got.lifo_cap, 1);
    EXPECT_EQ(got.poll_budget, 1);
    EXPECT_EQ(got.inject_interval_min, 3);
    EXPECT_EQ(got.inject_interval_max, 3);
    EXPECT_EQ(got.inject_latency_ns, 1);
    EXPECT_EQ(got.ewma_percent, 100);
    EXPECT_EQ(got.steal_scan_max, 255);
    EXPECT_EQ(got.spin_rounds, 10000);
    EXPECT_EQ(got.quantum_ns, 1);
    EXPECT_EQ(got.quantum_ops, 1);
    EXPECT_EQ(got.stall_ns, HD_FOREVER);
    EXPECT(got.report_stalls);
    EXPECT_EQ(got.profile, HD_PROFILE_SOVEREIGN);
}

#define EXPECT_REFUSED(words, ...)                                                       \
    do {                                                                                 \
        hd_options o_ = HD_OPTIONS_INIT;                                                 \
        hd_options *const o = &o_;                                                       \
        o->world = HD_WORLD_LIVE;                                                        \
        __VA_ARGS__;                                                                     \
        expect_refused(o, words);                                                        \
    } while (0)

TEST(a_refusal_names_the_option)
{
    EXPECT_REFUSED("HD_OPTIONS_INIT", o->size = 0);
    EXPECT_REFUSED("HD_OPTIONS_INIT", o->size--);
    EXPECT_REFUSED("HD_OPTIONS_INIT", o->size += 8);
    EXPECT_REFUSED("world", o->world = (hd_world)3);
    EXPECT_REFUSED("world", o->world = (hd_world)-1);
    EXPECT_REFUSED("sim_order", o->sim_order = (hd_sim_order)2);
    EXPECT_REFUSED("guard", o->guard = (hd_guard)4);
    EXPECT_REFUSED("policy", o->policy = (hd_policy)4);
    EXPECT_REFUSED("workers", o->workers = 257);
    EXPECT_REFUSED("workers", o->workers = UINT32_MAX);
    EXPECT_REFUSED("stack_bytes", o->stack_bytes = 1);
    EXPECT_REFUSED("stack_bytes", o->stack_bytes = (16 << 10) - 1);
    EXPECT_REFUSED("stack_bytes", o->stack_bytes = (1u << 30) + 1);
    EXPECT_REFUSED("stack_bytes", o->stack_bytes = SIZE_MAX);
    EXPECT_REFUSED("inject_interval_min", o->inject_interval_min = 1);
    EXPECT_REFUSED("inject_interval_min", o->inject_interval_min = 256);
    EXPECT_REFUSED("inject_interval_min", o->inject_interval_max = 7);
    EXPECT_REFUSED("inject_latency_ns", o->inject_latency_ns = -1);
    EXPECT_REFUSED("ewma_percent", o->ewma_percent = 101);
    EXPECT_REFUSED("spin_rounds", o->spin_rounds = 10001);
    EXPECT_REFUSED("quantum_ns", o->quantum_ns = -1);
    EXPECT_REFUSED("stall_ns", o->stall_ns = -1);
    EXPECT_REFUSED("profile", o->profile = (hd_profile)5);
}

/* ---- HEDDLE_SEED ---- */

static void expect_seed(const char *text, uint64_t seed)
{
    setenv("HEDDLE_SEED", text, 1);
    hd_options given = HD_OPTIONS_INIT;
    given.seed = 5;
    const hd_options got = resolve(&given), bare = resolve(NULL);
    EXPECT_EQ(got.world, HD_WORLD_SIM);
    EXPECT_EQ(bare.world, HD_WORLD_SIM);
    EXPECT(got.seed == seed && bare.seed == seed);
    EXPECT_EQ(got.workers, 1);
}

TEST(the_environment_makes_it_a_simulation)
{
    expect_seed("0", 0);
    expect_seed("42", 42);
    expect_seed("0x2a", 42);
    expect_seed("18446744073709551615", UINT64_MAX);
}

TEST(an_empty_seed_is_none)
{
    setenv("HEDDLE_SEED", "", 1);
    EXPECT_EQ(resolve(NULL).world, HD_WORLD_LIVE);
}

TEST(a_seed_that_is_not_a_number_is_refused)
{
    static const char *const texts[] = {"abc", "12x", "1 2", "-1", " -1", "1.5", " ", "0x",
                                        "18446744073709551616"};
    const hd_options given = HD_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        setenv("HEDDLE_SEED", texts[i], 1);
        expect_refused(NULL, "HEDDLE_SEED");
        expect_refused(&given, "HEDDLE_SEED");
    }
}

TEST(a_world_that_was_chosen_does_not_look_at_the_environment)
{
    hd_options given = HD_OPTIONS_INIT;
    given.seed = 7;
    static const char *const texts[] = {"42", "abc"};
    for (int i = 0; i < 2; i++) {
        setenv("HEDDLE_SEED", texts[i], 1);
        given.world = HD_WORLD_LIVE;
        EXPECT_EQ(resolve(&given).world, HD_WORLD_LIVE);
        EXPECT_EQ(resolve(&given).seed, 0);
        given.world = HD_WORLD_SIM;
        EXPECT_EQ(resolve(&given).seed, 7);
    }
}

TEST(a_simulation_does_not_depend_on_the_machine)
{
    hd_options given = HD_OPTIONS_INIT;
    given.world = HD_WORLD_SIM;
    EXPECT_EQ(resolve(&given).workers, 1);
    given.workers = 8; /* one bag, from which any task may come */
    EXPECT_EQ(resolve(&given).workers, 1);
    given.sim_order = HD_SIM_WORKERS;
    EXPECT_EQ(resolve(&given).workers, 8);
    given.workers = 0;
    EXPECT_EQ(resolve(&given).workers, 4);
}

TEST(errno_stays)
{
    errno = 4242;
    setenv("HEDDLE_SEED", "99999999999999999999999", 1);
    EXPECT(hd_options_error(NULL) != NULL);
    EXPECT_EQ(errno, 4242);
}
