/* SPDX-License-Identifier: MIT
 *
 * Channels that overflow, grow, or keep the latest item only; and the hook that gets what
 * nobody receives. Every item is accounted for.
 */
#include "rt.h"

TEST_MAIN

/* ---- the hook ---- */

/* Items given to the hook, in order. */
struct lost {
    int items[64];
    int count;
};

static void lose(void *item, void *arg)
{
    struct lost *lost = arg;
    EXPECT(lost->count < 64);
    lost->items[lost->count++] = *(const int *)item;
}

static hd_chan *make(size_t item_bytes, const hd_chan_options *options)
{
    hd_chan *chan = NULL;
    EXPECT_EQ(hd_chan_create_with(&chan, item_bytes, options), 0);
    return chan;
}

static hd_chan *make_losing(hd_overflow overflow, size_t capacity, struct lost *lost)
{
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = capacity;
    options.overflow = overflow;
    options.undelivered = lose;
    options.arg = lost;
    return make(sizeof(int), &options);
}

static void send_range(hd_chan *chan, int from, int to)
{
    for (int i = from; i < to; i++) EXPECT_EQ(hd_chan_send(chan, &i), 0);
}

static void expect_lost(const struct lost *lost, int from, int to)
{
    EXPECT_EQ(lost->count, to - from);
    for (int i = 0; i < lost->count; i++) EXPECT_EQ(lost->items[i], from + i);
}

static void expect_received(hd_chan *chan, int from, int to)
{
    int v = -1;
    for (int i = from; i < to; i++) {
        EXPECT_EQ(hd_chan_recv_try(chan, &v), 0);
        EXPECT_EQ(v, i);
    }
    EXPECT_EQ(hd_chan_recv_try(chan, &v), -EAGAIN);
}

TEST(drop_newest_keeps_what_there_is)
{
    struct lost lost = {.count = 0};
    hd_chan *chan = make_losing(HD_OVERFLOW_DROP_NEWEST, 3, &lost);
    send_range(chan, 0, 8);
    expect_lost(&lost, 3, 8);
    EXPECT_EQ(hd_chan_dropped(chan), 5);
    expect_received(chan, 0, 3);
    hd_chan_destroy(chan);
    EXPECT_EQ(lost.count, 5);
}

TEST(drop_oldest_keeps_the_latest)
{
    struct lost lost = {.count = 0};
    hd_chan *chan = make_losing(HD_OVERFLOW_DROP_OLDEST, 3, &lost);
    send_range(chan, 0, 8);
    expect_lost(&lost, 0, 5);
    EXPECT_EQ(hd_chan_dropped(chan), 5);
    expect_received(chan, 5, 8);
    hd_chan_destroy(chan);
    EXPECT_EQ(lost.count, 5);
}

TEST(without_room_at_all_the_newest_is_dropped_unless_somebody_waits)
{
    struct lost lost = {.count = 0};
    hd_chan *chan = make_losing(HD_OVERFLOW_DROP_NEWEST, 0, &lost);
    send_range(chan, 0, 2);
    expect_lost(&lost, 0, 2);
    hd_chan_destroy(chan);
}

TEST(items_left_at_the_end_go_to_the_hook)
{
    static const size_t capacities[] = {20, HD_CHAN_UNLIMITED};
    for (int c = 0; c < 2; c++) {
        struct lost lost = {.count = 0};
        hd_chan *chan = make_losing(HD_OVERFLOW_WAIT, capacities[c], &lost);
        send_range(chan, 0, 15);
        int v;
        for (int i = 0; i < 5; i++) EXPECT_EQ(hd_chan_recv_try(chan, &v), 0);
        send_range(chan, 15, 20);
        EXPECT_EQ(hd_chan_close(chan), 0);
        EXPECT_EQ(lost.count, 0);
        hd_chan_destroy(chan);
        expect_lost(&lost, 5, 20);
    }
}

