/* SPDX-License-Identifier: MIT
 *
 * Every system call of sockets, pipes and files fails in turn (tests/faults.h).
 */
#include "faults.h"

#include <fcntl.h>
#include <sys/resource.h>

TEST_MAIN

/* ---- scenarios: each closes what it has, whatever happened ---- */

struct side {
    hd_io listener;
    const char *name; /* that it is dialled by; NULL: by its address */
    bool hasty; /* a connection that there is no descriptor for is soon given up */
    hd_fn *serve;
    int (*talk)(hd_io conn);
};

/* One connection. Who accepts no more closes the listener, so that nobody waits for it: by name,
 * another may have come, too. */
static int serve(void *arg)
{
    const struct side *side = arg;
    hd_io conn;
    char bytes[300];
    hd_addr from;
    const int64_t deadline = side->hasty ? hd_after_ms(200) : HD_FOREVER;
    int err = hd_accept_until(side->listener, &conn, &from, deadline);
    (void)hd_close(side->listener);
    if (err) return err;
    ssize_t n = 0;
    while (!err && (n = hd_read(conn, bytes, sizeof(bytes))) > 0) {
        err = hd_write_all(conn, bytes, (size_t)n, NULL);
    }
    EXPECT_EQ(hd_close(conn), 0);
    return n < 0 ? (int)n : err;
}

static int talk(hd_io conn)
{
    char out[1000], in[1000];
    hd_addr peer;
    memset(out, 'x', sizeof(out));
    int err = hd_peer_addr(conn, &peer);
    if (!err) err = hd_write_all(conn, out, sizeof(out), NULL);
    if (!err) err = hd_read_exact(conn, in, sizeof(in), NULL);
    if (!err) EXPECT(memcmp(in, out, sizeof(in)) == 0);
    if (!err) err = hd_shutdown(conn, SHUT_WR);
    return err ? err : (int)hd_read(conn, in, sizeof(in));
}

/* By leases: an echo that has one when its connection fails ends it. */
static int serve_leased(void *arg)
{
    const struct side *side = arg;
    hd_io conn;
    hd_lease lease = {0};
    int err = hd_accept(side->listener, &conn, NULL);
    (void)hd_close(side->listener);
    if (err) return err;
    ssize_t n = 0;
    while (!err && (n = hd_lease_read(conn, &lease)) > 0) err = hd_lease_write(conn, &lease);
    if (err) EXPECT(lease.count > 0);
    hd_lease_end(&lease);
    EXPECT_EQ(hd_close(conn), 0);
    return n < 0 ? (int)n : err;
}

/* Little, often enough for a ring to know the descriptors by another name; and then much, again and
 * again. */
static int talk_much(hd_io conn)
{
    static char out[20000], in[20000];
    int err = 0;
    for (size_t i = 0; i < sizeof(out); i++) out[i] = (char)(i / 3);
    for (size_t round = 0; round < 22 && !err; round++) {
        const size_t bytes = round < 18 ? 10 : sizeof(out) - round;
        err = hd_write_all(conn, out, bytes, NULL);
        if (!err) err = hd_read_exact(conn, in, bytes, NULL);
        if (!err) EXPECT(memcmp(in, out, bytes) == 0);
    }
    if (!err) err = hd_shutdown(conn, SHUT_WR);
    return err ? err : (int)hd_read(conn, in, 1);
}

static int dial(const struct side *side, hd_io *conn)
{
    hd_addr addr;
    char place[64];
    const int err = hd_local_addr(side->listener, &addr);
    if (err) return err;
    if (!side->name) return hd_connect(conn, &addr);
    snprintf(place, sizeof(place), "%s:%d", side->name, hd_addr_port(&addr));
    return hd_tcp_connect(conn, place, NULL);
}

static int both_sides(struct side *side)
{
    hd_io conn;
    hd_task *server;
    int err = hd_spawn(&server, side->serve, side);
    if (err) {
        EXPECT_EQ(hd_close(side->listener), 0);
        return err;
    }
    if (side->serve == serve_leased) hd_yield(); /* It waits by then, the others do not. */
    err = dial(side, &conn);
    if (!err) {
        err = side->talk(conn);
        EXPECT_EQ(hd_close(conn), 0);
    } else {
        (void)hd_close(side->listener);
    }
    const int other = rt_join(server);
    (void)hd_close(side->listener);
    return err ? err : other;
}

static int by_address(void *arg)
{
    struct side side = {.serve = serve, .talk = talk};
    (void)arg;
    const int err = hd_tcp_listen(&side.listener, "127.0.0.1:0", NULL);
    return err ? err : both_sides(&side);
}

