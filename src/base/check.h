/* SPDX-License-Identifier: MIT
 *
 * check: assertions. HD_CHECK stays on in every build, for misuse and for cold
 * invariants; HDI_ASSERT is for debug, test and model builds.
 */
#ifndef HDI_BASE_CHECK_H
#define HDI_BASE_CHECK_H

#include <stdnoreturn.h>

/* Report a broken invariant and end the process (in a model build: end this
 * execution with a verdict). */
noreturn void hdi_fail(const char *file, int line, const char *what);

/* Called by hdi_fail() before it aborts, if set; a model run does not return. */
extern void (*hdi_fail_hook)(const char *file, int line, const char *what);

#define HD_CHECK_MSG(cond, what)                                                         \
    (__builtin_expect(!!(cond), 1) ? (void)0 : hdi_fail(__FILE__, __LINE__, what))
#define HD_CHECK(cond) HD_CHECK_MSG(cond, #cond)

#if HDI_DEBUG
#define HDI_ASSERT(cond) HD_CHECK_MSG(cond, #cond)
#else
#define HDI_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

#define hdi_likely(x)   __builtin_expect(!!(x), 1)
#define hdi_unlikely(x) __builtin_expect(!!(x), 0)

/* For what must not be a call of its own: what contains a context switch (ctx/jump.h),
 * and what is on the way of every task switch. */
#define HDI_ALWAYS_INLINE static inline __attribute__((always_inline))

#define hdi_container_of(ptr, type, member)                                              \
    ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
