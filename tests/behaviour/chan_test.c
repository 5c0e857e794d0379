/* SPDX-License-Identifier: MIT
 *
 * Channels: order, waiting, closing, cancelling, deadlines; from fibers, stackless tasks and
 * threads. Many items at once, blocks and typed channels are in chan_many_test.c, what happens
 * to items when a channel overflows in chan_policy_test.c.
 */
#include "rt.h"

#include "death.h"

TEST_MAIN

static hd_chan *make(size_t item_bytes, size_t capacity)
{
    hd_chan *chan = hd_chan_create(item_bytes, capacity);
    EXPECT(chan != NULL);
    return chan;
}

/* Start a fiber that sets *waits and then waits, and let it get there. One worker. */
static hd_task *spawn_waiting(hd_fn *fn, void *arg, atomic_int *waits)
{
    atomic_store(waits, 0);
    hd_task *task = rt_spawn(NULL, fn, arg);
    rt_until(waits);
    return task;
}

/* ---- order ---- */

enum { MANY = 3000 };

static int send_numbers(void *arg)
{
    for (int i = 0; i < MANY; i++) EXPECT_EQ(hd_chan_send(arg, &i), 0);
    EXPECT_EQ(hd_chan_close(arg), 0);
    return 0;
}

static int expect_numbers(void *arg)
{
    static const size_t capacities[] = {0, 1, 2, 3, 1024, 5000, HD_CHAN_UNLIMITED};
    (void)arg;
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        hd_chan *chan = make(sizeof(int), capacities[i]);
        EXPECT_EQ(hd_chan_capacity(chan), capacities[i]);
        hd_task *sender = rt_spawn(NULL, send_numbers, chan);
        int v = -1;
        for (int expected = 0; expected < MANY; expected++) {
            EXPECT_EQ(hd_chan_recv(chan, &v), 0);
            EXPECT_EQ(v, expected);
        }
        EXPECT_EQ(hd_chan_recv(chan, &v), -EPIPE);
        EXPECT_EQ(v, MANY - 1);
        rt_join(sender);
        hd_chan_destroy(chan);
    }
    return 0;
}

TEST_WORLDS(items_come_out_in_the_order_they_went_in, options)
{
    rt_run(expect_numbers, NULL, options);
}

enum { LINE = 5 };

struct line {
    hd_chan *chan;
    atomic_int waits;
    int next, got[LINE];
};

static int receive_in_line(void *arg)
{
    struct line *line = arg;
    const int place = line->next++;
    atomic_store(&line->waits, 1);
    EXPECT_EQ(hd_chan_recv(line->chan, &line->got[place]), 0);
    return 0;
}

static int send_in_line(void *arg)
{
    struct line *line = arg;
    const int place = line->next++;
    atomic_store(&line->waits, 1);
    EXPECT_EQ(hd_chan_send(line->chan, &place), 0);
    return 0;
}

static int serve_lines(void *arg)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        struct line line = {.chan = make(sizeof(int), capacity)};
        hd_task *tasks[LINE];
        for (int i = 0; i < LINE; i++) {
            tasks[i] = spawn_waiting(receive_in_line, &line, &line.waits);
        }
        for (int i = 0; i < LINE; i++) EXPECT_EQ(hd_chan_send_try(line.chan, &i), 0);
        for (int i = 0; i < LINE; i++) {
            rt_join(tasks[i]);
            EXPECT_EQ(line.got[i], i); /* Who waited longest got the first. */
        }
        const int ahead = 100;
        for (size_t i = 0; i < capacity; i++) {
            EXPECT_EQ(hd_chan_send_try(line.chan, &ahead), 0);
        }
        line.next = 0;
        for (int i = 0; i < LINE; i++) {
            tasks[i] = spawn_waiting(send_in_line, &line, &line.waits);
        }
        int v;
        for (size_t i = 0; i < capacity; i++) {
            EXPECT_EQ(hd_chan_recv_try(line.chan, &v), 0);
            EXPECT_EQ(v, ahead);
        }
        for (int i = 0; i < LINE; i++) {
            EXPECT_EQ(hd_chan_recv_try(line.chan, &v), 0);
            EXPECT_EQ(v, i);
        }
        EXPECT_EQ(hd_chan_recv_try(line.chan, &v), -EAGAIN);
        for (int i = 0; i < LINE; i++) rt_join(tasks[i]);
        hd_chan_destroy(line.chan);
    }
    (void)arg;
    return 0;
}

