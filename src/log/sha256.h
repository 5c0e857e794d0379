/* SPDX-License-Identifier: MIT
 *
 * sha256: what chains the blocks of a log: SHA-256, FIPS 180-4.
 */
#ifndef HDI_LOG_SHA256_H
#define HDI_LOG_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define HDI_SHA256_BYTES 32

struct hdi_sha256 {
    uint32_t state[8];
    uint64_t bytes;     /* that were added */
    uint8_t block[64];  /* the last of them, bytes % 64 */
};

void hdi_sha256_init(struct hdi_sha256 *sha);
void hdi_sha256_add(struct hdi_sha256 *sha, const void *data, size_t bytes);

/* The hash of all that was added; *sha is used up. */
void hdi_sha256_end(struct hdi_sha256 *sha, uint8_t hash[HDI_SHA256_BYTES]);

#endif
