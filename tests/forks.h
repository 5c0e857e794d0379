/* SPDX-License-Identifier: MIT
 *
 * forks: what the tests of jobs share: random trees whose sums tell in which order they were put
 * together, and a way to have a job taken by another worker.
 */
#ifndef TEST_FORKS_H
#define TEST_FORKS_H

#include <heddle/fork.h>

#include "rt.h"

/* ---- trees ---- */

enum { FORKS_FAN_MAX = 6 };

/* A tree is all in its root: what it looks like below is drawn from the seed. */
struct forks_part {
    uint64_t seed;
    unsigned depth; /* at most so many levels below */
};

struct forks_sum {
    uint64_t hash; /* of all sums below, in order */
    uint64_t nodes;
};

static inline uint64_t forks_mix(uint64_t x)
{
    x = (x + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 29;
}

/* Some have one child, some many, some end early. */
static inline unsigned forks_fan(struct forks_part part)
{
    return part.depth > 0 ? 1 + (unsigned)(forks_mix(part.seed) >> 40) % FORKS_FAN_MAX : 0;
}

static inline struct forks_part forks_child(struct forks_part part, unsigned i)
{
    const uint64_t seed = forks_mix(part.seed ^ (i + 1));
    const unsigned skip = (unsigned)(seed >> 50) % 4 == 0 ? 2 : 0;
    return (struct forks_part){seed, part.depth > skip + 1 ? part.depth - 1 - skip : 0};
}

static inline struct forks_sum forks_leaf(struct forks_part part)
{
    return (struct forks_sum){forks_mix(part.seed), 1};
}

static inline void forks_add(struct forks_sum *sum, struct forks_sum child)
{
    sum->hash = forks_mix(sum->hash) + child.hash;
    sum->nodes += child.nodes;
}

static inline struct forks_sum forks_serial(struct forks_part part)
{
    struct forks_sum sum = forks_leaf(part);
    const unsigned fan = forks_fan(part);
    for (unsigned i = 0; i < fan; i++) forks_add(&sum, forks_serial(forks_child(part, i)));
    return sum;
}

HD_JOB(forks_tree, struct forks_sum, struct forks_part, part)
{
    forks_tree_job children[FORKS_FAN_MAX];
    const unsigned fan = forks_fan(part);
    for (unsigned i = 0; i < fan; i++) {
        HD_FORK_INTO(&children[i], forks_tree, forks_child(part, i));
    }
    struct forks_sum below[FORKS_FAN_MAX], sum = forks_leaf(part);
    for (unsigned i = fan; i-- > 0;) below[i] = HD_SYNC_FROM(&children[i], forks_tree);
    for (unsigned i = 0; i < fan; i++) forks_add(&sum, below[i]);
    return sum;
}

static inline void forks_expect(struct forks_part part, struct forks_sum sum)
{
    const struct forks_sum serial = forks_serial(part);
    EXPECT_EQ(sum.nodes, serial.nodes);
    EXPECT(sum.hash == serial.hash);
}

/* The tree of this seed, as jobs of this runtime (NULL: the caller's). */
static inline void forks_check(hd_runtime *runtime, uint64_t seed, unsigned depth)
{
    const struct forks_part part = {forks_mix(seed), depth};
    forks_expect(part, HD_RUN_JOB(runtime, forks_tree, part));
}

/* ---- jobs that are taken ---- */

HD_JOB_VOID(forks_nothing, atomic_int *, count)
{
    if (count) atomic_fetch_add(count, 1);
}

/* Fork until the flag is set by a job forked before, which only another worker can run as long.
 * Context: a job, live, with two workers or more. */
#define FORKS_UNTIL(flag)                                                                \
    while (atomic_load(flag) == 0) {                                                     \
        HD_FORK(nothing, forks_nothing, NULL);                                           \
    }

static inline uint64_t forks_taken(hd_runtime *runtime)
{
    hd_stats stats;
    hd_runtime_stats(runtime ? runtime : hd_runtime_self(), &stats);
    return stats.jobs_taken;
}

#endif
