/* SPDX-License-Identifier: MIT
 *
 * file: files and directories.
 *
 *   hd_io file;
 *   err = hd_file_open(&file, "log.txt", O_WRONLY | O_CREAT | O_APPEND, 0644);
 *   n = hd_pwrite(file, text, length, 0);
 *   err = hd_file_sync(file, false);
 *
 * Files do not tell when they are ready, so these calls are done by the kernel's io_uring, or by a
 * thread that may block (hd_dispatcher_io()); the fiber waits meanwhile. A call that has begun
 * cannot be taken back: a cancel, or a deadline of a scope around, is seen before it begins, or by
 * the next one. In sim they go to a simulated disk (heddle/sim.h), with a tree of its own.
 *
 * All: Context: fiber; thread (which blocks).  Switches: yes.  Allocates: cached.  Beside what they
 * list they return the error of the system, and -ECANCELED if cancelled before they began.
 */
#ifndef HEDDLE_FILE_H
#define HEDDLE_FILE_H

#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stat; /* <sys/stat.h> */

/* Open or create a file, with the flags of <fcntl.h>; O_CLOEXEC is set. hd_read() and hd_write()
 * use its position. Returns: 0, -ENOENT, -EACCES, -EEXIST, -EMFILE, ... */
HD_API HD_MUST_USE int hd_file_open(hd_io *file, const char *path, int flags, mode_t mode);

/* Read or write at an offset. Returns: how many bytes, fewer only at the end of the file or of the
 * disk; 0: the end; -ENOSPC, -EIO, -EINVAL for a negative offset, ... */
HD_API HD_MUST_USE ssize_t hd_pread(hd_io file, void *buffer, size_t bytes, int64_t offset);
HD_API HD_MUST_USE ssize_t hd_pwrite(hd_io file, const void *buffer, size_t bytes, int64_t offset);

/* Wait until what was written is on the disk; with `data_only` without its times. */
HD_API HD_MUST_USE int hd_file_sync(hd_io file, bool data_only);

HD_API HD_MUST_USE int hd_file_truncate(hd_io file, int64_t bytes);
HD_API HD_MUST_USE int hd_file_stat(hd_io file, struct stat *info);

/* ---- by name ---- */

HD_API HD_MUST_USE int hd_stat(const char *path, struct stat *info); /* follows links */
HD_API HD_MUST_USE int hd_rename(const char *from, const char *to);  /* replaces what is there */
HD_API HD_MUST_USE int hd_unlink(const char *path);
HD_API HD_MUST_USE int hd_mkdir(const char *path, mode_t mode);
HD_API HD_MUST_USE int hd_rmdir(const char *path);

/* Wait until what was created, renamed or removed in a directory is on the disk. */
HD_API HD_MUST_USE int hd_dir_sync(const char *path);

/* ---- reading directories ---- */

typedef struct hd_dir hd_dir;

typedef struct hd_dir_entry {
    char name[256];
    unsigned char type; /* DT_REG, DT_DIR, ... of readdir(3); DT_UNKNOWN: ask hd_stat() */
} hd_dir_entry;

HD_API HD_MUST_USE int hd_dir_open(hd_dir **dir, const char *path);

/* The next entry, without "." and "..", in no particular order; in sim by name.
 * Returns: 1; 0: there are no more; -errno. */
HD_API HD_MUST_USE int hd_dir_read(hd_dir *dir, hd_dir_entry *entry);
HD_API void hd_dir_close(hd_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
