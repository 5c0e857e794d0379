/* SPDX-License-Identifier: MIT
 *
 * child: child processes.
 *
 * A child is started by posix_spawn on a thread that may block. Its end is something to wait on as
 * any other: a descriptor that becomes readable, which is a pidfd; or, where the kernel has none,
 * the end of a pipe whose other end an errand on the io pool closes when the child has ended.
 *
 *   CHILD-1  A child is reaped once, under `lock`, by whoever first finds that it has ended. Until
 *            then nobody else has its number; from then on nothing is sent to it.
 *   CHILD-2  Without a pidfd it is reaped only after the errand has seen its end, for the errand
 *            knows it by its number.
 *   CHILD-3  hd_child_start() either returns a child, or there is none: one that cannot be
 *            waited for is killed and reaped at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <heddle/dispatcher.h>
#include <heddle/process.h>

#include "io/source.h"
#include "os/mutex.h"

#define KILL_GRACE_NS (5 * HD_SECOND_NS)

enum { STREAMS = HDI_STREAMS };

struct hd_child {
    struct hd_runtime *runtime;  /* constant, as all but the last four */
    pid_t pid;
    int pidfd;                   /* of `exit`; -1: that is a pipe */
    hd_io exit;                  /* readable: it has ended */
    hd_io pipes[STREAMS];        /* our ends; zeroed: none */
    int kill_signal;
    int64_t kill_grace_ns;
    struct hdi_mutex lock;       /* CHILD-1 */
    bool ended;                  /* lock: it is reaped, */
    int status;                  /* and this is as of waitpid(); */
    int lost;                    /* or 0 became -ECHILD: somebody else reaped it */
};

/* ---- its end ---- */

/* Reap it, if it has ended; with flags 0, wait for that, blocking. Returns: 0, -EAGAIN: it runs;
 * -ECHILD; what else the kernel says, which may be different the next time. */
static int reap(struct hd_child *child, int flags)
{
    int err = 0;
    hdi_mutex_lock(&child->lock);
    if (!child->ended) {
        err = hdi_sys(child->runtime, wait, child->pid, child->pidfd, flags, &child->status);
        child->ended = err == 1 || err == -ECHILD; /* CHILD-1 */
        child->lost = err == -ECHILD ? err : 0;
    }
    if (child->ended) err = child->lost;
    else if (err == 0) err = -EAGAIN;
    hdi_mutex_unlock(&child->lock);
    return err;
}

/* Context: the lock of a side of `exit`. */
static ssize_t try_reap(struct hdi_source *source, void *arg)
{
    struct hd_child *child = arg;
    char byte;
    const struct iovec part = {&byte, 1};
    const bool errand = child->pidfd < 0;
    const ssize_t n = errand ? hdi_sys(child->runtime, readv, source->fd, &part, 1) : 0;
    if (n < 0) return n; /* CHILD-2 */
    const int err = reap(child, WNOHANG);
    return errand && err == -EAGAIN ? -ECHILD : err; /* It is over, and found none to wait for. */
}

static int await_end(struct hd_child *child, int64_t deadline)
{
    return (int)hdi_source_do(child->exit, false, try_reap, child, 0, deadline);
}

/* ---- starting ---- */

struct launch {
    struct hd_child *child;
    const hd_child_options *options;
    struct hdi_spawn spawn;
};

/* Out of the way of the child's streams, none of which is then written over by another. */
static int move_high(struct hd_runtime *runtime, int fd)
{
    if (fd < 0 || fd >= STREAMS) return fd;
    const int copy = hdi_sys(runtime, dup, fd, STREAMS);
    (void)hdi_sys(runtime, close, fd);
    return copy;
}

/* Returns: the child's end, -errno. */
static int open_pipe(struct hd_child *child, int stream)
{
    int ends[2] = {-1, -1};
    int err = hdi_sys(child->runtime, pipe, ends);
    if (err < 0) return err;
    const int theirs = ends[stream != 0], ours = ends[stream == 0];
    err = hdi_sys(child->runtime, set_blocking, theirs, true); /* It expects to wait there. */
    if (err) {
        (void)hdi_sys(child->runtime, close, ours);
    } else {
        err = hdi_source_create(child->runtime, ours, HDI_SOURCE_PIPE, &child->pipes[stream]);
    }
    if (err) (void)hdi_sys(child->runtime, close, theirs);
    return err ? err : theirs;
}

