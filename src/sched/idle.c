/* SPDX-License-Identifier: MIT */
#include "sched/idle.h"

#include "base/check.h"
#include "base/mutant.h"

#define PARKED_ONE    UINT64_C(1)
#define SEARCHING_ONE (UINT64_C(1) << 32)

static uint32_t parked_in(uint64_t counts)
{
    return (uint32_t)counts;
}

static uint32_t searching_in(uint64_t counts)
{
    return (uint32_t)(counts >> 32);
}

void hdi_idle_init(struct hdi_idle *idle, unsigned workers, unsigned places)
{
    HDI_ASSERT(workers >= 1 && workers <= places && places <= HDI_WORKERS_MAX);
    hdi_store_relaxed(&idle->counts, 0); /* Nobody else knows it yet. */
    for (unsigned i = 0; i < HDI_IDLE_WORDS; i++) hdi_store_relaxed(&idle->parked_bits[i], 0);
    idle->workers = workers;
    idle->words = (places + 63) / 64;
}

/* All changes add a constant; each is one step of the protocol (N). */
static uint64_t counts_add(struct hdi_idle *idle, uint64_t delta)
{
    return hdi_fetch_add_acq_rel(&idle->counts, delta);
}

static uint64_t counts_read(struct hdi_idle *idle)
{
    if (HDI_MUTANT(idle_plain_load)) return hdi_load_acquire(&idle->counts);
    return counts_add(idle, 0);
}

/* Clear one bit that a claim entitles us to (IDLE-1). */
static unsigned clear_any_bit(struct hdi_idle *idle, unsigned from)
{
    const unsigned words = idle->words;
    for (unsigned word = (from / 64) % words;; word = (word + 1) % words) {
        /* Relaxed: a hint for the RMW below. */
        uint64_t bits = hdi_load_relaxed(&idle->parked_bits[word]);
        const uint64_t ahead = bits & (UINT64_MAX << (from % 64));
        while (bits) {
            const uint64_t pick = ahead & bits ? ahead & bits : bits;
            const unsigned bit = (unsigned)__builtin_ctzll(pick);
            const uint64_t mask = UINT64_C(1) << bit;
            if (hdi_fetch_and_acq_rel(&idle->parked_bits[word], ~mask) & mask) {
                return word * 64 + bit;
            }
            bits &= ~mask;
        }
        hdi_cpu_relax(); /* The bit is being set this moment, or just moved behind us. */
    }
}

int hdi_idle_notify(struct hdi_idle *idle, unsigned from)
{
    uint64_t counts = counts_read(idle); /* N */
    do {
        if (searching_in(counts) > 0 || parked_in(counts) == 0) return -1;
    } while (!hdi_cas_acq_rel(&idle->counts, &counts, counts + SEARCHING_ONE - PARKED_ONE)); /* N */
    return (int)clear_any_bit(idle, from);
}

bool hdi_idle_try_search(struct hdi_idle *idle)
{
    uint64_t counts = hdi_load_relaxed(&idle->counts); /* The CAS checks it. */
    do {
        if (2 * searching_in(counts) >= idle->workers) return false; /* IDLE-3 */
    } while (!hdi_cas_acq_rel(&idle->counts, &counts, counts + SEARCHING_ONE)); /* N */
    return true;
}

bool hdi_idle_try_add(struct hdi_idle *idle)
{
    uint64_t counts = counts_read(idle); /* N */
    return counts == 0 && hdi_cas_acq_rel(&idle->counts, &counts, SEARCHING_ONE); /* N */
}

void hdi_idle_add(struct hdi_idle *idle)
{
    counts_add(idle, SEARCHING_ONE); /* N */
}

bool hdi_idle_end_search(struct hdi_idle *idle)
{
    const uint64_t was = counts_add(idle, -SEARCHING_ONE); /* N */
    HDI_ASSERT(searching_in(was) > 0);
    return searching_in(was) == 1 && !HDI_MUTANT(idle_last_silent);
}

unsigned hdi_idle_park(struct hdi_idle *idle, unsigned worker, bool searching)
{
    const uint64_t mask = UINT64_C(1) << (worker % 64);
    const uint64_t was_bits = hdi_fetch_or_acq_rel(&idle->parked_bits[worker / 64], mask);
    HD_CHECK(!(was_bits & mask)); /* IDLE-1: the bit before the count. */
    const uint64_t was = counts_add(idle, PARKED_ONE - (searching ? SEARCHING_ONE : 0)); /* N */
    HD_CHECK(!searching || searching_in(was) > 0);
    return parked_in(was) + 1;
}

bool hdi_idle_unpark(struct hdi_idle *idle, unsigned worker)
{
    _Atomic(uint64_t) *bits = &idle->parked_bits[worker / 64];
    const uint64_t mask = UINT64_C(1) << (worker % 64);
    if (HDI_MUTANT(idle_blind_clear)) {
        if (!(hdi_load_acquire(bits) & mask)) return true;
        hdi_fetch_and_acq_rel(bits, ~mask);
        counts_add(idle, SEARCHING_ONE - PARKED_ONE);
        return false;
    }
    for (;;) {
        if (!(hdi_load_acquire(bits) & mask)) return true; /* IDLE-2 */
        /* Claim a worker like any notifier would, then make it ourselves. */
        uint64_t counts = hdi_load_relaxed(&idle->counts); /* The CAS checks it. */
        if (parked_in(counts) > 0) {
            if (hdi_cas_acq_rel(&idle->counts, &counts, counts + SEARCHING_ONE - PARKED_ONE)) break;
        } else {
            hdi_cpu_relax(); /* A claimer is about to clear our bit, or a newer one. */
        }
    }
    if (hdi_fetch_and_acq_rel(bits, ~mask) & mask) return false;
    /* Another cleared our bit, so our claim is for a bit that is still set: return it. */
    counts_add(idle, PARKED_ONE - SEARCHING_ONE); /* N */
    return true;
}

unsigned hdi_idle_parked(struct hdi_idle *idle)
{
    return parked_in(counts_add(idle, 0)); /* N */
}

unsigned hdi_idle_searching(struct hdi_idle *idle)
{
    return searching_in(counts_add(idle, 0)); /* N */
}
