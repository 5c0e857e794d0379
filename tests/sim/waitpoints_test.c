/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of joins, sleeps, timers, parks and selects; and
 * proof that tests/waitpoints.h finds what is broken.
 */
#include "waitpoints.h"

TEST_MAIN

#define MS   INT64_C(1000000)
#define HOUR (3600000 * MS)

static int yield_then_7(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) hd_yield();
    return 7;
}

static int sleep_then_7(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 7;
}

/* For cleaning up: wait for it whatever happened. */
static int join_shielded(hd_task *task)
{
    EXPECT_EQ(hd_shield(), 0);
    const int result = rt_join(task);
    EXPECT_EQ(hd_unshield(), 0);
    return result;
}

/* ---- join ---- */

static int joining_fiber(void *arg)
{
    int *joined = arg;
    for (int i = 0; i < 3; i++) {
        hd_task *task = rt_spawn(NULL, i % 2 ? sleep_then_7 : yield_then_7, NULL);
        int result = -1, err;
        do err = hd_join_until(task, &result, wp_until());
        while (wp_again(err));
        if (err) {
            EXPECT_EQ(result, -1);
            EXPECT_EQ(join_shielded(task), 7); /* The handle stayed with us. */
            return err;
        }
        EXPECT_EQ(result, 7);
        ++*joined;
    }
    return 0;
}

WAITPOINTS(join)
{
    int joined = 0;
    wp_spawn(joining_fiber, &joined);
    if (wp_join() == 0) EXPECT_EQ(joined, 3);
}

/* The joined task itself is hit: its end still reaches who waits for it. */
static int sleeping_fiber(void *arg)
{
    int *rounds = arg;
    for (; *rounds < 4; ++*rounds) {
        const int64_t at = hd_now(NULL) + MS;
        const int err = hd_sleep_until(at);
        if (err) return err;
        EXPECT(hd_now(NULL) >= at);
    }
    return 0;
}

WAITPOINTS(sleep_of_a_joined_task)
{
    int rounds = 0;
    wp_spawn(sleeping_fiber, &rounds);
    if (wp_join() == 0) EXPECT_EQ(rounds, 4);
}

/* ---- park and timers ---- */

struct box {
    hd_waker waker;
    bool full;
};

static int fill_box(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < 2; i++) hd_yield();
    box->full = true;
    if (box->waker.task) hd_waker_wake(box->waker);
    box->waker.task = NULL;
    return 0;
}

static int parking_fiber(void *arg)
{
    struct box *box = arg;
    box->waker = hd_waker_self();
    int err = 0;
    while (!box->full && !err) err = hd_park();
    hd_waker_drop(box->waker);
    box->waker.task = NULL;
    return err;
}

WAITPOINTS(park)
{
    struct box box = {.full = false};
    hd_task *filler = rt_spawn(NULL, fill_box, &box);
    wp_spawn(parking_fiber, &box);
    (void)wp_join();
    EXPECT_EQ(rt_join(filler), 0);
}

static int timing_fiber(void *arg)
{
    int *fired = arg;
    hd_timer timers[2] = {{{0}}};
    int err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        EXPECT_EQ(hd_timer_start(&timers[0], hd_now(NULL) + MS), 0);
        EXPECT_EQ(hd_timer_start(&timers[1], hd_now(NULL) + HOUR), 0);
        while (!hd_timer_fired(&timers[0]) && !err) err = hd_park();
        *fired += hd_timer_fired(&timers[0]);
        EXPECT_EQ(hd_timer_stop(&timers[0]), !hd_timer_fired(&timers[0]));
        EXPECT(hd_timer_stop(&timers[1]));
        EXPECT(err || hd_timer_fired(&timers[0]));
    }
    return err;
}

WAITPOINTS(timers)
{
    int fired = 0;
    wp_spawn(timing_fiber, &fired);
    if (wp_join() == 0) EXPECT_EQ(fired, 3);
    EXPECT(hd_now(NULL) < HOUR);
}

static int beating_fiber(void *arg)
{
    int *ticks = arg;
    hd_interval interval;
    const int64_t first = hd_now(NULL) + MS;
    EXPECT_EQ(hd_interval_init(&interval, first, MS, HD_MISSED_BURST), 0);
    for (; *ticks < 4; ++*ticks) {
        const int err = hd_interval_wait(&interval, NULL);
        EXPECT_EQ(interval.next, first + (*ticks + !err) * MS); /* A cancel keeps the tick. */
        if (err) return err;
    }
    return 0;
}

