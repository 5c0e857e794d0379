/* SPDX-License-Identifier: MIT
 *
 * Names and addresses. What a resolver that blocks does is in src/io/resolve_test.c.
 */
#include <heddle/sim.h>

#include "rt.h"

TEST_MAIN

static bool same(const hd_addr *addr, const char *text)
{
    char own[HD_ADDR_TEXT_MAX];
    return strcmp(hd_addr_format(addr, own), text) == 0;
}

/* ---- numbers ---- */

static int numbers(void *arg)
{
    (void)arg;
    hd_addr addrs[2] = {{0}, {0}};
    EXPECT_EQ(hd_resolve("127.0.0.1", 80, addrs, 2), 1);
    EXPECT(same(&addrs[0], "127.0.0.1:80"));
    EXPECT_EQ(addrs[1].length, 0);
    EXPECT_EQ(hd_resolve_until("fd00::1", 65535, addrs, 1, HD_NOW), 1);
    EXPECT(same(&addrs[0], "[fd00::1]:65535"));
    EXPECT_EQ(hd_resolve("::", 0, addrs, 2), 1);
    EXPECT(same(&addrs[0], "[::]:0"));
    return 0;
}

TEST_IO(numbers_need_no_resolver, options) { rt_run(numbers, NULL, options); }

TEST(numbers_need_no_runtime) { EXPECT_EQ(numbers(NULL), 0); }

static hd_poll number_poll(void *state, int *result)
{
    hd_addr addr;
    (void)state;
    EXPECT_EQ(hd_resolve("10.0.0.1", 1, &addr, 1), 1);
    EXPECT_EQ(hd_resolve("name", 1, &addr, 1), -EINVAL);
    EXPECT_EQ(hd_resolve_until("name", 1, &addr, 1, HD_NOW), -EAGAIN);
    *result = 0;
    return HD_READY;
}

TEST_IO(stackless_tasks_have_numbers_only, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, number_poll, NULL, 0)), 0);
    hd_runtime_destroy(runtime);
}

static int misuse(void *arg)
{
    (void)arg;
    hd_addr addr = {0};
    char long_name[2000];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    EXPECT_EQ(hd_resolve("127.0.0.1", 65536, &addr, 1), -EINVAL);
    EXPECT_EQ(hd_resolve("", 80, &addr, 1), -EINVAL);
    EXPECT_EQ(hd_resolve(NULL, 80, &addr, 1), -EINVAL);
    EXPECT_EQ(hd_resolve("127.0.0.1", 80, &addr, 0), -EINVAL);
    EXPECT_EQ(hd_resolve("127.0.0.1", 80, NULL, 1), -EINVAL);
    EXPECT_EQ(hd_resolve(long_name, 80, &addr, 1), -EINVAL);
    EXPECT_EQ(addr.length, 0);
    return 0;
}

TEST_IO(misuse_is_refused, options) { rt_run(misuse, NULL, options); }

/* ---- names ---- */

static int localhost(void *arg)
{
    (void)arg;
    hd_addr addrs[8];
    const int count = hd_resolve("localhost", 80, addrs, 8);
    EXPECT(count > 0);
    for (int i = 0; i < count; i++) {
        EXPECT(same(&addrs[i], "127.0.0.1:80") || same(&addrs[i], "[::1]:80"));
    }
    return 0;
}

TEST_IO(localhost_is_here, options) { rt_run(localhost, NULL, options); }

TEST_IO(a_thread_may_ask, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(localhost(NULL), 0);
    hd_runtime_destroy(runtime);
}

static int cancelled_before(void *arg)
{
    hd_addr addr;
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    EXPECT_EQ(hd_resolve("10.0.0.1", 80, &addr, 1), 1); /* Nothing is waited for. */
    return hd_resolve("localhost", 80, &addr, 1);
}

TEST_IO(who_is_cancelled_does_not_ask, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, cancelled_before, NULL);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- names in sim ---- */

static int sim_names(void *arg)
{
    (void)arg;
    hd_addr addrs[8];
    EXPECT_EQ(hd_resolve("nobody", 80, addrs, 8), -ENOENT);
    EXPECT_EQ(hd_sim_name("many", "10.0.0.1,10.0.0.2,fd00::1"), 0);
    EXPECT_EQ(hd_resolve("many", 80, addrs, 8), 3);
    EXPECT(same(&addrs[0], "10.0.0.1:80"));
    EXPECT(same(&addrs[1], "[fd00::1]:80"));
    EXPECT(same(&addrs[2], "10.0.0.2:80"));
    EXPECT_EQ(hd_resolve("many", 80, addrs, 2), 2);
    EXPECT_EQ(hd_sim_name("many", NULL), 0);
    EXPECT_EQ(hd_resolve("many", 80, addrs, 8), -ENOENT);
    return 0;
}

static int sim_faults(void *arg)
{
    (void)arg;
    hd_addr addr;
    EXPECT_EQ(hd_sim_name("slow", "10.0.0.1"), 0);
    EXPECT_EQ(hd_sim_name_fault("slow", -EAGAIN, 0, HD_SECOND_NS), 0);
    const int64_t began = hd_now(NULL);
    EXPECT_EQ(hd_resolve_until("slow", 80, &addr, 1, began + HD_MS_NS), -ETIMEDOUT);
    EXPECT(hd_now(NULL) - began < 2 * HD_MS_NS);
    EXPECT_EQ(hd_resolve("slow", 80, &addr, 1), 1);
    EXPECT(hd_now(NULL) - began > HD_SECOND_NS / 2);
    EXPECT_EQ(hd_sim_name_fault("slow", -EAGAIN, HD_SIM_ALWAYS, 0), 0);
    EXPECT_EQ(hd_resolve("slow", 80, &addr, 1), -EAGAIN);
    return 0;
}

TEST_IO(sim_has_names_of_its_own, options)
{
    if (!rt_is_sim(options)) return;
    rt_run(sim_names, NULL, options);
    rt_run(sim_faults, NULL, options);
}
