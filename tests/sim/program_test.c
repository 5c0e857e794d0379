/* SPDX-License-Identifier: MIT
 *
 * Simulated programs: what a process has of its own, and what ends with it. What they share with
 * processes of live is in tests/behaviour/child_test.c.
 */
#include "programs.h"
#include "seeds.h"

TEST_MAIN

/* ---- which there are ---- */

static int which(void *arg)
{
    const char *const argv[] = {"here", NULL};
    hd_child *child = NULL;
    (void)arg;
    EXPECT_EQ(hd_child_start(&child, argv, NULL), -ENOENT);
    EXPECT_EQ(programs_finish(programs_start("here", programs_true, NULL, NULL)), 0);
    EXPECT_EQ(hd_sim_program("here", NULL, NULL), 0);
    EXPECT_EQ(hd_child_start(&child, argv, NULL), -ENOENT);
    EXPECT_EQ(hd_sim_program("", programs_true, NULL), -EINVAL);
    EXPECT_EQ(hd_sim_program(NULL, programs_true, NULL), -EINVAL);
    EXPECT(child == NULL);
    return 0;
}

TEST(there_are_those_that_were_given) { each_seed(which); }

/* ---- what it has of its own ---- */

static int on_its_host(const hd_sim_process *self, void *arg)
{
    EXPECT_EQ(self->argc, 1);
    EXPECT(strcmp(self->argv[0], "where") == 0 && !self->argv[1]);
    return programs_say(hd_sim_host_name(hd_sim_host_self())) || arg != &programs_piped;
}

static int parent_elsewhere(void *arg)
{
    (void)arg;
    void *known = (void *)&programs_piped;
    hd_child *child = programs_start("where", on_its_host, known, &programs_piped);
    programs_expect(hd_child_pipe(child, 1), "a");
    return programs_finish(child);
}

static int hosts(void *arg)
{
    hd_sim_host *host;
    hd_task *task;
    (void)arg;
    EXPECT_EQ(hd_sim_host_add(&host, "a", NULL, NULL, NULL), 0);
    EXPECT_EQ(hd_sim_spawn(host, &task, parent_elsewhere, NULL), 0);
    return rt_join(task);
}

TEST(it_is_on_the_host_of_its_parent) { each_seed(hosts); }

/* A child whose child says something by the streams that it inherits, or by others. */
static int grandparent(const hd_sim_process *self, void *arg)
{
    (void)self;
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    if (arg) {
        options.streams[1] = HD_CHILD_FD;
        options.fds[1] = 2;
    }
    return WEXITSTATUS(programs_finish(programs_start("cat", programs_cat, NULL, &options)));
}

static int inherited(void *arg)
{
    (void)arg;
    hd_child_options options = programs_piped;
    options.streams[2] = HD_CHILD_PIPE;
    for (int i = 0; i < 2; i++) {
        void *crossed = i ? &options : NULL;
        hd_child *child = programs_start("parent", grandparent, crossed, &options);
        EXPECT_EQ(hd_write_all(hd_child_pipe(child, 0), "weft", 4, NULL), 0);
        EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
        programs_expect(hd_child_pipe(child, 1 + i), "weft");
        programs_expect(hd_child_pipe(child, 2 - i), "");
        EXPECT_EQ(programs_finish(child), 0);
    }
    return 0;
}

TEST(streams_are_inherited_and_change_places) { each_seed(inherited); }

/* Handles of ours become its streams: a file, of which it has the position, and a socket. */
static int other_handles(void *arg)
{
    hd_io file, pair[2];
    (void)arg;
    EXPECT_EQ(hd_file_open(&file, "/tmp/in", O_RDWR | O_CREAT, 0600), 0);
    EXPECT_EQ(hd_pwrite(file, "warp", 4, 0), 4);
    EXPECT_EQ(hd_unix_pair(pair), 0);
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.streams[0] = options.streams[1] = HD_CHILD_FD;
    options.fds[0] = hd_io_fd(file);
    options.fds[1] = hd_io_fd(pair[0]);
    hd_child *child = programs_start("cat", programs_cat, NULL, &options);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_close(pair[0]), 0);
    programs_expect(pair[1], "warp");
    EXPECT_EQ(hd_close(pair[1]), 0);
    return programs_finish(child);
}

TEST(handles_of_ours_become_its_streams) { each_seed(other_handles); }

