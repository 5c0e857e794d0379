/* SPDX-License-Identifier: MIT
 *
 * sim: the machines, networks, disks and programs of a simulated runtime, and what goes wrong with
 * them.
 *
 *   static int serve(void *arg) { ... hd_tcp_listen(&listener, ":80", NULL) ... }
 *
 *   hd_sim_host *server;
 *   err = hd_sim_host_add(&server, "server", NULL, serve, NULL);   serve() runs there
 *   err = hd_tcp_connect(&conn, "server:80", NULL);                from the host we are on
 *   err = hd_sim_crash(server);
 *   err = hd_sleep_ms(1000);
 *   err = hd_sim_restart(server);                                  serve() runs again
 *
 * A program needs none of this: it runs on one host, "localhost", and all I/O works. Whatever is
 * not said here is drawn from the seed, each kind of draw from a stream of its own, so that a
 * fault more or less leaves all other choices as they are. Level D3, as all of sim.
 *
 * A task is on the host of the task that spawned it; tasks spawned by a thread are on
 * "localhost". Hosts differ in addresses, names, files and Unix paths. Memory is shared by all:
 * a program that keeps to the rules of life does not use that.
 *
 * All calls concern the simulated runtime of the calling task; on a plain thread the one created
 * last. All: Context: any.  Switches: no.  Allocates: yes, unless noted.  Beside what they list
 * all return -ENOTSUP in live, -EINVAL and -ENOMEM. Hosts live as long as their runtime. Chances
 * are in millionths (ppm); 1,000,000 is always.
 */
#ifndef HEDDLE_SIM_H
#define HEDDLE_SIM_H

#include <heddle/io.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HD_SIM_ALWAYS 1000000u /* as a chance */

/* ---- hosts ---- */

typedef struct hd_sim_host hd_sim_host;

#define HD_SIM_HOST_NAME_MAX 63

/* Add a host and start it. `addresses` are its own, apart by commas: at most four, IPv4 or IPv6;
 * NULL: 10.0.0.N and fd00::N. Every host has 127.0.0.0/8 and ::1 too. Its name resolves to its
 * addresses. `boot` (NULL: nothing) is run with `arg` as a task of the host, now and at each
 * restart; what it returns is not looked at.
 * Returns: 0, -EEXIST if a host has the name or an address. */
#define hd_sim_host_add(host, name, addresses, boot, arg)                                \
    hd_sim_host_add_at((host), (name), (addresses), (boot), (arg), HD_SITE)
HD_API HD_MUST_USE int hd_sim_host_add_at(hd_sim_host **host, const char *name,
                                          const char *addresses, hd_fn *boot, void *arg,
                                          const hd_site *site);

/* The host the caller is on; the one of that name. Returns: NULL in live, or if there is none.
 * Allocates: the first time. */
HD_API hd_sim_host *hd_sim_host_self(void);
HD_API hd_sim_host *hd_sim_host_find(const char *name);

HD_API const char *hd_sim_host_name(const hd_sim_host *host);
HD_API bool hd_sim_host_up(const hd_sim_host *host);

/* hd_spawn() of a fiber on another host. Returns: as hd_spawn(); -EHOSTDOWN. */
#define hd_sim_spawn(host, handle, fn, arg) hd_sim_spawn_at((host), (handle), (fn), (arg), HD_SITE)
HD_API HD_MUST_USE int hd_sim_spawn_at(hd_sim_host *host, hd_task **handle, hd_fn *fn, void *arg,
                                       const hd_site *site);

/* The host stops dead. Its tasks are cancelled; from now on their I/O fails with -EHOSTDOWN
 * (accepts with -EINVAL), also that which began before and waits, and their spawns with -ENOMEM.
 * Its listeners and connections are gone, and nobody is told: others see silence, and once it is
 * up again a reset if they send. What its disk was not asked to sync is kept, lost or torn, as the
 * seed says (hd_sim_disk_options).
 * Returns: 0, -EALREADY if it is down, -EINVAL for "localhost". */
HD_API int hd_sim_crash(hd_sim_host *host);

/* Start it again, with what its disk has. Returns: 0, -EALREADY if it is up. */
HD_API int hd_sim_restart(hd_sim_host *host);

/* ---- links ---- */

/* Of what goes from one host to another. Every field left 0 takes its default, which is none but
 * for the latency. TCP keeps its promises: a loss there is a delay, until it is sent again, and
 * nothing is reordered or doubled. Unix sockets and pipes have no link. */
typedef struct hd_sim_link_options {
    size_t size;
    int64_t latency_ns;     /* one way; default 200 us, of a host to itself 10 us */
    int64_t jitter_ns;      /* up to so much more, drawn for each packet */
    int64_t resend_ns;      /* TCP: a lost packet is sent again after; default 200 ms, then twice
                             * that, ... */
    uint64_t bandwidth;     /* bytes a second; default: no limit */
    uint32_t loss_ppm;      /* packets that do not arrive */
    uint32_t duplicate_ppm; /* datagrams that arrive twice */
    uint32_t reorder_ppm;   /* datagrams that others overtake */
    uint32_t reset_ppm;     /* TCP: packets that end their connection by a reset */
} hd_sim_link_options;

