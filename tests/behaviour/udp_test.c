/* SPDX-License-Identifier: MIT
 *
 * Datagrams.
 */
#include <sys/socket.h>

#include "nets.h"

TEST_MAIN

static hd_io open_udp(hd_addr *addr)
{
    hd_io io;
    EXPECT_EQ(hd_udp_open(&io, "127.0.0.1:0"), 0);
    *addr = nets_addr(io);
    return io;
}

static int whole(void *arg)
{
    (void)arg;
    hd_addr to, own, from;
    hd_io a = open_udp(&own), b = open_udp(&to);
    char text[8], sender[HD_ADDR_TEXT_MAX], expected[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(hd_recv_from_until(b, text, sizeof(text), NULL, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_send_to(a, "one", 3, &to), 3);
    EXPECT_EQ(hd_recv_from(b, text, sizeof(text), &from), 3); /* Then the next is on its way. */
    EXPECT(memcmp(text, "one", 3) == 0);
    EXPECT(strcmp(hd_addr_format(&from, sender), hd_addr_format(&own, expected)) == 0);
    EXPECT_EQ(hd_send_to(a, "", 0, &to), 0);
    EXPECT_EQ(hd_recv_from(b, text, sizeof(text), NULL), 0);
    EXPECT_EQ(hd_send_to(a, "0123456789", 10, &to), 10);
    EXPECT_EQ(hd_recv_from(b, text, sizeof(text), NULL), 10); /* What does not fit is lost. */
    EXPECT(memcmp(text, "01234567", 8) == 0);
    EXPECT_EQ(hd_recv_from_until(b, text, sizeof(text), NULL, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_send_to(b, "back", 4, &from), 4);
    EXPECT_EQ(hd_recv_from(a, text, sizeof(text), NULL), 4);
    static char large[70000];
    EXPECT_EQ(hd_send_to(a, large, sizeof(large), &to), -EMSGSIZE);
    nets_close(a, b);
    return 0;
}

TEST_IO(datagrams_are_whole, options) { rt_run(whole, NULL, options); }

/* Several wait to be read: each call brings one, though each moves less than it could. */
static int queued(void *arg)
{
    (void)arg;
    hd_addr to, own;
    hd_io a = open_udp(&own), b = open_udp(&to);
    char text[64];
    EXPECT_EQ(hd_udp_connect(a, &to), 0);
    EXPECT_EQ(hd_udp_connect(b, &own), 0);
    for (int round = 0; round < 3; round++) {
        EXPECT_EQ(hd_read_until(b, text, sizeof(text), hd_after_ms(2)), -ETIMEDOUT);
        for (int i = 0; i < 10; i++) EXPECT_EQ(hd_write(a, text, (size_t)i + 1), i + 1);
        EXPECT_EQ(hd_sleep_ms(2), 0); /* in sim they have arrived by then */
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(hd_read_until(b, text, sizeof(text), hd_after_ms(5000)), i + 1);
        }
    }
    nets_close(a, b);
    return 0;
}

TEST_IO(connected_ones_are_read_one_by_one, options) { rt_run(queued, NULL, options); }

static int queued_from(void *arg)
{
    (void)arg;
    hd_addr to, own, from;
    hd_io a = open_udp(&own), b = open_udp(&to);
    int number;
    for (int round = 0; round < 3; round++) {
        EXPECT_EQ(hd_recv_from_until(b, &number, sizeof(number), &from, hd_after_ms(2)),
                  -ETIMEDOUT);
        for (int i = 0; i < 10; i++) EXPECT_EQ(hd_send_to(a, &i, sizeof(i), &to), sizeof(i));
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(hd_recv_from_until(b, &number, sizeof(number), &from, hd_after_ms(5000)),
                      sizeof(number));
            EXPECT_EQ(number, i);
        }
    }
    nets_close(a, b);
    return 0;
}

TEST_IO(datagrams_are_received_in_order_here, options) { rt_run(queued_from, NULL, options); }

static int nobody(void *arg)
{
    (void)arg;
    hd_addr to, own;
    hd_io a = open_udp(&own), b = open_udp(&to);
    char byte;
    EXPECT_EQ(hd_close(b), 0);
    EXPECT_EQ(hd_udp_connect(a, &to), 0);
    EXPECT_EQ(hd_write(a, "x", 1), 1);
    EXPECT_EQ(hd_read(a, &byte, 1), -ECONNREFUSED); /* Told once. */
    EXPECT_EQ(hd_read_until(a, &byte, 1, hd_after_ms(2)), -ETIMEDOUT);
    EXPECT_EQ(hd_close(a), 0);
    return 0;
}

TEST_IO(a_connected_one_hears_that_nobody_is_there, options) { rt_run(nobody, NULL, options); }

static ssize_t do_recv_from(struct nets_call *call)
{
    return hd_recv_from_until(call->io, &call->byte, 1, NULL, call->deadline);
}

static int giving_up(void *arg)
{
    (void)arg;
    hd_addr to, own;
    hd_io a = open_udp(&own), b = open_udp(&to);
    struct nets_call call;
    const int64_t deadline = hd_after_ms(2);
    char byte;
    EXPECT_EQ(hd_recv_from_until(b, &byte, 1, NULL, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    nets_begin(&call, b, do_recv_from);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, b, do_recv_from);
    EXPECT_EQ(hd_send_to(a, "d", 1, &to), 1);
    EXPECT_EQ(nets_end(&call), 1);
    EXPECT_EQ(call.byte, 'd');
    nets_begin(&call, b, do_recv_from);
    EXPECT_EQ(hd_close(b), 0);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    EXPECT_EQ(hd_recv_from(b, &byte, 1, NULL), -EBADF);
    EXPECT_EQ(hd_send_to(b, &byte, 1, &to), -EBADF);
    EXPECT_EQ(hd_udp_connect(b, &to), -EBADF);
    EXPECT_EQ(hd_close(a), 0);
    return 0;
}

TEST_IO(receiving_gives_up, options) { rt_run_plain(giving_up, NULL, options); }

/* ---- there is no room ---- */

/* A datagram of UDP is lost where there is no room, so its sender never waits; one of a Unix socket
 * is not, and its sender does. Sim has none of those: there a stream has to do. */
static void open_bounded(hd_io ends[2])
{
    int fds[2];
    if (nets_in_sim()) {
        EXPECT_EQ(hd_unix_pair(ends), 0);
        return;
    }
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(hd_io_adopt(&ends[i], fds[i], 0), 0);
}

/* Of one byte, which is a whole message of a stream, too. */
static ssize_t send_number(hd_io io, unsigned number, int64_t deadline)
{
    const unsigned char byte = (unsigned char)(number % 251);
    return hd_send_to_until(io, &byte, 1, NULL, deadline);
}

static void expect_numbers(hd_io io, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        unsigned char byte = 255;
        EXPECT_EQ(hd_recv_from(io, &byte, 1, NULL), 1);
        EXPECT_EQ(byte, i % 251);
    }
}

static ssize_t do_send_last(struct nets_call *call)
{
    return hd_send_to_until(call->io, "\377", 1, NULL, hd_after_ms(60000));
}

static int no_room(void *arg)
{
    (void)arg;
    hd_io ends[2];
    unsigned sent = 0;
    open_bounded(ends);
    ssize_t n;
    while ((n = send_number(ends[1], sent, HD_NOW)) == 1) sent++;
    EXPECT_EQ(n, -EAGAIN);
    int64_t deadline;
    do { /* In sim what was sent makes room when it arrives. */
        deadline = hd_after_ms(5);
        n = send_number(ends[1], sent, deadline);
        if (n == 1) sent++;
    } while (n == 1);
    EXPECT_EQ(n, -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(send_number(ends[1], sent, deadline), -ETIMEDOUT); /* It has passed. */
    struct nets_call last;
    nets_begin(&last, ends[1], do_send_last);
    expect_numbers(ends[0], 0, sent);
    EXPECT_EQ(nets_end(&last), 1);
    unsigned char byte = 0;
    EXPECT_EQ(hd_recv_from(ends[0], &byte, 1, NULL), 1);
    EXPECT_EQ(byte, 255); /* Those that were given up were not sent. */
    EXPECT_EQ(hd_recv_from_until(ends[0], &byte, 1, NULL, hd_after_ms(5)), -ETIMEDOUT);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(sending_gives_up, options) { rt_run(no_room, NULL, options); }

/* ---- places ---- */

static int places(void *arg)
{
    (void)arg;
    hd_addr own;
    char place[HD_ADDR_TEXT_MAX];
    hd_io a = open_udp(&own), b = {0};
    EXPECT_EQ(hd_udp_open(&b, hd_addr_format(&own, place)), -EADDRINUSE);
    EXPECT_EQ(b.private_, 0);
    EXPECT_EQ(hd_shutdown(a, SHUT_WR), -ENOTCONN);
    EXPECT_EQ(hd_close(a), 0);
    return 0;
}

TEST_IO(places_are_as_of_listeners, options) { rt_run(places, NULL, options); }

/* One at ":0" has any address, of either family. */
static int anywhere(void *arg)
{
    (void)arg;
    hd_addr own, from;
    char text[4];
    hd_io a = open_udp(&own), b;
    EXPECT_EQ(hd_udp_open(&b, ":0"), 0);
    EXPECT_EQ(hd_send_to(b, "any", 3, &own), 3);
    EXPECT_EQ(hd_recv_from(a, text, sizeof(text), &from), 3);
    EXPECT_EQ(hd_send_to(a, "back", 4, &from), 4);
    EXPECT_EQ(hd_recv_from(b, text, sizeof(text), NULL), 4);
    EXPECT_EQ(hd_udp_connect(b, &own), 0);
    EXPECT_EQ(hd_write(b, "conn", 4), 4);
    EXPECT_EQ(hd_read(a, text, sizeof(text)), 4);
    nets_close(a, b);
    return 0;
}

TEST_IO(one_that_only_sends_first_is_anywhere, options)
{
    rt_run(anywhere, NULL, options);
}
