/* SPDX-License-Identifier: MIT
 *
 * program: simulated programs, and the processes that run them.
 *
 * A process is a number that tasks carry as a local value, which the tasks they spawn inherit, as
 * they do with a host (sim/net_host.c). It begins by an event of the network, as a fiber of its own
 * that no task has spawned: neither what binds its parent nor what cancels it reaches it.
 *
 *   whoever ends it, any task or thread        the driver (hdi_net_run)
 *   1. dead, and why; into `dying`             1. close its handles, cancel its tasks: once
 *                                              2. no task carries it: it has ended; tell the pidfd
 *   the last task that carries it
 *   1. into `dying`
 *
 *   PROC-1  All of it is under the network's lock. The driver, which alone takes processes out of
 *           `dying`, gives that back to close and to cancel: the process is there meanwhile, as
 *           only what has ended is freed.
 *   PROC-2  Once it is dead, nothing that its tasks do is seen: their calls find a dead life, and
 *           they cannot spawn, so a single walk finds all of them.
 *   PROC-3  It has ended when it is dead, its handles are closed and no task carries it: who has
 *           waited for it may free what it used.
 *
 * Who ends a process only notes it: hd_child_kill() holds a lock meanwhile, and waking tasks is the
 * driver's.
 */
#ifndef HDI_SIM_PROGRAM_H
#define HDI_SIM_PROGRAM_H

#include <sys/types.h>

#include "os/sys.h"

struct hdi_life;
struct hdi_net;

/* ---- for the table of system calls (os/sys.h) ---- */

int hdi_process_spawn(struct hd_runtime *runtime, const struct hdi_spawn *what);
int hdi_process_open(struct hd_runtime *runtime, pid_t pid);
int hdi_process_wait(struct hd_runtime *runtime, pid_t pid, int pidfd, int flags, int *status);
int hdi_process_kill(struct hd_runtime *runtime, pid_t pid, int pidfd, int signal);
const struct hdi_process *hdi_process_self(struct hd_runtime *runtime);

/* ---- for the rest of sim ---- */

/* The caller's process is dead: a life that is, too; NULL: it is not, or there is none. */
struct hdi_life *hdi_process_gone(void);

/* What the caller spawns is not of its process; and is again. */
void hdi_process_aside(bool aside);

/* The host crashes. Context: the lock. */
void hdi_processes_crash(struct hdi_net *net, const struct hdi_life *life);

/* See to those that die. Context: the driver; the lock, which is given back in between. */
void hdi_processes_look(struct hdi_net *net);

/* Nothing goes wrong with them any more. Context: the lock. */
void hdi_programs_heal(struct hdi_net *net);
void hdi_programs_end(struct hdi_net *net);

#endif
