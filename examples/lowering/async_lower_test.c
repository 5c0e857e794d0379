/* SPDX-License-Identifier: MIT
 *
 * Lowering: the opcodes of what is right, and the faults of what is not.
 */
#include "compiled.h"

TEST_MAIN

/* ---- opcodes ---- */

static void expect_qtjir(const char *text, const char *expected)
{
    const struct source source = text_source(text);
    struct program program = compiled(&source, natives);
    char *printed = NULL;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    qtjir_print(&program, out);
    fclose(out);
    expect_text(printed, expected);
    free(printed);
    program_free(&program);
}

TEST(the_seeds_example_has_the_seeds_opcodes)
{
    expect_qtjir("let x = 20\n"
                 "let y = 22\n"
                 "// Janus source\n"
                 "nursery {\n"
                 "    spawn compute(x)\n"
                 "    spawn compute(y)\n"
                 "}\n"
                 "// Implicit await here\n",
                 "%x = Const 20\n"
                 "%y = Const 22\n"
                 "%1 = Nursery_Begin\n"
                 "%2 = Spawn @compute, %x\n"
                 "%3 = Spawn @compute, %y\n"
                 "%4 = Nursery_End %1    // Generates awaitAll()\n");
}

TEST(a_spawned_block_is_a_function_with_nurseries_of_its_own)
{
    expect_qtjir("nursery {           // Level 1\n"
                 "    spawn {\n"
                 "        nursery {   // Level 2 - owned by Level 1 task\n"
                 "            spawn work_a()\n"
                 "            spawn work_b()\n"
                 "        }\n"
                 "    }\n"
                 "}\n",
                 "%1 = Nursery_Begin\n"
                 "%2 = Spawn @block.1\n"
                 "%3 = Nursery_End %1    // Generates awaitAll()\n"
                 "\n"
                 "@block.1():\n"
                 "%1 = Nursery_Begin\n"
                 "%2 = Spawn @work_a\n"
                 "%3 = Spawn @work_b\n"
                 "%4 = Nursery_End %1    // Generates awaitAll()\n");
}

TEST(async_and_await)
{
    expect_qtjir("nursery { let h = async fib(10); let v = await h\n"
                 " print(\"v is\", v, await async fib(v)) }",
                 "%1 = Nursery_Begin\n"
                 "%2 = Const 10\n"
                 "%h = Async_Call @fib, %2\n"
                 "%v = Await %h\n"
                 "%3 = Async_Call @fib, %v\n"
                 "%4 = Await %3\n"
                 "%5 = Call @print, \"v is\", %v, %4\n"
                 "%6 = Nursery_End %1    // Generates awaitAll()\n");
}

TEST(operators_bind_as_in_arithmetic)
{
    expect_qtjir("let a = 1 + 2 * 3 - -4\n"
                 "let b = -(a - 1) * (\n a + 2 // a new line inside parentheses\n )\n"
                 "let c = b\n"
                 "compute(c)",
                 "%1 = Const 1\n"
                 "%2 = Const 2\n"
                 "%3 = Const 3\n"
                 "%4 = Mul %2, %3\n"
                 "%5 = Add %1, %4\n"
                 "%6 = Const -4\n"
                 "%a = Sub %5, %6\n"
                 "%7 = Const 1\n"
                 "%8 = Sub %a, %7\n"
                 "%9 = Neg %8\n"
                 "%10 = Const 2\n"
                 "%11 = Add %a, %10\n"
                 "%b = Mul %9, %11\n"
                 "%c = Copy %b\n"
                 "%12 = Call @compute, %c\n");
}

