/* SPDX-License-Identifier: MIT
 *
 * Channels under load: every item that was sent is received exactly once, or given to the
 * hook, or still its sender's; and what one sender sends arrives in its order. With closes,
 * cancels and deadlines in the middle, from fibers of two runtimes and plain threads.
 */
#include "stress/stress.h"

TEST_MAIN

/* ---- conservation and order ---- */

enum { SIDES_MAX = 8 };

static const size_t capacities[] = {0, 1, 3, 1024, HD_CHAN_UNLIMITED};
enum { CAPACITIES = sizeof(capacities) / sizeof(capacities[0]) };

/* Small and large items take different ways. */
struct item {
    uint32_t sender, number;
    uint64_t check[3];
};

static size_t item_bytes;

static struct item make_item(uint32_t sender, uint32_t number)
{
    const uint64_t check = ((uint64_t)sender << 32 | number) * UINT64_C(0x9e3779b97f4a7c15);
    return (struct item){sender, number, {check, ~check, check ^ 7}};
}

static void check_item(const struct item *item)
{
    const struct item expected = make_item(item->sender, item->number);
    EXPECT(memcmp(item, &expected, item_bytes) == 0);
}

struct traffic {
    hd_chan *chan;
    unsigned senders, receivers, count; /* items of each sender */
    atomic_uint next_sender, next_receiver, senders_left;
    _Atomic(uint64_t) received;
    uint32_t *last[SIDES_MAX]; /* by receiver and sender */
};

static void send_traffic(struct traffic *traffic)
{
    const uint32_t self = atomic_fetch_add(&traffic->next_sender, 1);
    for (uint32_t i = 1; i <= traffic->count; i++) {
        const struct item item = make_item(self, i);
        EXPECT_EQ(hd_chan_send(traffic->chan, &item), 0);
    }
    if (atomic_fetch_sub(&traffic->senders_left, 1) == 1) {
        EXPECT_EQ(hd_chan_close(traffic->chan), 0);
    }
}

static void receive_traffic(struct traffic *traffic)
{
    uint32_t last[SIDES_MAX] = {0};
    uint64_t received = 0;
    (void)atomic_fetch_add(&traffic->next_receiver, 1);
    for (struct item item; hd_chan_recv(traffic->chan, &item) == 0; received++) {
        check_item(&item);
        EXPECT(item.number > last[item.sender]); /* in the order of its sender */
        if (traffic->receivers == 1) EXPECT_EQ(item.number, last[item.sender] + 1);
        last[item.sender] = item.number;
    }
    atomic_fetch_add(&traffic->received, received);
}

static int sending_fiber(void *arg)
{
    send_traffic(arg);
    return 0;
}

static int receiving_fiber(void *arg)
{
    receive_traffic(arg);
    return 0;
}

static void *sending_thread(void *arg)
{
    send_traffic(arg);
    return NULL;
}

static void *receiving_thread(void *arg)
{
    receive_traffic(arg);
    return NULL;
}

