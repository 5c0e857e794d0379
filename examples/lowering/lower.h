/* SPDX-License-Identifier: MIT
 *
 * lower: from the tree of a program to opcodes.
 *
 *   nursery { ... }    Nursery_Begin ... Nursery_End
 *   spawn f(x)         Spawn @f, %x
 *   spawn { ... }      a function of its own, and Spawn @block.1, with the names it uses
 *   async f(x)         Async_Call @f, %x
 *   await h            Await %h
 *
 * Names are checked here, and what they stand for: numbers, or handles of tasks to await.
 */
#ifndef LOWERING_LOWER_H
#define LOWERING_LOWER_H

#include "parser.h"
#include "qtjir.h"

/* The program refers to the source and the registry. Returns false with a fault; it is then
 * empty. */
bool lower(const struct source *source, const struct tree *tree, const struct native *registry,
           struct program *program, struct fault *fault);

/* Parse and lower. */
bool compile(const struct source *source, const struct native *registry, struct program *program,
             struct fault *fault);

#endif
