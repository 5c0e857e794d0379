/* SPDX-License-Identifier: MIT
 *
 * outbox: io/outbox.h between the lane's worker, who leaves and sends, and the monitor, who sends
 * in its place; with a kernel that takes all, or refuses once. Each byte is sent once, in order,
 * from a descriptor that is open; and every loan comes back.
 */
#include "io/outbox.h"

#include <errno.h>
#include <unistd.h>

#include "scenario.h"

enum { SOURCES = 3, FD = 7, BYTES_MAX = 4 };

/* One source, and what the kernel has of it. */
struct peer {
    hd_io io;
    int open;             /* plain: as in source.c */
    unsigned left, sent;  /* bytes; plain: only one at a time sends */
    char bytes[BYTES_MAX];
};

struct world {
    struct hd_runtime *runtime;
    struct hdi_lane lane; /* without a worker: who is none is taken for it */
    struct hdi_outbox outbox; /* without hdi_outbox_init(): a process that exits would look at it */
    char memory[HDI_OUTBOX_BUFFERS * HDI_OUTBOX_BYTES];
    char lent[BYTES_MAX * SOURCES];
    unsigned lends;                /* the worker's */
    _Atomic(uint32_t) taken_back;
    bool refuses;                  /* the kernel, once, what the first source has sent */
    hd_io refused;                 /* plain: the flag that follows orders it */
    _Atomic(uint32_t) has_refused; /* and nobody has heard yet */
    struct hdi_lock telling;       /* URING-4 */
    struct hdi_source *lingers;    /* plain: read after a join */
    struct peer peers[SOURCES];
};

static struct world *here; /* the one of this execution */

/* ---- a kernel ---- */

static ssize_t take(struct peer *peer, const char *bytes, size_t count)
{
    MODEL_EQUAL(MODEL_READ(peer->open), 1);
    for (size_t i = 0; i < count; i++) {
        const unsigned at = MODEL_READ(peer->sent);
        MODEL_CHECK(at < BYTES_MAX);
        peer->bytes[at] = bytes[i];
        MODEL_WRITE(peer->sent, at + 1);
    }
    return (ssize_t)count;
}

static ssize_t fake_sendmsg(struct hd_runtime *runtime, int fd, const struct msghdr *message,
                            int flags)
{
    (void)runtime, (void)flags;
    return take(&here->peers[fd - FD], message->msg_iov->iov_base, message->msg_iov->iov_len);
}

static int fake_close(struct hd_runtime *runtime, int fd)
{
    struct peer *peer = &here->peers[fd - FD];
    (void)runtime;
    MODEL_EQUAL(MODEL_READ(peer->open), 1);
    MODEL_WRITE(peer->open, 0);
    return 0;
}

static int fake_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)fd, (void)source;
    return 0;
}

static void fake_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)source;
    MODEL_EQUAL(MODEL_READ(here->peers[fd - FD].open), 1);
}

static const struct hdi_sys fake_sys = {
    .sendmsg = fake_sendmsg,
    .close = fake_close,
    .watch = fake_watch,
    .unwatch = fake_unwatch,
};

static void fake_put_sends(struct hdi_lane *lane, const struct hdi_send *sends, unsigned count)
{
    (void)lane;
    for (unsigned i = 0; i < count; i++) {
        const int which = sends[i].source->fd - FD;
        if (here->refuses && which == 0) {
            here->refuses = false;
            MODEL_WRITE(here->refused, sends[i].handle);
            hdi_store_release(&here->has_refused, 1);
        } else {
            (void)take(&here->peers[which], sends[i].unsent.iov_base, sends[i].unsent.iov_len);
        }
    }
}

static void fake_put_linger(struct hdi_lane *lane, struct hdi_source *source, struct iovec unsent)
{
    (void)lane;
    (void)take(&here->peers[source->fd - FD], unsent.iov_base, unsent.iov_len);
    MODEL_WRITE(here->lingers, source);
}

