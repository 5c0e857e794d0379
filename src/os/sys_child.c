/* SPDX-License-Identifier: MIT
 *
 * sys_child: child processes in the live table.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/sys.h"

/* ---- starting ---- */

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
static int describe_files(const struct hdi_spawn *what, posix_spawn_file_actions_t *actions)
{
    int error = 0;
    for (int i = 0; i < HDI_STREAMS && !error; i++) {
        const int fd = what->fds[i];
        if (fd >= 0) error = posix_spawn_file_actions_adddup2(actions, fd, i);
    }
    return error || !what->dir ? error : posix_spawn_file_actions_addchdir_np(actions, what->dir);
}

/* Returns: an errno. */
static int spawn_as(const struct hdi_spawn *what, posix_spawn_file_actions_t *actions,
                    posix_spawnattr_t *attributes, pid_t *pid)
{
    int error = describe_signals(attributes);
    if (!error) error = describe_files(what, actions);
    if (error) return error;
    return posix_spawnp(pid, what->argv[0], actions, attributes, (char *const *)what->argv,
                        what->env ? (char *const *)what->env : environ);
}

int hdi_live_spawn(struct hd_runtime *runtime, const struct hdi_spawn *what)
{
    (void)runtime;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return -error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = spawn_as(what, &actions, &attributes, &pid);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error ? -error : pid;
}

/* ---- the rest of its life ---- */

int hdi_live_pidfd_open(struct hd_runtime *runtime, pid_t pid)
{
    (void)runtime;
    return hdi_sys_code(pidfd_open(pid, 0));
}

static int status_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED) return W_EXITCODE(info->si_status, 0);
    return info->si_status | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

int hdi_live_wait(struct hd_runtime *runtime, pid_t pid, int pidfd, int flags, int *status)
{
    (void)runtime;
    const idtype_t type = pidfd >= 0 ? P_PIDFD : P_PID;
    siginfo_t info;
    int err;
    memset(&info, 0, sizeof(info)); /* si_pid 0: it has not ended. */
    do err = hdi_sys_code(waitid(type, (id_t)(pidfd >= 0 ? pidfd : pid), &info, WEXITED | flags));
    while (err == -EINTR);
    if (err) return err;
    if (info.si_pid != 0) *status = status_of(&info);
    return info.si_pid != 0;
}

int hdi_live_kill(struct hd_runtime *runtime, pid_t pid, int pidfd, int signal)
{
    (void)runtime;
    if (pidfd < 0) return hdi_sys_code(kill(pid, signal));
    return hdi_sys_code(pidfd_send_signal(pidfd, signal, NULL, 0));
}
