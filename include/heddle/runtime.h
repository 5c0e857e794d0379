/* SPDX-License-Identifier: MIT
 *
 * runtime: the workers that run tasks, and the world they run in.
 *
 * A program usually calls hd_run() once. Programs that embed Heddle create a
 * runtime, spawn into it from any thread, and destroy it; several runtimes can
 * live in one process, one after another or at once.
 *
 * Worlds. In the live world a runtime is work-stealing over its worker threads.
 * In the sim world it is one thread: whichever thread waits (in hd_run, in a join,
 * in hd_runtime_drain) drives it, time is virtual, and the next task is chosen by
 * the seed. HEDDLE_SEED=n in the environment turns any program into a sim run;
 * set-user-ID programs ignore it. Simulated runtimes do not drive each other: a task
 * of one that joins a task of another gets no further, and its driver -EDEADLK; so does
 * a driver that waits for an OS thread which has not called into the runtime yet.
 */
#ifndef HEDDLE_RUNTIME_H
#define HEDDLE_RUNTIME_H

#include <stdio.h>

#include <heddle/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_runtime hd_runtime;

/* A pool of workers; the header of that name says more. */
typedef struct hd_dispatcher hd_dispatcher;

/* A fiber's function, and the one hd_run() takes. */
typedef int hd_fn(void *arg);

typedef enum hd_world {
    HD_WORLD_AUTO, /* HEDDLE_SEED set: sim with that seed; otherwise live */
    HD_WORLD_LIVE,
    HD_WORLD_SIM,
} hd_world;

typedef enum hd_policy {
    HD_POLICY_FAIR,     /* FIFO ring of 256, thieves take half */
    HD_POLICY_LOCAL,    /* LIFO deque, thieves take the oldest, one at a time */
    HD_POLICY_ORDERED,  /* one FIFO for all workers: tasks begin in the order they became
                         * ready, in every world */
    HD_POLICY_PRIORITY, /* the same with a FIFO for each priority: the highest goes first,
                         * but none waits for ever (hd_priority) */
} hd_policy;

typedef enum hd_sim_order {
    HD_SIM_RANDOM,  /* any ready task may be next: finds bugs */
    HD_SIM_WORKERS, /* the live scheduler's own order, workers interleaved by the seed */
} hd_sim_order;

typedef enum hd_guard {
    HD_GUARD_AUTO,     /* the best that works here */
    HD_GUARD_MADVISE,  /* MADV_GUARD_INSTALL: millions of stacks, Linux 6.13 */
    HD_GUARD_MPROTECT, /* about 32,000 stacks under the default vm.max_map_count */
    HD_GUARD_CANARY,   /* found at the next switch, not at the fault */
} hd_guard;

/* What happens when no task can ever run again: none is ready, and no timer, no I/O and no
 * other thread of the process can make one so. Sim tells exactly; live only while every
 * thread of the process is a worker of this runtime or waits in a call to it. */
typedef enum hd_deadlock {
    HD_DEADLOCK_AUTO,   /* hd_run(): report; hd_runtime_create(): sim says -EDEADLK to who
                         * waits, live waits on */
    HD_DEADLOCK_REPORT, /* write to stderr what every task waits on; live then cancels them
                         * all, sim says -EDEADLK to who waits */
    HD_DEADLOCK_WAIT,   /* live waits on: for programs woken by a signal or from outside */
} hd_deadlock;

/* What the tasks of a runtime may do; cap.h says what each means. */
typedef enum hd_profile {
    HD_PROFILE_NONE, /* everything */
    HD_PROFILE_CORE,
    HD_PROFILE_SERVICE,
    HD_PROFILE_CLUSTER,
    HD_PROFILE_SOVEREIGN,
} hd_profile;

/* How the kernel is asked (io.h). */
typedef enum hd_io_driver {
    HD_IO_AUTO,  /* io_uring, or epoll if the kernel, or whoever runs the program, has none */
    HD_IO_URING, /* or I/O fails with what the kernel says */
    HD_IO_EPOLL,
} hd_io_driver;

typedef void hd_log_fn(void *arg, const char *line);

