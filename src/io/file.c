/* SPDX-License-Identifier: MIT
 *
 * file: files and directories, by the kernel's io_uring, or by a thread that may block.
 *
 * A call is an `op`, on the stack of who makes it. run() has it made, and returns when it is over,
 * or will never begin: whoever makes it uses the caller's buffers. So a task that is cancelled or
 * late, or whose handle is closed, withdraws one that waits for its turn (sched/blocking.c,
 * FLIGHT-2), has the kernel cancel one that io_uring makes, and waits for one that a thread has
 * begun. What was done is never an error.
 *
 * A handle that is closed meanwhile keeps its descriptor until the call is over (SRC-5).
 *
 * In sim a call takes time before and after, so that others see the disk both without and with
 * what it did while it is under way.
 */
#include "io/file.h"

#include "io/lane.h"
#include "sched/blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

enum call {
    OPEN,
    PREADV,
    PWRITEV,
    FSYNC,
    FTRUNCATE,
    FSTAT,
    STAT,
    RENAME,
    UNLINK,
    MKDIR,
    RMDIR,
    LIST,
    SYNC_DIR,
};

struct op {
    enum call call;
    struct hd_runtime *runtime;
    int fd;
    int flags;       /* OPEN; FSYNC: data only */
    mode_t mode;
    const char *path;
    const char *to;  /* RENAME */
    enum hdi_source_kind kind; /* OPEN: of what was opened */
    const struct iovec *parts;
    int count;
    int64_t offset;  /* FTRUNCATE: bytes */
    struct stat *info;
    char **entries;
    const hd_case *stop; /* what ends the wait beside a cancel: the handle's close; NULL: by name */
    int64_t deadline;
    ssize_t result;  /* of the call, once that was made */
};

/* ---- making calls ---- */

/* Those of memory never wait, but may take long: /dev/zero, /dev/urandom. */
static bool is_waited_for(const struct stat *info)
{
    enum { MEMORY = 1 }; /* as in the kernel's devices.txt */
    return S_ISFIFO(info->st_mode) || (S_ISCHR(info->st_mode) && major(info->st_rdev) != MEMORY);
}

/* What comes to a FIFO may never do so. A thread in a call on it could not be had back, so nobody
 * blocks there: the open file is ours alone, and does not. */
static int open_file(struct op *op)
{
    struct hd_runtime *at = op->runtime;
    struct stat info;
    const int fd = hdi_sys(at, open, op->path, op->flags, op->mode);
    op->kind = HDI_SOURCE_FILE;
    if (fd < 0 || (op->flags & O_PATH)) return fd;
    int err = hdi_sys(at, fstat, fd, &info);
    if (!err && is_waited_for(&info)) {
        op->kind = HDI_SOURCE_DEVICE;
        err = hdi_sys(at, set_blocking, fd, false);
    }
    if (err) (void)hdi_sys(at, close, fd);
    return err ? err : fd;
}

static ssize_t make(struct op *op)
{
    struct hd_runtime *at = op->runtime;
    switch (op->call) {
    case OPEN: return open_file(op);
    case PREADV: return hdi_sys(at, preadv, op->fd, op->parts, op->count, op->offset);
    case PWRITEV: return hdi_sys(at, pwritev, op->fd, op->parts, op->count, op->offset);
    case FSYNC: return hdi_sys(at, fsync, op->fd, op->flags);
    case FTRUNCATE: return hdi_sys(at, ftruncate, op->fd, op->offset);
    case FSTAT: return hdi_sys(at, fstat, op->fd, op->info);
    case STAT: return hdi_sys(at, stat, op->path, op->info);
    case RENAME: return hdi_sys(at, rename, op->path, op->to);
    case UNLINK: return hdi_sys(at, unlink, op->path);
    case MKDIR: return hdi_sys(at, mkdir, op->path, op->mode);
    case RMDIR: return hdi_sys(at, rmdir, op->path);
    case LIST: return hdi_sys(at, list, op->path, op->entries);
    case SYNC_DIR: return hdi_sys(at, sync_dir, op->path);
    }
    return -EINVAL;
}

static int make_blocking(void *arg)
{
    struct op *op = arg;
    op->result = make(op);
    return 0;
}

/* By a thread that may block. */
static int have_made(struct op *op)
{
    return hdi_blocking_unless(make_blocking, op, NULL, op->stop, op->deadline);
}

