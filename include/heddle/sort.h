/* SPDX-License-Identifier: MIT
 *
 * sort: sorting on all cores.
 *
 *   HD_SORT(sort_by_age, struct person, a, b, a->age < b->age);
 *   ...
 *   int err = sort_by_age(people, count, NULL);
 *
 * The comparison becomes part of the code that sorts these items. It should be a strict order: it
 * says whether *a comes before *b, and never that of equal ones. With any other, say of numbers of
 * which some are NaN, the items end in some sequence, but none is lost or invented, and nothing
 * else is touched.
 *
 * The sequence depends on the items, the count and the grain, never on who sorted what (level D1);
 * equal items do not keep their order. The comparisons are at most in proportion to n log n, and a
 * few for each item if they are sorted, reversed, or all equal. Nothing is allocated.
 */
#ifndef HEDDLE_SORT_H
#define HEDDLE_SORT_H

#include <heddle/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Define a function of this file that sorts items of this type:
 *
 *   int name(type *items, size_t count, const hd_parallel_options *options);
 *
 * `less` is an expression of two pointers to constant items, named `a` and `b`. Parts of at most
 * `grain` items are sorted by one worker.
 * Context: any; see parallel.h.  Switches: yes.  Allocates: no.
 * Cancel: the items are all there, in some sequence.
 * Returns: 0, -EINVAL (options of another size), -ECANCELED, -EDQUOT. */
