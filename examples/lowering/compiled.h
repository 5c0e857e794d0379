/* SPDX-License-Identifier: MIT
 *
 * compiled: short forms for the tests of the lowering.
 */
#ifndef LOWERING_COMPILED_H
#define LOWERING_COMPILED_H

#include "lower.h"
#include "rt.h"
#include "run.h"

static inline struct source text_source(const char *text)
{
    return (struct source){"test.janus", text, strlen(text)};
}

/* A program that is right. */
static inline struct program compiled(const struct source *source, const struct native *registry)
{
    struct program program;
    struct fault fault;
    if (!compile(source, registry, &program, &fault)) {
        source_report(source, &fault, stderr);
        test_fail(__FILE__, __LINE__, "it does not compile");
    }
    return program;
}

static inline struct source sample(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.janus", SAMPLES, name);
    struct source source = {0};
    EXPECT_EQ(source_load(&source, path), 0);
    return source;
}

static inline void expect_text(const char *text, const char *expected)
{
    if (strcmp(text, expected) == 0) return;
    test_fail(__FILE__, __LINE__, "expected:\n%s\ngot:\n%s", expected, text);
}

#endif
