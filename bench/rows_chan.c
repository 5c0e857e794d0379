/* SPDX-License-Identifier: MIT
 *
 * Rows in which values go from fiber to fiber: channels, select, oneshot, broadcast, watch.
 * Receivers add up what they get, and a wrong sum ends the sample.
 */
#include <errno.h>

#include <heddle/chan.h>
#include <heddle/pubsub.h>
#include <heddle/select.h>

#include "bench.h"

static uint64_t rounds; /* n of the work under way */

static int64_t sum_below(uint64_t n)
{
    return (int64_t)(n * (n - 1) / 2);
}

static hd_chan *must_chan(size_t item_bytes, size_t capacity)
{
    hd_chan *chan = hd_chan_create(item_bytes, capacity);
    if (chan == NULL) abort();
    return chan;
}

static int must_recv(hd_chan *chan)
{
    int value;
    MUST(hd_chan_recv(chan, &value));
    return value;
}

static void must_send(hd_chan *chan, int value)
{
    MUST(hd_chan_send(chan, &value));
}

/* ---- round trip ---- */

static hd_chan *ping, *pong;

static void pingpong_part(unsigned i)
{
    const uint64_t n = rounds;
    if (i == 0) {
        for (uint64_t j = 0; j < n; j++) must_send(pong, must_recv(ping));
        return;
    }
    int64_t total = 0;
    for (uint64_t j = 0; j < n; j++) {
        must_send(ping, (int)j);
        total += must_recv(pong);
    }
    EXPECT(total == sum_below(n));
}

static void pingpong_work(uint64_t n)
{
    rounds = n;
    ping = must_chan(sizeof(int), 0);
    pong = must_chan(sizeof(int), 0);
    together(2, pingpong_part);
    hd_chan_destroy(ping);
    hd_chan_destroy(pong);
}

static int pingpong_root(void *arg)
{
    (void)arg;
    measure(1, pingpong_work);
    return 0;
}

void row_chan_pingpong(void)
{
    run_in_fiber(pingpong_root);
}

/* ---- one way ---- */

static hd_chan *values;

static void stream_part(unsigned i)
{
    const uint64_t n = rounds;
    if (i == 0) {
        for (uint64_t j = 0; j < n; j++) must_send(values, (int)j);
        MUST(hd_chan_close(values));
        return;
    }
    int64_t total = 0;
    int value, err;
    while ((err = hd_chan_recv(values, &value)) == 0) total += value;
    EXPECT(err == -EPIPE && total == sum_below(n));
}

static void stream_work(uint64_t n)
{
    rounds = n;
    values = must_chan(sizeof(int), params.cap);
    together(2, stream_part);
    hd_chan_destroy(values);
}

static int stream_root(void *arg)
{
    (void)arg;
    measure(1, stream_work);
    return 0;
}

void row_chan_stream(void)
{
    run_in_fiber(stream_root);
}

/* ---- several of each ---- */

#define SIDE 4

static int64_t sums[SIDE];

static void mpmc_part(unsigned i)
{
    const uint64_t n = rounds;
    if (i < SIDE) {
        for (uint64_t j = 0; j < n; j++) must_send(values, (int)j);
        return;
    }
    int64_t total = 0;
    for (uint64_t j = 0; j < n; j++) total += must_recv(values);
    sums[i - SIDE] = total;
}

static void mpmc_work(uint64_t n)
{
    rounds = n;
    values = must_chan(sizeof(int), 1024);
    together(2 * SIDE, mpmc_part);
    hd_chan_destroy(values);
    int64_t total = 0;
    for (int i = 0; i < SIDE; i++) total += sums[i];
    EXPECT(total == SIDE * sum_below(n));
}

static int mpmc_root(void *arg)
{
    (void)arg;
    measure(SIDE, mpmc_work);
    return 0;
}

void row_chan_mpmc(void)
{
    run_in_fiber(mpmc_root);
}

/* ---- select ---- */

static hd_chan *feeds[CASES_MAX];

static void select_part(unsigned i)
{
    const uint64_t n = rounds;
    const unsigned count = params.cases;
    if (i == 0) {
        for (uint64_t j = 0; j < n; j++) must_send(feeds[j % count], (int)j);
        return;
    }
    int64_t total = 0;
    int value = 0;
    hd_case cases[CASES_MAX];
    for (unsigned c = 0; c < count; c++) cases[c] = (hd_case)HD_RECV(feeds[c], &value);
    for (uint64_t j = 0; j < n; j++) {
        const int chosen = hd_select(cases, count);
        EXPECT(chosen >= 0 && cases[chosen].result == 0);
        total += value;
    }
    EXPECT(total == sum_below(n));
}

static void select_work(uint64_t n)
{
    rounds = n;
    for (unsigned c = 0; c < params.cases; c++) feeds[c] = must_chan(sizeof(int), 0);
    together(2, select_part);
    for (unsigned c = 0; c < params.cases; c++) hd_chan_destroy(feeds[c]);
}

