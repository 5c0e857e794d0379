/* SPDX-License-Identifier: MIT
 *
 * disk: the calls of the simulated disk: descriptors, and faults.
 */
#include "sim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "sim/disk_tree.h"
#include "sim/net.h"

enum { HOST_SHIFT = 16, FILES_MAX = 1 << HOST_SHIFT, BLOCK_BYTES = 4096 };

#define LATENCY_NS  (HD_MS_NS / 20)
#define DEFAULT_PPM (HD_SIM_ALWAYS / 2)

/* ---- draws ---- */

uint64_t hdi_disk_draw(const struct hdi_disk *disk, enum hdi_disk_draw kind, uint64_t n)
{
    const uint64_t key = (uint64_t)disk->host << 8 | (uint64_t)kind;
    return hdi_stream_draw(disk->runtime->options.seed, HDI_PURPOSE_DISK, key, n);
}

bool hdi_disk_chance(const struct hdi_disk *disk, enum hdi_disk_draw kind, uint64_t n,
                     uint32_t ppm)
{
    const uint64_t draw = hdi_disk_draw(disk, kind, n) >> 32;
    return (draw * HD_SIM_ALWAYS) >> 32 < ppm;
}

/* Whether a call fails. Always a draw, so that a chance leaves later draws as they are. */
static bool fails(struct hdi_disk *disk, enum hdi_disk_draw kind, uint32_t ppm, const char *what)
{
    return hdi_disk_chance(disk, kind, disk->drawn[kind]++, ppm) &&
           hdi_schedule_fault(disk->runtime, what);
}

static bool read_fails(struct hdi_disk *disk)
{
    return fails(disk, HDI_DRAW_READ, disk->options.read_ppm, "read fails");
}

static bool write_fails(struct hdi_disk *disk)
{
    return fails(disk, HDI_DRAW_WRITE, disk->options.write_ppm, "write fails");
}

static bool sync_fails(struct hdi_disk *disk)
{
    return fails(disk, HDI_DRAW_SYNC, disk->options.sync_ppm, "sync fails");
}

/* ---- inodes ---- */

struct hdi_inode *hdi_inode_create(struct hdi_disk *disk, mode_t mode)
{
    struct hdi_inode *inode = calloc(1, sizeof(*inode));
    if (!inode) return NULL;
    inode->number = disk->number_next++;
    inode->refs = 1;
    inode->mode = mode;
    inode->changed_ns = disk->runtime->world->now(disk->runtime);
    hdi_list_push_back(&disk->inodes, &inode->link);
    return inode;
}

static void free_inode(struct hdi_disk *disk, struct hdi_inode *inode)
{
    if (hdi_inode_is_dir(inode))
        hdi_names_free(disk, inode);
    else
        hdi_data_free(inode);
    hdi_list_remove(&inode->link);
    free(inode);
}

void hdi_inode_drop(struct hdi_disk *disk, struct hdi_inode *inode)
{
    HDI_ASSERT(inode->refs > 0); /* TREE-2 */
    if (--inode->refs > 0) return;
    const bool busy = !hdi_list_empty(&disk->garbage);
    hdi_list_remove(&inode->link);
    hdi_list_push_back(&disk->garbage, &inode->link);
    if (busy) return; /* A call further up frees it: a deep tree needs no deep stack. */
    while (!hdi_list_empty(&disk->garbage))
        free_inode(disk, (struct hdi_inode *)disk->garbage.next);
}

void hdi_inode_lost_user(struct hdi_disk *disk, struct hdi_inode *inode)
{
    if (hdi_inode_is_dir(inode) || inode->names > 0 || inode->opens > 0) return;
    disk->used -= (uint64_t)inode->size;
}

/* ---- descriptors ---- */

/* The first free one. Returns its index; -ENOMEM, -EMFILE. */
static int find_place(struct hdi_disk *disk)
{
    size_t at = 0;
    while (at < disk->file_room && disk->files[at]) at++;
    if (at == FILES_MAX) return -EMFILE;
    if (at == disk->file_room) {
        const size_t room = at ? 2 * at : 16;
        struct hdi_file **files = realloc(disk->files, room * sizeof(*files));
        if (!files) return -ENOMEM;
        memset(files + at, 0, (room - at) * sizeof(*files));
        disk->files = files;
        disk->file_room = room;
    }
    return (int)at;
}

