/* SPDX-License-Identifier: MIT
 *
 * End to end: from text to opcodes to fibers, in both worlds.
 */
#include "compiled.h"

TEST_MAIN

/* ---- functions for these programs ---- */

static atomic_int begun, ended, cancelled;

/* Waits until it is cancelled, and says so. */
static int linger(const int64_t *arguments, int64_t *value)
{
    (void)arguments;
    (void)value;
    atomic_fetch_add(&begun, 1);
    int err = 0;
    while (!err) err = hd_park();
    atomic_fetch_add(&cancelled, err == -ECANCELED);
    return err;
}

/* Ends with an error, once `arguments[0]` others linger. */
static int fail_after(const int64_t *arguments, int64_t *value)
{
    (void)value;
    while (atomic_load(&begun) < arguments[0]) hd_yield();
    return -EIO;
}

/* Takes a while, and counts. */
static int count(const int64_t *arguments, int64_t *value)
{
    for (int i = 0; i < 5; i++) hd_yield();
    *value = arguments[0];
    atomic_fetch_add(&ended, 1);
    return 0;
}

static int counted(const int64_t *arguments, int64_t *value)
{
    (void)arguments;
    *value = atomic_load(&ended);
    return 0;
}

static int broken(const int64_t *arguments, int64_t *value)
{
    (void)arguments;
    (void)value;
    return -EIO;
}

static int subtract(const int64_t *arguments, int64_t *value)
{
    *value = arguments[0] - arguments[1];
    return 0;
}

static const struct native own[] = {
    {"linger", 0, linger},   {"fail_after", 1, fail_after}, {"count", 1, count},
    {"counted", 0, counted}, {"broken", 0, broken},         {"subtract", 2, subtract},
    {NULL, 0, NULL},
};

/* ---- running ---- */

struct ran {
    int err;
    char *printed; /* the caller frees it */
    struct fault fault;
    unsigned line, column;
};

static struct ran run(const struct source *source, const struct native *registry,
                      const hd_options *options)
{
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    atomic_store(&cancelled, 0);
    struct program program = compiled(source, registry);
    struct ran ran = {0};
    size_t bytes;
    FILE *out = open_memstream(&ran.printed, &bytes);
    ran.err = run_program(&program, options, out, &ran.fault);
    fclose(out);
    source_place(source, ran.fault.at, &ran.line, &ran.column);
    program_free(&program);
    return ran;
}

static void expect_prints(const char *text, const hd_options *options, const char *expected)
{
    const struct source source = text_source(text);
    struct ran ran = run(&source, own, options);
    if (ran.err) source_report(&source, &ran.fault, stderr);
    EXPECT_EQ(ran.err, 0);
    expect_text(ran.printed, expected);
    free(ran.printed);
}

/* It prints nothing, and fails there. */
static void expect_fails(const char *text, const hd_options *options, int err, unsigned line,
                         unsigned column, const char *words)
{
    const struct source source = text_source(text);
    struct ran ran = run(&source, own, options);
    EXPECT_EQ(ran.err, err);
    expect_text(ran.printed, "");
    if (ran.line != line || ran.column != column || !strstr(ran.fault.text, words)) {
        test_fail(__FILE__, __LINE__, "expected %u:%u %s, got %u:%u %s", line, column, words,
                  ran.line, ran.column, ran.fault.text);
    }
    free(ran.printed);
}

/* ---- what a program computes ---- */

TEST_WORLDS(arithmetic_and_calls, options)
{
    expect_prints("let x = 2 + 3 * 4 - 1\n"
                  "print(x, -x, (2 + 3) * 4, 1 - 2 - 3, - -7)\n"
                  "print(\"subtract:\", subtract(x, 20), subtract(20, x))\n"
                  "print()\n"
                  "print(-9223372036854775808 + 9223372036854775807)\n",
                  options, "13 -13 20 -4 7\nsubtract: -7 7\n\n-1\n");
}

TEST_WORLDS(await_gives_the_result_of_async, options)
{
    expect_prints("nursery {\n"
                  "    let a = async subtract(1, 100)\n"
                  "    let b = async count(7)\n"
                  "    print(await b, await a)\n"
                  "    print(await async count(3) * await async count(4))\n"
                  "}\n",
                  options, "7 -99\n12\n");
}

TEST_WORLDS(a_nursery_ends_after_its_tasks, options)
{
    expect_prints("nursery {\n"
                  "    spawn count(1)\n"
                  "    spawn count(2)\n"
                  "    async count(3)   // nobody awaits it\n"
                  "    spawn { count(4); count(5) }\n"
                  "}\n"
                  "print(counted())\n"
                  "nursery { }\n"
                  "nursery { spawn count(6) }\n"
                  "print(counted())\n",
                  options, "5\n6\n");
}

TEST_WORLDS(inner_nurseries_end_before_outer_ones, options)
{
    expect_prints("nursery {\n"
                  "    spawn {\n"
                  "        nursery {\n"
                  "            spawn { nursery { spawn count(1); spawn count(1) }; print(\"3\") }\n"
                  "        }\n"
                  "        print(\"2\", counted())\n"
                  "    }\n"
                  "}\n"
                  "print(\"1\")\n"
                  "nursery { nursery { spawn count(1) }; print(counted()) }\n",
                  options, "3\n2 2\n1\n3\n");
}

TEST_WORLDS(blocks_see_the_names_around_them, options)
{
    expect_prints("let x = 1\n"
                  "nursery {\n"
                  "    let y = x + 1\n"
                  "    let h = async count(40)\n"
                  "    spawn {\n"
                  "        let z = y + 1\n"
                  "        nursery { spawn { print(x, y, z, await h + z) } }\n"
                  "    }\n"
                  "}\n",
                  options, "1 2 3 43\n");
}

