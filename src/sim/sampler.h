/* SPDX-License-Identifier: MIT
 *
 * sampler: who goes on, at every point of a schedule.
 *
 * A sampler is told of each schedule's begin and end, and asked at each point with more than one
 * candidate. Its answers depend on nothing but its parameters, the seed, and what it was told and
 * asked in this schedule: not on addresses (it may compare objects for equality, no more), and not
 * on earlier schedules. What it learned from those is part of its parameters, so that its text
 * (hdi_sampler_text) with the seed repeats a schedule in another process.
 *
 * Owner  the thread that drives the simulation.
 *
 * SAMPLER-1: pick() returns an index below `count`.
 * SAMPLER-2: a task that yields does not keep another from running for ever: pick() prefers others
 *            to it until they have had their turn, or leaves it to chance.
 */
#ifndef HDI_SIM_SAMPLER_H
#define HDI_SIM_SAMPLER_H

#include <heddle/explore.h>

#include "base/prng.h"
#include "sim/actors.h"
#include "task/task.h"

/* The schedule under way. */
struct hdi_schedule;

struct hdi_actor *hdi_schedule_actor(struct hdi_schedule *schedule, const struct hd_task *task);

/* Its place in the order of spawns, from 0. */
static inline uint32_t hdi_schedule_number(const struct hd_task *task)
{
    return (uint32_t)(task->id - 1);
}

/* Whether a step changes nothing. */
static inline bool hdi_touch_looks(hd_touch_kind kind)
{
    return kind == HD_TOUCH_READ || kind == HD_TOUCH_LOAD;
}

/* Whether the steps may not be swapped: both touch one object, and not both only look; or nothing
 * is known of one of them. */
static inline bool hdi_actors_depend(const struct hdi_actor *a, const struct hdi_actor *b)
{
    if (a->kind == HD_TOUCH_ANY || b->kind == HD_TOUCH_ANY || !a->object || !b->object) return true;
    return a->object == b->object && !(hdi_touch_looks(a->kind) && hdi_touch_looks(b->kind));
}

struct hdi_sampler;

struct hdi_sampler_kind {
    const char *name;
    bool enumerates; /* schedules are not drawn from seeds: more() says whether there is another */

    /* Parameters, what follows the name and its colon ("" if nothing does). Returns: a sampler;
     * NULL with *error, a sentence, or NULL for want of memory. */
    struct hdi_sampler *(*create)(const char *parameters, const char **error);
    void (*destroy)(struct hdi_sampler *sampler); /* NULL: free() will do */

    /* A schedule begins; ends. end() is told how it went, and may learn from it what parameters
     * were left out; what it has learned counts from the next begin() on. NULL: nothing to do. */
    void (*begin)(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed);
    void (*end)(struct hdi_sampler *sampler, struct hdi_schedule *schedule);

    /* A task was spawned; called before it is first among the candidates. NULL: nothing to do. */
    void (*spawned)(struct hdi_sampler *sampler, struct hdi_actor *actor, uint32_t number);

    /* It has ended; `actor` still says what it was. Not called for a task that is dropped, nor for
     * those that are left when the schedule ends. NULL: nothing to do. */
    void (*ended)(struct hdi_sampler *sampler, const struct hdi_actor *actor, uint32_t number);

    /* Which of these goes on, the running task among them if it can: `running` is its index, or
     * -1, also if it has yielded. */
    unsigned (*pick)(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running);

    /* This task takes a step, whether or not there was another candidate; `actor` still says what
     * the step touches. NULL: nothing to do. */
    void (*stepped)(struct hdi_sampler *sampler, const struct hdi_actor *actor, uint32_t number);

    /* The same parameters as they were at the last begin(), what was learned filled in. Returns the
     * length, like snprintf(). NULL: none. */
    int (*text)(const struct hdi_sampler *sampler, char *text, size_t size);

    /* Enumerating ones, which keep what they know in memory that a forked process shares:
     * prepare the next schedule, after its text was asked for. Returns whether there is one. Their
     * schedules all have the same seed. */
    bool (*more)(struct hdi_sampler *sampler);
    /* Whether the last schedule did not do again what the one before it did. */
    bool (*diverged)(const struct hdi_sampler *sampler);
    /* There is no more; whether nothing was left out that its parameters ask for. */
    bool (*complete)(const struct hdi_sampler *sampler);
};

/* The first member of each. */
struct hdi_sampler {
    const struct hdi_sampler_kind *kind;
};

/* sampler_random.c. Known to the schedule, which spares its pick() a call, and a list of all. */
extern const struct hdi_sampler_kind hdi_sampler_random;

struct hdi_random {
    struct hdi_sampler base;
    struct hdi_prng prng;
};

static inline unsigned hdi_random_pick(struct hdi_random *random, unsigned count)
{
    return hdi_prng_below(&random->prng, count);
}

extern const struct hdi_sampler_kind hdi_sampler_fair;   /* sampler_fair.c */
extern const struct hdi_sampler_kind hdi_sampler_cohort; /* sampler_cohort.c */
extern const struct hdi_sampler_kind hdi_sampler_pct;    /* sampler_pct.c */
extern const struct hdi_sampler_kind hdi_sampler_pos;    /* sampler_pos.c */
extern const struct hdi_sampler_kind hdi_sampler_urw;    /* sampler_urw.c */
extern const struct hdi_sampler_kind hdi_sampler_all;    /* sampler_all.c */

/* From a text like "pct:3:40". Returns: 0; -EINVAL with *error, a sentence that names the nearest
 * valid one; -ENOMEM. */
int hdi_sampler_create(struct hdi_sampler **sampler, const char *text, const char **error);
void hdi_sampler_destroy(struct hdi_sampler *sampler);

/* For create(): zeroed memory for a sampler without parameters. Returns what create() does. */
struct hdi_sampler *hdi_sampler_plain(size_t size, const char *parameters, const char **error);

/* Its name and parameters. Returns the length, like snprintf(). */
int hdi_sampler_text(const struct hdi_sampler *sampler, char *text, size_t size);

#endif
