/* SPDX-License-Identifier: MIT
 *
 * raw_epoll_echo: an echo server by epoll and nothing else, to tell what of a difference is the
 * kernel's. A client that does not read what it is sent ends its connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 1024

static char buffer[64 << 10];

static void must(int result, const char *what)
{
    if (result >= 0) return;
    perror(what);
    exit(1);
}

static void watch(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

/* A read that fills the buffer is the only one after which there may be more. */
static void echo(int conn)
{
    for (;;) {
        const ssize_t got = recv(conn, buffer, sizeof buffer, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0 || send(conn, buffer, (size_t)got, MSG_NOSIGNAL) != got) break;
        if ((size_t)got < sizeof buffer) return;
    }
    close(conn);
}

int main(void)
{
    static const int one = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "setsockopt");
    must(bind(listener, (struct sockaddr *)&addr, length), "bind");
    must(listen(listener, 4096), "listen");
    must(getsockname(listener, (struct sockaddr *)&addr, &length), "getsockname");
    printf("127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);

    static struct epoll_event events[EVENTS];
    const int epoll = epoll_create1(0);
    watch(epoll, listener, EPOLLIN);
    for (;;) {
        const int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener) {
                echo(events[i].data.fd);
                continue;
            }
            const int conn = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (conn >= 0) watch(epoll, conn, EPOLLIN | EPOLLET);
        }
    }
}
