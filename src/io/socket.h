/* SPDX-License-Identifier: MIT
 *
 * socket: what the parts of the network code share.
 */
#ifndef HDI_IO_SOCKET_H
#define HDI_IO_SOCKET_H

#include <heddle/net.h>

#include "io/source.h"

/* Split "HOST:PORT" or "[HOST]:PORT"; the host may be empty. Returns: the port; -EINVAL. */
int hdi_place_split(const char *place, char *host, size_t bytes);

/* An IP address without a name, and a port. Returns: 0, -EINVAL. */
int hdi_addr_of(hd_addr *addr, const char *host, int port);

/* A new socket for connections, or for datagrams, to or at this address. */
int hdi_socket_open(struct hd_runtime *runtime, const hd_addr *addr, int type);

/* Listen at an address. Returns as hd_tcp_listen(). */
int hdi_socket_listen(struct hd_runtime *runtime, hd_io *listener, const hd_addr *addr,
                      const hd_listen_options *options);

/* Connect to an address from another, which may be NULL. Returns as hd_connect_until(). */
int hdi_socket_dial(hd_io *conn, const hd_addr *addr, const hd_addr *from, bool delayed,
                    int64_t deadline);

/* The other side learns of the end as if it were closed: by a reset, where that was asked for. The
 * descriptor stays open. Context: nobody else uses it. */
void hdi_socket_end(const struct hdi_source *source);

#endif