/* Returns as above. */
static int add_file(struct hdi_disk *disk, struct hdi_inode *inode, int flags)
{
    const int at = find_place(disk);
    if (at < 0) return at;
    struct hdi_file *file = calloc(1, sizeof(*file));
    if (!file) return -ENOMEM;
    file->inode = inode;
    file->refs = 1;
    file->flags = flags;
    inode->refs++;
    inode->opens++;
    disk->files[at] = file;
    return at;
}

/* It lets its inode go. */
static void let_go(struct hdi_disk *disk, struct hdi_file *file)
{
    struct hdi_inode *inode = file->inode;
    if (!inode) return;
    file->inode = NULL;
    inode->opens--;
    hdi_inode_lost_user(disk, inode);
    hdi_inode_drop(disk, inode);
}

static void remove_file(struct hdi_disk *disk, size_t at)
{
    struct hdi_file *file = disk->files[at];
    disk->files[at] = NULL;
    if (--file->refs > 0) return;
    let_go(disk, file);
    free(file);
}

/* ---- disks ---- */

void hdi_disk_set(struct hdi_disk *disk, const hd_sim_disk_options *options)
{
    hd_sim_disk_options set = HD_SIM_DISK_OPTIONS_INIT;
    if (options) set = *options;
    if (set.latency_ns == 0) set.latency_ns = LATENCY_NS;
    if (set.lost_ppm == 0) set.lost_ppm = DEFAULT_PPM;
    if (set.torn_ppm == 0) set.torn_ppm = DEFAULT_PPM;
    hdi_mutex_lock(&disk->lock);
    disk->options = set;
    hdi_mutex_unlock(&disk->lock);
}

struct hdi_disk *hdi_disk_create(struct hd_runtime *runtime, uint32_t host)
{
    HDI_ASSERT(host < 1u << 11);
    struct hdi_disk *disk = calloc(1, sizeof(*disk));
    if (!disk) return NULL;
    disk->runtime = runtime;
    disk->host = host;
    disk->number_next = disk->write_next = 1;
    hdi_list_init(&disk->inodes);
    hdi_list_init(&disk->garbage);
    hdi_list_init(&disk->changes);
    hdi_disk_set(disk, NULL);
    disk->root = hdi_inode_create(disk, S_IFDIR | 0755);
    if (disk->root) disk->root->parent = disk->root;
    if (!disk->root || hdi_names_mkdir(disk, "/tmp", 01777)) {
        hdi_disk_destroy(disk);
        return NULL;
    }
    hdi_names_sync(disk, disk->root);
    return disk;
}

/* What is not durable has its fate, and all is as it is durable. */
static void settle(struct hdi_disk *disk)
{
    for (struct hdi_list *l = disk->inodes.next; l != &disk->inodes; l = l->next) {
        struct hdi_inode *inode = (struct hdi_inode *)l;
        if (!hdi_inode_is_dir(inode)) hdi_data_crash(disk, inode);
    }
    hdi_names_crash(disk);
    disk->used = 0;
    for (struct hdi_list *l = disk->inodes.next; l != &disk->inodes; l = l->next) {
        const struct hdi_inode *inode = (struct hdi_inode *)l;
        if (!hdi_inode_is_dir(inode)) disk->used += (uint64_t)inode->size;
    }
}

void hdi_disk_crash(struct hdi_disk *disk)
{
    hdi_mutex_lock(&disk->lock);
    for (size_t i = 0; i < disk->file_room; i++) {
        if (disk->files[i]) let_go(disk, disk->files[i]);
    }
    settle(disk);
    hdi_mutex_unlock(&disk->lock);
}

void hdi_disk_destroy(struct hdi_disk *disk)
{
    for (size_t i = 0; i < disk->file_room; i++) {
        if (disk->files[i]) remove_file(disk, i);
    }
    free(disk->files);
    settle(disk); /* No change refers to an inode any more. */
    if (disk->root) hdi_inode_drop(disk, disk->root);
    HDI_ASSERT(hdi_list_empty(&disk->inodes)); /* TREE-2 */
    free(disk);
}

