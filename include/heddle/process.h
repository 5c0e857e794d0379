/* SPDX-License-Identifier: MIT
 *
 * process: signals of this process, and child processes. In sim children are simulated programs
 * (hd_sim_program()), and signals come from hd_signal_raise() and, to those, hd_child_kill().
 */
#ifndef HEDDLE_PROCESS_H
#define HEDDLE_PROCESS_H

#include <heddle/chan.h>
#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- signals ---- */

/* Have signals come as ints from a channel, and not do what they usually do. It has room for one of
 * each number: a signal is not sent twice while one of its number waits there, and none is lost.
 * Several channels may have the same signal: each gets it. The handler that was there before is
 * restored with the last of them.
 * Context: fiber or stackless task.  Switches: no.  Allocates: yes.
 * Returns: 0, -ENOMEM, -EAGAIN, -EMFILE, -EPERM (capability "channel"), -EINVAL (no runtime; no
 * signal; one that cannot be caught, or is a fault's). */
HD_API HD_MUST_USE int hd_signal_open(hd_chan **chan, const int *signals, unsigned count);

/* No more signals come, and the channel goes, on which nobody may wait any more. To be called
 * before the runtime ends. Does nothing to NULL.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_signal_close(hd_chan *chan);

/* Have the signal come: to this process in live, as by kill(2), and so in a simulated program; to
 * this runtime's channels in sim otherwise, and to nobody if none wants it.
 * Context: any.  Switches: no.  Allocates: no.  Returns: 0, -EINVAL. */
HD_API int hd_signal_raise(int signal);

/* ---- child processes ---- */

typedef struct hd_child hd_child;

typedef enum hd_child_stream {
    HD_CHILD_INHERIT, /* ours */
    HD_CHILD_NULL,    /* /dev/null */
    HD_CHILD_PIPE,    /* hd_child_pipe() */
    HD_CHILD_FD,      /* a descriptor of ours: `fds` */
} hd_child_stream;

/* Every field left 0 takes its default. */
typedef struct hd_child_options {
    size_t size;
    const char *const *env;      /* "NAME=VALUE" ... NULL; default: ours */
    const char *dir;             /* where it runs; default: where we do */
    hd_child_stream streams[3];  /* its stdin, stdout, stderr */
    int fds[3];                  /* for HD_CHILD_FD */
    int kill_signal;             /* what a cancel sends; default SIGTERM */
    int64_t kill_grace_ns;       /* after it, SIGKILL; default 5 s */
} hd_child_options;

#ifdef __cplusplus
#define HD_CHILD_OPTIONS_INIT                                                            \
    ([] {                                                                                \
        hd_child_options o = hd_child_options();                                         \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_CHILD_OPTIONS_INIT {.size = sizeof(hd_child_options)}
#endif

/* Start argv[0], looked for in PATH, or in sim among the programs that there are, with these
 * arguments, which end with NULL. It begins with no signal blocked or ignored, and has no
 * descriptors of ours but its streams and what was not made close-on-exec.
 * Context: fiber.  Switches: yes (a thread that may block).  Allocates: yes.
 * Cancel: there is no child, unless it was being started already.
 * Returns: 0, -ENOENT, -EACCES, -EAGAIN, -ENOMEM, -EBADF, -EINVAL, ...; as hd_blocking(). */
HD_API HD_MUST_USE int hd_child_start(hd_child **child, const char *const *argv,
                                      const hd_child_options *options);

/* Our end of a HD_CHILD_PIPE, by its number in the child: 0 to write to, 1 and 2 to read from; a
 * zeroed handle for other streams. It may be closed at any time (so a child that reads to the end
 * sees it); otherwise it goes with the child's handle.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_io hd_child_pipe(hd_child *child, int stream);

/* Its number, which is its own until it was waited for.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API pid_t hd_child_pid(const hd_child *child);

/* Wait until it has ended. *status (may be NULL) is as of waitpid(2): WIFEXITED() ... Several may
 * wait, and again.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: no.
 * Cancel: kill_signal is sent, and, after kill_grace_ns, SIGKILL; then -ECANCELED, and it has
 * ended. So also, with -ETIMEDOUT, if the deadline of a scope around passes. The one given here
 * kills nothing.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -EAGAIN with HD_NOW, -ECHILD if another part of the program
 * has waited for it. */
HD_API HD_MUST_USE int hd_child_wait(hd_child *child, int *status);
HD_API HD_MUST_USE int hd_child_wait_until(hd_child *child, int *status, int64_t deadline);

/* Send it a signal; never to another process that has its number by now.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -ESRCH if it has ended, -EINVAL, -EPERM if it has another user's rights, -ENOTSUP in
 * sim for signals that stop a process. */
HD_API int hd_child_kill(hd_child *child, int signal);

/* End the handle and, first, its pipes. A child that still runs is killed, with SIGKILL, and waited
 * for; so is one that may not be killed. To be called before the runtime ends. Does nothing to
 * NULL.
 * Context: fiber or thread.  Switches: yes.  Allocates: no. */
HD_API void hd_child_free(hd_child *child);

#ifdef __cplusplus
}
#endif
#endif
