/* SPDX-License-Identifier: MIT
 *
 * proc: what the kernel knows about the threads of this process.
 */
#ifndef TEST_PROC_H
#define TEST_PROC_H

#include <dirent.h>

#include "test.h"

/* How many entries a folder of the process has below /proc, with "." and "..". */
static inline unsigned proc_count(const char *name)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/self/%s", name);
    DIR *dir = opendir(path);
    EXPECT(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

/* Read a file of a thread below /proc. Returns false if the thread has gone. */
static inline bool proc_read(int tid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    fclose(file);
    return got > 0;
}

static inline unsigned long long proc_number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    EXPECT(at != NULL);
    return strtoull(at + strlen(key), NULL, 10);
}

#endif
