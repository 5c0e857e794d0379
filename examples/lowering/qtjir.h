/* SPDX-License-Identifier: MIT
 *
 * qtjir: the opcodes that a program is lowered to.
 *
 * A program is functions: the first is what stands in the file, each other one is the block of a
 * `spawn { }`, whose parameters are the names that it uses from outside. A function is opcodes in a
 * row, without jumps: every opcode runs at most once, so every value is set at most once, and a
 * program needs no memory but one place for each value.
 *
 *   QTJIR-1  An opcode uses values of its own function only, which stand before it or are its
 *            parameters.
 *   QTJIR-2  Nursery_Begin and Nursery_End are nested as brackets are, in each function by itself.
 *            Spawn and Async_Call stand inside such a pair.
 *   QTJIR-3  A handle, the value of Async_Call, is used by one Await at most, and only inside the
 *            nursery of its task.
 *
 * Its text is that of the seed: `%2 = Spawn @compute, %x`.
 */
#ifndef LOWERING_QTJIR_H
#define LOWERING_QTJIR_H

#include "native.h"
#include "source.h"

enum opcode {
    OP_CONST,         /* number */
    OP_COPY,          /* a value */
    OP_ADD,           /* two values */
    OP_SUB,
    OP_MUL,
    OP_NEG,           /* a value */
    OP_CALL,          /* a native; its arguments */
    OP_PRINT,         /* texts and values */
    OP_NURSERY_BEGIN,
    OP_NURSERY_END,   /* the value of its beginning */
    OP_SPAWN,         /* a native or a function; its arguments */
    OP_ASYNC_CALL,    /* a native; its arguments */
    OP_AWAIT,         /* a handle */
};

/* Numbers into the arrays of struct program; 0 is none. */
typedef uint32_t value_id;
typedef uint32_t op_id;
typedef uint32_t function_id;

struct operand {
    value_id value;            /* 0: a text */
    uint32_t text, text_bytes; /* of the source */
};

struct op {
    enum opcode code;
    uint32_t at;    /* of the source */
    op_id next;     /* in its function */
    value_id value; /* what it sets */
    unsigned operand_count;
    struct operand operands[ARGUMENTS_MAX];
    int64_t number;
    const struct native *native; /* NULL: `function` */
    function_id function;
    op_id nursery;  /* Spawn, Async_Call: the Nursery_Begin; Nursery_End: likewise */
};

enum value_kind {
    VALUE_NUMBER,
    VALUE_HANDLE,
    VALUE_NOTHING, /* of opcodes that are run for what they do */
};

struct value {
    enum value_kind kind;
    function_id function;
    uint32_t name, name_bytes; /* of the source; 0 bytes: it has a number only */
    unsigned number; /* in its function: of those without a name, or with the same, from 1 */
};

/* What a block takes from the function around it. */
struct capture {
    function_id function;
    uint32_t symbol; /* lower.c's */
    value_id from;   /* there */
    value_id to;     /* here */
};

struct function {
    function_id around; /* 0: none */
    op_id first, last;
    unsigned numbers;   /* values without a name so far */
};

struct program {
    const struct source *source;
    struct op *ops;
    struct value *values;
    struct function *functions;
    struct capture *captures;
    uint32_t op_count, value_count, function_count, capture_count; /* with number 0 */
};

/* Where it starts. */
#define PROGRAM_MAIN ((function_id)1)

/* Write the opcodes as text. */
void qtjir_print(const struct program *program, FILE *out);

void program_free(struct program *program);

#endif
