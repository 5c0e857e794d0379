/* SPDX-License-Identifier: MIT */
#include "lower.h"

#include <stdlib.h>
#include <string.h>

/* A name that can be seen. */
struct symbol {
    uint32_t name, name_bytes;
    value_id value;       /* in the function that defined it */
    uint32_t awaited_at;  /* a handle: where */
    bool awaited;
};

struct lowering {
    const struct source *source;
    const struct tree *tree;
    const struct native *registry;
    struct program *program;
    struct fault *fault;
    struct symbol *symbols; /* those of ended blocks are gone */
    uint32_t symbol_count;
    function_id function;
    op_id nursery;          /* the innermost of this function; 0: none */
};

/* Every function below that returns a number returns 0 if there was a fault. */
static value_id expression(struct lowering *l, uint32_t id);
static bool statements(struct lowering *l, uint32_t block);

static const struct node *node_at(const struct lowering *l, uint32_t id)
{
    return &l->tree->nodes[id];
}

/* For "%.*s". */
#define NAME_OF(l, x) (int)(x)->name_bytes, (l)->source->text + (x)->name

static unsigned line_of(const struct lowering *l, uint32_t at)
{
    unsigned line, column;
    source_place(l->source, at, &line, &column);
    return line;
}

/* ---- building the program ---- */

/* Make room for one more in an array that doubles at 16, 32, 64 and so on. `array` points to the
 * pointer, of whatever type. */
static bool make_room(void *array, uint32_t count, size_t element_bytes)
{
    enum { ROOM_AT_FIRST = 16 };
    if (count % ROOM_AT_FIRST != 0 || (count & (count - 1)) != 0) return true;
    void *old;
    memcpy(&old, array, sizeof(old));
    const size_t room = count ? (size_t)count * 2 : ROOM_AT_FIRST;
    void *made = realloc(old, room * element_bytes);
    if (made) memcpy(array, &made, sizeof(made));
    return made != NULL;
}

static bool no_memory(struct lowering *l, uint32_t at)
{
    return fault_set(l->fault, at, "out of memory: make the program smaller");
}

static unsigned number_for(const struct lowering *l, const struct value *named)
{
    unsigned number = 1;
    for (value_id i = 1; i < l->program->value_count; i++) {
        const struct value *value = &l->program->values[i];
        number += value->function == named->function && value->name_bytes == named->name_bytes &&
                  memcmp(l->source->text + value->name, l->source->text + named->name,
                         named->name_bytes) == 0;
    }
    return number;
}

/* With a name of the source, or with a number if that has 0 bytes. */
static value_id value_new(struct lowering *l, enum value_kind kind, uint32_t name,
                          uint32_t name_bytes, uint32_t at)
{
    struct program *program = l->program;
    if (program->value_count > VALUES_MAX) {
        return fault_set(l->fault, at, "this program has over %d values: make it smaller",
                         VALUES_MAX);
    }
    if (!make_room(&program->values, program->value_count, sizeof(struct value))) {
        return no_memory(l, at);
    }
    struct value value = {kind, l->function, name, name_bytes, 0};
    value.number = name_bytes > 0 ? number_for(l, &value)
                                  : ++program->functions[l->function].numbers;
    program->values[program->value_count] = value;
    return program->value_count++;
}

static op_id op_new(struct lowering *l, enum opcode code, enum value_kind kind, uint32_t at)
{
    struct program *program = l->program;
    const value_id value = value_new(l, kind, 0, 0, at);
    if (!value) return 0;
    if (!make_room(&program->ops, program->op_count, sizeof(struct op))) return no_memory(l, at);
    const op_id id = program->op_count++;
    program->ops[id] = (struct op){.code = code, .at = at, .value = value};
    struct function *function = &program->functions[l->function];
    if (function->last) {
        program->ops[function->last].next = id;
    } else {
        function->first = id;
    }
    function->last = id;
    return id;
}

static value_id value_of(const struct lowering *l, op_id op)
{
    return op ? l->program->ops[op].value : 0;
}

static void add_operand(struct op *op, value_id value)
{
    op->operands[op->operand_count++].value = value;
}

static value_id emit(struct lowering *l, enum opcode code, uint32_t at, value_id first,
                     value_id second)
{
    const op_id id = op_new(l, code, VALUE_NUMBER, at);
    if (!id) return 0;
    struct op *op = &l->program->ops[id];
    add_operand(op, first);
    if (second) add_operand(op, second);
    return op->value;
}

static function_id function_new(struct lowering *l, function_id around, uint32_t at)
{
    struct program *program = l->program;
    if (!make_room(&program->functions, program->function_count, sizeof(struct function))) {
        return no_memory(l, at);
    }
    program->functions[program->function_count] = (struct function){.around = around};
    return program->function_count++;
}

