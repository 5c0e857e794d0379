/* SPDX-License-Identifier: MIT
 *
 * file: calls on files for the rest of this layer, and what the simulated disk provides.
 */
#ifndef HDI_IO_FILE_H
#define HDI_IO_FILE_H

#include <heddle/file.h>

#include "io/source.h"

/* Read from or write to a file, at an offset or, if that is -1, at its position, which moves. A
 * stackless task, which cannot wait, does so itself. Returns: as hd_pread_until(); -EBADF; -ESPIPE
 * if it is no file. */
ssize_t hdi_file_readv(hd_io io, const struct iovec *parts, int count, int64_t offset,
                       int64_t deadline);
ssize_t hdi_file_writev(hd_io io, const struct iovec *parts, int count, int64_t offset,
                        int64_t deadline);

/* ---- what the simulated disk provides (sim/disk.c) ---- */

/* How long the next call takes on the host of the caller. */
int64_t hdi_disk_latency(struct hd_runtime *runtime);

#endif
