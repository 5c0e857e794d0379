/* SPDX-License-Identifier: MIT
 *
 * Unix sockets, by path and by name, and the descriptors they pass.
 */
#include "nets.h"

#include <fcntl.h>
#include <sys/socket.h>

TEST_MAIN

static const char *name_of(char name[64], const char *what)
{
    snprintf(name, 64, "@heddle-test-%d-%s", (int)getpid(), what);
    return name;
}

static int talk(void *arg)
{
    const char *place = arg;
    hd_io listener, conn = {0}, other;
    hd_addr addr;
    char text[HD_ADDR_TEXT_MAX], expected[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(hd_unix_connect(&conn, place), *place == '@' ? -ECONNREFUSED : -ENOENT);
    EXPECT_EQ(hd_unix_listen(&listener, place, NULL), 0);
    EXPECT_EQ(hd_unix_listen(&other, place, NULL), -EADDRINUSE);
    EXPECT_EQ(conn.private_, 0);
    EXPECT_EQ(hd_unix_connect(&conn, place), 0);
    EXPECT_EQ(hd_accept(listener, &other, &addr), 0);
    nets_expect_byte(conn, other, '1');
    nets_expect_byte(other, conn, '2');
    snprintf(expected, sizeof(expected), "unix:%s", place);
    EXPECT_EQ(hd_peer_addr(conn, &addr), 0);
    EXPECT(strcmp(hd_addr_format(&addr, text), expected) == 0);
    EXPECT_EQ(hd_addr_port(&addr), -EINVAL);
    nets_close(conn, other);
    EXPECT_EQ(hd_addr_parse(&addr, expected), 0); /* an address as any other */
    EXPECT_EQ(hd_connect(&conn, &addr), 0);
    other = nets_accept(listener);
    EXPECT_EQ(hd_shutdown(conn, SHUT_WR), 0);
    EXPECT_EQ(hd_read(other, text, 1), 0);
    nets_expect_byte(other, conn, '3');
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    EXPECT_EQ(hd_unix_connect(&conn, place), -ECONNREFUSED);
    if (*place != '@') { /* The path is left. */
        EXPECT_EQ(hd_unix_listen(&listener, place, NULL), -EADDRINUSE);
        if (!nets_in_sim()) EXPECT_EQ(unlink(place), 0);
    }
    return 0;
}

TEST_IO(names_and_paths_are_places, options)
{
    char path[64], name[64];
    snprintf(path, sizeof(path), "/tmp/heddle-test-%d", (int)getpid());
    rt_run(talk, path, options);
    name_of(name, "talk");
    rt_run(talk, name, options);
}

static int bad_places(void *arg)
{
    (void)arg;
    char longest[110];
    hd_io io = {0};
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    EXPECT_EQ(hd_unix_listen(&io, longest, NULL), -ENAMETOOLONG);
    EXPECT_EQ(hd_unix_connect(&io, longest), -ENAMETOOLONG);
    EXPECT_EQ(hd_unix_listen(&io, "", NULL), -EINVAL);
    EXPECT_EQ(hd_unix_listen(&io, "@", NULL), -EINVAL);
    EXPECT_EQ(hd_unix_connect(&io, NULL), -EINVAL);
    EXPECT_EQ(io.private_, 0);
    longest[0] = '@'; /* An abstract name has no 0 at its end: 108 bytes are fine. */
    longest[108] = 0;
    EXPECT_EQ(hd_unix_listen(&io, longest, NULL), 0);
    const hd_addr addr = nets_addr(io);
    char text[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(strlen(hd_addr_format(&addr, text)), 5 + 108);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(bad_places_are_refused, options) { rt_run(bad_places, NULL, options); }

static ssize_t do_connect(struct nets_call *call)
{
    const hd_addr addr = nets_addr(call->io);
    hd_io conn;
    const int err = hd_connect_until(&conn, &addr, call->deadline);
    return err ? err : hd_close(conn);
}

/* A backlog that is full makes the next one wait until one is accepted. */
static int backlog(void *arg)
{
    (void)arg;
    char name[64];
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io listener, conns[8];
    int count = 0, err = 0;
    options.backlog = 1;
    EXPECT_EQ(hd_unix_listen(&listener, name_of(name, "backlog"), &options), 0);
    while (!err && count < 8) {
        err = hd_unix_connect_until(&conns[count], name, HD_NOW);
        if (!err) count++;
    }
    EXPECT_EQ(err, -EAGAIN);
    EXPECT_EQ(hd_unix_connect_until(&conns[7], name, hd_after_ms(5)), -ETIMEDOUT);
    struct nets_call call;
    nets_begin(&call, listener, do_connect);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, listener, do_connect);
    EXPECT_EQ(hd_close(nets_accept(listener)), 0);
    EXPECT_EQ(nets_end(&call), 0);
    for (int i = 0; i < count; i++) EXPECT_EQ(hd_close(conns[i]), 0);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_full_backlog_is_waited_for, options) { rt_run(backlog, NULL, options); }

/* ---- descriptors ---- */

/* A pair, and a pipe to pass: it ends when the last copy of ends[1] is closed. */
struct passing {
    hd_io pair[2], ends[2];
};

static void passing_init(struct passing *p)
{
    EXPECT_EQ(hd_unix_pair(p->pair), 0);
    EXPECT_EQ(hd_pipe(p->ends), 0);
    if (nets_in_sim()) EXPECT_EQ(hd_sim_calls(0, 0), 0); /* All is moved at once. */
}

static void expect_end(hd_io io)
{
    char byte;
    EXPECT_EQ(hd_read(io, &byte, 1), 0);
}

static void expect_no_end(hd_io io)
{
    char byte;
    EXPECT_EQ(hd_read_until(io, &byte, 1, hd_after_ms(1)), -ETIMEDOUT);
}

static hd_io adopt(int fd)
{
    hd_io io;
    EXPECT_EQ(hd_io_adopt(&io, fd, 0), 0);
    return io;
}

static void close_fd(int fd)
{
    EXPECT_EQ(hd_close(adopt(fd)), 0);
}

static void send_one(struct passing *p, const char *text)
{
    const int fd = hd_io_fd(p->ends[1]);
    EXPECT_EQ(hd_send_fds(p->pair[0], text, strlen(text), &fd, 1), strlen(text));
}

/* Receive up to so many bytes, which are to be these, with one descriptor or none. */
static void expect_text(hd_io io, size_t bytes, const char *expected, unsigned fds)
{
    char text[16] = {0};
    int fd = -1;
    unsigned count = 1;
    EXPECT_EQ(hd_recv_fds(io, text, bytes, &fd, &count), strlen(expected));
    EXPECT(strcmp(text, expected) == 0);
    EXPECT_EQ(count, fds);
    if (count) close_fd(fd);
}

static bool is_cloexec(int fd)
{
    return nets_in_sim() || (fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static int pass(void *arg)
{
    (void)arg;
    struct passing p;
    int got[4] = {-1, -1, -1, -1};
    unsigned count = 4;
    char text[16];
    passing_init(&p);
    const int both[] = {hd_io_fd(p.ends[1]), hd_io_fd(p.ends[0])};
    EXPECT_EQ(hd_send_fds(p.pair[0], "take", 4, both, 2), 4);
    EXPECT_EQ(hd_recv_fds(p.pair[1], text, sizeof(text), got, &count), 4);
    EXPECT_EQ(count, 2);
    EXPECT(is_cloexec(got[0]) && is_cloexec(got[1]) && got[0] != both[0]);
    const hd_io in = adopt(got[1]), out = adopt(got[0]);
    nets_expect_byte(out, p.ends[0], '1'); /* The same pipe, for both who have it. */
    nets_expect_byte(p.ends[1], in, '2');
    nets_close(p.ends[0], p.ends[1]);
    nets_expect_byte(out, in, '3');
    EXPECT_EQ(hd_close(out), 0);
    expect_end(in);
    EXPECT_EQ(hd_close(in), 0);
    EXPECT_EQ(hd_send_fds(p.pair[0], "none", 4, NULL, 0), 4); /* A message without any. */
    expect_text(p.pair[1], 16, "none", 0);
    nets_close(p.pair[0], p.pair[1]);
    return 0;
}

TEST_IO(descriptors_are_passed, options) { rt_run(pass, NULL, options); }

/* Sockets too, who waits for one is told, and they outlive who sent them. */
static int pass_socket(void *arg)
{
    (void)arg;
    struct passing p;
    hd_io conn[2];
    int fd = -1;
    unsigned count = 1;
    char byte;
    passing_init(&p);
    nets_pair(NETS_TCP, conn);
    const int own = hd_io_fd(conn[0]);
    EXPECT_EQ(hd_send_fds(p.pair[0], "x", 1, &own, 1), 1);
    EXPECT_EQ(hd_recv_fds(p.pair[1], &byte, 1, &fd, &count), 1);
    const hd_io copy = adopt(fd);
    EXPECT_EQ(hd_close(conn[0]), 0);
    struct nets_call reader;
    nets_begin(&reader, copy, nets_do_read);
    EXPECT_EQ(hd_write_all(conn[1], "y", 1, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    EXPECT_EQ(hd_close(copy), 0);
    expect_end(conn[1]);
    EXPECT_EQ(hd_close(conn[1]), 0);
    nets_close(p.pair[0], p.pair[1]);
    nets_close(p.ends[0], p.ends[1]);
    return 0;
}

TEST_IO(connections_are_passed, options) { rt_run(pass_socket, NULL, options); }

/* A file has one position, whoever has it. */
static int pass_file(void *arg)
{
    (void)arg;
    struct passing p;
    hd_io file;
    char path[64], text[4];
    int fd = -1;
    unsigned count = 1;
    passing_init(&p);
    snprintf(path, sizeof(path), "/tmp/heddle-test-%d-file", (int)getpid());
    EXPECT_EQ(hd_file_open(&file, path, O_RDWR | O_CREAT | O_TRUNC, 0600), 0);
    EXPECT_EQ(hd_write_all(file, "ab", 2, NULL), 0);
    const int own = hd_io_fd(file);
    EXPECT_EQ(hd_send_fds(p.pair[0], "x", 1, &own, 1), 1);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_recv_fds(p.pair[1], text, 1, &fd, &count), 1);
    file = adopt(fd);
    EXPECT_EQ(hd_write_all(file, "cd", 2, NULL), 0);
    EXPECT_EQ(hd_pread(file, text, 4, 0), 4);
    EXPECT(memcmp(text, "abcd", 4) == 0);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_unlink(path), 0);
    nets_close(p.pair[0], p.pair[1]);
    nets_close(p.ends[0], p.ends[1]);
    return 0;
}

TEST_IO(files_are_passed, options) { rt_run(pass_file, NULL, options); }

/* Each message with descriptors is received by itself, also if more lie behind it. */
static int pass_several(void *arg)
{
    (void)arg;
    struct passing p;
    passing_init(&p);
    for (int round = 0; round < 3; round++) {
        struct nets_call reader;
        nets_begin(&reader, p.pair[1], nets_do_read); /* From now on it is watched. */
        EXPECT_EQ(hd_write_all(p.pair[0], "x", 1, NULL), 0);
        EXPECT_EQ(nets_end(&reader), 1);
        for (int i = 0; i < 3; i++) send_one(&p, "m");
        for (int i = 0; i < 3; i++) expect_text(p.pair[1], 16, "m", 1);
    }
    nets_close(p.pair[0], p.pair[1]);
    EXPECT_EQ(hd_close(p.ends[1]), 0);
    expect_end(p.ends[0]);
    EXPECT_EQ(hd_close(p.ends[0]), 0);
    return 0;
}

TEST_IO(descriptors_come_one_message_at_a_time, options)
{
    rt_run(pass_several, NULL, options);
}

/* They come with their first byte; a read goes on before them, but not behind. */
static int pass_between(void *arg)
{
    (void)arg;
    struct passing p;
    passing_init(&p);
    EXPECT_EQ(hd_write_all(p.pair[0], "abc", 3, NULL), 0);
    send_one(&p, "def");
    EXPECT_EQ(hd_write_all(p.pair[0], "ghi", 3, NULL), 0);
    expect_text(p.pair[1], 3, "abc", 0);
    expect_text(p.pair[1], 1, "d", 1);
    expect_text(p.pair[1], 16, "efghi", 0);
    EXPECT_EQ(hd_write_all(p.pair[0], "abc", 3, NULL), 0);
    send_one(&p, "def");
    EXPECT_EQ(hd_write_all(p.pair[0], "ghi", 3, NULL), 0);
    expect_text(p.pair[1], 16, "abcdef", 1);
    expect_text(p.pair[1], 16, "ghi", 0);
    nets_close(p.pair[0], p.pair[1]);
    nets_close(p.ends[0], p.ends[1]);
    return 0;
}

TEST_IO(descriptors_come_with_their_first_byte, options) { rt_run(pass_between, NULL, options); }

/* Also if a call moves less than it could. */
static int pass_short(void *arg)
{
    (void)arg;
    struct passing p;
    char text[16];
    passing_init(&p);
    if (nets_in_sim()) EXPECT_EQ(hd_sim_calls(HD_SIM_ALWAYS, 0), 0);
    const int fd = hd_io_fd(p.ends[1]);
    for (int i = 0; i < 10; i++) {
        int got = -1;
        unsigned count = 1;
        const ssize_t sent = hd_send_fds(p.pair[0], "0123456789", 10, &fd, 1);
        EXPECT(sent > 0 && sent <= 10);
        ssize_t n = hd_recv_fds(p.pair[1], text, sizeof(text), &got, &count);
        EXPECT(n > 0 && n <= sent);
        EXPECT_EQ(count, 1);
        close_fd(got);
        while (n < sent) {
            count = 1;
            n += hd_recv_fds(p.pair[1], text, sizeof(text), &got, &count);
            EXPECT_EQ(count, 0);
        }
        EXPECT_EQ(n, sent);
    }
    nets_close(p.pair[0], p.pair[1]);
    nets_close(p.ends[0], p.ends[1]);
    return 0;
}

TEST_IO(descriptors_come_once, options) { rt_run(pass_short, NULL, options); }

/* What there is no room for is closed, and so is what is read by a plain read. */
static int pass_too_many(void *arg)
{
    (void)arg;
    struct passing p;
    int fds[HD_FDS_MAX + 1], got[HD_FDS_MAX];
    unsigned count = 3;
    char text[16];
    passing_init(&p);
    for (int i = 0; i < HD_FDS_MAX + 1; i++) fds[i] = hd_io_fd(p.ends[1]);
    expect_no_end(p.pair[1]);
    expect_no_end(p.ends[0]);
    const unsigned before = nets_count_fds();
    EXPECT_EQ(hd_send_fds(p.pair[0], "x", 1, fds, HD_FDS_MAX + 1), -EINVAL);
    EXPECT_EQ(hd_send_fds(p.pair[0], "", 0, fds, 1), -EINVAL);
    EXPECT_EQ(hd_send_fds(p.pair[0], "x", 1, fds, HD_FDS_MAX), 1);
    EXPECT_EQ(hd_recv_fds(p.pair[1], text, sizeof(text), got, &count), 1);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(nets_count_fds(), before + (nets_in_sim() ? 0 : 3));
    EXPECT_EQ(hd_send_fds(p.pair[0], "y", 1, fds, 2), 1);
    EXPECT_EQ(hd_read(p.pair[1], text, sizeof(text)), 1);
    EXPECT_EQ(hd_close(p.ends[1]), 0);
    for (int i = 0; i < 3; i++) {
        expect_no_end(p.ends[0]);
        close_fd(got[i]);
    }
    expect_end(p.ends[0]);
    const int bad[] = {hd_io_fd(p.ends[0]), 1000000};
    EXPECT_EQ(hd_send_fds(p.pair[0], "z", 1, bad, 2), -EBADF);
    EXPECT_EQ(hd_close(p.pair[0]), 0);
    count = 3;
    EXPECT_EQ(hd_recv_fds(p.pair[1], text, sizeof(text), got, &count), 0);
    EXPECT_EQ(count, 0);
    EXPECT_EQ(hd_close(p.pair[1]), 0);
    count = 3;
    EXPECT_EQ(hd_recv_fds(p.pair[1], text, sizeof(text), got, &count), -EBADF);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(hd_close(p.ends[0]), 0);
    return 0;
}

TEST_IO(descriptors_without_a_place_are_closed, options)
{
    rt_run(pass_too_many, NULL, options);
}

/* Those that nobody has received are open as long as somebody might; also if they are of the
 * socket that they are passed by. */
static int pass_to_nobody(void *arg)
{
    (void)arg;
    struct passing p, q;
    passing_init(&p);
    send_one(&p, "x");
    send_one(&p, "y");
    nets_close(p.ends[1], p.pair[0]);
    expect_no_end(p.ends[0]);
    expect_text(p.pair[1], 1, "x", 1);
    expect_no_end(p.ends[0]);
    EXPECT_EQ(hd_close(p.pair[1]), 0);
    expect_end(p.ends[0]);
    EXPECT_EQ(hd_close(p.ends[0]), 0);
    passing_init(&q);
    const int itself = hd_io_fd(q.pair[1]);
    EXPECT_EQ(hd_send_fds(q.pair[0], "x", 1, &itself, 1), 1);
    nets_close(q.pair[0], q.pair[1]);
    nets_close(q.ends[0], q.ends[1]);
    return 0;
}

TEST_IO(descriptors_that_nobody_receives_are_closed, options)
{
    rt_run(pass_to_nobody, NULL, options);
}

/* ---- giving up ---- */

static ssize_t do_recv_fds(struct nets_call *call)
{
    int fd = -1;
    unsigned count = 1;
    const ssize_t n = hd_recv_fds_until(call->io, &call->byte, 1, &fd, &count, call->deadline);
    if (n != 1) return n;
    EXPECT_EQ(count, 1);
    EXPECT_EQ(close(fd), 0);
    return n;
}

static int recv_late(void *arg)
{
    (void)arg;
    hd_io pair[2];
    char byte = 'b';
    int fd = -1;
    unsigned count = 1;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, deadline), -ETIMEDOUT);
    EXPECT(byte == 'b' && fd == -1 && count == 1);
    struct nets_call call;
    nets_begin(&call, pair[1], do_recv_fds);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, pair[1], do_recv_fds);
    fd = STDERR_FILENO;
    EXPECT_EQ(hd_send_fds_until(pair[0], "s", 1, &fd, 1, hd_after_ms(60000)), 1);
    EXPECT_EQ(nets_end(&call), 1);
    EXPECT_EQ(call.byte, 's');
    EXPECT_EQ(hd_send_fds_until(pair[0], "t", 1, &fd, 1, HD_NOW), 1);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, HD_NOW), 1);
    EXPECT(byte == 't' && count == 1 && close(fd) == 0);
    nets_close(pair[0], pair[1]);
    return 0;
}