TEST(blocks_take_what_they_use_through_those_around)
{
    expect_qtjir("let x = 1; let y = 2; let unused = 3\n"
                 "nursery {\n"
                 "  let h = async fib(x)\n"
                 "  spawn { nursery { spawn { print(y, await h, y) } }; print(x) }\n"
                 "}",
                 "%x = Const 1\n"
                 "%y = Const 2\n"
                 "%unused = Const 3\n"
                 "%1 = Nursery_Begin\n"
                 "%h = Async_Call @fib, %x\n"
                 "%2 = Spawn @block.1, %y, %h, %x\n"
                 "%3 = Nursery_End %1    // Generates awaitAll()\n"
                 "\n"
                 "@block.1(%y, %h, %x):\n"
                 "%1 = Nursery_Begin\n"
                 "%2 = Spawn @block.2, %y, %h\n"
                 "%3 = Nursery_End %1    // Generates awaitAll()\n"
                 "%4 = Call @print, %x\n"
                 "\n"
                 "@block.2(%y, %h):\n"
                 "%1 = Await %h\n"
                 "%2 = Call @print, %y, %1, %y\n");
}

TEST(a_name_can_be_used_again_after_its_block)
{
    expect_qtjir("nursery { let x = 1; print(x) }\nnursery { let x = 2; print(x) }\nlet x = 3",
                 "%1 = Nursery_Begin\n"
                 "%x = Const 1\n"
                 "%2 = Call @print, %x\n"
                 "%3 = Nursery_End %1    // Generates awaitAll()\n"
                 "%4 = Nursery_Begin\n"
                 "%x.2 = Const 2\n"
                 "%5 = Call @print, %x.2\n"
                 "%6 = Nursery_End %4    // Generates awaitAll()\n"
                 "%x.3 = Const 3\n");
}

TEST(an_empty_program_has_no_opcodes)
{
    expect_qtjir("", "");
    expect_qtjir("\xef\xbb\xbf\r\n // nothing\r\n ; ;\r\n", "");
}

TEST(numbers_reach_from_one_end_to_the_other)
{
    expect_qtjir("let least = -9223372036854775808\nlet most = 9223372036854775807\n",
                 "%least = Const -9223372036854775808\n%most = Const 9223372036854775807\n");
}

/* ---- faults ---- */

static void expect_fault(const struct source *source, unsigned line, unsigned column,
                         const char *words)
{
    struct program program;
    struct fault fault = {0};
    unsigned l, c;
    if (compile(source, natives, &program, &fault)) {
        test_fail(__FILE__, __LINE__, "compiles, instead of \"%s\": %.100s", words, source->text);
    }
    source_place(source, fault.at, &l, &c);
    if (l != line || c != column || !strstr(fault.text, words)) {
        test_fail(__FILE__, __LINE__, "expected %u:%u ... %s ..., got %u:%u %s, in: %.100s", line,
                  column, words, l, c, fault.text, source->text);
    }
}

