/* SPDX-License-Identifier: MIT */
#include "sim/sampler.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than every name with its end. */
#define NAME_MAX_ 16

static const struct known {
    const char *name;
    const struct hdi_sampler_kind *kind; /* NULL: portfolio, which is made of the others */
    const char *hint;
} all_known[] = {
#define KNOWN(name) {#name, &hdi_sampler_##name, "unknown sampler: did you mean " #name "?"}
    KNOWN(random), KNOWN(pct), KNOWN(pos), KNOWN(urw), KNOWN(cohort), KNOWN(fair), KNOWN(all),
    {"portfolio", NULL, "unknown sampler: did you mean portfolio?"},
#undef KNOWN
};
#define KNOWN_COUNT (sizeof(all_known) / sizeof(all_known[0]))

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters have to be added, left out, changed, or swapped with the next. */
static unsigned distance(const char *a, const char *b)
{
    unsigned d[NAME_MAX_][NAME_MAX_]; /* from the first i letters of a to the first j of b */
    for (unsigned i = 0; i == 0 || a[i - 1]; i++) {
        for (unsigned j = 0; j == 0 || b[j - 1]; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const bool same = a[i - 1] == b[j - 1];
            d[i][j] = least(d[i - 1][j - 1] + !same, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[strlen(a)][strlen(b)];
}

static const char *hint_for(const char *name, size_t length)
{
    char lower[NAME_MAX_] = {0};
    for (size_t i = 0; i < length && length < NAME_MAX_; i++) {
        lower[i] = (char)tolower((unsigned char)name[i]);
    }
    unsigned nearest = NAME_MAX_;
    const char *hint = "unknown sampler: there are random, pct, pos, urw, cohort, fair and all, "
                       "and for hd_explore() also portfolio";
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        const unsigned d = distance(lower, all_known[i].name);
        /* Half of the letters have to be there, or anything would be near a short name. */
        if (d >= nearest || 2 * d > strlen(all_known[i].name)) continue;
        nearest = d;
        hint = all_known[i].hint;
    }
    return hint;
}

static const struct known *find(const char *name, size_t length)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        const char *known = all_known[i].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) return &all_known[i];
    }
    return NULL;
}

int hdi_sampler_create(struct hdi_sampler **sampler, const char *text, const char **error)
{
    const size_t length = strcspn(text, ":");
    const struct known *known = find(text, length);
    if (!known) {
        *error = hint_for(text, length);
        return -EINVAL;
    }
    if (!known->kind) {
        *error = "portfolio is made of other samplers, and only hd_explore() takes it";
        return -EINVAL;
    }
    const char *why = NULL;
    struct hdi_sampler *made = known->kind->create(text + length + (text[length] == ':'), &why);
    if (!made) {
        if (!why) return -ENOMEM;
        *error = why;
        return -EINVAL;
    }
    made->kind = known->kind;
    *sampler = made;
    return 0;
}

void hdi_sampler_destroy(struct hdi_sampler *sampler)
{
    if (!sampler) return;
    if (sampler->kind->destroy) {
        sampler->kind->destroy(sampler);
    } else {
        free(sampler);
    }
}

struct hdi_sampler *hdi_sampler_plain(size_t size, const char *parameters, const char **error)
{
    if (*parameters) {
        *error = "the samplers random, pos, cohort and fair take no parameters";
        return NULL;
    }
    return calloc(1, size);
}

int hdi_sampler_text(const struct hdi_sampler *sampler, char *text, size_t size)
{
    if (!sampler->kind->text) return snprintf(text, size, "%s", sampler->kind->name);
    const int length = snprintf(text, size, "%s:", sampler->kind->name);
    const size_t used = (size_t)length < size ? (size_t)length : size;
    return length + sampler->kind->text(sampler, text + used, size - used);
}
