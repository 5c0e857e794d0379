/* SPDX-License-Identifier: MIT
 *
 * Readiness in select, together with other things; stackless tasks; which driver there is.
 */
#include "files.h"
#include "nets.h"

TEST_MAIN

/* Wait until it is readable, and read. A false alarm is none. */
static int read_when_ready(hd_io io, char *byte)
{
    for (;;) {
        hd_case c = HD_READABLE(io);
        const int which = hd_select(&c, 1);
        if (which < 0 || c.result) return which < 0 ? which : c.result;
        const ssize_t n = hd_read_until(io, byte, 1, HD_NOW);
        if (n != -EAGAIN) return (int)n;
    }
}

static int select_read(void *arg)
{
    hd_io *io = arg;
    char byte;
    return read_when_ready(*io, &byte);
}

static void read_or_write(hd_io ends[2], enum nets_kind kind)
{
    (void)kind;
    char byte = 0;
    hd_case in = HD_READABLE(ends[0]), out = HD_WRITABLE(ends[1]);
    EXPECT_EQ(hd_select_until(&in, 1, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_select_until(&in, 1, 0, hd_after_ms(2)), -ETIMEDOUT);
    EXPECT_EQ(hd_select(&out, 1), 0);
    EXPECT_EQ(out.result, 0);
    hd_task *task = rt_spawn(NULL, select_read, &ends[0]);
    hd_yield();
    EXPECT_EQ(hd_write_all(ends[1], "ab", 2, NULL), 0);
    EXPECT_EQ(rt_join(task), 1);
    EXPECT_EQ(hd_select(&in, 1), 0); /* There is more, and it stays ready. */
    EXPECT_EQ(hd_select(&in, 1), 0);
    EXPECT_EQ(read_when_ready(ends[0], &byte), 1);
    EXPECT_EQ(byte, 'b');
    nets_fill(ends[1]);
    out = (hd_case)HD_WRITABLE(ends[1]);
    EXPECT_EQ(hd_select_until(&out, 1, 0, hd_after_ms(2)), -ETIMEDOUT);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(hd_select(&in, 1), 0);
    nets_drain(ends[0]);
    EXPECT_EQ(hd_select(&in, 1), 0); /* The end is no wait. */
    EXPECT_EQ(read_when_ready(ends[0], &byte), 0);
}

TEST_IO(readiness_is_waited_for, options) { nets_each_kind(read_or_write, options); }

/* ---- all who wait ---- */

static ssize_t do_select_read(struct nets_call *call)
{
    return read_when_ready(call->io, &call->byte);
}

static ssize_t do_read_in_time(struct nets_call *call)
{
    call->deadline = hd_after_ms(3600 * 1000);
    return nets_do_read(call);
}

/* One piece of news is told to all, whichever way they wait and whoever came first, though one has
 * left meanwhile. */
static void each_way(hd_io ends[2], enum nets_kind kind)
{
    ssize_t (*const ways[])(struct nets_call *call) = {nets_do_read, do_select_read,
                                                       do_read_in_time, nets_do_read};
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    (void)kind;
    for (int first = 0; first < WAYS; first++) {
        struct nets_call calls[WAYS];
        int sum = 0;
        for (int i = 0; i < WAYS; i++) nets_begin(&calls[i], ends[0], ways[(first + i) % WAYS]);
        hd_cancel(calls[0].task);
        EXPECT_EQ(nets_end(&calls[0]), -ECANCELED);
        EXPECT_EQ(hd_write_all(ends[1], "abc", 3, NULL), 0);
        for (int i = 1; i < WAYS; i++) {
            EXPECT_EQ(nets_end(&calls[i]), 1);
            sum += calls[i].byte;
        }
        EXPECT_EQ(sum, 'a' + 'b' + 'c');
    }
}

TEST_IO(news_are_told_to_all, options) { nets_each_kind(each_way, options); }

/* ---- what never waits ---- */

static void expect_ready(hd_io io)
{
    hd_case in = HD_READABLE(io), out = HD_WRITABLE(io);
    EXPECT_EQ(hd_select_until(&in, 1, 0, HD_NOW), 0);
    EXPECT_EQ(in.result, 0);
    EXPECT_EQ(hd_select_until(&out, 1, 0, HD_NOW), 0);
    EXPECT_EQ(out.result, 0);
}

/* A file, and a device that no epoll takes: as poll() has it. */
static int always_ready(void *arg)
{
    hd_io io;
    char byte;
    (void)arg;
    files_begin();
    EXPECT_EQ(hd_file_open(&io, files_path("a"), O_RDWR | O_CREAT, 0600), 0);
    expect_ready(io);
    EXPECT_EQ(hd_close(io), 0);
    files_end();
    if (nets_in_sim()) return 0;
    EXPECT_EQ(hd_io_adopt(&io, open("/dev/null", O_RDWR | O_CLOEXEC), 0), 0);
    expect_ready(io);
    EXPECT_EQ(hd_read(io, &byte, 1), 0);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(what_never_waits_is_ready, options) { rt_run(always_ready, NULL, options); }

/* ---- together with others ---- */

static int send_three(void *arg)
{
    hd_chan *chan = arg;
    for (int i = 1; i <= 3; i++) EXPECT_EQ(hd_chan_send(chan, &i), 0);
    return 0;
}

static void mixed(hd_io ends[2], enum nets_kind kind)
{
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    int number = 0, sum = 0, bytes = 0, ticks = 0, writable = 0;
    (void)kind;
    EXPECT(chan != NULL);
    hd_task *sender = rt_spawn(NULL, send_three, chan);
    EXPECT_EQ(hd_write_all(ends[1], "xyz", 3, NULL), 0);
    const int64_t at = hd_after_ms(20);
    while (sum < 6 || bytes < 3 || ticks < 1) {
        hd_case cases[] = {HD_READABLE(ends[0]), HD_RECV(chan, &number), HD_AT(at),
                           HD_WRITABLE(ends[1])};
        if (ticks) cases[2] = (hd_case)HD_NEVER;
        const int which = hd_select(cases, writable < 3 ? 4 : 3);
        char byte;
        EXPECT(which >= 0 && cases[which].result == 0);
        if (which == 0) bytes += hd_read_until(ends[0], &byte, 1, HD_NOW) == 1;
        if (which == 1) sum += number;
        if (which == 2) ticks++;
        if (which == 3) writable++;
    }
    EXPECT(bytes == 3 && writable <= 3);
    EXPECT_EQ(rt_join(sender), 0);
    hd_case left[] = {HD_READABLE(ends[0]), HD_RECV(chan, &number)};
    EXPECT_EQ(hd_select_until(left, 2, 0, hd_after_ms(2)), -ETIMEDOUT);
    hd_chan_destroy(chan);
}

TEST_IO(channels_timers_and_streams_in_one_select, options)
{
    nets_each_kind(mixed, options);
}

/* Both sides of one handle, the same side twice, and many handles. */
static int many(void *arg)
{
    enum { PAIRS = 20 };
    hd_io pairs[PAIRS][2];
    hd_case cases[PAIRS + 3];
    (void)arg;
    for (int i = 0; i < PAIRS; i++) nets_pair((enum nets_kind)(i % 2), pairs[i]);
    for (int i = 0; i < PAIRS; i++) {
        const hd_io chosen = pairs[(i * 7) % PAIRS][0];
        EXPECT_EQ(hd_write_all(pairs[(i * 7) % PAIRS][1], "!", 1, NULL), 0);
        char byte;
        int which;
        do {
            for (int k = 0; k < PAIRS; k++) cases[k] = (hd_case)HD_READABLE(pairs[k][0]);
            cases[PAIRS] = (hd_case)HD_READABLE(chosen);
            cases[PAIRS + 1] = (hd_case)HD_NEVER;
            cases[PAIRS + 2] = (hd_case)HD_READABLE(chosen);
            which = hd_select(cases, PAIRS + 3);
            EXPECT(which >= 0);
            EXPECT_EQ(cases[which].result, 0);
        } while (cases[which].number != (int64_t)chosen.private_); /* a false alarm, in sim */
        EXPECT_EQ(hd_read_exact(chosen, &byte, 1, NULL), 0);
    }
    hd_case both[] = {HD_READABLE(pairs[0][0]), HD_WRITABLE(pairs[0][0])};
    EXPECT_EQ(hd_select_until(both, 2, 0, HD_NOW), 1);
    for (int i = 0; i < PAIRS; i++) nets_close(pairs[i][0], pairs[i][1]);
    return 0;
}

TEST_IO(many_handles_in_one_select, options) { rt_run(many, NULL, options); }

struct closing {
    hd_io io;
    bool out;
};

static int select_closing(void *arg)
{
    const struct closing *closing = arg;
    hd_case c = HD_READABLE(closing->io);
    if (closing->out) c = (hd_case)HD_WRITABLE(closing->io);
    const int which = hd_select(&c, 1);
    return which < 0 ? which : c.result;
}

static void close_in_select(hd_io ends[2], enum nets_kind kind)
{
    struct closing in = {ends[0], false}, out = {ends[1], true};
    (void)kind;
    nets_fill(ends[1]);
    hd_task *writer = rt_spawn(NULL, select_closing, &out);
    hd_yield();
    EXPECT_EQ(hd_close(ends[1]), 0);
    int err = rt_join(writer);
    EXPECT(err == -ECANCELED || err == -EBADF);
    hd_io again[2] = {{0}, {0}};
    nets_pair(kind, again);
    in.io = again[0];
    hd_task *reader = rt_spawn(NULL, select_closing, &in);
    hd_yield();
    EXPECT_EQ(hd_close(again[0]), 0);
    err = rt_join(reader);
    EXPECT(err == -ECANCELED || err == -EBADF);
    EXPECT_EQ(hd_close(again[1]), 0);
}

TEST_IO(a_close_is_told_to_selects, options) { nets_each_kind(close_in_select, options); }

static int accept_in_select(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen(), conn = {0};
    hd_case c = HD_READABLE(listener);
    EXPECT_EQ(hd_select_until(&c, 1, 0, hd_after_ms(1)), -ETIMEDOUT);
    for (int i = 0; i < 5; i++) {
        hd_io clients[2] = {nets_connect(listener), nets_connect(listener)};
        for (int k = 0; k < 2; k++) {
            int err;
            do {
                EXPECT_EQ(hd_select(&c, 1), 0);
                EXPECT_EQ(c.result, 0);
                err = hd_accept_until(listener, &conn, NULL, HD_NOW);
            } while (err == -EAGAIN);
            EXPECT_EQ(err, 0);
            EXPECT_EQ(hd_close(conn), 0);
        }
        nets_close(clients[0], clients[1]);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_listener_is_readable, options) { rt_run(accept_in_select, NULL, options); }

/* ---- stackless tasks ---- */

struct echoing {
    hd_io io;
    hd_wait wait;
    hd_case cases[2];
    char byte;
    bool has, waiting;
    int echoed;
};

/* Echoes bytes until the end. */
static hd_poll echo_poll(void *state, int *result)
{
    struct echoing *e = state;
    for (;;) {
        const ssize_t n = e->waiting ? -EAGAIN
                          : e->has   ? hd_write_until(e->io, &e->byte, 1, HD_NOW)
                                     : hd_read_until(e->io, &e->byte, 1, HD_NOW);
        if (n == -EAGAIN) {
            if (!e->waiting) {
                e->cases[0] = (hd_case)HD_READABLE(e->io);
                if (e->has) e->cases[0] = (hd_case)HD_WRITABLE(e->io);
                e->cases[1] = (hd_case)HD_NEVER;
            }
            const int which = hd_select_poll(&e->wait, e->cases, 2, 0, HD_FOREVER);
            e->waiting = which == -EAGAIN;
            if (e->waiting) return HD_PENDING;
            EXPECT(which == 0 || which == -ECANCELED);
            if (which == 0) continue;
        }
        if (n == 1) {
            e->echoed += e->has;
            e->has = !e->has;
            continue;
        }
        *result = n == 0 ? e->echoed : (int)n;
        return HD_READY;
    }
}

static int echo_stackless(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < NETS_PIPE; kind++) {
        hd_io ends[2];
        nets_pair((enum nets_kind)kind, ends);
        struct echoing e = {.io = ends[0]};
        hd_task *task = rt_spawn_poll(NULL, echo_poll, &e, sizeof(e));
        for (int i = 0; i < 50; i++) {
            char out[3] = "abc", in[3] = "";
            EXPECT_EQ(hd_write_all(ends[1], out, 3, NULL), 0);
            EXPECT_EQ(hd_read_exact(ends[1], in, 3, NULL), 0);
            EXPECT(memcmp(in, "abc", 3) == 0);
        }
        EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
        EXPECT_EQ(rt_join(task), 150);
        nets_close(ends[0], ends[1]);
        nets_pair((enum nets_kind)kind, ends);
        e = (struct echoing){.io = ends[0]};
        task = rt_spawn_poll(NULL, echo_poll, &e, sizeof(e));
        hd_yield();
        hd_cancel(task); /* its wait ends with it */
        EXPECT_EQ(rt_join(task), -EAGAIN);
        nets_expect_byte(ends[1], ends[0], 'z');
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_IO(stackless_tasks_wait_by_select, options) { rt_run(echo_stackless, NULL, options); }

/* ---- drivers ---- */

static char said[256];

static void log_line(void *arg, const char *line)
{
    EXPECT(arg == said);
    snprintf(said, sizeof(said), "%s", line);
}

static int wait_once(void *arg)
{
    hd_io ends[2];
    char byte;
    const char **io = arg;
    EXPECT_EQ(strcmp(hd_runtime_io(hd_runtime_self()), nets_in_sim() ? "sim" : "none"), 0);
    EXPECT_EQ(hd_pipe(ends), 0);
    const int err = (int)hd_read_until(ends[0], &byte, 1, hd_after_ms(1));
    nets_close(ends[0], ends[1]);
    *io = hd_runtime_io(hd_runtime_self());
    return err;
}

TEST_IO(the_driver_is_told, options)
{
    hd_options own = *options;
    const char *io = NULL;
    own.log = log_line;
    own.log_arg = said;
    EXPECT_EQ(hd_run(wait_once, &io, &own), -ETIMEDOUT);
    const char *expected = rt_is_sim(options)            ? "sim"
                           : options->io == HD_IO_EPOLL ? "epoll" : "io_uring";
    EXPECT_EQ(strcmp(io, expected), 0);
    if (rt_is_sim(options)) return;
    EXPECT(strncmp(said, "io: ", 4) == 0 && strncmp(said + 4, io, strlen(io)) == 0);
    setenv("HEDDLE_IO", "epoll", 1); /* It wins. */
    EXPECT_EQ(hd_run(wait_once, &io, &own), -ETIMEDOUT);
    EXPECT_EQ(strcmp(io, "epoll"), 0);
    EXPECT_EQ(strcmp(said, "io: epoll"), 0);
    if (options->io != HD_IO_URING) return;
    setenv("HEDDLE_IO", "uring", 1);
    own.io = HD_IO_EPOLL;
    EXPECT_EQ(hd_run(wait_once, &io, &own), -ETIMEDOUT);
    EXPECT_EQ(strcmp(io, "io_uring"), 0);
    setenv("HEDDLE_IO", "neither", 1);
    EXPECT_EQ(hd_run(wait_once, &io, &own), -EINVAL);
    EXPECT(strstr(hd_options_error(&own), "HEDDLE_IO") != NULL);
}

/* ---- what waits for the kernel is not stuck ---- */

static int read_only(void *arg)
{
    hd_io *ends = arg;
    char byte;
    nets_pair(NETS_TCP, ends);
    atomic_store((atomic_int *)(ends + 2), 1);
    return (int)hd_read(ends[0], &byte, 1);
}

/* One task, which waits for what this thread will write. */
TEST_DRIVERS(a_socket_that_is_waited_for_is_no_deadlock, options)
{
    struct {
        hd_io ends[2];
        atomic_int ready;
    } shared = {.ready = 0};
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, read_only, shared.ends);
    rt_await(runtime, &shared.ready);
    EXPECT_EQ(hd_runtime_drain(runtime, hd_after_ms(50)), -ETIMEDOUT);
    EXPECT_EQ(hd_write(shared.ends[1], "x", 1), 1);
    EXPECT_EQ(rt_join(task), 1);
    nets_close(shared.ends[0], shared.ends[1]);
    hd_runtime_destroy(runtime);
}

/* By hd_run(), which looks for deadlocks: the other side is another process. */
static int read_slow(void *arg)
{
    hd_io in;
    char byte;
    EXPECT_EQ(hd_io_adopt(&in, *(int *)arg, HD_ADOPT_BORROWED), 0);
    const int n = (int)hd_read(in, &byte, 1);
    EXPECT_EQ(hd_close(in), 0);
    return n;
}

TEST_DRIVERS(another_process_may_take_its_time, options)
{
    int ends[2], status;
    EXPECT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        usleep(100000);
        _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    hd_options own = *options;
    own.deadlock = HD_DEADLOCK_REPORT;
    EXPECT_EQ(hd_run(read_slow, &ends[0], &own), 1);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

/* In sim nobody is outside: who waits for what cannot come is stuck. */
TEST_IO(in_sim_a_wait_without_end_is_seen, options)
{
    struct {
        hd_io ends[2];
        atomic_int ready;
    } shared = {.ready = 0};
    if (!rt_is_sim(options)) return;
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, read_only, shared.ends);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), -EDEADLK);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- turns ---- */

/* More than a worker's queue has room for, each with a pipe that it fills again for itself. */
enum { MANY = 400, ROUNDS = 50, LAG_MAX = 8 };

static struct {
    unsigned rounds[MANY]; /* by each */
    unsigned at_least[ROUNDS + 1]; /* how many have come so far */
    unsigned slowest, lag;
} turns;

static int take_turns(void *arg)
{
    const unsigned self = (unsigned)(uintptr_t)arg;
    hd_io ends[2];
    char two[2]; /* It asks for more than there is, so it has to wait the next time. */
    EXPECT_EQ(hd_pipe(ends), 0);
    while (turns.rounds[self] < ROUNDS) {
        EXPECT_EQ(hd_write(ends[1], "x", 1), 1);
        EXPECT_EQ(hd_read(ends[0], two, sizeof(two)), 1);
        turns.at_least[++turns.rounds[self]]++;
        while (turns.slowest < ROUNDS && turns.at_least[turns.slowest + 1] == MANY) turns.slowest++;
        const unsigned lag = turns.rounds[self] - turns.slowest;
        if (lag > turns.lag) turns.lag = lag;
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

static int spawn_many(void *arg)
{
    static hd_task *many[MANY];
    (void)arg;
    memset(&turns, 0, sizeof(turns));
    for (uintptr_t i = 0; i < MANY; i++) many[i] = rt_spawn(NULL, take_turns, (void *)i);
    for (unsigned i = 0; i < MANY; i++) EXPECT_EQ(rt_join(many[i]), 0);
    return 0;
}

TEST_DRIVERS(those_who_find_no_room_in_the_queue_come_to_their_turn, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(spawn_many, NULL, &own);
    EXPECT(turns.lag <= LAG_MAX);
}