/* Tell what the kernel has said: the worker, or another in its place. */
static void hear(void *arg)
{
    struct world *w = arg;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&w->telling);
    if (hdi_exchange_acq_rel(&w->has_refused, 0)) {
        hdi_outbox_fell_short(MODEL_READ(w->refused), -EAGAIN, &wakeups);
    }
    hdi_lock_give(&w->telling);
    MODEL_CHECK(!wakeups.first);
}

static void fake_carry_out(struct hdi_lane *lane, struct hdi_wakeups *wakeups)
{
    (void)lane, (void)wakeups;
    hear(here); /* OUT-3 */
}

static void fake_take_back(struct hdi_lane *lane, const struct hdi_loan *loans, unsigned count)
{
    MODEL_CHECK(lane == &here->lane && loans[0].ring == lane);
    (void)hdi_fetch_add_acq_rel(&here->taken_back, count);
}

static const struct hdi_lane_kind fake_kind = {
    .name = "fake",
    .take_back = fake_take_back,
    .put_sends = fake_put_sends,
    .put_linger = fake_put_linger,
    .carry_out = fake_carry_out,
};

/* ---- the stage ---- */

static struct world *world_new(void)
{
    struct world *w = model_alloc(sizeof(*w));
    w->runtime = model_alloc(sizeof(*w->runtime));
    w->runtime->sys = &fake_sys;
    w->runtime->world = &hdi_world_live;
    w->lane.kind = &fake_kind;
    w->lane.outbox = &w->outbox;
    w->outbox.pid = getpid();
    w->outbox.memory = w->memory;
    w->outbox.free_count = HDI_OUTBOX_BUFFERS;
    for (unsigned i = 0; i < HDI_OUTBOX_BUFFERS; i++) w->outbox.free[i] = (uint16_t)i;
    MODEL_NAME(w->outbox.lock);
    MODEL_NAME(w->outbox.start);
    MODEL_NAME(w->outbox.end);
    here = w;
    hdi_sources_forget();
    for (int i = 0; i < SOURCES; i++) {
        struct peer *peer = &w->peers[i];
        peer->open = 1;
        MODEL_EQUAL(hdi_source_adopt(w->runtime, FD + i, HDI_SOURCE_STREAM, &peer->io), 0);
        hdi_store_release(&hdi_source_of(peer->io)->lane, &w->lane); /* V */
    }
    return w;
}

/* Nothing is left, and nothing was lost, doubled or overtaken. */
static void world_end(struct world *w)
{
    model_calm(true);
    for (int i = 0; i < SOURCES; i++) {
        struct peer *peer = &w->peers[i];
        MODEL_EQUAL(MODEL_READ(peer->sent), peer->left);
        for (unsigned at = 0; at < peer->left; at++) MODEL_EQUAL(peer->bytes[at], (char)at);
        if (MODEL_READ(peer->open)) MODEL_EQUAL(hd_close(peer->io), 0);
        MODEL_EQUAL(MODEL_READ(peer->open), 0);
    }
    MODEL_EQUAL(hdi_load_relaxed(&w->taken_back), w->lends);
    MODEL_EQUAL(hdi_load_relaxed(&w->outbox.loans_ended), w->lends); /* OUT-6 */
    MODEL_EQUAL(w->outbox.free_count, HDI_OUTBOX_BUFFERS);
    MODEL_CHECK(!w->runtime->sources);
    model_free(w->runtime);
    model_free(w);
}

/* Write the next byte, as a task of the worker does: where it cannot be left, by a call. */
static void leave(struct world *w, int which)
{
    struct peer *peer = &w->peers[which];
    struct hdi_source *source = hdi_source_of(peer->io);
    char byte = (char)peer->left++;
    const struct iovec part = {&byte, 1};
    hdi_lock_take(&source->out.waitable.lock);
    const ssize_t n = hdi_lane_send(source, &part, 1, 1);
    MODEL_CHECK(n == 1 || n == -ENODATA);
    if (n == -ENODATA) (void)take(peer, &byte, 1);
    hdi_lock_give(&source->out.waitable.lock);
}

