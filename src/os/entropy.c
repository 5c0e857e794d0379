/* SPDX-License-Identifier: MIT */
#include "os/entropy.h"

#include <sys/random.h>

#include "base/prng.h"
#include "os/clock.h"

uint64_t hdi_entropy(void)
{
#if HDI_MODEL
    return 0;
#else
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) == (ssize_t)sizeof(bits)) return bits;
    return hdi_mix64((uint64_t)hdi_clock_now() ^ (uint64_t)(uintptr_t)&bits);
#endif
}
