/* SPDX-License-Identifier: MIT
 *
 * faults: every system call of a scenario fails in turn: of each kind the n-th, for all n, and with
 * two errors. Whatever that is, the error is told or coped with, nothing hangs, and no descriptor,
 * thread, child and (the leak checker sees to that) memory is left.
 */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <signal.h>

#include "nets.h"
#include "os/sys.h"

/* How each call fails, in a first and in a second sweep; 0: never. A name that is not here fails
 * the test: what is new is to be thought of. */
static struct fault {
    const char *name;
    int errors[2];
    atomic_uint asked; /* in all runs */
    unsigned hits;     /* how often it failed */
} faults[] = {
    {"socket", {EMFILE, ENOBUFS}, 0, 0},      {"socketpair", {EMFILE, ENFILE}, 0, 0},
    {"bind", {EADDRINUSE, EACCES}, 0, 0},     {"listen", {EADDRINUSE, ENOMEM}, 0, 0},
    {"accept", {EMFILE, ECONNABORTED}, 0, 0}, {"connect", {ECONNREFUSED, ENETUNREACH}, 0, 0},
    {"recvmsg", {ECONNRESET, ENOMEM}, 0, 0},  {"sendmsg", {EPIPE, ENOBUFS}, 0, 0},
    {"shutdown", {ENOTCONN, ENOTCONN}, 0, 0}, {"setsockopt", {ENOMEM, ENOPROTOOPT}, 0, 0},
    {"getsockopt", {ENOMEM, ENOBUFS}, 0, 0},  {"getsockname", {ENOBUFS, ENOMEM}, 0, 0},
    {"getpeername", {ENOTCONN, ENOBUFS}, 0, 0}, {"pipe", {EMFILE, ENFILE}, 0, 0},
    {"readv", {EIO, ENOMEM}, 0, 0},           {"writev", {EPIPE, EIO}, 0, 0},
    {"close", {0, 0}, 0, 0},                  {"dup", {EMFILE, EBADF}, 0, 0},
    {"set_blocking", {EBADF, EINVAL}, 0, 0},  {"fcntl", {EBADF, EINVAL}, 0, 0},
    {"poll", {ENOMEM, ENOMEM}, 0, 0},         {"watch", {ENOMEM, ENOSPC}, 0, 0},
    {"open", {EMFILE, EACCES}, 0, 0},         {"preadv", {EIO, ENOMEM}, 0, 0},
    {"preadv_now", {EAGAIN, EOPNOTSUPP}, 0, 0}, {"pwritev", {ENOSPC, EIO}, 0, 0},
    {"fsync", {EIO, ENOSPC}, 0, 0},           {"ftruncate", {EIO, EPERM}, 0, 0},
    {"fstat", {EIO, ENOMEM}, 0, 0},           {"stat", {ENOENT, EACCES}, 0, 0},
    {"rename", {EXDEV, ENOSPC}, 0, 0},        {"unlink", {EACCES, EBUSY}, 0, 0},
    {"mkdir", {ENOSPC, EACCES}, 0, 0},        {"rmdir", {EBUSY, EACCES}, 0, 0},
    {"list", {ENOMEM, EIO}, 0, 0},            {"readdir", {EIO, ENOENT}, 0, 0},
    {"sync_dir", {EIO, EIO}, 0, 0},           {"resolve", {EAGAIN, ENOENT}, 0, 0},
    {"resolve_delay", {0, 0}, 0, 0},
    /* children and signals */
    {"spawn", {EAGAIN, ENOMEM}, 0, 0},        {"pidfd_open", {EMFILE, ENOMEM}, 0, 0},
    {"wait", {ECHILD, EINVAL}, 0, 0},         {"kill", {EPERM, ESRCH}, 0, 0},
    {"sigaction", {EINVAL, EPERM}, 0, 0},     {"ppoll", {EINTR, ENOMEM}, 0, 0},
    /* what drivers and runtimes are made of, and sleep in */
    {"munmap", {0, 0}, 0, 0},
    {"mmap", {ENOMEM, ENOMEM}, 0, 0},         {"pthread_create", {EAGAIN, ENOMEM}, 0, 0},
    {"eventfd", {EMFILE, ENOMEM}, 0, 0},      {"timerfd_create", {EMFILE, ENOMEM}, 0, 0},
    {"timerfd_settime", {ENOMEM, EPERM}, 0, 0}, {"epoll_create1", {EMFILE, ENOMEM}, 0, 0},
    {"epoll_ctl", {ENOMEM, ENOSPC}, 0, 0},    {"epoll_wait", {EINTR, ENOMEM}, 0, 0},
    {"epoll_pwait2", {EINTR, ENOSYS}, 0, 0},  {"getrlimit", {EPERM, EPERM}, 0, 0},
    {"io_uring_queue_init_params", {ENOMEM, EMFILE}, 0, 0},
    {"io_uring_get_probe_ring", {ENOMEM, ENOMEM}, 0, 0},
    {"io_uring_register_buf_ring", {ENOMEM, EINVAL}, 0, 0},
    {"io_uring_register_files_sparse", {ENOMEM, EMFILE}, 0, 0},
    {"io_uring_register_sync_cancel", {EINTR, EINTR}, 0, 0},
    {"io_uring_enter", {EAGAIN, ENOMEM}, 0, 0}, {"io_uring_enter2", {EINTR, ENOMEM}, 0, 0},
    {"io_uring_register", {ENOMEM, EINTR}, 0, 0},
    {"ring_receive", {ECONNRESET, ENOMEM}, 0, 0}, {"ring_accept", {EMFILE, ECONNABORTED}, 0, 0},
    {"ring_poll", {ENOMEM, ENOMEM}, 0, 0},    {"ring_send", {ENOBUFS, EPIPE}, 0, 0},
    {"ring_take", {ECONNRESET, ENOMEM}, 0, 0}, {"ring_linger", {EPIPE, ENOMEM}, 0, 0},
    {"ring_flight", {EIO, ENOSPC}, 0, 0},     {"ring_file", {ENOMEM, EBADF}, 0, 0},
};

