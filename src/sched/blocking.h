/* SPDX-License-Identifier: MIT
 *
 * blocking: calls on a thread that may be blocked, for the layers above.
 */
#ifndef HDI_SCHED_BLOCKING_H
#define HDI_SCHED_BLOCKING_H

#include "wait/wait.h"

/* hd_blocking_until(), and the call is given up also when `stop` happens: a case with its op, whose
 * result is an error; NULL: nothing else. Returns: as that; the result of `stop`. */
int hdi_blocking_unless(hd_fn *fn, void *arg, int *result, const hd_case *stop, int64_t deadline);

#endif
