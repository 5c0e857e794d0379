/* SPDX-License-Identifier: MIT */
#include "wait/wheel.h"

static int64_t ns_of(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

static struct hdi_wheel_node *node_of(const struct hdi_list *link)
{
    return hdi_container_of(link, struct hdi_wheel_node, link);
}

void hdi_wheel_init(struct hdi_wheel *wheel, int64_t now_ns)
{
    wheel->now = hdi_wheel_key_(now_ns);
    wheel->late = UINT64_MAX;
    wheel->levels = 0;
    wheel->count = 0;
    for (unsigned i = 0; i < HDI_WHEEL_LEVELS; i++) wheel->occupied[i] = 0;
    for (unsigned i = 0; i < HDI_WHEEL_LEVELS * HDI_WHEEL_SLOTS; i++) {
        hdi_list_init(&wheel->slots[i]);
    }
}

void hdi_wheel_rewind(struct hdi_wheel *wheel)
{
    HDI_ASSERT(wheel->count == 0);
    wheel->now = hdi_wheel_key_(0);
    wheel->late = UINT64_MAX;
}

/* The earliest occupied slot of a wheel that is not empty; *start is the first key that
 * belongs there. */
static unsigned earliest(const struct hdi_wheel *wheel, uint64_t *start)
{
    const unsigned level = (unsigned)__builtin_ctzll(wheel->levels);
    const unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[level]);
    const unsigned shift = level * HDI_WHEEL_BITS;
    /* The digits above are those of time. */
    *start = ((wheel->now >> shift & ~(uint64_t)(HDI_WHEEL_SLOTS - 1)) | slot) << shift;
    HDI_ASSERT(*start >= wheel->now); /* WHEEL-1 */
    return level * HDI_WHEEL_SLOTS + slot;
}

/* The least key of a slot, or `otherwise` if there are too many to look at. */
static uint64_t least(const struct hdi_list *slot, uint64_t otherwise)
{
    uint64_t first = UINT64_MAX;
    unsigned seen = 0;
    for (const struct hdi_list *link = slot->next; link != slot; link = link->next) {
        if (seen++ == HDI_WHEEL_EXACT) return otherwise;
        const uint64_t key = hdi_wheel_key_(node_of(link)->deadline_ns);
        if (key < first) first = key;
    }
    return first;
}

/* Nothing is before `key`, so there are no late nodes either. */
static void advance(struct hdi_wheel *wheel, uint64_t key)
{
    HDI_ASSERT(key >= wheel->now); /* WHEEL-1 */
    if (key > wheel->now) wheel->late = UINT64_MAX;
    wheel->now = key;
}

/* Time enters the slot, up to its first deadline but not beyond `until`, and its nodes go
 * to levels below, which are empty. */
static void cascade(struct hdi_wheel *wheel, unsigned place, uint64_t start, uint64_t until)
{
    struct hdi_list *slot = &wheel->slots[place];
    const uint64_t first = least(slot, start);
    advance(wheel, first < until ? first : until);
    struct hdi_list *next;
    for (struct hdi_list *link = slot->next; link != slot; link = next) {
        struct hdi_wheel_node *node = node_of(link);
        next = link->next;
        hdi_wheel_put_(wheel, node, hdi_wheel_key_(node->deadline_ns));
        HDI_ASSERT(node->place / HDI_WHEEL_SLOTS < place / HDI_WHEEL_SLOTS); /* WHEEL-5 */
    }
    hdi_list_init(slot);
    hdi_wheel_vacate_(wheel, place);
}

struct hdi_wheel_node *hdi_wheel_take(struct hdi_wheel *wheel, int64_t now_ns)
{
    const uint64_t key = hdi_wheel_key_(now_ns);
    const uint64_t until = key > wheel->now ? key : wheel->now;
    while (wheel->levels != 0) {
        uint64_t start;
        const unsigned place = earliest(wheel, &start);
        if (start > until) break;
        const struct hdi_list *slot = &wheel->slots[place];
        struct hdi_wheel_node *node = node_of(slot->next);
        /* On level 0 all are equal; elsewhere one that is alone need not cascade. */
        const bool lowest = place < HDI_WHEEL_SLOTS, alone = slot->next == slot->prev;
        const uint64_t when = lowest ? start : hdi_wheel_key_(node->deadline_ns);
        if ((lowest || alone) && when <= until) {
            HDI_ASSERT(hdi_wheel_key_(node->deadline_ns) <= until); /* WHEEL-6 */
            advance(wheel, when);
            hdi_wheel_remove(wheel, node);
            return node;
        }
        cascade(wheel, place, start, until);
    }
    advance(wheel, until);
    return NULL;
}

int64_t hdi_wheel_next(const struct hdi_wheel *wheel)
{
    if (wheel->levels == 0) return INT64_MAX;
    uint64_t start;
    const unsigned place = earliest(wheel, &start);
    const uint64_t bound = start == wheel->now && wheel->late < start ? wheel->late : start;
    if (place < HDI_WHEEL_SLOTS && bound == start) return ns_of(start); /* all are equal */
    return ns_of(least(&wheel->slots[place], bound));
}