/* ---- names ---- */

/* Returns its number from 1; 0 if there is none, which is no fault yet. */
static uint32_t symbol_find(const struct lowering *l, const struct node *name)
{
    for (uint32_t i = l->symbol_count; i > 0; i--) {
        const struct symbol *symbol = &l->symbols[i - 1];
        if (symbol->name_bytes == name->name_bytes &&
            memcmp(l->source->text + symbol->name, l->source->text + name->name,
                   name->name_bytes) == 0) {
            return i;
        }
    }
    return 0;
}

static value_id captured(const struct lowering *l, function_id function, uint32_t symbol)
{
    for (uint32_t i = 1; i < l->program->capture_count; i++) {
        const struct capture *capture = &l->program->captures[i];
        if (capture->function == function && capture->symbol == symbol) return capture->to;
    }
    return 0;
}

/* The value of a symbol in a function: its own, or a parameter that is passed in through all
 * functions between. Symbols that went with their block have other captures: those of a function
 * that is finished. */
static value_id value_in(struct lowering *l, function_id function, uint32_t symbol, uint32_t at)
{
    struct program *program = l->program;
    const struct symbol s = l->symbols[symbol - 1];
    if (program->values[s.value].function == function) return s.value;
    const value_id known = captured(l, function, symbol);
    if (known) return known;
    const value_id from = value_in(l, program->functions[function].around, symbol, at);
    if (!from) return 0;
    const function_id here = l->function;
    l->function = function;
    const value_id to = value_new(l, program->values[s.value].kind, s.name, s.name_bytes, at);
    l->function = here;
    if (!to) return 0;
    if (!make_room(&program->captures, program->capture_count, sizeof(struct capture))) {
        return no_memory(l, at);
    }
    program->captures[program->capture_count++] = (struct capture){function, symbol, from, to};
    return to;
}

static uint32_t known_symbol(struct lowering *l, const struct node *name)
{
    const uint32_t symbol = symbol_find(l, name);
    if (!symbol) {
        fault_set(l->fault, name->at, "'%.*s' is not defined here: write let %.*s = ... before",
                  NAME_OF(l, name), NAME_OF(l, name));
    }
    return symbol;
}

static value_id named(struct lowering *l, const struct node *name)
{
    const uint32_t symbol = known_symbol(l, name);
    return symbol ? value_in(l, l->function, symbol, name->at) : 0;
}

static bool is_handle(const struct lowering *l, value_id value)
{
    return l->program->values[value].kind == VALUE_HANDLE;
}

/* ---- calls ---- */

static bool no_such_function(struct lowering *l, const struct node *call)
{
    char known[160] = "";
    for (const struct native *native = l->registry; native->name; native++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", native->name);
    }
    return fault_set(l->fault, call->at, "there is no function '%.*s': use one of %s",
                     (int)(call->name_bytes < 40 ? call->name_bytes : 40),
                     l->source->text + call->name, known);
}

static const struct native *native_of(struct lowering *l, const struct node *call)
{
    for (const struct native *native = l->registry; native->name; native++) {
        if (strlen(native->name) == call->name_bytes &&
            memcmp(native->name, l->source->text + call->name, call->name_bytes) == 0) {
            return native;
        }
    }
    no_such_function(l, call);
    return NULL;
}

/* A number, not a handle. */
static value_id number(struct lowering *l, uint32_t id)
{
    const value_id value = expression(l, id);
    if (!value || !is_handle(l, value)) return value;
    return fault_set(l->fault, node_at(l, id)->at,
                     "this is the handle of a task, not a number: put await before it");
}

/* The arguments come first, then the opcode that uses them. */
static op_id call(struct lowering *l, enum opcode code, enum value_kind kind,
                  const struct node *call_node, uint32_t at)
{
    const struct native *native = native_of(l, call_node);
    if (!native) return 0;
    struct operand operands[ARGUMENTS_MAX] = {0};
    unsigned count = 0;
    for (uint32_t id = call_node->first; id; id = node_at(l, id)->next) {
        const value_id value = number(l, id);
        if (!value) return 0;
        operands[count++].value = value;
    }
    if (count != native->arguments) {
        return fault_set(l->fault, call_node->at, "%s takes %u argument%s, not %u: write %s(%s)",
                         native->name, native->arguments, native->arguments == 1 ? "" : "s", count,
                         native->name, native->arguments == 0 ? "" : "...");
    }
    const op_id id = op_new(l, code, kind, at);
    if (!id) return 0;
    struct op *op = &l->program->ops[id];
    op->native = native;
    memcpy(op->operands, operands, sizeof(operands));
    op->operand_count = count;
    op->nursery = l->nursery;
    return id;
}

