/* SPDX-License-Identifier: MIT
 *
 * lease: reading and writing without a copy, and without a buffer while there is nothing to read.
 *
 *   hd_lease got = {0};
 *   while (hd_lease_read(conn, &got) > 0) {            got.count bytes at got.bytes
 *       if (hd_lease_write(other, &got) != 0) break;   on success the lease has ended
 *   }
 *   hd_lease_end(&got);
 *
 * The bytes lie in a buffer of the runtime, which the caller has on lease: nobody else touches it
 * until the lease ends. It is found only once there is something to read, the one used last first,
 * so ten thousand connections that wait have none, and a busy one's is still in the cache. By
 * io_uring little comes into such a buffer before anybody asked, much is received for many readers
 * by one call, and what is written goes out from the same buffer, by one call for many writers.
 * For proxies, echoes, parsers that look and throw away; who keeps the bytes reads them into memory
 * of his own, by hd_read(), in the first place.
 *
 * A lease may be had by one task, ended by another, and outlive the connection; but not the
 * runtime. One that is never ended is memory lost.
 */
#ifndef HEDDLE_LEASE_H
#define HEDDLE_LEASE_H

#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed, it is none. Both fields may be changed to a part of the buffer they name, such as what
 * lies behind a header, and the bytes may be changed in place. */
typedef struct hd_lease {
    char *bytes;
    size_t count;
    void *private_[2];
} hd_lease;

#define HD_LEASE_MAX 32704 /* bytes that a lease has at most */

/* Read what there is, at least one byte, waiting for it; it need not be all there is. A datagram of
 * more than HD_LEASE_MAX bytes is cut. *lease is to be none: who has one ends it first.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes, if there is nothing.
 * Allocates: cached.
 * Cancel: nothing was read. Of a close at the moment bytes come, either may be first.
 * Returns: how many bytes, as lease->count; 0: the other side will send no more, and *lease is
 * untouched, as on failure; -EINVAL if it was one, -ENOMEM; as hd_read(). */
HD_API HD_MUST_USE ssize_t hd_lease_read(hd_io io, hd_lease *lease);
HD_API HD_MUST_USE ssize_t hd_lease_read_until(hd_io io, hd_lease *lease, int64_t deadline);

/* Write all of it, and end the lease. To TCP it may be sent a moment later, as what is written by
 * hd_write(), whatever its size.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes, if there is no room.  Allocates: no.
 * Returns: 0; -EINVAL if it was none; as hd_write(), and then the lease goes on, with what was not
 * written. */
HD_API HD_MUST_USE int hd_lease_write(hd_io io, hd_lease *lease);
HD_API HD_MUST_USE int hd_lease_write_until(hd_io io, hd_lease *lease, int64_t deadline);

/* Give the buffer back. *lease is none then; it may have been before.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_lease_end(hd_lease *lease);

#ifdef __cplusplus
}
#endif
#endif
