/* SPDX-License-Identifier: MIT
 *
 * outside: the other end of a connection, as a socket of the system's in a thread of its own, so
 * that nothing reads ahead. It has little room, and begins to read when it is told to.
 */
#ifndef TEST_OUTSIDE_H
#define TEST_OUTSIDE_H

#include <netinet/in.h>
#include <pthread.h>

#include "nets.h"

enum end { END_CLOSE, END_CLOSE_BY_THREAD, END_SHUTDOWN, END_RUNTIME, ENDS };

struct outside {
    enum end end;             /* how the connection ends */
    char (*byte)(size_t at);  /* what is expected there */
    struct sockaddr_in place;
    int listener;
    hd_sem begin, over;       /* it may read; it has */
    size_t taken, got;        /* by the connection; here */
};

static inline void outside_init(struct outside *outside)
{
    const int size = 1 << 13;
    socklen_t bytes = sizeof(outside->place);
    outside->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(outside->listener >= 0);
    EXPECT_EQ(setsockopt(outside->listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    EXPECT_EQ(listen(outside->listener, 1), 0);
    EXPECT_EQ(getsockname(outside->listener, (struct sockaddr *)&outside->place, &bytes), 0);
    EXPECT_EQ(hd_sem_init(&outside->begin, 0), 0);
    EXPECT_EQ(hd_sem_init(&outside->over, 0), 0);
}

static inline void outside_fini(struct outside *outside)
{
    hd_sem_fini(&outside->begin);
    hd_sem_fini(&outside->over);
    close(outside->listener);
}

/* A thread: read to the end. */
static inline void *outside_read(void *arg)
{
    struct outside *outside = arg;
    char block[1000];
    ssize_t n;
    const int fd = accept(outside->listener, NULL, NULL);
    EXPECT(fd >= 0 && send(fd, "w", 1, 0) == 1);
    EXPECT_EQ(hd_sem_acquire(&outside->begin, 1), 0);
    if (outside->end == END_RUNTIME) usleep(30000); /* not for order: so that it has to wait */
    while ((n = recv(fd, block, sizeof(block), 0)) > 0) {
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(block[i], outside->byte(outside->got++));
    }
    EXPECT_EQ(n, 0);
    close(fd);
    hd_sem_release(&outside->over, 1);
    return NULL;
}

static inline hd_io outside_connect(const struct outside *outside)
{
    const int size = 1 << 13;
    hd_io io;
    char place[32], byte;
    snprintf(place, sizeof(place), "127.0.0.1:%d", ntohs(outside->place.sin_port));
    EXPECT_EQ(hd_tcp_connect(&io, place, NULL), 0);
    EXPECT_EQ(hd_read(io, &byte, 1), 1);
    EXPECT_EQ(hd_read_until(io, &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* It is watched. */
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    return io;
}

static inline void *outside_close_(void *io)
{
    EXPECT_EQ(hd_close(*(hd_io *)io), 0);
    return NULL;
}

static inline void outside_close_by_thread(hd_io io)
{
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, outside_close_, &io), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

#endif
