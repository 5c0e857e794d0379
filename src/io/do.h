/* SPDX-License-Identifier: MIT
 *
 * do: a call on a source, tried until it need not wait: hdi_source_do() (io/source.h) for one that
 * was looked up, with what is tried inlined. After a system call the caches have little of ours,
 * and each frame and each call by an address is another miss.
 */
#ifndef HDI_IO_DO_H
#define HDI_IO_DO_H

#include <errno.h>

#include "base/mutant.h"
#include "io/source.h"

/* SRC-2: others are read by messages, lines or events, of which more may lie behind the first. */
static inline bool hdi_source_is_plain(const struct hdi_source *source)
{
    return source->fast || (source->kind == HDI_SOURCE_PIPE && !hdi_load_relaxed(&source->shared));
}

/* Whoever may be told of it is. */
static inline int hdi_source_stale(hd_io io)
{
    if (io.private_) hdi_stale("handle of a descriptor");
    return -EBADF;
}

/* Context: the side's lock. Whether a try could succeed. */
static inline bool hdi_side_is_worth_it(const struct hdi_source *source,
                                        const struct hdi_side *side)
{
    if (side == &source->out) return side->ready;
    return (side->ready || source->held > 0 || source->taken) && !source->taking; /* TAKE-1 */
}

/* A try for so many bytes has brought `n`. What the lane took says nothing of what came since. */
static inline void hdi_side_tried(struct hdi_source *source, struct hdi_side *side, bool from_taken,
                                  ssize_t n, size_t all)
{
    const bool less = n > 0 && (size_t)n < all && !side->unsure && hdi_source_is_plain(source);
    if (!from_taken) side->ready = n != -EAGAIN && !less; /* SRC-2, SRC-6 */
}

/* Make of what the caller was lent (SRC-9) what `try_it` would have. Returns: as that. */
typedef ssize_t hdi_lent_fn(const struct hdi_lent *lent, void *arg);

/* `source`: what hdi_source_of(io) said, maybe some time ago. `take_lent`: who waits, waits for a
 * lease; or NULL. */
HDI_ALWAYS_INLINE ssize_t hdi_source_do_at(struct hdi_source *source, hd_io io, bool out,
                                           hdi_try_fn *try_it, void *arg, size_t all,
                                           hdi_lent_fn *take_lent, int64_t deadline)
{
    const bool now = deadline == HD_NOW;
    bool waited = false;
    struct hdi_lent lent;
    int err = hdi_wait_enter_self(hdi_task_self(), deadline, HDI_COST_SYSCALL, NULL);
    if (err) return err;
    if (!source) return hdi_source_stale(io);
    struct hdi_side *side = out ? &source->out : &source->in;
    for (;;) {
        hdi_lock_take(&side->waitable.lock);
        if (!hdi_source_is(source, io)) {
            hdi_lock_give(&side->waitable.lock);
            /* It was closed after the wait, or before all. */
            return waited ? -ECANCELED : hdi_source_stale(io);
        }
        const bool from_taken = !out && source->taken;
        const bool tries = hdi_side_is_worth_it(source, side) || (now && (out || !source->taking));
        const ssize_t n = tries ? try_it(source, arg) : -EAGAIN;
        if (tries) hdi_side_tried(source, side, from_taken, n, all);
        if (n != -EAGAIN || now) {
            hdi_lock_give(&side->waitable.lock);
            return n;
        }
        if (HDI_MUTANT(source_queue_late)) {
            hdi_lock_give(&side->waitable.lock);
            hdi_lock_take(&side->waitable.lock);
        }
        if (!out) source->lends = take_lent;
        err = hdi_source_wait(source, side, io, take_lent ? &lent : NULL, deadline);
        if (take_lent && err > 0) return take_lent(&lent, arg);
        if (err) return err;
        waited = true;
    }
}

#endif
