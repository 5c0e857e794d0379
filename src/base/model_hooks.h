/* SPDX-License-Identifier: MIT
 *
 * model_hooks: what the seams call in a model build. Implemented in sim/model.c.
 *
 * Every hook but hdi_model_plain() is a point where the explorer may run another model
 * thread first.
 */
#ifndef HDI_BASE_MODEL_HOOKS_H
#define HDI_BASE_MODEL_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hdi_model_rmw_op {
    HDI_RMW_XCHG,
    HDI_RMW_ADD,
    HDI_RMW_SUB,
    HDI_RMW_OR,
    HDI_RMW_AND,
};

/* base/atomics.h: `order` is a C11 memory_order. Values travel as little-endian
 * 64-bit numbers whatever the width. */
uint64_t hdi_model_load(const volatile void *addr, unsigned bytes, int order);
void hdi_model_store(volatile void *addr, unsigned bytes, uint64_t value, int order);
uint64_t hdi_model_rmw(volatile void *addr, unsigned bytes, enum hdi_model_rmw_op op,
                       uint64_t value, int order);
bool hdi_model_cas(volatile void *addr, unsigned bytes, uint64_t *expected, uint64_t desired,
                   int order);

/* Announce a plain access to data that threads hand to each other. Not a scheduling
 * point. Two accesses race if one writes and neither happens before the other. */
void hdi_model_plain(const volatile void *addr, bool write, const char *file, int line);

/* A turn of a spin loop: the thread is not run again before another has moved. */
void hdi_model_pause(void);

/* os/membarrier.h: drains every thread's store buffer. */
void hdi_model_barrier_all(void);

/* os/futex.h: returns 0 when woken, -EAGAIN if *addr != expected, -ETIMEDOUT if there is a
 * deadline (INT64_MAX: none) and the explorer chose to let the time pass until then. */
int hdi_model_futex_wait(volatile void *addr, uint32_t expected, int64_t deadline_ns);
int hdi_model_futex_wake(volatile void *addr, int count);

/* Zeroed memory that goes with the execution; freeing it is a promise that no thread
 * touches it again, and breaking the promise in any atomic, futex wait or announced plain
 * access is a verdict. */
void *hdi_model_alloc(size_t bytes);
void hdi_model_free(void *pointer);

/* os/clock.h: 0 at first; moves on when a wait times out. */
int64_t hdi_model_now(void);

/* os/thread.h */
void *hdi_model_thread_start(void (*entry)(void *), void *arg);
void hdi_model_thread_join(void *thread);
void **hdi_model_thread_slot(void); /* the calling model thread's self pointer */

#endif
