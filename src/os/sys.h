/* SPDX-License-Identifier: MIT
 *
 * sys: every system call of the I/O layer, so that sim can answer them in the kernel's place, and
 * tests can make any of them fail.
 *
 * Each world has a table. All functions return what the system call does, or -errno; descriptors
 * are non-blocking and close-on-exec from the start. A simulated descriptor is at least
 * HDI_SIM_FD, so that the two kinds cannot be mistaken for each other.
 *
 * Callers use hdi_sys(runtime, name, ...), which first asks the fault hook; or hdi_live(), which
 * does the same, for what the drivers of live ask of the kernel, and sim never sees.
 *
 * Never failed, and most of them made without asking, since they do not fail, or tell nothing that
 * somebody could act on (tests/project/sources has the list):
 *   close, munmap      what they end is gone, whatever they say
 *   reads and writes of an eventfd   -EAGAIN says that it is as it should be
 *   sigaction          to put back what was there: the signal is known to be one
 *   futex, getpid, the clock, and a ring's forgetting a file (FILE-2)
 */
#ifndef HDI_OS_SYS_H
#define HDI_OS_SYS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

struct hd_runtime;
struct hdi_source;
struct hdi_process;
struct hdi_spawn;

#define HDI_SIM_FD (1 << 28)

/* What a descriptor can be ready for. */
#define HDI_READY_IN   1u
#define HDI_READY_OUT  2u
#define HDI_READY_HUNG 4u /* nothing more will come: for good */
#define HDI_READY_URGENT 8u /* bytes of TCP at which a read stops */

struct hdi_sys {
    /* ---- sockets and pipes: never wait; -EAGAIN ---- */
    int (*socket)(struct hd_runtime *runtime, int family, int type, int protocol);
    int (*socketpair)(struct hd_runtime *runtime, int family, int type, int fds[2]);
    int (*bind)(struct hd_runtime *runtime, int fd, const struct sockaddr *addr, socklen_t bytes);
    int (*listen)(struct hd_runtime *runtime, int fd, int backlog);
    int (*accept)(struct hd_runtime *runtime, int fd, struct sockaddr *addr, socklen_t *bytes);
    int (*connect)(struct hd_runtime *runtime, int fd, const struct sockaddr *addr,
                   socklen_t bytes); /* -EINPROGRESS; then SO_ERROR when it is ready to write */
    ssize_t (*recvmsg)(struct hd_runtime *runtime, int fd, struct msghdr *message, int flags);
    ssize_t (*sendmsg)(struct hd_runtime *runtime, int fd, const struct msghdr *message,
                       int flags);
    int (*shutdown)(struct hd_runtime *runtime, int fd, int how);
    int (*setsockopt)(struct hd_runtime *runtime, int fd, int level, int name, const void *value,
                      socklen_t bytes);
    int (*getsockopt)(struct hd_runtime *runtime, int fd, int level, int name, void *value,
                      socklen_t *bytes);
    int (*getsockname)(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                       socklen_t *bytes);
    int (*getpeername)(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                       socklen_t *bytes);
    int (*pipe)(struct hd_runtime *runtime, int fds[2]);
    ssize_t (*readv)(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count);
    ssize_t (*writev)(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count);
    int (*close)(struct hd_runtime *runtime, int fd);
    int (*dup)(struct hd_runtime *runtime, int fd, int least); /* a copy of at least that number */
    int (*set_blocking)(struct hd_runtime *runtime, int fd, bool blocking);

    /* What a descriptor is ready for, as of now: HDI_READY_*. */
    int (*poll)(struct hd_runtime *runtime, int fd);

    /* From now on tell hdi_source_ready() (io/source.h) whenever the descriptor becomes ready,
     * and once for what it is ready for already; until unwatch, which the close of the descriptor
     * follows, unless it is borrowed. Live: io/lane.c. */
    int (*watch)(struct hd_runtime *runtime, int fd, struct hdi_source *source);
    void (*unwatch)(struct hd_runtime *runtime, int fd, struct hdi_source *source);

    /* ---- files: may block the thread ---- */
    int (*open)(struct hd_runtime *runtime, const char *path, int flags, mode_t mode);
    ssize_t (*preadv)(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                      int64_t offset); /* -1: at its position, which moves; so for pwritev */
    ssize_t (*pwritev)(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                       int64_t offset);
    /* What is at hand: never waits; -EAGAIN, -EOPNOTSUPP. NULL in sim. */
    ssize_t (*preadv_now)(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                          int64_t offset);
    int (*fsync)(struct hd_runtime *runtime, int fd, bool data_only);
    int (*ftruncate)(struct hd_runtime *runtime, int fd, int64_t bytes);
    int (*fstat)(struct hd_runtime *runtime, int fd, struct stat *info);
    int (*stat)(struct hd_runtime *runtime, const char *path, struct stat *info);
    int (*rename)(struct hd_runtime *runtime, const char *from, const char *to);
    int (*unlink)(struct hd_runtime *runtime, const char *path);
    int (*mkdir)(struct hd_runtime *runtime, const char *path, mode_t mode);
    int (*rmdir)(struct hd_runtime *runtime, const char *path);
    /* All entries, without "." and "..", as {type, name, 0} one after the other in memory to be
     * freed. Returns their bytes. */
    ssize_t (*list)(struct hd_runtime *runtime, const char *path, char **entries);
    int (*sync_dir)(struct hd_runtime *runtime, const char *path);

