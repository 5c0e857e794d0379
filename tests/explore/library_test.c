/* SPDX-License-Identifier: MIT
 *
 * The library under its own explorer: what channels, selects, nurseries, timers, locks and I/O
 * promise holds in every schedule tried, by the portfolio, and by all schedules with few
 * preemptions. HEDDLE_EXPLORE_BUDGET is how many of each (default 20,000).
 */
#include "rt.h"

#include "base/sanitizer.h"

TEST_MAIN

static uint64_t budget(void)
{
    const char *text = getenv("HEDDLE_EXPLORE_BUDGET");
    if (text) return strtoull(text, NULL, 10);
    return HDI_TSAN || HDI_ASAN || getenv("HEDDLE_TEST_EMULATED") ? 500 : 20000;
}

static void explore_by(const char *sampler, hd_fn *scenario, bool clock)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.sampler = sampler;
    options.schedules = budget();
    options.clock = clock;
    EXPECT_EQ(hd_explore(scenario, NULL, &options, &result), 0);
    if (result.failed_at == 0) return;
    test_fail(__FILE__, __LINE__, "schedule %llu by %s from %llu: %s: %s",
              (unsigned long long)result.failed_at, result.sampler,
              (unsigned long long)result.seed, hd_verdict_name(result.verdict), result.message);
}

/* With a clock: time may pass while tasks are ready, so that deadlines race with the rest. */
static void explore(hd_fn *scenario, bool clock)
{
    explore_by("portfolio", scenario, clock);
    explore_by("all:2", scenario, clock);
}

static void join_all(hd_task **tasks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) hd_assert(hd_join(tasks[i], NULL) == 0);
}

/* ---- channels ---- */

enum { ITEMS = 3, SENDERS = 2 };

struct stream {
    hd_chan *chan;
    unsigned got[SENDERS * ITEMS];
    int last[2][SENDERS]; /* by receiver: items of one sender come in their order */
    hd_group senders;
};

struct end {
    struct stream *stream;
    unsigned number;
};

static int send_items(void *arg)
{
    const struct end *end = arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        const unsigned item = end->number * ITEMS + i;
        hd_assert(hd_chan_send(end->stream->chan, &item) == 0);
    }
    hd_group_done(&end->stream->senders);
    return 0;
}

static int receive_items(void *arg)
{
    const struct end *end = arg;
    unsigned item;
    int err;
    while ((err = hd_chan_recv(end->stream->chan, &item)) == 0) {
        int *last = &end->stream->last[end->number][item / ITEMS];
        end->stream->got[item]++;
        hd_assert((int)(item % ITEMS) > *last);
        *last = (int)(item % ITEMS);
    }
    hd_assert(err == -EPIPE);
    return 0;
}

/* Two send, two receive, the channel is closed when all was sent: each item comes once. */
static int pass_items(size_t capacity)
{
    struct stream stream = {.chan = hd_chan_create(sizeof(unsigned), capacity),
                            .last = {{-1, -1}, {-1, -1}}};
    struct end ends[SENDERS] = {{&stream, 0}, {&stream, 1}};
    hd_task *tasks[2 * SENDERS];
    hd_assert(stream.chan);
    hd_group_init(&stream.senders);
    hd_group_add(&stream.senders, SENDERS);
    for (unsigned i = 0; i < SENDERS; i++) {
        tasks[2 * i] = rt_spawn(NULL, send_items, &ends[i]);
        tasks[2 * i + 1] = rt_spawn(NULL, receive_items, &ends[i]);
    }
    hd_assert(hd_group_wait(&stream.senders) == 0);
    hd_assert(hd_chan_close(stream.chan) == 0);
    join_all(tasks, 2 * SENDERS);
    for (unsigned i = 0; i < SENDERS * ITEMS; i++) hd_assert(stream.got[i] == 1);
    hd_group_fini(&stream.senders);
    hd_chan_destroy(stream.chan);
    return 0;
}

static int handed_over(void *arg)
{
    (void)arg;
    return pass_items(0);
}

static int buffered(void *arg)
{
    (void)arg;
    return pass_items(2);
}

TEST(items_handed_over_come_once) { explore(handed_over, false); }
TEST(items_kept_come_once) { explore(buffered, false); }

/* ---- select ---- */

struct crossing {
    hd_chan *left, *right;
    int sent, received;
};

