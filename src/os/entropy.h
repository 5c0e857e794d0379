/* SPDX-License-Identifier: MIT
 *
 * entropy: the machine's randomness. Only the live world reads it.
 */
#ifndef HDI_OS_ENTROPY_H
#define HDI_OS_ENTROPY_H

#include <stdint.h>

/* 64 random bits; a mix of clock and addresses if the kernel has none to give. */
uint64_t hdi_entropy(void);

#endif
