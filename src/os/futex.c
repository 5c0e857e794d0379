/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if HDI_MODEL
int hdi_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t deadline_ns)
{
    return hdi_model_futex_wait(word, expected, deadline_ns);
}

int hdi_futex_wake(_Atomic(uint32_t) *word, int count)
{
    return hdi_model_futex_wake(word, count);
}
#else
/* FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time; FUTEX_WAIT a relative one. */
int hdi_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t deadline_ns)
{
    struct timespec at, *limit = NULL;
    if (deadline_ns != INT64_MAX) {
        if (deadline_ns < 0) deadline_ns = 0;
        at.tv_sec = deadline_ns / 1000000000;
        at.tv_nsec = deadline_ns % 1000000000;
        limit = &at;
    }
    const int saved = errno;
    const long err = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                             limit, NULL, FUTEX_BITSET_MATCH_ANY);
    const int code = err < 0 ? -errno : 0;
    errno = saved;
    return code == -EINTR ? 0 : code;
}

int hdi_futex_wake(_Atomic(uint32_t) *word, int count)
{
    const int saved = errno;
    const long n = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
    errno = saved;
    return n < 0 ? 0 : (int)n;
}
#endif
