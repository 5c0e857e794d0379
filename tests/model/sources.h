/* SPDX-License-Identifier: MIT
 *
 * sources: a kernel of a few words, and one descriptor of it behind a handle, for the scenarios of
 * io/source.h.
 */
#ifndef SOURCES_H
#define SOURCES_H

#include <errno.h>

#include "io/do.h"
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

static inline int fake_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)source;
    MODEL_EQUAL(fd, FD);
    return 0;
}

static inline void fake_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)runtime, (void)source;
    MODEL_EQUAL(fd, FD);
}

static inline int fake_close(struct hd_runtime *runtime, int fd)
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

static inline void open_one(struct world *w)
{
    w->open = 1;
    MODEL_EQUAL(hdi_source_adopt(w->runtime, FD, HDI_SOURCE_PIPE, &w->io), 0);
}

static inline void world_init(struct world *w)
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

static inline void tell(hd_io io, unsigned ready)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_source *source = hdi_source_of(io);
    if (source) hdi_source_ready(source, io, ready, &wakeups);
    hdi_wakeups_go(&wakeups);
}

/* Something comes, and later whoever hears of it tells. */
static inline void arrive(void *arg)
{
    struct world *w = arg;
    (void)hdi_fetch_add_acq_rel(&w->bytes, 1);
    tell(w->io, HDI_READY_IN);
}

static inline void close_it(void *arg)
{
    struct world *w = arg;
    w->closed = hd_close(w->io);
}

/* Context: the handle is closed. */
static inline void world_fini(struct world *w)
{
    MODEL_EQUAL(MODEL_READ(w->open), 0);
    MODEL_CHECK(!w->runtime->sources);
    model_free(w->runtime);
}

#endif
