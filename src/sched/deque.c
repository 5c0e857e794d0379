/* SPDX-License-Identifier: MIT */
#include "sched/deque.h"

#include <stddef.h>

#include "base/check.h"
#include "base/mutant.h"

_Static_assert((HDI_DEQUE_CAP & (HDI_DEQUE_CAP - 1)) == 0, "slots are found by masking");

static _Atomic(void *) *slot(struct hdi_deque *deque, int64_t index)
{
    return &deque->slots[index & (HDI_DEQUE_CAP - 1)];
}

void hdi_deque_init(struct hdi_deque *deque)
{
    hdi_store_relaxed(&deque->top, 0); /* Nobody else knows it yet. */
    hdi_store_relaxed(&deque->bottom, 0);
}

bool hdi_deque_push(struct hdi_deque *deque, void *item)
{
    const int64_t b = hdi_load_relaxed(&deque->bottom); /* Only we write it. */
    const int64_t t = hdi_load_acquire(&deque->top);    /* C: slots before top are free. */
    HDI_ASSERT(b - t <= HDI_DEQUE_CAP);                 /* DEQUE-1 */
    if (b - t >= HDI_DEQUE_CAP) return false;
    hdi_store_relaxed(slot(deque, b), item);
    hdi_store_release(&deque->bottom, b + 1); /* P */
    return true;
}

void *hdi_deque_pop(struct hdi_deque *deque)
{
    const int64_t b = hdi_load_relaxed(&deque->bottom) - 1; /* Only we write it. */
    int64_t t;
    if (HDI_MUTANT(deque_no_seq_cst)) {
        hdi_store_release(&deque->bottom, b);
        t = hdi_load_acquire(&deque->top);
    } else {
        hdi_store_seq_cst(&deque->bottom, b); /* D: claim b, then */
        t = hdi_load_seq_cst(&deque->top);    /* D: look for thieves. */
    }
    HDI_ASSERT(t <= b + 1 || HDI_MUTANT(deque_no_seq_cst) || HDI_MUTANT(deque_steal_half));
    void *item = (t <= b) ? hdi_load_relaxed(slot(deque, b)) : NULL;
    /* A thief that sees top == b read it after our look, so it sees our claim too. */
    if (t < b) return item;
    if (t == b && !hdi_cas_seq_cst(&deque->top, &t, t + 1)) item = NULL; /* D */
    hdi_store_release(&deque->bottom, b + 1);                           /* P */
    return item;
}

void *hdi_deque_steal(struct hdi_deque *deque)
{
    int64_t t = hdi_load_seq_cst(&deque->top);          /* D */
    const int64_t b = hdi_load_seq_cst(&deque->bottom); /* D, P */
    if (t >= b) return NULL;
    void *item = hdi_load_relaxed(slot(deque, t));
    return hdi_cas_seq_cst(&deque->top, &t, t + 1) ? item : NULL; /* D, C */
}

#if HDI_MODEL
void *hdi_deque_steal_half(struct hdi_deque *deque, struct hdi_deque *own)
{
    int64_t t = hdi_load_seq_cst(&deque->top);
    const int64_t b = hdi_load_seq_cst(&deque->bottom);
    if (t >= b) return NULL;
    const int64_t n = (b - t + 1) / 2;
    void *items[HDI_DEQUE_CAP];
    for (int64_t i = 0; i < n; i++) items[i] = hdi_load_relaxed(slot(deque, t + i));
    if (!hdi_cas_seq_cst(&deque->top, &t, t + n)) return NULL;
    for (int64_t i = 1; i < n; i++) (void)hdi_deque_push(own, items[i]);
    return items[0];
}
#endif

unsigned hdi_deque_count(struct hdi_deque *deque)
{
    const int64_t t = hdi_load_acquire(&deque->top);
    const int64_t b = hdi_load_acquire(&deque->bottom); /* P */
    return b > t ? (unsigned)(b - t) : 0;
}
