/* SPDX-License-Identifier: MIT
 *
 * Rows of nurseries: what one costs, and what budgets cost the tasks in one. The stackless
 * form is driven by a stackless task, as Tokio's is driven by a future.
 */
#include <heddle/chan.h>
#include <heddle/nursery.h>

#include "bench.h"

#define CHILDREN 8

/* ---- open, 8 children, close ---- */

static int child_fiber(void *arg)
{
    (void)arg;
    return 1;
}

static hd_poll child_task(void *state, int *result)
{
    (void)state;
    *result = 1;
    return HD_READY;
}

static void nursery_fibers(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hd_nursery nursery;
        MUST(hd_nursery_open(&nursery, NULL));
        for (int j = 0; j < CHILDREN; j++) MUST(hd_go(&nursery, child_fiber, NULL));
        MUST(hd_nursery_leave(&nursery));
    }
}

struct nurseries {
    uint64_t left;
    bool open;
    hd_nursery nursery;
};

static hd_poll drive_nurseries(void *state, int *result)
{
    struct nurseries *s = state;
    for (;;) {
        if (s->open) {
            if (hd_nursery_wait_poll(&s->nursery, result) == HD_PENDING) return HD_PENDING;
            MUST(hd_nursery_leave(&s->nursery));
            s->open = false;
            s->left--;
        }
        if (s->left == 0) return HD_READY;
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = &s->nursery;
        MUST(hd_nursery_open(&s->nursery, NULL));
        s->open = true;
        for (int j = 0; j < CHILDREN; j++)
            MUST(hd_spawn_poll_with(NULL, child_task, NULL, 0, &options));
    }
}

static void nursery_tasks(uint64_t n)
{
    const struct nurseries state = {.left = n};
    run_task(drive_nurseries, &state, sizeof state);
}

static int nursery_root(void *arg)
{
    (void)arg;
    measure(1, params.stackless ? nursery_tasks : nursery_fibers);
    return 0;
}

void row_nursery(void)
{
    run_in_fiber(nursery_root);
}

/* ---- with a budget and without ---- */

/* More of everything than a sample uses, so that all is counted and nothing is refused. */
static const hd_budget plenty = {
    .ops = INT64_C(1) << 60,
    .memory = INT64_C(1) << 60,
    .spawn_count = INT64_C(1) << 60,
    .channel_ops = INT64_C(1) << 60,
    .syscalls = INT64_C(1) << 60,
};

/* What the children of a nursery do; all of it is charged to them. */
struct charged {
    unsigned count;
    hd_fn *children[2];
    size_t capacity; /* of the channels */
};

static const struct charged *charged;
static hd_nursery nursery;
static hd_chan *ping, *pong;
static uint64_t rounds; /* n of the work under way */

/* The nursery stays open until the children are done, for they spawn into it. */
static void run_children(uint64_t n, const hd_budget *budget)
{
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    hd_task *handles[2];
    options.budget = budget;
    spawn.nursery = &nursery;
    rounds = n;
    MUST(hd_nursery_open(&nursery, &options));
    for (unsigned i = 0; i < charged->count; i++)
        MUST(hd_spawn_with(&handles[i], charged->children[i], NULL, &spawn));
    for (unsigned i = 0; i < charged->count; i++) MUST(hd_join(handles[i], NULL));
    MUST(hd_nursery_leave(&nursery));
}

static void with_budget(uint64_t n)
{
    run_children(n, &plenty);
}

static void without_budget(uint64_t n)
{
    run_children(n, NULL);
}

static int budget_root(void *arg)
{
    charged = arg;
    ping = hd_chan_create(sizeof(uint64_t), charged->capacity);
    pong = hd_chan_create(sizeof(uint64_t), charged->capacity);
    if (ping == NULL || pong == NULL) abort();
    measure_pair(1, with_budget, without_budget);
    hd_chan_destroy(ping);
    hd_chan_destroy(pong);
    return 0;
}

static void run_charged(struct charged c)
{
    const hd_options options = bench_options();
    MUST(hd_run(budget_root, &c, &options));
}

static int spawning_child(void *arg)
{
    (void)arg;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &nursery;
    for (uint64_t i = 0; i < rounds; i++) {
        hd_task *handle;
        MUST(hd_spawn_with(&handle, child_fiber, NULL, &options));
        MUST(hd_join(handle, NULL));
    }
    return 0;
}

void row_budget_spawn(void)
{
    run_charged((struct charged){1, {spawning_child}, 0});
}

static int opening_child(void *arg)
{
    (void)arg;
    nursery_fibers(rounds);
    return 0;
}

void row_budget_nursery(void)
{
    run_charged((struct charged){1, {opening_child}, 0});
}

static int pinging_child(void *arg)
{
    (void)arg;
    uint64_t got = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        MUST(hd_chan_send(ping, &i));
        MUST(hd_chan_recv(pong, &got));
        EXPECT(got == i);
    }
    return 0;
}

static int ponging_child(void *arg)
{
    (void)arg;
    uint64_t got;
    for (uint64_t i = 0; i < rounds; i++) {
        MUST(hd_chan_recv(ping, &got));
        MUST(hd_chan_send(pong, &got));
    }
    return 0;
}

void row_budget_chan_pingpong(void)
{
    run_charged((struct charged){2, {ponging_child, pinging_child}, 0});
}

static int sending_child(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) MUST(hd_chan_send(ping, &i));
    return 0;
}

static int receiving_child(void *arg)
{
    (void)arg;
    uint64_t got, sum = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        MUST(hd_chan_recv(ping, &got));
        sum += got;
    }
    EXPECT(sum == rounds * (rounds - 1) / 2);
    return 0;
}

void row_budget_chan_stream(void)
{
    run_charged((struct charged){2, {sending_child, receiving_child}, 1024});
}
