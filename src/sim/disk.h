/* SPDX-License-Identifier: MIT
 *
 * disk: the simulated disk of a host: a tree of files, and what a crash leaves of it.
 *
 * What is written is seen at once. It is durable once it was synced: the bytes and size of a file
 * by fsync, names (what was created, renamed, removed) by sync_dir. A crash decides about the rest,
 * by draws from the seed: see disk_data.c about bytes, disk_names.c about names.
 *
 * The calls have the signatures of struct hdi_sys, whose table is in sim/net_sys.c. At first there
 * is "/tmp", durable. "/dev/null" can be opened, and is in no directory.
 */
#ifndef HDI_SIM_DISK_H
#define HDI_SIM_DISK_H

#include <heddle/sim.h>

#include "os/sys.h"

/* Descriptors of files, apart from those of sockets: the host in the higher bits. */
#define HDI_DISK_FD (HDI_SIM_FD | (1 << 27))

static inline bool hdi_disk_fd(int fd)
{
    return (fd & HDI_DISK_FD) == HDI_DISK_FD;
}

struct hdi_disk;

/* ---- what hosts provide (sim/host.c) ---- */

/* The disk of the host the caller is on; NULL: that is down, or the caller is of before its crash,
 * and the call is to return -EHOSTDOWN. */
struct hdi_disk *hdi_host_disk(struct hd_runtime *runtime);

/* The disk of a host by its number, up or not. NULL: there is no such host. */
struct hdi_disk *hdi_host_disk_at(struct hd_runtime *runtime, uint32_t host);

/* Where the caller's process runs, which is where paths without a slash at first begin. */
const char *hdi_host_dir(void);

/* ---- for hosts ---- */

/* The disk of a host by its number, below 1 << 11, the same in every run. NULL: no memory. */
struct hdi_disk *hdi_disk_create(struct hd_runtime *runtime, uint32_t host);
void hdi_disk_destroy(struct hdi_disk *disk);

/* From now on it is so. NULL: as at first. */
void hdi_disk_set(struct hdi_disk *disk, const hd_sim_disk_options *options);

/* Open descriptors are dead: -EHOSTDOWN, until they are closed. What was not synced is kept, lost
 * or torn. */
void hdi_disk_crash(struct hdi_disk *disk);

/* ---- the calls ---- */

int hdi_disk_open(struct hd_runtime *runtime, const char *path, int flags, mode_t mode);
ssize_t hdi_disk_preadv(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                        int64_t offset);
ssize_t hdi_disk_pwritev(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                         int64_t offset);
int hdi_disk_fsync(struct hd_runtime *runtime, int fd, bool data_only);
int hdi_disk_ftruncate(struct hd_runtime *runtime, int fd, int64_t bytes);
int hdi_disk_fstat(struct hd_runtime *runtime, int fd, struct stat *info);
int hdi_disk_stat(struct hd_runtime *runtime, const char *path, struct stat *info);
int hdi_disk_rename(struct hd_runtime *runtime, const char *from, const char *to);
int hdi_disk_unlink(struct hd_runtime *runtime, const char *path);
int hdi_disk_mkdir(struct hd_runtime *runtime, const char *path, mode_t mode);
int hdi_disk_rmdir(struct hd_runtime *runtime, const char *path);
ssize_t hdi_disk_list(struct hd_runtime *runtime, const char *path, char **entries);
int hdi_disk_sync_dir(struct hd_runtime *runtime, const char *path);
int hdi_disk_close(struct hd_runtime *runtime, int fd);

/* Another descriptor of the same open file, as of dup(). */
int hdi_disk_copy(struct hd_runtime *runtime, int fd);

#endif