/* Returns: 0, -errno. */
static int open_stream(struct launch *launch, int stream)
{
    struct hd_runtime *runtime = launch->child->runtime;
    int fd = -1;
    switch (launch->options->streams[stream]) {
    case HD_CHILD_INHERIT: return 0;
    case HD_CHILD_NULL: fd = hdi_sys(runtime, open, "/dev/null", O_RDWR, 0); break;
    case HD_CHILD_PIPE: fd = open_pipe(launch->child, stream); break;
    case HD_CHILD_FD: fd = hdi_sys(runtime, dup, launch->options->fds[stream], STREAMS); break;
    }
    fd = move_high(runtime, fd);
    if (fd < 0) return fd;
    launch->spawn.fds[stream] = fd;
    return 0;
}

static void close_theirs(struct launch *launch)
{
    const int *fds = launch->spawn.fds;
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] >= 0) (void)hdi_sys(launch->child->runtime, close, fds[i]);
    }
}

/* ---- learning of its end ---- */

/* Where there are no pidfds. */
struct errand {
    struct hd_runtime *runtime;
    pid_t pid;
    int fd;
};

static hd_poll run_errand(void *state, int *result)
{
    const struct errand *errand = state;
    int status;
    /* Who reaps is told of errors. */
    (void)hdi_sys(errand->runtime, wait, errand->pid, -1, WNOWAIT, &status);
    *result = 0;
    return HD_READY;
}

static void drop_errand(void *state)
{
    const struct errand *errand = state;
    (void)hdi_sys(errand->runtime, close, errand->fd);
}

static int begin_errand(struct hd_child *child)
{
    int ends[2] = {-1, -1};
    int err = hdi_sys(child->runtime, pipe, ends);
    if (err < 0) return err;
    err = hdi_source_create(child->runtime, ends[0], HDI_SOURCE_PIPE, &child->exit);
    const struct errand errand = {child->runtime, child->pid, ends[1]};
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = hdi_dispatcher_io(child->runtime);
    options.name = "child";
    options.drop = drop_errand;
    if (!err) err = hdi_spawn_errand(NULL, run_errand, &errand, sizeof(errand), &options, HD_SITE);
    if (err) (void)hdi_sys(child->runtime, close, ends[1]);
    return err;
}

static int begin_watching(struct hd_child *child)
{
    const int fd = hdi_sys(child->runtime, pidfd_open, child->pid);
    if (fd == -ENOSYS || fd == -EPERM) return begin_errand(child); /* or a sandbox forbids it */
    if (fd < 0) return fd;
    child->pidfd = fd;
    return hdi_source_create(child->runtime, fd, HDI_SOURCE_PIPE, &child->exit);
}

/* It may end by itself then, also if it may not be killed. */
static void close_pipes(struct hd_child *child)
{
    for (int i = 0; i < STREAMS; i++) (void)hd_close(child->pipes[i]); /* Or that was done. */
}

/* Blocks, for the moment that it takes; what may not be killed, as one that runs with the rights of
 * another user, is waited for. */
static void wait_blocking(struct hd_child *child)
{
    for (int i = 0; i < 2 && reap(child, 0) != 0; i++) continue; /* A passing error passes. */
}

/* CHILD-3. */
static void undo(struct hd_child *child)
{
    child->pidfd = -1; /* It was closed. */
    close_pipes(child);
    (void)hdi_sys(child->runtime, kill, child->pid, -1, SIGKILL);
    wait_blocking(child);
}

/* Context: a thread that may block. */
static int launch_it(void *arg)
{
    struct launch *launch = arg;
    int err = 0;
    for (int i = 0; i < STREAMS && !err; i++) err = open_stream(launch, i);
    const int pid = err ? err : hdi_sys(launch->child->runtime, spawn, &launch->spawn);
    close_theirs(launch);
    if (pid < 0) return pid;
    launch->child->pid = pid;
    err = begin_watching(launch->child);
    if (err) undo(launch->child);
    return err;
}

static void free_child(struct hd_child *child)
{
    close_pipes(child);
    (void)hd_close(child->exit);
    free(child);
}

