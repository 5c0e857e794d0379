/* SPDX-License-Identifier: MIT
 *
 * Conservation in the queues themselves: an owner and thieves, or pushers and poppers,
 * at full speed; every item comes out exactly once, in an order the queue promises.
 */
#include "stress/stress.h"

#include "sched/deque.h"
#include "sched/inject.h"
#include "sched/lifo.h"
#include "sched/ring.h"
#include "task/task.h"

enum { THIEVES_MAX = 3 };

static struct stress_item *items;
static unsigned item_count;
static atomic_uint taken_count; /* items that have come out */
static atomic_uint thief_next;  /* numbers the thieves */

static struct hd_task *as_task(struct stress_item *item)
{
    return (struct hd_task *)(void *)item; /* Rings and deques do not look inside. */
}

static uint64_t took(struct hd_task *task)
{
    const uint64_t number = stress_take((struct stress_item *)(void *)task);
    atomic_fetch_add_explicit(&taken_count, 1, memory_order_relaxed);
    return number;
}

static bool all_taken(void)
{
    return atomic_load_explicit(&taken_count, memory_order_relaxed) >= item_count;
}

static struct hd_task *new_item(unsigned number)
{
    items[number].number = number + 1;
    return as_task(&items[number]);
}

static void begin(unsigned count)
{
    items = stress_items(count);
    item_count = count;
    atomic_store(&taken_count, 0);
    atomic_store(&thief_next, 0);
}

static void end(void)
{
    EXPECT_EQ(atomic_load(&taken_count), item_count);
    for (unsigned i = 0; i < item_count; i++) EXPECT_EQ(atomic_load(&items[i].taken), 1);
    free(items);
}

/* ---- ring ---- */

static struct hdi_ring rings[1 + THIEVES_MAX]; /* the owner's, and one for each thief */
static unsigned ring_count;

/* Counters about to wrap, as they do in a runtime that lives for days. */
static void ring_init_before_wrap(struct hdi_ring *ring, unsigned before)
{
    const uint32_t start = UINT32_MAX - before;
    hdi_ring_init(ring, false);
    hdi_store_relaxed(&ring->head, (uint64_t)start << 32 | start);
    hdi_store_relaxed(&ring->tail, start);
}

/* What was stolen in one go is in order: the first, then those in the thief's own ring,
 * unless other thieves take some of these. */
static void *ring_thief(void *arg)
{
    (void)arg;
    const unsigned self = 1 + atomic_fetch_add(&thief_next, 1);
    struct stress_random random = stress_random_init(self);
    while (!all_taken()) {
        unsigned moved = 0;
        unsigned victim = stress_below(&random, ring_count);
        if (victim == self) victim = 0;
        struct hd_task *task = hdi_ring_steal(&rings[victim], &rings[self], &moved);
        if (!task) {
            sched_yield();
            continue;
        }
        EXPECT(moved < HDI_RING_CAP / 2);
        uint64_t last = took(task);
        while ((task = hdi_ring_pop(&rings[self]))) {
            const uint64_t number = took(task);
            EXPECT(number > last);
            last = number;
        }
    }
    return NULL;
}

static void ring_spill_some(struct hdi_ring *ring)
{
    struct hd_task *out[HDI_RING_CAP / 2];
    const unsigned count = hdi_ring_spill(ring, out);
    EXPECT(count == 0 || count == HDI_RING_CAP / 2);
    uint64_t last = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t number = took(out[i]);
        EXPECT(number == last + 1 || last == 0); /* the newest ones, none left out */
        last = number;
    }
}

/* Bursts of pushes and pops; what the owner pops is in the order it was pushed. */
static void ring_owner(struct hdi_ring *ring)
{
    struct stress_random random = stress_random_init(0);
    uint64_t last = 0;
    for (unsigned next = 0; next < item_count;) {
        unsigned burst = 1 + stress_below(&random, stress_below(&random, 8) ? 16 : 400);
        while (burst-- > 0 && next < item_count) {
            if (hdi_ring_push(ring, new_item(next))) {
                next++;
            } else {
                ring_spill_some(ring);
            }
        }
        unsigned pops = stress_below(&random, 24);
        struct hd_task *task;
        while (pops-- > 0 && (task = hdi_ring_pop(ring))) {
            const uint64_t number = took(task);
            EXPECT(number > last);
            last = number;
        }
    }
    for (struct hd_task *task; (task = hdi_ring_pop(ring));) took(task);
}

