/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait on channels, oneshots, broadcasts and watches: every
 * item sent is received once, by somebody, and one that was not sent by nobody.
 */
#include "waitpoints.h"

TEST_MAIN

enum { ITEMS = 5 };

/* Channels have ways of their own for items of 8 bytes, small ones and large ones. The seed
 * chooses. */
struct item {
    int number, check;
    uint64_t rest[2];
};

static size_t item_bytes; /* how much of it is sent */

static struct item item_of(int number)
{
    return (struct item){number, ~number, {(uint64_t)number * 3, (uint64_t)number * 5}};
}

static int number_in(const struct item *item)
{
    const struct item whole = item_of(item->number);
    EXPECT_EQ(memcmp(item, &whole, item_bytes), 0);
    return item->number;
}

static const struct item no_item = {-1, 0, {-UINT64_C(3), -UINT64_C(5)}}; /* item_of(-1) */

struct traffic {
    hd_chan *chan;
    uint64_t sent, got, dropped; /* a bit for each item */
};

static void put(uint64_t *set, int item)
{
    EXPECT(item >= 0 && item < 64 && !(*set >> item & 1)); /* once */
    *set |= UINT64_C(1) << item;
}

static void undelivered(void *item, void *arg)
{
    put(&((struct traffic *)arg)->dropped, number_in(item));
}

static void open_chan(struct traffic *traffic, const hd_chan_options *options)
{
    static const size_t sizes[] = {4, 8, sizeof(struct item)};
    item_bytes = sizes[wp.run.seed % (options->undelivered ? 2 : 3)];
    EXPECT_EQ(hd_chan_create_with(&traffic->chan, item_bytes, options), 0);
}

static hd_chan_options capacity(size_t items)
{
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = items;
    return options;
}

/* ---- the two sides, as helpers and as victims ---- */

/* Helpers. A sender closes the channel when it has sent all. */
static int send_all(void *arg)
{
    struct traffic *traffic = arg;
    for (int i = 0; i < ITEMS; i++) {
        const struct item item = item_of(i);
        hd_yield();
        if (i % 2) hd_yield();
        EXPECT_EQ(hd_chan_send(traffic->chan, &item), 0);
        put(&traffic->sent, i);
    }
    EXPECT_EQ(hd_chan_close(traffic->chan), 0);
    return 0;
}

static int receive_all(void *arg)
{
    struct traffic *traffic = arg;
    for (struct item item; hd_chan_recv(traffic->chan, &item) == 0;) {
        put(&traffic->got, number_in(&item));
        hd_yield();
    }
    return 0;
}

static int sending_victim(void *arg)
{
    struct traffic *traffic = arg;
    for (int i = 0; i < ITEMS; i++) {
        struct item item = item_of(i);
        int err;
        do err = hd_chan_send_until(traffic->chan, &item, wp_until());
        while (wp_again(err));
        item = no_item; /* It is ours again, sent or not. */
        if (err) return err;
        put(&traffic->sent, i);
    }
    return 0;
}

static int receiving_victim(void *arg)
{
    struct traffic *traffic = arg;
    for (;;) {
        struct item item = no_item;
        int err;
        do err = hd_chan_recv_until(traffic->chan, &item, wp_until());
        while (wp_again(err));
        if (err) EXPECT_EQ(number_in(&item), -1);
        if (err) return err == -EPIPE ? 0 : err;
        put(&traffic->got, number_in(&item));
    }
}

/* All that was sent was received or, where it may be, dropped; nothing is left. */
static void settle(struct traffic *traffic)
{
    EXPECT_EQ(hd_chan_count(traffic->chan), 0);
    hd_chan_destroy(traffic->chan);
    EXPECT_EQ(traffic->got & traffic->dropped, 0);
    EXPECT_EQ(traffic->got | traffic->dropped, traffic->sent);
}

static void hit_a_receiver(const hd_chan_options *options, bool others)
{
    struct traffic traffic = {.sent = 0};
    open_chan(&traffic, options);
    hd_task *sender = rt_spawn(NULL, send_all, &traffic);
    hd_task *other = others ? rt_spawn(NULL, receive_all, &traffic) : NULL;
    wp_spawn(receiving_victim, &traffic);
    (void)wp_join();
    EXPECT_EQ(receive_all(&traffic), 0); /* what it left */
    EXPECT_EQ(rt_join(sender), 0);
    if (other) EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(traffic.sent, (1 << ITEMS) - 1);
    settle(&traffic);
}