/* ---- calls by descriptor ---- */

static int fd_of(const struct hdi_disk *disk, int at)
{
    return HDI_DISK_FD | (int)(disk->host << HOST_SHIFT) | at;
}

/* The disk of a descriptor, locked, and which of its files it is; NULL: it is none. */
static struct hdi_disk *enter_fd(struct hd_runtime *runtime, int fd, size_t *at)
{
    if (!hdi_disk_fd(fd)) return NULL;
    const uint32_t number = (uint32_t)fd & ~(uint32_t)HDI_DISK_FD;
    struct hdi_disk *disk = hdi_host_disk_at(runtime, number >> HOST_SHIFT);
    if (!disk) return NULL;
    *at = number % FILES_MAX;
    hdi_mutex_lock(&disk->lock);
    if (*at < disk->file_room && disk->files[*at]) return disk;
    hdi_mutex_unlock(&disk->lock);
    return NULL;
}

/* The same for who uses the file. Returns NULL, and *err, also for one of before a crash. */
static struct hdi_disk *enter_file(struct hd_runtime *runtime, int fd, struct hdi_file **file,
                                   int *err)
{
    size_t at;
    struct hdi_disk *disk = enter_fd(runtime, fd, &at);
    *err = disk ? -EHOSTDOWN : -EBADF;
    if (!disk) return NULL;
    *file = disk->files[at];
    if ((*file)->inode) return disk;
    hdi_mutex_unlock(&disk->lock);
    return NULL;
}

static ssize_t leave(struct hdi_disk *disk, ssize_t result)
{
    hdi_mutex_unlock(&disk->lock);
    return result;
}

static bool can_read(const struct hdi_file *file)
{
    return (file->flags & O_ACCMODE) != O_WRONLY;
}

static bool can_write(const struct hdi_file *file)
{
    return (file->flags & O_ACCMODE) != O_RDONLY;
}

static int sync_inode(struct hdi_disk *disk, struct hdi_inode *inode)
{
    const bool failed = sync_fails(disk);
    if (!hdi_inode_is_dir(inode))
        hdi_data_sync(inode, failed);
    else if (!failed)
        hdi_names_sync(disk, inode);
    return failed ? -EIO : 0;
}

static ssize_t read_file(struct hdi_disk *disk, struct hdi_file *file, const struct iovec *parts,
                         int count, int64_t offset)
{
    if (!can_read(file)) return -EBADF;
    if (hdi_inode_is_dir(file->inode)) return -EISDIR;
    if (offset < -1) return -EINVAL;
    if (file->inode->null) return 0;
    if (read_fails(disk)) return -EIO;
    const ssize_t n =
        hdi_data_read(file->inode, parts, count, offset < 0 ? file->position : offset);
    if (offset < 0) file->position += n;
    return n;
}

ssize_t hdi_disk_preadv(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                        int64_t offset)
{
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    return disk ? leave(disk, read_file(disk, file, parts, count, offset)) : err;
}

static ssize_t write_file(struct hdi_disk *disk, struct hdi_file *file, const struct iovec *parts,
                          int count, int64_t offset)
{
    struct hdi_inode *inode = file->inode;
    if (!can_write(file)) return -EBADF;
    if (offset < -1) return -EINVAL;
    if (inode->null) return (ssize_t)hdi_parts_bytes(parts, (size_t)count);
    if (write_fails(disk)) return -EIO;
    int64_t at = offset < 0 ? file->position : offset;
    if (file->flags & O_APPEND) at = inode->size; /* Linux does so whatever the offset is. */
    const ssize_t n = hdi_data_write(disk, inode, parts, count, at);
    if (n < 0) return n;
    if (offset < 0) file->position = at + n;
    inode->changed_ns = disk->runtime->world->now(disk->runtime);
    const int err = file->flags & (O_SYNC | O_DSYNC) ? sync_inode(disk, inode) : 0;
    return err ? err : n;
}

ssize_t hdi_disk_pwritev(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                         int64_t offset)
{
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    return disk ? leave(disk, write_file(disk, file, parts, count, offset)) : err;
}

