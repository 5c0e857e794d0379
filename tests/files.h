/* SPDX-License-Identifier: MIT
 *
 * files: a directory of its own for a test, and short forms that expect success.
 */
#ifndef TEST_FILES_H
#define TEST_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "rt.h"

#define FILES_PATH_MAX 128

static char files_dir[64];

/* A path in the directory; good for the next few calls. */
static inline const char *files_path(const char *name)
{
    static _Thread_local char paths[4][FILES_PATH_MAX];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, FILES_PATH_MAX, "%s/%s", files_dir, name);
    return path;
}

/* A process that was killed has left its own, and the number may be another's by now. */
static inline void files_begin(void)
{
    snprintf(files_dir, sizeof(files_dir), "/tmp/heddle-files-%d-%lld", (int)getpid(),
             (long long)hd_now(NULL));
    EXPECT_EQ(hd_mkdir(files_dir, 0755), 0);
}

/* What is left in a directory goes, and then itself. */
static inline void files_remove(const char *path)
{
    hd_dir *dir;
    hd_dir_entry entry;
    EXPECT_EQ(hd_dir_open(&dir, path), 0);
    while (hd_dir_read(dir, &entry) == 1) {
        char *inside;
        EXPECT(asprintf(&inside, "%s/%s", path, entry.name) > 0);
        if (entry.type == DT_DIR)
            files_remove(inside);
        else
            EXPECT_EQ(hd_unlink(inside), 0);
        free(inside);
    }
    hd_dir_close(dir);
    EXPECT_EQ(hd_rmdir(path), 0);
}

static inline void files_end(void)
{
    files_remove(files_dir);
}

static inline hd_io files_open(const char *path, int flags)
{
    hd_io file;
    EXPECT_EQ(hd_file_open(&file, path, flags, 0644), 0);
    return file;
}

/* For a thread that has no runtime of its own: tasks that begin with an open file, and end it. */
static inline int files_begin_with(void *arg)
{
    files_begin();
    *(hd_io *)arg = files_open(files_path("a"), O_RDWR | O_CREAT);
    return 0;
}

static inline int files_end_with(void *arg)
{
    EXPECT_EQ(hd_close(*(hd_io *)arg), 0);
    files_end();
    return 0;
}

static inline void files_put(const char *path, const void *bytes, size_t count)
{
    hd_io file = files_open(path, O_WRONLY | O_CREAT | O_TRUNC);
    EXPECT_EQ(hd_pwrite(file, bytes, count, 0), count);
    EXPECT_EQ(hd_close(file), 0);
}

/* All of a file, in memory of `room` bytes. Returns how many bytes. */
static inline size_t files_get(const char *path, void *bytes, size_t room)
{
    hd_io file = files_open(path, O_RDONLY);
    const ssize_t n = hd_pread(file, bytes, room, 0);
    EXPECT(n >= 0);
    EXPECT_EQ(hd_close(file), 0);
    return (size_t)n;
}

static inline int64_t files_size(const char *path)
{
    struct stat info;
    EXPECT_EQ(hd_stat(path, &info), 0);
    return info.st_size;
}

static inline bool files_hold(const char *path, const char *text)
{
    char bytes[256];
    const size_t n = files_get(path, bytes, sizeof(bytes));
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

#endif
