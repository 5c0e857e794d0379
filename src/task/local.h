/* SPDX-License-Identifier: MIT
 *
 * local: what a task's extras and their `locals` point to.
 *
 * Owner  the running task; the spawning one before its child is submitted.
 */
#ifndef HDI_TASK_LOCAL_H
#define HDI_TASK_LOCAL_H

#include <stdbool.h>

struct hd_local;
struct hd_task;

/* Give a new task what it inherits. Context: the spawning task. Returns: 0, -ENOMEM, or
 * what an `inherit` returned; the child then has nothing. */
int hdi_locals_inherit(const struct hd_task *parent, struct hd_task *child);

/* A task's value; NULL if it has none. Context: the task itself, or the simulation, which runs one
 * task at a time. */
void *hdi_local_of(const struct hd_task *task, const struct hd_local *key);

/* End all values. Context: the task itself, or nobody runs it any more. */
void hdi_locals_end(struct hd_task *task);

#endif