/* Where the two sides run: fibers of `a`, fibers of `b`, or, with NULL, threads. */
static void run_traffic(struct traffic *traffic, hd_runtime *a, hd_runtime *b)
{
    struct stress_threads threads = {.count = 0};
    hd_task *tasks[2 * SIDES_MAX];
    unsigned fibers = 0;
    atomic_store(&traffic->senders_left, traffic->senders);
    for (unsigned i = 0; i < traffic->receivers; i++) {
        if (!b) {
            stress_start(&threads, receiving_thread, traffic);
            continue;
        }
        const hd_spawn_options into = stress_into(b);
        EXPECT_EQ(hd_spawn_with(&tasks[fibers++], receiving_fiber, traffic, &into), 0);
    }
    for (unsigned i = 0; i < traffic->senders; i++) {
        if (!a) {
            stress_start(&threads, sending_thread, traffic);
            continue;
        }
        const hd_spawn_options into = stress_into(a);
        EXPECT_EQ(hd_spawn_with(&tasks[fibers++], sending_fiber, traffic, &into), 0);
    }
    for (unsigned i = 0; i < fibers; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    stress_join(&threads);
    EXPECT_EQ(atomic_load(&traffic->received), (uint64_t)traffic->senders * traffic->count);
}

static void all_traffic(hd_runtime *a, hd_runtime *b, unsigned count)
{
    static const unsigned sides[][2] = {{1, 1}, {4, 1}, {1, 4}, {4, 4}};
    static const size_t sizes[] = {8, sizeof(struct item)};
    for (int c = 0; c < CAPACITIES; c++) {
        for (int s = 0; s < 4; s++) {
            item_bytes = sizes[(c + s) % 2];
            struct traffic traffic = {.chan = hd_chan_create(item_bytes, capacities[c]),
                                      .senders = sides[s][0],
                                      .receivers = sides[s][1],
                                      .count = stress_count(count) / sides[s][0] + 1};
            EXPECT(traffic.chan != NULL);
            run_traffic(&traffic, a, b);
            hd_chan_destroy(traffic.chan);
        }
    }
}

static void traffic_between_fibers(const hd_options *options, unsigned scale)
{
    hd_runtime *runtime = stress_runtime(options);
    all_traffic(runtime, runtime, 20000 / scale);
    hd_runtime_destroy(runtime);
}

TEST(every_item_arrives_once_and_in_order)
{
    stress_each_setup(traffic_between_fibers);
}

static hd_runtime *two_workers(void)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    return stress_runtime(&options);
}

TEST(between_two_runtimes)
{
    hd_runtime *a = two_workers(), *b = two_workers();
    all_traffic(a, b, 10000);
    hd_runtime_destroy(a);
    hd_runtime_destroy(b);
}

TEST(between_threads_and_fibers)
{
    hd_runtime *runtime = two_workers();
    all_traffic(NULL, runtime, 5000);
    all_traffic(runtime, NULL, 5000);
    all_traffic(NULL, NULL, 2000);
    hd_runtime_destroy(runtime);
}

/* ---- many at once ---- */

static int send_in_batches(void *arg)
{
    struct traffic *traffic = arg;
    struct stress_random random = stress_random_init(1);
    uint64_t items[100];
    for (uint64_t next = 0; next < traffic->count;) {
        size_t count = 1 + stress_below(&random, 100);
        if (count > traffic->count - next) count = traffic->count - next;
        for (size_t i = 0; i < count; i++) items[i] = next + i;
        EXPECT_EQ(hd_chan_send_many(traffic->chan, items, count), count);
        next += count;
    }
    return hd_chan_close(traffic->chan);
}

static int receive_in_batches(void *arg)
{
    struct traffic *traffic = arg;
    struct stress_random random = stress_random_init(2);
    uint64_t items[100], next = 0;
    for (;;) {
        const ptrdiff_t got =
            hd_chan_recv_many(traffic->chan, items, 1 + stress_below(&random, 100));
        if (got == -EPIPE) break;
        EXPECT(got > 0);
        for (ptrdiff_t i = 0; i < got; i++) EXPECT_EQ(items[i], next++);
    }
    EXPECT_EQ(next, traffic->count);
    return 0;
}