static int make_file(const hd_sim_process *self, void *arg)
{
    hd_io file;
    (void)arg;
    EXPECT(strcmp(self->dir, "/tmp/below") == 0);
    EXPECT_EQ(hd_file_open(&file, "made", O_WRONLY | O_CREAT, 0600), 0);
    EXPECT_EQ(hd_file_open(&file, "../other", O_WRONLY | O_CREAT, 0600), 0);
    EXPECT_EQ(hd_file_open(&file, "/made", O_RDONLY, 0), -ENOENT);
    return 0;
}

static int directories(void *arg)
{
    struct stat info;
    (void)arg;
    EXPECT_EQ(hd_mkdir("/tmp/below", 0755), 0);
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.dir = "/tmp/below";
    EXPECT_EQ(programs_finish(programs_start("make", make_file, NULL, &options)), 0);
    EXPECT_EQ(hd_stat("/tmp/below/made", &info), 0);
    EXPECT_EQ(hd_stat("/tmp/other", &info), 0);
    const char *const argv[] = {"make", NULL};
    hd_child *child;
    options.dir = "/tmp/other";
    EXPECT_EQ(hd_child_start(&child, argv, &options), -ENOTDIR);
    return 0;
}

TEST(its_paths_begin_where_it_runs) { each_seed(directories); }

static int ends_own_stream(const hd_sim_process *self, void *arg)
{
    (void)self;
    (void)arg;
    EXPECT_EQ(hd_close(hd_stderr()), 0);
    return hd_close(hd_stderr()) == -EBADF ? 0 : 1;
}

static int outside(void *arg)
{
    (void)arg;
    EXPECT_EQ(programs_finish(programs_start("ends", ends_own_stream, NULL, NULL)), 0);
    EXPECT_EQ(hd_writev(hd_stderr(), NULL, 0), 0); /* It is open. */
    return 0;
}

TEST(its_handles_of_our_streams_are_its_own) { each_seed(outside); }

/* ---- what ends with it ---- */

struct rest {
    unsigned ended;  /* tasks of the process */
    int err;         /* what one that waited got */
    int spawn_err;   /* and what came of its spawn */
    bool quiet;      /* and of what it wrote then */
};

static int linger(void *arg)
{
    struct rest *rest = arg;
    hd_io ends[2];
    char byte;
    if (hd_pipe(ends) != 0) return 0;
    rest->err = (int)hd_read(ends[0], &byte, 1);
    rest->spawn_err = hd_spawn(NULL, linger, rest);
    rest->quiet = hd_pipe(ends) == -EHOSTDOWN && hd_close(ends[0]) == -EBADF;
    rest->ended++;
    return 0;
}

static int leave_tasks(const hd_sim_process *self, void *arg)
{
    (void)self;
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_spawn(NULL, linger, arg), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return programs_say("bye");
}

static int tasks(void *arg)
{
    struct rest rest = {0};
    (void)arg;
    hd_child *child = programs_start("leave", leave_tasks, &rest, &programs_piped);
    programs_expect(hd_child_pipe(child, 1), "bye");
    EXPECT_EQ(programs_finish(child), 0);
    EXPECT_EQ(rest.ended, 3); /* and not a moment later: `rest` is ours again */
    EXPECT_EQ(rest.err, -ECANCELED);
    EXPECT_EQ(rest.spawn_err, -ENOMEM);
    EXPECT(rest.quiet);
    return 0;
}

TEST(its_tasks_end_with_it) { each_seed(tasks); }

/* A server that heeds no signal that can be had. */
static int serve(const hd_sim_process *self, void *arg)
{
    static const int all[] = {SIGTERM, SIGINT, SIGHUP};
    hd_io listener, conn;
    hd_chan *signals;
    int *caught = arg;
    (void)self;
    EXPECT_EQ(hd_signal_open(&signals, all, 3), 0);
    EXPECT_EQ(hd_tcp_listen(&listener, ":80", NULL), 0);
    EXPECT_EQ(hd_accept(listener, &conn, NULL), 0);
    EXPECT_EQ(programs_say("+"), 0);
    while (hd_chan_recv(signals, caught) == 0) EXPECT_EQ(hd_write(conn, "!", 1), 1);
    return 0; /* All of that ends with the process. */
}

