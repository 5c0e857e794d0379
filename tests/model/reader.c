/* SPDX-License-Identifier: MIT
 *
 * reader: a fiber that waits to read (SRC-8), and is told, or lent what comes (SRC-9), once,
 * whatever else ends its wait.
 */
#include <heddle/chan.h>

#include "sources.h"

/* Of one byte. */
struct reading {
    struct world *world;
    ssize_t got; /* ordered by a join */
};

static ssize_t try_take_one(struct hdi_source *source, void *arg)
{
    struct world *w = arg;
    (void)source;
    MODEL_EQUAL(MODEL_READ(w->open), 1); /* SRC-3 */
    uint32_t bytes = hdi_load_acquire(&w->bytes);
    do {
        if (bytes == 0) return -EAGAIN;
    } while (!hdi_cas_acq_rel(&w->bytes, &bytes, bytes - 1));
    return 1;
}

static ssize_t read_one(struct world *w)
{
    return hdi_source_do(w->io, false, try_take_one, w, 0, HD_FOREVER);
}

static int read_as_fiber(void *arg)
{
    struct reading *reading = arg;
    reading->got = read_one(reading->world);
    return 0;
}

static struct hdi_source *source_in(const struct world *w)
{
    return hdi_source_slot(w->io);
}

/* Nobody waits any more, so what is told now touches nobody; and it ends. */
static void reader_fini(struct world *w, hd_runtime *rt)
{
    model_calm(true);
    MODEL_CHECK(!hdi_source_is_awaited(source_in(w)));
    tell(w->io, HDI_READY_IN);
    if (MODEL_READ(w->open)) close_it(w);
    world_fini(w);
    rt_stop(rt);
}

/* One reader. */
struct scene {
    struct world world;
    hd_runtime *rt;
    struct reading reading;
    hd_task *task;
};

static void begin(struct scene *s, hd_fn *reads)
{
    world_init(&s->world);
    s->rt = rt_start(1);
    s->reading = (struct reading){&s->world, -1};
    s->task = rt_fiber(s->rt, reads, &s->reading);
}

static void begin_waiting(struct scene *s, hd_fn *reads)
{
    begin(s, reads);
    rt_settle(s->rt);
}

MODEL(source_reader, .sc = 3, .tso = 2, .pso = 2, RT_STEPS, .kills = "source_queue_late")
{
    struct scene s;
    begin(&s, read_as_fiber);
    arrive(&s.world);
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, 1);
    reader_fini(&s.world, s.rt);
}

/* Told twice at once: the second finds no reader, or one that waits again. */
static int read_twice(void *arg)
{
    struct reading *reading = arg;
    MODEL_EQUAL(read_one(reading->world), 1);
    return read_as_fiber(arg);
}

MODEL(source_reader_twice, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_waiting(&s, read_twice);
    void *t = model_thread(arrive, &s.world);
    arrive(&s.world);
    MODEL_EQUAL(rt_join(s.task), 0);
    model_join(t);
    MODEL_EQUAL(s.reading.got, 1);
    reader_fini(&s.world, s.rt);
}

static bool has_reader(struct world *w)
{
    struct hdi_source *source = source_in(w);
    hdi_lock_take(&source->in.waitable.lock);
    const bool has = source->reader;
    hdi_lock_give(&source->in.waitable.lock);
    return has;
}

/* Either wins; and what is told later is not told to who has ended. */
MODEL(source_reader_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_stays")
{
    struct scene s;
    begin_waiting(&s, read_as_fiber);
    void *t = model_thread(arrive, &s.world);
    hd_cancel(s.task);
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_CHECK(!has_reader(&s.world));
    model_join(t);
    MODEL_CHECK(s.reading.got == 1 || s.reading.got == -ECANCELED);
    reader_fini(&s.world, s.rt);
}

/* It waits again while somebody may be about to tell it of the wait before: for the same, */
static int read_again(void *arg)
{
    struct reading *reading = arg;
    MODEL_EQUAL(read_one(reading->world), -ECANCELED);
    MODEL_EQUAL(hd_shield(), 0);
    reading->got = read_one(reading->world);
    return hd_unshield();
}

static void tell_in(void *arg)
{
    const struct world *w = arg;
    tell(w->io, HDI_READY_IN);
}

MODEL(source_reader_again, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_waiting(&s, read_again);
    void *t = model_thread(tell_in, &s.world);
    hd_cancel(s.task);
    model_join(t);
    rt_settle(s.rt); /* It waits again. */
    arrive(&s.world);
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, 1);
    reader_fini(&s.world, s.rt);
}

