/* SPDX-License-Identifier: MIT
 *
 * run: opcodes on the compiler ABI (heddle/janus.h).
 *
 *   Nursery_Begin   janus_nursery_create()
 *   Spawn           janus_nursery_spawn()
 *   Async_Call      janus_async()
 *   Await           janus_await()
 *   Nursery_End     janus_nursery_await(), janus_nursery_destroy()
 *   every opcode    janus_checkpoint(1)
 *
 * A function that fails cancels the nurseries it has open, inner ones first, and waits for their
 * tasks. Its error is then what its own nursery, if it is a task, gets to see.
 */
#ifndef LOWERING_RUN_H
#define LOWERING_RUN_H

#include <heddle.h>

#include "qtjir.h"

/* Run a program in a runtime of its own. What it prints goes to `out`.
 * Context: thread.
 * Returns: 0; a negative errno, with the fault that it began with. */
int run_program(const struct program *program, const hd_options *options, FILE *out,
                struct fault *fault);

#endif
