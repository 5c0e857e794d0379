/* SPDX-License-Identifier: MIT
 *
 * Channels: many items in one call, blocks that change their owner, and channels of one type.
 */
#include "rt.h"

TEST_MAIN

static hd_chan *make(size_t item_bytes, size_t capacity)
{
    hd_chan *chan = hd_chan_create(item_bytes, capacity);
    EXPECT(chan != NULL);
    return chan;
}

/* ---- many at once ---- */

struct many {
    hd_chan *chan;
    int count;
    ptrdiff_t sent, then;
    atomic_int waits;
};

static int send_many(void *arg)
{
    struct many *many = arg;
    int items[300];
    for (int i = 0; i < 300; i++) items[i] = i;
    atomic_store(&many->waits, 1);
    many->sent = hd_chan_send_many(many->chan, items, (size_t)many->count);
    many->then = hd_chan_send_many(many->chan, items, 1);
    return 0;
}

static int pass_many(void *arg)
{
    static const size_t capacities[] = {0, 1, 7, 1000, HD_CHAN_UNLIMITED};
    (void)arg;
    for (int c = 0; c < 5; c++) {
        struct many many = {.chan = make(sizeof(int), capacities[c]), .count = 300};
        hd_task *task = rt_spawn(NULL, send_many, &many);
        int items[50], expected = 0;
        while (expected < 300) {
            const ptrdiff_t got = hd_chan_recv_many(many.chan, items, 50);
            EXPECT(got > 0 && got <= 50);
            for (ptrdiff_t i = 0; i < got; i++) EXPECT_EQ(items[i], expected++ % 300);
            if (capacities[c] == 0) EXPECT_EQ(hd_chan_count(many.chan), 0);
        }
        if (expected == 300) EXPECT_EQ(hd_chan_recv(many.chan, items), 0); /* `then` */
        rt_join(task);
        EXPECT_EQ(many.sent, 300);
        EXPECT_EQ(many.then, 1);
        hd_chan_destroy(many.chan);
    }
    return 0;
}

TEST_WORLDS(many_items_in_one_call, options)
{
    rt_run(pass_many, NULL, options);
}

/* What was sent before the end is told, and the end by the next call. */
static int send_some(void *arg)
{
    const intptr_t cancels = (intptr_t)arg;
    struct many many = {.chan = make(sizeof(int), 10), .count = 300};
    hd_task *task = rt_spawn(NULL, send_many, &many);
    rt_until(&many.waits);
    int items[100];
    EXPECT_EQ(hd_chan_recv_many(many.chan, items, 5), 5);
    EXPECT_EQ(items[4], 4);
    if (cancels) {
        hd_cancel(task);
    } else {
        EXPECT_EQ(hd_chan_close(many.chan), 0);
    }
    rt_join(task);
    EXPECT_EQ(many.then, cancels ? -ECANCELED : -EPIPE);
    ptrdiff_t got = 5, more; /* Nothing is lost: as many come out as are said to be in. */
    while ((more = hd_chan_recv_many_until(many.chan, items, 100, HD_NOW)) > 0) {
        for (ptrdiff_t i = 0; i < more; i++) EXPECT_EQ(items[i], got + i);
        got += more;
    }
    EXPECT_EQ(more, cancels ? -EAGAIN : -EPIPE);
    EXPECT_EQ(got, many.sent);
    EXPECT(got >= 11 && got <= 16); /* 5, a ring-full, and one if it ran between */
    hd_chan_destroy(many.chan);
    return 0;
}

TEST_WORLDS(a_close_or_cancel_in_the_middle_of_many_loses_none, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(send_some, (void *)0, &one);
    rt_run(send_some, (void *)1, &one);
}