int hdi_disk_fsync(struct hd_runtime *runtime, int fd, bool data_only)
{
    (void)data_only; /* Times are not kept apart. */
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    return disk ? (int)leave(disk, sync_inode(disk, file->inode)) : err;
}

static int truncate_file(struct hdi_disk *disk, struct hdi_file *file, int64_t bytes)
{
    if (!can_write(file) || file->inode->null) return -EINVAL; /* as ftruncate(2) */
    if (write_fails(disk)) return -EIO;
    file->inode->changed_ns = disk->runtime->world->now(disk->runtime);
    return hdi_data_resize(disk, file->inode, bytes);
}

int hdi_disk_ftruncate(struct hd_runtime *runtime, int fd, int64_t bytes)
{
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    return disk ? (int)leave(disk, truncate_file(disk, file, bytes)) : err;
}

static int stat_inode(struct hdi_disk *disk, const struct hdi_inode *inode, struct stat *info)
{
    if (read_fails(disk)) return -EIO;
    const bool dir = hdi_inode_is_dir(inode);
    memset(info, 0, sizeof(*info));
    info->st_dev = disk->host + 1;
    info->st_ino = inode->number;
    info->st_mode = inode->mode;
    info->st_nlink = dir ? 2 : inode->names;
    info->st_size = dir ? BLOCK_BYTES : inode->size;
    info->st_blksize = BLOCK_BYTES;
    info->st_blocks = (info->st_size + HDI_SECTOR - 1) / HDI_SECTOR;
    info->st_mtim.tv_sec = inode->changed_ns / HD_SECOND_NS;
    info->st_mtim.tv_nsec = inode->changed_ns % HD_SECOND_NS;
    info->st_atim = info->st_ctim = info->st_mtim;
    return 0;
}

int hdi_disk_fstat(struct hd_runtime *runtime, int fd, struct stat *info)
{
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    return disk ? (int)leave(disk, stat_inode(disk, file->inode, info)) : err;
}

int hdi_disk_close(struct hd_runtime *runtime, int fd)
{
    size_t at;
    struct hdi_disk *disk = enter_fd(runtime, fd, &at);
    if (!disk) return -EBADF;
    remove_file(disk, at);
    return (int)leave(disk, 0);
}

int hdi_disk_copy(struct hd_runtime *runtime, int fd)
{
    struct hdi_file *file;
    int err;
    struct hdi_disk *disk = enter_file(runtime, fd, &file, &err);
    if (!disk) return err;
    const int at = find_place(disk);
    if (at < 0) return (int)leave(disk, at);
    disk->files[at] = file;
    file->refs++;
    return (int)leave(disk, fd_of(disk, at));
}

/* ---- calls by name ---- */

static struct hdi_disk *enter(struct hd_runtime *runtime)
{
    struct hdi_disk *disk = hdi_host_disk(runtime);
    if (disk) hdi_mutex_lock(&disk->lock);
    return disk;
}

static int create_file(struct hdi_disk *disk, struct hdi_spot *spot, int flags, mode_t mode)
{
    if (!(flags & O_CREAT)) return -ENOENT;
    if (flags & O_DIRECTORY) return -EINVAL;
    if (spot->slash) return -EISDIR;
    if (write_fails(disk)) return -EIO;
    struct hdi_inode *inode = hdi_inode_create(disk, S_IFREG | (mode & 07777));
    if (!inode) return -ENOMEM;
    const int err = hdi_names_change(disk, &(struct hdi_naming){spot, inode}, 1);
    hdi_inode_drop(disk, inode);
    if (!err) spot->inode = inode; /* The name has it. */
    return err;
}

static int check_open(const struct hdi_inode *inode, int flags)
{
    if ((flags & O_CREAT) && (flags & O_EXCL)) return -EEXIST;
    if (!hdi_inode_is_dir(inode)) return flags & O_DIRECTORY ? -ENOTDIR : 0;
    return (flags & (O_CREAT | O_TRUNC)) || (flags & O_ACCMODE) != O_RDONLY ? -EISDIR : 0;
}

