/* SPDX-License-Identifier: MIT
 *
 * caps: short forms for tests of capabilities. What is not expected to fail is expected to
 * succeed.
 */
#ifndef TEST_CAPS_H
#define TEST_CAPS_H

#include "nurseries.h"

#define LIMITS(...) (&(hd_cap_limits){.size = sizeof(hd_cap_limits), __VA_ARGS__})

static inline hd_cap cap_self(hd_cap_kind kind)
{
    return hd_cap_self(hd_runtime_self(), kind);
}

static inline hd_cap cap_derive(hd_cap from, const hd_cap_limits *limits)
{
    hd_cap cap = {0, 0};
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), from, limits, &cap), 0);
    EXPECT(hd_cap_valid(hd_runtime_self(), cap));
    return cap;
}

/* Derived from the caller's own. */
static inline hd_cap cap_of(hd_cap_kind kind, const hd_cap_limits *limits)
{
    return cap_derive(cap_self(kind), limits);
}

static inline void cap_revoke(hd_cap cap)
{
    EXPECT_EQ(hd_cap_revoke(hd_runtime_self(), cap), 0);
    EXPECT(!hd_cap_valid(hd_runtime_self(), cap));
}

static inline hd_caps caps_with(hd_cap_kind kind, hd_cap cap)
{
    hd_caps caps = HD_CAPS_INIT;
    caps.cap[kind] = cap;
    return caps;
}

static inline bool cap_is_none(hd_cap cap)
{
    return cap.id == 0 && cap.tag == 0;
}

static inline bool cap_equal(hd_cap a, hd_cap b)
{
    return a.id == b.id && a.tag == b.tag;
}

static inline hd_nursery_options caps_options(const hd_caps *caps)
{
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.caps = caps;
    return options;
}

/* Run fn(arg) as the one task of a nursery with these; from a fiber. Returns its result. */
static inline int caps_run(const hd_caps *caps, hd_fn *fn, void *arg)
{
    const hd_nursery_options options = caps_options(caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go(&nursery, fn, arg);
    return hd_nursery_leave(&nursery);
}

/* The same with one capability. */
static inline int cap_run(hd_cap_kind kind, hd_cap cap, hd_fn *fn, void *arg)
{
    const hd_caps caps = caps_with(kind, cap);
    return caps_run(&caps, fn, arg);
}

#define EXPECT_MISSING(text)                                                             \
    do {                                                                                 \
        const char *missing_ = hd_missing();                                             \
        if (strcmp(missing_, (text)) != 0)                                               \
            test_fail(__FILE__, __LINE__, "hd_missing() is \"%s\", not \"%s\"", missing_, (text)); \
    } while (0)

/* `format` has one %llu for the id. */
#define EXPECT_MISSING_OF(cap, format)                                                   \
    do {                                                                                 \
        char text_[200];                                                                 \
        snprintf(text_, sizeof(text_), format, (unsigned long long)(cap).id);            \
        EXPECT_MISSING(text_);                                                           \
    } while (0)

#define EXPECT_REFUSED(call)                                                             \
    do {                                                                                 \
        const int err_ = (call);                                                         \
        if (err_ != -EPERM)                                                              \
            test_fail(__FILE__, __LINE__, "%s is %d, not -EPERM", #call, err_);          \
    } while (0)

#endif
