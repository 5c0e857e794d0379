/* SPDX-License-Identifier: MIT
 *
 * atomics: the one door to shared memory, with the order in the operation's name.
 *
 * In a normal build each macro is one C11 atomic operation. In a model build
 * (HDI_MODEL) each is a call into the explorer (sim/model.c), which decides who
 * runs next and what a load may see.
 *
 * There are no fences here on purpose: ThreadSanitizer cannot see them. The one
 * asymmetric barrier is os/membarrier.h.
 */
#ifndef HDI_BASE_ATOMICS_H
#define HDI_BASE_ATOMICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef HDI_MODEL
#error "HDI_MODEL must be defined to 0 or 1"
#endif

#define HDI_CACHE_LINE 64

#if HDI_MODEL
#include "base/model_hooks.h"

#define hdi_value_type_(p) __typeof__(atomic_load_explicit((p), memory_order_relaxed))
#define hdi_load_(p, order)                                                              \
    (__extension__({                                                                     \
        const uint64_t raw_ = hdi_model_load((p), sizeof(*(p)), (order));                \
        hdi_value_type_(p) val_;                                                         \
        __builtin_memcpy(&val_, &raw_, sizeof(val_));                                    \
        val_;                                                                            \
    }))
#define hdi_raw_(p, v)                                                                   \
    (__extension__({                                                                     \
        const hdi_value_type_(p) in_ = (v);                                              \
        uint64_t raw_in_ = 0;                                                            \
        __builtin_memcpy(&raw_in_, &in_, sizeof(in_));                                   \
        raw_in_;                                                                         \
    }))
#define hdi_store_(p, v, order) hdi_model_store((p), sizeof(*(p)), hdi_raw_(p, v), (order))
#define hdi_rmw_(p, op, v, order)                                                        \
    (__extension__({                                                                     \
        const uint64_t old_ = hdi_model_rmw((p), sizeof(*(p)), (op), hdi_raw_(p, v), (order)); \
        hdi_value_type_(p) out_;                                                         \
        __builtin_memcpy(&out_, &old_, sizeof(out_));                                    \
        out_;                                                                            \
    }))
#define hdi_exchange_(p, v, order)  hdi_rmw_(p, HDI_RMW_XCHG, v, order)
#define hdi_fetch_add_(p, v, order) hdi_rmw_(p, HDI_RMW_ADD, v, order)
#define hdi_fetch_sub_(p, v, order) hdi_rmw_(p, HDI_RMW_SUB, v, order)
#define hdi_fetch_or_(p, v, order)  hdi_rmw_(p, HDI_RMW_OR, v, order)
#define hdi_fetch_and_(p, v, order) hdi_rmw_(p, HDI_RMW_AND, v, order)
#define hdi_cas_(p, expected, desired, order)                                            \
    (__extension__({                                                                     \
        hdi_value_type_(p) *const exp_ = (expected);                                     \
        uint64_t exp_raw_ = 0;                                                           \
        __builtin_memcpy(&exp_raw_, exp_, sizeof(*exp_));                                \
        const bool done_ =                                                               \
            hdi_model_cas((p), sizeof(*(p)), &exp_raw_, hdi_raw_(p, desired), (order));  \
        __builtin_memcpy(exp_, &exp_raw_, sizeof(*exp_));                                \
        done_;                                                                           \
    }))
#else
#define hdi_load_(p, order)         atomic_load_explicit((p), (order))
#define hdi_store_(p, v, order)     atomic_store_explicit((p), (v), (order))
#define hdi_exchange_(p, v, order)  atomic_exchange_explicit((p), (v), (order))
#define hdi_fetch_add_(p, v, order) atomic_fetch_add_explicit((p), (v), (order))
#define hdi_fetch_sub_(p, v, order) atomic_fetch_sub_explicit((p), (v), (order))
#define hdi_fetch_or_(p, v, order)  atomic_fetch_or_explicit((p), (v), (order))
#define hdi_fetch_and_(p, v, order) atomic_fetch_and_explicit((p), (v), (order))
#define hdi_cas_(p, expected, desired, order)                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), (order),         \
                                            hdi_cas_failure_(order))