static ssize_t do_send_fds(struct nets_call *call)
{
    const int fd = STDERR_FILENO;
    return hd_send_fds_until(call->io, "s", 1, &fd, 1, call->deadline);
}

/* Those that gave up have passed nothing: behind what filled it is one message with one. */
static int send_late(void *arg)
{
    (void)arg;
    hd_io pair[2];
    const int fd = STDERR_FILENO;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    size_t filled = nets_fill(pair[0]);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, deadline), -ETIMEDOUT);
    struct nets_call call;
    nets_begin(&call, pair[0], do_send_fds);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, pair[0], do_send_fds);
    while (filled > 0) {
        char block[4096];
        int got;
        unsigned count = 1;
        const ssize_t n = hd_recv_fds_until(pair[1], block, filled < 4096 ? filled : 4096, &got,
                                            &count, hd_after_ms(60000));
        EXPECT(n > 0 && count == 0);
        filled -= (size_t)n;
    }
    EXPECT_EQ(nets_end(&call), 1);
    nets_begin(&call, pair[1], do_recv_fds);
    EXPECT_EQ(nets_end(&call), 1);
    EXPECT_EQ(call.byte, 's');
    EXPECT_EQ(hd_close(pair[0]), 0);
    char byte;
    EXPECT_EQ(hd_read(pair[1], &byte, 1), 0);
    EXPECT_EQ(hd_close(pair[1]), 0);
    return 0;
}

TEST_DRIVERS(receiving_descriptors_gives_up, options) { rt_run(recv_late, NULL, options); }

TEST_DRIVERS(sending_descriptors_gives_up, options) { rt_run(send_late, NULL, options); }
