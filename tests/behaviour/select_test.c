/* SPDX-License-Identifier: MIT
 *
 * Select over channels, time and tasks: exactly one case happens, any that can may, and the
 * others have no effect.
 */
#include "rt.h"

TEST_MAIN

static hd_chan *make(size_t capacity)
{
    hd_chan *chan = hd_chan_create(sizeof(int), capacity);
    EXPECT(chan != NULL);
    return chan;
}

static hd_chan *make_with(int item)
{
    hd_chan *chan = make(4);
    EXPECT_EQ(hd_chan_send_try(chan, &item), 0);
    return chan;
}

/* ---- which case ---- */

/* Each of 4 ready cases is drawn about as often as the others: over 1000 draws each of
 * these bounds fails by chance less than once in a million runs. */
static int draw_ready(void *arg)
{
    (void)arg;
    enum { CASES = 4, DRAWS = 1000 };
    hd_chan *chans[CASES];
    int hits[CASES] = {0}, firsts = 0, v;
    for (int i = 0; i < CASES; i++) chans[i] = make_with(i);
    for (int n = 0; n < DRAWS; n++) {
        hd_case cases[CASES + 1];
        for (int i = 0; i < CASES; i++) cases[i] = (hd_case)HD_RECV(chans[i], &v);
        cases[CASES] = (hd_case)HD_NEVER;
        const int which = hd_select(cases, CASES + 1);
        EXPECT(which >= 0 && which < CASES);
        EXPECT_EQ(cases[which].result, 0);
        EXPECT_EQ(v, which);
        hits[which]++;
        EXPECT_EQ(hd_chan_send_try(chans[which], &which), 0);
        for (int i = 0; i < CASES; i++) EXPECT_EQ(hd_chan_count(chans[i]), 1);
        hd_case two[2] = {HD_RECV(chans[2], &v), HD_RECV(chans[3], &v)};
        const int one = hd_select(two, 2);
        firsts += one == 0;
        EXPECT_EQ(hd_chan_send_try(chans[2 + one], &(int){2 + one}), 0);
    }
    for (int i = 0; i < CASES; i++) EXPECT(hits[i] > 180 && hits[i] < 320);
    EXPECT(firsts > 420 && firsts < 580);
    for (int i = 0; i < CASES; i++) hd_chan_destroy(chans[i]);
    return 0;
}

TEST_WORLDS(of_several_ready_cases_any_is_drawn, options)
{
    rt_run(draw_ready, NULL, options);
}

static int take_first(void *arg)
{
    (void)arg;
    hd_chan *chans[3] = {make(1), make_with(1), make_with(2)};
    int v;
    for (int n = 0; n < 50; n++) {
        hd_case cases[3];
        for (int i = 0; i < 3; i++) cases[i] = (hd_case)HD_RECV(chans[i], &v);
        EXPECT_EQ(hd_select_until(cases, 3, HD_SELECT_FIRST, HD_FOREVER), 1);
        EXPECT_EQ(v, 1);
        EXPECT_EQ(hd_chan_send_try(chans[1], &v), 0);
    }
    for (int i = 0; i < 3; i++) hd_chan_destroy(chans[i]);
    return 0;
}

TEST_WORLDS(with_priority_the_first_ready_case_is_taken, options)
{
    rt_run(take_first, NULL, options);
}