static int few_of_many(void *arg)
{
    (void)arg;
    hd_chan *chan = make(sizeof(int), 4);
    int items[6] = {1, 2, 3, 4, 5, 6};
    EXPECT_EQ(hd_chan_send_many(chan, items, 0), 0);
    EXPECT_EQ(hd_chan_recv_many(chan, items, 0), 0);
    EXPECT_EQ(hd_chan_send_many_until(chan, items, 6, HD_NOW), 4);
    EXPECT_EQ(hd_chan_send_many_until(chan, items, 6, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_chan_send_many_until(chan, items, 6, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_recv_many(chan, items, 6), 4);
    EXPECT_EQ(hd_chan_recv_many_until(chan, items, 6, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_chan_recv_many_until(chan, items, 6, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_send_many_until(chan, items, 6, hd_after_ms(1)), 4); /* then time was up */
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(many_with_deadlines, options)
{
    rt_run(few_of_many, NULL, options);
}

/* ---- blocks ---- */

static int give_blocks(void *arg)
{
    for (int i = 0; i < 20; i++) {
        int *block = malloc(sizeof(*block));
        EXPECT(block != NULL);
        *block = i;
        EXPECT_EQ(hd_chan_give(arg, block), 0);
    }
    return hd_chan_close(arg);
}

static int take_blocks(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 4; capacity++) {
        hd_chan *chan = make(sizeof(void *), capacity);
        hd_task *task = rt_spawn(NULL, give_blocks, chan);
        void *block = NULL;
        int err, expected = 0;
        while ((err = hd_chan_take(chan, &block)) == 0) {
            EXPECT_EQ(*(int *)block, expected++);
            free(block);
        }
        EXPECT_EQ(err, -EPIPE);
        EXPECT_EQ(expected, 20);
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(hd_chan_give(chan, &err), -EPIPE);
        EXPECT_EQ(hd_chan_take_try(chan, &block), -EPIPE);
        hd_chan_destroy(chan);
    }
    hd_chan *chan = make(sizeof(void *), 1);
    void *block = NULL;
    EXPECT_EQ(hd_chan_take_until(chan, &block, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_give_try(chan, chan), 0);
    EXPECT_EQ(hd_chan_give_try(chan, chan), -EAGAIN);
    EXPECT_EQ(hd_chan_give_until(chan, chan, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_take(chan, &block), 0);
    EXPECT(block == chan);
    hd_chan_destroy(chan);
    hd_chan *ints = make(sizeof(int), 1);
    EXPECT_EQ(hd_chan_give(ints, ints), -EINVAL);
    EXPECT_EQ(hd_chan_take(ints, &block), -EINVAL);
    hd_chan_destroy(ints);
    return 0;
}

TEST_WORLDS(blocks_change_their_owner, options)
{
    rt_run(take_blocks, NULL, options);
}

/* ---- of one type ---- */

struct point {
    double x, y;
    char name[20];
};

HD_CHAN_TYPE(points, struct point);

static int use_points(void *arg)
{
    (void)arg;
    points *chan = points_create(2), *other = NULL;
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = 5;
    EXPECT_EQ(points_create_with(&other, &options), 0);
    EXPECT_EQ(hd_chan_capacity(points_untyped(other)), 5);
    struct point got, many[4];
    EXPECT_EQ(points_send(chan, (struct point){1, 2, "one"}), 0);
    EXPECT_EQ(points_send_until(chan, (struct point){3, 4, "two"}, hd_after_ms(1000)), 0);
    EXPECT_EQ(points_send_try(chan, (struct point){0, 0, ""}), -EAGAIN);
    EXPECT_EQ(points_count(chan), 2);
    EXPECT_EQ(points_recv(chan, &got), 0);
    EXPECT(got.x == 1 && strcmp(got.name, "one") == 0);
    EXPECT_EQ(points_recv_until(chan, &got, hd_after_ms(1000)), 0);
    EXPECT(got.y == 4);
    EXPECT_EQ(points_recv_try(chan, &got), -EAGAIN);
    EXPECT_EQ(points_send_many(other, &got, 1), 1);
    EXPECT_EQ(points_send_many_until(other, &got, 1, HD_NOW), 1);
    EXPECT_EQ(points_recv_many(other, many, 4), 2);
    EXPECT_EQ(points_recv_many_until(other, many, 4, HD_NOW), -EAGAIN);
    hd_case cases[] = {points_recv_case(other, &got), points_send_case(chan, &many[1])};
    EXPECT_EQ(hd_select(cases, 2), 1);
    EXPECT(!points_closed(chan));
    EXPECT_EQ(points_close(chan), 0);
    EXPECT(points_closed(chan));
    points_destroy(chan);
    points_destroy(other);
    return 0;
}

TEST_WORLDS(channels_of_one_type, options)
{
    rt_run(use_points, NULL, options);
}
