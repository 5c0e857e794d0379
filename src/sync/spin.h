/* SPDX-License-Identifier: MIT
 *
 * spin: waiting a moment for what is over soon, before sleeping.
 *
 * Spinning pays if whoever is waited for runs on another CPU and is almost done. Neither can
 * be seen from here: its task, even its runtime, may be gone by the time one looks. So each
 * object remembers how often spinning was in vain lately, and spins less the more often it
 * was: a lock that is held across waits costs one round.
 *
 * Not in sim, nor with one CPU, nor where nobody else could be running, nor in a model build.
 */
#ifndef HDI_SYNC_SPIN_H
#define HDI_SYNC_SPIN_H

#include "sched/runtime.h"

enum {
    HDI_SPIN_ROUNDS = 16, /* at most */
    HDI_SPIN_PAUSES = 16, /* in a round */
};

struct hdi_spin {
    _Atomic(uint16_t) *vain; /* the object's memory; anyone, relaxed: a guess */
    unsigned rounds;         /* left */
    bool allowed;
};

/* Whether others can be running while the caller spins. */
static inline bool hdi_spin_allowed(void)
{
    if (HDI_MODEL) return false;
    const struct hd_task *task = hdi_task_self();
    if (!task) return !hdi_sched_thread_home();
    const struct hd_runtime *runtime = task->runtime;
    return hdi_sched_may_spin(runtime) &&
           (task->home->worker_count > 1 || runtime->dispatchers->next);
}

/* Get ready to spin. */
static inline void hdi_spin_again_from(struct hdi_spin *spin)
{
    spin->rounds = 0;
    if (!spin->allowed) return;
    const unsigned vain = hdi_load_relaxed(spin->vain);
    spin->rounds = vain >= HDI_SPIN_ROUNDS ? 1 : HDI_SPIN_ROUNDS - vain;
}

static inline struct hdi_spin hdi_spin_begin(_Atomic(uint16_t) *vain, int64_t deadline)
{
    struct hdi_spin spin = {.vain = vain, .allowed = deadline != HD_NOW && hdi_spin_allowed()};
    hdi_spin_again_from(&spin);
    return spin;
}

/* One round. Returns false if it is time to sleep. */
static inline bool hdi_spin_again(struct hdi_spin *spin)
{
    if (spin->rounds == 0) return false;
    spin->rounds--;
    for (int i = 0; i < HDI_SPIN_PAUSES; i++) hdi_cpu_relax();
    return true;
}

/* A CAS was lost to another CPU: it may have the cache line for a while, and do more with it,
 * rather than both pass it to and fro. */
static inline void hdi_back_off(unsigned *round)
{
    enum { ROUNDS_MAX = 6 };
    if (HDI_MODEL) return;
    for (unsigned i = 0; i < 1u << *round; i++) hdi_cpu_relax();
    if (*round < ROUNDS_MAX) ++*round;
}

/* Remember whether it paid. */
static inline void hdi_spin_end(struct hdi_spin *spin, bool paid)
{
    if (!spin->allowed) return;
    const unsigned vain = hdi_load_relaxed(spin->vain);
    if (paid && vain > 0) hdi_store_relaxed(spin->vain, (uint16_t)(vain / 2));
    if (!paid && vain < HDI_SPIN_ROUNDS) hdi_store_relaxed(spin->vain, (uint16_t)(vain + 1));
}

#endif
