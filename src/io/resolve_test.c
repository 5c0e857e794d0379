/* SPDX-License-Identifier: MIT
 *
 * Resolving, with a resolver of the test's own: one that blocks its thread until it is told.
 */
#include <netinet/in.h>
#include <semaphore.h>

#include "os/sys.h"
#include "rt.h"
#include "sched/runtime.h"

TEST_MAIN

static const hd_options live = {.size = sizeof(live), .world = HD_WORLD_LIVE};

/* ---- the resolver ---- */

static const char *answer;    /* a family for each address: "446" */
static _Atomic(int) asked;    /* calls */
static sem_t begun, go_on;    /* if it is to block */
static bool blocks;

static int resolve(struct hd_runtime *runtime, const char *name, struct sockaddr_storage *addrs,
                   size_t max)
{
    (void)runtime;
    EXPECT(strcmp(name, "name") == 0);
    hdi_fetch_add_acq_rel(&asked, 1);
    if (blocks) {
        sem_post(&begun);
        while (sem_wait(&go_on) != 0) continue;
    }
    const size_t count = strlen(answer);
    EXPECT(count <= max);
    memset(addrs, 0, count * sizeof(*addrs));
    for (size_t i = 0; i < count; i++) {
        if (answer[i] == '4') {
            struct sockaddr_in four = {.sin_family = AF_INET};
            four.sin_addr.s_addr = htonl((uint32_t)i);
            memcpy(&addrs[i], &four, sizeof(four));
        } else {
            struct sockaddr_in6 six = {.sin6_family = AF_INET6};
            six.sin6_addr.s6_addr[15] = (uint8_t)i;
            memcpy(&addrs[i], &six, sizeof(six));
        }
    }
    return count > 0 ? (int)count : -ENOENT;
}

/* A runtime that asks it. */
static hd_runtime *create(const char *what, bool to_block)
{
    static struct hdi_sys table;
    hd_runtime *runtime = rt_create(&live);
    table = hdi_sys_live;
    table.resolve = resolve;
    runtime->sys = &table;
    answer = what;
    blocks = to_block;
    EXPECT_EQ(sem_init(&begun, 0, 0), 0);
    EXPECT_EQ(sem_init(&go_on, 0, 0), 0);
    return runtime;
}

static void await_begun(void)
{
    while (sem_wait(&begun) != 0) continue;
}

/* ---- order ---- */

struct order {
    const char *given, *expected; /* the addresses' numbers */
    size_t max;
};

static int check_order(void *arg)
{
    const struct order *order = arg;
    hd_addr addrs[8];
    char text[HD_ADDR_TEXT_MAX], wanted[HD_ADDR_TEXT_MAX];
    answer = order->given;
    EXPECT_EQ(hd_resolve("name", 8080, addrs, order->max), (int)strlen(order->expected));
    for (size_t i = 0; order->expected[i]; i++) {
        const int number = order->expected[i] - '0';
        const bool four = order->given[number] == '4';
        if (number == 0) {
            snprintf(wanted, sizeof(wanted), four ? "0.0.0.0:8080" : "[::]:8080");
        } else {
            snprintf(wanted, sizeof(wanted), four ? "0.0.0.%d:8080" : "[::%d]:8080", number);
        }
        EXPECT(strcmp(hd_addr_format(&addrs[i], text), wanted) == 0);
    }
    return 0;
}

TEST(families_come_by_turns)
{
    const struct order orders[] = {
        {"4", "0", 8},          {"444", "012", 8},   {"644", "012", 8},
        {"664", "021", 8},      {"4466", "0213", 8}, {"466666", "012345", 8},
        {"66664", "04123", 8},  {"4466", "021", 3},  {"664", "0", 1},
        {"644646", "013254", 8},
    };
    hd_runtime *runtime = create("", false);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        EXPECT_EQ(rt_join(rt_spawn(runtime, check_order, (void *)&orders[i])), 0);
    }
    hd_runtime_destroy(runtime);
}

