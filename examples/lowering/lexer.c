/* SPDX-License-Identifier: MIT */
#include "lexer.h"

#include <string.h>

static const struct {
    const char *word;
    enum token_kind kind;
} keywords[] = {
    {"nursery", TOKEN_NURSERY}, {"spawn", TOKEN_SPAWN}, {"async", TOKEN_ASYNC},
    {"await", TOKEN_AWAIT},     {"let", TOKEN_LET},     {"print", TOKEN_PRINT},
};

static const char *const kind_names[] = {
    [TOKEN_END] = "the end of the file",
    [TOKEN_NEWLINE] = "the end of the line",
    [TOKEN_NAME] = "a name",
    [TOKEN_NUMBER] = "a number",
    [TOKEN_TEXT] = "a string",
    [TOKEN_NURSERY] = "'nursery'",
    [TOKEN_SPAWN] = "'spawn'",
    [TOKEN_ASYNC] = "'async'",
    [TOKEN_AWAIT] = "'await'",
    [TOKEN_LET] = "'let'",
    [TOKEN_PRINT] = "'print'",
    [TOKEN_OPEN_BRACE] = "'{'",
    [TOKEN_CLOSE_BRACE] = "'}'",
    [TOKEN_OPEN] = "'('",
    [TOKEN_CLOSE] = "')'",
    [TOKEN_COMMA] = "','",
    [TOKEN_ASSIGN] = "'='",
    [TOKEN_PLUS] = "'+'",
    [TOKEN_MINUS] = "'-'",
    [TOKEN_TIMES] = "'*'",
};

const char *token_kind_name(enum token_kind kind)
{
    return kind_names[kind];
}

struct lexer lexer_begin(const struct source *source)
{
    const bool marked = source->bytes >= 3 && memcmp(source->text, "\xef\xbb\xbf", 3) == 0;
    return (struct lexer){.source = source, .at = marked ? 3 : 0};
}

/* The byte so far ahead; -1 at the end. */
static int look(const struct lexer *lexer, uint32_t ahead)
{
    const size_t at = (size_t)lexer->at + ahead;
    return at < lexer->source->bytes ? (unsigned char)lexer->source->text[at] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void skip_line(struct lexer *lexer)
{
    while (look(lexer, 0) != -1 && look(lexer, 0) != '\n') lexer->at++;
}

static void skip_blanks(struct lexer *lexer)
{
    for (;;) {
        const int c = look(lexer, 0);
        if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && lexer->parentheses > 0)) {
            lexer->at++;
        } else if (c == '/' && look(lexer, 1) == '/') {
            skip_line(lexer);
        } else {
            return;
        }
    }
}

static bool read_name(struct lexer *lexer, struct token *token, struct fault *fault)
{
    while (is_letter(look(lexer, token->bytes)) || is_digit(look(lexer, token->bytes))) {
        token->bytes++;
    }
    if (token->bytes > NAME_BYTES_MAX) {
        return fault_set(fault, token->at, "this name has %u letters: shorten it to %d at most",
                         token->bytes, NAME_BYTES_MAX);
    }
    const char *name = lexer->source->text + token->at;
    token->kind = TOKEN_NAME;
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        const size_t bytes = strlen(keywords[i].word);
        if (bytes == token->bytes && memcmp(name, keywords[i].word, bytes) == 0) {
            token->kind = keywords[i].kind;
        }
    }
    return true;
}

static bool read_number(struct lexer *lexer, struct token *token, struct fault *fault)
{
    const uint64_t most = UINT64_C(1) << 63;
    token->kind = TOKEN_NUMBER;
    for (int c; is_digit(c = look(lexer, token->bytes)); token->bytes++) {
        const unsigned digit = (unsigned)(c - '0');
        if (token->number > (most - digit) / 10) {
            return fault_set(fault, token->at,
                             "this number does not fit 64 bits: the largest is %lld",
                             (long long)INT64_MAX);
        }
        token->number = token->number * 10 + digit;
    }
    if (is_letter(look(lexer, token->bytes))) {
        return fault_set(fault, token->at + token->bytes,
                         "a letter right after a number: put a space or an operator between");
    }
    return true;
}

static bool read_text(struct lexer *lexer, struct token *token, struct fault *fault)
{
    token->kind = TOKEN_TEXT;
    for (; look(lexer, 1 + token->bytes) != '"'; token->bytes++) {
        const int c = look(lexer, 1 + token->bytes);
        if (c == -1 || c == '\n') {
            return fault_set(fault, token->at,
                             "this string does not end: put a '\"' at its end, on the same line");
        }
        if (c < 0x20 || c == 0x7f || c == '\\') {
            return fault_set(fault, token->at + 1 + token->bytes,
                             "a string holds plain text: leave out control characters and '\\'");
        }
    }
    if (token->bytes > TEXT_BYTES_MAX) {
        return fault_set(fault, token->at, "this string has %u bytes: split it into ones of %d",
                         token->bytes, TEXT_BYTES_MAX);
    }
    lexer->at += 2; /* the quotes; the caller adds the rest */
    return true;
}

static bool read_sign(struct lexer *lexer, struct token *token, struct fault *fault)
{
    static const char signs[] = "{}(),=+-*;\n";
    static const enum token_kind kinds[] = {
        TOKEN_OPEN_BRACE, TOKEN_CLOSE_BRACE, TOKEN_OPEN,  TOKEN_CLOSE,   TOKEN_COMMA,  TOKEN_ASSIGN,
        TOKEN_PLUS,       TOKEN_MINUS,       TOKEN_TIMES, TOKEN_NEWLINE, TOKEN_NEWLINE};
    const int c = look(lexer, 0);
    const char *sign = c > 0 ? strchr(signs, c) : NULL;
    if (!sign) {
        if (c > 0x20 && c < 0x7f) {
            return fault_set(fault, token->at, "'%c' means nothing here: remove it", c);
        }
        return fault_set(fault, token->at,
                         "the byte 0x%02x is not text of a program: remove it, or save the file as "
                         "UTF-8 and keep such letters to comments and strings", (unsigned)c);
    }
    token->kind = kinds[sign - signs];
    token->bytes = 1;
    if (c == '(') lexer->parentheses++;
    if (c == ')' && lexer->parentheses > 0) lexer->parentheses--;
    return true;
}

bool lexer_next(struct lexer *lexer, struct token *token, struct fault *fault)
{
    skip_blanks(lexer);
    *token = (struct token){.kind = TOKEN_END, .at = lexer->at};
    const int c = look(lexer, 0);
    bool read = true;
    if (c == -1) return true;
    if (is_letter(c)) {
        read = read_name(lexer, token, fault);
    } else if (is_digit(c)) {
        read = read_number(lexer, token, fault);
    } else if (c == '"') {
        read = read_text(lexer, token, fault);
    } else {
        read = read_sign(lexer, token, fault);
    }
    lexer->at += token->bytes;
    return read;
}
