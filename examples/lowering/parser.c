/* SPDX-License-Identifier: MIT */
#include "parser.h"

#include <stdlib.h>

#include "lexer.h"

/* Every function below that returns a node returns 0 if there was a fault. */
struct parser {
    struct lexer lexer;
    struct token token; /* the one to look at */
    struct tree *tree;
    struct fault *fault;
    unsigned depth;
};

static uint32_t expression(struct parser *p);
static uint32_t statements(struct parser *p, enum token_kind end);

/* ---- making nodes ---- */

static uint32_t node_new(struct parser *p, enum node_kind kind, uint32_t at)
{
    struct tree *tree = p->tree;
    if (tree->count == tree->room) {
        const uint32_t room = tree->room * 2;
        struct node *nodes = realloc(tree->nodes, room * sizeof(*nodes));
        if (!nodes) return fault_set(p->fault, at, "out of memory: make the program smaller");
        tree->nodes = nodes;
        tree->room = room;
    }
    tree->nodes[tree->count] = (struct node){.kind = kind, .at = at};
    return tree->count++;
}

static uint32_t node_named(struct parser *p, enum node_kind kind, uint32_t at,
                           const struct token *name)
{
    const uint32_t node = node_new(p, kind, at);
    if (node) {
        p->tree->nodes[node].name = name->at;
        p->tree->nodes[node].name_bytes = name->bytes;
    }
    return node;
}

/* Children are added one by one; `last` is the one before, 0 at first. Returns the new last. */
static uint32_t add_child(struct parser *p, uint32_t parent, uint32_t last, uint32_t child)
{
    struct node *nodes = p->tree->nodes;
    if (last) {
        nodes[last].next = child;
    } else {
        nodes[parent].first = child;
    }
    return child;
}

static uint32_t with_child(struct parser *p, uint32_t parent, uint32_t child)
{
    if (!parent || !child) return 0;
    add_child(p, parent, 0, child);
    return parent;
}

/* ---- words ---- */

static bool step(struct parser *p)
{
    return lexer_next(&p->lexer, &p->token, p->fault);
}

static bool unexpected(struct parser *p, const char *wanted)
{
    return fault_set(p->fault, p->token.at, "expected %s, found %s", wanted,
                     token_kind_name(p->token.kind));
}

static bool expect(struct parser *p, enum token_kind kind, const char *wanted)
{
    return p->token.kind == kind ? step(p) : unexpected(p, wanted);
}

/* Around everything that contains what it is itself; the caller goes up again. */
static bool down(struct parser *p)
{
    if (p->depth == DEPTH_MAX) {
        return fault_set(p->fault, p->token.at,
                         "this is nested in %d others, the most there may be: name a part by let, "
                         "or use fewer blocks", DEPTH_MAX);
    }
    p->depth++;
    return true;
}

/* ---- expressions ---- */

/* One or more of them, separated by commas. */
static bool arguments(struct parser *p, uint32_t parent, uint32_t (*one)(struct parser *p))
{
    uint32_t last = 0;
    for (unsigned count = 1;; count++) {
        if (count > ARGUMENTS_MAX) {
            return fault_set(p->fault, p->token.at, "more than %d arguments: use fewer",
                             ARGUMENTS_MAX);
        }
        const uint32_t child = one(p);
        if (!child) return false;
        last = add_child(p, parent, last, child);
        if (p->token.kind != TOKEN_COMMA) return true;
        if (!step(p)) return false;
    }
}

/* After its name and the parenthesis were read. */
static uint32_t call_rest(struct parser *p, const struct token *name)
{
    const uint32_t call = node_named(p, NODE_CALL, name->at, name);
    if (!call || !down(p)) return 0;
    if (p->token.kind != TOKEN_CLOSE && !arguments(p, call, expression)) return 0;
    p->depth--;
    return expect(p, TOKEN_CLOSE, "',' or ')' after an argument") ? call : 0;
}

static uint32_t call(struct parser *p, const char *wanted)
{
    const struct token name = p->token;
    if (!expect(p, TOKEN_NAME, wanted)) return 0;
    if (!expect(p, TOKEN_OPEN, "'(' after the name of a function")) return 0;
    return call_rest(p, &name);
}

static uint32_t name_or_call(struct parser *p)
{
    const struct token name = p->token;
    if (!step(p)) return 0;
    if (p->token.kind != TOKEN_OPEN) return node_named(p, NODE_NAME, name.at, &name);
    return step(p) ? call_rest(p, &name) : 0;
}