WAITPOINTS(intervals)
{
    int ticks = 0;
    wp_spawn(beating_fiber, &ticks);
    if (wp_join() == 0) EXPECT_EQ(ticks, 4);
}

/* ---- select ---- */

struct race {
    hd_task *tasks[2];
    int results[2];
    int joined, moments;
};

static int selecting_fiber(void *arg)
{
    struct race *race = arg;
    while (race->joined < 2) {
        hd_case cases[] = {HD_NEVER, HD_AT(hd_now(NULL) + 2 * MS), HD_NEVER};
        for (int i = 0; i < 2; i++) {
            if (race->tasks[i]) cases[2 * i] = (hd_case)HD_JOIN(race->tasks[i], &race->results[i]);
        }
        const int which = hd_select_until(cases, 3, 0, wp_until());
        if (wp_again(which)) continue;
        if (which < 0) return which;
        if (which == 1) {
            EXPECT(hd_now(NULL) >= cases[1].number);
            race->moments++;
        } else {
            EXPECT_EQ(cases[which].result, 0);
            EXPECT_EQ(race->results[which / 2], 7);
            race->tasks[which / 2] = NULL;
            race->joined++;
        }
    }
    return 0;
}

WAITPOINTS(select_over_joins_and_time)
{
    struct race race = {.joined = 0};
    race.tasks[0] = rt_spawn(NULL, yield_then_7, NULL);
    race.tasks[1] = rt_spawn(NULL, sleep_then_7, NULL);
    wp_spawn(selecting_fiber, &race);
    const int err = wp_join();
    for (int i = 0; i < 2; i++) {
        if (race.tasks[i]) EXPECT_EQ(rt_join(race.tasks[i]), 7); /* no handle ended twice */
    }
    if (!err) EXPECT_EQ(race.joined, 2);
}

/* The same by a stackless task. */
struct polled_race {
    struct race *race;
    bool begun;
    int64_t deadline;
    hd_wait wait;
    hd_case cases[3];
};

static void begin_polled(struct polled_race *self)
{
    struct race *race = self->race;
    self->cases[1] = (hd_case)HD_AT(hd_now(NULL) + 2 * MS);
    for (int i = 0; i < 2; i++) {
        self->cases[2 * i] = (hd_case)HD_NEVER;
        if (race->tasks[i]) {
            self->cases[2 * i] = (hd_case)HD_JOIN(race->tasks[i], &race->results[i]);
        }
    }
    self->deadline = wp_until();
    self->begun = true;
}

static hd_poll selecting_poll(void *state, int *result)
{
    struct polled_race *self = state;
    while (self->race->joined < 2) {
        if (!self->begun) begin_polled(self);
        const int which = hd_select_poll(&self->wait, self->cases, 3, 0, self->deadline);
        if (which == -EAGAIN) return HD_PENDING;
        self->begun = false;
        if (wp_again(which)) continue;
        if (which < 0) {
            *result = which;
            return HD_READY;
        }
        if (which == 1) EXPECT(hd_now(NULL) >= self->cases[1].number);
        if (which == 1) continue;
        EXPECT_EQ(self->race->results[which / 2], 7);
        self->race->tasks[which / 2] = NULL;
        self->race->joined++;
    }
    *result = 0;
    return HD_READY;
}

WAITPOINTS(select_by_a_stackless_task)
{
    struct race race = {.joined = 0};
    race.tasks[0] = rt_spawn(NULL, yield_then_7, NULL);
    race.tasks[1] = rt_spawn(NULL, sleep_then_7, NULL);
    const struct polled_race state = {.race = &race};
    wp_spawn_poll(selecting_poll, &state, sizeof(state));
    const int err = wp_join();
    for (int i = 0; i < 2; i++) {
        if (race.tasks[i]) EXPECT_EQ(rt_join(race.tasks[i]), 7);
    }
    if (!err) EXPECT_EQ(race.joined, 2);
}

/* ---- planted faults: a queue that hands its item to whoever waits ---- */

enum fault { SOUND, LOST_BY_CANCEL, LOST_BY_TIMEOUT, STUCK_BY_CANCEL };

static enum fault planted;

struct queue {
    hd_waker receiver; /* waits, if there is one */
    bool handed;       /* to the one that waited */
    int item;          /* handed */
    int kept[8], count;
    int sent, received;
};