static int select_root(void *arg)
{
    (void)arg;
    measure(1, select_work);
    return 0;
}

void row_select(void)
{
    run_in_fiber(select_root);
}

/* ---- oneshot ---- */

static hd_chan *questions; /* of hd_oneshot *, into which the answer goes */

static void oneshot_part(unsigned i)
{
    const uint64_t n = rounds;
    if (i == 0) {
        void *reply;
        int err;
        for (int answer = 0; (err = hd_chan_take(questions, &reply)) == 0; answer++)
            MUST(hd_oneshot_send(reply, &answer));
        EXPECT(err == -EPIPE);
        return;
    }
    int64_t total = 0;
    for (uint64_t j = 0; j < n; j++) {
        hd_oneshot reply;
        int answer;
        MUST(hd_oneshot_init(&reply, sizeof answer, NULL));
        MUST(hd_chan_give(questions, &reply));
        MUST(hd_oneshot_recv(&reply, &answer));
        total += answer;
    }
    MUST(hd_chan_close(questions));
    EXPECT(total == sum_below(n));
}

static void oneshot_work(uint64_t n)
{
    rounds = n;
    questions = must_chan(sizeof(hd_oneshot *), 1);
    together(2, oneshot_part);
    hd_chan_destroy(questions);
}

static int oneshot_root(void *arg)
{
    (void)arg;
    measure(1, oneshot_work);
    return 0;
}

void row_oneshot(void)
{
    run_in_fiber(oneshot_root);
}

/* ---- broadcast ---- */

#define LISTENERS 4
#define ROOM      64
#define RUN       32 /* messages until the sender waits for all listeners */

static hd_broadcast *station;
static struct {
    _Alignas(64) hd_broadcast_receiver receiver; /* not beside those of others */
} listeners[LISTENERS];
static hd_chan *heard;

static void broadcast_listen(hd_broadcast_receiver *self, uint64_t n)
{
    int64_t total = 0;
    for (uint64_t j = 0; j < n; j++) {
        for (int k = 0; k < RUN; k++) {
            int message;
            MUST(hd_broadcast_recv(self, &message));
            total += message;
        }
        must_send(heard, 1);
    }
    EXPECT(total == sum_below(n * RUN));
}

static void broadcast_part(unsigned i)
{
    const uint64_t n = rounds;
    if (i < LISTENERS) {
        broadcast_listen(&listeners[i].receiver, n);
        return;
    }
    int message = 0;
    for (uint64_t j = 0; j < n; j++) {
        for (int k = 0; k < RUN; k++, message++)
            EXPECT(hd_broadcast_send(station, &message) == LISTENERS);
        for (int k = 0; k < LISTENERS; k++) (void)must_recv(heard);
    }
}

static void broadcast_work(uint64_t n)
{
    rounds = n;
    station = hd_broadcast_create(sizeof(int), ROOM);
    if (station == NULL) abort();
    heard = must_chan(sizeof(int), LISTENERS);
    for (int i = 0; i < LISTENERS; i++)
        MUST(hd_broadcast_subscribe(station, &listeners[i].receiver));
    together(LISTENERS + 1, broadcast_part);
    for (int i = 0; i < LISTENERS; i++) hd_broadcast_unsubscribe(&listeners[i].receiver);
    hd_broadcast_destroy(station);
    hd_chan_destroy(heard);
}

static int broadcast_root(void *arg)
{
    (void)arg;
    measure(RUN, broadcast_work);
    return 0;
}

void row_broadcast(void)
{
    run_in_fiber(broadcast_root);
}

/* ---- watch ---- */

/* Two of them: fiber 1 asks by the first, fiber 0 answers by the second. */
struct watched {
    hd_watch *watch;
    _Alignas(64) hd_watch_receiver receiver; /* of the fiber that does not set it */
};

static struct watched ask, answer;

static void watched_create(struct watched *w)
{
    w->watch = hd_watch_create(sizeof(int), &(int){0});
    if (w->watch == NULL) abort();
    hd_watch_subscribe(w->watch, &w->receiver);
}

static void watch_part(unsigned i)
{
    const uint64_t n = rounds;
    int value;
    if (i == 0) {
        for (uint64_t j = 1; j <= n; j++) {
            MUST(hd_watch_changed(&ask.receiver, &value));
            MUST(hd_watch_set(answer.watch, &value));
        }
        return;
    }
    for (uint64_t j = 1; j <= n; j++) {
        value = (int)j;
        MUST(hd_watch_set(ask.watch, &value));
        MUST(hd_watch_changed(&answer.receiver, &value));
        EXPECT(value == (int)j);
    }
}

static void watch_work(uint64_t n)
{
    rounds = n;
    watched_create(&ask);
    watched_create(&answer);
    together(2, watch_part);
    hd_watch_destroy(ask.watch);
    hd_watch_destroy(answer.watch);
}

static int watch_root(void *arg)
{
    (void)arg;
    measure(1, watch_work);
    return 0;
}

void row_watch(void)
{
    run_in_fiber(watch_root);
}