/* Virtual time passes for the caller: before it is made, and after, which nothing ends. */
static ssize_t run_sim(struct op *op)
{
    const int64_t ns = hdi_disk_latency(op->runtime);
    hd_case before = HD_AT(hdi_sched_now() + ns / 2);
    int err = hdi_wait_unless(&before, op->stop, op->deadline);
    if (!err) err = have_made(op);
    if (err) return err;
    hd_case after = HD_AT(hdi_sched_now() + ns - ns / 2);
    (void)hdi_wait_any_entered(&after, 1, 0, HD_FOREVER, false);
    return op->result;
}

static size_t sum(const struct op *op)
{
    size_t bytes = 0;
    for (int i = 0; i < op->count; i++) bytes += op->parts[i].iov_len;
    return bytes;
}

/* Read what the kernel has in memory, in no more time than that takes. Returns false if that is not
 * all of it: the end of the file looks the same. */
static bool read_at_hand(struct op *op)
{
    if (op->call != PREADV || op->offset < 0 || op->count > IOV_MAX) return false;
    op->result = hdi_sys(op->runtime, preadv_now, op->fd, op->parts, op->count, op->offset);
    return op->result > 0 && (size_t)op->result == sum(op);
}

static bool can_fly(const struct op *op)
{
    return op->call == PREADV || op->call == PWRITEV || op->call == FSYNC;
}

/* As hdi_lane_fly(). */
static ssize_t fly(struct hdi_lane *lane, const struct op *op)
{
    struct hdi_flight flight = {.fd = op->fd, .parts = op->parts, .count = (unsigned)op->count,
                                .offset = (uint64_t)op->offset, .stop = op->stop};
    flight.kind = op->call == PREADV    ? HDI_FLIGHT_READ
                  : op->call == PWRITEV ? HDI_FLIGHT_WRITE
                  : op->flags           ? HDI_FLIGHT_DATA_SYNC
                                        : HDI_FLIGHT_SYNC;
    return hdi_lane_fly(lane, &flight, op->deadline);
}

/* Without another thread, if that is possible. Returns -ENOSYS if not. */
static ssize_t run_by_kernel(struct op *op, struct hd_task *self)
{
    struct hdi_lane *lane = can_fly(op) ? hdi_lane_for_flights(op->runtime) : NULL;
    if (!lane && op->call != PREADV) return -ENOSYS;
    if (!lane && hdi_task_metered()) return -ENOSYS; /* hd_blocking() pays, and once is enough. */
    const int err = hdi_attend(self, HDI_COST_SYSCALL, false, NULL);
    if (err) return err;
    if (read_at_hand(op)) return op->result;
    return lane ? fly(lane, op) : -ENOSYS;
}

static bool moves_bytes(const struct op *op)
{
    return op->call == PREADV || op->call == PWRITEV;
}

/* With HD_NOW. What the kernel cannot tell it would wait for, the caller makes: it is what a
 * descriptor that does not block would do, and HD_READABLE() says that files are ready. */
static ssize_t run_now(struct op *op, struct hd_task *self)
{
    const int err = hdi_wait_enter_self(self, HD_NOW, HDI_COST_SYSCALL, NULL);
    if (err) return err;
    if (!moves_bytes(op)) return -EAGAIN;
    if (op->runtime->world->kind == HD_WORLD_SIM) return make(op);
    if (op->call == PREADV) {
        const ssize_t n =
            hdi_sys(op->runtime, preadv_now, op->fd, op->parts, op->count, op->offset);
        if (n != -EOPNOTSUPP) return n;
    }
    const int ready = hdi_sys(op->runtime, poll, op->fd); /* It may be a device. */
    if (ready < 0) return ready;
    const unsigned wanted = op->call == PREADV ? HDI_READY_IN : HDI_READY_OUT;
    return (unsigned)ready & wanted ? make(op) : -EAGAIN;
}

/* Have it made, and wait for it. */
static ssize_t run(struct op *op)
{
    struct hd_task *self = hdi_task_self();
    if (hdi_unlikely(op->deadline == HD_NOW)) return run_now(op, self);
    if (op->runtime->world->kind == HD_WORLD_SIM) return run_sim(op);
    const ssize_t result = self ? run_by_kernel(op, self) : -ENOSYS;
    if (result != -ENOSYS) return result;
    const int err = have_made(op);
    return err ? err : op->result;
}

