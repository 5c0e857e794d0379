/* SPDX-License-Identifier: MIT
 *
 * disk_tree: the inodes of a simulated disk, and how each keeps two states apart: what is there
 * now, and what is durable.
 *
 *   TREE-1  All of it belongs to the holder of the disk's lock.
 *   TREE-2  An inode is referred to by entries (of now and durable), changes that are not durable,
 *           and open descriptors; the last to go frees it.
 *   TREE-3  A directory's `now` is its `durable` and all changes that name it, in their order.
 *   TREE-4  now.room >= durable.room >= durable.count + pending, so that neither a sync nor a
 *           crash needs memory.
 */
#ifndef HDI_SIM_DISK_TREE_H
#define HDI_SIM_DISK_TREE_H

#include "base/list.h"
#include "os/mutex.h"
#include "sched/runtime.h"
#include "sim/disk.h"
#include "sim/schedule.h"

#define HDI_SECTOR 512

struct hdi_name {
    uint32_t refs;
    char text[];
};

struct hdi_entry {
    struct hdi_name *name;
    struct hdi_inode *inode;
};

struct hdi_entries { /* sorted by name */
    struct hdi_entry *list;
    size_t count, room;
};

struct hdi_inode {
    struct hdi_list link; /* first: in hdi_disk.inodes, by number */
    uint64_t number;
    uint32_t refs;  /* TREE-2 */
    uint32_t names; /* entries of now */
    uint32_t opens;
    mode_t mode;
    bool null;      /* of "/dev/null": nothing is in it, whatever is written */
    int64_t changed_ns;
    union {
        struct { /* a directory */
            struct hdi_inode *parent; /* of now; the root is its own */
            struct hdi_entries now, durable;
            size_t pending;           /* changes that name it, twice if both of a rename do */
        };
        struct { /* a file: disk_data.c */
            char *bytes, *kept;       /* now and durable, of `room` bytes each */
            uint64_t *writes;         /* by sector: the write that is not durable; 0: none */
            int64_t room, size, kept_size;
            int64_t dirty_from, dirty_to; /* no sector outside has such a write */
            uint64_t resized;         /* the write or truncation that left the size; 0: durable */
        };
    };
};

struct hdi_file {
    struct hdi_inode *inode; /* NULL: it was opened before a crash */
    uint32_t refs;           /* descriptors */
    int flags;
    int64_t position;
};

/* Streams of the disk, each with draws of its own. */
enum hdi_disk_draw {
    HDI_DRAW_LATENCY,
    HDI_DRAW_READ,
    HDI_DRAW_WRITE,
    HDI_DRAW_SYNC,
    HDI_DRAW_LOST,   /* the n-th write or change */
    HDI_DRAW_TORN,   /* the n-th write */
    HDI_DRAW_SECTOR, /* sectors of a torn one */
    HDI_DRAWS,
};

struct hdi_disk {
    struct hdi_mutex lock;
    struct hd_runtime *runtime;
    uint32_t host;
    hd_sim_disk_options options; /* every default filled in */
    uint64_t drawn[HDI_DRAWS];   /* of the first four: how many */
    uint64_t used;               /* bytes of files that have a name or are open */
    uint64_t number_next;        /* of inodes */
    uint64_t write_next;         /* of writes, truncations and changes; never 0 */
    struct hdi_list inodes;
    struct hdi_list garbage;     /* inodes that are being freed */
    struct hdi_inode *root;
    struct hdi_list changes;     /* struct hdi_change, oldest first (disk_names.c) */
    size_t change_count;
    struct hdi_file **files;     /* by the lower bits of the descriptor; NULL: free */
    size_t file_room;
};

static inline bool hdi_inode_is_dir(const struct hdi_inode *inode)
{
    return S_ISDIR(inode->mode);
}

/* ---- disk.c ---- */

/* With one reference, the caller's. NULL: no memory. */
struct hdi_inode *hdi_inode_create(struct hdi_disk *disk, mode_t mode);
void hdi_inode_drop(struct hdi_disk *disk, struct hdi_inode *inode);

/* A name or a descriptor of it went: it may not count as used any more. */
void hdi_inode_lost_user(struct hdi_disk *disk, struct hdi_inode *inode);

/* The n-th draw of a stream, and whether it is below a chance. */
uint64_t hdi_disk_draw(const struct hdi_disk *disk, enum hdi_disk_draw kind, uint64_t n);
bool hdi_disk_chance(const struct hdi_disk *disk, enum hdi_disk_draw kind, uint64_t n,
                     uint32_t ppm);

/* ---- disk_data.c: one file's bytes ---- */

ssize_t hdi_data_read(const struct hdi_inode *inode, const struct iovec *parts, int count,
                      int64_t offset);
ssize_t hdi_data_write(struct hdi_disk *disk, struct hdi_inode *inode, const struct iovec *parts,
                       int count, int64_t offset);
int hdi_data_resize(struct hdi_disk *disk, struct hdi_inode *inode, int64_t bytes);

/* `failed`: nothing is written, and no later sync will write it. */
void hdi_data_sync(struct hdi_inode *inode, bool failed);
void hdi_data_crash(struct hdi_disk *disk, struct hdi_inode *inode);
void hdi_data_free(struct hdi_inode *inode);

/* ---- disk_names.c ---- */

/* What a path leads to. */
struct hdi_spot {
    struct hdi_inode *dir;   /* where its name is; NULL: it is the root, "." or ".." */
    const char *name;
    size_t length;
    struct hdi_inode *inode; /* NULL: there is none of that name */
    bool slash;              /* it ends with one */
};

int hdi_names_find(struct hdi_disk *disk, const char *path, struct hdi_spot *spot);

/* One or two names change, both or neither. */
struct hdi_naming {
    const struct hdi_spot *spot;
    struct hdi_inode *inode; /* what it is to be the name of; NULL: nothing */
};
int hdi_names_change(struct hdi_disk *disk, const struct hdi_naming *namings, unsigned count);

int hdi_names_unlink(struct hdi_disk *disk, const char *path);
int hdi_names_mkdir(struct hdi_disk *disk, const char *path, mode_t mode);
int hdi_names_rmdir(struct hdi_disk *disk, const char *path);
int hdi_names_rename(struct hdi_disk *disk, const char *from, const char *to);
ssize_t hdi_names_list(const struct hdi_inode *dir, char **entries);

/* What changed in a directory becomes durable, and what that depends on. */
void hdi_names_sync(struct hdi_disk *disk, const struct hdi_inode *dir);
void hdi_names_crash(struct hdi_disk *disk);
void hdi_names_free(struct hdi_disk *disk, struct hdi_inode *dir);

#endif
