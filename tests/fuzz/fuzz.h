/* SPDX-License-Identifier: MIT
 *
 * fuzz: what the fuzz targets share. A target is one *_fuzz.c here, with a
 * LLVMFuzzerTestOneInput(); scripts/fuzz runs them all.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_EXPECT(cond)                                                                \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            fprintf(stderr, "%s:%d: expected: %s\n", __FILE__, __LINE__, #cond);         \
            abort();                                                                     \
        }                                                                                \
    } while (0)

/* The input as a list of choices; when it is used up, all choices are 0. */
struct fuzz {
    const uint8_t *data;
    size_t left;
};

static inline unsigned fuzz_byte(struct fuzz *f)
{
    if (f->left == 0) return 0;
    f->left--;
    return *f->data++;
}

/* The first half are choices, the rest is a text to work on. */
static inline struct fuzz fuzz_split(const uint8_t *data, size_t size, const char **text,
                                     size_t *length)
{
    *text = (const char *)data + size / 2;
    *length = size - size / 2;
    return (struct fuzz){data, size / 2};
}

/* How the next call below ends: so many bytes at most, at least 1, or an error that passes. */
static inline ssize_t fuzz_step(struct fuzz *f)
{
    static const ssize_t errors[] = {-ECANCELED, -ETIMEDOUT, -EAGAIN};
    if (f->left == 0) return SSIZE_MAX;
    const unsigned byte = fuzz_byte(f);
    return byte < 3 ? errors[byte] : byte < 128 ? 1 + byte % 4 : byte;
}

#endif
