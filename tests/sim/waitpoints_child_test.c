/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of a task that has a child: whatever ends it, the child has
 * ended too when the task has, and was there only if starting it succeeded.
 */
#include "waitpoints.h"

#include "programs.h"

TEST_MAIN

struct family {
    unsigned begun, ended; /* runs of the program */
    bool started;          /* the parent was told so */
};

/* As cat does, and tells that it has. */
static int be_child(const hd_sim_process *self, void *arg)
{
    struct family *family = arg;
    family->begun++;
    const int status = programs_cat(self, NULL);
    family->ended++;
    return status;
}

static int talk(hd_child *child)
{
    static const char weft[4] = "weft";
    char text[4];
    size_t done = 0, more;
    int err;
    do {
        err = hd_write_all_until(hd_child_pipe(child, 0), weft + done, 4 - done, &more,
                                 wp_until());
        done += more;
    } while (wp_again(err));
    if (err) return err;
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    done = 0;
    do {
        err = hd_read_exact_until(hd_child_pipe(child, 1), text + done, 4 - done, &more,
                                  wp_until());
        done += more;
    } while (wp_again(err));
    if (!err) EXPECT(memcmp(text, weft, 4) == 0);
    return err;
}

static int be_parent(void *arg)
{
    struct family *family = arg;
    static const char *const argv[] = {"child", NULL};
    hd_child *child;
    int status = -1;
    int err = hd_child_start(&child, argv, &programs_piped);
    if (err) return err;
    family->started = true;
    err = talk(child);
    while (!err) {
        err = hd_child_wait_until(child, &status, wp_until());
        if (!wp_again(err)) break;
        err = 0;
    }
    if (!err) EXPECT_EQ(status, 0);
    if (err == -ECANCELED) EXPECT(hd_cancelled());
    hd_child_free(child);
    EXPECT_EQ(family->ended, family->begun);
    return err;
}

WAITPOINTS(a_child_that_is_talked_to)
{
    struct family family = {0};
    EXPECT_EQ(hd_sim_program("child", be_child, &family), 0);
    wp_spawn(be_parent, &family);
    const int err = wp_join();
    const unsigned begun = family.begun;
    EXPECT(err || begun == 1);
    EXPECT(family.started || begun == 0);
    EXPECT_EQ(hd_sleep_ms(10), 0);
    EXPECT_EQ(family.begun, begun); /* Nothing begins any more. */
}

/* A cancel of who waits ends it by a signal that it heeds, in its own time. */
static int end_in_time(const hd_sim_process *self, void *arg)
{
    static const int ends[] = {SIGTERM};
    struct family *family = arg;
    hd_chan *signals;
    int number;
    (void)self;
    EXPECT_EQ(hd_signal_open(&signals, ends, 1), 0);
    family->begun++;
    const int err = hd_chan_recv_until(signals, &number, hd_after_ms(5));
    EXPECT(err == 0 || err == -ETIMEDOUT || err == -ECANCELED);
    (void)hd_sleep_ms(1);
    hd_signal_close(signals);
    family->ended++;
    return 3;
}

static int wait_for_it(void *arg)
{
    struct family *family = arg;
    static const char *const argv[] = {"child", NULL};
    hd_child *child;
    int status = -1, err = hd_child_start(&child, argv, NULL);
    if (err) return err;
    do err = hd_child_wait_until(child, &status, wp_until());
    while (wp_again(err));
    if (err == -ECANCELED) EXPECT_EQ(hd_child_wait_until(child, &status, HD_NOW), 0);
    if (err != -ETIMEDOUT) {
        EXPECT_EQ(family->ended, family->begun);
        EXPECT(status == W_EXITCODE(3, 0) || (err && family->begun == 0 && status == SIGTERM));
    }
    hd_child_free(child);
    return err;
}

WAITPOINTS(a_child_that_ends_when_it_is_told_to)
{
    struct family family = {0};
    EXPECT_EQ(hd_sim_program("child", end_in_time, &family), 0);
    wp_spawn(wait_for_it, &family);
    (void)wp_join();
    EXPECT_EQ(family.ended, family.begun);
}
