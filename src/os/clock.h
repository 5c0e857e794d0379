/* SPDX-License-Identifier: MIT
 *
 * clock: the machine's monotonic clock. Only the live world reads it.
 */
#ifndef HDI_OS_CLOCK_H
#define HDI_OS_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed point, never going back. */
int64_t hdi_clock_now(void);

#endif
