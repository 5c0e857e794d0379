/* SPDX-License-Identifier: MIT
 *
 * Options of sockets: what servers set is accepted and read again, with the same defaults, bounds
 * and errors in sim as in life.
 */
#include "nets.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

TEST_MAIN

static int set(hd_io io, int level, int name, int value)
{
    return hd_set_option(io, level, name, &value, sizeof(value));
}

/* Returns -12345 if it cannot be read. */
static int get(hd_io io, int level, int name)
{
    int value = -12345;
    uint32_t bytes = sizeof(value);
    (void)hd_get_option(io, level, name, &value, &bytes);
    return value;
}

static hd_io udp(const char *place)
{
    hd_io io;
    EXPECT_EQ(hd_udp_open(&io, place), 0);
    return io;
}

/* ---- numbers and flags ---- */

/* What it is at first, and the values it takes; a flag is 1 whatever it is set to but 0. */
static const struct number {
    const char *text;
    int level, name, first, least, most;
    bool flag;
} numbers[] = {
    {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 7200, 1, 32767, false},
    {"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 75, 1, 32767, false},
    {"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 9, 1, 127, false},
    {"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, 6, 1, 127, false},
    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 0, INT_MAX, false},
    {"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, INT_MIN, INT_MAX, false},
    {"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, 1, INT_MIN, INT_MAX, true},
    {"TCP_CORK", IPPROTO_TCP, TCP_CORK, 0, INT_MIN, INT_MAX, true},
    {"IP_TTL", IPPROTO_IP, IP_TTL, 64, 1, 255, false},
    {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 0, INT_MIN, INT_MAX, true},
    {"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 0, INT_MIN, INT_MAX, true},
    {"SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE, 0, INT_MIN, INT_MAX, true},
};

static void expect_set(const struct number *number, hd_io io, int value)
{
    const bool fits = value >= number->least && value <= number->most;
    const int before = get(io, number->level, number->name);
    const int expected = !fits ? before : number->flag ? value != 0 : value;
    const int err = set(io, number->level, number->name, value);
    const int is = get(io, number->level, number->name);
    if (err == (fits ? 0 : -EINVAL) && is == expected) return;
    test_fail(__FILE__, __LINE__, "%s to %d: %d, and it is %d", number->text, value, err, is);
}

static int set_numbers(void *arg)
{
    (void)arg;
    const hd_io io = nets_listen();
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const struct number *number = &numbers[i];
        const int first = get(io, number->level, number->name);
        /* In life the machine's own settings may say otherwise. */
        if (nets_in_sim() && first != number->first) {
            test_fail(__FILE__, __LINE__, "%s is %d at first", number->text, first);
        }
        const int values[] = {1, 0, 5, INT_MIN, 127, 128, 255, 256, 32767, 32768, INT_MAX};
        for (unsigned j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
            expect_set(number, io, values[j]);
        }
    }
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(numbers_are_kept_within_their_bounds, options) { rt_run(set_numbers, NULL, options); }

/* Which class of traffic: of a byte, and without its lower bits in TCP, which has them itself. */
static int set_class(void *arg)
{
    (void)arg;
    const hd_io tcp = nets_listen(), dgram = udp("127.0.0.1:0"), six = udp("[::1]:0");
    EXPECT_EQ(get(tcp, IPPROTO_IP, IP_TOS), 0);
    EXPECT_EQ(set(tcp, IPPROTO_IP, IP_TOS, 0x1bb), 0);
    EXPECT_EQ(get(tcp, IPPROTO_IP, IP_TOS), 0xb8);
    EXPECT_EQ(set(dgram, IPPROTO_IP, IP_TOS, 0x13), 0);
    EXPECT_EQ(get(dgram, IPPROTO_IP, IP_TOS), 0x13);
    EXPECT_EQ(set(six, IPPROTO_IPV6, IPV6_TCLASS, 0x13), 0);
    EXPECT_EQ(get(six, IPPROTO_IPV6, IPV6_TCLASS), 0x13);
    EXPECT_EQ(set(six, IPPROTO_IPV6, IPV6_TCLASS, 256), -EINVAL);
    EXPECT_EQ(set(six, IPPROTO_IPV6, IPV6_TCLASS, -1), 0); /* as at first */
    EXPECT_EQ(get(six, IPPROTO_IPV6, IPV6_TCLASS), 0);
    EXPECT_EQ(set(six, IPPROTO_IP, IP_TOS, 0x10), 0);
    EXPECT_EQ(get(six, IPPROTO_IP, IP_TOS), 0x10);
    const int first = get(tcp, IPPROTO_IP, IP_TTL);
    EXPECT_EQ(set(tcp, IPPROTO_IP, IP_TTL, first - 1), 0);
    EXPECT_EQ(set(tcp, IPPROTO_IP, IP_TTL, -1), 0);
    EXPECT_EQ(get(tcp, IPPROTO_IP, IP_TTL), first);
    EXPECT_EQ(hd_close(tcp), 0);
    nets_close(dgram, six);
    return 0;
}

TEST_IO(classes_of_traffic_are_kept, options) { rt_run(set_class, NULL, options); }

static int set_others(void *arg)
{
    (void)arg;
    const hd_io io = nets_listen();
    EXPECT_EQ(get(io, SOL_SOCKET, SO_PRIORITY), 0);
    EXPECT_EQ(set(io, SOL_SOCKET, SO_PRIORITY, 6), 0);
    EXPECT_EQ(get(io, SOL_SOCKET, SO_PRIORITY), 6);
    if (nets_in_sim()) EXPECT_EQ(set(io, SOL_SOCKET, SO_PRIORITY, 7), -EPERM); /* Root may. */
    /* What is read is the time of so many tries, each after twice as long. */
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
    EXPECT_EQ(set(io, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5), 0);
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_DEFER_ACCEPT), 7);
    EXPECT_EQ(set(io, IPPROTO_TCP, TCP_DEFER_ACCEPT, 128), 0);
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_DEFER_ACCEPT), 247);
    EXPECT_EQ(set(io, IPPROTO_TCP, TCP_DEFER_ACCEPT, INT_MAX), 0);
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_DEFER_ACCEPT), 29887);
    EXPECT_EQ(set(io, IPPROTO_TCP, TCP_DEFER_ACCEPT, -1), 0);
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
    EXPECT_EQ(get(io, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(some_are_read_otherwise_than_set, options) { rt_run(set_others, NULL, options); }

/* ---- structures ---- */

static void expect_time(hd_io io, int name, int64_t sec, int64_t usec)
{
    struct timeval time = {-1, -1};
    uint32_t bytes = sizeof(time);
    EXPECT_EQ(hd_get_option(io, SOL_SOCKET, name, &time, &bytes), 0);
    EXPECT_EQ(bytes, sizeof(time));
    EXPECT_EQ(time.tv_sec, sec);
    EXPECT_EQ(time.tv_usec, usec);
}

static int set_time(hd_io io, int name, int64_t sec, int64_t usec)
{
    const struct timeval time = {(time_t)sec, (suseconds_t)usec};
    return hd_set_option(io, SOL_SOCKET, name, &time, sizeof(time));
}

static void set_times(hd_io io, int name)
{
    expect_time(io, name, 0, 0);
    EXPECT_EQ(set_time(io, name, 1, 500000), 0);
    expect_time(io, name, 1, 500000);
    EXPECT_EQ(set_time(io, name, 0, 1000000), -EDOM);
    EXPECT_EQ(set_time(io, name, 0, -1), -EDOM);
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, name, &io, sizeof(struct timeval) - 1), -EINVAL);
    expect_time(io, name, 1, 500000);
    EXPECT_EQ(set_time(io, name, -1, 0), 0); /* none */
    expect_time(io, name, 0, 0);
}

static void expect_linger(hd_io io, int on, int seconds)
{
    struct linger linger = {-1, -1};
    uint32_t bytes = sizeof(linger) + 1;
    EXPECT_EQ(hd_get_option(io, SOL_SOCKET, SO_LINGER, &linger, &bytes), 0);
    EXPECT_EQ(bytes, sizeof(linger));
    EXPECT_EQ(linger.l_onoff, on);
    EXPECT_EQ(linger.l_linger, seconds);
}

static int set_linger(hd_io io, int on, int seconds)
{
    const struct linger linger = {on, seconds};
    return hd_set_option(io, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static int set_structures(void *arg)
{
    (void)arg;
    const hd_io io = nets_listen();
    set_times(io, SO_RCVTIMEO);
    set_times(io, SO_SNDTIMEO);
    expect_linger(io, 0, 0);
    EXPECT_EQ(set_linger(io, 7, 5), 0);
    expect_linger(io, 1, 5);
    EXPECT_EQ(set_linger(io, 0, 9), 0);
    expect_linger(io, 0, 5); /* A time that is not used is not looked at. */
    EXPECT_EQ(set(io, SOL_SOCKET, SO_LINGER, 1), -EINVAL);
    expect_linger(io, 0, 5);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(times_and_linger_are_kept, options) { rt_run(set_structures, NULL, options); }

/* ---- errors, and short values ---- */

static int get_error(hd_io io, int level, int name)
{
    int value;
    uint32_t bytes = sizeof(value);
    return hd_get_option(io, level, name, &value, &bytes);
}

static int refuse(void *arg)
{
    (void)arg;
    const hd_io tcp = nets_listen(), dgram = udp("127.0.0.1:0");
    hd_io local[2];
    EXPECT_EQ(hd_unix_pair(local), 0);
    EXPECT_EQ(set(tcp, IPPROTO_TCP, 9999, 1), -ENOPROTOOPT);
    EXPECT_EQ(get_error(tcp, IPPROTO_TCP, 9999), -ENOPROTOOPT);
    EXPECT_EQ(set(tcp, SOL_SOCKET, 9999, 1), -ENOPROTOOPT);
    EXPECT_EQ(get_error(tcp, SOL_SOCKET, 9999), -ENOPROTOOPT);
    /* Levels that a socket has not. */
    EXPECT_EQ(set(dgram, IPPROTO_TCP, TCP_KEEPIDLE, 1), -ENOPROTOOPT);
    EXPECT_EQ(get_error(dgram, IPPROTO_TCP, TCP_KEEPIDLE), -EOPNOTSUPP);
    EXPECT_EQ(set(tcp, IPPROTO_IPV6, IPV6_TCLASS, 1), -ENOPROTOOPT);
    EXPECT_EQ(get_error(tcp, IPPROTO_IPV6, IPV6_TCLASS), -EOPNOTSUPP);
    EXPECT_EQ(set(local[0], IPPROTO_TCP, TCP_NODELAY, 1), -EOPNOTSUPP);
    EXPECT_EQ(get_error(local[0], IPPROTO_IP, IP_TOS), -EOPNOTSUPP);
    EXPECT_EQ(set(local[0], SOL_SOCKET, SO_KEEPALIVE, 1), 0);
    EXPECT_EQ(get(local[0], SOL_SOCKET, SO_KEEPALIVE), 1);
    nets_close(local[0], local[1]);
    nets_close(tcp, dgram);
    return 0;
}

TEST_IO(what_a_socket_has_not_is_refused, options) { rt_run(refuse, NULL, options); }

static int be_short(void *arg)
{
    (void)arg;
    const hd_io io = nets_listen();
    unsigned char bytes[4] = {0x28, 0xaa, 0xaa, 0xaa};
    uint32_t length = 2;
    EXPECT_EQ(set(io, IPPROTO_TCP, TCP_KEEPIDLE, 77), 0);
    EXPECT_EQ(hd_set_option(io, IPPROTO_TCP, TCP_KEEPIDLE, bytes, 3), -EINVAL);
    EXPECT_EQ(get(io, IPPROTO_TCP, TCP_KEEPIDLE), 77);
    EXPECT_EQ(hd_get_option(io, IPPROTO_TCP, TCP_KEEPIDLE, bytes + 1, &length), 0);
    EXPECT_EQ(length, 2);
    EXPECT_EQ(bytes[3], 0xaa);
    /* Those of IP may be a byte. */
    EXPECT_EQ(hd_set_option(io, IPPROTO_IP, IP_TOS, bytes, 1), 0);
    EXPECT_EQ(get(io, IPPROTO_IP, IP_TOS), 0x28);
    length = 3;
    memset(bytes, 0xaa, sizeof(bytes));
    EXPECT_EQ(hd_get_option(io, IPPROTO_IP, IP_TOS, bytes, &length), 0);
    EXPECT_EQ(length, 1);
    EXPECT(bytes[0] == 0x28 && bytes[1] == 0xaa);
    EXPECT_EQ(hd_set_option(io, IPPROTO_IP, IP_TOS, bytes, 0), 0); /* which is 0 */
    EXPECT_EQ(get(io, IPPROTO_IP, IP_TOS), 0);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(short_values_are_read_as_they_are_in_life, options) { rt_run(be_short, NULL, options); }

/* ---- connections have those of their listener ---- */

static int inherit(void *arg)
{
    (void)arg;
    const hd_io listener = nets_listen();
    EXPECT_EQ(set(listener, IPPROTO_TCP, TCP_KEEPIDLE, 33), 0);
    EXPECT_EQ(set(listener, IPPROTO_IP, IP_TOS, 0x10), 0);
    EXPECT_EQ(set(listener, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
    EXPECT_EQ(set(listener, SOL_SOCKET, SO_PRIORITY, 4), 0);
    EXPECT_EQ(set(listener, SOL_SOCKET, SO_SNDBUF, 8192), 0);
    EXPECT_EQ(set_linger(listener, 1, 7), 0);
    EXPECT_EQ(set_time(listener, SO_RCVTIMEO, 3, 0), 0);
    const hd_io conn = nets_connect(listener), other = nets_accept(listener);
    EXPECT_EQ(get(other, IPPROTO_TCP, TCP_KEEPIDLE), 33);
    EXPECT_EQ(get(other, IPPROTO_IP, IP_TOS), 0x10);
    EXPECT_EQ(get(other, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(get(other, SOL_SOCKET, SO_PRIORITY), 0); /* but this */
    EXPECT_EQ(get(other, SOL_SOCKET, SO_SNDBUF), 16384);
    expect_linger(other, 1, 7);
    expect_time(other, SO_RCVTIMEO, 3, 0);
    EXPECT(get(conn, IPPROTO_TCP, TCP_KEEPIDLE) != 33);
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(connections_have_the_options_of_their_listener, options)
{
    rt_run(inherit, NULL, options);
}
