/* SPDX-License-Identifier: MIT
 *
 * The corpus as a program: `corpus` lists it, `corpus NAME [fixed]` runs one program once, as its
 * environment says. So `heddle explore build/gcc/tests/corpus/corpus NAME` finds its bug.
 */
#include <stdio.h>

#include "corpus.h"

static int list(void)
{
    for (const struct corpus_program *p = corpus_first(); p; p = p->next)
        printf("%-18s %s\n", p->name, p->notes);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: corpus [NAME [fixed]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 2) return list();
    const struct corpus_program *program = corpus_find(argv[1]);
    const bool fixed = argc == 3 && strcmp(argv[2], "fixed") == 0;
    if (!program || argc > 3 || (argc == 3 && !fixed)) return usage();
    struct corpus_case how = {.fixed = fixed, .size = program->size};
    return hd_run(program->run, &how, NULL) == 0 ? 0 : 1;
}
