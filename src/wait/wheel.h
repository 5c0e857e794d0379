/* SPDX-License-Identifier: MIT
 *
 * wheel: timers by deadline, exact to the nanosecond, inserted and removed in O(1).
 *
 * Owner      whoever holds the lock around it; no atomics, no allocation.
 * Ownership  a node is the wheel's from insert until remove or take returns it.
 *
 * A time is read as 11 digits of 6 bits. A node stands on the level of the highest digit
 * in which its deadline differs from the wheel's time, in the slot that this digit of the
 * deadline names. Slots are absolute and never wrap, so the lowest bit of the lowest
 * occupied level is always the earliest slot. On level 0 a slot is one deadline; on the
 * others its nodes cascade to levels below when time enters it.
 *
 *            <------ equal to time ------>  differs    anything
 *   deadline [digit 10] ... [digit level+1] [digit level] [digit level-1] ... [digit 0]
 *
 * Inside, times are keys: the int64_t with its sign bit flipped, so that unsigned order,
 * and the order of the top digit too, is the order of time.
 *
 * A node is late if its deadline was before the wheel's time when it was inserted. It
 * stands in the slot of that time, and time does not move on before it is taken.
 *
 *   WHEEL-1  time never decreases, and no occupied slot starts before it.
 *   WHEEL-2  where a node stands is a function of its deadline and time alone: it does
 *            not depend on when it came. So equal deadlines are always in one slot.
 *   WHEEL-3  a slot's bit is set exactly if the slot is occupied, a level's bit exactly
 *            if one of its slots is.
 *   WHEEL-4  nodes of equal deadline stand in the order of insertion: both insert and
 *            cascade append, and a cascade finds all lower levels empty.
 *   WHEEL-5  every cascade moves a node to a lower level: at most 10 in its life.
 *   WHEEL-6  a node leaves by take only when time has come to its deadline.
 *   WHEEL-7  no late node's deadline is before `late`.
 *
 * Rejected
 *   Slots relative to the current time: of 450 sleeps 365 never fired, 34 fired early.
 *   A binary heap: log n steps, each a cache miss once there are a million timers, and
 *   most timers are cancelled long before they could fire.
 *   A coarse lowest level: timers are early or late by its width, and a sleeper in
 *   virtual time sees it.
 *   Looking at all nodes of a crowded slot for the earliest: a million nodes would be
 *   walked under the lock for one answer. Beyond HDI_WHEEL_EXACT the slot's start will do.
 */
#ifndef HDI_WAIT_WHEEL_H
#define HDI_WAIT_WHEEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"

#define HDI_WHEEL_BITS   6u
#define HDI_WHEEL_SLOTS  (1u << HDI_WHEEL_BITS)
#define HDI_WHEEL_LEVELS 11u /* of 6 bits: the top one has 4 of the 64 left */
#define HDI_WHEEL_EXACT  16u

_Static_assert(HDI_WHEEL_BITS * HDI_WHEEL_LEVELS >= 64, "every key has a level");
_Static_assert(HDI_WHEEL_BITS == 6, "a level's slots are the bits of one word");

/* In one slot or in none; in none it needs no particular value. */
struct hdi_wheel_node {
    struct hdi_list link;
    int64_t deadline_ns; /* constant while inside */
    uint16_t place;      /* level * HDI_WHEEL_SLOTS + slot, while inside */
};

/* 11 KiB. */
struct hdi_wheel {
    struct hdi_list slots[HDI_WHEEL_LEVELS * HDI_WHEEL_SLOTS]; /* first: no offset to add */
    uint64_t now;                        /* its time, a key; WHEEL-1 */
    uint64_t late;                       /* WHEEL-7; UINT64_MAX if time moved since */
    uint64_t levels;                     /* a bit per level; WHEEL-3 */
    size_t count;
    uint64_t occupied[HDI_WHEEL_LEVELS]; /* a bit per slot; WHEEL-3 */
};

void hdi_wheel_init(struct hdi_wheel *wheel, int64_t now_ns);

/* Back to time 0. Context: it is empty. */
void hdi_wheel_rewind(struct hdi_wheel *wheel);