    /* ---- names: may block the thread. Addresses without a port. Returns: how many; -ENOENT,
     * -EAGAIN, -ENOMEM ---- */
    int (*resolve)(struct hd_runtime *runtime, const char *name, struct sockaddr_storage *addrs,
                   size_t max);
    /* How long the caller is to sleep before it resolves the name; NULL: not at all. */
    int64_t (*resolve_delay)(struct hd_runtime *runtime, const char *name);

    /* ---- child processes. A child is known by its number and, where there are such, by a pidfd:
     * -1 is none ---- */

    /* May block the thread. Returns: its number. */
    int (*spawn)(struct hd_runtime *runtime, const struct hdi_spawn *what);
    /* Returns: a descriptor that is readable once it has ended; -ENOSYS, -EPERM: not here. */
    int (*pidfd_open)(struct hd_runtime *runtime, pid_t pid);
    /* flags: WNOHANG; WNOWAIT: it is not reaped. Without the first it blocks the thread. Returns:
     * 1: it has ended, and *status is as of waitpid(); 0: it runs; -ECHILD: it is not ours. */
    int (*wait)(struct hd_runtime *runtime, pid_t pid, int pidfd, int flags, int *status);
    int (*kill)(struct hd_runtime *runtime, pid_t pid, int pidfd, int signal);
    /* The simulated process that the caller is of; NULL: the program itself. NULL in live. */
    const struct hdi_process *(*process)(struct hd_runtime *runtime);
};

#define HDI_STREAMS 3 /* standard ones */

/* A simulated process, as the I/O layer sees it. */
struct hdi_process {
    uint32_t number;               /* never 0 */
    uint64_t streams[HDI_STREAMS]; /* its handles of them */
};

/* A program to be started: it has no signals blocked or ignored, and no descriptors but those. */
struct hdi_spawn {
    const char *const *argv;
    const char *const *env; /* NULL: ours */
    const char *dir;        /* NULL: ours */
    int fds[HDI_STREAMS];   /* what become its streams, none of them below 3; -1: it inherits */
};

extern const struct hdi_sys hdi_sys_sim;  /* sim/net_sys.c */
extern const struct hdi_sys hdi_sys_live; /* os/sys.c */
int hdi_live_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source); /* io/lane.c */
void hdi_live_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source);

/* os/sys_child.c */
int hdi_live_spawn(struct hd_runtime *runtime, const struct hdi_spawn *what);
int hdi_live_pidfd_open(struct hd_runtime *runtime, pid_t pid);
int hdi_live_wait(struct hd_runtime *runtime, pid_t pid, int pidfd, int flags, int *status);
int hdi_live_kill(struct hd_runtime *runtime, pid_t pid, int pidfd, int signal);

/* For tests: called before each system call, with its name as in the table or as the C library has
 * it, and for each submission to io_uring, with a name of its own (io/uring_fault.c). `runtime` is
 * NULL for what is the process's. Returns 0, or what the call is to fail with, as -errno, without
 * having been made. NULL: nobody asks. Set while nothing runs. */
extern int (*hdi_sys_fault)(struct hd_runtime *runtime, const char *name);

/* Returns: 0; what the call is to fail with. A macro, so that nobody looks for the runtime before
 * somebody asks. */
#define hdi_sys_fails(runtime, name)                                                     \
    (__builtin_expect(hdi_sys_fault != NULL, 0) ? hdi_sys_fault((runtime), (name)) : 0)

/* The result of a system call, with its error in it. */
static inline int hdi_sys_code(int result)
{
    return result < 0 ? -errno : result;
}

#define hdi_sys(runtime, name, ...)                                                      \
    (__extension__({                                                                     \
        struct hd_runtime *hdi_sys_at = (runtime);                                       \
        const int hdi_sys_err = hdi_sys_fails(hdi_sys_at, #name);                        \
        hdi_sys_err ? hdi_sys_err : hdi_sys_at->sys->name(hdi_sys_at, __VA_ARGS__);      \
    }))

/* By the live table, whatever the world: what in sim is the system's, too, or of no runtime. */
#define hdi_sys_real(runtime, name, ...)                                                 \
    (__extension__({                                                                     \
        struct hd_runtime *hdi_sys_at = (runtime);                                       \
        const int hdi_sys_err = hdi_sys_fails(hdi_sys_at, #name);                        \
        hdi_sys_err ? hdi_sys_err : hdi_sys_live.name(hdi_sys_at, __VA_ARGS__);          \
    }))

/* The C library's function of that name, which returns an int. */
#define hdi_live(runtime, name, ...)                                                     \
    (__extension__({                                                                     \
        const int hdi_live_err = hdi_sys_fails((runtime), #name);                        \
        hdi_live_err < 0 ? hdi_live_err : hdi_sys_code(name(__VA_ARGS__));               \
    }))

#endif