#define HD_SORT(name, type, a, b, less)                                                   \
    static inline bool name##_less_(__attribute__((unused)) const hd_sort_ *sort_,        \
                                    const void *a_, const void *b_)                       \
    {                                                                                     \
        __attribute__((unused)) type const *const a = (type const *)a_;                   \
        __attribute__((unused)) type const *const b = (type const *)b_;                   \
        return (less);                                                                    \
    }                                                                                     \
    static bool name##_step_(const hd_sort_ *sort_, hd_part_ *part_, hd_part_ *smaller_)  \
    {                                                                                     \
        type held_;                                                                       \
        type pivot_;                                                                      \
        const hd_items_ kind_ = {sizeof(type), name##_less_, sort_, &held_, &pivot_};     \
        return hd_sort_step_(&kind_, part_, smaller_);                                    \
    }                                                                                     \
    __attribute__((unused)) static int name(type *items_, size_t count_,                  \
                                            const hd_parallel_options *options_)          \
    {                                                                                     \
        const hd_sort_ sort_ = {name##_step_, sizeof(type), NULL};                        \
        return hd_sort_run_(&sort_, items_, count_, options_);                            \
    }                                                                                     \
    struct name##_sorts_ /* takes the semicolon */

/* The same for items whose size is known only now, with qsort()'s kind of comparison: two to four
 * times slower.
 * Context, Switches, Allocates, Cancel, Returns: as above; -EINVAL also for items of no size, or
 * at NULL. */
typedef int hd_compare_fn(const void *a, const void *b);
HD_API HD_MUST_USE int hd_parallel_sort(void *items, size_t count, size_t size,
                                        hd_compare_fn *compare,
                                        const hd_parallel_options *options);

/* ---- what the macro is made of: one step of a quicksort, inlined where size and order are
 * constants. After pdqsort by Orson Peters, and BlockQuicksort by Edelkamp and Weiss. ---- */

typedef struct hd_part_ {
    char *items;
    size_t count;
    unsigned bad_left; /* how many more bad splits it may have */
    bool first;        /* nothing is before it; otherwise items[-1] is not after any of it */
    bool fresh;        /* nothing was compared yet */
} hd_part_;

typedef struct hd_sort_ hd_sort_;
struct hd_sort_ {
    /* Sort the part, and return false; or split it: *part is the larger half from then on, and
     * *smaller the other. What lies between stays where it is. */
    bool (*step)(const hd_sort_ *sort, hd_part_ *part, hd_part_ *smaller);
    size_t size;
    int (*compare)(const void *a, const void *b); /* hd_parallel_sort() */
};

HD_API HD_MUST_USE int hd_sort_run_(const hd_sort_ *sort, void *items, size_t count,
                                    const hd_parallel_options *options);

/* What is to be inlined. */
typedef struct hd_items_ {
    size_t size;
    bool (*less)(const hd_sort_ *sort, const void *a, const void *b);
    const hd_sort_ *sort;
    void *held, *pivot; /* room for an item each; NULL: there is none, they are too large */
} hd_items_;

#define HD_SORT_INLINE_ static inline __attribute__((always_inline, unused))

enum {
    HD_SORT_SMALL_ = 24,   /* below it by insertion */
    HD_SORT_MEDIUM_ = 128, /* above it the pivot is one of nine */
    HD_SORT_BLOCK_ = 64,   /* items looked at before any is moved; at most 256 */
    HD_SORT_MOVES_ = 8,    /* of a part that seems to be sorted, before it is given up */
};

HD_SORT_INLINE_ bool hd_less_(const hd_items_ *kind, const void *a, const void *b)
{
    return kind->less(kind->sort, a, b);
}

HD_SORT_INLINE_ void hd_swap_(const hd_items_ *kind, char *a, char *b)
{
    if (kind->held) {
        __builtin_memcpy(kind->held, a, kind->size);
        __builtin_memmove(a, b, kind->size); /* They may be one and the same. */
        __builtin_memcpy(b, kind->held, kind->size);
        return;
    }
    char held[64];
    for (size_t done = 0; done < kind->size && a != b; done += sizeof(held)) {
        const size_t rest = kind->size - done;
        const size_t bytes = rest < sizeof(held) ? rest : sizeof(held);
        __builtin_memcpy(held, a + done, bytes);
        __builtin_memcpy(a + done, b + done, bytes);
        __builtin_memcpy(b + done, held, bytes);
    }
}

/* Move the item at `from` down to where it belongs among those from `start` on, which are sorted.
 * Returns by how many bytes. */
HD_SORT_INLINE_ size_t hd_sort_sink_(const hd_items_ *kind, char *start, char *from)
{
    const size_t size = kind->size;
    char *to = from;
    if (!kind->held) {
        for (; to > start && hd_less_(kind, to, to - size); to -= size) {
            hd_swap_(kind, to, to - size);
        }
        return (size_t)(from - to);
    }
    if (from == start || !hd_less_(kind, from, from - size)) return 0;
    __builtin_memcpy(kind->held, from, size);
    do {
        __builtin_memcpy(to, to - size, size);
        to -= size;
    } while (to > start && hd_less_(kind, kind->held, to - size));
    __builtin_memcpy(to, kind->held, size);
    return (size_t)(from - to);
}

HD_SORT_INLINE_ void hd_sort_insert_(const hd_items_ *kind, char *items, size_t count)
{
    for (size_t i = 1; i < count; i++) (void)hd_sort_sink_(kind, items, items + i * kind->size);
}

/* The same, unless it takes many moves. Returns whether it is sorted. */
HD_SORT_INLINE_ bool hd_sort_attempt_(const hd_items_ *kind, char *items, size_t count)
{
    size_t moved = 0;
    for (size_t i = 1; i < count; i++) {
        moved += hd_sort_sink_(kind, items, items + i * kind->size);
        if (__builtin_expect(moved > HD_SORT_MOVES_ * kind->size, 0)) return false;
    }
    return true;
}

HD_SORT_INLINE_ void hd_heap_sift_(const hd_items_ *kind, char *items, size_t count, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        char *below = items + child * kind->size, *above = items + at * kind->size;
        if (child + 1 < count && hd_less_(kind, below, below + kind->size)) {
            child++;
            below += kind->size;
        }
        if (!hd_less_(kind, above, below)) return;
        hd_swap_(kind, above, below);
    }
}

/* Heapsort: slow, but never slower. */
HD_SORT_INLINE_ void hd_sort_heap_(const hd_items_ *kind, char *items, size_t count)
{
    for (size_t i = count / 2; i-- > 0;) hd_heap_sift_(kind, items, count, i);
    for (size_t left = count; --left > 0;) {
        hd_swap_(kind, items, items + left * kind->size);
        hd_heap_sift_(kind, items, left, 0);
    }
}

/* ---- the pivot ---- */

HD_SORT_INLINE_ void hd_order_(const hd_items_ *kind, char *a, char *b)
{
    if (hd_less_(kind, b, a)) hd_swap_(kind, a, b);
}

/* The middle one of three comes to stand at b. */
HD_SORT_INLINE_ void hd_median_(const hd_items_ *kind, char *a, char *b, char *c)
{
    hd_order_(kind, a, b);
    hd_order_(kind, b, c);
    hd_order_(kind, a, b);
}

/* The pivot comes to stand at the beginning. */
HD_SORT_INLINE_ void hd_sort_pivot_(const hd_items_ *kind, char *items, size_t count)
{
    const size_t size = kind->size;
    char *const middle = items + count / 2 * size, *const last = items + (count - 1) * size;
    if (count <= HD_SORT_MEDIUM_) {
        hd_median_(kind, middle, items, last);
        return;
    }
    hd_median_(kind, items, middle, last);
    hd_median_(kind, items + size, middle - size, last - size);
    hd_median_(kind, items + 2 * size, middle + size, last - 2 * size);
    hd_median_(kind, middle - size, middle, middle + size);
    hd_swap_(kind, items, middle);
}

/* ---- splitting ---- */

/* Which of so many items from `at` on are on the wrong side: without a branch that depends on it.
 * Returns how many. */
HD_SORT_INLINE_ unsigned hd_wrong_left_(const hd_items_ *kind, const char *pivot, const char *at,
                                        size_t count, unsigned char *wrong)
{
    unsigned found = 0;
    for (size_t i = 0; i < count; i++, at += kind->size) {
        wrong[found] = (unsigned char)i;
        found += !hd_less_(kind, at, pivot);
    }
    return found;
}

/* The same of those before `at`, counted from 1 downwards. */
HD_SORT_INLINE_ unsigned hd_wrong_right_(const hd_items_ *kind, const char *pivot, const char *at,
                                         size_t count, unsigned char *wrong)
{
    unsigned found = 0;
    for (size_t i = 1; i <= count; i++) {
        at -= kind->size;
        wrong[found] = (unsigned char)i;
        found += hd_less_(kind, at, pivot);
    }
    return found;
}

/* Exchange as many of the left as of the right; each but the first by one move instead of a swap,
 * in a ring. */
HD_SORT_INLINE_ void hd_exchange_(const hd_items_ *kind, char *left, const unsigned char *lefts,
                                  char *right, const unsigned char *rights, unsigned count,
                                  bool all)
{
    const size_t size = kind->size;
    if (all || !kind->held) { /* What is reversed comes out sorted. */
        for (unsigned i = 0; i < count; i++) {
            hd_swap_(kind, left + lefts[i] * size, right - rights[i] * size);
        }
    } else if (count > 0) {
        char *l = left + lefts[0] * size, *r = right - rights[0] * size;
        __builtin_memcpy(kind->held, l, size);
        __builtin_memcpy(l, r, size);
        for (unsigned i = 1; i < count; i++) {
            l = left + lefts[i] * size;
            __builtin_memcpy(r, l, size);
            r = right - rights[i] * size;
            __builtin_memcpy(l, r, size);
        }
        __builtin_memcpy(r, kind->held, size);
    }
}

/* Of first ... last - 1, bring those that are less than the pivot to the front. Returns the first
 * of the others. */
HD_SORT_INLINE_ char *hd_split_blocks_(const hd_items_ *kind, const char *pivot, char *first,
                                       char *last)
{
    const size_t size = kind->size;
    unsigned char lefts[HD_SORT_BLOCK_] = {0}, rights[HD_SORT_BLOCK_] = {0}; /* for analysers */
    unsigned left = 0, right = 0, left_from = 0, right_from = 0; /* wrong ones, and which first */
    char *left_base = first, *right_base = last;
    while (first < last) {
        const size_t unknown = (size_t)(last - first) / size;
        size_t take = left ? 0 : right ? unknown : unknown / 2;
        size_t take_right = right ? 0 : unknown - take;
        if (take >= HD_SORT_BLOCK_) {
            left = hd_wrong_left_(kind, pivot, first, HD_SORT_BLOCK_, lefts);
            first += HD_SORT_BLOCK_ * size;
        } else if (take > 0) {
            left = hd_wrong_left_(kind, pivot, first, take, lefts);
            first += take * size;
        }
        if (take_right >= HD_SORT_BLOCK_) {
            right = hd_wrong_right_(kind, pivot, last, HD_SORT_BLOCK_, rights);
            last -= HD_SORT_BLOCK_ * size;
        } else if (take_right > 0) {
            right = hd_wrong_right_(kind, pivot, last, take_right, rights);
            last -= take_right * size;
        }
        const unsigned both = left < right ? left : right;
        hd_exchange_(kind, left_base, lefts + left_from, right_base, rights + right_from, both,
                     left == right);
        left -= both;
        right -= both;
        left_from = left ? left_from + both : 0;
        right_from = right ? right_from + both : 0;
        if (!left) left_base = first;
        if (!right) right_base = last;
    }
    while (left > 0) {
        last -= size;
        hd_swap_(kind, left_base + lefts[left_from + --left] * size, last);
        first = last;
    }
    while (right > 0) {
        hd_swap_(kind, right_base - rights[right_from + --right] * size, first);
        first += size;
    }
    return first;
}

/* Split around the first item: what is less comes before it, the rest after it. Returns where it
 * comes to stand. *was: they were so already. */
HD_SORT_INLINE_ char *hd_split_(const hd_items_ *kind, char *items, size_t count, bool *was)
{
    const size_t size = kind->size;
    const char *pivot = items;
    if (kind->pivot) pivot = (const char *)__builtin_memcpy(kind->pivot, items, size);
    char *first = items + size, *last = items + count * size;
    while (first < last && hd_less_(kind, first, pivot)) first += size;
    while (first < last && !hd_less_(kind, last - size, pivot)) last -= size;
    *was = first >= last;
    first = hd_split_blocks_(kind, pivot, first, last) - size;
    hd_swap_(kind, items, first);
    return first;
}

/* Everything is at least what comes before it, and the first item is no more than that: bring all
 * that equal it to the front. Returns the first of the others. */
HD_SORT_INLINE_ char *hd_split_equal_(const hd_items_ *kind, char *items, size_t count)
{
    const size_t size = kind->size;
    char *first = items + size, *last = items + count * size;
    for (;;) {
        while (first < last && !hd_less_(kind, items, first)) first += size;
        while (first < last && hd_less_(kind, items, last - size)) last -= size;
        if (first >= last) return first;
        last -= size;
        hd_swap_(kind, first, last);
        first += size;
    }
}

/* After a bad split: move some items, so that a pattern in them does not make the next one bad. */
HD_SORT_INLINE_ void hd_scatter_(const hd_items_ *kind, const hd_part_ *part)
{
    const size_t size = kind->size, quarter = part->count / 4;
    if (part->count < HD_SORT_SMALL_) return;
    char *const last = part->items + (part->count - 1) * size;
    hd_swap_(kind, part->items, part->items + quarter * size);
    hd_swap_(kind, last, last - quarter * size);
    if (part->count <= HD_SORT_MEDIUM_) return;
    hd_swap_(kind, part->items + size, part->items + (quarter + 1) * size);
    hd_swap_(kind, part->items + 2 * size, part->items + (quarter + 2) * size);
    hd_swap_(kind, last - size, last - (quarter + 1) * size);
    hd_swap_(kind, last - 2 * size, last - (quarter + 2) * size);
}

HD_SORT_INLINE_ bool hd_sort_step_(const hd_items_ *kind, hd_part_ *part, hd_part_ *smaller)
{
    const size_t size = kind->size;
    if (part->fresh && hd_sort_attempt_(kind, part->items, part->count)) return false;
    for (part->fresh = false;;) {
        char *const items = part->items;
        const size_t count = part->count;
        if (count < HD_SORT_SMALL_) {
            hd_sort_insert_(kind, items, count);
            return false;
        }
        hd_sort_pivot_(kind, items, count);
        if (!part->first && !hd_less_(kind, items - size, items)) {
            part->items = hd_split_equal_(kind, items, count);
            part->count = count - (size_t)(part->items - items) / size;
            continue;
        }
        bool was;
        char *const pivot = hd_split_(kind, items, count, &was);
        hd_part_ left = *part, right = *part;
        left.count = (size_t)(pivot - items) / size;
        right.items = pivot + size;
        right.count = count - left.count - 1;
        right.first = false;
        if (left.count < count / 8 || right.count < count / 8) {
            if (part->bad_left == 0) {
                hd_sort_heap_(kind, items, count);
                return false;
            }
            left.bad_left = right.bad_left = part->bad_left - 1;
            hd_scatter_(kind, &left);
            hd_scatter_(kind, &right);
        } else if (was && hd_sort_attempt_(kind, left.items, left.count) &&
                   hd_sort_attempt_(kind, right.items, right.count)) {
            return false;
        }
        *part = left.count < right.count ? right : left;
        *smaller = left.count < right.count ? left : right;
        return true;
    }
}

#ifdef __cplusplus
}
#endif
#endif