/* Either sends on one channel or receives from the other: nothing is lost or doubled. */
static int cross(void *arg)
{
    struct crossing *crossing = arg;
    int item = 0, own = 7;
    hd_case cases[] = {HD_SEND(crossing->left, &own), HD_RECV(crossing->right, &item),
                       HD_RECV(crossing->left, &item)};
    const int which = hd_select_until(cases, 3, 0, hd_now(NULL) + 5000);
    hd_assert(which == -ETIMEDOUT || (which >= 0 && which <= 2));
    if (which == 0) crossing->sent++;
    if (which > 0) crossing->received += item == 7;
    return 0;
}

static int select_crossing(void *arg)
{
    (void)arg;
    struct crossing crossing = {hd_chan_create(sizeof(int), 0), hd_chan_create(sizeof(int), 0),
                                0, 0};
    hd_task *tasks[3];
    for (int i = 0; i < 3; i++) tasks[i] = rt_spawn(NULL, cross, &crossing);
    join_all(tasks, 3);
    hd_assert(crossing.sent == crossing.received);
    hd_chan_destroy(crossing.left);
    hd_chan_destroy(crossing.right);
    return 0;
}

TEST(selects_meet_exactly_once) { explore(select_crossing, false); }
TEST(selects_and_deadlines_meet_exactly_once) { explore(select_crossing, true); }

/* ---- a cancel and a deadline against a hand-over ---- */

struct offer {
    hd_chan *chan;
    int sent, got;
};

static int offer_one(void *arg)
{
    struct offer *offer = arg;
    const int item = 5;
    const int err = hd_chan_send_until(offer->chan, &item, hd_now(NULL) + 3000);
    hd_assert(err == 0 || err == -ETIMEDOUT || err == -ECANCELED);
    offer->sent += err == 0;
    return 0;
}

static int take_one(void *arg)
{
    struct offer *offer = arg;
    int item = 0;
    const int err = hd_chan_recv_until(offer->chan, &item, hd_now(NULL) + 3000);
    hd_assert(err == 0 ? item == 5 : item == 0);
    offer->got += err == 0;
    return 0;
}

static int cancelled_offer(void *arg)
{
    (void)arg;
    struct offer offer = {.chan = hd_chan_create(sizeof(int), 0)};
    hd_task *tasks[] = {rt_spawn(NULL, offer_one, &offer), rt_spawn(NULL, take_one, &offer)};
    hd_cancel(tasks[0]);
    join_all(tasks, 2);
    hd_assert(offer.sent == offer.got);
    hd_chan_destroy(offer.chan);
    return 0;
}

TEST(a_cancel_and_a_deadline_do_not_split_a_hand_over) { explore(cancelled_offer, true); }

/* ---- nurseries ---- */

static int fail_or_wait(void *arg)
{
    int *ended = arg;
    const int number = hd_atomic_add(&ended[0], 1);
    const int err = number == 1 ? -EIO : hd_sleep_until(hd_now(NULL) + 3600 * HD_SECOND_NS);
    hd_atomic_add(&ended[1], 1);
    return err;
}

/* One child fails, whichever: the others are cancelled, and all have ended when it is left. */
static int failing_family(void *arg)
{
    (void)arg;
    int ended[2] = {0};
    const int64_t begin = hd_now(NULL);
    hd_nursery nursery;
    hd_assert(hd_nursery_open(&nursery, NULL) == 0);
    int born = 0;
    for (int i = 0; i < 3; i++) born += hd_go(&nursery, fail_or_wait, ended) == 0;
    hd_assert(hd_nursery_leave(&nursery) == -EIO);
    hd_assert(ended[1] == born);
    hd_assert(hd_now(NULL) - begin < HD_SECOND_NS);
    return 0;
}

TEST(a_failure_ends_the_nursery) { explore(failing_family, false); }

static int sleep_long(void *arg)
{
    const int err = hd_sleep_until(hd_now(NULL) + 3600 * HD_SECOND_NS);
    hd_atomic_add((int *)arg, 1);
    return err;
}

