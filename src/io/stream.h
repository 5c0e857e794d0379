/* SPDX-License-Identifier: MIT
 *
 * stream: one try to read from a source, or to write to it, whatever its kind, but for files.
 * Context: the side's lock. Return: what the system call does.
 */
#ifndef HDI_IO_STREAM_H
#define HDI_IO_STREAM_H

#include "io/source.h"

ssize_t hdi_stream_try_read(struct hdi_source *source, void *bytes, size_t count);
ssize_t hdi_stream_try_write(struct hdi_source *source, const void *bytes, size_t count);

#endif