static void queue_send(struct queue *queue, int item)
{
    queue->sent++;
    if (queue->receiver.task) {
        queue->handed = true;
        queue->item = item;
        hd_waker_wake(queue->receiver);
        queue->receiver.task = NULL;
    } else {
        queue->kept[queue->count++] = item;
    }
}

/* The wait of a receiver: until something is handed to it, or `err`. */
static int queue_wait(struct queue *queue, int64_t deadline)
{
    hd_timer timer = {{0}};
    if (deadline != HD_FOREVER) EXPECT_EQ(hd_timer_start(&timer, deadline), 0);
    queue->receiver = hd_waker_self();
    int err = 0;
    while (!err) {
        if (queue->handed && planted == SOUND) break; /* What is done is done. */
        err = hd_park();
        if (err && planted != LOST_BY_CANCEL && queue->handed) err = 0;
        if (!err && hd_timer_fired(&timer) && !(queue->handed && planted != LOST_BY_TIMEOUT)) {
            err = -ETIMEDOUT;
        }
        if (!err && queue->handed) break;
    }
    (void)hd_timer_stop(&timer);
    if (queue->receiver.task && !(err == -ECANCELED && planted == STUCK_BY_CANCEL)) {
        hd_waker_drop(queue->receiver);
        queue->receiver.task = NULL;
    }
    if (err) queue->handed = false;
    return err;
}

static int queue_recv(struct queue *queue, int *item, int64_t deadline)
{
    if (queue->count == 0) {
        const int err = queue_wait(queue, deadline);
        if (err) return err;
        *item = queue->item;
        queue->handed = false;
    } else {
        *item = queue->kept[--queue->count];
    }
    queue->received++;
    return 0;
}

static int send_three(void *arg)
{
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) hd_yield();
        queue_send(arg, i);
    }
    return 0;
}

static int receive_three(void *arg)
{
    for (int i = 0; i < 3; i++) {
        int item, err;
        do err = queue_recv(arg, &item, wp_until());
        while (wp_again(err));
        if (err) return err;
    }
    return 0;
}

static void run_queue(void)
{
    struct queue queue = {.count = 0};
    hd_task *sender = rt_spawn(NULL, send_three, &queue);
    wp_spawn(receive_three, &queue);
    (void)wp_join();
    EXPECT_EQ(rt_join(sender), 0);
    while (queue.received < queue.sent) {
        int item;
        EXPECT_EQ(queue_recv(&queue, &item, HD_FOREVER), 0); /* stuck, if one was lost */
    }
}

TEST(finds_nothing_in_a_sound_queue)
{
    planted = SOUND;
    wp_expect_sound("finds_nothing_in_a_sound_queue", run_queue);
}

/* The sweep fails; so does the command that it names, in another process; and its
 * neighbour, the same with nothing done to the victim, does not. */
static void expect_caught(const char *test, enum fault fault, enum wp_mode mode)
{
    planted = fault;
    if (getenv("WAITPOINT")) { /* We are the other process. */
        wp_expect_sound(test, run_queue);
        return;
    }
    const struct wp_outcome outcome = wp_sweep(run_queue, true);
    EXPECT(outcome.failed);
    EXPECT_EQ(outcome.run.mode, mode);
    fprintf(stderr, "# caught at WAITPOINT=%s after %u runs\n", wp_describe(&outcome.run),
            outcome.runs);
    if (getenv("HEDDLE_TEST_EMULATED")) return; /* /proc names the emulator */
    for (int disturbed = 0; disturbed <= 1; disturbed++) {
        struct wp_run run = outcome.run;
        if (!disturbed) run.mode = WP_COUNT;
        char command[256];
        snprintf(command, sizeof(command), "WAITPOINT=%s /proc/%d/exe %s >/dev/null 2>&1",
                 wp_describe(&run), (int)getpid(), test);
        const int status = system(command);
        EXPECT(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), disturbed);
    }
}

TEST(catches_an_item_lost_by_a_cancel)
{
    expect_caught("catches_an_item_lost_by_a_cancel", LOST_BY_CANCEL, WP_CANCEL);
}

TEST(catches_an_item_lost_by_a_timeout)
{
    expect_caught("catches_an_item_lost_by_a_timeout", LOST_BY_TIMEOUT, WP_TIMEOUT);
}

TEST(catches_a_cancelled_waiter_left_in_a_queue)
{
    expect_caught("catches_a_cancelled_waiter_left_in_a_queue", STUCK_BY_CANCEL, WP_CANCEL);
}
