/* SPDX-License-Identifier: MIT
 *
 * net_calls: what the table of system calls (sim/net_sys.c) does with a socket. Under the network's
 * lock. Results are as of the system calls of these names.
 */
#ifndef HDI_SIM_NET_CALLS_H
#define HDI_SIM_NET_CALLS_H

#include "sim/net.h"

/* Of a stream that is no pipe's wrong end. */
ssize_t hdi_stream_read(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                        size_t count, int flags);
ssize_t hdi_stream_write(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                         size_t count);

ssize_t hdi_dgram_read(struct hdi_net *net, struct hdi_sock *sock, struct msghdr *message,
                       int flags);
int hdi_sock_accept(struct hdi_net *net, struct hdi_sock *listener, struct sockaddr *addr,
                    socklen_t *bytes);

/* The error that waits, once, as -errno. */
int hdi_sock_take_error(struct hdi_sock *sock);

/* net_option.c */
int hdi_sock_set(struct hdi_net *net, struct hdi_sock *sock, int level, int name,
                 const void *value, socklen_t bytes);
int hdi_sock_get(struct hdi_sock *sock, int level, int name, void *value, socklen_t *bytes);

#endif