TEST_WORLDS(who_waits_longest_is_served_first, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(serve_lines, NULL, &one);
}

static int fill_and_empty(void *arg)
{
    (void)arg;
    hd_chan *chan = make(sizeof(int), 3);
    int v = 7;
    for (int round = 0; round < 4; round++) { /* The ring wraps. */
        EXPECT_EQ(hd_chan_recv_try(chan, &v), -EAGAIN);
        EXPECT_EQ(hd_chan_recv_until(chan, &v, HD_NOW), -EAGAIN);
        EXPECT_EQ(v, 7);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(hd_chan_count(chan), i);
            EXPECT_EQ(hd_chan_send_try(chan, &i), 0);
        }
        EXPECT_EQ(hd_chan_send_try(chan, &v), -EAGAIN);
        EXPECT_EQ(hd_chan_send_until(chan, &v, HD_NOW), -EAGAIN);
        EXPECT_EQ(hd_chan_count(chan), 3);
        EXPECT_EQ(hd_chan_recv(chan, &v), 0);
        EXPECT_EQ(v, 0);
        EXPECT_EQ(hd_chan_send(chan, &(int){3}), 0);
        for (int i = 1; i < 4; i++) {
            EXPECT_EQ(hd_chan_recv(chan, &v), 0);
            EXPECT_EQ(v, i);
        }
        v = 7;
    }
    EXPECT_EQ(hd_chan_dropped(chan), 0);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(a_full_channel_has_no_room_and_an_empty_one_nothing, options)
{
    rt_run(fill_and_empty, NULL, options);
}

/* ---- items of any size ---- */

static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 100, 5000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SIZE_MOST = 5000, EDGE = 8 };

static void fill(unsigned char *item, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++) item[i] = (unsigned char)(i * 7 + (size_t)seed);
}

struct sized {
    hd_chan *chan;
    size_t bytes;
    atomic_int waits;
};

/* Receive with something before and after it that must stay. */
static void receive_sized(const struct sized *sized, int seed)
{
    static unsigned char buffer[EDGE + SIZE_MOST + EDGE], expected[SIZE_MOST];
    memset(buffer, 0xee, sizeof(buffer));
    fill(expected, sized->bytes, seed);
    EXPECT_EQ(hd_chan_recv(sized->chan, buffer + EDGE), 0);
    EXPECT(memcmp(buffer + EDGE, expected, sized->bytes) == 0);
    for (int i = 0; i < EDGE; i++) {
        EXPECT_EQ(buffer[i], 0xee);
        EXPECT_EQ(buffer[EDGE + sized->bytes + (size_t)i], 0xee);
    }
}

static int send_sized(void *arg)
{
    struct sized *sized = arg;
    static unsigned char item[SIZE_MOST];
    fill(item, sized->bytes, 1);
    atomic_store(&sized->waits, 1);
    EXPECT_EQ(hd_chan_send(sized->chan, item), 0);
    return 0;
}

static int receive_first(void *arg)
{
    struct sized *sized = arg;
    atomic_store(&sized->waits, 1);
    receive_sized(sized, 2);
    return 0;
}

static int pass_sizes(void *arg)
{
    static unsigned char item[SIZE_MOST];
    (void)arg;
    for (int i = 0; i < SIZES; i++) {
        for (size_t capacity = 0; capacity < 3; capacity++) {
            const size_t real = capacity == 2 ? HD_CHAN_UNLIMITED : capacity;
            struct sized sized = {.chan = make(sizes[i], real), .bytes = sizes[i]};
            hd_task *task = spawn_waiting(send_sized, &sized, &sized.waits); /* sender first */
            receive_sized(&sized, 1);
            rt_join(task);
            task = spawn_waiting(receive_first, &sized, &sized.waits);
            fill(item, sizes[i], 2);
            EXPECT_EQ(hd_chan_send(sized.chan, item), 0);
            rt_join(task);
            hd_chan_destroy(sized.chan);
        }
    }
    return 0;
}