/* The same of a byte that is lent. */
static void leave_loan(struct world *w, int which)
{
    struct peer *peer = &w->peers[which];
    struct hdi_source *source = hdi_source_of(peer->io);
    char *byte = &w->lent[which * BYTES_MAX + (int)peer->left];
    *byte = (char)peer->left;
    hdi_lock_take(&source->out.waitable.lock);
    const bool lent = hdi_lane_send_loan(source, (struct hdi_loan){byte, &w->lane}, byte, 1);
    hdi_lock_give(&source->out.waitable.lock);
    if (!lent) {
        leave(w, which);
        return;
    }
    peer->left++;
    w->lends++;
}

static void send_all(struct world *w)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_outbox_send(&w->lane, &wakeups);
    MODEL_CHECK(!wakeups.first);
}

static void stand_in(void *arg)
{
    struct world *w = arg;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_outbox_stand_in(&w->lane, &wakeups);
    MODEL_CHECK(!wakeups.first);
}

/* ---- the worker against who stands in ---- */

/* There are two places: the third handle has one if the first was taken out. */
static void leave_three(void (*leave_it)(struct world *w, int which))
{
    struct world *w = world_new();
    void *t = model_thread(stand_in, w);
    for (int i = 0; i < SOURCES; i++) leave_it(w, i);
    leave_it(w, 0);
    send_all(w);
    model_join(t);
    world_end(w);
}

MODEL(outbox_stand_in, .sc = 3, .tso = 2, .pso = 2, .kills = "outbox_queued_kept")
{
    leave_three(leave);
}

MODEL(outbox_loans, .sc = 3, .tso = 2, .pso = 2,
      .kills = "outbox_end_early outbox_start_early outbox_loan_lost")
{
    leave_three(leave_loan);
}

/* ---- a close ---- */

static void close_first(void *arg)
{
    const struct world *w = arg;
    MODEL_EQUAL(hd_close(w->peers[0].io), 0);
}

/* By another thread: before it is sent, while it is, or after. */
static void close_one(void (*leave_it)(struct world *w, int which))
{
    struct world *w = world_new();
    leave_it(w, 0);
    leave_it(w, 1);
    void *t = model_thread(close_first, w);
    send_all(w);
    model_join(t);
    world_end(w);
}

MODEL(outbox_close, .sc = 4, .tso = 3, .pso = 3, .kills = "outbox_close_flying")
{
    close_one(leave);
}

MODEL(outbox_close_loan, .sc = 4, .tso = 3, .pso = 3, .kills = "outbox_close_flying")
{
    close_one(leave_loan);
}

/* What the kernel has refused is told by the worker or another; what is closed by then lingers. */
static void refuse_one(void (*leave_it)(struct world *w, int which))
{
    struct world *w = world_new();
    w->refuses = true;
    leave_it(w, 0);
    leave_it(w, 1);
    void *a = model_thread(close_first, w), *b = model_thread(hear, w);
    send_all(w);
    model_join(a);
    model_join(b);
    struct hdi_source *lingers = MODEL_READ(w->lingers);
    if (lingers) hdi_outbox_lingered(hdi_source_handle(lingers), 1);
    if (lingers) MODEL_EQUAL(lingers->sending, HDI_UNSENT_NONE);
    world_end(w);
}

MODEL(outbox_refused, .sc = 2, .tso = 2, .pso = 1,
      .kills = "outbox_close_flying outbox_land_blind")
{
    refuse_one(leave);
}

MODEL(outbox_refused_loan, .sc = 3, .tso = 2, .pso = 2,
      .kills = "outbox_close_flying outbox_land_blind")
{
    refuse_one(leave_loan);
}
