/* SPDX-License-Identifier: MIT
 *
 * source: io/source.h between threads, with a kernel of a few words. Who waits is woken by what
 * comes and by a close, whenever they come; nobody is told of, or uses, a descriptor that is not
 * the one it means.
 */
#include "io/source.h"

#include <errno.h>

#include <heddle/chan.h>

#include "rt.h"
#include "wait/waiter.h"

enum { FD = 7 };

/* What the kernel has of the descriptor, and its runtime, of which only the table of system calls
 * is used. */
struct world {
    struct hd_runtime *runtime;
    hd_io io, first;
    _Atomic(uint32_t) bytes; /* that came and were not read */
    int open;                /* plain: a use of the descriptor and its close are ordered */
    ssize_t got;             /* by the reader; ordered by a join */
    int closed;
};

static struct world *here; /* the one of this execution */

static int fake_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)source;
    MODEL_EQUAL(fd, FD);
    return 0;
}

static void fake_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)source;
    MODEL_EQUAL(fd, FD);
}

static int fake_close(struct hd_runtime *runtime, int fd)
{
    (void)runtime;
    MODEL_EQUAL(fd, FD);
    MODEL_EQUAL(MODEL_READ(here->open), 1);
    MODEL_WRITE(here->open, 0);
    return 0;
}

static const struct hdi_sys fake = {
    .watch = fake_watch,
    .unwatch = fake_unwatch,
    .close = fake_close,
};

static void open_one(struct world *w)
{
    w->open = 1;
    MODEL_EQUAL(hdi_source_adopt(w->runtime, FD, HDI_SOURCE_PIPE, &w->io), 0);
}

static void world_init(struct world *w)
{
    *w = (struct world){.runtime = model_alloc(sizeof(*w->runtime)), .got = -1, .closed = -1};
    w->runtime->sys = &fake;
    w->runtime->world = &hdi_world_live;
    here = w;
    MODEL_NAME(w->bytes);
    hdi_sources_forget();
    open_one(w);
    struct hdi_source *source = hdi_source_of(w->io);
    MODEL_NAME(source->in.waitable.lock);
    MODEL_NAME(source->generation);
}

/* Take what came, if anything did. */
static ssize_t try_take(struct hdi_source *source, void *arg)
{
    struct world *w = arg;
    (void)source;
    MODEL_EQUAL(MODEL_READ(w->open), 1); /* SRC-3 */
    const uint32_t n = hdi_exchange_acq_rel(&w->bytes, 0);
    return n > 0 ? (ssize_t)n : -EAGAIN;
}

static void read_some(void *arg)
{
    struct world *w = arg;
    w->got = hdi_source_do(w->io, false, try_take, w, 0, HD_FOREVER);
}

static void tell(hd_io io, unsigned ready)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_source *source = hdi_source_of(io);
    if (source) hdi_source_ready(source, io, ready, &wakeups);
    hdi_wakeups_go(&wakeups);
}

/* Something comes, and later whoever hears of it tells. */
static void arrive(void *arg)
{
    struct world *w = arg;
    (void)hdi_fetch_add_acq_rel(&w->bytes, 1);
    tell(w->io, HDI_READY_IN);
}

static void close_it(void *arg)
{
    struct world *w = arg;
    w->closed = hd_close(w->io);
}

/* Context: the handle is closed. */
static void world_fini(struct world *w)
{
    MODEL_EQUAL(MODEL_READ(w->open), 0);
    MODEL_CHECK(!w->runtime->sources);
    model_free(w->runtime);
}

/* ---- what comes is read ---- */

MODEL(source_ready, .sc = 5, .tso = 4, .pso = 4, .kills = "source_queue_late")
{
    struct world w;
    world_init(&w);
    void *t = model_thread(arrive, &w);
    read_some(&w);
    model_join(t);
    MODEL_EQUAL(w.got, 1);
    close_it(&w);
    world_fini(&w);
}

/* What comes in two parts wakes a reader at the first, and is all there in the end. */
MODEL(source_ready_twice, .sc = 2, .tso = 1, .pso = 1, .kills = "source_queue_late")
{
    struct world w;
    world_init(&w);
    void *a = model_thread(arrive, &w), *b = model_thread(arrive, &w);
    ssize_t all = 0;
    while (all < 2) {
        read_some(&w);
        MODEL_CHECK(w.got > 0);
        all += w.got;
    }
    model_join(a);
    model_join(b);
    close_it(&w);
    world_fini(&w);
}

/* ---- a close ---- */

MODEL(source_close, .sc = 5, .tso = 4, .pso = 4, .kills = "source_stale_late")
{
    struct world w;
    world_init(&w);
    void *t = model_thread(close_it, &w);
    read_some(&w);
    model_join(t);
    MODEL_CHECK(w.got == -ECANCELED || w.got == -EBADF);
    MODEL_EQUAL(w.closed, 0);
    world_fini(&w);
}

/* Against both: it was read, or the close came first. */
MODEL(source_close_ready, .sc = 2, .tso = 1, .pso = 1, .kills = "source_queue_late")
{
    struct world w;
    world_init(&w);
    void *a = model_thread(arrive, &w), *b = model_thread(close_it, &w);
    read_some(&w);
    model_join(a);
    model_join(b);
    MODEL_CHECK(w.got == 1 || w.got == -ECANCELED || w.got == -EBADF);
    world_fini(&w);
}

/* Of two, one closes it. */
static void close_too(void *arg)
{
    struct world *w = arg;
    w->got = hd_close(w->io);
}

MODEL(source_close_twice, .sc = 5, .tso = 4, .pso = 4, .kills = "source_stale_late")
{
    struct world w;
    world_init(&w);
    void *t = model_thread(close_too, &w);
    close_it(&w);
    model_join(t);
    MODEL_CHECK((w.got == 0 && w.closed == -EBADF) || (w.got == -EBADF && w.closed == 0));
    world_fini(&w);
}

/* ---- the next one in the same place ---- */

/* Whoever heard that the first has hung up is late. */
static void hang_up(void *arg)
{
    const struct world *w = arg;
    tell(w->first, HDI_READY_IN | HDI_READY_HUNG);
}

MODEL(source_stale_news, .sc = 5, .tso = 4, .pso = 4, .kills = "source_tell_stale")
{
    struct world w;
    world_init(&w);
    w.first = w.io;
    void *t = model_thread(hang_up, &w);
    close_it(&w);
    MODEL_EQUAL(w.closed, 0);
    open_one(&w);
    model_join(t);
    MODEL_CHECK(w.io.private_ != w.first.private_);
    MODEL_CHECK(!hdi_source_of(w.io)->in.unsure);
    close_it(&w);
    world_fini(&w);
}

/* ---- users that hold no lock (SRC-5) ---- */

static void use(void *arg)
{
    struct world *w = arg;
    struct hdi_source *source = hdi_source_hold(w->io);
    if (!source) return;
    MODEL_EQUAL(source->fd, FD);
    MODEL_EQUAL(MODEL_READ(w->open), 1);
    hdi_source_release(source);
}

MODEL(source_user, .sc = 5, .tso = 4, .pso = 4, .kills = "source_close_used")
{
    struct world w;
    world_init(&w);
    void *t = model_thread(use, &w);
    close_it(&w);
    model_join(t);
    MODEL_EQUAL(w.closed, 0);
    world_fini(&w);
}

/* ---- a fiber that waits to read (SRC-8) ---- */

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