TEST_WORLDS(items_of_any_size_arrive_whole, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(pass_sizes, NULL, &one);
}

/* ---- closing ---- */

struct end {
    hd_chan *chan;
    atomic_int waits;
    int err, item;
};

static int receive_to_end(void *arg)
{
    struct end *end = arg;
    atomic_store(&end->waits, 1);
    end->err = hd_chan_recv(end->chan, &end->item);
    return 0;
}

static int send_to_end(void *arg)
{
    struct end *end = arg;
    atomic_store(&end->waits, 1);
    end->err = hd_chan_send(end->chan, &end->item);
    return 0;
}

static int close_waiting(void *arg)
{
    (void)arg;
    struct end ends[4] = {{.item = 41}, {.item = 42}, {.item = 43}, {.item = 44}};
    hd_chan *empty = make(sizeof(int), 2), *full = make(sizeof(int), 2);
    EXPECT_EQ(hd_chan_send(full, &(int){1}), 0);
    EXPECT_EQ(hd_chan_send(full, &(int){2}), 0);
    hd_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        ends[i].chan = i < 2 ? empty : full;
        tasks[i] = spawn_waiting(i < 2 ? receive_to_end : send_to_end, &ends[i], &ends[i].waits);
    }
    EXPECT(!hd_chan_closed(empty));
    EXPECT_EQ(hd_chan_close(empty), 0);
    EXPECT_EQ(hd_chan_close(full), 0);
    EXPECT_EQ(hd_chan_close(full), -EPIPE);
    EXPECT(hd_chan_closed(empty));
    for (int i = 0; i < 4; i++) {
        rt_join(tasks[i]);
        EXPECT_EQ(ends[i].err, -EPIPE);
        EXPECT_EQ(ends[i].item, 41 + i); /* not written, and not sent: */
    }
    int v = 0;
    EXPECT_EQ(hd_chan_send(full, &v), -EPIPE);
    EXPECT_EQ(hd_chan_send_try(full, &v), -EPIPE);
    for (int i = 1; i < 3; i++) {
        EXPECT_EQ(hd_chan_recv(full, &v), 0);
        EXPECT_EQ(v, i);
        EXPECT_EQ(hd_chan_send_try(full, &v), -EPIPE); /* Room does not matter any more. */
    }
    EXPECT_EQ(hd_chan_recv(full, &v), -EPIPE);
    EXPECT_EQ(hd_chan_recv_try(full, &v), -EPIPE);
    EXPECT_EQ(v, 2);
    hd_chan_destroy(empty);
    hd_chan_destroy(full);
    return 0;
}

TEST_WORLDS(closing_wakes_all_and_drains, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(close_waiting, NULL, &one);
}

static void destroy_under_a_waiter(void *arg)
{
    (void)arg;
    const hd_options sim = {.size = sizeof(sim), .world = HD_WORLD_SIM};
    hd_runtime *runtime = rt_create(&sim);
    struct end end = {.chan = make(sizeof(int), 0)};
    rt_spawn(runtime, receive_to_end, &end);
    rt_await(runtime, &end.waits);
    hd_chan_destroy(end.chan);
}

TEST(destroying_a_channel_that_somebody_waits_on_is_told)
{
    expect_abort(destroy_under_a_waiter, NULL, "destroyed while somebody waits on it");
}

/* ---- cancelling ---- */

static int cancel_waiting(void *arg)
{
    (void)arg;
    for (int sends = 0; sends < 2; sends++) {
        for (size_t bytes = 4; bytes <= 40; bytes += 36) {
            struct end end = {.chan = make(bytes, 0), .item = 5};
            hd_task *task =
                spawn_waiting(sends ? send_to_end : receive_to_end, &end, &end.waits);
            hd_cancel(task);
            rt_join(task);
            EXPECT_EQ(end.err, -ECANCELED);
            EXPECT_EQ(end.item, 5);
            unsigned char other[40] = {0};
            EXPECT_EQ(hd_chan_recv_try(end.chan, other), -EAGAIN); /* It left the queue. */
            EXPECT_EQ(hd_chan_send_try(end.chan, other), -EAGAIN);
            hd_chan_destroy(end.chan);
        }
    }
    return 0;
}

