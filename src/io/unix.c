/* SPDX-License-Identifier: MIT
 *
 * unix: sockets of this machine, by path or name, which can pass descriptors.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "io/socket.h"

static int addr_of_path(hd_addr *addr, const char *path)
{
    char place[sizeof(struct sockaddr_un) + 8];
    if (!path) return -EINVAL;
    const int length = snprintf(place, sizeof(place), "unix:%s", path);
    if ((size_t)length >= sizeof(place)) return -ENAMETOOLONG;
    return hd_addr_parse(addr, place);
}

int hd_unix_listen(hd_io *listener, const char *path, const hd_listen_options *options)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    hd_addr addr;
    const int err = runtime ? addr_of_path(&addr, path) : -EINVAL;
    if (err) return err;
    return hdi_socket_listen(runtime, listener, &addr, options);
}

int hd_unix_connect_until(hd_io *conn, const char *path, int64_t deadline)
{
    hd_addr addr;
    const int err = addr_of_path(&addr, path);
    return err ? err : hd_connect_until(conn, &addr, deadline);
}

int hd_unix_connect(hd_io *conn, const char *path)
{
    return hd_unix_connect_until(conn, path, HD_FOREVER);
}

int hd_unix_pair(hd_io ends[2])
{
    struct hd_runtime *runtime = hdi_io_runtime();
    int fds[2];
    hd_io made[2];
    if (!runtime) return -EINVAL;
    int err = hdi_sys(runtime, socketpair, AF_UNIX, SOCK_STREAM, fds);
    if (err < 0) return err;
    err = hdi_source_create_pair(runtime, fds, HDI_SOURCE_STREAM, made);
    if (err) return err;
    ends[0] = made[0];
    ends[1] = made[1];
    return 0;
}

/* ---- passing descriptors ---- */

struct passing {
    struct iovec part;
    const int *fds; /* to send */
    int *out;       /* received */
    unsigned count;
};

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * HD_FDS_MAX)];
};

static ssize_t try_send_fds(struct hdi_source *source, void *arg)
{
    struct passing *passing = arg;
    const size_t bytes = sizeof(int) * passing->count;
    union control control = {0};
    struct msghdr message = {.msg_iov = &passing->part, .msg_iovlen = 1};
    if (source->fast) return -EINVAL; /* Earlier bytes may be in the lane. */
    if (passing->count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), passing->fds, bytes);
    }
    return hdi_sys(source->runtime, sendmsg, source->fd, &message, 0);
}

/* Keep as many as there is room for; the others would be open for ever. */
static void take_fds(struct hd_runtime *runtime, const struct cmsghdr *header,
                     struct passing *passing, unsigned *taken)
{
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
        if (*taken < passing->count) {
            passing->out[(*taken)++] = fd;
        } else {
            (void)hdi_sys(runtime, close, fd);
        }
    }
}

static ssize_t try_recv_fds(struct hdi_source *source, void *arg)
{
    struct passing *passing = arg;
    union control control = {0};
    struct msghdr message = {.msg_iov = &passing->part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    if (source->fast) return -EINVAL; /* Its next bytes may be in the lane. */
    const ssize_t n = hdi_sys(source->runtime, recvmsg, source->fd, &message, 0);
    if (n < 0) return n;
    unsigned taken = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        take_fds(source->runtime, h, passing, &taken);
    }
    passing->count = taken;
    return n;
}

ssize_t hd_send_fds_until(hd_io io, const void *buffer, size_t bytes, const int *fds,
                          unsigned count, int64_t deadline)
{
    struct passing passing = {.part = {(void *)buffer, bytes}, .fds = fds, .count = count};
    if (count > HD_FDS_MAX || bytes == 0) return -EINVAL;
    return hdi_source_do(io, true, try_send_fds, &passing, bytes, deadline);
}

ssize_t hd_send_fds(hd_io io, const void *buffer, size_t bytes, const int *fds, unsigned count)
{
    return hd_send_fds_until(io, buffer, bytes, fds, count, HD_FOREVER);
}

ssize_t hd_recv_fds_until(hd_io io, void *buffer, size_t bytes, int *fds, unsigned *count,
                          int64_t deadline)
{
    struct passing passing = {.part = {buffer, bytes}, .out = fds, .count = *count};
    const ssize_t n = hdi_source_do(io, false, try_recv_fds, &passing, bytes, deadline);
    if (n >= 0) *count = passing.count;
    return n;
}

ssize_t hd_recv_fds(hd_io io, void *buffer, size_t bytes, int *fds, unsigned *count)
{
    return hd_recv_fds_until(io, buffer, bytes, fds, count, HD_FOREVER);
}
