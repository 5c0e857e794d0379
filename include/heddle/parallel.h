/* SPDX-License-Identifier: MIT
 *
 * parallel: loops, reductions, scans and calls that run on all cores.
 *
 *   HD_FOR(scale, struct image *, image, row)
 *   {
 *       for (int x = 0; x < image->width; x++) image->at[row][x] *= 2;
 *   }
 *   HD_REDUCE(sum, double, const double *, x, i, 0.0, x[i], a, b, a + b);
 *   ...
 *   int err = scale(image, 0, image->height, NULL);
 *   if (!err) err = sum(&total, x, 0, n, NULL);
 *
 * Each macro defines a function of the file it stands in, with the types it is given; bodies and
 * expressions are inlined into its loops. The calls return when all is done. They are made of jobs
 * (fork.h), and what fork.h says of jobs holds for bodies.
 *
 * Where it runs. In a fiber: there, and on whatever worker of its dispatcher has nothing to do. On
 * a thread outside the runtime of the options, or in a fiber of another one: as a task there, which
 * the caller waits for. Otherwise, and in a stackless task, or one with a budget or limited rights:
 * by the caller alone.
 *
 * Results. Those of HD_REDUCE() and HD_SCAN() are combined in a tree that depends on the range and
 * the grain and on nothing else: they are the same, to the last bit, for any number of workers, in
 * every world, and for the caller alone (level D1).
 *
 * Errors. HD_TRY_FOR() and hd_invoke() return what an ordinary loop would: the error of the
 * smallest index whose body fails. Every smaller index has run by then, and of those above only
 * some.
 *
 * Cancelling. When the task that called is cancelled, nothing more is begun, what runs is waited
 * for, and the call returns -ECANCELED if anything was left out. It is looked for before each chunk
 * of a loop, every 2048 indices of a reduction, and before each step of a sort. What runs as a task
 * of another runtime is cancelled with that runtime, not with its caller.
 */
#ifndef HEDDLE_PARALLEL_H
#define HEDDLE_PARALLEL_H

#include <heddle/fork.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every field left 0 takes its default. */
typedef struct hd_parallel_options {
    size_t size;
    hd_runtime *runtime; /* where it runs; default: the caller's; if there is none, the caller alone
                          * does it */
    size_t grain;        /* how many indices are done without looking whether somebody has nothing
                          * to do; default: chosen by the size of the range */
} hd_parallel_options;

#ifdef __cplusplus
#define HD_PARALLEL_OPTIONS_INIT                                                          \
    ([] {                                                                                 \
        hd_parallel_options o = hd_parallel_options();                                    \
        o.size = sizeof(o);                                                               \
        return o;                                                                         \
    }())
#else
#define HD_PARALLEL_OPTIONS_INIT {.size = sizeof(hd_parallel_options)}
#endif

/* Define a loop: the body follows, and is run once for each index `i` from begin to end - 1, in any
 * order, with the value `ctx` that the call was given. `return` goes on to the next.
 *
 *   int name(ctx_type ctx, size_t begin, size_t end, const hd_parallel_options *options);
 *
 * The range is cut in half, and again, only while some worker has nothing to do.
 * Context: any.  Switches: yes.  Allocates: no.
 * Cancel: some indices were left out.
 * Returns: 0, -EINVAL for options of another size, -ECANCELED, -EDQUOT. */