static void ring_with(unsigned thieves)
{
    begin(stress_count(4000000));
    ring_count = 1 + thieves;
    for (unsigned i = 0; i < ring_count; i++) ring_init_before_wrap(&rings[i], item_count / 8);
    struct stress_threads threads = {.count = 0};
    for (unsigned i = 0; i < thieves; i++) stress_start(&threads, ring_thief, NULL);
    ring_owner(&rings[0]);
    stress_join(&threads);
    for (unsigned i = 0; i < ring_count; i++) EXPECT_EQ(hdi_ring_count(&rings[i]), 0);
    end();
}

TEST(ring_owner_alone)
{
    ring_with(0);
}

TEST(ring_one_thief)
{
    ring_with(1);
}

TEST(ring_three_thieves)
{
    ring_with(3);
}

/* ---- deque ---- */

static struct hdi_deque deque;

/* Thieves take from the old end, so each sees ascending numbers. */
static void *deque_thief(void *arg)
{
    (void)arg;
    uint64_t last = 0;
    while (!all_taken()) {
        struct hd_task *task = hdi_deque_steal(&deque);
        if (!task) {
            sched_yield();
            continue;
        }
        const uint64_t number = took(task);
        EXPECT(number > last);
        last = number;
    }
    return NULL;
}

/* The owner takes from the new end: descending until it pushes again. */
static void deque_pop_some(unsigned pops)
{
    uint64_t last = UINT64_MAX;
    for (struct hd_task *task; pops-- > 0 && (task = hdi_deque_pop(&deque));) {
        const uint64_t number = took(task);
        EXPECT(number < last);
        last = number;
    }
}

static void deque_with(unsigned thieves)
{
    begin(stress_count(4000000));
    hdi_deque_init(&deque);
    struct stress_threads threads = {.count = 0};
    for (unsigned i = 0; i < thieves; i++) stress_start(&threads, deque_thief, NULL);
    struct stress_random random = stress_random_init(0);
    for (unsigned next = 0; next < item_count;) {
        /* Mostly near empty, where owner and thieves meet. */
        unsigned burst = 1 + stress_below(&random, stress_below(&random, 16) ? 3 : 300);
        bool room = true;
        while (room && burst-- > 0 && next < item_count) {
            room = hdi_deque_push(&deque, new_item(next));
            if (room) next++;
        }
        EXPECT(room || hdi_deque_count(&deque) > 0 || thieves > 0);
        deque_pop_some(room ? stress_below(&random, 6) : 64);
    }
    deque_pop_some(UINT32_MAX);
    stress_join(&threads);
    EXPECT_EQ(hdi_deque_count(&deque), 0);
    end();
}

TEST(deque_owner_alone)
{
    deque_with(0);
}

TEST(deque_one_thief)
{
    deque_with(1);
}

TEST(deque_three_thieves)
{
    deque_with(3);
}

/* ---- injection queue ---- */

enum { PUSHERS = 3, POPPERS = 3, PUSH_MAX = 9 };

static struct hdi_inject inject;
static struct hd_task *tasks; /* the queue links through them, so they are real */
static atomic_uint *tasks_taken;
static unsigned per_pusher;
static atomic_uint pusher_next;

static void *inject_pusher(void *arg)
{
    (void)arg;
    const unsigned self = atomic_fetch_add(&pusher_next, 1);
    struct stress_random random = stress_random_init(self);
    struct hd_task *const first = &tasks[self * per_pusher];
    for (unsigned next = 0; next < per_pusher;) {
        struct hd_task *batch[PUSH_MAX];
        unsigned count = 1 + stress_below(&random, PUSH_MAX);
        if (count > per_pusher - next) count = per_pusher - next;
        for (unsigned i = 0; i < count; i++, next++) {
            first[next].id = self * (uint64_t)per_pusher + next;
            batch[i] = &first[next];
        }
        hdi_inject_push(&inject, batch, count);
    }
    return NULL;
}