#define hdi_cas_failure_(order)                                                          \
    ((order) == memory_order_seq_cst   ? memory_order_seq_cst                            \
     : (order) == memory_order_relaxed ? memory_order_relaxed                            \
     : (order) == memory_order_release ? memory_order_relaxed                            \
                                       : memory_order_acquire)
#endif

#define hdi_load_relaxed(p)     hdi_load_(p, memory_order_relaxed)
#define hdi_load_acquire(p)     hdi_load_(p, memory_order_acquire)
#define hdi_load_seq_cst(p)     hdi_load_(p, memory_order_seq_cst)
#define hdi_store_relaxed(p, v) hdi_store_(p, v, memory_order_relaxed)
#define hdi_store_release(p, v) hdi_store_(p, v, memory_order_release)
#define hdi_store_seq_cst(p, v) hdi_store_(p, v, memory_order_seq_cst)

#define hdi_exchange_acq_rel(p, v)   hdi_exchange_(p, v, memory_order_acq_rel)
#define hdi_exchange_acquire(p, v)   hdi_exchange_(p, v, memory_order_acquire)
#define hdi_exchange_release(p, v)   hdi_exchange_(p, v, memory_order_release)
#define hdi_exchange_seq_cst(p, v)   hdi_exchange_(p, v, memory_order_seq_cst)
#define hdi_fetch_add_relaxed(p, v)  hdi_fetch_add_(p, v, memory_order_relaxed)
#define hdi_fetch_add_acq_rel(p, v)  hdi_fetch_add_(p, v, memory_order_acq_rel)
#define hdi_fetch_add_seq_cst(p, v)  hdi_fetch_add_(p, v, memory_order_seq_cst)
#define hdi_fetch_sub_relaxed(p, v)  hdi_fetch_sub_(p, v, memory_order_relaxed)
#define hdi_fetch_sub_acq_rel(p, v)  hdi_fetch_sub_(p, v, memory_order_acq_rel)
#define hdi_fetch_or_acq_rel(p, v)   hdi_fetch_or_(p, v, memory_order_acq_rel)
#define hdi_fetch_and_acq_rel(p, v)  hdi_fetch_and_(p, v, memory_order_acq_rel)

/* Compare and exchange, strong: `expected` is a pointer and receives what was there
 * on failure. */
#define hdi_cas_relaxed(p, expected, v) hdi_cas_(p, expected, v, memory_order_relaxed)
#define hdi_cas_acquire(p, expected, v) hdi_cas_(p, expected, v, memory_order_acquire)
#define hdi_cas_release(p, expected, v) hdi_cas_(p, expected, v, memory_order_release)
#define hdi_cas_acq_rel(p, expected, v) hdi_cas_(p, expected, v, memory_order_acq_rel)
#define hdi_cas_seq_cst(p, expected, v) hdi_cas_(p, expected, v, memory_order_seq_cst)

/* The first value of what is on a stack, and known to nobody yet. No step to the explorer: a store
 * that it held back could arrive when that memory has another use, by plain stores, which it does
 * not see. */
#define hdi_init(p, v) atomic_init((p), (v))

/* For statistics: relaxed, one writer, and nobody decides anything by what is read. So
 * they are no steps to the explorer. */
#define hdi_load_stat(p)     atomic_load_explicit((p), memory_order_relaxed)
#define hdi_store_stat(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)

/* Next to a plain access to what threads hand to each other: the explorer checks that the
 * hand-over is ordered, and that the memory is still there. */
#if HDI_MODEL
#define hdi_plain_read(p)  hdi_model_plain((p), false, __FILE__, __LINE__)
#define hdi_plain_write(p) hdi_model_plain((p), true, __FILE__, __LINE__)
#else
#define hdi_plain_read(p)  ((void)0)
#define hdi_plain_write(p) ((void)0)
#endif

/* In a loop that waits for another thread. */
static inline void hdi_cpu_relax(void)
{
#if HDI_MODEL
    hdi_model_pause();
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