/* The last run has all it needs, and is to have the time for it. */
static int by_address_hastily(void *arg)
{
    struct side side = {.hasty = *(bool *)arg, .serve = serve, .talk = talk};
    const int err = hd_tcp_listen(&side.listener, "127.0.0.1:0", NULL);
    return err ? err : both_sides(&side);
}

static int by_name(void *arg)
{
    struct side side = {.name = "localhost", .serve = serve, .talk = talk};
    (void)arg;
    const int err = hd_tcp_listen(&side.listener, ":0", NULL);
    return err ? err : both_sides(&side);
}

/* This machine has an address of IPv6, which refuses, before the other. */
static int by_second_address(void *arg)
{
    struct side side = {.name = "", .serve = serve, .talk = talk};
    (void)arg;
    const int err = hd_tcp_listen(&side.listener, "127.0.0.1:0", NULL);
    return err ? err : both_sides(&side);
}

TEST_IO(tcp, options) { faults_each(by_address, NULL, options); }

TEST_IO(tcp_by_name, options) { faults_each(by_name, NULL, options); }

/* Without a runtime a thread asks itself. */
static int resolve_here(void *arg)
{
    hd_addr addr;
    (void)arg;
    const int n = hd_resolve("localhost", 80, &addr, 1);
    return n < 0 ? n : 0;
}

TEST(names_of_plain_threads)
{
    faults_each_run(resolve_here, NULL, NULL);
    faults_expect("resolve");
}

TEST_IO(tcp_by_the_next_address, options) { faults_each(by_second_address, NULL, options); }

static int by_unix_name(void *arg)
{
    struct side side = {.serve = serve, .talk = talk};
    char name[64];
    (void)arg;
    snprintf(name, sizeof(name), "@heddle-fault-%d", (int)getpid());
    const int err = hd_unix_listen(&side.listener, name, NULL);
    return err ? err : both_sides(&side);
}

TEST_IO(unix_sockets, options) { faults_each(by_unix_name, NULL, options); }

static int datagrams(void *arg)
{
    hd_io a, b;
    hd_addr at, from;
    char bytes[16];
    (void)arg;
    int err = hd_udp_open(&a, "127.0.0.1:0");
    if (err) return err;
    err = hd_udp_open(&b, "127.0.0.1:0");
    if (err) {
        EXPECT_EQ(hd_close(a), 0);
        return err;
    }
    ssize_t n = hd_local_addr(a, &at);
    if (n == 0) n = hd_udp_connect(b, &at);
    if (n == 0) n = hd_write(b, "one", 3);
    if (n > 0) n = hd_recv_from(a, bytes, sizeof(bytes), &from);
    if (n > 0) n = hd_send_to(a, "two", 3, &from);
    if (n > 0) n = hd_read(b, bytes, sizeof(bytes));
    if (n > 0) n = hd_read_until(b, bytes, sizeof(bytes), hd_after_ms(1));
    nets_close(a, b);
    return n == -ETIMEDOUT ? 0 : (int)n;
}

TEST_IO(udp, options) { faults_each(datagrams, NULL, options); }

static int leased(void *arg)
{
    struct side side = {.serve = serve_leased, .talk = talk_much};
    (void)arg;
    const int err = hd_tcp_listen(&side.listener, "127.0.0.1:0", NULL);
    return err ? err : both_sides(&side);
}

/* By one worker, so that it is the same calls each time. */
TEST_IO(leases, options)
{
    const hd_options own = rt_one_lane(options);
    faults_each(leased, NULL, &own);
}

