/* SPDX-License-Identifier: MIT
 *
 * The program: its arguments, what it writes where, and its exit statuses.
 */
#include "cli.h"

#include <fcntl.h>

#include "compiled.h"

TEST_MAIN

#define HERE(name) SAMPLES "/" name ".janus"

struct said {
    int status;
    char *out, *err;
};

static struct said call(char **words)
{
    struct said said;
    size_t bytes;
    FILE *out = open_memstream(&said.out, &bytes), *err = open_memstream(&said.err, &bytes);
    said.status = cli(words, out, err);
    fclose(out);
    fclose(err);
    return said;
}

static void forget(struct said said)
{
    free(said.out);
    free(said.err);
}

#define CALL(...) call((char *[]){__VA_ARGS__, NULL})

static void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words)) test_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", words, text);
}

TEST(a_sample_prints_something)
{
    struct said said = CALL(HERE("hello"));
    EXPECT_EQ(said.status, 0);
    expect_words(said.out, "hello from a task\n");
    expect_words(said.out, "squares: 36 49\n");
    expect_text(said.err, "");
    forget(said);
}

TEST(qtjir_comes_before_the_output)
{
    struct said said = CALL("--qtjir", HERE("hello"));
    EXPECT_EQ(said.status, 0);
    EXPECT_EQ(strncmp(said.out, "%x = Const 6\n", 13), 0);
    const char *opcodes = strstr(said.out, "%a = Async_Call @compute, %x\n");
    const char *output = strstr(said.out, "\nproduct: 42\n");
    EXPECT(opcodes && output && opcodes < output);
    forget(said);
}

TEST(bad_source_is_status_1)
{
    struct said said = CALL(HERE("bad"));
    EXPECT_EQ(said.status, CLI_SOURCE);
    expect_text(said.out, "");
    expect_text(said.err, HERE("bad") ":4:25: error: this is the handle of a task, not a number: "
                          "put await before it\n"
                          "        print(\"twice:\", 2 * h)\n"
                          "                            ^\n");
    forget(said);
}

TEST(bad_usage_is_status_2)
{
    static const struct {
        char *words[4];
        const char *complaint;
    } bad[] = {
        {{NULL}, "no file: try examples/lowering/hello.janus, or --help"},
        {{"a", "b", NULL}, "more than one file"},
        {{"--what", NULL}, "unknown option: --help lists them"},
        {{"--seed", NULL}, "--seed needs a number"},
        {{"--seed", "x", NULL}, "--seed needs a number"},
        {{"--seed", "-1", NULL}, "--seed needs a number"},
        {{"--seed", "1x", NULL}, "--seed needs a number"},
        {{"--seed", "99999999999999999999", NULL}, "--seed needs a number"},
        {{"--", "--seed", NULL}, "lowering: --seed: No such file"},
        {{"/nowhere", NULL}, "lowering: /nowhere: No such file"},
        {{"/dev/zero", NULL}, "over 64 KiB: make the program smaller"},
        {{"/", NULL}, "lowering: /: Is a directory"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct said said = call((char **)bad[i].words);
        EXPECT_EQ(said.status, CLI_USAGE);
        expect_text(said.out, "");
        expect_words(said.err, bad[i].complaint);
        forget(said);
    }
}

TEST(a_program_that_fails_is_status_3)
{
    struct said said = CALL("--seed", "42", HERE("fail"));
    EXPECT_EQ(said.status, CLI_FAILED);
    expect_text(said.out, "");
    expect_words(said.err, HERE("fail") ":7:13: error: fail failed: Input/output error; the other "
                           "tasks of its nursery were cancelled\n");
    expect_words(said.err, "spawn fail(5)");
    forget(said);
}

TEST(output_that_cannot_be_written_is_status_3)
{
    char *text;
    size_t bytes;
    FILE *full = fopen("/dev/full", "we"), *err = open_memstream(&text, &bytes);
    EXPECT(full != NULL);
    EXPECT_EQ(cli((char *[]){HERE("hello"), NULL}, full, err), CLI_FAILED);
    fclose(full);
    fclose(err);
    expect_words(text, "cannot write the output");
    free(text);
}

TEST(help_names_what_there_is)
{
    struct said said = CALL("--help");
    EXPECT_EQ(said.status, 0);
    expect_text(said.err, "");
    for (const struct native *native = natives; native->name; native++) {
        expect_words(said.out, native->name);
    }
    expect_words(said.out, "usage: lowering [--qtjir] [--seed N] FILE\n");
    expect_words(said.out, "Try: lowering examples/lowering/hello.janus\n");
    forget(said);
}

/* The program in the help text is a program. */
TEST(the_program_in_the_help_runs)
{
    struct said said = CALL("--help");
    const char *begin = strstr(said.out, "  let x = 6"), *end = strstr(said.out, "\n\nFunctions:");
    EXPECT(begin && end && begin < end);
    const struct source source = {"help.janus", begin, (size_t)(end - begin)};
    struct program program = compiled(&source, natives);
    struct fault fault;
    char *printed;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    EXPECT_EQ(run_program(&program, NULL, out, &fault), 0);
    fclose(out);
    expect_words(printed, "61\n"); /* fib(10) + 6 */
    free(printed);
    program_free(&program);
    forget(said);
}

TEST(a_seed_is_a_seed_wherever_it_comes_from)
{
    struct said first = CALL("--seed", "42", HERE("hello"));
    EXPECT_EQ(setenv("HEDDLE_SEED", "42", 1), 0);
    struct said second = CALL(HERE("hello"));
    EXPECT_EQ(first.status, 0);
    EXPECT_EQ(second.status, 0);
    expect_text(second.out, first.out);
    forget(first);
    forget(second);
    EXPECT_EQ(setenv("HEDDLE_SEED", "nonsense", 1), 0);
    struct said bad = CALL(HERE("hello"));
    EXPECT_EQ(bad.status, CLI_USAGE);
    expect_words(bad.err, "HEDDLE_SEED");
    forget(bad);
}

TEST(standard_input_is_a_dash)
{
    const int file = open(HERE("compute"), O_RDONLY | O_CLOEXEC);
    EXPECT(dup2(file, STDIN_FILENO) == STDIN_FILENO);
    close(file);
    struct said said = CALL("-");
    EXPECT_EQ(said.status, 0);
    forget(said);
}