/* Each popper sees what one pusher pushed in that order. */
static void *inject_popper(void *arg)
{
    (void)arg;
    struct stress_random random = stress_random_init(100 + atomic_fetch_add(&thief_next, 1));
    uint64_t last[PUSHERS] = {0};
    while (!all_taken()) {
        struct hd_task *out[HDI_INJECT_BATCH_MAX];
        const unsigned max = 1 + stress_below(&random, HDI_INJECT_BATCH_MAX);
        const unsigned count = hdi_inject_pop(&inject, out, max);
        if (count == 0) sched_yield();
        EXPECT(count <= max);
        for (unsigned i = 0; i < count; i++) {
            const uint64_t id = out[i]->id;
            EXPECT_EQ(atomic_fetch_add_explicit(&tasks_taken[id], 1, memory_order_relaxed), 0);
            EXPECT(id + 1 > last[id / per_pusher]);
            last[id / per_pusher] = id + 1;
        }
        atomic_fetch_add_explicit(&taken_count, count, memory_order_relaxed);
    }
    return NULL;
}

TEST(inject_pushers_and_poppers)
{
    per_pusher = stress_count(1000000);
    item_count = PUSHERS * per_pusher;
    tasks = calloc(item_count, sizeof(*tasks));
    tasks_taken = calloc(item_count, sizeof(*tasks_taken));
    EXPECT(tasks && tasks_taken);
    hdi_inject_init(&inject);
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < PUSHERS; i++) stress_start(&threads, inject_pusher, NULL);
    for (int i = 0; i < POPPERS; i++) stress_start(&threads, inject_popper, NULL);
    stress_join(&threads);
    EXPECT_EQ(atomic_load(&taken_count), item_count);
    for (unsigned i = 0; i < item_count; i++) EXPECT_EQ(atomic_load(&tasks_taken[i]), 1);
    EXPECT_EQ(hdi_inject_length(&inject), 0);
    EXPECT_EQ(inject.total, item_count);
    EXPECT(!inject.first && !inject.last);
    free(tasks);
    free(tasks_taken);
}

/* ---- LIFO slot ---- */

static struct hdi_lifo lifo;
static atomic_uint stolen_count;

static void *lifo_thief(void *arg)
{
    (void)arg;
    while (!all_taken()) {
        struct hd_task *task = hdi_lifo_steal(&lifo);
        if (task) {
            took(task);
            atomic_fetch_add_explicit(&stolen_count, 1, memory_order_relaxed);
        } else {
            hdi_cpu_relax();
        }
    }
    return NULL;
}

static void lifo_with(unsigned thieves, bool asymmetric)
{
    hdi_barrier_init();
    if (!asymmetric) hdi_barrier_asymmetric = false; /* as where the kernel cannot */
    begin(stress_count(1000000));
    struct stress_threads threads = {.count = 0};
    for (unsigned i = 0; i < thieves; i++) stress_start(&threads, lifo_thief, NULL);
    struct stress_random random = stress_random_init(0);
    for (unsigned next = 0; next < item_count; next++) {
        struct hd_task *task = new_item(next), *evicted = NULL;
        if (!hdi_lifo_put(&lifo, task, &evicted)) evicted = task;
        if (evicted) took(evicted);
        if (stress_below(&random, 4) == 0) continue;
        /* Sometimes long enough for a thief to come in. */
        unsigned pause = stress_below(&random, 8) ? 0 : stress_below(&random, 200);
        while (pause-- > 0) hdi_cpu_relax();
        task = hdi_lifo_take(&lifo);
        if (task) took(task);
    }
    struct hd_task *task = hdi_lifo_flush(&lifo);
    if (task) took(task);
    stress_join(&threads);
    EXPECT(!hdi_lifo_flush(&lifo));
    end();
    fprintf(stderr, "# %u of %u stolen\n", atomic_load(&stolen_count), item_count);
}

TEST(lifo_one_thief)
{
    lifo_with(1, true);
}

TEST(lifo_three_thieves)
{
    lifo_with(3, true);
}

TEST(lifo_three_thieves_without_membarrier)
{
    lifo_with(3, false);
}

TEST_MAIN
