/* SPDX-License-Identifier: MIT
 *
 * sort: the parallel part of heddle/sort.h, and the sort of items whose type is not known.
 *
 * Each step splits a part in two (or sorts it). The larger half is forked, the smaller one sorted
 * by a call; then the larger, if nobody has taken it, in the same frame. So the depth is at most
 * the logarithm of the count, and a fiber's ordinary stack suffices. A part never touches what is
 * outside it, but reads the item before it, which is at its place for good.
 */
#include <heddle/sort.h>

#include <errno.h>

#include "base/atomics.h"
#include "par/par.h"

enum {
    GRAIN = 1024,     /* items: some 20 us */
    ROOM_BYTES = 256, /* items up to this size are moved by way of the stack */
};

struct sorting {
    const hd_sort_ *sort;
    size_t grain;
    _Atomic(int) err; /* why something was left out; relaxed: a hint, and the joins publish it */
};

struct piece {
    struct sorting *all;
    hd_part_ part;
};

/* Whether the rest is to be left out. */
static bool stops(struct sorting *all)
{
    if (hdi_load_relaxed(&all->err)) return true;
    const int err = hdi_par_look();
    if (err) hdi_store_relaxed(&all->err, err);
    return err != 0;
}

static void sort_alone(const hd_sort_ *sort, hd_part_ part)
{
    hd_part_ smaller;
    while (sort->step(sort, &part, &smaller)) sort_alone(sort, smaller);
}

HD_JOB_VOID(sort_piece, struct piece, piece)
{
    struct sorting *all = piece.all;
    struct piece smaller = {all, piece.part};
    sort_piece_job larger;
    while (piece.part.count > all->grain) {
        if (stops(all) || !all->sort->step(all->sort, &piece.part, &smaller.part)) return;
        HD_FORK_INTO(&larger, sort_piece, piece);
        (void)HD_CALL(sort_piece, smaller);
        if (!hd_join_(&larger.job_, &hd_jobs_, true)) return; /* Another has sorted it. */
    }
    sort_alone(all->sort, piece.part);
}

static unsigned log2_of(size_t count)
{
    unsigned log2 = 0;
    while (count >>= 1) log2++;
    return log2;
}

int hd_sort_run_(const hd_sort_ *sort, void *items, size_t count,
                 const hd_parallel_options *options)
{
    options = hdi_par_options(options);
    if (!options) return -EINVAL;
    struct sorting all = {.sort = sort, .grain = options->grain ? options->grain : GRAIN};
    const struct piece whole = {&all, {items, count, log2_of(count), true, true}};
    (void)HD_RUN_TREE_(options, sort_piece, whole);
    return hdi_load_relaxed(&all.err); /* Everything is joined. */
}

/* ---- items of any type ---- */

static bool compare_less(const hd_sort_ *sort, const void *a, const void *b)
{
    return sort->compare(a, b) < 0;
}

#define STEP_OF_SIZE(name, item_bytes, room)                                             \
    static bool name(const hd_sort_ *sort, hd_part_ *part, hd_part_ *smaller)            \
    {                                                                                    \
        alignas(max_align_t) char held[room], pivot[room];                               \
        const hd_items_ kind = {(item_bytes), compare_less, sort, held, pivot};          \
        return hd_sort_step_(&kind, part, smaller);                                      \
    }
STEP_OF_SIZE(step_4, 4, 4)
STEP_OF_SIZE(step_8, 8, 8)
STEP_OF_SIZE(step_16, 16, 16)
STEP_OF_SIZE(step_any, sort->size, ROOM_BYTES)

static bool step_large(const hd_sort_ *sort, hd_part_ *part, hd_part_ *smaller)
{
    const hd_items_ kind = {sort->size, compare_less, sort, NULL, NULL};
    return hd_sort_step_(&kind, part, smaller);
}

int hd_parallel_sort(void *items, size_t count, size_t size,
                     int (*compare)(const void *a, const void *b),
                     const hd_parallel_options *options)
{
    if (size == 0 || (items == NULL && count > 0)) return -EINVAL;
    const hd_sort_ sort = {
        .step = size == 4            ? step_4
                : size == 8          ? step_8
                : size == 16         ? step_16
                : size <= ROOM_BYTES ? step_any
                                     : step_large,
        .size = size,
        .compare = compare,
    };
    return hd_sort_run_(&sort, items, count, options);
}
