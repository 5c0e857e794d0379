/* SPDX-License-Identifier: MIT
 *
 * identity: which program this is, as far as a log says.
 */
#ifndef HDI_LOG_IDENTITY_H
#define HDI_LOG_IDENTITY_H

#include <stdint.h>

#define HDI_IDENTITY_BYTES 32

/* The GNU build ID of the executable, which its linker made of its contents, filled up with zeroes;
 * all zeroes if it has none. */
void hdi_identity_get(uint8_t identity[HDI_IDENTITY_BYTES]);

/* What it was called as, without directories. */
const char *hdi_identity_name(void);

#endif