static void hit_a_sender(const hd_chan_options *options, hd_fn *victim)
{
    struct traffic traffic = {.sent = 0};
    open_chan(&traffic, options);
    hd_task *receiver = rt_spawn(NULL, receive_all, &traffic);
    wp_spawn(victim, &traffic);
    const int err = wp_join();
    EXPECT_EQ(hd_chan_close(traffic.chan), 0);
    EXPECT_EQ(rt_join(receiver), 0);
    if (!err) EXPECT_EQ(traffic.sent, (1 << ITEMS) - 1);
    settle(&traffic);
}

/* ---- one item at a time ---- */

WAITPOINTS(receive_handed_over)
{
    const hd_chan_options options = capacity(0);
    hit_a_receiver(&options, false);
}

WAITPOINTS(receive_handed_over_among_others)
{
    const hd_chan_options options = capacity(0);
    hit_a_receiver(&options, true);
}

WAITPOINTS(receive_buffered)
{
    const hd_chan_options options = capacity(2);
    hit_a_receiver(&options, false);
}

WAITPOINTS(receive_buffered_among_others)
{
    const hd_chan_options options = capacity(1);
    hit_a_receiver(&options, true);
}

WAITPOINTS(receive_unlimited)
{
    const hd_chan_options options = capacity(HD_CHAN_UNLIMITED);
    hit_a_receiver(&options, true);
}

WAITPOINTS(send_handed_over)
{
    const hd_chan_options options = capacity(0);
    hit_a_sender(&options, sending_victim);
}

WAITPOINTS(send_buffered)
{
    const hd_chan_options options = capacity(1);
    hit_a_sender(&options, sending_victim);
}

WAITPOINTS(send_unlimited_but_bounded)
{
    hd_chan_options options = capacity(HD_CHAN_UNLIMITED);
    options.items_max = 2;
    hit_a_sender(&options, sending_victim);
}

/* ---- many at once ---- */

static int batch_sending_victim(void *arg)
{
    struct traffic *traffic = arg;
    char items[ITEMS * sizeof(struct item)]; /* one after another, item_bytes each */
    for (int i = 0; i < ITEMS; i++) {
        const struct item item = item_of(i);
        memcpy(items + (size_t)i * item_bytes, &item, item_bytes);
    }
    for (ptrdiff_t done = 0; done < ITEMS;) {
        const ptrdiff_t n = hd_chan_send_many_until(traffic->chan,
                                                    items + (size_t)done * item_bytes,
                                                    (size_t)(ITEMS - done), wp_until());
        if (wp_again((int)n)) continue;
        if (n < 0) return (int)n;
        EXPECT(n > 0);
        for (ptrdiff_t i = done; i < done + n; i++) put(&traffic->sent, (int)i);
        done += n;
    }
    return 0;
}

WAITPOINTS(send_many_handed_over)
{
    const hd_chan_options options = capacity(0);
    hit_a_sender(&options, batch_sending_victim);
}

WAITPOINTS(send_many_buffered)
{
    const hd_chan_options options = capacity(2);
    hit_a_sender(&options, batch_sending_victim);
}

static int batch_receiving_victim(void *arg)
{
    struct traffic *traffic = arg;
    for (;;) {
        char items[3 * sizeof(struct item)];
        struct item item = no_item;
        memcpy(items, &no_item, sizeof(no_item));
        const ptrdiff_t n = hd_chan_recv_many_until(traffic->chan, items, 3, wp_until());
        if (wp_again((int)n)) continue;
        if (n < 0) EXPECT_EQ(memcmp(items, &no_item, sizeof(no_item)), 0);
        if (n < 0) return n == -EPIPE ? 0 : (int)n;
        EXPECT(n >= 1 && n <= 3);
        for (ptrdiff_t i = 0; i < n; i++) {
            memcpy(&item, items + (size_t)i * item_bytes, item_bytes);
            put(&traffic->got, number_in(&item));
        }
    }
}

static void hit_a_batch_receiver(size_t items)
{
    struct traffic traffic = {.sent = 0};
    const hd_chan_options options = capacity(items);
    open_chan(&traffic, &options);
    hd_task *sender = rt_spawn(NULL, send_all, &traffic);
    wp_spawn(batch_receiving_victim, &traffic);
    (void)wp_join();
    EXPECT_EQ(receive_all(&traffic), 0);
    EXPECT_EQ(rt_join(sender), 0);
    settle(&traffic);
}

WAITPOINTS(receive_many_handed_over)
{
    hit_a_batch_receiver(0);
}

WAITPOINTS(receive_many_buffered)
{
    hit_a_batch_receiver(3);
}

