/* SPDX-License-Identifier: MIT */
#include "os/clock.h"

#include <time.h>

#if HDI_MODEL
#include "base/model_hooks.h"
#endif

int64_t hdi_clock_now(void)
{
#if HDI_MODEL
    return hdi_model_now();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

void hdi_clock_date(char text[HDI_CLOCK_DATE_BYTES])
{
    struct tm date = {0};
    const time_t now = time(NULL);
    gmtime_r(&now, &date);
    strftime(text, HDI_CLOCK_DATE_BYTES, "%Y-%m-%dT%H:%M:%SZ", &date);
}
