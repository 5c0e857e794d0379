/* SPDX-License-Identifier: MIT
 *
 * Channels, timers, nurseries, locks, disks, jobs and the explorer, for the digests.
 */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <heddle.h>

enum { ITEMS = 6, SENDERS = 3, CHILDREN = 5, SECTOR = 512 };

/* ---- channels, select and timers ---- */

struct line {
    struct trail *trail;
    hd_chan *chan;
    unsigned number;
};

static int send_some(void *arg)
{
    const struct line *line = arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        const unsigned item = line->number * 100 + i;
        const int err = hd_chan_send_until(line->chan, &item, hd_after_ms(3));
        record(line->trail, UINT64_C(11) << 40 | item << 8 | (unsigned)-err);
        if (i % 2) MUST(hd_sleep_until(hd_now(NULL) + item % 7 * 100000));
    }
    return 0;
}

/* Until nothing has come for a while. */
static void receive(struct trail *trail, hd_chan *first, hd_chan *second)
{
    for (;;) {
        unsigned item = 0;
        hd_case cases[] = {HD_RECV(first, &item), HD_RECV(second, &item), HD_AT(hd_after_ms(10))};
        const int which = hd_select(cases, 3);
        record(trail, UINT64_C(12) << 40 | (uint64_t)(unsigned)which << 32 | item);
        record(trail, (uint64_t)hd_now(NULL));
        if (which == 2) return;
    }
}

int channels_fiber(void *arg)
{
    struct trail *trail = arg;
    struct line lines[SENDERS];
    hd_task *senders[SENDERS];
    hd_chan *chans[] = {hd_chan_create(sizeof(unsigned), 0), hd_chan_create(sizeof(unsigned), 2)};
    MUST(chans[0] && chans[1] ? 0 : -ENOMEM);
    for (unsigned i = 0; i < SENDERS; i++) {
        lines[i] = (struct line){trail, chans[i % 2], i};
        MUST(hd_spawn(&senders[i], send_some, &lines[i]));
    }
    receive(trail, chans[0], chans[1]);
    for (unsigned i = 0; i < SENDERS; i++) MUST(hd_join(senders[i], NULL));
    hd_chan_destroy(chans[0]);
    hd_chan_destroy(chans[1]);
    return 0;
}

/* ---- nurseries and locks ---- */

struct family {
    struct trail *trail;
    hd_mutex mutex;
    unsigned born;
};

/* One of them fails, the others are cancelled wherever they are. */
static int child(void *arg)
{
    struct family *family = arg;
    const unsigned number = family->born++;
    for (unsigned i = 0; i < 3; i++) {
        const int err = hd_mutex_lock(&family->mutex);
        record(family->trail, UINT64_C(13) << 40 | number << 16 | i << 8 | (unsigned)-err);
        if (err) return err;
        hd_yield();
        hd_mutex_unlock(&family->mutex);
        if (number == 3 && i == 1) return -EIO;
        if (hd_sleep_until(hd_now(NULL) + 1000 * (number + 1)) == -ECANCELED) return -ECANCELED;
    }
    return 0;
}

int nurseries_fiber(void *arg)
{
    struct family family = {.trail = arg};
    hd_mutex_init(&family.mutex);
    for (unsigned round = 0; round < 2; round++) {
        hd_nursery nursery;
        hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
        options.deadline = round ? hd_now(NULL) + 2500 : 0;
        family.born = round * CHILDREN;
        MUST(hd_nursery_open(&nursery, &options));
        for (unsigned i = 0; i < CHILDREN; i++) (void)hd_go(&nursery, child, &family);
        record(family.trail, UINT64_C(14) << 40 | (unsigned)-hd_nursery_leave(&nursery));
    }
    return 0;
}

/* ---- a disk ---- */

static int write_file(void *arg)
{
    static const char bytes[4 * SECTOR] = {1};
    hd_io file;
    const int err = hd_file_open(&file, "/data", O_CREAT | O_RDWR, 0600);
    record(arg, UINT64_C(15) << 40 | (unsigned)-err);
    if (err) return 0;
    for (unsigned i = 0; i < 4; i++) {
        const ssize_t n = hd_pwrite(file, bytes, sizeof(bytes), (int64_t)(i * sizeof(bytes)));
        record(arg, (uint64_t)n ^ (uint64_t)hd_now(NULL));
        if (i == 1) record(arg, (uint64_t)(unsigned)-hd_file_sync(file, true));
    }
    hd_close(file);
    return 0;
}

static int read_file(void *arg)
{
    char bytes[SECTOR];
    hd_io file;
    const int err = hd_file_open(&file, "/data", O_RDONLY, 0);
    record(arg, UINT64_C(16) << 40 | (unsigned)-err);
    if (err) return 0;
    for (int64_t at = 0;; at += SECTOR) {
        const ssize_t n = hd_pread(file, bytes, sizeof(bytes), at);
        record(arg, (uint64_t)n << 8 | (n > 0 ? (unsigned char)bytes[0] : 0));
        if (n <= 0) break;
    }
    hd_close(file);
    return 0;
}

int disk_fiber(void *arg)
{
    hd_sim_host *host;
    hd_task *task;
    MUST(hd_sim_host_add(&host, "disk", NULL, NULL, NULL));
    MUST(hd_sim_spawn(host, &task, write_file, arg));
    MUST(hd_join(task, NULL));
    MUST(hd_sim_crash(host));
    MUST(hd_sim_restart(host));
    MUST(hd_sim_spawn(host, &task, read_file, arg));
    return hd_join(task, NULL);
}

/* ---- jobs ---- */

HD_JOB(fib, long, int, n)
{
    if (n < 2) return n;
    HD_FORK(one, fib, n - 1);
    const long two = HD_CALL(fib, n - 2);
    return HD_SYNC(one) + two;
}

int jobs_fiber(void *arg)
{
    record(arg, (uint64_t)HD_RUN_JOB(NULL, fib, 8));
    return 0;
}

/* ---- the explorer ---- */

static int balance;

static int deposit(void *arg)
{
    (void)arg;
    const int seen = hd_atomic_load(&balance);
    hd_race_point();
    hd_atomic_store(&balance, seen + 1);
    return 0;
}

static int lost_update(void *arg)
{
    hd_task *tasks[3];
    (void)arg;
    balance = 0;
    for (int i = 0; i < 3; i++) MUST(hd_spawn(&tasks[i], deposit, NULL));
    for (int i = 0; i < 3; i++) MUST(hd_join(tasks[i], NULL));
    return balance == 1 ? -EIO : 0;
}

void explore(struct trail *trail, uint64_t seed)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.seed = seed + 1;
    options.schedules = 200;
    options.keep_going = true;
    MUST(hd_explore(lost_update, NULL, &options, &result));
    record(trail, result.schedules << 32 | result.failures);
    record(trail, result.steps << 32 | result.failed_at);
    record(trail, result.seed ^ (uint64_t)result.verdict << 56);
    for (const char *c = result.sampler; *c; c++) record(trail, (unsigned char)*c);
}
