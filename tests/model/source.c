/* SPDX-License-Identifier: MIT
 *
 * source: io/source.h between threads, with a kernel of a few words. Who waits is woken by what
 * comes and by a close, whenever they come; nobody is told of, or uses, a descriptor that is not
 * the one it means. Fibers that wait to read are in reader.c.
 */
#include "sources.h"

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