static bool in_nursery(struct lowering *l, const char *what, uint32_t at)
{
    if (l->nursery) return true;
    return fault_set(l->fault, at,
                     l->function == PROGRAM_MAIN
                         ? "%s outside a nursery: put it into nursery { }"
                         : "%s in a task without a nursery of its own: put nursery { } around it, "
                           "inside this block", what);
}

/* ---- expressions ---- */

static value_id constant(struct lowering *l, const struct node *node)
{
    const op_id op = op_new(l, OP_CONST, VALUE_NUMBER, node->at);
    if (op) l->program->ops[op].number = node->number;
    return value_of(l, op);
}

static value_id async(struct lowering *l, const struct node *node)
{
    if (!in_nursery(l, "async", node->at)) return 0;
    return value_of(l, call(l, OP_ASYNC_CALL, VALUE_HANDLE, node_at(l, node->first), node->at));
}

/* A handle gives its value once (QTJIR-3). There are no loops, so that is once in the text. */
static bool await_once(struct lowering *l, const struct node *name)
{
    const uint32_t id = known_symbol(l, name);
    if (!id) return false;
    struct symbol *symbol = &l->symbols[id - 1];
    if (symbol->awaited) {
        return fault_set(l->fault, name->at,
                         "'%.*s' was awaited on line %u, which gave its value: keep that by let "
                         "v = await %.*s", NAME_OF(l, name), line_of(l, symbol->awaited_at),
                         NAME_OF(l, name));
    }
    symbol->awaited = true;
    symbol->awaited_at = name->at;
    return true;
}

static value_id await(struct lowering *l, const struct node *node)
{
    const struct node *operand = node_at(l, node->first);
    const value_id handle = expression(l, node->first);
    if (!handle) return 0;
    if (!is_handle(l, handle)) {
        return fault_set(l->fault, operand->at,
                         "this is a number already: await takes what async gives; remove await");
    }
    if (operand->kind == NODE_NAME && !await_once(l, operand)) return 0;
    return emit(l, OP_AWAIT, node->at, handle, 0);
}

static value_id fold(struct lowering *l, const struct node *node)
{
    value_id sum = number(l, node->first);
    for (uint32_t id = node_at(l, node->first)->next; id && sum; id = node_at(l, id)->next) {
        const value_id next = number(l, id);
        if (!next) return 0;
        const enum opcode code = node->kind == NODE_PRODUCT ? OP_MUL
                                 : node_at(l, id)->minus    ? OP_SUB
                                                            : OP_ADD;
        sum = emit(l, code, node->at, sum, next);
    }
    return sum;
}

static value_id expression(struct lowering *l, uint32_t id)
{
    const struct node *node = node_at(l, id);
    switch (node->kind) {
    case NODE_NUMBER: return constant(l, node);
    case NODE_NAME: return named(l, node);
    case NODE_CALL: return value_of(l, call(l, OP_CALL, VALUE_NUMBER, node, node->at));
    case NODE_ASYNC: return async(l, node);
    case NODE_AWAIT: return await(l, node);
    case NODE_SUM:
    case NODE_PRODUCT: return fold(l, node);
    case NODE_NEGATE: {
        const value_id value = number(l, node->first);
        return value ? emit(l, OP_NEG, node->at, value, 0) : 0;
    }
    case NODE_BLOCK:
    case NODE_NURSERY:
    case NODE_SPAWN:
    case NODE_LET:
    case NODE_PRINT:
    case NODE_TEXT: break;
    }
    abort(); /* The grammar has none of these in an expression. */
}

/* ---- statements ---- */

/* What was computed last gets the name instead of its number; what has a name is copied. */
static value_id give_name(struct lowering *l, value_id value, const struct node *let)
{
    struct program *program = l->program;
    if (program->values[value].name_bytes > 0) {
        if (is_handle(l, value)) {
            return fault_set(l->fault, node_at(l, let->first)->at,
                             "a handle has one name: use that, or await it");
        }
        value = emit(l, OP_COPY, let->at, value, 0);
        if (!value) return 0;
    }
    struct value renamed = program->values[value];
    renamed.name = let->name;
    renamed.name_bytes = let->name_bytes;
    renamed.number = number_for(l, &renamed); /* It is not yet one of those counted. */
    program->values[value] = renamed;
    program->functions[l->function].numbers--;
    return value;
}

static bool let_statement(struct lowering *l, const struct node *let)
{
    const uint32_t before = symbol_find(l, let);
    if (before) {
        return fault_set(l->fault, let->name, "'%.*s' is defined on line %u: choose another name",
                         NAME_OF(l, let), line_of(l, l->symbols[before - 1].name));
    }
    value_id value = expression(l, let->first);
    if (value) value = give_name(l, value, let);
    if (!value) return false;
    l->symbols[l->symbol_count++] = (struct symbol){.name = let->name,
                                                    .name_bytes = let->name_bytes,
                                                    .value = value};
    return true;
}