/* Every field left 0 takes its default. */
typedef struct hd_options {
    size_t size;
    hd_world world;
    uint64_t seed;          /* sim only; HEDDLE_SEED wins under HD_WORLD_AUTO */
    unsigned workers;       /* 1 to 256; default: CPUs this process may use; in
                             * sim 1 (HD_SIM_RANDOM, always) or 4 (HD_SIM_WORKERS) */
    hd_policy policy;
    hd_sim_order sim_order;
    const char *sampler;    /* sim: points, and who decides at them (explore.h), such as "pct:3";
                             * HEDDLE_SAMPLER wins under HD_WORLD_AUTO. Default: no points, and any
                             * ready task whenever one waits or ends. Until the runtime is created,
                             * as the next two */
    const char *record;     /* sim: a file that the run is recorded in (log.h); or HEDDLE_LOG */
    const char *replay;     /* one that it is replayed from, with the seed and the sampler recorded
                             * there; or HEDDLE_REPLAY, which also chooses sim. What differs ends
                             * the run with -ENOTRECOVERABLE, and a word on stderr */
    int64_t sim_tick_ns;    /* sim: virtual time that a step takes; default 1 us */
    size_t sim_events_max;  /* sim: timers and packets on their way at a time; at so many no task
                             * runs until some have happened; default 1,000,000 */
    int64_t sim_long_wait_ns; /* sim: a task that waits for longer, and does not just sleep, is
                             * worth a warning in the record and to `log`; default 1,000,000
                             * ticks; HD_FOREVER: none is */

    /* Stacks. */
    size_t stack_bytes;     /* usable bytes of a fiber's stack; default 64 KiB */
    size_t job_stack_bytes; /* of the stacks that jobs run on (fork.h); default 1 MiB */
    hd_guard guard;
    bool report_overflow;   /* install a SIGSEGV and SIGBUS handler that names the fiber that
                             * overflowed; hd_run() always asks for it */

    /* Scheduling. The defaults suit most programs. */
    unsigned lifo_cap;              /* LIFO slot hits in a row; default 3 */
    unsigned poll_budget;           /* task switches between maintenance; default 128 */
    unsigned inject_interval_min;   /* default 8 switches */
    unsigned inject_interval_max;   /* default 255 switches */
    int64_t inject_latency_ns;      /* target for the adaptive interval; default 1 ms */
    unsigned ewma_percent;          /* weight of a new measurement; default 10 */
    unsigned steal_scan_max;        /* victims probed in one search; default 4 */
    unsigned spin_rounds;           /* search rounds before a worker parks; default 16,
                                     * 1 with more workers than CPUs */
    hd_deadlock deadlock;

    /* Tasks that run for long (live). */
    int64_t quantum_ns;    /* after which a task is asked to give way at its next call or
                            * hd_checkpoint(); default 10 ms; HD_FOREVER: never */
    unsigned quantum_ops;  /* the same in sim: ops without a switch; default 10,000 */
    int64_t stall_ns;      /* after which a worker stuck in one task is replaced by a spare thread
                            * until it comes back; default 20 ms, and HD_FOREVER, which is never,
                            * with one worker: unless this is set, it runs no two tasks at once.
                            * If it is, it may, except under HD_POLICY_ORDERED. Pinned tasks wait
                            * for their own worker */
    bool report_stalls;    /* write task, spawn site and backtrace to stderr then, once for each;
                            * takes SIGURG for itself, to have the backtrace taken */
    hd_profile profile;    /* what tasks may do (cap.h); default: everything */

    /* I/O (live). By io_uring, workers that are in one task for long get SIGURG (hd_io(3)). */
    hd_io_driver io;       /* HEDDLE_IO=epoll or HEDDLE_IO=uring in the environment wins */
    bool embedded;         /* no threads: tasks run in hd_run_once(), for programs with an event
                            * loop of their own; one worker, and HD_IO_EPOLL. Not in sim */
    hd_log_fn *log;        /* told in one line what may be worth knowing, such as which driver was
                            * taken and why; default: nobody. Called on any thread; must not call
                            * what switches */
    void *log_arg;
} hd_options;

