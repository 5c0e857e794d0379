/* SPDX-License-Identifier: MIT
 *
 * The simulated disk: what a crash keeps, loses and tears, and what programs make of it. That the
 * right way to replace a file survives every seed, and each wrong one is caught by some.
 */
#include <heddle/sim.h>

#include "files.h"

TEST_MAIN

enum { SECTOR = 512, SECTORS = 6, BYTES = SECTORS * SECTOR, SEEDS = 200, MANY_SEEDS = 1000 };

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    return options;
}

static hd_sim_host *add_host(void)
{
    hd_sim_host *host = NULL;
    EXPECT_EQ(hd_sim_host_add(&host, "server", NULL, NULL, NULL), 0);
    return host;
}

static int on_host(hd_sim_host *host, hd_fn *fn, void *arg)
{
    hd_task *task;
    EXPECT_EQ(hd_sim_spawn(host, &task, fn, arg), 0);
    return rt_join(task);
}

static void crash_and_restart(hd_sim_host *host)
{
    EXPECT_EQ(hd_sim_crash(host), 0);
    EXPECT_EQ(hd_sim_restart(host), 0);
}

static void set_disk(hd_sim_host *host, hd_sim_disk_options options)
{
    options.size = sizeof(options);
    EXPECT_EQ(hd_sim_disk(host, &options), 0);
}

/* ---- bytes ---- */

/* What the seeds of a test came to. */
struct tally {
    unsigned kept, lost, torn, other;
};

/* A file of 'o', which is synced, is overwritten by 'n', which is not. */
static int overwrite(void *arg)
{
    char bytes[BYTES];
    (void)arg;
    memset(bytes, 'o', sizeof(bytes));
    hd_io file = files_open("/f", O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite(file, bytes, sizeof(bytes), 0), BYTES);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_dir_sync("/"), 0);
    memset(bytes, 'n', sizeof(bytes));
    EXPECT_EQ(hd_pwrite(file, bytes, sizeof(bytes), 0), BYTES);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 0), BYTES);
    for (int i = 0; i < BYTES; i++) EXPECT_EQ(bytes[i], 'n'); /* It is seen at once. */
    return 0;
}

/* Each sector is one or the other. */
static int look_at_sectors(void *arg)
{
    struct tally *tally = arg;
    char bytes[BYTES + 1];
    EXPECT_EQ(files_get("/f", bytes, sizeof(bytes)), BYTES);
    int fresh = 0;
    for (int i = 0; i < BYTES; i++) {
        EXPECT(bytes[i] == 'o' || bytes[i] == 'n');
        EXPECT_EQ(bytes[i], bytes[i / SECTOR * SECTOR]);
        fresh += bytes[i] == 'n';
    }
    tally->lost += fresh == 0;
    tally->kept += fresh == BYTES;
    tally->torn += fresh > 0 && fresh < BYTES;
    return 0;
}

static int crash_after_overwrite(void *arg)
{
    hd_sim_host *host = add_host();
    EXPECT_EQ(on_host(host, overwrite, NULL), 0);
    crash_and_restart(host);
    EXPECT_EQ(on_host(host, look_at_sectors, arg), 0);
    return 0;
}

TEST(a_write_that_was_not_synced_is_kept_lost_or_torn)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        rt_run(crash_after_overwrite, &tally, &options);
    }
    EXPECT_EQ(tally.lost + tally.kept + tally.torn, SEEDS);
    EXPECT(tally.lost > SEEDS / 4 && tally.lost < SEEDS * 3 / 4);
    EXPECT(tally.kept > SEEDS / 8 && tally.torn > SEEDS / 8);
}

/* With chances of all or nothing there is nothing to draw. */
static int crash_with(hd_sim_disk_options disk, struct tally *tally)
{
    hd_sim_host *host = add_host();
    set_disk(host, disk);
    EXPECT_EQ(on_host(host, overwrite, NULL), 0);
    crash_and_restart(host);
    return on_host(host, look_at_sectors, tally);
}

static int crash_that_loses(void *arg)
{
    return crash_with((hd_sim_disk_options){.lost_ppm = HD_SIM_ALWAYS}, arg);
}

static int crash_that_keeps(void *arg)
{
    return crash_with((hd_sim_disk_options){.lost_ppm = 1, .torn_ppm = 1}, arg);
}

