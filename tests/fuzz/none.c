/* SPDX-License-Identifier: MIT
 *
 * In the place of the whole I/O layer, which the targets do without: their streams are functions.
 */
#include "fuzz.h"

ssize_t hd_read_until(hd_io io, void *buffer, size_t bytes, int64_t deadline)
{
    (void)io, (void)buffer, (void)bytes, (void)deadline;
    abort();
}

ssize_t hd_write_until(hd_io io, const void *buffer, size_t bytes, int64_t deadline)
{
    (void)io, (void)buffer, (void)bytes, (void)deadline;
    abort();
}
