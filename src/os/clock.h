/* SPDX-License-Identifier: MIT
 *
 * clock: the machine's monotonic clock, which only the live world reads, and the time of day, which
 * is for people and decides nothing.
 */
#ifndef HDI_OS_CLOCK_H
#define HDI_OS_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed point, never going back. */
int64_t hdi_clock_now(void);

/* The time of day, in UTC, as "2026-11-16T16:32:29Z". */
#define HDI_CLOCK_DATE_BYTES 32
void hdi_clock_date(char text[HDI_CLOCK_DATE_BYTES]);

#endif
