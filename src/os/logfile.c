/* SPDX-License-Identifier: MIT */
#include "os/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int hdi_logfile_create(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode) && unlink(path) < 0) return -errno;
    int fd;
    do fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int hdi_logfile_write(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        const ssize_t n = write(fd, at, count);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        at += n;
        count -= (size_t)n;
    }
    return 0;
}

int hdi_logfile_open(const char *path, uint64_t *bytes)
{
    /* Non-blocking: a FIFO without a writer is refused, not waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -errno;
    struct stat info;
    int err = fstat(fd, &info) < 0 ? -errno : 0;
    if (!err && S_ISDIR(info.st_mode)) err = -EISDIR;
    if (!err && !S_ISREG(info.st_mode)) err = -EBADMSG;
    if (err) {
        close(fd);
        return err;
    }
    *bytes = (uint64_t)info.st_size;
    return fd;
}

int hdi_logfile_read(int fd, void *bytes, size_t count, uint64_t offset)
{
    char *at = bytes;
    while (count > 0) {
        const ssize_t n = pread(fd, at, count, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        at += n;
        count -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

bool hdi_logfile_is_regular(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

int hdi_logfile_close(int fd)
{
    /* The descriptor is gone whatever close() says. */
    return close(fd) < 0 && errno != EINTR ? -errno : 0;
}