TEST(batches_keep_the_order)
{
    hd_runtime *runtime = two_workers();
    const hd_spawn_options into = stress_into(runtime);
    for (int c = 0; c < CAPACITIES; c++) {
        struct traffic traffic = {.chan = hd_chan_create(sizeof(uint64_t), capacities[c]),
                                  .count = stress_count(200000)};
        hd_task *tasks[2];
        EXPECT_EQ(hd_spawn_with(&tasks[0], send_in_batches, &traffic, &into), 0);
        EXPECT_EQ(hd_spawn_with(&tasks[1], receive_in_batches, &traffic, &into), 0);
        for (int i = 0; i < 2; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
        hd_chan_destroy(traffic.chan);
    }
    hd_runtime_destroy(runtime);
}

/* ---- giving up in the middle ---- */

enum { PAIRS = 4 };

/* What happened to the items, counted by those who know. */
struct account {
    hd_chan *chan;
    atomic_uint sent, received, undelivered;
    atomic_bool stop;
};

static void count_undelivered(void *item, void *arg)
{
    struct account *account = arg;
    check_item(item);
    atomic_fetch_add(&account->undelivered, 1);
}

/* A deadline that sometimes comes first and sometimes not. */
static int64_t soon(struct stress_random *random)
{
    return hd_now(NULL) + (int64_t)stress_below(random, 20) * 1000;
}

static int restless_sender(void *arg)
{
    struct account *account = arg;
    struct stress_random random = stress_random_init(hd_self_id());
    for (uint32_t i = 1; !atomic_load(&account->stop); i++) {
        const struct item item = make_item(1, i);
        const int err = i % 2 ? hd_chan_send(account->chan, &item)
                              : hd_chan_send_until(account->chan, &item, soon(&random));
        if (err == -ECANCELED || err == -EPIPE) break;
        EXPECT(err == 0 || err == -ETIMEDOUT);
        if (err == 0) atomic_fetch_add(&account->sent, 1);
        if (i % 16 == 0) hd_yield(); /* A channel that grows never makes it wait. */
    }
    return 0;
}

static int restless_receiver(void *arg)
{
    struct account *account = arg;
    struct stress_random random = stress_random_init(hd_self_id());
    for (uint32_t i = 0; !atomic_load(&account->stop); i++) {
        struct item item = {.sender = 99};
        const int err = i % 2 ? hd_chan_recv(account->chan, &item)
                              : hd_chan_recv_until(account->chan, &item, soon(&random));
        if (err != 0) EXPECT_EQ(item.sender, 99); /* not written */
        if (err == -ECANCELED || err == -EPIPE) break;
        EXPECT(err == 0 || err == -ETIMEDOUT);
        if (err != 0) continue;
        check_item(&item);
        atomic_fetch_add(&account->received, 1);
    }
    return 0;
}

/* A stackless task that receives once, if it lives so long. */
struct fleeting {
    struct account *account;
    struct item item;
    hd_wait wait;
    hd_case c;
    bool begun;
};

static hd_poll fleeting_receiver(void *state, int *result)
{
    struct fleeting *s = state;
    *result = 0;
    if (!s->begun) s->c = (hd_case)HD_RECV(s->account->chan, &s->item);
    s->begun = true;
    if (hd_cancelled()) return HD_READY; /* It may have won an item: that goes to the hook. */
    const int which = hd_select_poll(&s->wait, &s->c, 1, 0, HD_FOREVER);
    if (which == -EAGAIN) return HD_PENDING;
    if (which == 0 && s->c.result == 0) {
        check_item(&s->item);
        atomic_fetch_add(&s->account->received, 1);
    }
    return HD_READY;
}

static void check_account(const struct account *account)
{
    EXPECT_EQ(atomic_load(&account->sent),
              atomic_load(&account->received) + atomic_load(&account->undelivered));
}

/* Every task is cancelled at some moment, or the channel is closed. */
static void restless_round(hd_runtime *runtime, size_t capacity, bool closes, unsigned seed)
{
    const hd_spawn_options into = stress_into(runtime);
    struct account account = {.stop = false};
    struct stress_random random = stress_random_init(seed);
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = capacity;
    options.undelivered = count_undelivered;
    options.arg = &account;
    EXPECT_EQ(hd_chan_create_with(&account.chan, item_bytes, &options), 0);
    hd_task *tasks[3 * PAIRS];
    const struct fleeting fleeting = {.account = &account};
    for (int i = 0; i < PAIRS; i++) {
        EXPECT_EQ(hd_spawn_with(&tasks[3 * i], restless_sender, &account, &into), 0);
        EXPECT_EQ(hd_spawn_with(&tasks[3 * i + 1], restless_receiver, &account, &into), 0);
        EXPECT_EQ(hd_spawn_poll_with(&tasks[3 * i + 2], fleeting_receiver, &fleeting,
                                     sizeof(fleeting), &into), 0);
    }
    const unsigned until = stress_below(&random, 60);
    while (atomic_load(&account.received) < until) sched_yield();
    if (closes) EXPECT_EQ(hd_chan_close(account.chan), 0);
    for (int i = 0; i < 3 * PAIRS; i++) hd_cancel(tasks[(i * 5 + (int)seed) % (3 * PAIRS)]);
    for (int i = 0; i < 3 * PAIRS; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    hd_chan_destroy(account.chan); /* What is left goes to the hook. */
    check_account(&account);
}

TEST(nothing_is_lost_by_cancels_closes_and_deadlines)
{
    static const size_t few[] = {0, 1, 8, HD_CHAN_UNLIMITED};
    hd_runtime *runtime = two_workers();
    for (unsigned i = 0; i < stress_count(800); i++) {
        item_bytes = i % 2 ? 8 : sizeof(struct item);
        restless_round(runtime, few[i / 2 % 4], i % 3 == 0, i);
    }
    hd_runtime_destroy(runtime);
}

/* ---- the latest only ---- */

static int send_latest(void *arg)
{
    struct account *account = arg;
    for (uint32_t i = 1; i <= stress_count(50000); i++) {
        const struct item item = make_item(1, i);
        EXPECT_EQ(hd_chan_send(account->chan, &item), 0);
        atomic_fetch_add(&account->sent, 1);
    }
    return hd_chan_close(account->chan);
}

static int receive_latest(void *arg)
{
    struct account *account = arg;
    uint32_t last = 0;
    for (struct item item; hd_chan_recv(account->chan, &item) == 0;) {
        check_item(&item);
        EXPECT(item.number > last);
        last = item.number;
        atomic_fetch_add(&account->received, 1);
    }
    EXPECT_EQ(last, stress_count(50000)); /* The latest is never lost. */
    return 0;
}

TEST(a_conflated_channel_loses_only_to_the_hook)
{
    hd_runtime *runtime = two_workers();
    const hd_spawn_options into = stress_into(runtime);
    struct account account = {.stop = false};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.conflated = true;
    options.undelivered = count_undelivered;
    options.arg = &account;
    item_bytes = 8;
    EXPECT_EQ(hd_chan_create_with(&account.chan, item_bytes, &options), 0);
    hd_task *tasks[2];
    EXPECT_EQ(hd_spawn_with(&tasks[0], send_latest, &account, &into), 0);
    EXPECT_EQ(hd_spawn_with(&tasks[1], receive_latest, &account, &into), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    EXPECT_EQ(hd_chan_dropped(account.chan), atomic_load(&account.undelivered));
    hd_chan_destroy(account.chan);
    check_account(&account);
    hd_runtime_destroy(runtime);
}

/* ---- selects against each other ---- */

enum { RING = 6 };

struct ring {
    hd_chan *chans[RING];
    atomic_uint place, sent[RING], received[RING];
    unsigned rounds;
};

/* Each place sends to the channel after it or receives from its own, whichever goes. Those
 * with an even place may only receive at the end, so that the last ones find a partner. */
static int ring_fiber(void *arg)
{
    struct ring *ring = arg;
    const unsigned self = atomic_fetch_add(&ring->place, 1) % RING, next = (self + 1) % RING;
    for (unsigned i = 0; i < ring->rounds; i++) {
        uint64_t out = i, in;
        hd_case cases[] = {HD_SEND(ring->chans[next], &out), HD_RECV(ring->chans[self], &in),
                           HD_AT(hd_after_ms(20))};
        const int which = hd_select(cases, 3);
        EXPECT(which >= 0);
        EXPECT_EQ(cases[which].result, 0);
        if (which == 0) atomic_fetch_add(&ring->sent[next], 1);
        if (which == 1) atomic_fetch_add(&ring->received[self], 1);
        if (which == 2) break; /* The others are done. */
    }
    return 0;
}

TEST(a_ring_of_selects_never_loses_one)
{
    hd_runtime *runtime = two_workers();
    const hd_spawn_options into = stress_into(runtime);
    struct ring ring = {.rounds = stress_count(20000)};
    hd_task *tasks[2 * RING];
    for (int i = 0; i < RING; i++) EXPECT((ring.chans[i] = hd_chan_create(8, 0)) != NULL);
    for (int i = 0; i < 2 * RING; i++) {
        EXPECT_EQ(hd_spawn_with(&tasks[i], ring_fiber, &ring, &into), 0);
    }
    for (int i = 0; i < 2 * RING; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    for (int i = 0; i < RING; i++) {
        EXPECT_EQ(atomic_load(&ring.sent[i]), atomic_load(&ring.received[i]));
        hd_chan_destroy(ring.chans[i]);
    }
    hd_runtime_destroy(runtime);
}

/* ---- who gets the last item may destroy ---- */

struct brief {
    hd_chan *chan;
    uint64_t expected;
};

static int brief_receiver(void *arg)
{
    const struct brief *brief = arg;
    uint64_t v = 0;
    EXPECT_EQ(hd_chan_recv(brief->chan, &v), 0);
    EXPECT_EQ(v, brief->expected);
    hd_chan_destroy(brief->chan);
    return 0;
}

TEST(the_receiver_of_the_last_item_destroys)
{
    hd_runtime *runtime = two_workers();
    const hd_spawn_options into = stress_into(runtime);
    for (uint64_t i = 0; i < stress_count(20000); i++) {
        struct brief brief = {hd_chan_create(sizeof(uint64_t), i % 3), i};
        hd_task *task;
        EXPECT_EQ(hd_spawn_with(&task, brief_receiver, &brief, &into), 0);
        EXPECT_EQ(hd_chan_send(brief.chan, &i), 0);
        EXPECT_EQ(hd_join(task, NULL), 0);
    }
    hd_runtime_destroy(runtime);
}

struct asked {
    hd_oneshot *reply;
    uint64_t number;
};

static int oneshot_sender(void *arg)
{
    struct asked asked;
    while (hd_chan_recv(arg, &asked) == 0) {
        if (asked.number % 5) {
            EXPECT_EQ(hd_oneshot_send(asked.reply, &asked.number), 0);
        } else {
            EXPECT_EQ(hd_oneshot_close(asked.reply), 0);
        }
    }
    return 0;
}

static void ask_once(hd_chan *chan, uint64_t number)
{
    hd_oneshot reply; /* gone, and overwritten, as soon as the answer is there */
    EXPECT_EQ(hd_oneshot_init(&reply, sizeof(uint64_t), NULL), 0);
    const struct asked asked = {&reply, number};
    uint64_t v = 0;
    EXPECT_EQ(hd_chan_send(chan, &asked), 0);
    EXPECT_EQ(hd_oneshot_recv(&reply, &v), number % 5 ? 0 : -EPIPE);
    EXPECT_EQ(v, number % 5 ? number : 0);
    memset(&reply, 0x5a, sizeof(reply));
}

static int oneshot_receiver(void *arg)
{
    for (uint64_t i = 0; i < stress_count(40000); i++) ask_once(arg, i);
    return 0;
}

static void *oneshot_thread(void *arg)
{
    for (uint64_t i = 0; i < stress_count(5000); i++) ask_once(arg, i);
    return NULL;
}

TEST(oneshots_on_stacks)
{
    hd_runtime *runtime = two_workers();
    const hd_spawn_options into = stress_into(runtime);
    hd_chan *chan = hd_chan_create(sizeof(struct asked), 2);
    hd_task *tasks[4];
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(hd_spawn_with(&tasks[i], oneshot_sender, chan, &into), 0);
        EXPECT_EQ(hd_spawn_with(&tasks[2 + i], oneshot_receiver, chan, &into), 0);
    }
    stress_start(&threads, oneshot_thread, chan);
    stress_join(&threads);
    for (int i = 2; i < 4; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    EXPECT_EQ(hd_chan_close(chan), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    hd_chan_destroy(chan);
    hd_runtime_destroy(runtime);
}
