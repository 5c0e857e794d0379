/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of a task that uses files: a call that says so has done
 * nothing, and never will; one that does not has done it all.
 */
#include "waitpoints.h"

#include "files.h"

TEST_MAIN

enum { STEPS = 6 };

static bool exists(const char *path)
{
    struct stat info;
    const int err = hd_stat(path, &info);
    EXPECT(err == 0 || err == -ENOENT);
    return err == 0;
}

/* The steps of one who replaces a file; `done`: how many. */
struct work {
    int done;
    hd_io file;
};

static int make_dir(struct work *work, int64_t deadline)
{
    (void)work;
    return hd_mkdir_until(files_path("d"), 0755, deadline);
}

static int create(struct work *work, int64_t deadline)
{
    return hd_file_open_until(&work->file, files_path("d/new"), O_RDWR | O_CREAT, 0644, deadline);
}

static int fill(struct work *work, int64_t deadline)
{
    const ssize_t n = hd_pwrite_until(work->file, "text", 4, 0, deadline);
    if (n >= 0) EXPECT_EQ(n, 4);
    return n < 0 ? (int)n : 0;
}

static int sync_it(struct work *work, int64_t deadline)
{
    return hd_file_sync_until(work->file, false, deadline);
}

static int rename_it(struct work *work, int64_t deadline)
{
    (void)work;
    return hd_rename_until(files_path("d/new"), files_path("d/old"), deadline);
}

static int cut(struct work *work, int64_t deadline)
{
    return hd_file_truncate_until(work->file, 2, deadline);
}

static int (*const steps[STEPS])(struct work *, int64_t) = {make_dir, create,    fill,
                                                            sync_it,  rename_it, cut};

static int replace(void *arg)
{
    struct work *work = arg;
    for (; work->done < STEPS; work->done++) {
        int err;
        do err = steps[work->done](work, wp_until());
        while (wp_again(err));
        if (err) return err;
    }
    return 0;
}

static void expect_done(const struct work *work)
{
    const int done = work->done;
    EXPECT_EQ(exists(files_path("d")), done > 0);
    if (done == 0) return;
    EXPECT_EQ(exists(files_path("d/new")), done > 1 && done <= 4);
    EXPECT_EQ(exists(files_path("d/old")), done > 4);
    if (done < 2) return;
    const int64_t size = done < 3 ? 0 : done < STEPS ? 4 : 2;
    EXPECT_EQ(files_size(files_path(done > 4 ? "d/old" : "d/new")), size);
}

WAITPOINTS(replacing_a_file)
{
    files_begin();
    struct work work = {.done = 0};
    wp_spawn(replace, &work);
    const int err = wp_join();
    EXPECT_EQ(err == 0, work.done == STEPS);
    expect_done(&work);
    if (work.done > 1) EXPECT_EQ(hd_close(work.file), 0);
    files_end();
}
