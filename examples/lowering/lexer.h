/* SPDX-License-Identifier: MIT
 *
 * lexer: the words of a program.
 *
 * A new line ends a statement, as a semicolon does, but not inside parentheses. Comments run from
 * two slashes to the end of the line.
 */
#ifndef LOWERING_LEXER_H
#define LOWERING_LEXER_H

#include "source.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NEWLINE, /* or a semicolon */
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_TEXT, /* at: the first quote; bytes: those between the quotes */
    TOKEN_NURSERY,
    TOKEN_SPAWN,
    TOKEN_ASYNC,
    TOKEN_AWAIT,
    TOKEN_LET,
    TOKEN_PRINT,
    TOKEN_OPEN_BRACE,
    TOKEN_CLOSE_BRACE,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_ASSIGN,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_TIMES,
};

struct token {
    enum token_kind kind;
    uint32_t at, bytes;
    uint64_t number; /* TOKEN_NUMBER: at most 2^63, which is right after a minus only */
};

struct lexer {
    const struct source *source;
    uint32_t at;
    unsigned parentheses; /* open ones */
};

struct lexer lexer_begin(const struct source *source);

/* The next word; TOKEN_END again and again at the end. Returns false with a fault. */
bool lexer_next(struct lexer *lexer, struct token *token, struct fault *fault);

/* What a token is called in messages, e.g. "a name", "'('". */
const char *token_kind_name(enum token_kind kind);

#endif
