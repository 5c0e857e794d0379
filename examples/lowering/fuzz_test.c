/* SPDX-License-Identifier: MIT
 *
 * The samples, damaged in 20,000 ways: each is refused with a fault that points into it, or lowered
 * to opcodes that are well formed. Sanitizers look for the rest.
 */
#include "compiled.h"

TEST_MAIN

enum { INPUTS = 20000, RUNS_MAX = 300 };

static const char *const samples[] = {"hello", "compute", "nested", "sum", "fail"};
enum { SAMPLES_COUNT = sizeof(samples) / sizeof(samples[0]) };

/* ---- damage ---- */

static uint64_t draw_state = 1;

/* xorshift64: the same in every build. */
static uint32_t draw(uint32_t below)
{
    draw_state ^= draw_state << 13;
    draw_state ^= draw_state >> 7;
    draw_state ^= draw_state << 17;
    return (uint32_t)((draw_state >> 11) % below);
}

static const char *const words[] = {
    "nursery {", "}", "{", "spawn ", "async ", "await ", "let ", "print(", "(", ")", ",", "=", "+",
    "-", "*", ";", "\n", "//", "\"", "x", "a", "h", "0", "9223372036854775808", "fib(", "work_a()",
    "compute(x)", "\\", "\xff", "nursery { spawn { ", " let z = async fib(3)\n", "await z",
};

struct text {
    char bytes[4096];
    size_t count;
};

/* Replace what is in [at, at + removed) by other bytes. */
static void splice(struct text *text, size_t at, size_t removed, const char *bytes, size_t count)
{
    if (text->count - removed + count > sizeof(text->bytes)) return;
    memmove(text->bytes + at + count, text->bytes + at + removed, text->count - at - removed);
    memcpy(text->bytes + at, bytes, count);
    text->count += count - removed;
}

static void damage(struct text *text)
{
    const size_t at = draw((uint32_t)text->count + 1);
    const size_t rest = text->count - at;
    const size_t length = rest > 0 ? draw((uint32_t)(rest < 40 ? rest : 40)) : 0;
    const char byte = (char)draw(256);
    const char *word = words[draw(sizeof(words) / sizeof(words[0]))];
    char piece[64];
    memcpy(piece, text->bytes + at, length);
    switch (draw(6)) {
    case 0: splice(text, at, rest > 0, &byte, 1); break;
    case 1: splice(text, at, length, "", 0); break;
    case 2: splice(text, at, 0, word, strlen(word)); break;
    case 3: splice(text, at, length, word, strlen(word)); break;
    case 4: splice(text, draw((uint32_t)text->count + 1), 0, piece, length); break;
    default: text->count = at; break;
    }
}

/* ---- what must hold ---- */

static void check_operand(const struct program *program, const bool *set, value_id value,
                          function_id function)
{
    EXPECT(value < program->value_count);
    EXPECT(program->values[value].function == function); /* QTJIR-1 */
    EXPECT(set[value]);
}

static void check_function(const struct program *program, function_id f, bool *set, bool *awaited)
{
    op_id open[DEPTH_MAX] = {0};
    unsigned depth = 0;
    for (uint32_t i = 1; i < program->capture_count; i++) {
        const struct capture *capture = &program->captures[i];
        if (capture->function != f) continue;
        EXPECT(program->values[capture->from].function == program->functions[f].around);
        EXPECT(program->values[capture->from].kind == program->values[capture->to].kind);
        set[capture->to] = true;
    }
    for (op_id id = program->functions[f].first; id; id = program->ops[id].next) {
        const struct op *op = &program->ops[id];
        for (unsigned i = 0; i < op->operand_count; i++) {
            if (op->operands[i].value) check_operand(program, set, op->operands[i].value, f);
        }
        if (op->code == OP_NURSERY_BEGIN) open[depth++] = id;
        if (op->code == OP_NURSERY_END) EXPECT(depth > 0 && open[--depth] == op->nursery);
        if (op->code == OP_SPAWN || op->code == OP_ASYNC_CALL) {
            EXPECT(depth > 0 && open[depth - 1] == op->nursery); /* QTJIR-2 */
        }
        if (op->code == OP_AWAIT) {
            EXPECT(program->values[op->operands[0].value].kind == VALUE_HANDLE);
            EXPECT(!awaited[op->operands[0].value]); /* QTJIR-3 */
            awaited[op->operands[0].value] = true;
        }
        set[op->value] = true;
    }
    EXPECT_EQ(depth, 0);
}

static void check_program(const struct program *program)
{
    bool *set = calloc(program->value_count, 1), *awaited = calloc(program->value_count, 1);
    for (function_id f = PROGRAM_MAIN; f < program->function_count; f++) {
        check_function(program, f, set, awaited);
    }
    free(set);
    free(awaited);
}

static void check_fault(const struct source *source, const struct fault *fault)
{
    EXPECT(fault->at <= source->bytes);
    EXPECT(fault->text[0] != '\0');
    char *printed = NULL;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    source_report(source, fault, out);
    fclose(out);
    EXPECT(strstr(printed, ": error: ") != NULL);
    free(printed);
}

/* A program that got through also runs, and ends, whatever it does. */
static void run_simulated(const struct program *program, uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    char *printed = NULL;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);
    struct fault fault = {0};
    const int err = run_program(program, &options, out, &fault);
    EXPECT(err <= 0);
    EXPECT_EQ(err < 0, fault.text[0] != '\0');
    EXPECT(err != -EDEADLK);
    fclose(out);
    free(printed);
}

/* The text lies in memory of exactly its size, so that a sanitizer sees one byte too far. */
static bool try_one(const struct text *text, bool run)
{
    char *exact = malloc(text->count ? text->count : 1);
    memcpy(exact, text->bytes, text->count);
    const struct source source = {"fuzz.janus", exact, text->count};
    struct program program;
    struct fault fault = {0};
    const bool right = compile(&source, natives, &program, &fault);
    if (right) {
        check_program(&program);
        if (run) run_simulated(&program, draw(1000));
        program_free(&program);
    } else {
        check_fault(&source, &fault);
    }
    free(exact);
    return right;
}

TEST(damaged_programs)
{
    struct text originals[SAMPLES_COUNT];
    for (int i = 0; i < SAMPLES_COUNT; i++) {
        struct source source = sample(samples[i]);
        EXPECT(source.bytes < sizeof(originals[i].bytes));
        memcpy(originals[i].bytes, source.text, source.bytes);
        originals[i].count = source.bytes;
        source_free(&source);
    }
    int right = 0;
    for (int i = 0; i < INPUTS; i++) {
        struct text text = originals[draw(SAMPLES_COUNT)];
        for (uint32_t n = 1 + draw(4); n > 0; n--) damage(&text);
        right += try_one(&text, right < RUNS_MAX);
    }
    EXPECT(right > INPUTS / 100); /* else the damage is too great to find anything */
    EXPECT(right < INPUTS);
}

TEST(random_words)
{
    for (int i = 0; i < INPUTS; i++) {
        struct text text = {.count = 0};
        for (uint32_t n = 1 + draw(40); n > 0; n--) {
            const char *word = words[draw(sizeof(words) / sizeof(words[0]))];
            splice(&text, text.count, 0, word, strlen(word));
        }
        try_one(&text, false);
    }
}

TEST(random_bytes)
{
    for (int i = 0; i < INPUTS; i++) {
        struct text text = {.count = draw(200)};
        for (size_t k = 0; k < text.count; k++) text.bytes[k] = (char)draw(256);
        try_one(&text, false);
    }
}