static int killed(void *arg)
{
    int caught = 0, status;
    hd_io conn;
    char byte;
    (void)arg;
    hd_child *child = programs_start("serve", serve, &caught, &programs_piped);
    while (hd_tcp_connect(&conn, "127.0.0.1:80", NULL) != 0) EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_read(hd_child_pipe(child, 1), &byte, 1), 1);
    EXPECT_EQ(hd_child_kill(child, SIGHUP), 0);
    EXPECT_EQ(hd_read(conn, &byte, 1), 1);
    EXPECT_EQ(caught, SIGHUP);
    EXPECT_EQ(hd_child_wait_until(child, &status, hd_after_ms(100)), -ETIMEDOUT);
    EXPECT_EQ(hd_child_kill(child, SIGCHLD), 0); /* which nobody minds */
    EXPECT_EQ(hd_child_kill(child, SIGSTOP), -ENOTSUP);
    EXPECT_EQ(hd_child_wait_until(child, &status, hd_after_ms(100)), -ETIMEDOUT);
    EXPECT_EQ(hd_child_kill(child, SIGKILL), 0);
    programs_expect(conn, "");
    EXPECT_EQ(hd_write_until(hd_child_pipe(child, 0), "x", 1, HD_NOW), -EPIPE);
    EXPECT_EQ(hd_close(conn), 0);
    status = programs_finish(child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT(hd_tcp_connect(&conn, "127.0.0.1:80", NULL) == -ECONNREFUSED);
    return 0;
}

TEST(a_kill_closes_what_it_has) { each_seed(killed); }

/* From the moment it is killed nothing it does is seen, though it runs up to its next wait. */
static int die_and_write(const hd_sim_process *self, void *arg)
{
    int *results = arg;
    hd_io ends[2];
    (void)self;
    EXPECT_EQ(programs_say("before"), 0);
    EXPECT_EQ(hd_signal_raise(SIGKILL), 0);
    results[0] = (int)hd_write_until(hd_stdout(), "after", 5, HD_NOW);
    results[1] = hd_pipe(ends);
    return 0;
}

static int unseen(void *arg)
{
    int results[2] = {0};
    (void)arg;
    hd_child *child = programs_start("die", die_and_write, results, &programs_piped);
    programs_expect(hd_child_pipe(child, 1), "before");
    EXPECT_EQ(programs_finish(child), SIGKILL);
    EXPECT(results[0] < 0);
    EXPECT_EQ(results[1], -EHOSTDOWN);
    return 0;
}

TEST(nothing_is_seen_of_one_that_is_dead) { each_seed(unseen); }

/* A call on a file that goes on after its handle was closed, and when the process ends. */
static int read_slowly(void *arg)
{
    const hd_io file = {*(uint64_t *)arg};
    char bytes[10];
    return (int)hd_pread(file, bytes, sizeof(bytes), 0);
}

static int close_under(const hd_sim_process *self, void *arg)
{
    hd_io file;
    static uint64_t handle;
    (void)self;
    (void)arg;
    EXPECT_EQ(hd_file_open(&file, "/tmp/slow", O_RDWR | O_CREAT, 0600), 0);
    handle = file.private_;
    EXPECT_EQ(hd_spawn(NULL, read_slowly, &handle), 0);
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 60000), 0); /* It reads, but is not through yet. */
    EXPECT_EQ(hd_close(file), 0);
    return 0;
}

/* What others open in the place of what it had is not closed when the call is through. */
static int closed_under(void *arg)
{
    hd_io pipes[6][2];
    char byte;
    (void)arg;
    hd_child *child = programs_start("close", close_under, NULL, &programs_piped);
    programs_expect(hd_child_pipe(child, 1), "");
    for (int i = 0; i < 6; i++) EXPECT_EQ(hd_pipe(pipes[i]), 0);
    EXPECT_EQ(programs_finish(child), 0);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(hd_write(pipes[i][1], "x", 1), 1);
        EXPECT_EQ(hd_read(pipes[i][0], &byte, 1), 1);
        for (int j = 0; j < 2; j++) EXPECT_EQ(hd_close(pipes[i][j]), 0);
    }
    return 0;
}

TEST(a_call_that_goes_on_keeps_its_file) { each_seed(closed_under); }

/* Killed before it has begun, it never does. */
static int has_begun(const hd_sim_process *self, void *arg)
{
    (void)self;
    *(bool *)arg = true;
    return 0;
}

static int killed_early(void *arg)
{
    bool has = false;
    (void)arg;
    EXPECT_EQ(hd_sim_program_fault(NULL, -EAGAIN, 0, HD_SECOND_NS), 0);
    hd_child *child = programs_start("early", has_begun, &has, NULL);
    EXPECT_EQ(hd_child_kill(child, SIGTERM), 0);
    const int status = programs_finish(child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && !has);
    child = programs_start("early", has_begun, &has, NULL);
    hd_child_free(child);
    EXPECT_EQ(hd_sleep_ms(2000), 0);
    EXPECT(!has);
    return 0;
}

