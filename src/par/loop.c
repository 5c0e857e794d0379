/* SPDX-License-Identifier: MIT
 *
 * loop: parallel loops, and what all of heddle/parallel.h has in common.
 *
 * A strand goes through its range chunk by chunk, in order. Before each chunk it looks whether some
 * worker has nothing to do; if so it forks the right half of what is left, and goes on with the
 * left one. So a range is cut in as many pieces as were asked for.
 *
 *   LOOP-1  A chunk is left out only if some smaller index has failed, or the call is cancelled,
 *           which is then the failure of the chunk's first index.
 *   LOOP-2  A strand's failure is that of its smallest index that failed: its own chunks come
 *           before what it has forked, and of that the newest is the leftmost.
 *   So the failure of the whole is that of the smallest index that failed, and none below it was
 *   left out. `stop_` is only a hint: it saves work above the failure.
 */
#include "par/par.h"

#include <errno.h>

#include "base/atomics.h"
#include "sched/runtime.h"

enum {
    PIECES_PER_WORKER = 32, /* so that a worker's last chunk is short against all it did */
    CHUNK_MAX = 2048,       /* and the look before it still costs little */
    LEAVES = 1024,
    SCAN_BLOCK_MIN = 256,
};

/* ---- options ---- */

const hd_parallel_options *hdi_par_options(const hd_parallel_options *options)
{
    static const hd_parallel_options none = HD_PARALLEL_OPTIONS_INIT;
    if (!options) return &none;
    return options->size == sizeof(*options) ? options : NULL;
}

hd_runtime *hd_parallel_elsewhere_(const hd_parallel_options *options)
{
    hd_runtime *runtime = options ? options->runtime : NULL;
    return runtime && runtime != hd_runtime_self() ? runtime : NULL;
}

unsigned hdi_par_workers(const hd_parallel_options *options)
{
    const struct hd_runtime *elsewhere = hd_parallel_elsewhere_(options);
    if (elsewhere) return elsewhere->main.worker_count;
    const struct hdi_worker *worker = hdi_worker_self();
    return worker ? worker->dispatcher->worker_count : 1;
}

int hdi_par_look(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return 0;
    const int err = hdi_attend(task, HDI_COST_CALL, false, NULL);
    if (err == -EDQUOT) return err;
    return hd_cancelled() ? -ECANCELED : 0;
}

static size_t divide_up(size_t count, size_t by)
{
    return count / by + (count % by != 0);
}

/* ---- loops ---- */

struct range {
    hd_loop_ *loop;
    size_t begin, end;
};

static _Atomic(size_t) *stop_of(hd_loop_ *loop)
{
    return (_Atomic(size_t) *)&loop->stop_;
}

/* Relaxed: a hint. */
static void stop_at(hd_loop_ *loop, size_t index)
{
    size_t now = hdi_load_relaxed(stop_of(loop));
    while (index < now && !hdi_cas_relaxed(stop_of(loop), &now, index)) continue;
}

static int run_chunk(hd_loop_ *loop, size_t begin, size_t end)
{
    size_t failed = begin;
    int err = hdi_par_look();
    if (!err) err = loop->chunk(loop, begin, end, &failed);
    if (err) stop_at(loop, failed);
    return err;
}

HD_JOB_DECLARE(run_range, int, struct range);

static int run_halves(hd_job *hd_jobs_, struct range left)
{
    struct range right = left;
    left.end = right.begin = left.begin + (left.end - left.begin) / 2;
    HD_FORK(forked, run_range, right);
    const int err = HD_CALL(run_range, left);
    const int right_err = HD_SYNC(forked);
    return err ? err : right_err; /* LOOP-2 */
}

HD_JOB_BODY(run_range, int, struct range, range)
{
    hd_loop_ *loop = range.loop;
    while (range.begin < range.end) {
        const size_t left = range.end - range.begin;
        const size_t step = left < loop->grain ? left : loop->grain;
        if (range.begin > hdi_load_relaxed(stop_of(loop))) return 0; /* LOOP-1 */
        if (left > step && hd_is_work_wanted_()) return run_halves(hd_jobs_, range);
        const int err = run_chunk(loop, range.begin, range.begin + step);
        if (err) return err;
        range.begin += step;
    }
    return 0;
}

static size_t automatic_grain(size_t count, const hd_parallel_options *options)
{
    if (count < PIECES_PER_WORKER) return 1;
    const size_t chunk = count / (PIECES_PER_WORKER * hdi_par_workers(options));
    return chunk < 1 ? 1 : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

int hd_loop_run_(hd_loop_ *loop, size_t begin, size_t end, size_t grain,
                 const hd_parallel_options *options)
{
    options = hdi_par_options(options);
    if (!options) return -EINVAL;
    if (begin >= end) return 0;
    if (grain == 0) grain = options->grain;
    loop->grain = grain ? grain : automatic_grain(end - begin, options);
    hdi_store_relaxed(stop_of(loop), SIZE_MAX); /* Nobody else knows it yet. */
    const bool alone = end - begin <= loop->grain && !hd_parallel_elsewhere_(options);
    if (alone) return run_chunk(loop, begin, end);
    const struct range range = {loop, begin, end};
    return HD_RUN_TREE_(options, run_range, range);
}

/* ---- calls ---- */

struct calls {
    hd_loop_ loop;
    const hd_do *all;
};

static int run_calls(hd_loop_ *loop, size_t at, size_t end, size_t *failed)
{
    const hd_do *all = ((struct calls *)loop)->all;
    for (; at < end; at++) {
        const int err = all[at].fn(all[at].arg);
        if (err) {
            *failed = at;
            return err;
        }
    }
    return 0;
}

int hd_invoke_all(const hd_do *all, size_t count, const hd_parallel_options *options)
{
    struct calls calls = {{.chunk = run_calls}, all};
    options = hdi_par_options(options);
    if (!options) return -EINVAL;
    return hd_loop_run_(&calls.loop, 0, count, options->grain ? options->grain : 1, options);
}

/* ---- reductions ---- */

int hd_tree_init_(hd_tree_ *tree, size_t count, const hd_parallel_options *options)
{
    options = hdi_par_options(options);
    if (!options) return -EINVAL;
    tree->leaf = options->grain ? options->grain : divide_up(count, LEAVES);
    tree->err = 0;
    return 0;
}

bool hd_tree_stops_(hd_tree_ *tree)
{
    _Atomic(int) *err = (_Atomic(int) *)&tree->err;
    if (hdi_load_relaxed(err)) return true; /* A hint; the joins publish it. */
    const int now = hdi_par_look();
    if (now) hdi_store_relaxed(err, now);
    return now != 0;
}

/* ---- scans ---- */

size_t hd_scan_block_(size_t count, const hd_parallel_options *options)
{
    options = hdi_par_options(options);
    if (options && options->grain) return options->grain;
    const size_t block = divide_up(count, LEAVES);
    return block < SCAN_BLOCK_MIN ? SCAN_BLOCK_MIN : block;
}