static uint32_t number(struct parser *p, uint32_t at, bool negative)
{
    const uint64_t magnitude = p->token.number;
    if (!negative && magnitude > INT64_MAX) {
        return fault_set(p->fault, at, "this number does not fit 64 bits: the largest is %lld",
                         (long long)INT64_MAX);
    }
    const uint32_t node = step(p) ? node_new(p, NODE_NUMBER, at) : 0;
    /* Negated without ever having the positive one, which may not exist. */
    if (node) {
        p->tree->nodes[node].number =
            negative ? -(int64_t)(magnitude / 2) - (int64_t)(magnitude - magnitude / 2)
                     : (int64_t)magnitude;
    }
    return node;
}

static uint32_t parenthesized(struct parser *p)
{
    if (!step(p) || !down(p)) return 0;
    const uint32_t inner = expression(p);
    p->depth--;
    return inner && expect(p, TOKEN_CLOSE, "')' at the end of the expression") ? inner : 0;
}

static uint32_t primary(struct parser *p)
{
    if (p->token.kind == TOKEN_NUMBER) return number(p, p->token.at, false);
    if (p->token.kind == TOKEN_NAME) return name_or_call(p);
    if (p->token.kind == TOKEN_OPEN) return parenthesized(p);
    if (p->token.kind == TOKEN_TEXT) {
        return unexpected(p, "a value (a string can only be an argument of print)");
    }
    return unexpected(p, "a value: a number, a name, a call or '('");
}

static uint32_t async(struct parser *p)
{
    const uint32_t at = p->token.at;
    if (!step(p)) return 0;
    const uint32_t inner = call(p, "a call after 'async', e.g. async compute(x)");
    return inner ? with_child(p, node_new(p, NODE_ASYNC, at), inner) : 0;
}

static uint32_t unary(struct parser *p)
{
    const struct token first = p->token;
    if (first.kind == TOKEN_ASYNC) return async(p);
    if (first.kind != TOKEN_MINUS && first.kind != TOKEN_AWAIT) return primary(p);
    if (!step(p)) return 0;
    const bool negative = first.kind == TOKEN_MINUS;
    if (negative && p->token.kind == TOKEN_NUMBER) return number(p, first.at, true);
    if (!down(p)) return 0;
    const uint32_t inner = unary(p);
    p->depth--;
    const enum node_kind kind = negative ? NODE_NEGATE : NODE_AWAIT;
    return inner ? with_child(p, node_new(p, kind, first.at), inner) : 0;
}

static bool joins_product(enum token_kind kind)
{
    return kind == TOKEN_TIMES;
}

static bool joins_sum(enum token_kind kind)
{
    return kind == TOKEN_PLUS || kind == TOKEN_MINUS;
}

/* Operands of one precedence; a single one is itself. */
static uint32_t chain(struct parser *p, enum node_kind kind, bool (*joins)(enum token_kind kind),
                      uint32_t (*operand)(struct parser *p))
{
    const uint32_t at = p->token.at;
    uint32_t last = operand(p);
    if (!last || !joins(p->token.kind)) return last;
    const uint32_t all = with_child(p, node_new(p, kind, at), last);
    while (all && joins(p->token.kind)) {
        const bool minus = p->token.kind == TOKEN_MINUS;
        const uint32_t next = step(p) ? operand(p) : 0;
        if (!next) return 0;
        p->tree->nodes[next].minus = minus;
        last = add_child(p, all, last, next);
    }
    return all;
}

static uint32_t product(struct parser *p)
{
    return chain(p, NODE_PRODUCT, joins_product, unary);
}

static uint32_t expression(struct parser *p)
{
    return chain(p, NODE_SUM, joins_sum, product);
}

/* ---- statements ---- */

static uint32_t block(struct parser *p, const char *wanted)
{
    const uint32_t at = p->token.at;
    if (!expect(p, TOKEN_OPEN_BRACE, wanted) || !down(p)) return 0;
    const uint32_t inner = statements(p, TOKEN_CLOSE_BRACE);
    p->depth--;
    if (!inner) return 0;
    if (p->token.kind == TOKEN_END) {
        return fault_set(p->fault, at, "this block is never closed: put a '}' at its end");
    }
    return step(p) ? inner : 0;
}