static struct {
    struct fault *fault; /* that is to fail; NULL: none */
    unsigned sweep, target;
    atomic_uint calls; /* of that kind, in this run */
    bool hit;
} faults_plan;

static inline struct fault *faults_of(const char *name)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (strcmp(faults[i].name, name) == 0) return &faults[i];
    }
    test_fail(__FILE__, __LINE__, "tests/faults.h does not know %s", name);
}

static inline int faults_nth(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    struct fault *fault = faults_of(name);
    atomic_fetch_add(&fault->asked, 1);
    if (fault != faults_plan.fault) return 0;
    if (atomic_fetch_add(&faults_plan.calls, 1) + 1 != faults_plan.target) return 0;
    faults_plan.hit = true;
    fault->hits++;
    return -fault->errors[faults_plan.sweep];
}

static inline bool faults_hit(const char *name)
{
    return faults_plan.hit && strcmp(faults_plan.fault->name, name) == 0;
}

/* In a sweep that is over, so that a call which no longer asks is found. */
static inline void faults_expect(const char *name)
{
    if (faults_of(name)->hits == 0) {
        test_fail(__FILE__, __LINE__, "%s has never failed", name);
    }
}

/* In sim who hangs deadlocks; scenarios have no deadlines but those that pass. */
static inline bool faults_told(int err)
{
    return err == 0 || (err < 0 && err > -200 && err != -EDEADLK && err != -ETIMEDOUT);
}

/* Of the process, and two: what a runtime that has ended may not leave. */
static inline unsigned faults_count_threads(void)
{
    return proc_count("task");
}

/* Mappings that there are: the leak checker does not see them. */
static inline int faults_count_maps(void)
{
    const struct fault *map = faults_of("mmap");
    return (int)(atomic_load(&map->asked) - map->hits - atomic_load(&faults_of("munmap")->asked));
}

static char faults_now[96]; /* what is to fail, in words */

static inline void faults_say(void)
{
    const struct fault *fault = faults_plan.fault;
    snprintf(faults_now, sizeof(faults_now), "%s, call %u, error %d", fault ? fault->name : "-",
             faults_plan.target, fault ? fault->errors[faults_plan.sweep] : 0);
}

/* The test's time is over. */
static inline void faults_hang(int signal)
{
    static const char hangs[] = ": hangs\n";
    (void)signal;
    const bool said = write(STDERR_FILENO, faults_now, strlen(faults_now)) > 0 &&
                      write(STDERR_FILENO, hangs, sizeof(hangs) - 1) > 0;
    _exit(said ? 1 : 2);
}

/* What is to be run. `run` begins and ends all that is to leave nothing, and returns 0 if nothing
 * failed; `tidy`, which may be NULL, is called after each. */
struct faults_sweep {
    int (*run)(void *arg);
    void *arg;
    void (*tidy)(void);
    unsigned fds, threads; /* before; and when nothing has failed: a sanitizer begins its own */
};

