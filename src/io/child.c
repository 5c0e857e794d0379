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
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle/dispatcher.h>
#include <heddle/process.h>

#include "io/source.h"
#include "os/mutex.h"

#define KILL_GRACE_NS (5 * HD_SECOND_NS)

enum { STREAMS = 3 };

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

static int status_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED) return W_EXITCODE(info->si_status, 0);
    return info->si_status | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

static int wait_id(const struct hd_child *child, siginfo_t *info, int flags)
{
    const idtype_t type = child->pidfd >= 0 ? P_PIDFD : P_PID;
    const id_t id = (id_t)(child->pidfd >= 0 ? child->pidfd : child->pid);
    int err;
    memset(info, 0, sizeof(*info)); /* si_pid 0: it has not ended. */
    do err = waitid(type, id, info, flags) == 0 ? 0 : -errno;
    while (err == -EINTR);
    return err;
}

/* Reap it, if it has ended; with flags 0, wait for that, blocking. Returns: 0, -EAGAIN: it runs;
 * -ECHILD. */
static int reap(struct hd_child *child, int flags)
{
    siginfo_t info;
    hdi_mutex_lock(&child->lock);
    if (!child->ended) {
        child->lost = wait_id(child, &info, WEXITED | flags);
        child->ended = child->lost || info.si_pid != 0; /* CHILD-1 */
        if (child->ended && !child->lost) child->status = status_of(&info);
    }
    const int err = child->ended ? child->lost : -EAGAIN;
    hdi_mutex_unlock(&child->lock);
    return err;
}

/* Context: the lock of a side of `exit`. */
static ssize_t try_reap(struct hdi_source *source, void *arg)
{
    struct hd_child *child = arg;
    char byte;
    if (child->pidfd < 0 && read(source->fd, &byte, 1) < 0) return -errno; /* CHILD-2 */
    return reap(child, WNOHANG);
}

static int await_end(struct hd_child *child, int64_t deadline)
{
    return (int)hdi_source_do(child->exit, false, try_reap, child, 0, deadline);
}

/* ---- starting ---- */

struct launch {
    struct hd_child *child;
    const char *const *argv;
    const hd_child_options *options;
    int theirs[STREAMS]; /* what becomes its streams, all over 2; -1: it inherits ours */
};

/* Errors that tests ask for, of calls that are not in the table of os/sys.h. */
static int fault(struct hd_runtime *runtime, const char *name)
{
    return hdi_sys_fault ? hdi_sys_fault(runtime, name) : 0;
}

/* A copy out of the way of the child's streams, none of which is then written over by another. */
static int copy_high(struct hd_runtime *runtime, int fd)
{
    const int err = fault(runtime, "dup");
    const int copy = err ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STREAMS);
    return err ? err : copy < 0 ? -errno : copy;
}

static int move_high(struct hd_runtime *runtime, int fd)
{
    if (fd < 0 || fd >= STREAMS) return fd;
    const int copy = copy_high(runtime, fd);
    (void)hdi_sys(runtime, close, fd);
    return copy;
}

/* Children expect to wait in a read or write. */
static int make_blocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? 0 : -errno;
}

/* Returns: the child's end, -errno. */
static int open_pipe(struct hd_child *child, int stream)
{
    int ends[2] = {-1, -1};
    int err = hdi_sys(child->runtime, pipe, ends);
    if (err < 0) return err;
    const int theirs = ends[stream != 0], ours = ends[stream == 0];
    err = make_blocking(theirs);
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
    case HD_CHILD_FD: fd = copy_high(runtime, launch->options->fds[stream]); break;
    }
    fd = move_high(runtime, fd);
    if (fd < 0) return fd;
    launch->theirs[stream] = fd;
    return 0;
}

static void close_theirs(struct launch *launch)
{
    for (int i = 0; i < STREAMS; i++) {
        if (launch->theirs[i] >= 0) (void)hdi_sys(launch->child->runtime, close, launch->theirs[i]);
    }
}

/* Threads here block signals, and the program may ignore some: neither is the child's affair.
 * Returns: an errno. */
static int describe_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
    const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    return error ? error : posix_spawnattr_setflags(attributes, flags);
}

/* Returns: an errno. */
static int describe_files(const struct launch *launch, posix_spawn_file_actions_t *actions)
{
    int error = 0;
    for (int i = 0; i < STREAMS && !error; i++) {
        const int fd = launch->theirs[i];
        if (fd >= 0) error = posix_spawn_file_actions_adddup2(actions, fd, i);
    }
    const char *dir = launch->options->dir;
    return error || !dir ? error : posix_spawn_file_actions_addchdir_np(actions, dir);
}

static int spawn_as(const struct launch *launch, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes)
{
    const char *const *env = launch->options->env;
    const int err = fault(launch->child->runtime, "posix_spawn");
    if (err) return -err;
    return posix_spawnp(&launch->child->pid, launch->argv[0], actions, attributes,
                        (char *const *)launch->argv, env ? (char *const *)env : environ);
}

static int spawn(const struct launch *launch)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return -error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = describe_signals(&attributes);
        if (!error) error = describe_files(launch, &actions);
        if (!error) error = spawn_as(launch, &actions, &attributes);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return -error;
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
    siginfo_t info;
    int err;
    do err = waitid(P_PID, (id_t)errand->pid, &info, WEXITED | WNOWAIT);
    while (err != 0 && errno == EINTR);
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
    int err = fault(child->runtime, "pidfd_open");
    const int fd = err ? -1 : pidfd_open(child->pid, 0);
    if (!err && fd < 0) err = -errno;
    if (err == -ENOSYS || err == -EPERM) return begin_errand(child); /* or a sandbox forbids it */
    if (err) return err;
    child->pidfd = fd;
    return hdi_source_create(child->runtime, fd, HDI_SOURCE_PIPE, &child->exit);
}

/* CHILD-3. Blocks, for the moment that it takes. */
static void undo(struct hd_child *child)
{
    child->pidfd = -1; /* It was closed. */
    (void)kill(child->pid, SIGKILL);
    (void)reap(child, 0);
}

/* Context: a thread that may block. */
static int launch_it(void *arg)
{
    struct launch *launch = arg;
    int err = 0;
    for (int i = 0; i < STREAMS && !err; i++) err = open_stream(launch, i);
    if (!err) err = spawn(launch);
    close_theirs(launch);
    if (err) return err;
    err = begin_watching(launch->child);
    if (err) undo(launch->child);
    return err;
}

static void free_child(struct hd_child *child)
{
    for (int i = 0; i < STREAMS; i++) (void)hd_close(child->pipes[i]); /* It may be closed. */
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
    if (runtime->world->kind == HD_WORLD_SIM) return -ENOTSUP;
    struct hd_child *child = create_child(runtime, options);
    if (!child) return -ENOMEM;
    struct launch launch = {child, argv, options, {-1, -1, -1}};
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
    int err = 0;
    if (child->pidfd >= 0) (void)reap(child, WNOHANG); /* What has ended takes no signals. */
    hdi_mutex_lock(&child->lock);
    if (child->ended) {
        err = -ESRCH;
    } else if (child->pidfd >= 0) {
        err = pidfd_send_signal(child->pidfd, signal, NULL, 0) == 0 ? 0 : -errno;
    } else {
        err = kill(child->pid, signal) == 0 ? 0 : -errno; /* CHILD-1 */
    }
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
    if (!has_ended(child)) (void)reap(child, 0);
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
    if (!has_ended(child)) shielded(end_at_once, child);
    free_child(child);
}
