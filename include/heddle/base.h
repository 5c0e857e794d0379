/* SPDX-License-Identifier: MIT
 *
 * base: what every other header needs: visibility, time, spawn sites.
 *
 * Conventions of the whole library
 *   - Calls return 0 (or a count) or a negative errno; errno itself is not touched.
 *       -EAGAIN     would block              -ETIMEDOUT  the deadline passed
 *       -ECANCELED  the task is cancelled    -EPIPE      closed
 *       -ENOMEM     out of memory            -EINVAL     misuse that can be told
 *       -EDEADLK    can never happen         -ESHUTDOWN  the runtime is ending
 *       -EOVERFLOW  over a stated limit      -EDQUOT     the budget is used up
 *       -EPERM      a capability is missing
 *   - Out-parameters stay untouched on failure.
 *   - Time is int64_t nanoseconds; a deadline is absolute, on the runtime's clock.
 *   - An option struct starts with its size, set by its *_INIT macro; NULL means all
 *     defaults.
 */
#ifndef HEDDLE_BASE_H
#define HEDDLE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HD_VERSION_MAJOR 0
#define HD_VERSION_MINOR 1
#define HD_VERSION_PATCH 0
#define HD_VERSION       "0.1.0"

#if defined(__GNUC__) || defined(__clang__)
#define HD_API      __attribute__((visibility("default")))
#define HD_MUST_USE __attribute__((warn_unused_result))
#else
#error "heddle needs gcc or clang"
#endif

/* Deadlines: never, and "do not wait". */
#define HD_FOREVER INT64_MAX
#define HD_NOW     INT64_C(0)

/* Durations. */
#define HD_MS_NS     INT64_C(1000000)
#define HD_SECOND_NS INT64_C(1000000000)

/* Where a task was spawned, for reports and dumps. HD_SITE makes one that lives
 * as long as the program. */
typedef struct hd_site {
    const char *file;
    int line;
    const char *function;
} hd_site;

#ifdef __cplusplus
#define HD_SITE                                                                          \
    ([](const char *fn) -> const hd_site * {                                             \
        static const hd_site site = {__FILE__, __LINE__, fn};                            \
        return &site;                                                                    \
    }(__func__))
#else
#define HD_SITE                                                                          \
    (__extension__({                                                                     \
        static const hd_site hd_site_here = {__FILE__, __LINE__, __func__};              \
        &hd_site_here;                                                                   \
    }))
#endif

/* private: a pointer to an option struct with some fields set, for the block macros. C++17 lacks
 * designated initialisers, so there each `.field = value` is an assignment; at most twelve. */
#ifdef __cplusplus
#define HD_SET_1_(o, f)       o f;
#define HD_SET_2_(o, f, ...)  o f; HD_SET_1_(o, __VA_ARGS__)
#define HD_SET_3_(o, f, ...)  o f; HD_SET_2_(o, __VA_ARGS__)
#define HD_SET_4_(o, f, ...)  o f; HD_SET_3_(o, __VA_ARGS__)
#define HD_SET_5_(o, f, ...)  o f; HD_SET_4_(o, __VA_ARGS__)
#define HD_SET_6_(o, f, ...)  o f; HD_SET_5_(o, __VA_ARGS__)
#define HD_SET_7_(o, f, ...)  o f; HD_SET_6_(o, __VA_ARGS__)
#define HD_SET_8_(o, f, ...)  o f; HD_SET_7_(o, __VA_ARGS__)
#define HD_SET_9_(o, f, ...)  o f; HD_SET_8_(o, __VA_ARGS__)
#define HD_SET_10_(o, f, ...) o f; HD_SET_9_(o, __VA_ARGS__)
#define HD_SET_11_(o, f, ...) o f; HD_SET_10_(o, __VA_ARGS__)
#define HD_SET_12_(o, f, ...) o f; HD_SET_11_(o, __VA_ARGS__)
#define HD_SET_13_(o, f, ...) o f; HD_SET_12_(o, __VA_ARGS__)
#define HD_14TH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, ...) n
#define HD_SET_(o, ...)                                                                  \
    HD_14TH_(__VA_ARGS__, HD_SET_13_, HD_SET_12_, HD_SET_11_, HD_SET_10_, HD_SET_9_,     \
             HD_SET_8_, HD_SET_7_, HD_SET_6_, HD_SET_5_, HD_SET_4_, HD_SET_3_,           \
             HD_SET_2_, HD_SET_1_, 0)                                                    \
    (o, __VA_ARGS__)
#define HD_WITH_(type, ...)                                                              \
    hd_with_([&]() -> type {                                                             \
        type hd_with_these = type();                                                     \
        HD_SET_(hd_with_these, __VA_ARGS__)                                              \
        return hd_with_these;                                                            \
    }())
extern "C++" {
template <typename T> inline const T *hd_with_(const T &options)
{
    return &options; /* It lives until the end of the whole expression. */
}
}
#else
#define HD_WITH_(type, ...) (&(type){__VA_ARGS__})
#endif

/* The version of the library that runs, e.g. "0.1.0".
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_version(void);

#ifdef __cplusplus
}
#endif
#endif