static int crash_that_tears(void *arg)
{
    return crash_with((hd_sim_disk_options){.lost_ppm = 1, .torn_ppm = HD_SIM_ALWAYS}, arg);
}

TEST(a_disk_can_be_told_what_a_crash_does)
{
    struct tally loses = {0}, keeps = {0}, tears = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        rt_run(crash_that_loses, &loses, &options);
        rt_run(crash_that_keeps, &keeps, &options);
        rt_run(crash_that_tears, &tears, &options);
    }
    EXPECT_EQ(loses.lost, SEEDS);
    EXPECT_EQ(keeps.kept, SEEDS);
    EXPECT(tears.torn > SEEDS * 3 / 4); /* all sectors of a torn one may be kept, or none */
}

enum { APPENDS = 3, APPENDED = 700 };

/* Appends, none of them synced, with the number of each in all its bytes. */
static int append(void *arg)
{
    (void)arg;
    files_put("/f", "", 0);
    EXPECT_EQ(hd_dir_sync("/"), 0);
    hd_io file = files_open("/f", O_WRONLY | O_APPEND);
    char bytes[APPENDED];
    for (int i = 1; i <= APPENDS; i++) {
        memset(bytes, i, sizeof(bytes));
        EXPECT_EQ(hd_write(file, bytes, sizeof(bytes)), sizeof(bytes));
    }
    return 0;
}

static int look_at_appended(void *arg)
{
    struct tally *tally = arg;
    char bytes[APPENDS * APPENDED + 1];
    const size_t size = files_get("/f", bytes, sizeof(bytes));
    EXPECT(size <= APPENDS * APPENDED);
    bool holes = false;
    for (size_t i = 0; i < size; i++) {
        EXPECT(bytes[i] == 0 || bytes[i] == (char)(i / APPENDED + 1));
        holes |= bytes[i] == 0;
    }
    tally->lost += size == 0;
    tally->kept += size == APPENDS * APPENDED && !holes;
    tally->torn += size > 0 && size < APPENDS * APPENDED;
    tally->other += holes;
    return 0;
}

static int crash_after_appends(void *arg)
{
    hd_sim_host *host = add_host();
    EXPECT_EQ(on_host(host, append, NULL), 0);
    crash_and_restart(host);
    return on_host(host, look_at_appended, arg);
}

TEST(a_file_comes_back_short_or_with_holes)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; seed <= MANY_SEEDS; seed++) {
        const hd_options options = sim(seed);
        rt_run(crash_after_appends, &tally, &options);
    }
    EXPECT(tally.lost > 0 && tally.kept > 0 && tally.torn > 0 && tally.other > 0);
}

/* ---- names ---- */

static int rename_unsynced(void *arg)
{
    (void)arg;
    files_put("/a", "a", 1);
    hd_io file = files_open("/a", O_RDWR);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_mkdir("/d", 0755), 0);
    EXPECT_EQ(hd_dir_sync("/"), 0);
    EXPECT_EQ(hd_rename("/a", "/d/b"), 0);
    EXPECT_EQ(hd_mkdir("/e", 0755), 0);
    return 0;
}

static bool exists(const char *path)
{
    struct stat info;
    const int err = hd_stat(path, &info);
    EXPECT(err == 0 || err == -ENOENT);
    return err == 0;
}

static int look_at_renamed(void *arg)
{
    struct tally *tally = arg;
    const bool before = exists("/a"), after = exists("/d/b");
    EXPECT(before != after); /* Never both, never none. */
    EXPECT(files_hold(before ? "/a" : "/d/b", "a"));
    tally->lost += before;
    tally->kept += after;
    tally->other += before != exists("/e"); /* Changes may overtake each other. */
    return 0;
}

static int crash_after_rename(void *arg)
{
    hd_sim_host *host = add_host();
    EXPECT_EQ(on_host(host, rename_unsynced, NULL), 0);
    crash_and_restart(host);
    return on_host(host, look_at_renamed, arg);
}

TEST(a_rename_is_kept_or_lost_as_a_whole)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        rt_run(crash_after_rename, &tally, &options);
    }
    EXPECT(tally.lost > SEEDS / 4 && tally.kept > SEEDS / 4);
    EXPECT(tally.other > 0 && tally.other < SEEDS);
}

