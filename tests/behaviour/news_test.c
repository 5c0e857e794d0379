/* SPDX-License-Identifier: MIT
 *
 * A busy worker looks for news of the kernel at least every inject_interval_max switches
 * (hd_io(3)), counted in runs and not in time: fibers that yield for ever, one of which writes what
 * another waits for.
 *
 * With one worker, q fibers that yield and the interval I, the one that waits runs behind I + q - 1
 * runs of others at most, if it has bad luck (sched/worker.h):
 *   I - 1  before each run the worker counts, and looks when it has counted to I. The last look may
 *          have been just before the run that writes, which is none of these
 *   q      who is told goes to the end of the local queue, where all the others are by then.
 *          Nothing gets ahead of it there: a fiber that yields goes behind it, and there is nothing
 *          in the LIFO slot, nor in the injection queue
 * A starved fiber would never tell, so the others look, too.
 */
#include "nets.h"

TEST_MAIN

enum { ROUNDS = 300 };

struct field {
    unsigned hogs, interval;
    enum nets_kind kind;
    hd_io ends[2];
    uint64_t runs;    /* of all hogs */
    uint64_t written; /* how many there had been by then; 0: nothing is on its way */
    unsigned round;   /* of the reader */
    uint64_t most;    /* runs in between, of all rounds */
};

static uint64_t most_of(const struct field *field)
{
    return field->interval - 1 + field->hogs;
}

static void expect_in_time(const struct field *field, uint64_t waited)
{
    if (waited <= most_of(field)) return;
    test_fail(__FILE__, __LINE__, "%llu runs of %u hogs, interval %u: %llu at most",
              (unsigned long long)waited, field->hogs, field->interval,
              (unsigned long long)most_of(field));
}

/* One run of a hog. */
static void run_once(struct field *field)
{
    hd_yield();
    field->runs++;
    if (field->written) expect_in_time(field, field->runs - field->written);
}

static int hog(void *arg)
{
    struct field *field = arg;
    while (field->round < ROUNDS) run_once(field);
    return 0;
}

/* Also a hog. Between two writes the reader comes to wait, and the worker to look, after which the
 * kernel knows of that; each time for longer, so that the writes are at many distances from a
 * look. */
static int write_rarely(void *arg)
{
    struct field *field = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint64_t until = field->runs + 2 * field->interval + round;
        while (field->runs < until) run_once(field);
        EXPECT_EQ(field->round, round);
        EXPECT_EQ(hd_write(field->ends[1], "n", 1), 1);
        field->written = field->runs;
        while (field->round == round) run_once(field);
    }
    return 0;
}

static int read_all(void *arg)
{
    struct field *field = arg;
    while (field->round < ROUNDS) {
        char byte;
        EXPECT_EQ(hd_read(field->ends[0], &byte, 1), 1);
        const uint64_t waited = field->runs - field->written;
        expect_in_time(field, waited);
        if (waited > field->most) field->most = waited;
        field->written = 0;
        field->round++;
    }
    return 0;
}

static int be_busy(void *arg)
{
    struct field *field = arg;
    hd_task *tasks[256];
    unsigned count = 0;
    nets_pair(field->kind, field->ends);
    tasks[count++] = rt_spawn(NULL, read_all, field);
    tasks[count++] = rt_spawn(NULL, write_rarely, field);
    while (count <= field->hogs) tasks[count++] = rt_spawn(NULL, hog, field);
    while (count > 0) EXPECT_EQ(rt_join(tasks[--count]), 0);
    nets_close(field->ends[0], field->ends[1]);
    return 0;
}

/* Of the kinds where who writes has told the reader's side when it returns: TCP may take its
 * time. */
TEST_DRIVERS(news_are_heard_within_the_interval, options)
{
    static const struct {
        unsigned hogs, interval;
    } cases[] = {{1, 2}, {1, 50}, {11, 16}, {99, 8}, {199, 255}};
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct field field = {.hogs = cases[i / 2].hogs, .interval = cases[i / 2].interval,
                              .kind = i % 2 ? NETS_PIPE : NETS_UNIX};
        hd_options own = rt_workers(options, 1);
        own.inject_interval_min = own.inject_interval_max = field.interval;
        rt_run(be_busy, &field, &own);
        EXPECT(field.most >= field.hogs + field.interval / 2); /* It does not look all the time. */
    }
}

/* ---- for many at once ---- */

enum { MANY = 200, HOGS = 10 };

struct many {
    unsigned interval;
    hd_io ends[MANY][2];
    uint64_t runs, written; /* as above */
    unsigned waiting;       /* readers that wait, or will in the same run */
};

struct one {
    struct many *many;
    hd_io io;
};

static int read_one(void *arg)
{
    const struct one *one = arg;
    char byte;
    one->many->waiting++;
    EXPECT_EQ(hd_read(one->io, &byte, 1), 1);
    EXPECT(one->many->runs - one->many->written <= one->many->interval - 1 + HOGS);
    one->many->waiting--;
    return 0;
}

static int hog_many(void *arg)
{
    struct many *many = arg;
    while (many->written == 0 || many->waiting > 0) {
        hd_yield();
        many->runs++;
    }
    return 0;
}

/* By then the worker has looked, and the kernel knows of all that wait. */
static int write_to_all(void *arg)
{
    struct many *many = arg;
    while (many->waiting < MANY || many->runs < 3 * many->interval) hd_yield();
    for (int i = 0; i < MANY; i++) EXPECT_EQ(write(hd_io_fd(many->ends[i][1]), "n", 1), 1);
    many->written = many->runs;
    return 0;
}

static int be_many(void *arg)
{
    static struct one ones[MANY];
    static hd_task *tasks[MANY + HOGS + 1];
    struct many *many = arg;
    unsigned count = 0;
    for (int i = 0; i < MANY; i++) {
        EXPECT_EQ(hd_unix_pair(many->ends[i]), 0);
        ones[i] = (struct one){many, many->ends[i][0]};
        tasks[count++] = rt_spawn(NULL, read_one, &ones[i]);
    }
    for (int i = 0; i < HOGS; i++) tasks[count++] = rt_spawn(NULL, hog_many, many);
    tasks[count++] = rt_spawn(NULL, write_to_all, many);
    while (count > 0) EXPECT_EQ(rt_join(tasks[--count]), 0);
    for (int i = 0; i < MANY; i++) nets_close(many->ends[i][0], many->ends[i][1]);
    return 0;
}

/* As many as a look brings: they are behind the hogs then, all at once. */
TEST_DRIVERS(news_for_many_are_heard_within_the_interval, options)
{
    static struct many many;
    many = (struct many){.interval = 255};
    hd_options own = rt_workers(options, 1);
    own.inject_interval_min = own.inject_interval_max = many.interval;
    rt_run(be_many, &many, &own);
}
