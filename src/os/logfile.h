/* SPDX-License-Identifier: MIT
 *
 * logfile: the files that event logs are in. They are real in every world: a simulated run is
 * recorded on the machine's disk, not on a simulated one.
 *
 * Context: any thread, all of them; they may block it.
 */
#ifndef HDI_OS_LOGFILE_H
#define HDI_OS_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new file to write. A regular file that is there already goes: who reads it keeps what it has
 * open. Returns: a descriptor, or -errno. */
int hdi_logfile_create(const char *path);

/* All of it, after what was written before. Returns: 0, or -errno; some of it may be written
 * then. */
int hdi_logfile_write(int fd, const void *bytes, size_t count);

/* To read. *bytes is its size. Returns: a descriptor; -errno; -EBADMSG if it is neither a regular
 * file nor a directory, which is -EISDIR. */
int hdi_logfile_open(const char *path, uint64_t *bytes);

/* Exactly so many bytes from there. Returns: 0; -errno; -EIO if the file has become shorter. */
int hdi_logfile_read(int fd, void *bytes, size_t count, uint64_t offset);

/* Whether it is a regular file. */
bool hdi_logfile_is_regular(int fd);

/* Returns: 0, or -errno if something that was written is lost. */
int hdi_logfile_close(int fd);

#endif