static int look_only(void *arg)
{
    (void)arg;
    hd_chan *empty = make(1), *full = make(0);
    int v = 5;
    hd_case cases[] = {HD_RECV(empty, &v), HD_SEND(full, &v), HD_NEVER};
    EXPECT_EQ(hd_select_until(cases, 3, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(v, 5);
    EXPECT_EQ(hd_chan_send_try(empty, &(int){6}), 0);
    EXPECT_EQ(hd_select_until(cases, 3, 0, HD_NOW), 0);
    EXPECT_EQ(v, 6);
    EXPECT_EQ(hd_select_until(cases, 3, 0, HD_NOW), -EAGAIN); /* It left nothing behind. */
    EXPECT_EQ(hd_chan_recv_try(full, &v), -EAGAIN);
    hd_chan_destroy(empty);
    hd_chan_destroy(full);
    return 0;
}

TEST_WORLDS(without_waiting_it_is_the_default_case, options)
{
    rt_run(look_only, NULL, options);
}

static int refuse(void *arg)
{
    (void)arg;
    hd_case cases[] = {HD_NEVER, HD_RECV(NULL, NULL)};
    EXPECT_EQ(hd_select(cases, 0), -EINVAL);
    EXPECT_EQ(hd_select(cases, 2), -EINVAL); /* no channel */
    EXPECT_EQ(hd_select(cases, HD_SELECT_MAX + 1), -EINVAL);
    EXPECT_EQ(hd_select_until(cases, 1, 2u, HD_NOW), -EINVAL);
    EXPECT_EQ(hd_select_until(cases, 1, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_select_until(cases, 1, 0, hd_after_ms(1)), -ETIMEDOUT);
    cases[0].kind = (hd_case_kind)99;
    EXPECT_EQ(hd_select(cases, 1), -EINVAL);
    hd_wait wait = {{0}};
    cases[0] = (hd_case)HD_NEVER;
    EXPECT_EQ(hd_select_poll(&wait, cases, 1, 0, HD_FOREVER), -EINVAL); /* in a fiber */
    EXPECT_EQ(hd_wait_end(&wait, cases), -ECANCELED);
    return 0;
}

TEST_WORLDS(cases_that_make_no_sense_are_refused, options)
{
    rt_run(refuse, NULL, options);
}

/* ---- one case alone ---- */

static int select_one(void *arg)
{
    int v = 0;
    hd_case c = HD_RECV(arg, &v);
    const int which = hd_select(&c, 1);
    return which < 0 ? which : c.result < 0 ? c.result : v;
}

static int end_in_every_way(void *arg)
{
    (void)arg;
    hd_chan *chan = make(0);
    int v = 7;
    hd_case c = HD_RECV(chan, &v);
    EXPECT_EQ(hd_select_until(&c, 1, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_select_until(&c, 1, 0, hd_after_ms(1)), -ETIMEDOUT);

    hd_task *waits = rt_spawn(NULL, select_one, chan);
    EXPECT_EQ(hd_chan_send(chan, &v), 0);
    EXPECT_EQ(rt_join(waits), 7);

    waits = rt_spawn(NULL, select_one, chan);
    hd_cancel(waits);
    EXPECT_EQ(rt_join(waits), -ECANCELED);
    EXPECT_EQ(hd_chan_send_try(chan, &v), -EAGAIN); /* Nobody waits there any more. */

    waits = rt_spawn(NULL, select_one, chan);
    hd_yield();
    EXPECT_EQ(hd_chan_close(chan), 0);
    EXPECT_EQ(rt_join(waits), -EPIPE);
    EXPECT_EQ(hd_select_until(&c, 1, 0, HD_NOW), 0);
    EXPECT_EQ(c.result, -EPIPE);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(one_case_ends_in_every_way, options)
{
    rt_run(end_in_every_way, NULL, options);
}

/* ---- time ---- */

static int wait_for_time(void *arg)
{
    (void)arg;
    hd_chan *chan = make(1);
    int v = 1;
    const int64_t start = hd_now(NULL);
    hd_case cases[] = {HD_RECV(chan, &v), HD_AT(start + 4000000), HD_AT(start + 2000000)};
    EXPECT_EQ(hd_select(cases, 3), 2);
    EXPECT_EQ(cases[2].result, 0);
    EXPECT(hd_now(NULL) >= start + 2000000);
    EXPECT_EQ(hd_select_until(cases, 1, 0, hd_after_ms(1)), -ETIMEDOUT);
    cases[1] = (hd_case)HD_AT(hd_after_ms(60000));
    EXPECT_EQ(hd_select_until(cases, 2, 0, hd_after_ms(1)), -ETIMEDOUT); /* The sooner one. */
    cases[1] = (hd_case)HD_AT(1);
    EXPECT_EQ(hd_select(cases, 2), 1); /* long past */
    EXPECT_EQ(hd_chan_send_try(chan, &v), 0);
    EXPECT_EQ(hd_select_until(cases, 2, HD_SELECT_FIRST, HD_FOREVER), 0);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(time_is_a_case_and_a_limit, options)
{
    rt_run(wait_for_time, NULL, options);
}

/* ---- one channel in several cases ---- */

struct twice {
    hd_chan *chan;
    atomic_int waits;
    int which, values[3];
};

static int receive_twice(void *arg)
{
    struct twice *twice = arg;
    hd_case cases[] = {HD_RECV(twice->chan, &twice->values[0]),
                       HD_RECV(twice->chan, &twice->values[1])};
    atomic_store(&twice->waits, 1);
    twice->which = hd_select(cases, 2);
    EXPECT_EQ(cases[twice->which].result, 0);
    return 0;
}

static int same_channel_twice(void *arg)
{
    (void)arg;
    for (int n = 0; n < 20; n++) {
        struct twice twice = {.chan = make(0), .values = {-1, -1, -1}};
        hd_task *task = rt_spawn(NULL, receive_twice, &twice);
        if (n % 2) rt_until(&twice.waits);
        EXPECT_EQ(hd_chan_send(twice.chan, &(int){7}), 0);
        rt_join(task);
        EXPECT_EQ(twice.values[twice.which], 7);
        EXPECT_EQ(twice.values[1 - twice.which], -1);
        EXPECT_EQ(hd_chan_send_try(twice.chan, &(int){8}), -EAGAIN); /* Both have left. */
        hd_chan_destroy(twice.chan);
    }
    return 0;
}

TEST_WORLDS(one_channel_may_be_in_two_cases, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(same_channel_twice, NULL, &one);
}

/* A select that sends and receives on one channel does not meet itself. */
static int both_ways(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 2; capacity++) {
        hd_chan *chan = make(capacity);
        int out = 4, in = -1;
        hd_case cases[] = {HD_SEND(chan, &out), HD_RECV(chan, &in)};
        if (capacity == 0) {
            EXPECT_EQ(hd_select_until(cases, 2, 0, hd_after_ms(1)), -ETIMEDOUT);
            EXPECT_EQ(in, -1);
        } else {
            for (int n = 0; n < 10; n++) EXPECT_EQ(hd_select(cases, 2), n % 2);
            EXPECT_EQ(in, 4);
        }
        hd_chan_destroy(chan);
    }
    return 0;
}

TEST_WORLDS(sending_and_receiving_on_one_channel, options)
{
    rt_run(both_ways, NULL, options);
}

/* ---- two selects against each other ---- */

enum { ROUNDS = 300 };

struct duel {
    hd_chan *a, *b;
    int sent, received, sum_sent, sum_received;
};

/* Sends or receives, whichever goes; the cases in an order of its own. */
static int duel(void *arg)
{
    struct duel *own = arg;
    for (int n = 1; n <= ROUNDS; n++) {
        int in = 0;
        hd_case cases[] = {HD_SEND(own->a, &n), HD_RECV(own->b, &in)};
        const int which = hd_select(cases, 2);
        EXPECT(which == 0 || which == 1);
        EXPECT_EQ(cases[which].result, 0);
        if (which == 0) {
            own->sent++;
            own->sum_sent += n;
        } else {
            own->received++;
            own->sum_received += in;
        }
    }
    return 0;
}

static int hold_duel(void *arg)
{
    (void)arg;
    hd_chan *a = make(0), *b = make(0);
    struct duel one = {.a = a, .b = b}, two = {.a = b, .b = a};
    hd_task *first = rt_spawn(NULL, duel, &one), *second = rt_spawn(NULL, duel, &two);
    rt_join(first);
    rt_join(second);
    EXPECT_EQ(one.sent, two.received); /* Every send met a receive, with its value. */
    EXPECT_EQ(two.sent, one.received);
    EXPECT_EQ(one.sum_sent, two.sum_received);
    EXPECT_EQ(two.sum_sent, one.sum_received);
    EXPECT_EQ(one.sent + one.received, ROUNDS);
    hd_chan_destroy(a);
    hd_chan_destroy(b);
    return 0;
}

TEST_WORLDS(two_selects_meet_each_other, options)
{
    rt_run(hold_duel, NULL, options);
}

/* ---- many cases ---- */

struct crowd {
    hd_chan **chans;
    int count;
};

static int send_to_each(void *arg)
{
    const struct crowd *crowd = arg;
    for (int i = 0; i < crowd->count; i++) {
        const int to = (int)((unsigned)i * 7919u % (unsigned)crowd->count);
        EXPECT_EQ(hd_chan_send(crowd->chans[to], &to), 0);
    }
    return 0;
}

static int select_crowd(int count)
{
    struct crowd crowd = {calloc((size_t)count, sizeof(hd_chan *)), count};
    hd_case *cases = calloc((size_t)count, sizeof(hd_case));
    int *values = calloc((size_t)count, sizeof(int));
    EXPECT(crowd.chans && cases && values);
    for (int i = 0; i < count; i++) {
        crowd.chans[i] = make(i % 2 ? 0 : 1);
        cases[i] = (hd_case)HD_RECV(crowd.chans[i], &values[i]);
    }
    hd_task *task = rt_spawn(NULL, send_to_each, &crowd);
    for (int n = 0; n < count; n++) {
        const int which = hd_select(cases, (size_t)count);
        EXPECT(which >= 0);
        EXPECT_EQ(cases[which].result, 0);
        EXPECT_EQ(values[which], which);
        values[which] = -1; /* once each */
    }
    rt_join(task);
    for (int i = 0; i < count; i++) hd_chan_destroy(crowd.chans[i]);
    free(crowd.chans);
    free(cases);
    free(values);
    return 0;
}

static int select_crowds(void *arg)
{
    (void)arg;
    select_crowd(16);
    return select_crowd(1000);
}

TEST_WORLDS(sixteen_and_a_thousand_cases, options)
{
    rt_run(select_crowds, NULL, options);
}

/* ---- closing ---- */

static int close_one(void *arg)
{
    EXPECT_EQ(hd_chan_close(arg), 0);
    return 0;
}

static int select_closed(void *arg)
{
    (void)arg;
    hd_chan *in = make(0), *out = make(0), *open = make(0);
    int v = 2;
    hd_case cases[] = {HD_RECV(open, &v), HD_RECV(in, &v), HD_SEND(out, &v)};
    hd_task *task = rt_spawn(NULL, close_one, in);
    EXPECT_EQ(hd_select(cases, 3), 1);
    EXPECT_EQ(cases[1].result, -EPIPE);
    rt_join(task);
    cases[1] = (hd_case)HD_NEVER;
    task = rt_spawn(NULL, close_one, out);
    EXPECT_EQ(hd_select(cases, 3), 2);
    EXPECT_EQ(cases[2].result, -EPIPE);
    rt_join(task);
    EXPECT_EQ(hd_select(cases, 3), 2); /* closed before */
    EXPECT_EQ(cases[2].result, -EPIPE);
    EXPECT_EQ(v, 2);
    hd_chan_destroy(in);
    hd_chan_destroy(out);
    hd_chan_destroy(open);
    return 0;
}

TEST_WORLDS(a_closed_channel_is_a_case_that_happens, options)
{
    rt_run(select_closed, NULL, options);
}

/* ---- cancelling ---- */

static int select_in_vain(void *arg)
{
    struct twice *twice = arg;
    hd_case cases[] = {HD_RECV(twice->chan, &twice->values[0]), HD_AT(hd_after_ms(100000))};
    atomic_store(&twice->waits, 1);
    twice->which = hd_select(cases, 2);
    return 0;
}

static int cancel_select(void *arg)
{
    (void)arg;
    for (int done = 0; done < 2; done++) {
        struct twice twice = {.chan = make(0)};
        hd_task *task = rt_spawn(NULL, select_in_vain, &twice);
        rt_until(&twice.waits);
        if (done) EXPECT_EQ(hd_chan_send_try(twice.chan, &(int){6}), 0);
        hd_cancel(task);
        rt_join(task);
        EXPECT_EQ(twice.which, done ? 0 : -ECANCELED); /* What is done is done. */
        EXPECT_EQ(twice.values[0], done ? 6 : 0);
        EXPECT_EQ(hd_chan_send_try(twice.chan, &(int){6}), -EAGAIN);
        hd_chan_destroy(twice.chan);
    }
    return 0;
}

TEST_WORLDS(a_cancel_ends_a_select, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_select, NULL, &one);
}

/* ---- joins ---- */

static int return_later(void *arg)
{
    for (int i = 0; i < 5; i++) hd_yield();
    return (int)(intptr_t)arg;
}

static int forward_item(void *arg)
{
    int v;
    EXPECT_EQ(hd_chan_recv(arg, &v), 0);
    return v;
}

static int select_joins(void *arg)
{
    (void)arg;
    hd_chan *chan = make(0);
    hd_task *a = rt_spawn(NULL, return_later, (void *)11);
    hd_task *b = rt_spawn(NULL, forward_item, chan);
    int results[2] = {0}, v;
    hd_case cases[] = {HD_JOIN(a, &results[0]), HD_JOIN(b, &results[1]), HD_RECV(chan, &v)};
    EXPECT_EQ(hd_select(cases, 3), 0); /* `b` waits for us. */
    EXPECT_EQ(results[0], 11);
    cases[0] = (hd_case)HD_NEVER;
    EXPECT_EQ(hd_chan_send(chan, &(int){22}), 0);
    EXPECT_EQ(hd_select(cases, 3), 1);
    EXPECT_EQ(results[1], 22);
    hd_task *c = rt_spawn(NULL, forward_item, chan);
    hd_case last[] = {HD_JOIN(c, NULL), HD_AT(hd_after_ms(1))};
    EXPECT_EQ(hd_select(last, 2), 1);
    EXPECT_EQ(hd_chan_send(chan, &(int){33}), 0);
    EXPECT_EQ(rt_join(c), 33); /* Only the case that happened ended its handle. */
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(the_end_of_a_task_is_a_case, options)
{
    rt_run(select_joins, NULL, options);
}

/* ---- stackless ---- */

struct merge {
    hd_chan *in[2], *out;
    int values[2], open;
    bool started;
    hd_wait wait;
    hd_case cases[2];
};

/* Two channels into one, by trying to send what it must not wait for. */
static hd_poll merge(void *state, int *result)
{
    struct merge *s = state;
    if (!s->started) {
        for (int i = 0; i < 2; i++) s->cases[i] = (hd_case)HD_RECV(s->in[i], &s->values[i]);
        s->started = true;
    }
    while (s->open > 0) {
        const int which = hd_select_poll(&s->wait, s->cases, 2, 0, HD_FOREVER);
        if (which == -EAGAIN) return HD_PENDING;
        EXPECT(which == 0 || which == 1);
        if (s->cases[which].result == 0) {
            EXPECT_EQ(hd_chan_send_try(s->out, &s->values[which]), 0);
        } else {
            EXPECT_EQ(s->cases[which].result, -EPIPE);
            s->cases[which] = (hd_case)HD_NEVER;
            s->open--;
        }
    }
    *result = hd_chan_close(s->out);
    return HD_READY;
}

static int send_hundred(void *arg)
{
    for (int i = 1; i <= 100; i++) EXPECT_EQ(hd_chan_send(arg, &i), 0);
    return hd_chan_close(arg);
}

static int merge_two(void *arg)
{
    (void)arg;
    struct merge start = {.in = {make(0), make(3)}, .out = make(HD_CHAN_UNLIMITED), .open = 2};
    hd_task *middle = rt_spawn_poll(NULL, merge, &start, sizeof(start));
    hd_task *a = rt_spawn(NULL, send_hundred, start.in[0]);
    hd_task *b = rt_spawn(NULL, send_hundred, start.in[1]);
    int v, sum = 0, count = 0;
    while (hd_chan_recv(start.out, &v) == 0) {
        sum += v;
        count++;
    }
    EXPECT_EQ(sum, 2 * 5050);
    EXPECT_EQ(count, 200);
    EXPECT_EQ(rt_join(middle), 0);
    rt_join(a);
    rt_join(b);
    hd_chan_destroy(start.in[0]);
    hd_chan_destroy(start.in[1]);
    hd_chan_destroy(start.out);
    return 0;
}

TEST_WORLDS(a_stackless_task_selects, options)
{
    rt_run(merge_two, NULL, options);
}

struct limited {
    hd_chan *chan;
    int value, phase;
    int64_t deadline;
    hd_wait wait;
    hd_case c;
};

/* Runs into a deadline; then waits again, and gives that up. */
static hd_poll give_up(void *state, int *result)
{
    struct limited *s = state;
    if (s->phase == 0) {
        s->c = (hd_case)HD_RECV(s->chan, &s->value);
        s->deadline = hd_after_ms(1);
        s->phase = 1;
    }
    const int which = hd_select_poll(&s->wait, &s->c, 1, 0, s->deadline);
    if (which == -EAGAIN) return HD_PENDING;
    EXPECT_EQ(which, -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= s->deadline);
    EXPECT_EQ(hd_select_poll(&s->wait, &s->c, 1, 0, HD_FOREVER), -EAGAIN);
    EXPECT_EQ(hd_wait_end(&s->wait, &s->c), -ECANCELED);
    EXPECT_EQ(hd_chan_send_try(s->chan, &s->value), -EAGAIN);
    *result = 0;
    return HD_READY;
}

static int poll_with_deadline(void *arg)
{
    (void)arg;
    const struct limited start = {.chan = make(0)};
    EXPECT_EQ(rt_join(rt_spawn_poll(NULL, give_up, &start, sizeof(start))), 0);
    hd_chan_destroy(start.chan);
    return 0;
}

TEST_WORLDS(a_stackless_wait_has_a_deadline_and_can_be_given_up, options)
{
    rt_run(poll_with_deadline, NULL, options);
}

/* ---- threads ---- */

TEST_WORLDS(a_thread_selects, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_chan *a = make(0), *b = make(2);
    hd_task *tasks[2] = {rt_spawn(runtime, send_hundred, a), rt_spawn(runtime, send_hundred, b)};
    int values[2] = {0}, open = 2, sum = 0;
    hd_case cases[] = {HD_RECV(a, &values[0]), HD_RECV(b, &values[1])};
    while (open > 0) {
        const int which = hd_select(cases, 2);
        EXPECT(which >= 0);
        if (cases[which].result == 0) {
            sum += values[which];
        } else {
            cases[which] = (hd_case)HD_NEVER;
            open--;
        }
    }
    EXPECT_EQ(sum, 2 * 5050);
    for (int i = 0; i < 2; i++) rt_join(tasks[i]);
    if (rt_is_sim(options)) EXPECT_EQ(hd_select(cases, 2), -EDEADLK);
    hd_runtime_destroy(runtime);
    hd_chan_destroy(a);
    hd_chan_destroy(b);
}