/* The caller itself makes it: a stackless task, which cannot wait. */
static ssize_t run_here(struct op *op, struct hd_task *self)
{
    const int err = hdi_attend(self, HDI_COST_SYSCALL, true, NULL);
    return err ? err : make(op);
}

/* ---- on handles ---- */

static ssize_t try_make(struct hdi_source *source, void *arg)
{
    struct op *op = arg;
    op->runtime = source->runtime;
    op->fd = source->fd;
    return make(op);
}

/* Context: who uses the source. A device is woken when it is readable, too, and what is left of
 * calls on it does not take long. */
static ssize_t run_with(struct hdi_source *source, hd_io file, struct op *op)
{
    struct hd_task *self = hdi_task_self();
    const bool waits = !self || self->kind == HDI_TASK_FIBER;
    const hd_case closed = hdi_source_closed(source, file);
    op->runtime = source->runtime;
    op->fd = source->fd;
    op->stop = source->kind == HDI_SOURCE_FILE ? &closed : NULL;
    const ssize_t result = waits ? run(op) : run_here(op, self);
    op->stop = NULL;
    return result;
}

/* `no_file`: what it returns for a handle of another kind. */
static ssize_t run_on(hd_io file, struct op *op, int no_file)
{
    struct hdi_source *source = hdi_source_hold(file);
    if (!source) return -EBADF;
    const bool device = source->kind == HDI_SOURCE_DEVICE;
    const bool by_readiness = device && moves_bytes(op);
    ssize_t result = no_file;
    if (source->kind == HDI_SOURCE_FILE || (device && !by_readiness)) {
        result = run_with(source, file, op);
    }
    hdi_source_release(source);
    if (!by_readiness) return result;
    return hdi_source_do(file, op->call == PWRITEV, try_make, op, 0, op->deadline);
}

ssize_t hdi_file_readv(hd_io io, const struct iovec *parts, int count, int64_t offset,
                       int64_t deadline)
{
    struct op op = {.call = PREADV, .parts = parts, .count = count, .offset = offset,
                    .deadline = deadline};
    return run_on(io, &op, -ESPIPE);
}

ssize_t hdi_file_writev(hd_io io, const struct iovec *parts, int count, int64_t offset,
                        int64_t deadline)
{
    struct op op = {.call = PWRITEV, .parts = parts, .count = count, .offset = offset,
                    .deadline = deadline};
    return run_on(io, &op, -ESPIPE);
}

ssize_t hd_pread_until(hd_io file, void *buffer, size_t bytes, int64_t offset, int64_t deadline)
{
    if (offset < 0) return -EINVAL;
    const struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    return hdi_file_readv(file, &part, 1, offset, deadline);
}

ssize_t hd_pread(hd_io file, void *buffer, size_t bytes, int64_t offset)
{
    return hd_pread_until(file, buffer, bytes, offset, HD_FOREVER);
}

ssize_t hd_pwrite_until(hd_io file, const void *buffer, size_t bytes, int64_t offset,
                        int64_t deadline)
{
    if (offset < 0) return -EINVAL;
    const struct iovec part = {.iov_base = (void *)buffer, .iov_len = bytes};
    return hdi_file_writev(file, &part, 1, offset, deadline);
}

ssize_t hd_pwrite(hd_io file, const void *buffer, size_t bytes, int64_t offset)
{
    return hd_pwrite_until(file, buffer, bytes, offset, HD_FOREVER);
}

int hd_file_sync_until(hd_io file, bool data_only, int64_t deadline)
{
    struct op op = {.call = FSYNC, .flags = data_only, .deadline = deadline};
    return (int)run_on(file, &op, -EINVAL);
}

int hd_file_sync(hd_io file, bool data_only)
{
    return hd_file_sync_until(file, data_only, HD_FOREVER);
}

int hd_file_truncate_until(hd_io file, int64_t bytes, int64_t deadline)
{
    struct op op = {.call = FTRUNCATE, .offset = bytes, .deadline = deadline};
    return (int)run_on(file, &op, -EINVAL);
}

int hd_file_truncate(hd_io file, int64_t bytes)
{
    return hd_file_truncate_until(file, bytes, HD_FOREVER);
}

int hd_file_stat_until(hd_io file, struct stat *info, int64_t deadline)
{
    struct stat found;
    struct op op = {.call = FSTAT, .info = &found, .deadline = deadline};
    const int err = (int)run_on(file, &op, -EINVAL);
    if (!err) *info = found;
    return err;
}