/* What was written, and is not sent when the handle is closed, is sent later, or lost. */
static int lingering(void *arg)
{
    hd_io ends[2];
    char piece[700] = {0};
    ssize_t n;
    const int little = 1 << 13;
    (void)arg;
    int err = hd_tcp_listen(&ends[0], "127.0.0.1:0", NULL);
    if (err) return err;
    hd_addr addr;
    const hd_io listener = ends[0];
    err = hd_set_option(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    if (!err) err = hd_local_addr(listener, &addr);
    if (!err) err = hd_connect(&ends[1], &addr);
    if (err) {
        (void)hd_close(listener);
        return err;
    }
    err = hd_accept(listener, &ends[0], NULL);
    (void)hd_close(listener);
    if (err) {
        (void)hd_close(ends[1]);
        return err;
    }
    n = hd_read_until(ends[1], piece, 1, hd_after_ms(1)); /* It is watched then. */
    EXPECT(n < 0);
    (void)hd_set_option(ends[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
    while (hd_write_until(ends[1], piece, sizeof(piece), HD_NOW) > 0) continue;
    EXPECT_EQ(hd_close(ends[1]), 0);
    while ((n = hd_read(ends[0], piece, sizeof(piece))) > 0) continue;
    EXPECT_EQ(hd_close(ends[0]), 0);
    return (int)n;
}

TEST_IO(lingerers, options)
{
    const hd_options own = rt_one_lane(options);
    faults_each(lingering, NULL, &own);
}

/* ---- a shortage that lasts ---- */

static int fail_accepts(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    return strcmp(name, "accept") == 0 ? -EMFILE : 0;
}

static int accept_one(void *arg)
{
    hd_io conn;
    return hd_accept(*(hd_io *)arg, &conn, NULL);
}

static int accept_until_soon(void *arg)
{
    hd_io conn;
    const int64_t deadline = hd_after_ms(20);
    const int err = hd_accept_until(*(hd_io *)arg, &conn, NULL, deadline);
    EXPECT(hd_now(NULL) >= deadline);
    return err;
}

/* Who backs off is a waiter of the listener's like any other. */
static int back_off_until_closed(void *arg)
{
    hd_io listener;
    (void)arg;
    EXPECT_EQ(hd_tcp_listen(&listener, "127.0.0.1:0", NULL), 0);
    hd_task *acceptor = rt_spawn(NULL, accept_until_soon, &listener);
    EXPECT_EQ(rt_join(acceptor), -ETIMEDOUT);
    acceptor = rt_spawn(NULL, accept_one, &listener);
    hd_yield();
    hd_cancel(acceptor);
    EXPECT_EQ(rt_join(acceptor), -ECANCELED);
    acceptor = rt_spawn(NULL, accept_one, &listener);
    hd_yield(); /* In sim perhaps it has not tried yet, and then finds a stale handle. */
    EXPECT_EQ(hd_close(listener), 0);
    const int err = rt_join(acceptor);
    EXPECT(err == -ECANCELED || (nets_in_sim() && err == -EBADF));
    return 0;
}

TEST_IO(a_close_ends_a_back_off, options)
{
    const hd_options own = rt_one_lane(options);
    hdi_sys_fault = fail_accepts;
    rt_run(back_off_until_closed, NULL, &own);
    hdi_sys_fault = NULL;
}

struct ends {
    hd_io in, out;
};

static int feed(void *arg)
{
    const struct ends *ends = arg;
    hd_yield();
    const int err = hd_write_all(ends->out, "some bytes", 10, NULL);
    (void)hd_close(ends->out);
    return err;
}

/* Readiness, deadlines and cancelling, of a pipe. */
static int pass_through(struct ends ends)
{
    char bytes[16];
    hd_task *feeder;
    int err = (int)hd_read_until(ends.in, bytes, 1, hd_now(NULL) + 1000);
    const int spawned = hd_spawn(&feeder, feed, &ends);
    if (spawned) {
        nets_close(ends.in, ends.out);
        return spawned;
    }
    if (err == -ETIMEDOUT) {
        hd_case cases[] = {HD_READABLE(ends.in)};
        const int which = hd_select(cases, 1);
        err = which < 0 ? which : cases[0].result;
    }
    if (!err) err = hd_read_exact(ends.in, bytes, 10, NULL);
    if (!err) err = (int)hd_read(ends.in, bytes, 1);
    EXPECT_EQ(hd_close(ends.in), 0);
    const int other = rt_join(feeder);
    return err ? err : other;
}

static int piped(void *arg)
{
    hd_io both[2];
    (void)arg;
    const int err = hd_pipe(both);
    return err ? err : pass_through((struct ends){both[0], both[1]});
}

TEST_IO(pipes, options) { faults_each(piped, NULL, options); }

static int pairs(void *arg)
{
    hd_io both[2];
    char bytes[16];
    int fds[2] = {STDERR_FILENO, -1};
    unsigned count = 1;
    (void)arg;
    int err = hd_unix_pair(both);
    if (err) return err;
    ssize_t n = nets_in_sim() ? hd_write(both[0], "x", 1)
                              : hd_send_fds(both[0], "x", 1, fds, 1);
    if (n > 0 && nets_in_sim()) n = hd_read(both[1], bytes, sizeof(bytes));
    if (n > 0 && !nets_in_sim()) {
        n = hd_recv_fds(both[1], bytes, sizeof(bytes), &fds[1], &count);
        if (n > 0) close(fds[1]);
    }
    if (n > 0) n = hd_read_until(both[1], bytes, 1, hd_now(NULL) + 1000);
    nets_close(both[0], both[1]);
    return n == -ETIMEDOUT ? 0 : (int)n;
}

TEST_IO(pairs_and_descriptors, options) { faults_each(pairs, NULL, options); }

/* ---- files ---- */

static char dir[64], first[80], second[80];

static int use_file(hd_io file)
{
    char bytes[8];
    struct stat info;
    ssize_t n = hd_pwrite(file, "abcdef", 6, 0);
    if (n >= 0) n = hd_file_sync(file, false);
    if (n == 0) n = hd_file_truncate(file, 3);
    if (n == 0) n = hd_file_stat(file, &info);
    if (n == 0) n = hd_pread(file, bytes, sizeof(bytes), 0);
    if (n > 0) EXPECT_EQ(n, 3);
    return n < 0 ? (int)n : 0;
}

static int write_again(void *arg)
{
    const ssize_t n = hd_pwrite(*(hd_io *)arg, "ABC", 3, 0);
    return n < 0 ? (int)n : 0;
}

/* What the call says may be of the close, and is no fault. */
static int close_under_call(hd_io file)
{
    hd_task *writer;
    int err = hd_spawn(&writer, write_again, &file);
    if (!err) hd_yield();
    EXPECT_EQ(hd_close(file), 0);
    if (!err) err = rt_join(writer);
    return err == -ECANCELED || err == -EBADF ? 0 : err;
}

static int list_dir(void)
{
    hd_dir *list;
    hd_dir_entry entry;
    int n = hd_dir_open(&list, dir);
    if (n) return n;
    while ((n = hd_dir_read(list, &entry)) > 0) continue;
    hd_dir_close(list);
    return n;
}

static int files(void *arg)
{
    hd_io file;
    struct stat info;
    (void)arg;
    int err = hd_mkdir(dir, 0700);
    if (!err) err = hd_file_open(&file, first, O_RDWR | O_CREAT, 0600);
    if (err) return err;
    err = use_file(file);
    const int other = close_under_call(file);
    if (!err) err = other;
    if (!err) err = hd_stat(first, &info);
    if (!err) err = hd_rename(first, second);
    if (!err) err = hd_dir_sync(dir);
    if (!err) err = list_dir();
    if (!err) err = hd_unlink(second);
    return err ? err : hd_rmdir(dir);
}

static void remove_files(void)
{
    (void)unlink(first);
    (void)unlink(second);
    (void)rmdir(dir);
}

TEST_IO(files_and_directories, options)
{
    snprintf(dir, sizeof(dir), "/tmp/heddle-fault-%d", (int)getpid());
    snprintf(first, sizeof(first), "%s/first", dir);
    snprintf(second, sizeof(second), "%s/second", dir);
    hd_options own = *options;
    own.sampler = NULL; /* A stale handle ends an explored run. */
    faults_each(files, remove_files, &own);
}

/* Made non-blocking, and waited for as pipes are. */
static int fifos(void *arg)
{
    struct ends ends;
    (void)arg;
    int err = hd_file_open(&ends.in, first, O_RDONLY | O_NONBLOCK, 0);
    if (err) return err;
    err = hd_file_open(&ends.out, first, O_WRONLY, 0);
    if (!err) return pass_through(ends);
    EXPECT_EQ(hd_close(ends.in), 0);
    return err;
}

TEST_DRIVERS(fifos_of_the_file_system, options)
{
    snprintf(first, sizeof(first), "/tmp/heddle-fault-%d", (int)getpid());
    EXPECT_EQ(mkfifo(first, 0600), 0);
    faults_each(fifos, NULL, options);
    faults_expect("set_blocking");
    EXPECT_EQ(unlink(first), 0);
}

/* ---- the limit of descriptors: also what the drivers open themselves ---- */

TEST_DRIVERS(any_limit_of_descriptors, options)
{
    enum { ENOUGH = 30 };
    const int lowest = dup(STDERR_FILENO);
    const unsigned fds = nets_count_fds() - 1;
    struct rlimit limit;
    int err = -1, refused = 0;
    close(lowest);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int more = 0; more < ENOUGH; more++) {
        const struct rlimit low = {(rlim_t)(lowest + more), limit.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
        bool hasty = more < ENOUGH - 1;
        err = hd_run(by_address_hastily, &hasty, options);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_EQ(nets_count_fds(), fds);
        EXPECT(faults_told(err) || (hasty && err == -ETIMEDOUT));
        refused += err != 0;
    }
    EXPECT_EQ(err, 0);
    EXPECT(refused > 3);
}
