/* SPDX-License-Identifier: MIT
 *
 * The functions that the program `lowering` registers.
 */
#include "native.h"

#include <errno.h>

#include <heddle.h>

/* As if it took some time: others run in between. */
static int work(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        const int err = janus_checkpoint(100);
        if (err) return err;
        hd_yield();
    }
    return 0;
}

static int compute(const int64_t *arguments, int64_t *value)
{
    const int err = work(3);
    if (err) return err;
    return __builtin_mul_overflow(arguments[0], arguments[0], value) ? -EOVERFLOW : 0;
}

static int fib(const int64_t *arguments, int64_t *value)
{
    enum { FIB_MAX = 92 }; /* the last that fits 64 bits */
    if (arguments[0] < 0 || arguments[0] > FIB_MAX) return -EDOM;
    int64_t a = 0, b = 1;
    for (int64_t i = 0; i < arguments[0]; i++) {
        const int64_t next = i + 1 < FIB_MAX ? a + b : b;
        a = b;
        b = next;
        const int err = janus_checkpoint(1);
        if (err) return err;
    }
    *value = a;
    return 0;
}

static int sleep_ms(const int64_t *arguments, int64_t *value)
{
    enum { SLEEP_MS_MAX = 60 * 1000 };
    if (arguments[0] < 0 || arguments[0] > SLEEP_MS_MAX) return -EDOM;
    const int err = hd_sleep_ms(arguments[0]);
    if (err) return err;
    *value = arguments[0];
    return 0;
}

static int work_a(const int64_t *arguments, int64_t *value)
{
    (void)arguments;
    *value = 1;
    return work(2);
}

static int work_b(const int64_t *arguments, int64_t *value)
{
    (void)arguments;
    *value = 2;
    return work(4);
}

/* Ends with the error of this number; errno(3) lists them. */
static int fail(const int64_t *arguments, int64_t *value)
{
    enum { ERRNO_MAX = 133 };
    (void)value;
    return arguments[0] > 0 && arguments[0] <= ERRNO_MAX ? -(int)arguments[0] : -EDOM;
}

const struct native natives[] = {
    {"compute", 1, compute}, {"fib", 1, fib},       {"sleep_ms", 1, sleep_ms},
    {"work_a", 0, work_a},   {"work_b", 0, work_b}, {"fail", 1, fail},
    {NULL, 0, NULL},
};
