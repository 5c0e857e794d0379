/* SPDX-License-Identifier: MIT
 *
 * test: the harness of every test program.
 *
 *   TEST(name) { ... EXPECT(x == 1); ... }   runs once
 *   TEST_WORLDS(name, options) { ... }       runs in live, then in sim with several
 *                                            seeds, every other one with points
 *                                            (explore.h); a failure prints the seed
 *   TEST_IO(name, options) { ... }           the same, in live by epoll and by io_uring
 *   TEST_DRIVERS(name, options) { ... }      only in live, by epoll and by io_uring
 *   TEST_MAIN                                 once per program
 *
 * Each test runs in its own process, so that a crash or a hang is one failure and
 * nothing leaks into the next. Output is TAP. Arguments: test names to run, or
 * --list. HEDDLE_TEST_SEEDS is how many sim seeds (default 20), HEDDLE_TEST_SAMPLER
 * the sampler that all of them have (empty: none), HEDDLE_TEST_TIMEOUT the seconds a
 * test may take (default 120).
 */
#ifndef TEST_H
#define TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle.h>

enum test_runs { TEST_ONCE, TEST_IN_WORLDS, TEST_BY_DRIVERS, TEST_IN_BOTH };

struct test {
    const char *name;
    void (*run)(const hd_options *options);
    enum test_runs runs;
    struct test *next;
};

extern struct test *test_first, **test_last;
int test_main(int argc, char **argv);

#define TEST_REGISTER_(name, runs)                                                       \
    static void test_run_##name(const hd_options *options);                              \
    static struct test test_##name = {#name, test_run_##name, runs, NULL};               \
    __attribute__((constructor)) static void test_register_##name(void)                  \
    {                                                                                    \
        *test_last = &test_##name;                                                       \
        test_last = &test_##name.next;                                                   \
    }

#define TEST(name)                                                                       \
    TEST_REGISTER_(name, TEST_ONCE)                                                      \
    static void test_run_##name(__attribute__((unused)) const hd_options *options_)
#define TEST_WORLDS(name, options)                                                       \
    TEST_REGISTER_(name, TEST_IN_WORLDS)                                                 \
    static void test_run_##name(const hd_options *options)
#define TEST_IO(name, options)                                                           \
    TEST_REGISTER_(name, TEST_IN_BOTH)                                                   \
    static void test_run_##name(const hd_options *options)
#define TEST_DRIVERS(name, options)                                                      \
    TEST_REGISTER_(name, TEST_BY_DRIVERS)                                                \
    static void test_run_##name(const hd_options *options)

#define TEST_MAIN                                                                        \
    struct test *test_first, **test_last;                                                \
    __attribute__((constructor(101))) static void test_list_init(void)                   \
    {                                                                                    \
        test_last = &test_first;                                                         \
    }                                                                                    \
    int main(int argc, char **argv)                                                      \
    {                                                                                    \
        return test_main(argc, argv);                                                    \
    }

/* End this test as failed or skipped. */
__attribute__((__noreturn__, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((__noreturn__)) void test_skip(const char *why);

#define EXPECT(cond) ((cond) ? (void)0 : test_fail(__FILE__, __LINE__, "expected: %s", #cond))
#define EXPECT_EQ(a, b)                                                                  \
    do {                                                                                 \
        const long long a_ = (long long)(a), b_ = (long long)(b);                        \
        if (a_ != b_)                                                                    \
            test_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #a, a_, #b, b_); \
    } while (0)

#endif