/* ---- errors ---- */

TEST_WORLDS(an_error_of_a_child_cancels_its_siblings, options)
{
    expect_fails("nursery {\n"
                 "    spawn linger()\n"
                 "    spawn linger()\n"
                 "    spawn fail_after(2)\n"
                 "}\n"
                 "print(\"never\")\n",
                 options, -EIO, 4, 5, "fail_after failed: Input/output error; the other tasks");
    EXPECT_EQ(atomic_load(&cancelled), 2);
}

TEST_WORLDS(an_error_goes_up_through_all_nurseries, options)
{
    expect_fails("nursery {\n"
                 "    spawn linger()\n"
                 "    spawn {\n"
                 "        nursery {\n"
                 "            spawn linger()\n"
                 "            spawn { nursery { spawn fail_after(2) }; print(\"never\") }\n"
                 "        }\n"
                 "        print(\"never\")\n"
                 "    }\n"
                 "}\n"
                 "print(\"never\")\n",
                 options, -EIO, 6, 31, "fail_after failed: Input/output error");
    EXPECT_EQ(atomic_load(&cancelled), 2);
}

TEST_WORLDS(an_error_of_the_body_cancels_the_children, options)
{
    expect_fails("nursery {\n"
                 "    spawn linger()\n"
                 "    nursery {\n"
                 "        spawn linger()\n"
                 "        fail_after(2)\n"
                 "        print(\"never\")\n"
                 "    }\n"
                 "}\n",
                 options, -EIO, 5, 9, "fail_after failed: Input/output error");
    EXPECT_EQ(atomic_load(&cancelled), 2);
}

TEST_WORLDS(await_of_a_child_that_fails_leads_to_the_child, options)
{
    expect_fails("nursery {\n"
                 "    let h = async broken()\n"
                 "    print(await h)\n"
                 "}\n",
                 options, -EIO, 2, 13, "broken failed: Input/output error; the other tasks");
}

TEST_WORLDS(a_body_that_waits_is_cancelled_with_its_nursery, options)
{
    expect_fails("nursery {\n"
                 "    spawn fail_after(1)\n"
                 "    linger()\n"
                 "    print(\"never\")\n"
                 "}\n",
                 options, -EIO, 2, 5, "fail_after failed: Input/output error");
    EXPECT_EQ(atomic_load(&cancelled), 1);
}

TEST_WORLDS(overflow_is_an_error, options)
{
    const char *const bad[] = {"9223372036854775807 + 1", "-9223372036854775808 - 1",
                               "9223372036854775807 * 2", "-(-9223372036854775808)"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[100];
        snprintf(text, sizeof(text), "nursery {\n  spawn {\n    let x = %s\n  }\n}", bad[i]);
        expect_fails(text, options, -EOVERFLOW, 3, 13, "the result does not fit 64 bits");
    }
}

/* ---- many ---- */

TEST_WORLDS(many_tasks, options)
{
    enum { TASKS = 1000 };
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "let x = 1\nnursery {\n");
    for (int i = 0; i < TASKS; i++) fprintf(out, "spawn %s\n", i % 2 ? "{ count(x) }" : "count(x)");
    fprintf(out, "}\nprint(counted())\n");
    fclose(out);
    expect_prints(text, options, "1000\n");
    free(text);
}

TEST_WORLDS(a_deep_tree_of_tasks_fails_from_its_leaf, options)
{
    enum { LEVELS = DEPTH_MAX / 2 - 1 }; /* and the call in the leaf */
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; i < LEVELS; i++) fprintf(out, "nursery { spawn linger(); spawn {\n");
    fprintf(out, "fail_after(%d)\n", LEVELS);
    for (int i = 0; i < LEVELS; i++) fprintf(out, "} }\n");
    fclose(out);
    expect_fails(text, options, -EIO, LEVELS + 1, 1, "fail_after failed");
    EXPECT_EQ(atomic_load(&cancelled), LEVELS);
    free(text);
}

/* ---- samples ---- */

TEST_WORLDS(the_samples_print_what_they_say, options)
{
    static const struct {
        const char *name;
        const char *last; /* lines of several tasks come in any order */
    } good[] = {{"hello", "product: 42\n"}, {"compute", ""}, {"nested", "level 1 is done\n"},
                {"sum", ""}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct source source = sample(good[i].name);
        struct ran ran = run(&source, natives, options);
        EXPECT_EQ(ran.err, 0);
        const size_t bytes = strlen(ran.printed), last = strlen(good[i].last);
        EXPECT(bytes >= last);
        expect_text(ran.printed + bytes - last, good[i].last);
        free(ran.printed);
        source_free(&source);
    }
    struct source source = sample("fail");
    struct ran ran = run(&source, natives, options);
    EXPECT_EQ(ran.err, -EIO);
    EXPECT_EQ(ran.line, 7);
    EXPECT_EQ(ran.column, 13);
    expect_text(ran.printed, "");
    free(ran.printed);
    source_free(&source);
}

TEST(a_seed_repeats_a_run)
{
    const struct source source = text_source("nursery {\n"
                                             "  spawn { print(\"a\"); count(1); print(\"b\") }\n"
                                             "  spawn { print(\"c\"); count(1); print(\"d\") }\n"
                                             "  spawn { print(\"e\"); count(1); print(\"f\") }\n"
                                             "}\n");
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    int different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        options.seed = seed;
        struct ran first = run(&source, own, &options), again = run(&source, own, &options);
        expect_text(again.printed, first.printed);
        different += strncmp(first.printed, "a\nc\ne\n", 6) != 0;
        free(first.printed);
        free(again.printed);
    }
    EXPECT(different > 0); /* and seeds do make a difference */
}
