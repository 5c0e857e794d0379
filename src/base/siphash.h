/* SPDX-License-Identifier: MIT
 *
 * siphash: SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash of short messages. Who does
 * not know the key can neither compute the hash of a message nor find two with the same.
 */
#ifndef HDI_BASE_SIPHASH_H
#define HDI_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* The key is 128 bits, the halves as the paper's k0 and k1. Time depends on `bytes` only. */
uint64_t hdi_siphash(const uint64_t key[2], const void *data, size_t bytes);

#endif