int hd_file_stat(hd_io file, struct stat *info)
{
    return hd_file_stat_until(file, info, HD_FOREVER);
}

/* ---- by name ---- */

/* In the caller's runtime. */
static ssize_t run_named(struct op *op)
{
    op->runtime = hdi_io_runtime();
    return op->runtime ? run(op) : -EINVAL;
}

int hd_file_open_until(hd_io *file, const char *path, int flags, mode_t mode, int64_t deadline)
{
    struct op op = {.call = OPEN, .path = path, .flags = flags, .mode = mode,
                    .deadline = deadline};
    const int fd = (int)run_named(&op);
    return fd < 0 ? fd : hdi_source_create(op.runtime, fd, op.kind, file);
}

int hd_file_open(hd_io *file, const char *path, int flags, mode_t mode)
{
    return hd_file_open_until(file, path, flags, mode, HD_FOREVER);
}

int hd_stat_until(const char *path, struct stat *info, int64_t deadline)
{
    struct stat found;
    struct op op = {.call = STAT, .path = path, .info = &found, .deadline = deadline};
    const int err = (int)run_named(&op);
    if (!err) *info = found;
    return err;
}

int hd_stat(const char *path, struct stat *info)
{
    return hd_stat_until(path, info, HD_FOREVER);
}

int hd_rename_until(const char *from, const char *to, int64_t deadline)
{
    struct op op = {.call = RENAME, .path = from, .to = to, .deadline = deadline};
    return (int)run_named(&op);
}

int hd_rename(const char *from, const char *to)
{
    return hd_rename_until(from, to, HD_FOREVER);
}

int hd_unlink_until(const char *path, int64_t deadline)
{
    struct op op = {.call = UNLINK, .path = path, .deadline = deadline};
    return (int)run_named(&op);
}

int hd_unlink(const char *path)
{
    return hd_unlink_until(path, HD_FOREVER);
}

int hd_mkdir_until(const char *path, mode_t mode, int64_t deadline)
{
    struct op op = {.call = MKDIR, .path = path, .mode = mode, .deadline = deadline};
    return (int)run_named(&op);
}

int hd_mkdir(const char *path, mode_t mode)
{
    return hd_mkdir_until(path, mode, HD_FOREVER);
}

int hd_rmdir_until(const char *path, int64_t deadline)
{
    struct op op = {.call = RMDIR, .path = path, .deadline = deadline};
    return (int)run_named(&op);
}

int hd_rmdir(const char *path)
{
    return hd_rmdir_until(path, HD_FOREVER);
}

int hd_dir_sync_until(const char *path, int64_t deadline)
{
    struct op op = {.call = SYNC_DIR, .path = path, .deadline = deadline};
    return (int)run_named(&op);
}

int hd_dir_sync(const char *path)
{
    return hd_dir_sync_until(path, HD_FOREVER);
}

/* ---- directories ---- */

/* All entries are read at once, so that the rest does not wait. */
struct hd_dir {
    char *entries; /* {type, name, 0} ... */
    size_t bytes, at;
};

int hd_dir_open_until(hd_dir **dir, const char *path, int64_t deadline)
{
    struct hd_dir *made = malloc(sizeof(*made));
    if (!made) return -ENOMEM;
    *made = (struct hd_dir){.entries = NULL};
    struct op op = {.call = LIST, .path = path, .entries = &made->entries, .deadline = deadline};
    const ssize_t bytes = run_named(&op);
    if (bytes < 0) {
        free(made);
        return (int)bytes;
    }
    made->bytes = (size_t)bytes;
    *dir = made;
    return 0;
}

int hd_dir_open(hd_dir **dir, const char *path)
{
    return hd_dir_open_until(dir, path, HD_FOREVER);
}

int hd_dir_read(hd_dir *dir, hd_dir_entry *entry)
{
    if (dir->at == dir->bytes) return 0;
    const char *found = dir->entries + dir->at;
    const size_t bytes = strlen(found + 1) + 1;
    dir->at += 1 + bytes;
    if (bytes > sizeof(entry->name)) return -ENAMETOOLONG; /* No file system of Linux has one. */
    entry->type = (unsigned char)found[0];
    memcpy(entry->name, found + 1, bytes);
    return 1;
}

void hd_dir_close(hd_dir *dir)
{
    if (!dir) return;
    free(dir->entries);
    free(dir);
}