TEST_WORLDS(a_cancel_ends_the_wait_and_nothing_happened, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_waiting, NULL, &one);
}

static int complete_then_cancel(void *arg)
{
    (void)arg;
    struct end end = {.chan = make(sizeof(int), 0)};
    hd_task *task = spawn_waiting(receive_to_end, &end, &end.waits);
    EXPECT_EQ(hd_chan_send_try(end.chan, &(int){9}), 0);
    hd_cancel(task); /* It has not run since. */
    rt_join(task);
    EXPECT_EQ(end.err, 0);
    EXPECT_EQ(end.item, 9);
    task = spawn_waiting(send_to_end, &end, &end.waits);
    int v = 0;
    EXPECT_EQ(hd_chan_recv_try(end.chan, &v), 0);
    hd_cancel(task);
    rt_join(task);
    EXPECT_EQ(end.err, 0);
    EXPECT_EQ(v, 9);
    hd_chan_destroy(end.chan);
    return 0;
}

TEST_WORLDS(what_is_done_before_a_cancel_is_done, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(complete_then_cancel, NULL, &one);
}

static int act_cancelled(void *arg)
{
    hd_chan *chan = arg;
    while (!hd_cancelled()) hd_yield();
    int v = 3;
    EXPECT_EQ(hd_chan_recv(chan, &v), -ECANCELED); /* though there is an item, */
    EXPECT_EQ(hd_chan_send(chan, &v), -ECANCELED); /* and room */
    EXPECT_EQ(hd_chan_recv_until(chan, &v, HD_FOREVER), -ECANCELED);
    EXPECT_EQ(hd_chan_send_many(chan, &v, 1), -ECANCELED);
    EXPECT_EQ(hd_chan_recv_many(chan, &v, 1), -ECANCELED);
    EXPECT_EQ(v, 3);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_chan_recv(chan, &v), 0);
    EXPECT_EQ(hd_unshield(), 0);
    EXPECT_EQ(v, 1);
    EXPECT_EQ(hd_chan_recv_try(chan, &v), 0); /* Trying is not waiting. */
    EXPECT_EQ(v, 2);
    return 0;
}

