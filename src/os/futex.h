/* SPDX-License-Identifier: MIT
 *
 * futex: wait while a word has a value, and wake those who wait.
 */
#ifndef HDI_OS_FUTEX_H
#define HDI_OS_FUTEX_H

#include <stdint.h>

#include "base/atomics.h"

/* Wait while *word == expected, until hdi_futex_wake() or the deadline (absolute, on
 * hdi_clock_now(); INT64_MAX is never). May wake early.
 * Returns: 0 when woken or interrupted, -EAGAIN if *word was different, -ETIMEDOUT. */
int hdi_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t deadline_ns);

/* Wake up to `count` waiters. The word may be gone already: nothing is read. Returns
 * how many were woken. */
int hdi_futex_wake(_Atomic(uint32_t) *word, int count);

#endif