/* Moves directories about at random, syncing now and then. */
static int shuffle(void *arg)
{
    uint64_t *random = arg;
    static const char *const names[] = {"/a", "/b", "/a/c", "/b/c", "/a/c/d", "/b/c/d", "/c"};
    for (int i = 0; i < 60; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const unsigned draw = (unsigned)(*random >> 33);
        const char *from = names[draw % 7], *to = names[draw / 7 % 7];
        int err = 0;
        switch (draw / 49 % 5) {
        case 0: err = hd_mkdir(from, 0755); break;
        case 1:
        case 2: err = hd_rename(from, to); break;
        case 3: err = hd_rmdir(from); break;
        case 4: err = hd_dir_sync(draw / 245 % 2 ? "/" : from); break;
        }
        EXPECT(err != -EIO); /* Much of it cannot be done. */
    }
    return 0;
}

/* The whole tree can be walked, and removed. */
static int walk(void *arg)
{
    (void)arg;
    hd_dir *dir;
    hd_dir_entry entry;
    EXPECT_EQ(hd_dir_open(&dir, "/"), 0);
    while (hd_dir_read(dir, &entry) == 1) {
        char path[sizeof(entry.name) + 1];
        snprintf(path, sizeof(path), "/%s", entry.name);
        files_remove(path);
    }
    hd_dir_close(dir);
    return 0;
}

static int crash_after_shuffle(void *arg)
{
    hd_sim_host *host = add_host();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(on_host(host, shuffle, arg), 0);
        crash_and_restart(host);
    }
    return on_host(host, walk, NULL);
}

TEST(a_crash_leaves_a_tree)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        uint64_t random = seed;
        rt_run(crash_after_shuffle, &random, &options);
    }
}

/* ---- replacing a file ---- */

/* How a program replaces a file by a new version. */
struct way {
    bool in_place;   /* without a second file */
    bool sync_file;  /* before the rename, or at the end */
    bool sync_names;
};

struct program {
    struct way way;
    int version;   /* the last that was begun */
    int promised;  /* the last that is said to be durable */
    uint64_t delay_us;
    bool broken;   /* a crash left something else */
};

static int put_version(const struct way *way, int version)
{
    const char *path = way->in_place ? "/config" : "/config.new";
    char bytes[BYTES];
    memset(bytes, version, sizeof(bytes));
    hd_io file;
    int err = hd_file_open(&file, path, O_WRONLY | O_CREAT | (way->in_place ? 0 : O_TRUNC), 0644);
    if (err) return err;
    const ssize_t n = hd_pwrite(file, bytes, sizeof(bytes), 0);
    if (n != BYTES) err = n < 0 ? (int)n : -ENOSPC;
    if (!err && way->sync_file) err = hd_file_sync(file, true);
    (void)hd_close(file);
    if (!err && !way->in_place) err = hd_rename("/config.new", "/config");
    if (!err && way->sync_names) err = hd_dir_sync("/");
    return err;
}

/* Until the host crashes. */
static int replace_again_and_again(void *arg)
{
    struct program *program = arg;
    for (;;) {
        const int err = put_version(&program->way, ++program->version);
        if (err) return err;
        program->promised = program->version;
    }
}

static int put_first(void *arg)
{
    (void)arg;
    const struct way careful = {.sync_file = true, .sync_names = true};
    return put_version(&careful, 1);
}

/* There is a whole version, none that is older than what was promised. */
static int look_at_config(void *arg)
{
    struct program *program = arg;
    char bytes[BYTES + 1];
    memset(bytes, 0, sizeof(bytes));
    const size_t size = files_get("/config", bytes, sizeof(bytes));
    program->broken = size != BYTES || bytes[0] < program->promised ||
                      bytes[0] > program->version || memchr(bytes, 0, BYTES);
    for (size_t i = 0; i < size; i++) program->broken |= bytes[i] != bytes[0];
    return 0;
}

static int crash_while_replacing(void *arg)
{
    struct program *program = arg;
    hd_sim_host *host = add_host();
    program->version = program->promised = 1;
    EXPECT_EQ(on_host(host, put_first, NULL), 0);
    hd_task *task;
    EXPECT_EQ(hd_sim_spawn(host, &task, replace_again_and_again, program), 0);
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + (int64_t)program->delay_us * 1000), 0);
    EXPECT_EQ(hd_sim_crash(host), 0);
    const int err = rt_join(task);
    EXPECT(err == -ECANCELED || err == -EHOSTDOWN);
    EXPECT_EQ(hd_sim_restart(host), 0);
    return on_host(host, look_at_config, program);
}

