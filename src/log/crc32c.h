/* SPDX-License-Identifier: MIT
 *
 * crc32c: the checksum of blocks: CRC-32C (Castagnoli), as in iSCSI, RFC 3720.
 */
#ifndef HDI_LOG_CRC32C_H
#define HDI_LOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of these bytes after those that gave `crc`; 0: there were none. */
uint32_t hdi_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