static int nested_deadlines(void *arg)
{
    (void)arg;
    int ended = 0;
    hd_nursery outer, inner;
    hd_nursery_options soon = HD_NURSERY_OPTIONS_INIT, later = HD_NURSERY_OPTIONS_INIT;
    soon.deadline = hd_now(NULL) + 3000;
    later.deadline = hd_now(NULL) + 4000;
    hd_assert(hd_nursery_open(&outer, &soon) == 0);
    hd_assert(hd_nursery_open(&inner, &later) == 0);
    int born = hd_go(&outer, sleep_long, &ended) == 0;
    born += hd_go(&inner, sleep_long, &ended) == 0;
    (void)hd_nursery_leave(&inner);
    hd_assert(hd_nursery_leave(&outer) == -ETIMEDOUT);
    hd_assert(ended == born);
    return 0;
}

TEST(deadlines_end_nested_nurseries) { explore(nested_deadlines, true); }

/* ---- locks ---- */

struct shared {
    hd_mutex mutex;
    hd_cond cond;
    int turn, inside;
};

static int take_turns(void *arg)
{
    struct shared *shared = arg;
    hd_assert(hd_mutex_lock(&shared->mutex) == 0);
    hd_assert(shared->inside++ == 0);
    while (shared->turn == 0) {
        shared->inside--;
        hd_assert(hd_cond_wait(&shared->cond, &shared->mutex) == 0);
        hd_assert(shared->inside++ == 0);
    }
    shared->turn--;
    hd_race_point();
    shared->inside--;
    hd_mutex_unlock(&shared->mutex);
    return 0;
}

static int signalled(void *arg)
{
    (void)arg;
    struct shared shared = {.turn = 0};
    hd_mutex_init(&shared.mutex);
    hd_cond_init(&shared.cond);
    hd_task *tasks[2];
    for (int i = 0; i < 2; i++) tasks[i] = rt_spawn(NULL, take_turns, &shared);
    for (int i = 0; i < 2; i++) {
        hd_assert(hd_mutex_lock(&shared.mutex) == 0);
        shared.turn++;
        hd_mutex_unlock(&shared.mutex);
        hd_cond_signal(&shared.cond);
    }
    join_all(tasks, 2);
    hd_cond_fini(&shared.cond);
    hd_mutex_fini(&shared.mutex);
    return 0;
}

TEST(signals_are_not_lost) { explore(signalled, false); }

/* ---- I/O ---- */

static int write_bytes(void *arg)
{
    const hd_io *end = arg;
    for (int i = 0; i < 3; i++) {
        hd_assert(hd_write_all(*end, "ab", 2, NULL) == 0);
    }
    hd_assert(hd_close(*end) == 0);
    return 0;
}

static int read_bytes(void *arg)
{
    const hd_io *end = arg;
    char bytes[4];
    ssize_t n, all = 0;
    while ((n = hd_read(*end, bytes, sizeof(bytes))) > 0) all += n;
    hd_assert(n == 0 && all == 6);
    hd_assert(hd_close(*end) == 0);
    return 0;
}

static int through_pipe(void *arg)
{
    (void)arg;
    hd_io ends[2];
    hd_assert(hd_pipe(ends) == 0);
    hd_task *tasks[] = {rt_spawn(NULL, read_bytes, &ends[0]),
                        rt_spawn(NULL, write_bytes, &ends[1])};
    join_all(tasks, 2);
    return 0;
}

static int answer(void *arg)
{
    const hd_io *listener = arg;
    hd_io conn;
    char byte;
    hd_assert(hd_accept(*listener, &conn, NULL) == 0);
    while (hd_read(conn, &byte, 1) == 1) hd_assert(hd_write_all(conn, &byte, 1, NULL) == 0);
    hd_assert(hd_close(conn) == 0);
    return 0;
}

static int over_tcp(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    char byte = 0;
    hd_assert(hd_tcp_listen(&listener, "127.0.0.1:80", NULL) == 0);
    hd_task *server = rt_spawn(NULL, answer, &listener);
    hd_assert(hd_tcp_connect(&conn, "127.0.0.1:80", NULL) == 0);
    hd_assert(hd_write_all(conn, "xy", 2, NULL) == 0);
    hd_assert(hd_read(conn, &byte, 1) == 1 && byte == 'x');
    hd_assert(hd_read(conn, &byte, 1) == 1 && byte == 'y');
    hd_assert(hd_close(conn) == 0);
    join_all(&server, 1);
    hd_assert(hd_close(listener) == 0);
    return 0;
}

TEST(bytes_come_through_a_pipe) { explore(through_pipe, false); }
TEST(bytes_come_back_over_tcp) { explore(over_tcp, true); }