static int check_options(const hd_child_options *options)
{
    if (options->size != sizeof(*options) || options->kill_grace_ns < 0) return -EINVAL;
    if (options->kill_signal < 0 || options->kill_signal >= NSIG) return -EINVAL;
    for (int i = 0; i < STREAMS; i++) {
        if ((unsigned)options->streams[i] > HD_CHILD_FD) return -EINVAL;
    }
    return 0;
}

static struct hd_child *create_child(struct hd_runtime *runtime, const hd_child_options *options)
{
    struct hd_child *child = calloc(1, sizeof(*child));
    if (!child) return NULL;
    child->runtime = runtime;
    child->pidfd = -1;
    child->kill_signal = options->kill_signal ? options->kill_signal : SIGTERM;
    child->kill_grace_ns = options->kill_grace_ns ? options->kill_grace_ns : KILL_GRACE_NS;
    return child;
}

int hd_child_start(hd_child **out, const char *const *argv, const hd_child_options *options)
{
    static const hd_child_options defaults = {.size = sizeof(defaults)};
    struct hd_runtime *runtime = hdi_io_runtime();
    if (!options) options = &defaults;
    if (!runtime || !argv || !argv[0]) return -EINVAL;
    int err = check_options(options);
    if (err) return err;
    struct hd_child *child = create_child(runtime, options);
    if (!child) return -ENOMEM;
    const struct hdi_spawn spawn = {argv, options->env, options->dir, {-1, -1, -1}};
    struct launch launch = {child, options, spawn};
    int result = 0;
    err = hd_blocking(launch_it, &launch, &result);
    if (!err) err = result;
    if (err) {
        free_child(child);
        return err;
    }
    *out = child;
    return 0;
}

/* ---- the rest of its life ---- */

hd_io hd_child_pipe(hd_child *child, int stream)
{
    return stream >= 0 && stream < STREAMS ? child->pipes[stream] : (hd_io){0};
}

pid_t hd_child_pid(const hd_child *child)
{
    return child->pid;
}

int hd_child_kill(hd_child *child, int signal)
{
    if (child->pidfd >= 0) (void)reap(child, WNOHANG); /* What has ended takes no signals. */
    hdi_mutex_lock(&child->lock);
    const int err = child->ended ? -ESRCH /* CHILD-1 */
                                 : hdi_sys(child->runtime, kill, child->pid, child->pidfd, signal);
    hdi_mutex_unlock(&child->lock);
    return err;
}

static bool has_ended(struct hd_child *child)
{
    hdi_mutex_lock(&child->lock);
    const bool ended = child->ended;
    hdi_mutex_unlock(&child->lock);
    return ended;
}

/* Context: shielded; or, if there are too many shields, blocking for the moment that it takes. */
static void end_at_once(struct hd_child *child)
{
    (void)hd_child_kill(child, SIGKILL); /* Or it has just ended. */
    (void)await_end(child, HD_FOREVER);
    if (!has_ended(child)) wait_blocking(child);
}

static void end_gently(struct hd_child *child)
{
    struct hd_runtime *runtime = child->runtime;
    (void)hd_child_kill(child, child->kill_signal);
    const int64_t now = runtime->world->now(runtime);
    const bool forever = child->kill_grace_ns >= HD_FOREVER - now;
    (void)await_end(child, forever ? HD_FOREVER : now + child->kill_grace_ns);
    if (!has_ended(child)) end_at_once(child);
}

static void shielded(void (*end)(struct hd_child *child), struct hd_child *child)
{
    const int err = hd_shield();
    end(child);
    if (!err) (void)hd_unshield();
}

int hd_child_wait_until(hd_child *child, int *status, int64_t deadline)
{
    const int err = has_ended(child) ? child->lost : await_end(child, deadline);
    /* A deadline of a scope around is a cancel, too. */
    if (err == -ECANCELED || (err == -ETIMEDOUT && hd_cancelled())) shielded(end_gently, child);
    if (!err && status) *status = child->status; /* It is not written again. */
    return err;
}

int hd_child_wait(hd_child *child, int *status)
{
    return hd_child_wait_until(child, status, HD_FOREVER);
}

void hd_child_free(hd_child *child)
{
    if (!child) return;
    close_pipes(child);
    if (!has_ended(child)) shielded(end_at_once, child);
    free_child(child);
}