/* Take one node that is due at now_ns, or at the wheel's time if that is later: nodes
 * come in order of deadline, and equal ones in order of insertion. A late node counts as
 * of the wheel's time. Time moves to the deadline of what was taken, or to now_ns if
 * nothing was.
 * Inserting and removing between takes is fine; a caller that inserts what is due at once
 * bounds its loop itself.
 * Cost: O(levels) per node that ever was inside, amortised; a crowded slot is cascaded in
 * one go.
 * Returns: the node, now the caller's; NULL if nothing is due. */
struct hdi_wheel_node *hdi_wheel_take(struct hdi_wheel *wheel, int64_t now_ns);

/* Until when nothing can be due: exact if the earliest occupied slot holds at most
 * HDI_WHEEL_EXACT nodes, otherwise no later than the earliest deadline, and after a take
 * at that time a better one. Cost: O(1).
 * Returns: INT64_MAX if empty. */
int64_t hdi_wheel_next(const struct hdi_wheel *wheel);

static inline size_t hdi_wheel_count(const struct hdi_wheel *wheel)
{
    return wheel->count;
}

/* ---- on the way of every wait with a timeout, most of which never fires ---- */

static inline uint64_t hdi_wheel_key_(int64_t ns)
{
    return (uint64_t)ns ^ UINT64_C(1) << 63;
}

/* WHEEL-2, for a key that is not before now. */
static inline unsigned hdi_wheel_level_(uint64_t key, uint64_t now)
{
    const uint64_t differs = (key ^ now) | (HDI_WHEEL_SLOTS - 1); /* at least on level 0 */
    const unsigned bit = 63u ^ (unsigned)__builtin_clzll(differs);
    return bit * 43 >> 8; /* bit / HDI_WHEEL_BITS, for bits up to 63 */
}

static inline void hdi_wheel_put_(struct hdi_wheel *wheel, struct hdi_wheel_node *node,
                                  uint64_t key)
{
    HDI_ASSERT(key >= wheel->now); /* WHEEL-1 */
    const unsigned level = hdi_wheel_level_(key, wheel->now);
    const unsigned slot = (unsigned)(key >> (level * HDI_WHEEL_BITS)) % HDI_WHEEL_SLOTS;
    const unsigned place = level * HDI_WHEEL_SLOTS + slot;
    node->place = (uint16_t)place;
    /* WHEEL-4: at the end. Not by hdi_list_push_back(), whose neighbouring stores gcc
     * joins in a vector register: four instructions instead of two. */
    struct hdi_list *head = &wheel->slots[place], *last = head->prev;
    HDI_ASSERT(last->next == head); /* LIST-1 */
    node->link.next = head;
    last->next = &node->link;
    node->link.prev = last;
    head->prev = &node->link;
    wheel->occupied[level] |= UINT64_C(1) << slot;
    wheel->levels |= UINT64_C(1) << level;
}

/* The slot has become empty. */
static inline void hdi_wheel_vacate_(struct hdi_wheel *wheel, unsigned place)
{
    const unsigned level = place / HDI_WHEEL_SLOTS;
    const uint64_t bit = UINT64_C(1) << place % HDI_WHEEL_SLOTS;
    HDI_ASSERT(wheel->occupied[level] & bit && wheel->levels >> level & 1); /* WHEEL-3 */
    wheel->occupied[level] &= ~bit;
    if (wheel->occupied[level] == 0) wheel->levels ^= UINT64_C(1) << level;
}

/* Any deadline will do; one at or before the wheel's time is due at the next take. */
static inline void hdi_wheel_insert(struct hdi_wheel *wheel, struct hdi_wheel_node *node,
                                    int64_t deadline_ns)
{
    uint64_t key = hdi_wheel_key_(deadline_ns);
    node->deadline_ns = deadline_ns;
    if (hdi_unlikely(key < wheel->now)) {
        if (key < wheel->late) wheel->late = key; /* WHEEL-7 */
        key = wheel->now;
    }
    hdi_wheel_put_(wheel, node, key);
    wheel->count++;
}

/* The node is inside. */
static inline void hdi_wheel_remove(struct hdi_wheel *wheel, struct hdi_wheel_node *node)
{
    struct hdi_list *next = node->link.next, *prev = node->link.prev;
    HDI_ASSERT(next->prev == &node->link && prev->next == &node->link); /* LIST-1 */
    next->prev = prev;
    prev->next = next;
    if (next == prev) hdi_wheel_vacate_(wheel, node->place); /* both are the slot's head */
    wheel->count--;
}

#endif