TEST(without_a_hook_large_items_may_be_dropped_too)
{
    struct {
        int number;
        char rest[100];
    } item = {.number = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = 2;
    options.overflow = HD_OVERFLOW_DROP_OLDEST;
    hd_chan *chan = make(sizeof(item), &options);
    for (item.number = 0; item.number < 10; item.number++) {
        EXPECT_EQ(hd_chan_send(chan, &item), 0);
    }
    for (int i = 8; i < 10; i++) {
        EXPECT_EQ(hd_chan_recv_try(chan, &item), 0);
        EXPECT_EQ(item.number, i);
    }
    EXPECT_EQ(hd_chan_dropped(chan), 8);
    hd_chan_destroy(chan);
}

TEST(a_select_drops_too)
{
    struct lost oldest = {.count = 0}, newest = {.count = 0};
    hd_chan *a = make_losing(HD_OVERFLOW_DROP_OLDEST, 1, &oldest);
    hd_chan *b = make_losing(HD_OVERFLOW_DROP_NEWEST, 1, &newest);
    for (int i = 0; i < 4; i++) {
        hd_case cases[] = {HD_SEND(i % 2 ? a : b, &i)};
        EXPECT_EQ(hd_select(cases, 1), 0);
        EXPECT_EQ(cases[0].result, 0);
    }
    EXPECT_EQ(oldest.count, 1);
    EXPECT_EQ(oldest.items[0], 1);
    EXPECT_EQ(newest.count, 1);
    EXPECT_EQ(newest.items[0], 2);
    expect_received(a, 3, 4);
    expect_received(b, 0, 1);
    hd_chan_destroy(a);
    hd_chan_destroy(b);
}

TEST(many_items_drop_one_by_one)
{
    const int items[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct lost lost = {.count = 0};
    hd_chan *chan = make_losing(HD_OVERFLOW_DROP_OLDEST, 4, &lost);
    EXPECT_EQ(hd_chan_send_many(chan, items, 10), 10);
    expect_lost(&lost, 0, 6);
    int got[10];
    EXPECT_EQ(hd_chan_recv_many(chan, got, 10), 4);
    for (int i = 0; i < 4; i++) EXPECT_EQ(got[i], 6 + i);
    hd_chan_destroy(chan);
}

/* ---- the latest only ---- */

static int conflate(void *arg)
{
    (void)arg;
    struct lost lost = {.count = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.conflated = true;
    options.undelivered = lose;
    options.arg = &lost;
    hd_chan *chan = make(sizeof(int), &options);
    EXPECT_EQ(hd_chan_capacity(chan), 1);
    send_range(chan, 0, 5);
    expect_lost(&lost, 0, 4);
    expect_received(chan, 4, 5);
    send_range(chan, 5, 6);
    EXPECT_EQ(hd_chan_close(chan), 0);
    int v = 0;
    EXPECT_EQ(hd_chan_send(chan, &v), -EPIPE);
    EXPECT_EQ(hd_chan_recv(chan, &v), 0);
    EXPECT_EQ(v, 5);
    EXPECT_EQ(hd_chan_recv(chan, &v), -EPIPE);
    EXPECT_EQ(hd_chan_dropped(chan), 4);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(a_conflated_channel_keeps_the_latest, options)
{
    rt_run(conflate, NULL, options);
}

/* ---- growing ---- */

struct flow {
    hd_chan *chan;
    int from, to;
    atomic_int waits;
};

static int send_flow(void *arg)
{
    struct flow *flow = arg;
    atomic_store(&flow->waits, 1);
    send_range(flow->chan, flow->from, flow->to);
    return 0;
}

/* Bounded by items or by bytes it waits like any other, and memory comes and goes. */
static int grow_to_a_limit(void *arg)
{
    enum { LIMIT = 3000, ALL = 10000 };
    (void)arg;
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        hd_chan_options options = HD_CHAN_OPTIONS_INIT;
        options.capacity = HD_CHAN_UNLIMITED;
        options.items_max = by_bytes ? LIMIT + 1 : LIMIT;
        options.bytes_max = by_bytes ? LIMIT * sizeof(int) + 3 : 0;
        hd_chan *chan = make(sizeof(int), &options);
        EXPECT_EQ(hd_chan_capacity(chan), LIMIT);
        struct flow flow = {.chan = chan, .to = ALL};
        hd_task *task = rt_spawn(NULL, send_flow, &flow);
        while (hd_chan_count(chan) < LIMIT) hd_yield();
        EXPECT_EQ(hd_chan_send_try(chan, &(int){0}), -EAGAIN);
        for (int i = 0; i < ALL; i++) {
            int v;
            EXPECT_EQ(hd_chan_recv(chan, &v), 0);
            EXPECT_EQ(v, i);
            EXPECT(hd_chan_count(chan) <= LIMIT);
        }
        rt_join(task);
        hd_chan_destroy(chan);
    }
    return 0;
}

TEST_WORLDS(a_channel_that_grows_may_have_a_limit, options)
{
    rt_run(grow_to_a_limit, NULL, options);
}

TEST(a_channel_grows_and_shrinks_in_any_rhythm)
{
    static const size_t sizes[] = {0, 4, 24, 4096, 9000};
    for (int s = 0; s < 5; s++) {
        hd_chan *chan = hd_chan_create(sizes[s], HD_CHAN_UNLIMITED);
        EXPECT(chan != NULL);
        static int item[9000 / sizeof(int) + 1];
        int in = 0, out = 0;
        for (int round = 1; round < 40; round++) {
            for (int i = 0; i < round * 13 % 97; i++) {
                item[0] = in++;
                EXPECT_EQ(hd_chan_send(chan, item), 0);
            }
            for (int i = 0; i < round * 17 % 89 && out < in; i++) {
                EXPECT_EQ(hd_chan_recv_try(chan, item), 0);
                if (sizes[s]) EXPECT_EQ(item[0], out);
                out++;
            }
            EXPECT_EQ(hd_chan_count(chan), in - out);
        }
        hd_chan_destroy(chan);
    }
}

TEST(a_growing_channel_can_drop_and_be_selected)
{
    struct lost lost = {.count = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = HD_CHAN_UNLIMITED;
    options.items_max = 5;
    options.overflow = HD_OVERFLOW_DROP_OLDEST;
    options.undelivered = lose;
    options.arg = &lost;
    hd_chan *chan = make(sizeof(int), &options);
    for (int i = 0; i < 12; i++) {
        hd_case cases[] = {HD_SEND(chan, &i)};
        EXPECT_EQ(hd_select(cases, 1), 0);
        EXPECT_EQ(cases[0].result, 0);
    }
    expect_lost(&lost, 0, 7);
    expect_received(chan, 7, 12);
    hd_chan_destroy(chan);
}

/* ---- won by a stackless task that did not look ---- */

struct careless {
    hd_chan *chan;
    int item;
    hd_wait wait;
    hd_case c;
    bool waits;
    atomic_int *waiting;
};

/* Waits for an item; woken, it ends without asking. */
static hd_poll end_without_looking(void *state, int *result)
{
    struct careless *s = state;
    *result = 0;
    if (s->waits) return HD_READY;
    s->c = (hd_case)HD_RECV(s->chan, &s->item);
    EXPECT_EQ(hd_select_poll(&s->wait, &s->c, 1, 0, HD_FOREVER), -EAGAIN);
    s->waits = true;
    atomic_store(s->waiting, 1);
    return HD_PENDING;
}

static int send_to_careless(void *arg)
{
    (void)arg;
    struct lost lost = {.count = 0};
    hd_chan *chan = make_losing(HD_OVERFLOW_WAIT, 0, &lost);
    atomic_int waiting = 0;
    const struct careless start = {.chan = chan, .waiting = &waiting};
    hd_task *task = rt_spawn_poll(NULL, end_without_looking, &start, sizeof(start));
    rt_until(&waiting);
    EXPECT_EQ(hd_chan_send(chan, &(int){31}), 0);
    rt_join(task);
    expect_lost(&lost, 31, 32);
    atomic_store(&waiting, 0);
    task = rt_spawn_poll(NULL, end_without_looking, &start, sizeof(start));
    rt_until(&waiting);
    hd_cancel(task); /* Not won: nothing to lose, and it has left the queue. */
    rt_join(task);
    EXPECT_EQ(lost.count, 1);
    EXPECT_EQ(hd_chan_send_try(chan, &(int){32}), -EAGAIN);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(an_item_won_by_a_task_that_ended_goes_to_the_hook, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(send_to_careless, NULL, &one);
}

/* ---- what is refused ---- */

static int refuse(size_t item_bytes, hd_chan_options options)
{
    hd_chan *chan = NULL;
    options.size = sizeof(options);
    const int err = hd_chan_create_with(&chan, item_bytes, &options);
    EXPECT((err == 0) == (chan != NULL));
    hd_chan_destroy(chan);
    return err;
}

TEST(policies_that_make_no_sense_are_refused)
{
    EXPECT_EQ(refuse(4, (hd_chan_options){.items_max = 1}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.bytes_max = 10, .capacity = 5}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.capacity = SIZE_MAX, .bytes_max = 3}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.capacity = SIZE_MAX, .bytes_max = 4}), 0);
    EXPECT_EQ(refuse(4, (hd_chan_options){.conflated = true, .capacity = 2}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.conflated = true, .capacity = 1}), 0);
    EXPECT_EQ(refuse(4, (hd_chan_options){.conflated = true, .overflow = 1}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.overflow = HD_OVERFLOW_DROP_OLDEST}), -EINVAL);
    EXPECT_EQ(refuse(4, (hd_chan_options){.capacity = 1, .overflow = (hd_overflow)3}), -EINVAL);
    const hd_chan_options hooked = {.conflated = true, .undelivered = lose};
    EXPECT_EQ(refuse(16, hooked), 0);
    EXPECT_EQ(refuse(17, hooked), -EINVAL);
    EXPECT_EQ(refuse(17, (hd_chan_options){.conflated = true}), 0);
}