/* or for something else, which must not seem to have come. */
struct errand {
    struct world *world;
    hd_chan *chan;
};

static int receive_later(void *arg)
{
    struct errand *errand = arg;
    int item = -1;
    MODEL_EQUAL(read_one(errand->world), -ECANCELED);
    MODEL_EQUAL(hd_shield(), 0);
    MODEL_EQUAL(hd_chan_recv(errand->chan, &item), 0);
    MODEL_EQUAL(hd_unshield(), 0);
    return item;
}

MODEL(source_reader_elsewhere, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "reader_phase_late")
{
    struct world w;
    world_init(&w);
    hd_runtime *rt = rt_start(1);
    struct errand errand = {&w, hd_chan_create(sizeof(int), 1)};
    MODEL_CHECK(errand.chan);
    hd_task *task = rt_fiber(rt, receive_later, &errand);
    rt_settle(rt);
    void *t = model_thread(tell_in, &w);
    hd_cancel(task);
    model_join(t);
    MODEL_EQUAL(hd_chan_send(errand.chan, &(int){9}), 0);
    MODEL_EQUAL(rt_join(task), 9);
    hd_chan_destroy(errand.chan);
    reader_fini(&w, rt);
}

MODEL(source_reader_closed, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_waiting(&s, read_as_fiber);
    void *t = model_thread(tell_in, &s.world);
    close_it(&s.world);
    MODEL_EQUAL(rt_join(s.task), 0);
    model_join(t);
    MODEL_EQUAL(s.reading.got, -ECANCELED);
    reader_fini(&s.world, s.rt);
}