/* A file of no name, as long as it is open. */
static int open_null(struct hdi_disk *disk, int flags)
{
    struct hdi_inode *inode = hdi_inode_create(disk, S_IFREG | 0666);
    if (!inode) return -ENOMEM;
    inode->null = true;
    const int at = add_file(disk, inode, flags);
    hdi_inode_drop(disk, inode);
    return at < 0 ? at : fd_of(disk, at);
}

static int open_file(struct hdi_disk *disk, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
    if (strcmp(path, "/dev/null") == 0) return open_null(disk, flags);
    struct hdi_spot spot;
    int err = hdi_names_find(disk, path, &spot);
    if (err) return err;
    err = spot.inode ? check_open(spot.inode, flags) : create_file(disk, &spot, flags, mode);
    if (err) return err;
    const int at = add_file(disk, spot.inode, flags);
    if (at < 0) return at;
    if ((flags & O_TRUNC) && can_write(disk->files[at]))
        err = truncate_file(disk, disk->files[at], 0);
    if (!err) return fd_of(disk, at);
    remove_file(disk, (size_t)at);
    return err;
}

int hdi_disk_open(struct hd_runtime *runtime, const char *path, int flags, mode_t mode)
{
    struct hdi_disk *disk = enter(runtime);
    return disk ? (int)leave(disk, open_file(disk, path, flags, mode)) : -EHOSTDOWN;
}

/* What a path leads to. */
static int find_inode(struct hdi_disk *disk, const char *path, struct hdi_inode **inode)
{
    struct hdi_spot spot;
    const int err = hdi_names_find(disk, path, &spot);
    if (err) return err;
    *inode = spot.inode;
    return spot.inode ? 0 : -ENOENT;
}

static int find_dir(struct hdi_disk *disk, const char *path, struct hdi_inode **dir)
{
    const int err = find_inode(disk, path, dir);
    if (err) return err;
    return hdi_inode_is_dir(*dir) ? 0 : -ENOTDIR;
}

int hdi_disk_stat(struct hd_runtime *runtime, const char *path, struct stat *info)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    struct hdi_inode *inode;
    const int err = find_inode(disk, path, &inode);
    return (int)leave(disk, err ? err : stat_inode(disk, inode, info));
}

int hdi_disk_rename(struct hd_runtime *runtime, const char *from, const char *to)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    return (int)leave(disk, write_fails(disk) ? -EIO : hdi_names_rename(disk, from, to));
}

int hdi_disk_unlink(struct hd_runtime *runtime, const char *path)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    return (int)leave(disk, write_fails(disk) ? -EIO : hdi_names_unlink(disk, path));
}

int hdi_disk_mkdir(struct hd_runtime *runtime, const char *path, mode_t mode)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    return (int)leave(disk, write_fails(disk) ? -EIO : hdi_names_mkdir(disk, path, mode));
}

int hdi_disk_rmdir(struct hd_runtime *runtime, const char *path)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    return (int)leave(disk, write_fails(disk) ? -EIO : hdi_names_rmdir(disk, path));
}

ssize_t hdi_disk_list(struct hd_runtime *runtime, const char *path, char **entries)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    struct hdi_inode *dir;
    int err = find_dir(disk, path, &dir);
    if (!err && read_fails(disk)) err = -EIO;
    return leave(disk, err ? err : hdi_names_list(dir, entries));
}

int hdi_disk_sync_dir(struct hd_runtime *runtime, const char *path)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return -EHOSTDOWN;
    struct hdi_inode *dir;
    const int err = find_dir(disk, path, &dir);
    return (int)leave(disk, err ? err : sync_inode(disk, dir));
}

/* ---- time ---- */

int64_t hdi_disk_latency(struct hd_runtime *runtime)
{
    struct hdi_disk *disk = enter(runtime);
    if (!disk) return 0;
    const uint64_t draw = hdi_disk_draw(disk, HDI_DRAW_LATENCY, disk->drawn[HDI_DRAW_LATENCY]++);
    const int64_t least_ns = disk->options.latency_ns;
    return leave(disk, least_ns + (int64_t)(draw % (uint64_t)(least_ns + 1)));
}
