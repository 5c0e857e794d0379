/* SPDX-License-Identifier: MIT
 *
 * stream: reading from sources and writing to them, for the rest of this layer and for sim.
 */
#ifndef HDI_IO_STREAM_H
#define HDI_IO_STREAM_H

#include "io/source.h"

/* One try, whatever its kind, but for files. Context: the side's lock. Return: what the system call
 * does. */
ssize_t hdi_stream_try_read(struct hdi_source *source, void *bytes, size_t count);
ssize_t hdi_stream_try_write(struct hdi_source *source, const void *bytes, size_t count);

/* A new handle of a standard stream of the program, by its number; zeroed: it has none. */
hd_io hdi_stdio_open(struct hd_runtime *runtime, int fd);

#endif