/* ---- conflated ---- */

WAITPOINTS(receive_conflated)
{
    struct traffic traffic = {.sent = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.conflated = true;
    options.undelivered = undelivered;
    options.arg = &traffic;
    open_chan(&traffic, &options);
    hd_task *sender = rt_spawn(NULL, send_all, &traffic);
    wp_spawn(receiving_victim, &traffic);
    (void)wp_join();
    EXPECT_EQ(receive_all(&traffic), 0);
    EXPECT_EQ(rt_join(sender), 0);
    EXPECT(traffic.got >> (ITEMS - 1) & 1); /* the latest is never dropped */
    settle(&traffic);
}

/* ---- closed while waiting ---- */

static int close_soon(void *arg)
{
    struct traffic *traffic = arg;
    for (int i = 0; i < 3; i++) hd_yield();
    EXPECT_EQ(hd_chan_close(traffic->chan), 0);
    return 0;
}

static int refused_victim(void *arg)
{
    struct traffic *traffic = arg;
    const struct item item = item_of(0);
    int err;
    do err = hd_chan_send_until(traffic->chan, &item, wp_until());
    while (wp_again(err));
    EXPECT(err != 0); /* Nobody receives. */
    return err == -EPIPE ? 0 : err;
}

static void hit_while_closing(hd_fn *victim)
{
    struct traffic traffic = {.sent = 0};
    const hd_chan_options options = capacity(0);
    open_chan(&traffic, &options);
    hd_task *closer = rt_spawn(NULL, close_soon, &traffic);
    wp_spawn(victim, &traffic);
    (void)wp_join();
    EXPECT_EQ(rt_join(closer), 0);
    settle(&traffic);
}

WAITPOINTS(a_receiver_of_a_channel_being_closed)
{
    hit_while_closing(receiving_victim);
}

WAITPOINTS(a_sender_to_a_channel_being_closed)
{
    hit_while_closing(refused_victim);
}

/* ---- blocks: what is not received is not freed, which the leak checker sees ---- */

static int give_all(void *arg)
{
    for (int i = 0; i < ITEMS; i++) {
        int *block = malloc(sizeof(*block));
        EXPECT(block != NULL);
        EXPECT_EQ(hd_chan_give(arg, block), 0);
    }
    EXPECT_EQ(hd_chan_close(arg), 0);
    return 0;
}

static int taking_victim(void *arg)
{
    for (;;) {
        void *block = NULL;
        int err;
        do err = hd_chan_take_until(arg, &block, wp_until());
        while (wp_again(err));
        EXPECT_EQ(block != NULL, err == 0);
        if (err) return err == -EPIPE ? 0 : err;
        free(block);
    }
}

static void free_block(void *item, void *arg)
{
    ++*(int *)arg;
    free(*(void **)item);
}

WAITPOINTS(take_blocks)
{
    int dropped = 0;
    hd_chan_options options = capacity(ITEMS);
    options.undelivered = free_block;
    options.arg = &dropped;
    hd_chan *chan;
    EXPECT_EQ(hd_chan_create_with(&chan, sizeof(void *), &options), 0);
    hd_task *giver = rt_spawn(NULL, give_all, chan);
    wp_spawn(taking_victim, chan);
    const int err = wp_join();
    EXPECT_EQ(rt_join(giver), 0);
    const size_t left = hd_chan_count(chan);
    hd_chan_destroy(chan); /* What is left goes to the hook. */
    EXPECT_EQ(dropped, left);
    if (!err) EXPECT_EQ(left, 0);
}

/* ---- select ---- */

struct crossing {
    struct traffic in[2], out;
};

static int select_step(struct crossing *all, int *next, int *closed)
{
    struct item items[2] = {no_item, no_item};
    const struct item item = item_of(*next);
    hd_case cases[] = {HD_RECV(all->in[0].chan, &items[0]), HD_RECV(all->in[1].chan, &items[1]),
                       HD_SEND(all->out.chan, &item)};
    for (int i = 0; i < 2; i++) {
        if (*closed >> i & 1) cases[i] = (hd_case)HD_NEVER;
    }
    if (*next >= ITEMS) cases[2] = (hd_case)HD_NEVER;
    const int which = hd_select_until(cases, 3, 0, wp_until());
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(number_in(&items[i]) != -1, which == i && cases[i].result == 0);
    }
    if (which == 2) {
        EXPECT_EQ(cases[2].result, 0);
        put(&all->out.sent, (*next)++);
    } else if (which >= 0 && cases[which].result == -EPIPE) {
        *closed |= 1 << which;
    } else if (which >= 0) {
        put(&all->in[which].got, number_in(&items[which]));
    }
    return which;
}