static uint32_t nursery(struct parser *p)
{
    const uint32_t at = p->token.at;
    if (!step(p)) return 0;
    const uint32_t inner = block(p, "'{' after 'nursery'");
    return inner ? with_child(p, node_new(p, NODE_NURSERY, at), inner) : 0;
}

static uint32_t spawn(struct parser *p)
{
    const uint32_t at = p->token.at;
    if (!step(p)) return 0;
    const uint32_t inner = p->token.kind == TOKEN_OPEN_BRACE
                               ? block(p, "'{'")
                               : call(p, "a call or a block after 'spawn', e.g. spawn compute(x)");
    return inner ? with_child(p, node_new(p, NODE_SPAWN, at), inner) : 0;
}

static uint32_t let(struct parser *p)
{
    const uint32_t at = p->token.at;
    if (!step(p)) return 0;
    const struct token name = p->token;
    if (!expect(p, TOKEN_NAME, "a name after 'let'")) return 0;
    if (!expect(p, TOKEN_ASSIGN, "'=' after the name, e.g. let x = 1")) return 0;
    const uint32_t value = expression(p);
    return value ? with_child(p, node_named(p, NODE_LET, at, &name), value) : 0;
}

static uint32_t text_or_expression(struct parser *p)
{
    struct token text = p->token;
    if (text.kind != TOKEN_TEXT) return expression(p);
    const uint32_t quote = text.at++;
    return step(p) ? node_named(p, NODE_TEXT, quote, &text) : 0;
}

static uint32_t print(struct parser *p)
{
    const uint32_t node = node_new(p, NODE_PRINT, p->token.at);
    if (!node || !step(p)) return 0;
    if (!expect(p, TOKEN_OPEN, "'(' after 'print', e.g. print(\"sum\", x)")) return 0;
    if (p->token.kind != TOKEN_CLOSE && !arguments(p, node, text_or_expression)) return 0;
    return expect(p, TOKEN_CLOSE, "',' or ')' after an argument") ? node : 0;
}

static uint32_t bare_expression(struct parser *p)
{
    const uint32_t at = p->token.at;
    const uint32_t value = expression(p);
    if (!value) return 0;
    const enum node_kind kind = p->tree->nodes[value].kind;
    if (kind == NODE_CALL || kind == NODE_AWAIT || kind == NODE_ASYNC) return value;
    return fault_set(p->fault, at,
                     "this value is not used: print it, or give it a name by let");
}

static uint32_t statement(struct parser *p)
{
    if (p->token.kind == TOKEN_NURSERY) return nursery(p);
    if (p->token.kind == TOKEN_SPAWN) return spawn(p);
    if (p->token.kind == TOKEN_LET) return let(p);
    if (p->token.kind == TOKEN_PRINT) return print(p);
    if (p->token.kind == TOKEN_CLOSE_BRACE) {
        return fault_set(p->fault, p->token.at, "this '}' closes nothing: remove it");
    }
    return bare_expression(p);
}

static uint32_t statements(struct parser *p, enum token_kind end)
{
    const uint32_t all = node_new(p, NODE_BLOCK, p->token.at);
    uint32_t last = 0;
    while (all) {
        while (p->token.kind == TOKEN_NEWLINE) {
            if (!step(p)) return 0;
        }
        if (p->token.kind == end || p->token.kind == TOKEN_END) return all;
        const uint32_t next = statement(p);
        if (!next) return 0;
        last = add_child(p, all, last, next);
        const enum token_kind kind = p->token.kind;
        if (kind != TOKEN_NEWLINE && kind != TOKEN_CLOSE_BRACE && kind != TOKEN_END) {
            unexpected(p, "a new line or ';' after the statement");
            return 0;
        }
    }
    return 0;
}

bool parse(const struct source *source, struct tree *tree, struct fault *fault)
{
    enum { ROOM_AT_FIRST = 64 };
    struct parser p = {.lexer = lexer_begin(source), .tree = tree, .fault = fault};
    *tree = (struct tree){.nodes = calloc(ROOM_AT_FIRST, sizeof(struct node)),
                          .count = 1, /* 0 is none */
                          .room = ROOM_AT_FIRST};
    if (!tree->nodes) {
        fault_set(fault, 0, "out of memory: try again");
    } else if (step(&p)) {
        tree->root = statements(&p, TOKEN_END);
    }
    if (!tree->root) tree_free(tree);
    return tree->root != 0;
}

void tree_free(struct tree *tree)
{
    free(tree->nodes);
    *tree = (struct tree){0};
}
