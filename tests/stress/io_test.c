/* SPDX-License-Identifier: MIT
 *
 * Many connections, hostile ones, storms of opening and closing, workers that are stuck; by both
 * drivers.
 */
#include "nets.h"
#include "stress.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <time.h>

TEST_MAIN

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * HD_SECOND_NS + now.tv_nsec;
}

/* ---- an echo server ---- */

struct server {
    hd_io listener;
    atomic_uint served, open;
};

struct serving {
    struct server *server;
    hd_io conn;
};

static int echo(void *arg)
{
    struct serving *serving = arg;
    char bytes[512];
    ssize_t n;
    while ((n = hd_read(serving->conn, bytes, sizeof(bytes))) > 0) {
        if (hd_write_all(serving->conn, bytes, (size_t)n, NULL) != 0) break;
    }
    EXPECT_EQ(hd_close(serving->conn), 0);
    atomic_fetch_sub(&serving->server->open, 1);
    free(serving);
    return 0;
}

static int serve(void *arg)
{
    struct server *server = arg;
    hd_io conn;
    int err;
    while ((err = hd_accept(server->listener, &conn, NULL)) == 0) {
        struct serving *serving = malloc(sizeof(*serving));
        *serving = (struct serving){server, conn};
        atomic_fetch_add(&server->served, 1);
        atomic_fetch_add(&server->open, 1);
        EXPECT_EQ(hd_spawn(NULL, echo, serving), 0);
    }
    return err;
}

static hd_task *server_begin(struct server *server)
{
    memset(server, 0, sizeof(*server));
    server->listener = nets_listen();
    return rt_spawn(NULL, serve, server);
}

static void server_end(struct server *server, hd_task *task)
{
    while (atomic_load(&server->open) > 0) EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_close(server->listener), 0);
    const int err = rt_join(task);
    EXPECT(err == -ECANCELED || err == -EBADF);
}

/* ---- ten thousand ---- */

/* As many descriptors as we may have. */
static unsigned raise_limit(void)
{
    struct rlimit limit;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur < 1000000 ? (unsigned)limit.rlim_cur : 1000000;
}

struct crowd {
    hd_addr to;
    unsigned count;
};

/* All connect, then all talk, then all go. */
static int come(void *arg)
{
    const struct crowd *crowd = arg;
    hd_io *conns = calloc(crowd->count, sizeof(*conns));
    for (unsigned i = 0; i < crowd->count; i++) EXPECT_EQ(hd_connect(&conns[i], &crowd->to), 0);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < crowd->count; i++) {
            EXPECT_EQ(hd_write_all(conns[i], &i, sizeof(i), NULL), 0);
        }
        for (unsigned i = 0; i < crowd->count; i++) {
            unsigned back = 0;
            EXPECT_EQ(hd_read_exact(conns[i], &back, sizeof(back), NULL), 0);
            EXPECT_EQ(back, i);
        }
    }
    for (unsigned i = 0; i < crowd->count; i++) EXPECT_EQ(hd_close(conns[i]), 0);
    free(conns);
    return 0;
}

struct host {
    int port; /* a pipe to the other process */
    unsigned count;
};

static int be_host(void *arg)
{
    const struct host *host = arg;
    struct server server;
    hd_task *task = server_begin(&server);
    const hd_addr addr = nets_addr(server.listener);
    EXPECT_EQ(write(host->port, &addr, sizeof(addr)), sizeof(addr));
    while (atomic_load(&server.served) < host->count) EXPECT_EQ(hd_sleep_ms(1), 0);
    server_end(&server, task);
    return 0;
}

/* Each side has its own process, so that neither has all the descriptors. Fewer connections would
 * show nothing of what the name says. */
TEST_DRIVERS(ten_thousand_connections, options)
{
    enum { OTHERS = 100 }; /* descriptors for all else */
    const unsigned count = stress_count(10000), limit = raise_limit();
    if (limit < count + OTHERS) {
        char why[100];
        snprintf(why, sizeof(why), "%u descriptors are needed, the hard limit is %u",
                 count + OTHERS, limit);
        test_skip(why);
    }
    int ends[2], status;
    EXPECT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct crowd crowd = {.count = count};
        EXPECT_EQ(read(ends[0], &crowd.to, sizeof(crowd.to)), sizeof(crowd.to));
        rt_run(come, &crowd, options);
        _exit(0);
    }
    struct host host = {ends[1], count};
    rt_run(be_host, &host, options);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
}