/* Returns how many seeds broke it. */
static unsigned try_way(struct way way, unsigned seeds)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const hd_options options = sim(seed);
        struct program program = {.way = way, .delay_us = seed * 7919 % 3000};
        rt_run(crash_while_replacing, &program, &options);
        broken += program.broken;
    }
    return broken;
}

TEST(the_right_way_to_replace_a_file_survives)
{
    EXPECT_EQ(try_way((struct way){.sync_file = true, .sync_names = true}, MANY_SEEDS), 0);
}

TEST(a_rename_before_the_sync_is_caught)
{
    EXPECT(try_way((struct way){.sync_names = true}, SEEDS) > 0);
}

TEST(a_promise_before_the_names_are_synced_is_caught)
{
    EXPECT(try_way((struct way){.sync_file = true}, SEEDS) > 0);
}

TEST(writing_in_place_is_caught)
{
    EXPECT(try_way((struct way){.in_place = true, .sync_file = true}, SEEDS) > 0);
}

/* ---- faults ---- */

static int fill_up(void *arg)
{
    (void)arg;
    char bytes[3000];
    memset(bytes, 'x', sizeof(bytes));
    hd_io file = files_open("/f", O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite(file, bytes, sizeof(bytes), 0), 3000);
    EXPECT_EQ(hd_pwrite(file, bytes, sizeof(bytes), 3000), 1000); /* what fits */
    EXPECT_EQ(hd_pwrite(file, bytes, 1, 4000), -ENOSPC);
    EXPECT_EQ(hd_file_truncate(file, 4001), -ENOSPC);
    EXPECT_EQ(hd_pwrite(file, bytes, 4, 500), 4); /* It takes no more room. */
    hd_io other = files_open("/g", O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite(other, bytes, 1, 0), -ENOSPC);
    EXPECT_EQ(hd_file_truncate(file, 3500), 0);
    EXPECT_EQ(hd_pwrite(other, bytes, 600, 0), 500);
    EXPECT_EQ(hd_unlink("/f"), 0);
    EXPECT_EQ(hd_pwrite(other, bytes, 1, 500), -ENOSPC); /* It is open still. */
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_pwrite(other, bytes, 1, 500), 1);
    EXPECT_EQ(files_size("/g"), 501);
    return 0;
}

static int on_full_disk(void *arg)
{
    (void)arg;
    hd_sim_host *host = add_host();
    set_disk(host, (hd_sim_disk_options){.capacity = 4000});
    return on_host(host, fill_up, NULL);
}

TEST(a_disk_is_full)
{
    const hd_options options = sim(1);
    rt_run(on_full_disk, NULL, &options);
}

static int meet_errors(void *arg)
{
    (void)arg;
    hd_sim_host *self = hd_sim_host_self();
    char byte = 'a';
    files_put("/f", "f", 1);
    hd_io file = files_open("/f", O_RDWR), other;
    set_disk(self, (hd_sim_disk_options){.read_ppm = HD_SIM_ALWAYS});
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), -EIO);
    struct stat info;
    EXPECT_EQ(hd_stat("/f", &info), -EIO);
    EXPECT_EQ(byte, 'a');
    EXPECT_EQ(hd_pwrite(file, "g", 1, 0), 1);
    set_disk(self, (hd_sim_disk_options){.write_ppm = HD_SIM_ALWAYS});
    EXPECT_EQ(hd_pwrite(file, "h", 1, 0), -EIO);
    EXPECT_EQ(hd_file_truncate(file, 0), -EIO);
    EXPECT_EQ(hd_rename("/f", "/g"), -EIO);
    EXPECT_EQ(hd_unlink("/f"), -EIO);
    EXPECT_EQ(hd_mkdir("/d", 0755), -EIO);
    EXPECT_EQ(hd_file_open(&other, "/h", O_WRONLY | O_CREAT, 0644), -EIO);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), 1); /* None of it was done. */
    EXPECT_EQ(byte, 'g');
    EXPECT_EQ(hd_sim_disk(self, NULL), 0);
    EXPECT_EQ(hd_pwrite(file, "i", 1, 0), 1);
    EXPECT_EQ(hd_close(file), 0);
    return 0;
}