/* Its place is another's by the time it leaves, and that has a reader. */
MODEL(source_reader_reused, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_blind")
{
    struct world w;
    world_init(&w);
    hd_runtime *rt = rt_start(2);
    struct reading late = {&w, -1}, next = {&w, -1};
    hd_task *a = rt_fiber(rt, read_as_fiber, &late);
    rt_settle(rt);
    hd_cancel(a);
    close_it(&w);
    open_one(&w);
    hd_task *b = rt_fiber(rt, read_as_fiber, &next);
    MODEL_EQUAL(rt_join(a), 0);
    arrive(&w);
    MODEL_EQUAL(rt_join(b), 0);
    MODEL_EQUAL(late.got, -ECANCELED);
    MODEL_EQUAL(next.got, 1);
    reader_fini(&w, rt);
}

/* A second one is queued; what comes once is told to both. */
MODEL(source_reader_and_fiber, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_alone")
{
    struct world w;
    world_init(&w);
    hd_runtime *rt = rt_start(1);
    struct reading readings[2] = {{&w, -1}, {&w, -1}};
    hd_task *a = rt_fiber(rt, read_as_fiber, &readings[0]);
    hd_task *b = rt_fiber(rt, read_as_fiber, &readings[1]);
    (void)hdi_fetch_add_acq_rel(&w.bytes, 2);
    tell(w.io, HDI_READY_IN);
    MODEL_EQUAL(rt_join(a), 0);
    MODEL_EQUAL(rt_join(b), 0);
    MODEL_EQUAL(readings[0].got, 1);
    MODEL_EQUAL(readings[1].got, 1);
    reader_fini(&w, rt);
}

/* ---- one that is lent what comes (SRC-9) ---- */

/* What is lent has a number, and is worth so much. What was not lent is one of `bytes`. */
enum { LENT = 100 };

static ssize_t take_lent(const struct hdi_lent *lent, void *arg)
{
    (void)arg;
    MODEL_CHECK(!lent->lane);
    return (ssize_t)lent->what;
}

static ssize_t read_leased(struct world *w)
{
    return hdi_source_do_at(hdi_source_of(w->io), w->io, false, try_take_one, w, 0, take_lent,
                            HD_FOREVER);
}

static int lease_as_fiber(void *arg)
{
    struct reading *reading = arg;
    reading->got = read_leased(reading->world);
    return 0;
}

/* As a lane does: lent, or left to be read. Returns whether it was lent. */
static bool lend_or_tell(struct world *w, hd_io io, uint32_t what)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_source *source = hdi_source_of(io);
    bool lent = false;
    if (!source) return false;
    hdi_lock_take(&source->in.waitable.lock);
    if (hdi_source_is(source, io)) {
        lent = hdi_source_lend(source, what, &wakeups);
        if (!lent) {
            (void)hdi_fetch_add_acq_rel(&w->bytes, 1);
            hdi_side_tell(source, &source->in, false, &wakeups);
        }
    }
    hdi_lock_give(&source->in.waitable.lock);
    hdi_wakeups_go(&wakeups);
    return lent;
}

static void lend(void *arg)
{
    struct world *w = arg;
    (void)lend_or_tell(w, w->first, LENT);
}

static void begin_leased(struct scene *s, hd_fn *reads)
{
    begin_waiting(s, reads);
    s->world.first = s->world.io;
}

static uint32_t left(struct world *w)
{
    return hdi_load_acquire(&w->bytes);
}

MODEL(source_lent, .sc = 3, .tso = 2, .pso = 2, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_leased(&s, lease_as_fiber);
    MODEL_CHECK(lend_or_tell(&s.world, s.world.io, LENT));
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, LENT);
    MODEL_EQUAL(left(&s.world), 0);
    reader_fini(&s.world, s.rt);
}

/* While it is on its way to wait, or has gone on: lent or read, but once. */
MODEL(source_lent_early, .sc = 3, .tso = 2, .pso = 2, RT_STEPS,
      .kills = "source_queue_late lent_late")
{
    struct scene s;
    begin(&s, lease_as_fiber);
    const bool lent = lend_or_tell(&s.world, s.world.io, LENT);
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, lent ? LENT : 1);
    MODEL_EQUAL(left(&s.world), 0);
    reader_fini(&s.world, s.rt);
}

/* Either wins, and what a cancelled one was not lent is there for the next. */
MODEL(source_lent_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "lent_blind")
{
    struct scene s;
    begin_leased(&s, lease_as_fiber);
    void *t = model_thread(lend, &s.world);
    hd_cancel(s.task);
    MODEL_EQUAL(rt_join(s.task), 0);
    model_join(t);
    if (s.reading.got == -ECANCELED) {
        MODEL_EQUAL(left(&s.world), 1);
    } else {
        MODEL_EQUAL(s.reading.got, LENT);
        MODEL_EQUAL(left(&s.world), 0);
    }
    reader_fini(&s.world, s.rt);
}

/* A close that comes later finds it read. */
MODEL(source_lent_closed, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_leased(&s, lease_as_fiber);
    void *t = model_thread(close_it, &s.world);
    const bool lent = lend_or_tell(&s.world, s.world.first, LENT);
    MODEL_EQUAL(rt_join(s.task), 0);
    model_join(t);
    MODEL_EQUAL(s.reading.got, lent ? LENT : -ECANCELED);
    MODEL_EQUAL(left(&s.world), 0);
    reader_fini(&s.world, s.rt);
}

/* Two that come are two that are read, in their order. */
static int lease_twice(void *arg)
{
    struct reading *reading = arg;
    const ssize_t first = read_leased(reading->world);
    MODEL_EQUAL(first, LENT);
    return lease_as_fiber(arg);
}