#ifdef __cplusplus
#define HD_OPTIONS_INIT                                                                  \
    ([] {                                                                                \
        hd_options o = hd_options();                                                             \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_OPTIONS_INIT {.size = sizeof(hd_options)}
#endif

/* Run `fn` as the first fiber of a new runtime, wait until it and every task it
 * left behind have ended, and destroy the runtime. Tasks still alive when `fn`
 * returns are cancelled.
 * Context: thread.  Switches: no.  Allocates: yes.
 * Returns: what `fn` returned; -ENOMEM, -EAGAIN if a thread cannot be started, -EINVAL
 * for options that make no sense (hd_options_error() says which), -EDEADLK after a report
 * on stderr if no task could ever run again (hd_deadlock). */
#define hd_run(fn, arg, options) hd_run_at((fn), (arg), (options), HD_SITE)
HD_API int hd_run_at(hd_fn *fn, void *arg, const hd_options *options, const hd_site *site);

/* Create a runtime and start its workers.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: 0, -ENOMEM, -EAGAIN if a thread cannot be started, -ENOTSUP if this kernel
 * lacks the guard asked for, -EINVAL, -EPERM (capability "executor"). */
HD_API HD_MUST_USE int hd_runtime_create(hd_runtime **runtime, const hd_options *options);

/* Why these options are refused, in one sentence; NULL if they are fine.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_options_error(const hd_options *options);

/* Wait until no task is alive, or until the deadline.
 * Context: thread outside the runtime.  Switches: no.  Allocates: no.
 * Returns: 0, -ETIMEDOUT, -EDEADLK in sim if nothing can ever run again, -EINVAL
 * from inside the runtime. */
HD_API HD_MUST_USE int hd_runtime_drain(hd_runtime *runtime, int64_t deadline);

/* Refuse new tasks, cancel those alive, and wait for them. On a timeout the runtime
 * is still there, refusing spawns, and the call may be repeated.
 * Context: thread outside the runtime.  Switches: no.  Allocates: no.
 * Returns: 0, -ETIMEDOUT, -EDEADLK in sim if tasks are left that can never end, -EINVAL
 * from inside the runtime. */
HD_API HD_MUST_USE int hd_runtime_shutdown(hd_runtime *runtime, int64_t deadline);

/* Shut down without a time limit, stop the workers, and free everything. Handles
 * and wakers of its tasks must have been dropped, and calls from other threads have
 * returned, except that a wake or a spawn on its way out is waited for.
 * Context: thread outside the runtime.  Switches: no.  Allocates: no. */
HD_API void hd_runtime_destroy(hd_runtime *runtime);

/* The runtime whose task or worker calls this; NULL on other threads.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_runtime *hd_runtime_self(void);

/* Nanoseconds on the runtime's clock: monotonic in live, virtual in sim. With NULL, the
 * calling task's runtime; on a plain thread the simulated runtime created last, which is the
 * one it drives when it waits, or the live clock if there is none.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API int64_t hd_now(hd_runtime *runtime);

/* The absolute deadline `ms` milliseconds from now on hd_now(NULL)'s clock.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API int64_t hd_after_ms(int64_t ms);

/* The world this runtime runs in, and its seed (0 in live).
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_world hd_runtime_world(const hd_runtime *runtime);
HD_API uint64_t hd_runtime_seed(const hd_runtime *runtime);

/* How it does I/O: "io_uring", "epoll", "sim", or "none" before the first.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_runtime_io(hd_runtime *runtime);

/* ---- inside another event loop: with hd_options.embedded ---- */

/* Run what is ready, and what becomes ready by the deadline; with HD_NOW only look. Returns as soon
 * as something ran and nothing is ready any more.
 * Context: the same thread each time.  Switches: no.  Allocates: no.
 * Returns: how many tasks ran; 0: the deadline passed; -EINVAL (not embedded, or inside a task). */
HD_API HD_MUST_USE int hd_run_once(hd_runtime *runtime, int64_t deadline);

/* A descriptor that is readable when hd_run_once() has something to do: for the other loop to
 * watch, level-triggered. It is the runtime's.
 * Context: any.  Switches: no.  Allocates: no.  Returns: it; -EINVAL if not embedded. */
HD_API int hd_runtime_fd(hd_runtime *runtime);

/* Scheduling events so far, folded into one number: in sim, equal for equal
 * programs and seeds (level D3), and different as soon as any choice differs. In
 * live it is a fingerprint of what happened, not reproducible.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API uint64_t hd_runtime_digest(hd_runtime *runtime);

/* Counters since the runtime was created, summed over the workers of all dispatchers. Each is exact
 * once the runtime is quiet; a running one is read without stopping it. */
typedef struct hd_stats {
    unsigned workers;        /* of all dispatchers, as of now */
    unsigned dispatchers;    /* as of now */
    uint64_t submitted;      /* tasks spawned */
    uint64_t completed;      /* tasks ended */
    uint64_t polls;          /* times a task was run */
    uint64_t steal_attempts; /* victims probed */
    uint64_t steals;         /* probes that brought tasks */
    uint64_t stolen;         /* tasks they brought */
    uint64_t jobs_taken;     /* jobs that another than their forker ran (fork.h) */
    uint64_t lifo_hits;      /* polls served from a LIFO slot */
    uint64_t injected;       /* tasks that went through the injection queue */
    uint64_t overflows;      /* times a full local queue spilled */
    uint64_t parks;          /* times a worker went to sleep */
    uint64_t unparks;        /* times one was woken */
    uint64_t searches;       /* times one began to look for work elsewhere */
    uint64_t run_ns_avg;     /* moving average of one run of a task, sampled */
    uint64_t run_ns_max;     /* longest sampled run */
    uint64_t alive;          /* submitted - completed */
    unsigned inject_interval;/* adaptive interval now, the smallest of the workers' */
} hd_stats;

/* Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_runtime_stats(hd_runtime *runtime, hd_stats *stats);

/* Write counters, dispatchers, workers and live tasks as text, for people.
 * Context: any.  Switches: no.  Allocates: no (but stdio may). */
HD_API void hd_runtime_dump(hd_runtime *runtime, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
