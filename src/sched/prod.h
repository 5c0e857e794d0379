/* SPDX-License-Identifier: MIT
 *
 * prod: a signal that makes a worker's thread do something this moment, whatever it is in: answer
 * where it stands (obs/stall.c), or enter the kernel for its ring (io/uring.h), which nobody else
 * can.
 *
 * The handler is installed while somebody may prod, and gives signals that nobody has sent to the
 * handler before it. It makes one system call, or takes a backtrace, on a stack of its own; system
 * calls of the program that it interrupts go on where the kernel can have them do so.
 */
#ifndef HDI_SCHED_PROD_H
#define HDI_SCHED_PROD_H

#include <signal.h>
#include <stdbool.h>

struct hdi_worker;

#define HDI_PROD_SIGNAL SIGURG

void hdi_prod_install(void);
void hdi_prod_uninstall(void);

/* The calling thread can be prodded from now on. Context: a worker's. */
void hdi_prod_admit(struct hdi_worker *worker);

/* Have it enter the kernel for its lane, and give it time to. Returns whether it has, in this or
 * another's name. Context: another thread, while the worker has one. */
bool hdi_prod(struct hdi_worker *worker);

/* Only send it the signal. Context: as above. */
void hdi_prod_send(const struct hdi_worker *worker);

/* Do what this signal was sent for. Returns false if it was not ours. Context: a handler of it. */
bool hdi_prod_take(const siginfo_t *what);

/* ---- what the handler calls ---- */

/* Returns whether the calling thread was asked (obs/stall.c). */
bool hdi_stall_answer(void);

/* Context: the lane's worker, in a signal handler (io/lane.c). */
void hdi_lane_prodded(struct hdi_worker *worker);

#endif
