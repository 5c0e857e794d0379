/* SPDX-License-Identifier: MIT
 *
 * event: a descriptor that wakes a thread which sleeps in the kernel for other reasons, too.
 */
#ifndef HDI_OS_EVENT_H
#define HDI_OS_EVENT_H

#include <stdint.h>

struct hd_runtime;

/* For a runtime; NULL: for the process. Returns: the descriptor, or -errno. */
int hdi_event_open(struct hd_runtime *runtime);

/* Make it readable. Context: any; async-signal-safe. */
void hdi_event_raise(int fd);

/* It is not readable any more. */
void hdi_event_clear(int fd);

#if HDI_MODEL
/* Sleep until it is readable, or the deadline: a model's kernel. There is one event in an
 * execution, from hdi_event_open() on. */
void hdi_event_wait(int fd, int64_t deadline_ns);
#endif

#endif