static int crossing_victim(void *arg)
{
    int next = 0, closed = 0;
    while (next < ITEMS || closed != 3) {
        const int which = select_step(arg, &next, &closed);
        if (which < 0 && !wp_again(which)) return which;
    }
    return 0;
}

static void cross(size_t items, void (*spawn)(struct crossing *))
{
    const hd_chan_options options = capacity(items);
    struct crossing all = {.out = {.sent = 0}};
    open_chan(&all.in[0], &options);
    open_chan(&all.in[1], &options);
    open_chan(&all.out, &options);
    hd_task *senders[2];
    for (int i = 0; i < 2; i++) senders[i] = rt_spawn(NULL, send_all, &all.in[i]);
    hd_task *receiver = rt_spawn(NULL, receive_all, &all.out);
    spawn(&all);
    (void)wp_join();
    EXPECT_EQ(hd_chan_close(all.out.chan), 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(receive_all(&all.in[i]), 0);
        EXPECT_EQ(rt_join(senders[i]), 0);
        settle(&all.in[i]);
    }
    EXPECT_EQ(rt_join(receiver), 0);
    settle(&all.out);
}

static void spawn_crossing_fiber(struct crossing *all)
{
    wp_spawn(crossing_victim, all);
}

WAITPOINTS(select_handed_over)
{
    cross(0, spawn_crossing_fiber);
}

WAITPOINTS(select_buffered)
{
    cross(1, spawn_crossing_fiber);
}

/* A stackless task, which receives from both and sends. */
struct crossing_state {
    struct crossing *all;
    int next, closed;
    bool begun;
    int64_t deadline;
    struct item items[2], item;
    hd_wait wait;
    hd_case cases[3];
};

static void begin_crossing(struct crossing_state *self)
{
    for (int i = 0; i < 2; i++) {
        self->items[i] = no_item;
        self->cases[i] = (hd_case)HD_RECV(self->all->in[i].chan, &self->items[i]);
        if (self->closed >> i & 1) self->cases[i] = (hd_case)HD_NEVER;
    }
    self->item = item_of(self->next);
    self->cases[2] = (hd_case)HD_SEND(self->all->out.chan, &self->item);
    if (self->next >= ITEMS) self->cases[2] = (hd_case)HD_NEVER;
    self->deadline = wp_until();
    self->begun = true;
}

static hd_poll crossing_poll(void *state, int *result)
{
    struct crossing_state *self = state;
    *result = 0;
    while (self->next < ITEMS || self->closed != 3) {
        if (!self->begun) begin_crossing(self);
        const int which = hd_select_poll(&self->wait, self->cases, 3, 0, self->deadline);
        if (which == -EAGAIN) return HD_PENDING;
        self->begun = false;
        *result = which < 0 && !wp_again(which) ? which : 0;
        if (*result) break;
        if (which == 2) {
            put(&self->all->out.sent, self->next++);
        } else if (which >= 0 && self->cases[which].result == -EPIPE) {
            self->closed |= 1 << which;
        } else if (which >= 0) {
            put(&self->all->in[which].got, number_in(&self->items[which]));
        }
    }
    return HD_READY;
}

static void spawn_crossing_poll(struct crossing *all)
{
    const struct crossing_state state = {.all = all};
    wp_spawn_poll(crossing_poll, &state, sizeof(state));
}

WAITPOINTS(select_by_a_stackless_task_handed_over)
{
    cross(0, spawn_crossing_poll);
}

WAITPOINTS(select_by_a_stackless_task_buffered)
{
    cross(2, spawn_crossing_poll);
}

/* ---- oneshot ---- */

struct answer {
    hd_oneshot oneshot;
    bool sent, refused, got;
};

static int answer_soon(void *arg)
{
    struct answer *answer = arg;
    const int value = 42;
    for (int i = 0; i < 2; i++) hd_yield();
    const int err = hd_oneshot_send(&answer->oneshot, &value);
    EXPECT(err == 0 || err == -EPIPE);
    answer->sent = !err;
    answer->refused = err != 0;
    return 0;
}

static int answered_victim(void *arg)
{
    struct answer *answer = arg;
    int value = -1, err;
    do err = hd_oneshot_recv_until(&answer->oneshot, &value, wp_until());
    while (wp_again(err));
    if (err) {
        EXPECT_EQ(value, -1);
        /* It may have been sent just now: then it is still there. */
        if (hd_oneshot_close(&answer->oneshot) == 0) return err;
        EXPECT_EQ(hd_oneshot_recv_try(&answer->oneshot, &value), 0);
    }
    EXPECT_EQ(value, 42);
    answer->got = true;
    return err;
}

