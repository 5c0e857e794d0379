/* SPDX-License-Identifier: MIT
 *
 * workloads: the problems of the fork-join rows, as far as they are the same on every side: sizes,
 * leaf work, inputs and the results to expect. C and C++; peers/rayon repeats them in Rust. What
 * each side adds is only how it splits the work.
 */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value that the compiler has to compute, and to have at this place. */
#define KEEP(value) __asm__ volatile("" : : "r"(value))

/* ---- fib: nothing but calls ---- */

static inline uint64_t fib_result(unsigned n)
{
    uint64_t a = 0, b = 1;
    for (; n > 0; n--) {
        const uint64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

/* How many calls fib(n) is, the outermost included. */
static inline uint64_t fib_calls(unsigned n)
{
    return 2 * fib_result(n + 1) - 1;
}

/* Plain C, not inlined. Both calls stay calls: else gcc makes a loop of the last one. It begins
 * like our jobs (HD_JOB_ALIGNED_), where it is fastest too. */
__attribute__((noinline, aligned(64), unused)) static uint64_t fib_serial(unsigned n)
{
    if (n < 2) return n;
    const uint64_t left = fib_serial(n - 1), right = fib_serial(n - 2);
    KEEP(right);
    return left + right;
}

/* ---- integrate: adaptive trapezoids, halved until the halves agree with the whole ---- */

#define INTEGRATE_TO      1000.0
#define INTEGRATE_EPSILON 1e-9

static inline double integrand(double x)
{
    return (x * x + 1.0) * x;
}

struct interval {
    double x1, y1, x2, y2, area;
};

static inline struct interval interval_make(double x1, double y1, double x2, double y2)
{
    const struct interval made = {x1, y1, x2, y2, (y1 + y2) / 2 * (x2 - x1)};
    return made;
}

static inline struct interval integrate_all(void)
{
    return interval_make(0, integrand(0), INTEGRATE_TO, integrand(INTEGRATE_TO));
}

/* Cut `whole` into its halves; false if their sum is as good as the whole, and is the result. */
static inline bool interval_cut(const struct interval *whole, struct interval *left,
                                struct interval *right)
{
    const double middle = whole->x1 + (whole->x2 - whole->x1) / 2;
    const double y = integrand(middle);
    *left = interval_make(whole->x1, whole->y1, middle, y);
    *right = interval_make(middle, y, whole->x2, whole->y2);
    return __builtin_fabs(left->area + right->area - whole->area) >= INTEGRATE_EPSILON;
}

static inline bool integrate_correct(double result)
{
    const double square = INTEGRATE_TO * INTEGRATE_TO;
    return __builtin_fabs(result / (square * square / 4 + square / 2) - 1) < 1e-9;
}

/* ---- n queens: every board with one more queen is a job ---- */

#define QUEENS_MAX 15

struct board {
    uint8_t count;          /* queens placed, one in each of the first columns */
    uint8_t at[QUEENS_MAX]; /* the row of each */
};

/* The board with a further queen in `row`; false if another one attacks it. */
static inline bool board_place(const struct board *board, unsigned row, struct board *next)
{
    const unsigned count = board->count;
    for (unsigned i = 0; i < count; i++) {
        const unsigned at = board->at[i], far = count - i;
        if (at == row || at + far == row || at == row + far) return false;
    }
    *next = *board;
    next->at[count] = (uint8_t)row;
    next->count = (uint8_t)(count + 1);
    return true;
}

static inline uint64_t queens_result(unsigned n)
{
    static const uint64_t results[QUEENS_MAX + 1] = {1,  1,  0,   0,   2,    10,    4,     40,
                                                     92, 352, 724, 2680, 14200, 73712, 365596,
                                                     2279184};
    return results[n];
}

/* ---- matrix product: quadrants down to MATRIX_LEAF ---- */

#define MATRIX_N      512
#define MATRIX_LEAF   32
#define MATRIX_STRIDE 520 /* from row to row: no power of two, which caches dislike */
#define MATRIX_ITEMS  (MATRIX_N * MATRIX_STRIDE)

/* Written in pairs, eight columns at a time, lest it depend on who compiles it how. Matrices are
 * aligned to 16 bytes. */
typedef double matrix_pair __attribute__((vector_size(16), may_alias));

/* c += a * b, for squares of MATRIX_LEAF within matrices. */
static inline void matrix_leaf(double *c, const double *a, const double *b)
{
    for (int i = 0; i < MATRIX_LEAF; i++)
        for (int j = 0; j < MATRIX_LEAF; j += 8) {
            matrix_pair *to = (matrix_pair *)(c + i * MATRIX_STRIDE + j);
            matrix_pair sum0 = to[0], sum1 = to[1], sum2 = to[2], sum3 = to[3];
            for (int k = 0; k < MATRIX_LEAF; k++) {
                const matrix_pair factor = {a[i * MATRIX_STRIDE + k], a[i * MATRIX_STRIDE + k]};
                const matrix_pair *from = (const matrix_pair *)(b + k * MATRIX_STRIDE + j);
                sum0 += factor * from[0];
                sum1 += factor * from[1];
                sum2 += factor * from[2];
                sum3 += factor * from[3];
            }
            to[0] = sum0;
            to[1] = sum1;
            to[2] = sum2;
            to[3] = sum3;
        }
}

/* Where the quadrant (row, column) of a square of `size` begins. */
static inline size_t matrix_quadrant(size_t size, int row, int column)
{
    return (size_t)row * (size / 2) * MATRIX_STRIDE + (size_t)column * (size / 2);
}

/* a[i][j] = i + j, b[i][j] = i - j: small whole numbers, so that every sum is exact. */
static inline void matrix_fill(double *a, double *b)
{
    for (int i = 0; i < MATRIX_N; i++)
        for (int j = 0; j < MATRIX_N; j++) {
            a[i * MATRIX_STRIDE + j] = i + j;
            b[i * MATRIX_STRIDE + j] = i - j;
        }
}

/* Sum over k of (i + k) * (k - j). */
static inline bool matrix_correct(const double *c)
{
    const double n = MATRIX_N, sum = n * (n - 1) / 2, squares = sum * (2 * n - 1) / 3;
    for (int i = 0; i < MATRIX_N; i++)
        for (int j = 0; j < MATRIX_N; j++)
            if (c[i * MATRIX_STRIDE + j] != squares + (i - j) * sum - n * i * j) return false;
    return true;
}

/* ---- skynet: a tree of ten children each, whose leaves return their number ---- */

#define SKYNET_LEAVES   1000000
#define SKYNET_CHILDREN 10
#define SKYNET_RESULT   (UINT64_C(499999500000))

/* ---- unbalanced tree search: a binomial tree, described by nothing but hashes ---- */

#define UTS_ROOT_CHILDREN 2000
#define UTS_CHILDREN      8
#define UTS_ROOT          UINT64_C(36)
#define UTS_NODES         UINT64_C(4175489) /* the deepest 2080 below the root */

/* Two rounds of a mixing function (splitmix64's) are the work of a node. */
static inline uint64_t uts_hash(uint64_t x)
{
    for (int i = 0; i < 2; i++) {
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return x;
}

static inline uint64_t uts_child(uint64_t node, unsigned i)
{
    return uts_hash(node + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* How many children a node has that is not the root: all or none, and almost one on average
 * (124875 of a million nodes have 8), so that the tree ends but only just. */
static inline unsigned uts_children(uint64_t node)
{
    return (node >> 32) * 1000000 >> 32 < 124875 ? UTS_CHILDREN : 0;
}

/* ---- sort ---- */

/* Fills with pseudo-random numbers; returns their sum, which sorting does not change. */
static inline uint64_t sort_fill(uint32_t *items, size_t count)
{
    uint64_t state = 1, sum = 0;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        items[i] = (uint32_t)(state >> 32);
        sum += items[i];
    }
    return sum;
}

static inline bool sort_correct(const uint32_t *items, size_t count, uint64_t sum)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && items[i - 1] > items[i]) return false;
        sum -= items[i];
    }
    return sum == 0;
}

/* Split in two around the median of three items: nothing in the left part is greater than anything
 * in the right. Returns the length of the left part; neither is empty. */
static inline size_t sort_split(uint32_t *items, size_t count)
{
    const uint32_t a = items[0], b = items[count / 2], c = items[count - 1];
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    const uint32_t pivot = c < low ? low : c > high ? high : c;
    uint32_t *left = items - 1, *right = items + count;
    for (;;) {
        do left++;
        while (*left < pivot);
        do right--;
        while (*right > pivot);
        if (left >= right) return (size_t)(right - items) + 1;
        const uint32_t item = *left;
        *left = *right;
        *right = item;
    }
}

static inline void sort_insert(uint32_t *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const uint32_t item = items[i];
        size_t j = i;
        for (; j > 0 && items[j - 1] > item; j--) items[j] = items[j - 1];
        items[j] = item;
    }
}

/* Quicksort; the input is random. */
static inline void sort_quick(uint32_t *items, size_t count)
{
    while (count > 24) {
        const size_t left = sort_split(items, count);
        sort_quick(items, left);
        items += left;
        count -= left;
    }
    sort_insert(items, count);
}

#endif