/* Returns whether the call was made, and failed. */
static inline bool faults_run(struct faults_sweep *sweep)
{
    atomic_store(&faults_plan.calls, 0);
    faults_plan.hit = false;
    faults_say();
    const int maps = faults_count_maps();
    hdi_sys_fault = faults_nth;
    const int err = sweep->run(sweep->arg);
    hdi_sys_fault = NULL;
    if (sweep->tidy) sweep->tidy();
    const unsigned fds = nets_count_fds(), threads = faults_count_threads();
    const bool childless = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
    if (!faults_told(err) || (err && !faults_plan.hit)) {
        test_fail(__FILE__, __LINE__, "%s: result %d", faults_now, err);
    }
    if (!faults_plan.fault) sweep->threads = threads;
    if (faults_count_maps() != maps) {
        test_fail(__FILE__, __LINE__, "%s: %d mappings more", faults_now,
                  faults_count_maps() - maps);
    }
    if (fds != sweep->fds || threads != sweep->threads || !childless) {
        test_fail(__FILE__, __LINE__, "%s: %d descriptors and %d threads more%s", faults_now,
                  (int)(fds - sweep->fds), (int)(threads - sweep->threads),
                  childless ? "" : ", and a child");
    }
    return faults_plan.hit;
}

/* All calls of one kind. Returns false if there were none, or they never fail, or have done so. */
static inline bool faults_sweep_kind(struct faults_sweep *sweep, struct fault *fault)
{
    if (atomic_load(&fault->asked) == 0 || fault->hits > 0 || !fault->errors[0]) return false;
    faults_plan.fault = fault;
    for (faults_plan.sweep = 0; faults_plan.sweep < 2; faults_plan.sweep++) {
        faults_plan.target = 1;
        while (faults_run(sweep)) faults_plan.target++;
    }
    return fault->hits > 0;
}

/* A kind that is first asked for when another has failed is found in the next round. */
static inline void faults_each_run(int (*run)(void *arg), void *arg, void (*tidy)(void))
{
    struct faults_sweep sweep = {run, arg, tidy, nets_count_fds(), 0};
    enum { KINDS = sizeof(faults) / sizeof(faults[0]) };
    unsigned kinds = 0;
    signal(SIGALRM, faults_hang);
    faults_plan.fault = NULL;
    for (unsigned i = 0; i < KINDS; i++) {
        faults[i].hits = 0;
        atomic_store(&faults[i].asked, 0);
    }
    (void)faults_run(&sweep);
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < KINDS; i++) {
            if (!faults_sweep_kind(&sweep, &faults[i])) continue;
            kinds++;
            more = true;
        }
    }
    EXPECT(kinds > 0); /* There was something to fail. */
}

/* Descriptors but those of drivers, which come with the first need and go with the runtime. */
static inline unsigned faults_count_own(void)
{
    unsigned count = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/proc/self/fd");
    EXPECT(dir != NULL);
    while ((entry = readdir(dir))) {
        char target[32] = "";
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) < 0) continue;
        const bool event = strncmp(target, "anon_inode:[event", 17) == 0; /* eventfd, eventpoll */
        count += !event && strcmp(target, "anon_inode:[io_uring]") != 0;
    }
    closedir(dir);
    return count;
}

/* The runtime would close what is left as it ends: a program that runs for long does not end. What
 * lingers, or is another thread's this moment, goes by itself. */
static inline void faults_expect_closed(unsigned before)
{
    const int64_t deadline = hd_after_ms(20000);
    while (faults_count_own() > before) { /* Or the monitor was reading a file of /proc then. */
        if (hd_now(NULL) > deadline) {
            test_fail(__FILE__, __LINE__, "%s: %d descriptors are left while it runs", faults_now,
                      (int)(faults_count_own() - before));
        }
        hd_yield();
    }
}

struct faults_scenario {
    hd_fn *fn;
    hd_options options;
};

static inline int faults_main(void *arg)
{
    struct faults_scenario *scenario = arg;
    const unsigned before = faults_count_own();
    const int err = scenario->fn(NULL);
    faults_expect_closed(before);
    return err;
}

static inline int faults_run_scenario(void *arg)
{
    struct faults_scenario *scenario = arg;
    return hd_run(faults_main, scenario, &scenario->options);
}

/* The same of a fiber in a runtime of its own. */
static inline void faults_each(hd_fn *fn, void (*tidy)(void), const hd_options *options)
{
    struct faults_scenario scenario = {fn, *options};
    scenario.options.sampler = NULL; /* They may use what they could not open. */
    faults_each_run(faults_run_scenario, &scenario, tidy);
}

#endif
