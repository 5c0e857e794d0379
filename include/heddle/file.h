/* SPDX-License-Identifier: MIT
 *
 * file: files and directories.
 *
 *   hd_io file;
 *   err = hd_file_open(&file, "log.txt", O_WRONLY | O_CREAT | O_APPEND, 0644);
 *   n = hd_pwrite(file, text, length, 0);
 *   err = hd_file_sync(file, false);
 *
 * Files do not tell when they are ready, so these calls are made by the kernel's io_uring, or by a
 * thread that may block (hd_dispatcher_io()); the fiber waits meanwhile. In sim they go to a
 * simulated disk (heddle/sim.h), with a tree of its own.
 *
 * A cancel, a deadline of the call or of a scope around, and hd_close() of the handle by another
 * end a call that waits for its turn: what it would have done never happens. One that io_uring
 * makes is cancelled in the kernel, which may be too late; one that a thread has begun is waited
 * for. What was done is no error: the call returns the result, however late. The memory is the
 * caller's again in any case.
 *
 * With HD_NOW, reads bring what the kernel has in memory, or -EAGAIN, and writes go there; where
 * the file system cannot tell whether it would wait, the caller itself makes the call. All others
 * are -EAGAIN. A stackless task, which cannot wait, makes calls on handles itself, whatever the
 * deadline; a plain thread does, if that has not passed.
 *
 * All: Context: fiber; thread (which blocks).  Switches: yes.  Allocates: cached.  Beside what they
 * list they return the error of the system, -ECANCELED, -ETIMEDOUT, and -EAGAIN with HD_NOW.
 */
#ifndef HEDDLE_FILE_H
#define HEDDLE_FILE_H

#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stat; /* <sys/stat.h> */

/* Open or create a file, with the flags of <fcntl.h>; O_CLOEXEC is set. hd_read() and hd_write()
 * use its position. A FIFO, a terminal, or another device that can be waited for is read and
 * written as a pipe is: no thread is taken, and what waits ends at once, but to open it may take as
 * long as the system waits for its other end. Returns: 0, -ENOENT, -EACCES, -EEXIST, -EMFILE, ...
 */
HD_API HD_MUST_USE int hd_file_open(hd_io *file, const char *path, int flags, mode_t mode);
HD_API HD_MUST_USE int hd_file_open_until(hd_io *file, const char *path, int flags, mode_t mode,
                                          int64_t deadline);

/* Read or write at an offset. Returns: how many bytes, fewer only at the end of the file or of the
 * disk, or if it was ended halfway, or with HD_NOW; 0: the end; -ENOSPC, -EIO, -EINVAL for a
 * negative offset, ... */
HD_API HD_MUST_USE ssize_t hd_pread(hd_io file, void *buffer, size_t bytes, int64_t offset);
HD_API HD_MUST_USE ssize_t hd_pread_until(hd_io file, void *buffer, size_t bytes, int64_t offset,
                                          int64_t deadline);
HD_API HD_MUST_USE ssize_t hd_pwrite(hd_io file, const void *buffer, size_t bytes, int64_t offset);
HD_API HD_MUST_USE ssize_t hd_pwrite_until(hd_io file, const void *buffer, size_t bytes,
                                           int64_t offset, int64_t deadline);

/* Wait until what was written is on the disk; with `data_only` without its times. */
HD_API HD_MUST_USE int hd_file_sync(hd_io file, bool data_only);
HD_API HD_MUST_USE int hd_file_sync_until(hd_io file, bool data_only, int64_t deadline);

HD_API HD_MUST_USE int hd_file_truncate(hd_io file, int64_t bytes);
HD_API HD_MUST_USE int hd_file_truncate_until(hd_io file, int64_t bytes, int64_t deadline);
HD_API HD_MUST_USE int hd_file_stat(hd_io file, struct stat *info);
HD_API HD_MUST_USE int hd_file_stat_until(hd_io file, struct stat *info, int64_t deadline);

/* ---- by name ---- */

HD_API HD_MUST_USE int hd_stat(const char *path, struct stat *info); /* follows links */
HD_API HD_MUST_USE int hd_stat_until(const char *path, struct stat *info, int64_t deadline);
HD_API HD_MUST_USE int hd_rename(const char *from, const char *to); /* replaces what is there */
HD_API HD_MUST_USE int hd_rename_until(const char *from, const char *to, int64_t deadline);
HD_API HD_MUST_USE int hd_unlink(const char *path);
HD_API HD_MUST_USE int hd_unlink_until(const char *path, int64_t deadline);
HD_API HD_MUST_USE int hd_mkdir(const char *path, mode_t mode);
HD_API HD_MUST_USE int hd_mkdir_until(const char *path, mode_t mode, int64_t deadline);
HD_API HD_MUST_USE int hd_rmdir(const char *path);
HD_API HD_MUST_USE int hd_rmdir_until(const char *path, int64_t deadline);

/* Wait until what was created, renamed or removed in a directory is on the disk. */
HD_API HD_MUST_USE int hd_dir_sync(const char *path);
HD_API HD_MUST_USE int hd_dir_sync_until(const char *path, int64_t deadline);

/* ---- reading directories ---- */

typedef struct hd_dir hd_dir;

typedef struct hd_dir_entry {
    char name[256];
    unsigned char type; /* DT_REG, DT_DIR, ... of readdir(3); DT_UNKNOWN: ask hd_stat() */
} hd_dir_entry;

HD_API HD_MUST_USE int hd_dir_open(hd_dir **dir, const char *path);
HD_API HD_MUST_USE int hd_dir_open_until(hd_dir **dir, const char *path, int64_t deadline);

/* The next entry, without "." and "..", in no particular order; in sim by name.
 * Returns: 1; 0: there are no more; -errno. */
HD_API HD_MUST_USE int hd_dir_read(hd_dir *dir, hd_dir_entry *entry);
HD_API void hd_dir_close(hd_dir *dir);

#ifdef __cplusplus
}
#endif
#endif
