/* SPDX-License-Identifier: MIT
 *
 * native: C functions that a program may call.
 */
#ifndef LOWERING_NATIVE_H
#define LOWERING_NATIVE_H

#include <stddef.h>
#include <stdint.h>

/* Runs in a fiber. Returns: 0 with *value, or a negative errno. */
typedef int native_fn(const int64_t *arguments, int64_t *value);

struct native {
    const char *name;
    unsigned arguments;
    native_fn *fn;
};

/* A registry ends with one whose name is NULL. */
extern const struct native natives[];

#endif
