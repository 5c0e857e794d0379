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
 *       -EOVERFLOW  over a stated limit
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

/* The version of the library that runs, e.g. "0.1.0".
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_version(void);

#ifdef __cplusplus
}
#endif
#endif