MODEL(source_lent_twice, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "reader_kept")
{
    struct scene s;
    begin_leased(&s, lease_twice);
    MODEL_CHECK(lend_or_tell(&s.world, s.world.io, LENT));
    const bool lent = lend_or_tell(&s.world, s.world.io, LENT + 1);
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, lent ? LENT + 1 : 1);
    MODEL_EQUAL(left(&s.world), 0);
    reader_fini(&s.world, s.rt);
}

/* Closed, and open again in the same place, before who was lent something has seen it. */
MODEL(source_lent_reused, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct world w;
    world_init(&w);
    hd_runtime *rt = rt_start(2);
    struct reading late = {&w, -1}, next = {&w, -1};
    hd_task *a = rt_fiber(rt, lease_as_fiber, &late);
    rt_settle(rt);
    MODEL_CHECK(lend_or_tell(&w, w.io, LENT));
    close_it(&w);
    open_one(&w);
    hd_task *b = rt_fiber(rt, lease_as_fiber, &next);
    const bool lent = lend_or_tell(&w, w.io, LENT + 1);
    MODEL_EQUAL(rt_join(a), 0);
    MODEL_EQUAL(rt_join(b), 0);
    MODEL_EQUAL(late.got, LENT);
    MODEL_EQUAL(next.got, lent ? LENT + 1 : 1);
    reader_fini(&w, rt);
}

/* Who waits for bytes is told, */
MODEL(source_lent_unasked, .sc = 1, RT_STEPS, .kills = "lent_unasked")
{
    struct scene s;
    begin_leased(&s, read_as_fiber);
    MODEL_CHECK(!lend_or_tell(&s.world, s.world.io, LENT));
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, 1);
    reader_fini(&s.world, s.rt);
}

/* and so is who does not wait alone: all are. */
MODEL(source_lent_to_one_of_two, .sc = 1, RT_STEPS)
{
    struct world w;
    world_init(&w);
    hd_runtime *rt = rt_start(1);
    struct reading readings[2] = {{&w, -1}, {&w, -1}};
    hd_task *a = rt_fiber(rt, lease_as_fiber, &readings[0]);
    hd_task *b = rt_fiber(rt, lease_as_fiber, &readings[1]);
    rt_settle(rt);
    (void)hdi_fetch_add_acq_rel(&w.bytes, 1);
    MODEL_CHECK(!lend_or_tell(&w, w.io, LENT));
    MODEL_EQUAL(rt_join(a) + rt_join(b), 0);
    MODEL_CHECK(readings[0].got == 1 && readings[1].got == 1);
    reader_fini(&w, rt);
}

/* Nothing overtakes what is there already, or is just being taken, or may be. */
enum { BEFORE = 6 };

static void put_before(struct hdi_source *source, unsigned which, bool there)
{
    static struct hdi_block *const block = (struct hdi_block *)(uintptr_t)64;
    switch (which) {
    case 0: source->held = there; break;
    case 1: source->taken = there ? block : NULL; break;
    case 2: source->taking = there; break;
    case 3: source->failed = there ? -ECONNRESET : 0; break;
    case 4: source->in.ready = there; break;
    case 5: source->in.unsure = there; break;
    }
}

static bool lend_behind(struct world *w, unsigned which)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_source *source = source_in(w);
    hdi_lock_take(&source->in.waitable.lock);
    put_before(source, which, true);
    const bool lent = hdi_source_lend(source, LENT, &wakeups);
    put_before(source, which, false);
    hdi_lock_give(&source->in.waitable.lock);
    hdi_wakeups_go(&wakeups);
    return lent;
}

MODEL(source_lent_behind, .sc = 1, RT_STEPS, .kills = "lent_first")
{
    struct scene s;
    begin_leased(&s, lease_as_fiber);
    for (unsigned i = 0; i < BEFORE; i++) MODEL_CHECK(!lend_behind(&s.world, i));
    MODEL_CHECK(lend_or_tell(&s.world, s.world.io, LENT));
    MODEL_EQUAL(rt_join(s.task), 0);
    MODEL_EQUAL(s.reading.got, LENT);
    reader_fini(&s.world, s.rt);
}
