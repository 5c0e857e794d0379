/* SPDX-License-Identifier: MIT
 *
 * torn_write: a file is replaced by writing over it. A crash before all of it is on the disk leaves
 * a file that is neither the old one nor the new one.
 *
 * Fixed the usual way: a new file, synced, renamed over the old one.
 */
#include "corpus.h"

#include <fcntl.h>

#define BYTES 2048

static struct {
    struct corpus_case how;
    hd_sim_host *host;
    int64_t at;
} s;

static int write_file(const char *path, char content)
{
    char bytes[BYTES];
    hd_io file;
    memset(bytes, content, sizeof(bytes));
    int err = hd_file_open(&file, path, O_WRONLY | O_CREAT, 0644);
    if (err) return err;
    if (hd_pwrite(file, bytes, sizeof(bytes), 0) != BYTES) err = -EIO;
    if (!err) err = hd_file_sync(file, false);
    hd_close(file);
    return err ? err : hd_dir_sync("/");
}

static int create(void *arg)
{
    (void)arg;
    return write_file("/file", 'o');
}

static int replace(void *arg)
{
    (void)arg;
    hd_sleep_until(s.at);
    if (!s.how.fixed) return write_file("/file", 'n');
    const int err = write_file("/new", 'n');
    return err ? err : hd_rename("/new", "/file");
}

static int check(void *arg)
{
    (void)arg;
    char bytes[BYTES + 1];
    hd_io file;
    hd_assert(hd_file_open(&file, "/file", O_RDONLY, 0) == 0);
    hd_assert(hd_pread(file, bytes, sizeof(bytes), 0) == BYTES);
    for (int i = 1; i < BYTES; i++) hd_assert(bytes[i] == bytes[0]);
    hd_close(file);
    return 0;
}

static void on_host(hd_fn *fn)
{
    hd_task *task;
    hd_assert(hd_sim_spawn(s.host, &task, fn, NULL) == 0);
    corpus_join(task);
}

static int torn_write(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_task *task;
    hd_assert(hd_sim_host_add(&s.host, "server", NULL, NULL, NULL) == 0);
    on_host(create);
    s.at = hd_after_ms(1);
    hd_assert(hd_sim_spawn(s.host, &task, replace, NULL) == 0);
    hd_sleep_until(s.at + HD_MS_NS / 5);
    hd_assert(hd_sim_crash(s.host) == 0);
    corpus_join(task);
    hd_assert(hd_sim_restart(s.host) == 0);
    on_host(check);
    return 0;
}
CORPUS(torn_write, torn_write, ASSERT, 0, "a crash while a file is written over")