static int cancel_before(void *arg)
{
    (void)arg;
    hd_chan *chan = make(sizeof(int), 8);
    for (int i = 1; i < 3; i++) EXPECT_EQ(hd_chan_send(chan, &i), 0);
    hd_task *task = rt_spawn(NULL, act_cancelled, chan);
    hd_cancel(task);
    rt_join(task);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(a_cancelled_task_does_not_begin_to_wait, options)
{
    rt_run(cancel_before, NULL, options);
}

/* ---- deadlines ---- */

static int wait_for_nothing(void *arg)
{
    (void)arg;
    hd_chan *chan = make(sizeof(int), 1);
    int v = 6;
    const int64_t start = hd_now(NULL);
    EXPECT_EQ(hd_chan_recv_until(chan, &v, start + 3000000), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= start + 3000000);
    EXPECT_EQ(v, 6);
    EXPECT_EQ(hd_chan_recv_until(chan, &v, 1), -ETIMEDOUT); /* long past */
    EXPECT_EQ(hd_chan_send_until(chan, &v, 1), 0);          /* past, but there is room */
    EXPECT_EQ(hd_chan_send_until(chan, &v, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_count(chan), 1);
    EXPECT_EQ(hd_chan_recv_until(chan, &v, 1), 0);
    EXPECT_EQ(hd_chan_recv_try(chan, &v), -EAGAIN);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(deadlines_end_waits, options)
{
    rt_run(wait_for_nothing, NULL, options);
}

/* ---- stackless tasks ---- */

struct stackless {
    hd_chan *in, *out;
    int n, item;
    bool sending, waiting;
    hd_wait wait;
    hd_case c;
};

/* Add 100 to each item, one after another. */
static hd_poll pass_on(void *state, int *result)
{
    struct stackless *s = state;
    EXPECT_EQ(hd_chan_recv(s->in, &s->n), -EINVAL); /* It must not block its worker. */
    EXPECT_EQ(hd_chan_send(s->in, &s->n), -EINVAL);
    for (;;) {
        if (!s->waiting) {
            s->c = s->sending ? (hd_case)HD_SEND(s->out, &s->item)
                              : (hd_case)HD_RECV(s->in, &s->item);
        }
        const int which = hd_select_poll(&s->wait, &s->c, 1, 0, HD_FOREVER);
        s->waiting = which == -EAGAIN;
        if (s->waiting) return HD_PENDING;
        EXPECT_EQ(which, 0);
        if (s->c.result != 0) break;
        s->sending = !s->sending;
        s->item += s->sending ? 100 : 0;
    }
    EXPECT_EQ(s->c.result, -EPIPE);
    *result = hd_chan_close(s->out);
    return HD_READY;
}

static int feed_stackless(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 3; capacity++) {
        hd_chan *in = make(sizeof(int), capacity), *out = make(sizeof(int), capacity);
        const struct stackless start = {.in = in, .out = out};
        hd_task *middle = rt_spawn_poll(NULL, pass_on, &start, sizeof(start));
        hd_task *source = rt_spawn(NULL, send_numbers, in);
        int v = 0;
        for (int i = 0; i < MANY; i++) {
            EXPECT_EQ(hd_chan_recv(out, &v), 0);
            EXPECT_EQ(v, i + 100);
        }
        EXPECT_EQ(hd_chan_recv(out, &v), -EPIPE);
        rt_join(source);
        EXPECT_EQ(rt_join(middle), 0);
        hd_chan_destroy(in);
        hd_chan_destroy(out);
    }
    return 0;
}

TEST_WORLDS(stackless_tasks_receive_and_send, options)
{
    rt_run(feed_stackless, NULL, options);
}

/* ---- threads ---- */

TEST_WORLDS(threads_send_to_fibers_and_receive_from_them, options)
{
    static const size_t capacities[] = {0, 1, 64};
    for (int c = 0; c < 3; c++) {
        hd_runtime *runtime = rt_create(options);
        hd_chan *in = make(sizeof(int), capacities[c]), *out = make(sizeof(int), capacities[c]);
        const struct stackless start = {.in = in, .out = out};
        hd_task *task = rt_spawn_poll(runtime, pass_on, &start, sizeof(start));
        int v = 0;
        for (int i = 0; i < 200; i++) {
            EXPECT_EQ(hd_chan_send(in, &i), 0);
            EXPECT_EQ(hd_chan_recv(out, &v), 0);
            EXPECT_EQ(v, i + 100);
        }
        EXPECT_EQ(hd_chan_recv_until(out, &v, hd_now(runtime) + 1000000), -ETIMEDOUT);
        if (rt_is_sim(options)) EXPECT_EQ(hd_chan_recv(out, &v), -EDEADLK);
        EXPECT_EQ(v, 299);
        EXPECT_EQ(hd_chan_close(in), 0);
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(hd_chan_recv(out, &v), -EPIPE);
        hd_runtime_destroy(runtime);
        hd_chan_destroy(in);
        hd_chan_destroy(out);
    }
}

TEST(options_that_make_no_sense_are_refused)
{
    hd_chan *chan = NULL;
    EXPECT(hd_chan_create((1 << 20) + 1, 0) == NULL);
    EXPECT(hd_chan_create(8, UINT32_MAX) == NULL);
    EXPECT_EQ(hd_chan_create_with(&chan, 4, NULL), 0);
    EXPECT_EQ(hd_chan_capacity(chan), 0);
    hd_chan_destroy(chan);
    hd_chan_destroy(NULL);
    chan = NULL;
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.size--;
    EXPECT_EQ(hd_chan_create_with(&chan, 4, &options), -EINVAL);
    EXPECT(chan == NULL);
}