TEST(faults_say_where_and_what_to_do)
{
    static const struct {
        const char *text;
        unsigned line, column;
        const char *words;
    } bad[] = {
        /* words */
        {"let x = 1 $ 2", 1, 11, "'$' means nothing here: remove it"},
        {"let x = 1\n\n  let \x01", 3, 7, "the byte 0x01"},
        {"let \xc3\xa9 = 1", 1, 5, "the byte 0xc3"},
        {"let x = 9223372036854775808", 1, 9, "does not fit 64 bits"},
        {"let x = 99999999999999999999999", 1, 9, "does not fit 64 bits"},
        {"let x = 12ab", 1, 11, "a letter right after a number"},
        {"print(\"open)\nprint(1)", 1, 7, "put a '\"' at its end"},
        {"print(\"a\\n\")", 1, 9, "leave out control characters"},
        {"/ comment", 1, 1, "'/' means nothing here"},
        /* statements */
        {"let = 3", 1, 5, "expected a name after 'let', found '='"},
        {"let nursery = 3", 1, 5, "expected a name after 'let', found 'nursery'"},
        {"let x 3", 1, 7, "expected '=' after the name"},
        {"let x = 1 let y = 2", 1, 11, "a new line or ';'"},
        {"let x =", 1, 8, "expected a value: a number, a name, a call or '(', found the end"},
        {"let x = (1 + 2", 1, 15, "expected ')'"},
        {"let x = \"text\"", 1, 9, "only be an argument of print"},
        {"nursery {\n  spawn compute(1)\n", 1, 9, "never closed: put a '}'"},
        {"nursery spawn", 1, 9, "expected '{' after 'nursery'"},
        {"}", 1, 1, "closes nothing"},
        {"nursery { } }", 1, 13, "closes nothing"},
        {"nursery { spawn 3 }", 1, 17, "expected a call or a block after 'spawn'"},
        {"nursery { let h = async 3 }", 1, 25, "expected a call after 'async'"},
        {"nursery { spawn compute }", 1, 25, "expected '(' after the name of a function"},
        {"compute(1", 1, 10, "expected ',' or ')'"},
        {"compute(1,)", 1, 11, "expected a value"},
        {"print 3", 1, 7, "expected '(' after 'print'"},
        {"1 + 2", 1, 1, "this value is not used"},
        {"let x = 1\nx", 2, 1, "this value is not used"},
        /* names */
        {"print(x)", 1, 7, "'x' is not defined here: write let x = ... before"},
        {"let x = x", 1, 9, "'x' is not defined here"},
        {"nursery { let x = 1 }\nprint(x)", 2, 7, "'x' is not defined here"},
        {"let x = 1\nnursery { let x = 2 }", 2, 15, "'x' is defined on line 1"},
        {"let x = 1\nnursery { spawn { let x = 2 } }", 2, 23, "'x' is defined on line 1"},
        {"conpute(1)", 1, 1, "there is no function 'conpute': use one of compute, fib"},
        {"print(compute(1, 2))", 1, 7, "compute takes 1 argument, not 2"},
        {"work_a(1)", 1, 1, "work_a takes 0 arguments, not 1: write work_a()"},
        /* tasks */
        {"spawn compute(1)", 1, 1, "spawn outside a nursery: put it into nursery { }"},
        {"let h = async compute(1)", 1, 9, "async outside a nursery"},
        {"nursery { spawn { spawn work_a() } }", 1, 19, "a nursery of its own"},
        {"nursery { spawn { let h = async work_a() } }", 1, 27, "a nursery of its own"},
        /* handles */
        {"nursery { let h = async fib(1)\n print(h) }", 2, 8, "put await before it"},
        {"nursery { let h = async fib(1)\n print(1 + h) }", 2, 12, "put await before it"},
        {"nursery { let h = async fib(1)\n compute(h) }", 2, 10, "put await before it"},
        {"nursery { let h = async fib(1)\n let g = h }", 2, 10, "a handle has one name"},
        {"let x = 1\nlet y = await x", 2, 15, "this is a number already"},
        {"nursery { let h = async fib(1)\n let a = await h\n let b = await h }", 3, 16,
         "'h' was awaited on line 2"},
        {"nursery { let h = async fib(1)\n spawn { print(await h) }\n print(await h) }", 3, 14,
         "'h' was awaited on line 2"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct source source = text_source(bad[i].text);
        expect_fault(&source, bad[i].line, bad[i].column, bad[i].words);
    }
}

TEST(a_zero_byte_is_a_fault_and_not_an_end)
{
    const struct source source = {"zero.janus", "let x = 1\n\0let", 14};
    expect_fault(&source, 2, 1, "the byte 0x00");
}

static void expect_report(const struct source *source, const char *expected)
{
    struct program program;
    struct fault fault;
    EXPECT(!compile(source, natives, &program, &fault));
    char *printed = NULL;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    source_report(source, &fault, out);
    fclose(out);
    expect_text(printed, expected);
    free(printed);
}

TEST(a_report_shows_the_line_with_a_caret)
{
    struct source source = text_source("let x = 1\n\tlet y = z + x // z?\nprint(y)\n");
    expect_report(&source,
                  "test.janus:2:10: error: 'z' is not defined here: write let z = ... before\n"
                  "     let y = z + x // z?\n"
                  "             ^\n");
    source = text_source("print(\"\xc3\xa9\xe2\x82\xac\", z) // \x1b[31m\r\n");
    expect_report(&source,
                  "test.janus:1:16: error: 'z' is not defined here: write let z = ... before\n"
                  "    print(\"\xc3\xa9\xe2\x82\xac\", z) // ?[31m\n"
                  "                ^\n");
}

TEST(a_long_line_is_shown_around_the_fault)
{
    static const char call[] = "print(nothing)";
    char text[1024];
    memset(text, ' ', sizeof(text));
    memcpy(text + 300, call, sizeof(call) - 1);
    const struct source source = {"long.janus", text, sizeof(text)};
    char expected[1024];
    snprintf(expected, sizeof(expected),
             "long.janus:1:307: error: 'nothing' is not defined here: write let nothing = ... "
             "before\n    ...%44sprint(nothing)%42s\n       %50s^\n", "", "", "");
    expect_report(&source, expected);
}

/* ---- limits ---- */

/* `count` times the text, between a beginning and an end. */
static char *repeated(const char *begin, const char *text, size_t count, const char *end)
{
    char *all = malloc(strlen(begin) + strlen(text) * count + strlen(end) + 1);
    char *at = stpcpy(all, begin);
    while (count-- > 0) at = stpcpy(at, text);
    stpcpy(at, end);
    return all;
}

/* So many are fine, and one more is the fault. */
static void expect_limit(const char *begin, const char *text, size_t count, const char *end,
                         const char *words)
{
    char *most = repeated(begin, text, count, end);
    char *over = repeated(begin, text, count + 1, end);
    struct source source = text_source(most);
    struct program program = compiled(&source, natives);
    program_free(&program);
    source = text_source(over);
    struct fault fault;
    EXPECT(!compile(&source, natives, &program, &fault));
    if (!strstr(fault.text, words)) {
        test_fail(__FILE__, __LINE__, "expected %s, got %s", words, fault.text);
    }
    free(most);
    free(over);
}

TEST(limits_of_words)
{
    expect_limit("let ", "n", NAME_BYTES_MAX, " = 1", "this name has 65 letters");
    expect_limit("print(\"", "t", TEXT_BYTES_MAX, "\")", "this string has 121 bytes");
    expect_limit("print(0", ", 1", ARGUMENTS_MAX - 1, ")", "more than 8 arguments");
}

/* The same for what is opened and closed so often. */
static void expect_depth(const char *begin, const char *open, const char *close, size_t count,
                         const char *middle)
{
    for (size_t depth = count; depth <= count + 1; depth++) {
        char *end = repeated(middle, close, depth, "");
        char *text = repeated(begin, open, depth, end);
        const struct source source = text_source(text);
        struct program program;
        struct fault fault = {0};
        EXPECT_EQ(compile(&source, natives, &program, &fault), depth == count);
        EXPECT_EQ(strstr(fault.text, "nested in 64 others") != NULL, depth > count);
        program_free(&program);
        free(end);
        free(text);
    }
}

TEST(limits_of_depth)
{
    expect_depth("", "nursery {", "}", DEPTH_MAX, "print(1)");
    expect_depth("", "nursery { spawn {", "} }", DEPTH_MAX / 2, "print(1)");
    expect_depth("let x = ", "(", ")", DEPTH_MAX, "1");
    expect_depth("let x = 1\nlet y = ", "- ", "", DEPTH_MAX, "x");
    expect_depth("let x = ", "fib(", ")", DEPTH_MAX, "1");
}

TEST(limits_of_values)
{
    expect_limit("", "work_a()\n", VALUES_MAX, "", "over 4096 values");
    expect_limit("let x = 1\nnursery {\n", "spawn { print(x) }\n", (VALUES_MAX - 3) / 3, "}",
                 "over 4096 values");
}

TEST(limits_of_a_file)
{
    char path[] = "/tmp/lowering_XXXXXX";
    const int fd = mkstemp(path);
    EXPECT(fd >= 0);
    struct source source;
    EXPECT_EQ(ftruncate(fd, SOURCE_BYTES_MAX), 0);
    EXPECT_EQ(source_load(&source, path), 0);
    EXPECT_EQ(source.bytes, SOURCE_BYTES_MAX);
    source_free(&source);
    EXPECT_EQ(ftruncate(fd, SOURCE_BYTES_MAX + 1), 0);
    EXPECT_EQ(source_load(&source, path), -EFBIG);
    close(fd);
    unlink(path);
    EXPECT_EQ(source_load(&source, path), -ENOENT);
    EXPECT_EQ(source_load(&source, "/"), -EISDIR);
}
