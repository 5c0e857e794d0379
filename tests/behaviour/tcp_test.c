/* SPDX-License-Identifier: MIT
 *
 * TCP: listening, accepting, connecting, and how connections end.
 */
#include "nets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

TEST_MAIN

static int option(hd_io io, int level, int name)
{
    int value = -1;
    socklen_t bytes = sizeof(value);
    EXPECT_EQ(hd_get_option(io, level, name, &value, &bytes), 0);
    EXPECT_EQ(bytes, sizeof(value));
    return value;
}

/* ---- who is who ---- */

static int addresses(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen(), conn = nets_connect(listener), other;
    hd_addr from, addr;
    char text[HD_ADDR_TEXT_MAX], expected[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(hd_accept(listener, &other, &from), 0);
    addr = nets_addr(conn);
    EXPECT(strcmp(hd_addr_format(&from, text), hd_addr_format(&addr, expected)) == 0);
    EXPECT_EQ(hd_peer_addr(conn, &addr), 0);
    const hd_addr place = nets_addr(listener);
    EXPECT_EQ(hd_addr_port(&addr), hd_addr_port(&place));
    EXPECT_EQ(hd_addr_port(&(hd_addr){0}), -EINVAL);
    EXPECT_EQ(hd_peer_addr(other, &addr), 0);
    EXPECT(strcmp(hd_addr_format(&addr, expected), text) == 0);
    EXPECT_EQ(hd_peer_addr(listener, &addr), -ENOTCONN);
    EXPECT(hd_io_fd(conn) >= 0 && hd_io_fd(conn) != hd_io_fd(other));
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(both_sides_know_each_other, options) { rt_run(addresses, NULL, options); }

static int a_listener_is_no_connection(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen(), conn = nets_connect(listener), none = {0};
    char byte;
    EXPECT_EQ(hd_read_until(listener, &byte, 1, HD_NOW), -ENOTCONN);
    EXPECT_EQ(hd_write_until(listener, "x", 1, HD_NOW), -ENOTCONN);
    EXPECT_EQ(hd_accept(conn, &none, NULL), -EINVAL);
    EXPECT_EQ(none.private_, 0);
    nets_close(listener, conn);
    return 0;
}

TEST_IO(listeners_and_connections_differ, options)
{
    rt_run(a_listener_is_no_connection, NULL, options);
}

/* ---- places and options ---- */

static int bad_places(void *arg)
{
    (void)arg;
    static const char *const places[] = {"", "80", "localhost:80", "127.0.0.1", "127.0.0.1:65536",
                                         "::1:80", "[::1]", "unix:@x", "256.0.0.1:80"};
    hd_io listener = {0};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        EXPECT_EQ(hd_tcp_listen(&listener, places[i], NULL), -EINVAL);
        EXPECT_EQ(hd_udp_open(&listener, places[i]), -EINVAL);
    }
    EXPECT_EQ(hd_tcp_listen(&listener, NULL, NULL), -EINVAL);
    EXPECT_EQ(hd_connect(&listener, &(hd_addr){0}), -EINVAL);
    EXPECT_EQ(listener.private_, 0);
    return 0;
}

TEST_IO(bad_places_are_refused, options) { rt_run(bad_places, NULL, options); }

static const char *format_at(char text[HD_ADDR_TEXT_MAX], const char *host, hd_io listener)
{
    const hd_addr addr = nets_addr(listener);
    snprintf(text, HD_ADDR_TEXT_MAX, "%s:%d", host, hd_addr_port(&addr));
    return text;
}

static int in_use(void *arg)
{
    (void)arg;
    char place[HD_ADDR_TEXT_MAX];
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io one = nets_listen(), two = {0};
    format_at(place, "127.0.0.1", one);
    EXPECT_EQ(hd_tcp_listen(&two, place, NULL), -EADDRINUSE);
    EXPECT_EQ(two.private_, 0);
    EXPECT_EQ(hd_close(one), 0);
    options.reuse_port = true; /* both have to ask for it */
    EXPECT_EQ(hd_tcp_listen(&one, "127.0.0.1:0", &options), 0);
    format_at(place, "127.0.0.1", one);
    EXPECT_EQ(hd_tcp_listen(&two, place, NULL), -EADDRINUSE);
    EXPECT_EQ(hd_tcp_listen(&two, place, &options), 0);
    hd_io conn = nets_connect(one), other;
    hd_case cases[] = {HD_READABLE(one), HD_READABLE(two)}; /* one of the two has it */
    int which;
    do {
        which = hd_select(cases, 2);
        EXPECT(which == 0 || which == 1);
    } while (hd_accept_until(which ? two : one, &other, NULL, HD_NOW) == -EAGAIN);
    nets_expect_byte(conn, other, 'p');
    nets_close(conn, other);
    nets_close(one, two);
    return 0;
}

TEST_IO(a_place_has_one_listener_or_many_that_agree, options) { rt_run(in_use, NULL, options); }

static bool has_ipv6(void)
{
    hd_io probe;
    const int err = hd_tcp_listen(&probe, "[::1]:0", NULL);
    return err == 0 && hd_close(probe) == 0;
}

static int connect_to(const char *place, hd_io *conn)
{
    hd_addr addr;
    EXPECT_EQ(hd_addr_parse(&addr, place), 0);
    return hd_connect(conn, &addr);
}

static int families(void *arg)
{
    (void)arg;
    char place[HD_ADDR_TEXT_MAX];
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io listener, conn;
    if (!has_ipv6()) return 0;
    EXPECT_EQ(hd_tcp_listen(&listener, ":0", NULL), 0); /* takes both */
    EXPECT_EQ(connect_to(format_at(place, "127.0.0.1", listener), &conn), 0);
    nets_close(conn, nets_accept(listener));
    EXPECT_EQ(connect_to(format_at(place, "[::1]", listener), &conn), 0);
    nets_close(conn, nets_accept(listener));
    EXPECT_EQ(hd_close(listener), 0);
    options.ipv6_only = true;
    EXPECT_EQ(hd_tcp_listen(&listener, "[::]:0", &options), 0);
    EXPECT_EQ(connect_to(format_at(place, "127.0.0.1", listener), &conn), -ECONNREFUSED);
    EXPECT_EQ(connect_to(format_at(place, "[::1]", listener), &conn), 0);
    hd_io other = nets_accept(listener);
    nets_expect_byte(conn, other, '6');
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(listeners_take_the_families_they_say, options) { rt_run(families, NULL, options); }

static int options_of(void *arg)
{
    (void)arg;
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io listener = nets_listen(), conn = nets_connect(listener), other = nets_accept(listener);
    EXPECT(option(conn, IPPROTO_TCP, TCP_NODELAY) != 0);
    EXPECT(option(other, IPPROTO_TCP, TCP_NODELAY) != 0);
    EXPECT(option(listener, SOL_SOCKET, SO_REUSEADDR) != 0);
    EXPECT_EQ(option(conn, SOL_SOCKET, SO_KEEPALIVE), 0);
    const int on = 1;
    EXPECT_EQ(hd_set_option(conn, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
    EXPECT(option(conn, SOL_SOCKET, SO_KEEPALIVE) != 0);
    EXPECT_EQ(hd_set_option(conn, SOL_SOCKET, SO_KEEPALIVE, &on, 1), -EINVAL);
    EXPECT_EQ(hd_set_option(conn, IPPROTO_TCP, 9999, &on, sizeof(on)), -ENOPROTOOPT);
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    options.delayed = true;
    options.backlog = 4;
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.1:0", &options), 0);
    conn = nets_connect(listener);
    other = nets_accept(listener);
    EXPECT_EQ(option(other, IPPROTO_TCP, TCP_NODELAY), 0);
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(options_are_heeded, options) { rt_run(options_of, NULL, options); }

/* ---- accepting ---- */

static int giving_up(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen(), conn = {0};
    struct nets_call call;
    EXPECT_EQ(hd_accept_until(listener, &conn, NULL, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_accept_until(listener, &conn, NULL, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    nets_begin(&call, listener, nets_do_accept);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    EXPECT_EQ(conn.private_, 0);
    hd_io client = nets_connect(listener); /* Nothing of that took a connection. */
    EXPECT_EQ(hd_accept_until(listener, &conn, NULL, hd_after_ms(1000)), 0);
    nets_expect_byte(client, conn, 'a');
    nets_close(client, conn);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(accepts_give_up, options) { rt_run(giving_up, NULL, options); }

static int connect_many(void *arg)
{
    const hd_io *listener = arg;
    for (int i = 0; i < 20; i++) {
        hd_io conn = nets_connect(*listener);
        char byte;
        EXPECT_EQ(hd_read(conn, &byte, 1), 0); /* It was accepted, and closed. */
        EXPECT_EQ(hd_close(conn), 0);
    }
    return 0;
}

static int accept_many(void *arg)
{
    const hd_io *listener = arg;
    hd_io conn;
    int err, count = 0;
    while ((err = hd_accept(*listener, &conn, NULL)) == 0) {
        EXPECT_EQ(hd_close(conn), 0);
        count++;
    }
    EXPECT_EQ(err, -ECANCELED);
    return count;
}

static int several_accept(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen();
    hd_task *accepting[3], *connecting[4];
    for (int i = 0; i < 3; i++) accepting[i] = rt_spawn(NULL, accept_many, &listener);
    for (int i = 0; i < 4; i++) connecting[i] = rt_spawn(NULL, connect_many, &listener);
    int accepted = 0;
    for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(connecting[i]), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_join_try(accepting[i], NULL), -EAGAIN);
    hd_yield();
    hd_cancel(accepting[0]); /* The others are woken by the close. */
    EXPECT_EQ(hd_close(listener), 0);
    for (int i = 0; i < 3; i++) accepted += rt_join(accepting[i]);
    EXPECT_EQ(accepted, 80);
    return 0;
}

TEST_IO(several_accept_from_one_listener, options)
{
    const hd_options own = rt_workers(options, 1); /* so that all wait again when it is closed */
    rt_run(several_accept, NULL, &own);
}

/* ---- no descriptor left ---- */

static int close_later(void *arg)
{
    int *fds = arg;
    EXPECT_EQ(hd_sleep_ms(30), 0);
    for (int i = 0; i < 2; i++) close(fds[i]);
    return 0;
}

/* Leave no descriptor free. Returns how many of `fds` that took. */
static int take_all_fds(int fds[64])
{
    int count = 0;
    while (count < 64 && (fds[count] = dup(STDERR_FILENO)) >= 0) count++;
    EXPECT(count < 64 && errno == EMFILE);
    return count;
}

static int shortage(void *arg)
{
    (void)arg;
    int fds[64];
    hd_io listener = nets_listen(), conn = nets_connect(listener), other, none = {0};
    const struct rlimit limit = {(rlim_t)hd_io_fd(conn) + 20, (rlim_t)hd_io_fd(conn) + 20};
    struct nets_call reader;
    nets_begin(&reader, conn, nets_do_read); /* The lane is there by then. */
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int count = take_all_fds(fds);
    EXPECT(count > 2);
    EXPECT_EQ(hd_accept_until(listener, &other, NULL, HD_NOW), -EMFILE);
    EXPECT_EQ(hd_accept_until(listener, &other, NULL, hd_after_ms(20)), -ETIMEDOUT);
    const hd_addr addr = nets_addr(listener);
    EXPECT_EQ(hd_connect(&none, &addr), -EMFILE);
    EXPECT_EQ(hd_tcp_listen(&none, ":0", NULL), -EMFILE);
    EXPECT_EQ(hd_udp_open(&none, ":0"), -EMFILE);
    hd_io pair[2];
    EXPECT_EQ(hd_pipe(pair), -EMFILE);
    EXPECT_EQ(hd_unix_pair(pair), -EMFILE);
    EXPECT_EQ(hd_fd_wait(hd_io_fd(conn), HD_WAIT_READ, HD_FOREVER), -EMFILE);
    EXPECT_EQ(none.private_, 0);
    hd_task *closer = rt_spawn(NULL, close_later, &fds[count - 2]);
    EXPECT_EQ(hd_accept(listener, &other, NULL), 0); /* It has tried again. */
    EXPECT_EQ(rt_join(closer), 0);
    EXPECT_EQ(hd_write_all(other, "x", 1, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    for (int i = 0; i < count - 2; i++) close(fds[i]);
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_DRIVERS(a_shortage_of_descriptors_is_waited_out, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(shortage, NULL, &own);
}

/* Each worker would have a lane of its own; whoever comes too late for one shares another's. */
static int shortage_of_lanes(void *arg)
{
    (void)arg;
    int fds[64];
    hd_io pairs[20][2];
    struct nets_call readers[20];
    for (int i = 0; i < 20; i++) nets_pair(NETS_UNIX, pairs[i]);
    char byte;
    EXPECT_EQ(hd_read_until(pairs[0][0], &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* one lane */
    const struct rlimit limit = {(rlim_t)hd_io_fd(pairs[19][1]) + 20,
                                 (rlim_t)hd_io_fd(pairs[19][1]) + 20};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const int count = take_all_fds(fds);
    for (int i = 0; i < 20; i++) nets_begin(&readers[i], pairs[i][0], nets_do_read);
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_write_all(pairs[i][1], "x", 1, NULL), 0);
    for (int i = 0; i < 20; i++) EXPECT_EQ(nets_end(&readers[i]), 1);
    for (int i = 0; i < count; i++) close(fds[i]);
    for (int i = 0; i < 20; i++) nets_close(pairs[i][0], pairs[i][1]);
    return 0;
}

TEST_DRIVERS(workers_without_a_lane_share, options)
{
    const hd_options own = rt_workers(options, 4);
    rt_run(shortage_of_lanes, NULL, &own);
}

/* ---- connecting ---- */

/* A place where nobody listens. In live a socket that does not listen keeps it from others; it is
 * returned. */
static int take_place(hd_addr *addr)
{
    if (nets_in_sim()) {
        const hd_io listener = nets_listen();
        *addr = nets_addr(listener);
        EXPECT_EQ(hd_close(listener), 0);
        return -1;
    }
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(hd_addr_parse(addr, "127.0.0.1:0"), 0);
    socklen_t bytes = addr->length;
    EXPECT_EQ(bind(fd, (const struct sockaddr *)addr->bytes, bytes), 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)addr->bytes, &bytes), 0);
    return fd;
}

static int refused(void *arg)
{
    (void)arg;
    hd_io ends[2], conn = {0};
    hd_addr addr;
    char byte;
    const int fd = take_place(&addr);
    nets_pair(NETS_PIPE, ends);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* the lane */
    const unsigned fds = nets_count_fds();
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(hd_connect(&conn, &addr), -ECONNREFUSED);
        const int err = hd_connect_until(&conn, &addr, HD_NOW);
        EXPECT(err == -EAGAIN || err == -ECONNREFUSED);
    }
    EXPECT_EQ(nets_count_fds(), fds);
    EXPECT_EQ(conn.private_, 0);
    nets_close(ends[0], ends[1]);
    if (fd >= 0) close(fd);
    return 0;
}

TEST_IO(nobody_listens, options)
{
    const hd_options alone = rt_workers(options, 1); /* so that nobody opens another lane */
    rt_run(refused, NULL, rt_is_sim(options) ? options : &alone);
}

static ssize_t do_connect(struct nets_call *call)
{
    hd_io conn;
    const hd_addr addr = nets_addr(call->io);
    const int err = hd_connect_until(&conn, &addr, call->deadline);
    return err ? err : hd_close(conn);
}

/* A backlog that is full answers nobody. */
static int unanswered(void *arg)
{
    (void)arg;
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io listener, conns[8], conn;
    int connected = 0, err = 0;
    options.backlog = 1;
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.1:0", &options), 0);
    const hd_addr addr = nets_addr(listener);
    EXPECT_EQ(hd_connect(&conns[connected++], &addr), 0);
    const int64_t patience_ms = nets_in_sim() ? 50 : 1000; /* It is full, not slow. */
    while (!err && connected < 8) {
        err = hd_connect_until(&conns[connected], &addr, hd_after_ms(patience_ms));
        if (!err) connected++;
    }
    EXPECT_EQ(err, -ETIMEDOUT);
    struct nets_call call;
    nets_begin(&call, listener, do_connect);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    EXPECT_EQ(hd_accept(listener, &conn, NULL), 0);
    EXPECT_EQ(hd_close(conn), 0);
    for (int i = 0; i < connected; i++) EXPECT_EQ(hd_close(conns[i]), 0);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(connects_give_up, options) { rt_run(unanswered, NULL, options); }

/* ---- ending ---- */

static int half_close(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char text[8];
    nets_pair(NETS_TCP, ends);
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_write_all(ends[1], "q", 1, NULL), 0);
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    EXPECT_EQ(hd_read(ends[0], text, sizeof(text)), 0);
    EXPECT_EQ(hd_write(ends[1], "x", 1), -EPIPE);
    EXPECT_EQ(hd_write_all(ends[0], "answer", 6, NULL), 0); /* The other way is open. */
    EXPECT_EQ(hd_read_exact(ends[1], text, 6, NULL), 0);
    EXPECT(memcmp(text, "answer", 6) == 0);
    EXPECT_EQ(hd_read(ends[0], text, sizeof(text)), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(half_of_a_connection_is_closed, options) { rt_run(half_close, NULL, options); }

static int shut_own(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_pair(NETS_TCP, ends);
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_shutdown(ends[0], SHUT_RD), 0);
    EXPECT_EQ(nets_end(&reader), 0);
    nets_expect_byte(ends[0], ends[1], 'w');
    EXPECT_EQ(hd_shutdown(ends[0], SHUT_RDWR), 0);
    char byte;
    EXPECT_EQ(hd_read(ends[1], &byte, 1), 0);
    nets_close(ends[0], ends[1]);
    hd_io listener = nets_listen();
    EXPECT_EQ(hd_shutdown(ends[0], SHUT_RD), -EBADF);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(shutting_down_wakes_the_own_reader, options) { rt_run(shut_own, NULL, options); }

static void reset(hd_io io)
{
    const struct linger at_once = {1, 0};
    EXPECT_EQ(hd_set_option(io, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(hd_close(io), 0);
}

static int resets(void *arg)
{
    (void)arg;
    hd_io ends[2];
    char byte;
    for (int waiting = 0; waiting < 2; waiting++) {
        struct nets_call reader;
        nets_pair(NETS_TCP, ends);
        if (waiting) nets_begin(&reader, ends[0], nets_do_read);
        reset(ends[1]);
        if (waiting) {
            EXPECT_EQ(nets_end(&reader), -ECONNRESET);
        } else {
            EXPECT_EQ(hd_read(ends[0], &byte, 1), -ECONNRESET);
        }
        EXPECT_EQ(hd_read(ends[0], &byte, 1), 0);
        EXPECT_EQ(hd_write(ends[0], "x", 1), -EPIPE);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_IO(a_reset_is_told_once, options) { rt_run(resets, NULL, options); }

/* Both come before anybody looks. */
static int reset_behind_data(void *arg)
{
    (void)arg;
    for (int waiting = 0; waiting < 2; waiting++) {
        hd_io ends[2];
        char bytes[8];
        struct nets_call reader;
        nets_pair(NETS_TCP, ends);
        if (waiting) nets_begin(&reader, ends[0], nets_do_read);
        EXPECT_EQ(hd_write_all(ends[1], "data", 4, NULL), 0);
        reset(ends[1]);
        ssize_t n = waiting ? nets_end(&reader) : 1;
        while (n > 0) n = hd_read(ends[0], bytes, sizeof(bytes));
        EXPECT_EQ(n, -ECONNRESET);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    return 0;
}

TEST_IO(a_reset_behind_data_is_told, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(reset_behind_data, NULL, &own);
}

static int reset_while_writing(void *arg)
{
    (void)arg;
    hd_io ends[2];
    nets_pair(NETS_TCP, ends);
    nets_fill(ends[1]);
    struct nets_call writer;
    nets_begin(&writer, ends[1], nets_do_write);
    reset(ends[0]);
    EXPECT_EQ(nets_end(&writer), -ECONNRESET);
    EXPECT_EQ(hd_close(ends[1]), 0);
    return 0;
}

TEST_IO(a_reset_wakes_who_writes, options) { rt_run(reset_while_writing, NULL, options); }

/* ---- outside of a runtime ---- */

TEST(nothing_is_made_without_a_runtime)
{
    hd_io io = {0}, pair[2];
    const hd_addr addr = {0};
    EXPECT_EQ(hd_tcp_listen(&io, ":0", NULL), -EINVAL);
    EXPECT_EQ(hd_udp_open(&io, ":0"), -EINVAL);
    EXPECT_EQ(hd_unix_listen(&io, "@x", NULL), -EINVAL);
    EXPECT_EQ(hd_unix_pair(pair), -EINVAL);
    EXPECT_EQ(hd_pipe(pair), -EINVAL);
    EXPECT_EQ(hd_connect(&io, &addr), -EINVAL);
    EXPECT_EQ(hd_io_adopt(&io, 0, 0), -EINVAL);
    EXPECT_EQ(hd_fd_wait(0, HD_WAIT_READ, HD_FOREVER), -EINVAL);
    EXPECT_EQ(hd_stdin().private_, 0);
    EXPECT_EQ(io.private_, 0);
}