static bool print_statement(struct lowering *l, const struct node *print)
{
    struct operand operands[ARGUMENTS_MAX] = {0};
    unsigned count = 0;
    for (uint32_t id = print->first; id; id = node_at(l, id)->next) {
        const struct node *node = node_at(l, id);
        struct operand *operand = &operands[count++];
        if (node->kind == NODE_TEXT) {
            *operand = (struct operand){.text = node->name, .text_bytes = node->name_bytes};
        } else if (!(operand->value = number(l, id))) {
            return false;
        }
    }
    const op_id id = op_new(l, OP_PRINT, VALUE_NOTHING, print->at);
    if (!id) return false;
    memcpy(l->program->ops[id].operands, operands, sizeof(operands));
    l->program->ops[id].operand_count = count;
    return true;
}

static bool nursery_statement(struct lowering *l, const struct node *node)
{
    const op_id around = l->nursery;
    const op_id begin = op_new(l, OP_NURSERY_BEGIN, VALUE_NOTHING, node->at);
    if (!begin) return false;
    l->nursery = begin;
    if (!statements(l, node->first)) return false;
    l->nursery = around;
    const op_id end = op_new(l, OP_NURSERY_END, VALUE_NOTHING, node->at);
    if (!end) return false;
    struct op *op = &l->program->ops[end];
    op->nursery = begin;
    add_operand(op, value_of(l, begin));
    return true;
}

static bool spawn_block(struct lowering *l, const struct node *node)
{
    const function_id around = l->function;
    const op_id nursery = l->nursery;
    const function_id made = function_new(l, around, node->at);
    if (!made) return false;
    l->function = made;
    l->nursery = 0;
    if (!statements(l, node->first)) return false;
    l->function = around;
    l->nursery = nursery;
    const op_id id = op_new(l, OP_SPAWN, VALUE_NOTHING, node->at);
    if (!id) return false;
    l->program->ops[id].function = made;
    l->program->ops[id].nursery = nursery;
    return true;
}

static bool spawn_statement(struct lowering *l, const struct node *node)
{
    if (!in_nursery(l, "spawn", node->at)) return false;
    const struct node *what = node_at(l, node->first);
    if (what->kind == NODE_BLOCK) return spawn_block(l, node);
    return call(l, OP_SPAWN, VALUE_NOTHING, what, node->at) != 0;
}

static bool statement(struct lowering *l, uint32_t id)
{
    const struct node *node = node_at(l, id);
    if (node->kind == NODE_NURSERY) return nursery_statement(l, node);
    if (node->kind == NODE_SPAWN) return spawn_statement(l, node);
    if (node->kind == NODE_LET) return let_statement(l, node);
    if (node->kind == NODE_PRINT) return print_statement(l, node);
    return expression(l, id) != 0;
}

static bool statements(struct lowering *l, uint32_t block)
{
    const uint32_t outside = l->symbol_count;
    for (uint32_t id = node_at(l, block)->first; id; id = node_at(l, id)->next) {
        if (!statement(l, id)) return false;
    }
    l->symbol_count = outside;
    return true;
}

/* ---- all of it ---- */

/* Number 0 of each is none. */
static bool program_begin(struct lowering *l)
{
    struct program *program = l->program;
    if (!make_room(&program->ops, 0, sizeof(struct op)) ||
        !make_room(&program->values, 0, sizeof(struct value)) ||
        !make_room(&program->captures, 0, sizeof(struct capture)) ||
        !make_room(&program->functions, 0, sizeof(struct function))) {
        return no_memory(l, 0);
    }
    program->ops[0] = (struct op){0};
    program->values[0] = (struct value){0};
    program->captures[0] = (struct capture){0};
    program->functions[0] = (struct function){0};
    program->op_count = program->value_count = 1;
    program->capture_count = program->function_count = 1;
    l->function = function_new(l, 0, 0);
    return l->function == PROGRAM_MAIN;
}

bool lower(const struct source *source, const struct tree *tree, const struct native *registry,
           struct program *program, struct fault *fault)
{
    *program = (struct program){.source = source};
    struct lowering l = {.source = source, .tree = tree, .registry = registry, .program = program,
                         .fault = fault,
                         .symbols = malloc(VALUES_MAX * sizeof(struct symbol))};
    const bool done = l.symbols ? program_begin(&l) && statements(&l, tree->root)
                                : no_memory(&l, 0);
    free(l.symbols);
    if (!done) program_free(program);
    return done;
}

bool compile(const struct source *source, const struct native *registry, struct program *program,
             struct fault *fault)
{
    struct tree tree;
    *program = (struct program){0};
    if (!parse(source, &tree, fault)) return false;
    const bool done = lower(source, &tree, registry, program, fault);
    tree_free(&tree);
    return done;
}