WAITPOINTS(oneshot)
{
    struct answer answer = {.sent = false};
    EXPECT_EQ(hd_oneshot_init(&answer.oneshot, sizeof(int), NULL), 0);
    hd_task *sender = rt_spawn(NULL, answer_soon, &answer);
    wp_spawn(answered_victim, &answer);
    (void)wp_join();
    EXPECT_EQ(rt_join(sender), 0);
    EXPECT(answer.sent != answer.refused);
    EXPECT_EQ(answer.got, answer.sent);
}

/* ---- broadcast ---- */

struct listener {
    hd_broadcast_receiver receiver;
    uint64_t got;
};

static int listening_victim(void *arg)
{
    struct listener *self = arg;
    for (;;) {
        int item = -1, err;
        do err = hd_broadcast_recv_until(&self->receiver, &item, wp_until());
        while (wp_again(err));
        if (err) EXPECT_EQ(item, -1);
        if (err) return err == -EPIPE ? 0 : err;
        put(&self->got, item);
    }
}

static int listen_to_all(void *arg)
{
    struct listener *self = arg;
    for (int item; hd_broadcast_recv(&self->receiver, &item) == 0;) put(&self->got, item);
    return 0;
}

static int broadcast_all(void *arg)
{
    for (int item = 0; item < ITEMS; item++) {
        hd_yield();
        EXPECT_EQ(hd_broadcast_send(arg, &item), 2);
    }
    EXPECT_EQ(hd_broadcast_close(arg), 0);
    return 0;
}

WAITPOINTS(broadcast)
{
    hd_broadcast *broadcast = hd_broadcast_create(sizeof(int), ITEMS);
    EXPECT(broadcast != NULL);
    struct listener victim = {.got = 0}, other = {.got = 0};
    EXPECT_EQ(hd_broadcast_subscribe(broadcast, &victim.receiver), 0);
    EXPECT_EQ(hd_broadcast_subscribe(broadcast, &other.receiver), 0);
    hd_task *sender = rt_spawn(NULL, broadcast_all, broadcast);
    hd_task *listening = rt_spawn(NULL, listen_to_all, &other);
    wp_spawn(listening_victim, &victim);
    (void)wp_join();
    EXPECT_EQ(rt_join(sender), 0);
    EXPECT_EQ(rt_join(listening), 0);
    EXPECT_EQ(listen_to_all(&victim), 0); /* A wait that failed has taken nothing. */
    EXPECT_EQ(victim.got, (1 << ITEMS) - 1);
    EXPECT_EQ(other.got, (1 << ITEMS) - 1);
    hd_broadcast_unsubscribe(&victim.receiver);
    hd_broadcast_unsubscribe(&other.receiver);
    hd_broadcast_destroy(broadcast);
}

/* ---- watch ---- */

struct watcher {
    hd_watch_receiver receiver;
    int seen;
};

static int watching_victim(void *arg)
{
    struct watcher *self = arg;
    for (;;) {
        int value = -1, err;
        do err = hd_watch_changed_until(&self->receiver, &value, wp_until());
        while (wp_again(err));
        if (err) EXPECT_EQ(value, -1);
        if (err) return err == -EPIPE ? 0 : err;
        EXPECT(value > self->seen); /* A change is seen once. */
        self->seen = value;
    }
}

static int change_often(void *arg)
{
    for (int value = 1; value <= ITEMS; value++) {
        hd_yield();
        EXPECT_EQ(hd_watch_set(arg, &value), 0);
    }
    EXPECT_EQ(hd_watch_close(arg), 0);
    return 0;
}

WAITPOINTS(watch)
{
    const int zero = 0;
    struct watcher watcher = {.seen = 0};
    hd_watch *watch = hd_watch_create(sizeof(int), &zero);
    EXPECT(watch != NULL);
    hd_watch_subscribe(watch, &watcher.receiver);
    hd_task *setter = rt_spawn(NULL, change_often, watch);
    wp_spawn(watching_victim, &watcher);
    (void)wp_join();
    EXPECT_EQ(rt_join(setter), 0);
    int value;
    const int err = hd_watch_changed(&watcher.receiver, &value);
    EXPECT_EQ(err, watcher.seen == ITEMS ? -EPIPE : 0); /* The latest is never missed. */
    if (!err) EXPECT_EQ(value, ITEMS);
    hd_watch_destroy(watch);
}