/* ---- giving up ---- */

static int ask(void *arg)
{
    hd_addr addrs[4];
    const int64_t *ms = arg;
    const int64_t deadline = ms ? hd_after_ms(*ms) : HD_FOREVER;
    return hd_resolve_until("name", 80, addrs, 4, deadline);
}

TEST(who_is_cancelled_leaves_at_once)
{
    hd_runtime *runtime = create("44", true);
    hd_task *task = rt_spawn(runtime, ask, NULL);
    await_begun();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED); /* though the resolver still blocks */
    sem_post(&go_on);
    hd_runtime_destroy(runtime);
}

TEST(who_is_late_leaves_at_once)
{
    int64_t ms = 5;
    hd_runtime *runtime = create("44", true);
    EXPECT_EQ(rt_join(rt_spawn(runtime, ask, &ms)), -ETIMEDOUT);
    sem_post(&go_on);
    hd_runtime_destroy(runtime);
}

TEST(who_waits_gets_the_answer)
{
    hd_runtime *runtime = create("46", true);
    hd_task *task = rt_spawn(runtime, ask, NULL);
    await_begun();
    sem_post(&go_on);
    EXPECT_EQ(rt_join(task), 2);
    answer = "";
    sem_post(&go_on);
    EXPECT_EQ(rt_join(rt_spawn(runtime, ask, NULL)), -ENOENT);
    hd_runtime_destroy(runtime);
}

static void *answer_late(void *arg)
{
    struct hd_runtime *runtime = arg;
    while (!hdi_load_acquire(&runtime->closing)) sched_yield();
    sem_post(&go_on);
    return NULL;
}

TEST(the_end_of_a_runtime_waits_for_the_resolver)
{
    pthread_t thread;
    hd_runtime *runtime = create("4", true);
    hd_task *task = rt_spawn(runtime, ask, NULL);
    await_begun();
    hd_detach(task);
    EXPECT_EQ(pthread_create(&thread, NULL, answer_late, runtime), 0);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hdi_load_acquire(&asked), 1);
}

/* All threads of the pool block, so the last request waits in its queue, and is given up there. */
TEST(what_nobody_wants_any_more_is_not_asked)
{
    enum { MANY = 256 };
    hd_task *tasks[MANY], *last;
    hd_runtime *runtime = create("4", true);
    hd_dispatcher *io = hd_dispatcher_io(runtime);
    unsigned most = 0;
    int64_t ms = 5;
    for (int i = 0; i < MANY; i++) tasks[i] = rt_spawn(runtime, ask, NULL);
    last = rt_spawn(runtime, ask, &ms);
    EXPECT_EQ(rt_join(last), -ETIMEDOUT);
    for (int i = 0; i < MANY; i++) {
        await_begun();
        const unsigned workers = hd_dispatcher_workers(io);
        if (workers > most) most = workers;
        sem_post(&go_on);
    }
    for (int i = 0; i < MANY; i++) EXPECT_EQ(rt_join(tasks[i]), 1);
    EXPECT(most < MANY);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(hdi_load_acquire(&asked), MANY);
}

/* ---- faults ---- */

static int fail(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    return strcmp(name, "resolve") == 0 ? -EAGAIN : 0;
}

TEST(a_fault_is_told)
{
    hdi_sys_fault = fail; /* Its threads look at that from their start to their end. */
    hd_runtime *runtime = create("4", false);
    EXPECT_EQ(rt_join(rt_spawn(runtime, ask, NULL)), -EAGAIN);
    hd_runtime_destroy(runtime);
    hdi_sys_fault = NULL;
    runtime = create("4", false);
    EXPECT_EQ(rt_join(rt_spawn(runtime, ask, NULL)), 1);
    EXPECT_EQ(hdi_load_acquire(&asked), 1);
    hd_runtime_destroy(runtime);
}
