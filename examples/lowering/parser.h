/* SPDX-License-Identifier: MIT
 *
 * parser: the tree of a program.
 *
 *   program    = { statement newline }
 *   statement  = "nursery" block
 *              | "spawn" ( call | block )
 *              | "let" name "=" expression
 *              | "print" "(" [ item { "," item } ] ")"
 *              | call | "await" unary | "async" call
 *   block      = "{" { statement newline } "}"
 *   item       = string | expression
 *   expression = product { ( "+" | "-" ) product }
 *   product    = unary { "*" unary }
 *   unary      = "-" unary | "await" unary | "async" call | primary
 *   primary    = number | name | call | "(" expression ")"
 *   call       = name "(" [ expression { "," expression } ] ")"
 *
 * Sums and products have all their operands as children, so the tree is as deep as what is written
 * is nested, and not deeper than DEPTH_MAX: whoever walks it may recurse.
 */
#ifndef LOWERING_PARSER_H
#define LOWERING_PARSER_H

#include "source.h"

enum node_kind {
    NODE_BLOCK,   /* statements */
    NODE_NURSERY, /* a block */
    NODE_SPAWN,   /* a call or a block */
    NODE_LET,     /* an expression; name */
    NODE_PRINT,   /* texts and expressions */
    NODE_TEXT,    /* name: what it says */
    NODE_NUMBER,
    NODE_NAME,
    NODE_CALL,    /* arguments; name */
    NODE_ASYNC,   /* a call */
    NODE_AWAIT,   /* an expression */
    NODE_NEGATE,  /* an expression */
    NODE_SUM,     /* expressions; those with `minus` are taken away */
    NODE_PRODUCT, /* expressions */
};

/* Nodes are numbers into tree.nodes; 0 is none. */
struct node {
    enum node_kind kind;
    bool minus;
    uint32_t at;              /* where it begins */
    uint32_t name, name_bytes; /* of the source */
    uint32_t first, next;     /* child, sibling */
    int64_t number;
};

struct tree {
    struct node *nodes;
    uint32_t count, room;
    uint32_t root; /* a NODE_BLOCK */
};

/* Returns false with a fault; the tree is then empty. */
bool parse(const struct source *source, struct tree *tree, struct fault *fault);
void tree_free(struct tree *tree);

#endif
