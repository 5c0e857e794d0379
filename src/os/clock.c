/* SPDX-License-Identifier: MIT */
#include "os/clock.h"

#include <time.h>

int64_t hdi_clock_now(void)
{
#if HDI_MODEL
    return 0; /* Models have no time; the explorer decides when a timeout passes. */
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}