/* ---- hostile ones ---- */

static size_t resident_bytes(void)
{
    size_t size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    EXPECT(file && fscanf(file, "%zu %zu", &size, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void go_abruptly(hd_io io)
{
    const struct linger at_once = {1, 0};
    (void)hd_set_option(io, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    EXPECT_EQ(hd_close(io), 0);
}

/* Some send nothing, some a little, some much that they do not read back; then all are gone. */
static void attack(hd_io listener)
{
    enum { ATTACKERS = 40 };
    static const char block[20000];
    hd_io conns[ATTACKERS];
    for (int i = 0; i < ATTACKERS; i++) conns[i] = nets_connect(listener);
    for (int i = 0; i < ATTACKERS; i++) {
        if (i % 3 == 1) EXPECT_EQ(hd_write_all(conns[i], "G", 1, NULL), 0);
        for (int k = 0; i % 3 == 2 && k < 50; k++) {
            if (hd_write_until(conns[i], block, sizeof(block), HD_NOW) <= 0) break;
        }
    }
    hd_yield();
    for (int i = 0; i < ATTACKERS; i++) {
        if (i % 2) {
            go_abruptly(conns[i]);
        } else {
            EXPECT_EQ(hd_close(conns[i]), 0);
        }
    }
}

static int hold_out(void *arg)
{
    struct server server;
    (void)arg;
    hd_task *task = server_begin(&server);
    const unsigned rounds = stress_count(200);
    size_t before = 0;
    for (unsigned i = 0; i < rounds; i++) {
        attack(server.listener);
        if (i % 16 == 0) { /* Others are served. */
            hd_io conn = nets_connect(server.listener);
            nets_expect_byte(conn, conn, 'e');
            EXPECT_EQ(hd_close(conn), 0);
        }
        while (atomic_load(&server.open) > 0) EXPECT_EQ(hd_sleep_ms(1), 0);
        if (i == rounds / 4) before = resident_bytes();
    }
    const size_t after = resident_bytes();
    if (!STRESS_ASAN && !STRESS_TSAN && after > before + (4 << 20)) {
        test_fail(__FILE__, __LINE__, "grew from %zu to %zu bytes", before, after);
    }
    server_end(&server, task);
    return 0;
}

TEST_DRIVERS(abrupt_ends_do_not_grow_memory, options)
{
    hd_options own = *options;
    own.stall_ns = HD_FOREVER; /* A spare would have a lane of its own. */
    const unsigned fds = nets_count_fds();
    rt_run(hold_out, NULL, &own);
    EXPECT_EQ(nets_count_fds(), fds);
}

/* Each has read once, and then leaves what comes unread: more than the lane has buffers. */
static int exhaust(void *arg)
{
    enum { SLUGGARDS = 80 };
    static char block[100000];
    hd_io slugs[SLUGGARDS][2], ends[2];
    struct nets_call reader;
    (void)arg;
    for (int i = 0; i < SLUGGARDS; i++) {
        nets_pair(NETS_TCP, slugs[i]);
        nets_begin(&reader, slugs[i][0], nets_do_read);
        EXPECT_EQ(hd_write_all(slugs[i][1], "x", 1, NULL), 0);
        EXPECT_EQ(nets_end(&reader), 1);
    }
    for (int i = 0; i < SLUGGARDS; i++) {
        EXPECT_EQ(hd_write_all(slugs[i][1], block, sizeof(block), NULL), 0);
        EXPECT_EQ(hd_sleep_ms(1), 0);
    }
    nets_pair(NETS_TCP, ends);
    nets_begin(&reader, ends[0], nets_do_read);
    const int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    EXPECT_EQ(hd_sleep_ms(300), 0); /* It waits without turning round and round. */
    const int64_t used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    if (used_ns > 100 * HD_MS_NS) {
        test_fail(__FILE__, __LINE__, "used %lld ns", (long long)used_ns);
    }
    EXPECT_EQ(hd_write_all(ends[1], "x", 1, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    for (int i = 0; i < 1000; i++) {
        nets_expect_byte(ends[0], ends[1], 'a');
        nets_expect_byte(ends[1], ends[0], 'b');
    }
    for (int i = 0; i < SLUGGARDS; i++) { /* Nothing of theirs was lost. */
        EXPECT_EQ(hd_read_exact(slugs[i][0], block, sizeof(block), NULL), 0);
        nets_expect_byte(slugs[i][1], slugs[i][0], 'c');
        nets_close(slugs[i][0], slugs[i][1]);
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(those_who_do_not_read_are_in_nobodys_way, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(exhaust, NULL, &own);
}

/* ---- storms ---- */

struct storm {
    struct server *server;
    unsigned number;
};

/* Connects, talks about something of its own, and goes one way or another. */
static int blow(void *arg)
{
    const struct storm *storm = arg;
    struct stress_random random = stress_random_init(storm->number);
    const unsigned rounds = stress_count(100);
    for (unsigned i = 0; i < rounds; i++) {
        hd_io conn = nets_connect(storm->server->listener);
        const unsigned kind = stress_below(&random, 4), size = 1 + stress_below(&random, 3000);
        unsigned char out[3000], in[3000];
        for (unsigned k = 0; k < size; k++) out[k] = (unsigned char)stress_below(&random, 256);
        if (kind > 0) EXPECT_EQ(hd_write_all(conn, out, size, NULL), 0);
        if (kind > 1) {
            EXPECT_EQ(hd_read_exact(conn, in, size, NULL), 0);
            EXPECT(memcmp(in, out, size) == 0);
        }
        if (kind == 2) {
            EXPECT_EQ(hd_shutdown(conn, SHUT_WR), 0);
            EXPECT_EQ(hd_read(conn, in, 1), 0);
        }
        if (kind == 1) {
            go_abruptly(conn);
        } else {
            EXPECT_EQ(hd_close(conn), 0);
        }
    }
    return 0;
}

static int storms(void *arg)
{
    enum { STORMS = 16 };
    struct server server;
    struct storm all[STORMS];
    hd_task *tasks[STORMS], *task = server_begin(&server);
    (void)arg;
    for (unsigned i = 0; i < STORMS; i++) {
        all[i] = (struct storm){&server, i};
        tasks[i] = rt_spawn(NULL, blow, &all[i]);
    }
    for (unsigned i = 0; i < STORMS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    server_end(&server, task);
    return 0;
}

TEST_DRIVERS(storms_of_opening_and_closing, options)
{
    static const unsigned workers[] = {1, 2, 8};
    const unsigned fds = nets_count_fds();
    for (int i = 0; i < 3; i++) {
        hd_options own = *options;
        own.workers = workers[i];
        rt_run(storms, NULL, &own);
        EXPECT_EQ(nets_count_fds(), fds);
    }
}

/* ---- one handle, several workers ---- */

enum { FLOODS = 8, FLOOD_BLOCK = 4000 };

struct flood {
    hd_io io;
    unsigned blocks;
};

static int flood_write(void *arg)
{
    const struct flood *flood = arg;
    unsigned block[FLOOD_BLOCK / sizeof(unsigned)];
    for (unsigned i = 0; i < flood->blocks; i++) {
        for (unsigned k = 0; k < FLOOD_BLOCK / sizeof(unsigned); k++) block[k] = i * 1009 + k;
        EXPECT_EQ(hd_write_all(flood->io, block, sizeof(block), NULL), 0);
        if (i % 8 == 0) hd_yield();
    }
    return 0;
}

static int flood_read(void *arg)
{
    const struct flood *flood = arg;
    unsigned block[FLOOD_BLOCK / sizeof(unsigned)];
    for (unsigned i = 0; i < flood->blocks; i++) {
        EXPECT_EQ(hd_read_exact(flood->io, block, sizeof(block), NULL), 0);
        for (unsigned k = 0; k < FLOOD_BLOCK / sizeof(unsigned); k++) {
            EXPECT_EQ(block[k], i * 1009 + k);
        }
    }
    return 0;
}

static int floods(void *arg)
{
    struct flood floods[FLOODS][2];
    hd_task *tasks[FLOODS][4];
    (void)arg;
    for (int i = 0; i < FLOODS; i++) {
        hd_io ends[2];
        nets_pair(i % 4 == 3 ? NETS_UNIX : NETS_TCP, ends);
        for (int k = 0; k < 2; k++) {
            floods[i][k] = (struct flood){ends[k], stress_count(2000)};
            tasks[i][2 * k] = rt_spawn(NULL, flood_write, &floods[i][k]);
            tasks[i][2 * k + 1] = rt_spawn(NULL, flood_read, &floods[i][k]);
        }
    }
    for (int i = 0; i < FLOODS; i++) {
        for (int k = 0; k < 4; k++) EXPECT_EQ(rt_join(tasks[i][k]), 0);
        nets_close(floods[i][0].io, floods[i][1].io);
    }
    return 0;
}

TEST_DRIVERS(floods_keep_their_order, options)
{
    const hd_options own = rt_workers(options, 4);
    rt_run(floods, NULL, &own);
}

/* ---- a stuck worker ---- */

struct stuck {
    struct server server;
    hd_task *task;
    atomic_uint begun;
    atomic_bool enough;
};

static int begin_stuck(void *arg)
{
    struct stuck *stuck = arg;
    stuck->task = server_begin(&stuck->server);
    return 0;
}

/* Nothing that the runtime could see. */
static int hog(void *arg)
{
    struct stuck *stuck = arg;
    const struct timespec moment = {.tv_nsec = HD_MS_NS};
    atomic_store(&stuck->begun, 1);
    while (!atomic_load(&stuck->enough)) nanosleep(&moment, NULL);
    return 0;
}

static int end_stuck(void *arg)
{
    struct stuck *stuck = arg;
    server_end(&stuck->server, stuck->task);
    return 0;
}

static int connect_thread(const hd_addr *to)
{
    const int fd = socket(to->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0);
    EXPECT_EQ(connect(fd, (const struct sockaddr *)to->bytes, to->length), 0);
    return fd;
}

/* Some carry a byte, and some much, which drivers may treat otherwise. */
static void trip(int fd, char byte)
{
    static char there[8192], back[sizeof(there)];
    const size_t bytes = fd % 2 == 0 ? 1 : sizeof(there);
    memset(there, byte, bytes);
    memset(back, ~byte, bytes);
    EXPECT_EQ(send(fd, there, bytes, 0), bytes);
    EXPECT_EQ(recv(fd, back, bytes, MSG_WAITALL), bytes);
    EXPECT(memcmp(there, back, bytes) == 0);
}

/* Connections of both workers are served while one of them is in a task that does not end. */
TEST_DRIVERS(the_connections_of_a_stuck_worker_are_served, options)
{
    enum { CONNS = 16 };
    int conns[CONNS];
    hd_options own = *options;
    own.workers = 2;
    own.stall_ns = 5 * HD_MS_NS;
    hd_runtime *runtime = rt_create(&own);
    struct stuck stuck = {.task = NULL};
    EXPECT_EQ(rt_join(rt_spawn(runtime, begin_stuck, &stuck)), 0);
    const hd_addr to = nets_addr(stuck.server.listener);
    for (int i = 0; i < CONNS; i++) conns[i] = connect_thread(&to);
    for (int i = 0; i < CONNS; i++) trip(conns[i], (char)i);
    hd_task *first = rt_spawn(runtime, hog, &stuck);
    stress_await(&stuck.begun, 1);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < CONNS; i++) trip(conns[i], (char)round);
    }
    const int fd = connect_thread(&to); /* and new ones */
    trip(fd, 'n');
    atomic_store(&stuck.enough, true);
    EXPECT_EQ(rt_join(first), 0);
    for (int i = 0; i < CONNS; i++) trip(conns[i], (char)i); /* It is back. */
    for (int i = 0; i < CONNS; i++) close(conns[i]);
    close(fd);
    EXPECT_EQ(rt_join(rt_spawn(runtime, end_stuck, &stuck)), 0);
    hd_runtime_destroy(runtime);
}