#ifdef __cplusplus
#define HD_SIM_LINK_OPTIONS_INIT                                                         \
    ([] {                                                                                \
        hd_sim_link_options o = hd_sim_link_options();                                   \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_SIM_LINK_OPTIONS_INIT {.size = sizeof(hd_sim_link_options)}
#endif

/* From now on the link from one host to another is so; NULL options: as at first. A NULL host is
 * any, also one added later. The call that was last and fits counts. A host has a link to itself,
 * for what it sends to one of its own addresses. */
HD_API HD_MUST_USE int hd_sim_link(hd_sim_host *from, hd_sim_host *to,
                                   const hd_sim_link_options *options);

/* Nothing arrives any more that `from` sends to `to`; or either way. Nobody is told. A NULL host
 * is any other: a host reaches itself, unless it is named twice. hd_sim_heal() takes both ways
 * back; NULL: all of them. TCP then goes on where it was, if neither side has given up: after a
 * while (hd_sim_patience()) without an answer, those that have something to send do, with
 * -ETIMEDOUT, as does a connect. */
HD_API HD_MUST_USE int hd_sim_cut(hd_sim_host *from, hd_sim_host *to);
HD_API HD_MUST_USE int hd_sim_partition(hd_sim_host *a, hd_sim_host *b);
HD_API HD_MUST_USE int hd_sim_heal(hd_sim_host *a, hd_sim_host *b);

/* How long TCP waits for an answer; at first 20 s to connect, 60 s for what was sent, from
 * when it should have arrived, or from the last answer to anything sent. 0 leaves it as it is. */
HD_API HD_MUST_USE int hd_sim_patience(int64_t connect_ns, int64_t send_ns);

/* All TCP connections between two hosts end by a reset: both sides get -ECONNRESET. A NULL host is
 * any. Returns: how many. */
HD_API int hd_sim_reset(hd_sim_host *a, hd_sim_host *b);

/* ---- one connection ---- */

/* It ends by a reset, for both sides. Returns: 0, -EBADF, -ENOTCONN. */
HD_API HD_MUST_USE int hd_sim_reset_conn(hd_io conn);

/* This side forgets it, as if its host had crashed: here it is -ECONNRESET, and the other side is
 * not told: it waits for ever to read, and gets a reset if it sends. Returns: as above. */
HD_API HD_MUST_USE int hd_sim_forget_conn(hd_io conn);

/* How many bytes may wait at this side to be read, or are on their way; 0: no more come. A small
 * one makes a slow reader of it. At first 64 KiB, or as SO_RCVBUF says. Returns: as above. */
HD_API HD_MUST_USE int hd_sim_window(hd_io conn, size_t bytes);

/* ---- calls ---- */

/* How often a read or write moves fewer bytes than it could (default 200,000), and a task is told
 * that a descriptor is ready when it is not (default 20,000). */
HD_API HD_MUST_USE int hd_sim_calls(uint32_t short_ppm, uint32_t spurious_ppm);

/* ---- names ---- */

/* hd_resolve() answers with these addresses, apart by commas, in this order; NULL: with -ENOENT,
 * also for the name of a host. For all hosts. */
HD_API HD_MUST_USE int hd_sim_name(const char *name, const char *addresses);

/* How often resolving it fails (NULL: any name), with -EAGAIN or -ENOENT as `err`, and how long it
 * takes, at first up to 1 ms. */
HD_API HD_MUST_USE int hd_sim_name_fault(const char *name, int err, uint32_t ppm,
                                         int64_t delay_ns);

/* ---- programs ---- */

/* What a simulated program is started with. */
typedef struct hd_sim_process {
    int argc;
    const char *const *argv; /* argc of them, and NULL */
    const char *const *env;  /* "NAME=VALUE" ... NULL */
    const char *dir;         /* where it runs: where paths without a slash at first begin */
} hd_sim_process;

/* Returns its exit status, of which 8 bits count. */
typedef int hd_sim_main(const hd_sim_process *self, void *arg);

/* hd_child_start() finds a program of this name, on all hosts; `main` NULL: none any more. Names
 * are compared as they are: there is no PATH.
 *
 * A child is a fiber, on the host of its parent, that calls main(), a little later than it was
 * started. hd_stdin(), hd_stdout() and hd_stderr() are its own there, and in all tasks that it
 * spawns; it may use all of the library, have children, and have signals come by hd_signal_open();
 * others end it, as it would a process. When it ends, because main() has returned or a signal has
 * come, its handles are closed, so that others see the ends of its pipes and connections, and its
 * tasks cancelled; from then on none of their I/O does anything, and their spawns fail with
 * -ENOMEM. It has ended for who waits once they have: so a signal, also SIGKILL, ends what waits at
 * once, and a loop without waits never. A crash of its host is a SIGKILL.
 *
 * Memory is shared by all, so what is static in a program is so for its parent, and for those that
 * are started twice. Signals that stop a process are -ENOTSUP.
 * Allocates: yes.  Returns: 0. */
#define hd_sim_program(name, main, arg) hd_sim_program_at((name), (main), (arg), HD_SITE)
HD_API HD_MUST_USE int hd_sim_program_at(const char *name, hd_sim_main *main, void *arg,
                                         const hd_site *site);

/* How often starting it fails (NULL: any program), with `err`, as -EAGAIN or -ENOMEM, and how long
 * it is until it begins, at first up to 1 ms. */
HD_API HD_MUST_USE int hd_sim_program_fault(const char *name, int err, uint32_t ppm,
                                            int64_t delay_ns);

/* ---- disks ---- */

/* Every field left 0 takes its default. */
typedef struct hd_sim_disk_options {
    size_t size;
    uint64_t capacity;   /* bytes of all files; over that -ENOSPC; default: no limit */
    int64_t latency_ns;  /* of each call, and up to as much again; default 50 us */
    uint32_t read_ppm;   /* reads that fail with -EIO */
    uint32_t write_ppm;  /* writes and changes of names that do */
    uint32_t sync_ppm;   /* syncs that do; what that of a file was to write is then lost at a
                          * crash, whatever a later one says; names still wait for a sync */
    uint32_t lost_ppm;   /* at a crash: writes and changes that were not synced and are lost;
                          * default 500,000 */
    uint32_t torn_ppm;   /* at a crash: of the writes that are not, those of which only some
                          * sectors of 512 bytes are kept; default 500,000 */
} hd_sim_disk_options;

#ifdef __cplusplus
#define HD_SIM_DISK_OPTIONS_INIT                                                         \
    ([] {                                                                                \
        hd_sim_disk_options o = hd_sim_disk_options();                                   \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_SIM_DISK_OPTIONS_INIT {.size = sizeof(hd_sim_disk_options)}
#endif

/* From now on the disk of a host is so (NULL: of all, also of hosts added later); NULL options: as
 * at first. */
HD_API HD_MUST_USE int hd_sim_disk(hd_sim_host *host, const hd_sim_disk_options *options);

/* ---- all at once ---- */

#define HD_SIM_CHAOS_LINKS      1u  /* slow, lossy, reordering */
#define HD_SIM_CHAOS_PARTITIONS 2u  /* between hosts, also one way, for a while */
#define HD_SIM_CHAOS_RESETS     4u  /* of connections */
#define HD_SIM_CHAOS_CRASHES    8u  /* of hosts that have a boot function, for a while */
#define HD_SIM_CHAOS_DISKS      16u /* errors of read, write and sync */
#define HD_SIM_CHAOS_NAMES      32u /* names that are not found for the moment, or late */
#define HD_SIM_CHAOS_PROGRAMS   64u /* that do not start for the moment, or late */
#define HD_SIM_CHAOS_ALL        127u

/* A mix of such faults, drawn from the seed, begins: which of the kinds, how bad, when. After
 * `duration_ns` it ends: all is up, healed and as at first, also what the program had set up by
 * the calls above for links, cuts, disks and faults of names and programs.
 * Returns: 0, -EINVAL also while another is under way. */
HD_API HD_MUST_USE int hd_sim_chaos(unsigned kinds, int64_t duration_ns);

/* ---- figures ---- */

typedef struct hd_sim_stats {
    uint64_t ticks;     /* virtual time now, in hd_options.sim_tick_ns; those that nothing needed
                         * are counted, but took no time */
    uint64_t events;    /* that happened: timers, packets, and what else the network does */
    uint64_t spawned;   /* tasks */
    uint64_t completed;
    uint64_t runs;      /* of tasks, between two waits */
    uint64_t steps;     /* of tasks, between two points (explore.h); in HD_SIM_WORKERS this and the
                         * next three are 0 */
    uint64_t choices;   /* of who goes on, with at least two who could */
    uint64_t cohorts;   /* the sampler "cohort": how many had their turn */
    double cohort_mean; /* and of how many tasks */
    uint64_t depth_max; /* events that were to come at once, as seen whenever all waited */
    uint64_t pauses;    /* times that there were hd_options.sim_events_max */
    uint64_t warnings;  /* of these, and of long waits if somebody wants to know */
} hd_sim_stats;

/* What a simulated run came to by now. It is not in the record (log.h).
 * Context: a task of the runtime, or a thread while no other waits for it.  Allocates: no.
 * Returns: 0. */
HD_API HD_MUST_USE int hd_sim_summary(hd_runtime *runtime, hd_sim_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