TEST(what_is_killed_before_it_begins_never_does) { each_seed(killed_early); }

/* What a process that dies has started goes on without it, and what it does then is not seen. */
static int orphan(const hd_sim_process *self, void *arg)
{
    char byte;
    (void)self;
    (void)arg;
    EXPECT_EQ(hd_read(hd_stdin(), &byte, 1), 0); /* until our end is closed */
    return programs_say("still here");
}

static int start_and_wait(const hd_sim_process *self, void *arg)
{
    int *result = arg;
    (void)self;
    hd_child *child = programs_start("orphan", orphan, NULL, NULL);
    EXPECT_EQ(programs_say("+"), 0);
    *result = hd_child_wait(child, NULL);
    hd_child_free(child); /* This would kill it, if it were not by one that is dead. */
    return 0;
}

static int orphans(void *arg)
{
    int result = 0;
    char byte;
    (void)arg;
    hd_child *child = programs_start("parent", start_and_wait, &result, &programs_piped);
    EXPECT_EQ(hd_read(hd_child_pipe(child, 1), &byte, 1), 1);
    EXPECT_EQ(hd_child_kill(child, SIGKILL), 0);
    EXPECT_EQ(hd_child_wait(child, NULL), 0);
    EXPECT(result < 0);
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    programs_expect(hd_child_pipe(child, 1), "still here");
    hd_child_free(child);
    return 0;
}

TEST(its_children_outlive_it) { each_seed(orphans); }

/* A host that a program has to do with is none of its own. */
static unsigned booted;

static int boot_long(void *arg)
{
    (void)arg;
    if (hd_sleep_ms(50) == 0 && hd_write_all(hd_stderr(), "", 0, NULL) == 0) booted++;
    return 0;
}

static int add_host(const hd_sim_process *self, void *arg)
{
    hd_sim_host *host;
    (void)self;
    (void)arg;
    return hd_sim_host_add(&host, "added", NULL, boot_long, NULL) ? 1 : 0;
}

static int hosts_of_programs(void *arg)
{
    (void)arg;
    booted = 0;
    EXPECT_EQ(programs_finish(programs_start("add", add_host, NULL, NULL)), 0);
    EXPECT_EQ(booted, 0);
    EXPECT_EQ(hd_sleep_ms(100), 0);
    EXPECT_EQ(booted, 1);
    return 0;
}

TEST(hosts_are_of_no_program) { each_seed(hosts_of_programs); }

/* ---- a crash of the host ---- */

static unsigned alive, begun, boots;

static int live_on(const hd_sim_process *self, void *arg)
{
    (void)self;
    (void)arg;
    alive++;
    begun++;
    (void)hd_sleep_ms(1000000);
    alive--;
    return 0;
}

static int boot(void *arg)
{
    (void)arg;
    boots++;
    hd_child *child = programs_start("live-on", live_on, NULL, &programs_piped);
    const int err = hd_child_wait(child, NULL);
    EXPECT(err == -ECANCELED || err == -EHOSTDOWN);
    hd_child_free(child);
    return 0;
}

static int crash(void *arg)
{
    hd_sim_host *host;
    (void)arg;
    alive = begun = boots = 0;
    EXPECT_EQ(hd_sim_host_add(&host, "a", NULL, boot, NULL), 0);
    for (unsigned i = 1; i < 4; i++) {
        EXPECT_EQ(hd_sleep_ms(10), 0);
        EXPECT_EQ(alive, 1);
        EXPECT_EQ(boots, i);
        EXPECT_EQ(hd_sim_crash(host), 0);
        EXPECT_EQ(hd_sleep_ms(10), 0);
        EXPECT_EQ(alive, 0);
        EXPECT_EQ(hd_sim_restart(host), 0);
    }
    EXPECT_EQ(hd_sleep_ms(10), 0);
    EXPECT_EQ(hd_sim_crash(host), 0);
    /* Nor does one begin that was started before. */
    EXPECT_EQ(hd_sim_program_fault(NULL, -EAGAIN, 0, HD_SECOND_NS), 0);
    EXPECT_EQ(hd_sim_restart(host), 0);
    EXPECT_EQ(hd_sleep_ms(10), 0);
    EXPECT_EQ(boots, 5);
    EXPECT_EQ(hd_sim_crash(host), 0);
    EXPECT_EQ(hd_sleep_ms(2000), 0);
    EXPECT_EQ(begun, 4);
    return 0;
}

TEST(a_crash_of_its_host_kills_it) { each_seed(crash); }