TEST(calls_fail)
{
    const hd_options options = sim(1);
    rt_run(meet_errors, NULL, &options);
}

static int half_fail(void *arg)
{
    (void)arg;
    set_disk(hd_sim_host_self(), (hd_sim_disk_options){.read_ppm = HD_SIM_ALWAYS / 2});
    int failed = 0;
    struct stat info;
    for (int i = 0; i < 400; i++) failed += hd_stat("/tmp", &info) != 0;
    EXPECT(failed > 120 && failed < 280);
    return 0;
}

TEST(a_chance_is_a_chance)
{
    const hd_options options = sim(3);
    rt_run(half_fail, NULL, &options);
}

/* A sync fails, and the next one says that all is well: as on Linux, what the first was to write
 * never will be. */
static int believe_the_second_sync(void *arg)
{
    (void)arg;
    files_put("/f", "o", 1);
    hd_io file = files_open("/f", O_RDWR);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_dir_sync("/"), 0);
    EXPECT_EQ(hd_pwrite(file, "n", 1, 0), 1);
    set_disk(hd_sim_host_self(), (hd_sim_disk_options){.sync_ppm = HD_SIM_ALWAYS});
    EXPECT_EQ(hd_file_sync(file, false), -EIO);
    EXPECT_EQ(hd_dir_sync("/"), -EIO);
    EXPECT_EQ(hd_sim_disk(hd_sim_host_self(), NULL), 0);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT(files_hold("/f", "n"));
    return 0;
}

static int look_for_the_old(void *arg)
{
    (void)arg;
    EXPECT(files_hold("/f", "o"));
    return 0;
}

static int crash_after_failed_sync(void *arg)
{
    (void)arg;
    hd_sim_host *host = add_host();
    EXPECT_EQ(on_host(host, believe_the_second_sync, NULL), 0);
    crash_and_restart(host);
    return on_host(host, look_for_the_old, NULL);
}

TEST(a_sync_that_failed_has_lost_its_bytes)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        const hd_options options = sim(seed);
        rt_run(crash_after_failed_sync, NULL, &options);
    }
}

/* ---- hosts, time, replay ---- */

static int open_and_stay(void *arg)
{
    *(hd_io *)arg = files_open("/f", O_RDWR | O_CREAT);
    return 0;
}

static int use_two_disks(void *arg)
{
    (void)arg;
    hd_sim_host *host = add_host();
    hd_io file;
    char byte;
    EXPECT_EQ(on_host(host, open_and_stay, &file), 0);
    EXPECT(!exists("/f"));
    EXPECT_EQ(hd_pwrite(file, "a", 1, 0), 1); /* The handle knows its disk. */
    EXPECT_EQ(hd_sim_crash(host), 0);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), -EHOSTDOWN);
    EXPECT_EQ(hd_sim_restart(host), 0);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), -EHOSTDOWN); /* It is of before. */
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), -EBADF);
    return 0;
}

TEST(each_host_has_a_disk)
{
    const hd_options options = sim(1);
    rt_run(use_two_disks, NULL, &options);
}

static int measure(void *arg)
{
    (void)arg;
    struct stat info;
    set_disk(hd_sim_host_self(), (hd_sim_disk_options){.latency_ns = HD_SECOND_NS});
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 50; i++) {
        const int64_t before = hd_now(NULL);
        EXPECT_EQ(hd_stat("/tmp", &info), 0);
        const int64_t took = hd_now(NULL) - before;
        if (took < least) least = took;
        if (took > most) most = took;
    }
    EXPECT(least >= HD_SECOND_NS && most < 2 * HD_SECOND_NS + HD_MS_NS);
    EXPECT(most - least > HD_SECOND_NS / 4);
    return 0;
}

TEST(calls_take_time)
{
    const hd_options options = sim(1);
    rt_run(measure, NULL, &options);
}

static uint64_t outcome(uint64_t seed)
{
    const hd_options options = sim(seed);
    struct tally tally = {0};
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, crash_after_appends, &tally)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    const unsigned seen = tally.lost | tally.kept << 1 | tally.torn << 2 | tally.other << 3;
    return digest * 16 + seen;
}

TEST(a_seed_repeats_its_crash)
{
    for (uint64_t seed = 1; seed <= 20; seed++) EXPECT_EQ(outcome(seed), outcome(seed));
}