#define HD_FOR(name, ctx_type, ctx, i)                                                    \
    static inline void name##_body_(ctx_type, size_t);                                    \
    HD_LOOP_(name, ctx_type, (name##_body_(context_, at_), 0))                            \
    static inline void name##_body_(__attribute__((unused)) ctx_type ctx,                 \
                                    __attribute__((unused)) size_t i)

/* The same with a body that returns 0, or a negative errno, which ends the loop.
 * Context, Switches, Allocates, Cancel: as above.
 * Returns: 0; what the body returned for the smallest index that failed; as above. */
#define HD_TRY_FOR(name, ctx_type, ctx, i)                                                \
    static inline int name##_body_(ctx_type, size_t);                                     \
    HD_LOOP_(name, ctx_type, name##_body_(context_, at_))                                 \
    static inline int name##_body_(__attribute__((unused)) ctx_type ctx,                  \
                                   __attribute__((unused)) size_t i)

/* Define a reduction: `value`, an expression of `ctx` and the index `i`, is taken for each index
 * from begin to end - 1; `combined`, an expression of `a` and `b`, makes one out of two neighbours.
 *
 *   int name(result_type *out, ctx_type ctx, size_t begin, size_t end,
 *            const hd_parallel_options *options);
 *
 * It should be associative; that it is not quite, as with floating point, does no harm (see above):
 * the range is halved until parts have at most `grain` indices (default: a 1024th of them), and
 * each part is combined from left to right. `identity` is the result of an empty range.
 * Context: any.  Switches: yes.  Allocates: no.
 * Returns: 0, -EINVAL for options of another size, -ECANCELED, -EDQUOT. *out is set only by 0. */
#define HD_REDUCE(name, result_type, ctx_type, ctx, i, identity, value, a, b, combined)   \
    static inline result_type name##_value_(__attribute__((unused)) ctx_type ctx,         \
                                            __attribute__((unused)) size_t i)             \
    {                                                                                     \
        return (value);                                                                   \
    }                                                                                     \
    static inline result_type name##_pair_(result_type a, result_type b)                  \
    {                                                                                     \
        return (combined);                                                                \
    }                                                                                     \
    typedef struct name##_all_ {                                                          \
        hd_tree_ tree;                                                                    \
        ctx_type context;                                                                 \
    } name##_all_;                                                                        \
    typedef struct name##_part_ {                                                         \
        name##_all_ *all;                                                                 \
        size_t begin, end;                                                                \
    } name##_part_;                                                                       \
    static result_type name##_leaf_(name##_part_ part_)                                   \
    {                                                                                     \
        name##_all_ *const all_ = part_.all;                                              \
        ctx_type context_ = all_->context;                                                \
        size_t at_ = part_.begin;                                                         \
        if (hd_tree_stops_(&all_->tree)) return (identity);                               \
        result_type result_ = name##_value_(context_, at_++);                             \
        for (;;) {                                                                        \
            const size_t end_ = hd_piece_end_(at_, part_.end);                            \
            for (; at_ < end_; at_++) {                                                   \
                result_ = name##_pair_(result_, name##_value_(context_, at_));            \
            }                                                                             \
            if (at_ == part_.end || hd_tree_stops_(&all_->tree)) return result_;          \
        }                                                                                 \
    }                                                                                     \
    HD_JOB(name##_node_, result_type, name##_part_, part_)                                \
    {                                                                                     \
        const size_t count_ = part_.end - part_.begin;                                    \
        if (hd_tree_ends_(&part_.all->tree, count_)) return name##_leaf_(part_);          \
        name##_part_ right_ = part_;                                                      \
        part_.end = right_.begin = part_.begin + count_ / 2;                              \
        HD_FORK(forked_, name##_node_, right_);                                           \
        result_type left_ = HD_CALL(name##_node_, part_);                                 \
        result_type value_ = HD_SYNC(forked_);                                            \
        return name##_pair_(left_, value_);                                               \
    }                                                                                     \
    __attribute__((unused)) static int name(result_type *out_, ctx_type context_,         \
                                            size_t begin_, size_t end_,                   \
                                            const hd_parallel_options *options_)          \
    {                                                                                     \
        const size_t count_ = begin_ < end_ ? end_ - begin_ : 0;                          \
        name##_all_ all_ = {{0, 0}, context_};                                            \
        const name##_part_ part_ = {&all_, begin_, end_};                                 \
        const int err_ = hd_tree_init_(&all_.tree, count_, options_);                     \
        if (err_) return err_;                                                            \
        if (count_ == 0) {                                                                \
            *out_ = (identity);                                                           \
            return 0;                                                                     \
        }                                                                                 \
        result_type result_ = HD_RUN_TREE_(options_, name##_node_, part_);                \
        if (all_.tree.err == 0) *out_ = result_;                                          \
        return all_.tree.err;                                                             \
    }                                                                                     \
    struct name##_all_ /* takes the semicolon */

/* Define an inclusive scan: out[k] becomes in[0] ... in[k], combined from left to right by
 * `combined`, an expression of `a` and `b`.
 *
 *   int name(type *out, const type *in, size_t count, const hd_parallel_options *options);
 *
 * `in` may be `out`; otherwise they do not overlap. Every item is combined twice. The default of
 * `grain` is a 1024th of the items, and at least 256.
 * Context: any.  Switches: yes.  Allocates: no.
 * Cancel: what `out` holds is not defined.
 * Returns: 0, -EINVAL for options of another size, -ECANCELED, -EDQUOT. */
#define HD_SCAN(name, type, a, b, combined)                                               \
    static inline type name##_pair_(type a, type b)                                       \
    {                                                                                     \
        return (combined);                                                                \
    }                                                                                     \
    typedef struct name##_all_ {                                                          \
        hd_loop_ loop;                                                                    \
        type *out;                                                                        \
        type const *in;                                                                   \
        size_t count, block;                                                              \
    } name##_all_;                                                                        \
    static int name##_sums_(hd_loop_ *loop_, size_t at_, size_t end_, size_t *failed_)    \
    {                                                                                     \
        const name##_all_ *const all_ = (name##_all_ *)(void *)loop_;                     \
        (void)failed_;                                                                    \
        for (; at_ < end_; at_++) {                                                       \
            size_t i_ = at_ * all_->block;                                                \
            const size_t last_ = hd_block_last_(at_, all_->block, all_->count);           \
            type sum_ = all_->in[i_];                                                     \
            while (i_ < last_) sum_ = name##_pair_(sum_, all_->in[++i_]);                 \
            all_->out[last_] = sum_;                                                      \
        }                                                                                 \
        return 0;                                                                         \
    }                                                                                     \
    static int name##_fill_(hd_loop_ *loop_, size_t at_, size_t end_, size_t *failed_)    \
    {                                                                                     \
        const name##_all_ *const all_ = (name##_all_ *)(void *)loop_;                     \
        (void)failed_;                                                                    \
        for (; at_ < end_; at_++) {                                                       \
            size_t i_ = at_ * all_->block;                                                \
            const size_t last_ = hd_block_last_(at_, all_->block, all_->count);           \
            if (i_ == last_) continue;                                                    \
            type sum_ = all_->in[i_];                                                     \
            if (at_ > 0) sum_ = name##_pair_(all_->out[i_ - 1], sum_);                    \
            all_->out[i_] = sum_;                                                         \
            while (++i_ < last_) {                                                        \
                sum_ = name##_pair_(sum_, all_->in[i_]);                                  \
                all_->out[i_] = sum_;                                                     \
            }                                                                             \
        }                                                                                 \
        return 0;                                                                         \
    }                                                                                     \
    __attribute__((unused)) static int name(type *out_, type const *in_, size_t count_,   \
                                            const hd_parallel_options *options_)          \
    {                                                                                     \
        const size_t block_ = hd_scan_block_(count_, options_);                           \
        const size_t blocks_ = count_ / block_ + (count_ % block_ != 0);                  \
        name##_all_ all_ = {{name##_sums_, 0, 0}, out_, in_, count_, block_};             \
        int err_ = hd_loop_run_(&all_.loop, 0, blocks_, 1, options_);                     \
        if (err_ || count_ == 0) return err_;                                             \
        for (size_t k_ = 1; k_ < blocks_; k_++) {                                         \
            type *const sum_ = &out_[hd_block_last_(k_, block_, count_)];                 \
            *sum_ = name##_pair_(out_[k_ * block_ - 1], *sum_);                           \
        }                                                                                 \
        all_.loop.chunk = name##_fill_;                                                   \
        return hd_loop_run_(&all_.loop, 0, blocks_, 1, options_);                         \
    }                                                                                     \
    struct name##_all_ /* takes the semicolon */

/* ---- a fixed set of calls ---- */

/* One of them: a function that returns 0 or a negative errno, and its argument. */
typedef struct hd_do {
    hd_fn *fn;
    void *arg;
} hd_do;

/* Run them in parallel, and wait for them: hd_invoke(HD_DO(left, &a), HD_DO(right, &b)).
 * Context: any.  Switches: yes.  Allocates: no.
 * Cancel: some were left out.
 * Returns: 0; the first error in the order of the arguments, those after which may have been left
 * out; -ECANCELED, -EDQUOT, likewise. */
#ifdef __cplusplus
#define HD_DO(fn, arg) (hd_do{(fn), (arg)})
extern "C++" {
template <typename... T> inline int hd_invoke_these_(T... these);
}
#define hd_invoke(...) hd_invoke_these_(__VA_ARGS__)
#else
#define HD_DO(fn, arg) ((hd_do){(fn), (arg)})
#define hd_invoke(...)                                                                    \
    hd_invoke_all((const hd_do[]){__VA_ARGS__},                                           \
                  sizeof((const hd_do[]){__VA_ARGS__}) / sizeof(hd_do), NULL)
#endif

/* The same for an array of them. `grain` is 1 unless set.
 * Context, Switches, Allocates, Cancel, Returns: as above; -EINVAL for options of another size. */
HD_API HD_MUST_USE int hd_invoke_all(const hd_do *all, size_t count,
                                     const hd_parallel_options *options);

/* ---- what the macros are made of ---- */

typedef struct hd_loop_ hd_loop_;
struct hd_loop_ {
    /* Run the body for at ... end - 1. Returns what fails, and at which index. */
    int (*chunk)(hd_loop_ *loop, size_t at, size_t end, size_t *failed);
    size_t grain;
    size_t stop_; /* the smallest index known to fail */
};

/* `grain` 0: automatic, unless the options say. */
HD_API HD_MUST_USE int hd_loop_run_(hd_loop_ *loop, size_t begin, size_t end, size_t grain,
                                    const hd_parallel_options *options);

#define HD_LOOP_(name, ctx_type, call)                                                    \
    typedef struct name##_loop_ {                                                         \
        hd_loop_ loop;                                                                    \
        ctx_type context;                                                                 \
    } name##_loop_;                                                                       \
    static int name##_chunk_(hd_loop_ *base_, size_t at_, size_t end_, size_t *failed_)   \
    {                                                                                     \
        ctx_type context_ = ((name##_loop_ *)(void *)base_)->context;                     \
        for (; at_ < end_; at_++) {                                                       \
            const int err_ = (call);                                                      \
            if (err_) {                                                                   \
                *failed_ = at_;                                                           \
                return err_;                                                              \
            }                                                                             \
        }                                                                                 \
        return 0;                                                                         \
    }                                                                                     \
    __attribute__((unused)) static int name(ctx_type context_, size_t begin_,             \
                                            size_t end_,                                  \
                                            const hd_parallel_options *options_)          \
    {                                                                                     \
        name##_loop_ loop_ = {{name##_chunk_, 0, 0}, context_};                           \
        return hd_loop_run_(&loop_.loop, begin_, end_, 0, options_);                      \
    }

/* A reduction. */
typedef struct hd_tree_ {
    size_t leaf;
    int err; /* why something was left out; 0: nothing was */
} hd_tree_;

HD_API HD_MUST_USE int hd_tree_init_(hd_tree_ *tree, size_t count,
                                     const hd_parallel_options *options);

/* Whether the rest is to be left out. May switch. */
HD_API bool hd_tree_stops_(hd_tree_ *tree);

/* Whether a part of so many is not to be cut any more. */
static inline bool hd_tree_ends_(const hd_tree_ *tree, size_t count)
{
    return count <= tree->leaf || __atomic_load_n(&tree->err, __ATOMIC_RELAXED) != 0;
}

/* The runtime that these options want it in; NULL: the caller is there. */
HD_API hd_runtime *hd_parallel_elsewhere_(const hd_parallel_options *options);

#define HD_RUN_TREE_(options, node, part)                                                 \
    (__extension__({                                                                      \
        hd_runtime *const elsewhere_ = hd_parallel_elsewhere_(options);                   \
        elsewhere_ ? HD_RUN_JOB(elsewhere_, node, (part)) : node(NULL, (part));           \
    }))

/* How far to go before looking up. */
static inline size_t hd_piece_end_(size_t at, size_t end)
{
    return end - at > 2048 ? at + 2048 : end;
}

HD_API size_t hd_scan_block_(size_t count, const hd_parallel_options *options);

/* The last item of a block. */
static inline size_t hd_block_last_(size_t number, size_t block, size_t count)
{
    const size_t first = number * block;
    return count - first > block ? first + block - 1 : count - 1;
}

#ifdef __cplusplus
extern "C++" {
template <typename... T> inline int hd_invoke_these_(T... these)
{
    const hd_do all[] = {these...};
    return hd_invoke_all(all, sizeof...(these), nullptr);
}
}
}
#endif
#endif
