/* SPDX-License-Identifier: MIT */
#include "qtjir.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const opcode_names[] = {
    [OP_CONST] = "Const",
    [OP_COPY] = "Copy",
    [OP_ADD] = "Add",
    [OP_SUB] = "Sub",
    [OP_MUL] = "Mul",
    [OP_NEG] = "Neg",
    [OP_CALL] = "Call",
    [OP_PRINT] = "Call",
    [OP_NURSERY_BEGIN] = "Nursery_Begin",
    [OP_NURSERY_END] = "Nursery_End",
    [OP_SPAWN] = "Spawn",
    [OP_ASYNC_CALL] = "Async_Call",
    [OP_AWAIT] = "Await",
};

static void print_value(const struct program *program, value_id id, FILE *out)
{
    const struct value *value = &program->values[id];
    if (value->name_bytes == 0) {
        fprintf(out, "%%%u", value->number);
        return;
    }
    fprintf(out, "%%%.*s", (int)value->name_bytes, program->source->text + value->name);
    if (value->number > 1) fprintf(out, ".%u", value->number);
}

static void print_operands(const struct program *program, const struct op *op, FILE *out,
                           const char *before)
{
    for (unsigned i = 0; i < op->operand_count; i++, before = ", ") {
        const struct operand *operand = &op->operands[i];
        fputs(before, out);
        if (operand->value) {
            print_value(program, operand->value, out);
        } else {
            fprintf(out, "\"%.*s\"", (int)operand->text_bytes,
                    program->source->text + operand->text);
        }
    }
}

/* What a block takes from around it; `inside`: as it is called there. */
static void print_captures(const struct program *program, function_id function, bool inside,
                           FILE *out, const char *before)
{
    for (uint32_t i = 1; i < program->capture_count; i++) {
        const struct capture *capture = &program->captures[i];
        if (capture->function != function) continue;
        fputs(before, out);
        print_value(program, inside ? capture->to : capture->from, out);
        before = ", ";
    }
}

static void print_label(function_id function, FILE *out)
{
    fprintf(out, "@block.%u", (unsigned)(function - PROGRAM_MAIN));
}

static void print_op(const struct program *program, const struct op *op, FILE *out)
{
    print_value(program, op->value, out);
    fprintf(out, " = %s", opcode_names[op->code]);
    if (op->code == OP_CONST) fprintf(out, " %" PRId64, op->number);
    if (op->code == OP_PRINT) fputs(" @print", out);
    if (op->native) fprintf(out, " @%s", op->native->name);
    if (op->function) {
        fputc(' ', out);
        print_label(op->function, out);
        print_captures(program, op->function, false, out, ", ");
    }
    const bool named = op->native || op->function || op->code == OP_PRINT;
    print_operands(program, op, out, named ? ", " : " ");
    fputs(op->code == OP_NURSERY_END ? "    // Generates awaitAll()\n" : "\n", out);
}

void qtjir_print(const struct program *program, FILE *out)
{
    for (function_id f = PROGRAM_MAIN; f < program->function_count; f++) {
        if (f != PROGRAM_MAIN) {
            fputc('\n', out);
            print_label(f, out);
            fputc('(', out);
            print_captures(program, f, true, out, "");
            fputs("):\n", out);
        }
        for (op_id op = program->functions[f].first; op; op = program->ops[op].next) {
            print_op(program, &program->ops[op], out);
        }
    }
}

void program_free(struct program *program)
{
    free(program->ops);
    free(program->values);
    free(program->functions);
    free(program->captures);
    *program = (struct program){0};
}
