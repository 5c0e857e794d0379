/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/heap.h"
#include "base/prng.h"
#include "base/sanitizer.h"
#include "death.h"
#include "wait/wheel.h"

TEST_MAIN

#define YEAR_NS (INT64_C(366) * 24 * 3600 * 1000000000)

static struct hdi_wheel wheel;

/* How much less to do where every instruction costs ten. */
static int scale(void)
{
    return HDI_ASAN || HDI_TSAN || getenv("HEDDLE_TEST_EMULATED") ? 10 : 1;
}

/* a + b, or the nearest that there is. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ns_of(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

/* ---- the structure ---- */

/* WHEEL-2 the slow way, digit by digit from the top. */
static unsigned place_of(int64_t deadline_ns, int64_t now_ns)
{
    const uint64_t half = UINT64_C(1) << 63;
    const uint64_t key = half + (uint64_t)later(deadline_ns, now_ns), now = half + (uint64_t)now_ns;
    for (unsigned level = HDI_WHEEL_LEVELS - 1;; level--) {
        const uint64_t mine = key >> (6 * level) & 63, other = now >> (6 * level) & 63;
        if (mine != other || level == 0) return level * 64 + (unsigned)mine;
    }
}

static size_t check_slot(unsigned place)
{
    size_t count = 0;
    const struct hdi_list *slot = &wheel.slots[place];
    for (const struct hdi_list *link = slot->next; link != slot; link = link->next) {
        const struct hdi_wheel_node *node = hdi_container_of(link, struct hdi_wheel_node, link);
        EXPECT(link->next->prev == link);
        EXPECT_EQ(node->place, place);
        EXPECT_EQ(place, place_of(node->deadline_ns, ns_of(wheel.now))); /* WHEEL-2 */
        if (node->deadline_ns < ns_of(wheel.now)) { /* WHEEL-7 */
            EXPECT(ns_of(wheel.late) <= node->deadline_ns);
        }
        count++;
    }
    EXPECT_EQ(wheel.occupied[place / 64] >> place % 64 & 1, count > 0); /* WHEEL-3 */
    return count;
}

static void check_structure(void)
{
    size_t count = 0;
    for (unsigned level = 0; level < HDI_WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < 64; slot++) count += check_slot(level * 64 + slot);
        EXPECT_EQ(wheel.levels >> level & 1, wheel.occupied[level] != 0); /* WHEEL-3 */
    }
    EXPECT_EQ(wheel.levels >> HDI_WHEEL_LEVELS, 0);
    EXPECT_EQ(hdi_wheel_count(&wheel), count);
}

/* ---- against a heap, in virtual time ---- */

enum { MOST = 4000 };

struct item {
    struct hdi_wheel_node node;
    struct hdi_heap_node turn; /* by when it is due, then by insertion: the order of taking */
    struct hdi_heap_node due;  /* by deadline */
    bool inside;
};

static struct item items[MOST];
static struct hdi_heap_node *turn_slots[MOST], *due_slots[MOST];
static struct hdi_heap turns, dues;
static struct hdi_prng prng;
static uint64_t sequence;
static int64_t reached_ns; /* what the wheel's time has to be */
static uint32_t items_most;
static unsigned long operations, taken, late, equal, crowded, exact; /* what was seen */

enum kind { NEAR, SECONDS, FAR, YEARS, EQUAL, EDGE, PAST, EXTREME, MIXED, KINDS };

static int64_t draw_bits(unsigned bits)
{
    return (int64_t)(hdi_prng_next(&prng) >> (64 - bits));
}

/* Just before, at, or just after the next beginning of some slot. */
static int64_t draw_edge(int64_t now_ns)
{
    const uint64_t size = UINT64_C(1) << 6 * hdi_prng_below(&prng, HDI_WHEEL_LEVELS);
    const uint64_t edge = ((uint64_t)now_ns | (size - 1)) + 1;
    return plus((int64_t)edge, (int64_t)hdi_prng_below(&prng, 3) - 1);
}

static int64_t draw_extreme(void)
{
    static const int64_t extremes[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, 0, -1};
    return extremes[hdi_prng_below(&prng, 6)];
}

static int64_t draw_deadline(enum kind kind, int64_t now_ns)
{
    switch (kind) {
    case NEAR: return plus(now_ns, draw_bits(8));
    case SECONDS: return plus(now_ns, draw_bits(12 + hdi_prng_below(&prng, 20)));
    case FAR: return plus(now_ns, draw_bits(45));
    case YEARS: return plus(now_ns, draw_bits(62));
    case EQUAL: return plus(now_ns | 0xffff, 1 + 0x10000 * (int64_t)hdi_prng_below(&prng, 3));
    case EDGE: return draw_edge(now_ns);
    case PAST: return plus(now_ns, -draw_bits(1 + hdi_prng_below(&prng, 62)));
    case EXTREME: return draw_extreme();
    case MIXED:
    case KINDS: break;
    }
    return draw_deadline((enum kind)hdi_prng_below(&prng, MIXED), now_ns);
}

/* Insert the item or, if it is inside, remove it. */
static void toggle(struct item *item, int64_t deadline_ns)
{
    operations++;
    if (item->inside) {
        hdi_wheel_remove(&wheel, &item->node);
        hdi_heap_remove(&turns, &item->turn);
        hdi_heap_remove(&dues, &item->due);
    } else {
        hdi_wheel_insert(&wheel, &item->node, deadline_ns);
        late += deadline_ns < reached_ns;
        const int64_t due_ns = later(deadline_ns, reached_ns);
        item->turn = (struct hdi_heap_node){.key = due_ns, .sequence = sequence++};
        item->due = (struct hdi_heap_node){.key = deadline_ns, .sequence = sequence};
        EXPECT(hdi_heap_insert(&turns, &item->turn) && hdi_heap_insert(&dues, &item->due));
    }
    item->inside = !item->inside;
}

static void toggle_any(enum kind kind, int64_t now_ns)
{
    toggle(&items[hdi_prng_below(&prng, items_most)], draw_deadline(kind, now_ns));
}

/* The nodes in the slot of this one, but no more than HDI_WHEEL_EXACT + 1. */
static unsigned neighbours(const struct hdi_wheel_node *node)
{
    unsigned count = 0;
    const struct hdi_list *link = node->link.next; /* One link on the way is the head. */
    for (; link != &node->link && count <= HDI_WHEEL_EXACT; link = link->next) count++;
    return count;
}

static void check_next(void)
{
    const int64_t next_ns = hdi_wheel_next(&wheel);
    const struct hdi_heap_node *first = hdi_heap_peek(&dues);
    EXPECT_EQ(hdi_wheel_count(&wheel), dues.count);
    if (!first) {
        EXPECT_EQ(next_ns, INT64_MAX);
        return;
    }
    const struct hdi_wheel_node *node = &hdi_container_of(first, struct item, due)->node;
    if (neighbours(node) <= HDI_WHEEL_EXACT) {
        EXPECT_EQ(next_ns, node->deadline_ns);
        exact++;
    } else {
        EXPECT(next_ns <= node->deadline_ns);
        crowded++;
        if (node->deadline_ns <= reached_ns) return;
        const int64_t size_ns = INT64_C(1) << node->place / 64 * 6;
        EXPECT(next_ns >= (node->deadline_ns & -size_ns)); /* the slot's start */
    }
}

/* Take one and compare: exactly who is due, in exactly the order. */
static bool take_one(int64_t now_ns)
{
    operations++;
    const int64_t until_ns = later(now_ns, reached_ns);
    const struct hdi_wheel_node *node = hdi_wheel_take(&wheel, now_ns);
    const struct hdi_heap_node *first = hdi_heap_peek(&turns);
    if (!node) {
        EXPECT(!first || first->key > until_ns); /* nothing lost */
        reached_ns = until_ns;
    } else {
        EXPECT(node->deadline_ns <= until_ns); /* never early */
        struct item *item = hdi_container_of(node, struct item, node);
        EXPECT(first == &item->turn);
        equal += first->key == reached_ns;
        taken++;
        reached_ns = first->key;
        hdi_heap_remove(&turns, &item->turn);
        hdi_heap_remove(&dues, &item->due);
        item->inside = false;
    }
    EXPECT_EQ(ns_of(wheel.now), reached_ns);
    return node != NULL;
}

/* Take all that is due, or now and then not all, with others coming and going meanwhile. */
static void take_due(enum kind kind, int64_t now_ns)
{
    const bool all = hdi_prng_below(&prng, 4) > 0;
    while (take_one(now_ns)) {
        if (hdi_prng_below(&prng, 3) == 0) toggle_any(kind, now_ns);
        if (!all && hdi_prng_below(&prng, 8) == 0) break;
    }
    check_next();
}

static int64_t draw_now(int64_t now_ns)
{
    switch (hdi_prng_below(&prng, 16)) {
    case 0: return plus(now_ns, -draw_bits(20)); /* backwards */
    case 1: return plus(now_ns, draw_bits(34));
    case 2: return plus(now_ns, draw_bits(1 + hdi_prng_below(&prng, 50)));
    case 3: return hdi_prng_below(&prng, 50) ? now_ns : plus(now_ns, 3 * YEAR_NS);
    case 4:
    case 5: return plus(now_ns, draw_bits(1));
    case 6:
    case 7: return plus(now_ns, draw_bits(7));
    case 8:
    case 9: return plus(now_ns, draw_bits(20));
    default: {
        const int64_t next_ns = hdi_wheel_next(&wheel); /* what a sleeper does */
        return next_ns < plus(now_ns, YEAR_NS) ? next_ns : now_ns;
    }
    }
}

static void random_operations(uint64_t seed, enum kind kind, int64_t now_ns, unsigned long least)
{
    hdi_prng_init(&prng, seed);
    hdi_wheel_init(&wheel, now_ns);
    items_most = seed % 3 == 0 ? MOST : 10 + 100 * (uint32_t)(seed % 3);
    hdi_heap_init(&turns, turn_slots, MOST);
    hdi_heap_init(&dues, due_slots, MOST);
    for (int i = 0; i < MOST; i++) items[i].inside = false;
    reached_ns = now_ns;
    const unsigned long end = operations + least;
    for (unsigned step = 0; operations < end; step++) {
        for (uint32_t i = hdi_prng_below(&prng, 8); i > 0; i--) toggle_any(kind, now_ns);
        check_next();
        const int64_t to_ns = draw_now(now_ns);
        take_due(kind, to_ns);
        now_ns = later(now_ns, to_ns);
        if (step % 1024 == 0) check_structure();
    }
    check_structure();
    while (take_one(INT64_MAX)) continue; /* All that is still there comes, in order. */
    EXPECT_EQ(turns.count, 0);
    check_next();
    check_structure();
}

TEST(random_operations_agree_with_a_heap)
{
    static const int64_t starts[] = {0, 1, -1, 1700000000000000000, -4000000000, INT64_MIN,
                                     INT64_MAX - 10 * YEAR_NS, INT64_MAX - 1000};
    const unsigned seeds = 9;
    const unsigned long wanted = 5000000 / (unsigned)scale();
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned seed = 0; seed < seeds; seed++) {
            random_operations(seed, (enum kind)kind, starts[(kind + seed) % 8],
                              wanted / KINDS / seeds);
        }
    }
    EXPECT(operations >= wanted - KINDS * seeds);
    /* Each case was there, and often. */
    EXPECT(taken > operations / 10 && late > operations / 100 && equal > operations / 100);
    EXPECT(crowded > operations / 1000 && exact > operations / 100);
}

/* ---- sleeping ---- */

/* Sleep to what `next` says until all is taken. Returns how often for nothing. */
static unsigned sleep_through(int64_t now_ns)
{
    unsigned wasted = 0;
    while (hdi_wheel_count(&wheel) > 0) {
        const int64_t next_ns = hdi_wheel_next(&wheel);
        EXPECT(next_ns > now_ns);
        now_ns = next_ns;
        const size_t before = hdi_wheel_count(&wheel);
        int64_t last_ns = INT64_MIN;
        for (struct hdi_wheel_node *node; (node = hdi_wheel_take(&wheel, now_ns));) {
            EXPECT_EQ(node->deadline_ns, now_ns); /* neither early nor late */
            EXPECT(node->deadline_ns >= last_ns);
            last_ns = node->deadline_ns;
        }
        wasted += hdi_wheel_count(&wheel) == before;
    }
    return wasted;
}

TEST(a_sleeper_with_one_timer_wakes_once)
{
    for (unsigned bits = 0; bits < 63; bits++) {
        for (int64_t start_ns = -3; start_ns <= 3; start_ns++) {
            struct hdi_wheel_node node;
            hdi_wheel_init(&wheel, start_ns);
            hdi_wheel_insert(&wheel, &node, plus(start_ns, INT64_C(1) << bits));
            EXPECT_EQ(sleep_through(start_ns), 0);
        }
    }
}

TEST(a_sleeper_with_few_timers_never_wakes_for_nothing)
{
    static struct hdi_wheel_node nodes[HDI_WHEEL_EXACT];
    for (uint64_t seed = 0; seed < 1000; seed++) {
        hdi_prng_init(&prng, seed);
        hdi_wheel_init(&wheel, 1000);
        for (unsigned i = 0; i < HDI_WHEEL_EXACT; i++) {
            hdi_wheel_insert(&wheel, &nodes[i], 1001 + draw_bits(1 + hdi_prng_below(&prng, 60)));
        }
        EXPECT_EQ(sleep_through(1000), 0);
    }
}

/* WHEEL-5: each wake for nothing takes a crowd at least one level down. */
TEST(a_sleeper_with_a_crowd_wakes_rarely_for_nothing)
{
    enum { CROWD = 10000 };
    static struct hdi_wheel_node nodes[CROWD];
    const int64_t far_ns = 1234567890123456789;
    hdi_wheel_init(&wheel, 0);
    for (int i = 0; i < CROWD; i++) hdi_wheel_insert(&wheel, &nodes[i], far_ns);
    EXPECT(sleep_through(0) < HDI_WHEEL_LEVELS);

    hdi_prng_init(&prng, 1);
    hdi_wheel_init(&wheel, 0);
    for (int i = 0; i < CROWD; i++) hdi_wheel_insert(&wheel, &nodes[i], 1 + draw_bits(30));
    EXPECT(sleep_through(0) < CROWD / 10);
}

/* ---- many ---- */

static struct hdi_wheel_node *many_nodes(size_t *count)
{
    *count = 1000000 / (size_t)scale();
    struct hdi_wheel_node *nodes = malloc(*count * sizeof(*nodes));
    EXPECT(nodes);
    return nodes;
}

TEST(a_million_timers_of_which_half_are_removed)
{
    size_t count;
    struct hdi_wheel_node *nodes = many_nodes(&count);
    hdi_prng_init(&prng, 7);
    hdi_wheel_init(&wheel, 0);
    for (size_t i = 0; i < count; i++) hdi_wheel_insert(&wheel, &nodes[i], 1 + draw_bits(33));
    EXPECT_EQ(hdi_wheel_count(&wheel), count);
    const size_t step = count / 2 + 1; /* The even ones, in no order of time or memory. */
    for (size_t i = 0, at = 0; i < count / 2; i++, at = (at + step) % (count / 2)) {
        hdi_wheel_remove(&wheel, &nodes[2 * at]);
        nodes[2 * at].deadline_ns = -1;
    }
    EXPECT_EQ(hdi_wheel_count(&wheel), count / 2);
    EXPECT(sleep_through(0) < count / 10);
    check_structure();
    free(nodes);
}

/* If either walked the crowd each time, this would take hours. */
TEST(a_million_timers_in_one_slot_cost_no_more_to_ask_about)
{
    size_t count;
    struct hdi_wheel_node *nodes = many_nodes(&count);
    const int64_t deadline_ns = 1000000000;
    for (int late_too = 0; late_too < 2; late_too++) {
        hdi_wheel_init(&wheel, late_too ? deadline_ns : 5);
        for (size_t i = 0; i < count; i++) {
            hdi_wheel_insert(&wheel, &nodes[i], deadline_ns - late_too * (int64_t)(1 + i % 100));
        }
        for (size_t i = 0; i < count && !late_too; i++) {
            const int64_t next_ns = hdi_wheel_next(&wheel);
            EXPECT(next_ns > deadline_ns / 2 && next_ns <= deadline_ns);
            EXPECT(hdi_wheel_take(&wheel, deadline_ns - 1) == NULL);
        }
        for (size_t i = 0; i < count; i++) {
            EXPECT(hdi_wheel_next(&wheel) <= nodes[i].deadline_ns);
            EXPECT(hdi_wheel_take(&wheel, deadline_ns) == &nodes[i]);
        }
        EXPECT_EQ(hdi_wheel_count(&wheel), 0);
    }
    free(nodes);
}

/* ---- edges ---- */

TEST(an_empty_wheel_has_nothing_to_say)
{
    hdi_wheel_init(&wheel, -7);
    EXPECT_EQ(hdi_wheel_next(&wheel), INT64_MAX);
    EXPECT_EQ(hdi_wheel_count(&wheel), 0);
    EXPECT(hdi_wheel_take(&wheel, INT64_MIN) == NULL && hdi_wheel_take(&wheel, INT64_MAX) == NULL);
    struct hdi_wheel_node node;
    hdi_wheel_insert(&wheel, &node, INT64_MAX);
    EXPECT(hdi_wheel_take(&wheel, 0) == &node); /* Time went to the end, and stays there. */
    check_structure();
}

/* One nanosecond before nothing, then exactly this one. */
static void expect_on_time(int64_t start_ns, int64_t deadline_ns)
{
    if (deadline_ns <= start_ns) return;
    struct hdi_wheel_node node, other;
    for (int company = 0; company < 2; company++) {
        hdi_wheel_init(&wheel, start_ns);
        hdi_wheel_insert(&wheel, &node, deadline_ns);
        if (company) hdi_wheel_insert(&wheel, &other, plus(deadline_ns, 1));
        EXPECT_EQ(hdi_wheel_next(&wheel), deadline_ns);
        EXPECT(hdi_wheel_take(&wheel, start_ns) == NULL);
        EXPECT(hdi_wheel_take(&wheel, start_ns / 2 + deadline_ns / 2 - 1) == NULL);
        EXPECT(hdi_wheel_take(&wheel, deadline_ns - 1) == NULL);
        check_structure();
        EXPECT_EQ(hdi_wheel_next(&wheel), deadline_ns);
        EXPECT(hdi_wheel_take(&wheel, deadline_ns) == &node);
        check_structure();
    }
}

TEST(a_timer_is_never_early_and_never_late)
{
    static int64_t times[256];
    unsigned count = 0;
    for (unsigned bit = 0; bit < 63; bit++) {
        times[count++] = INT64_C(1) << bit;
        times[count++] = -(INT64_C(1) << bit);
        times[count++] = (INT64_C(1) << bit) - 1;
    }
    times[count++] = INT64_MIN;
    times[count++] = INT64_MIN + 1;
    times[count++] = INT64_MAX - 1;
    times[count++] = INT64_MAX;
    for (unsigned start = 0; start < count; start += scale() > 1 ? 7 : 2) {
        for (unsigned i = 0; i < count; i++) expect_on_time(times[start], times[i]);
    }
}

TEST(extreme_deadlines_come_in_order)
{
    static const int64_t deadlines[] = {INT64_MAX, 0, INT64_MIN, -1, 1, INT64_MAX, INT64_MIN + 1};
    static const int order[] = {2, 6, 3, 1, 4, 0, 5};
    struct hdi_wheel_node nodes[7];
    hdi_wheel_init(&wheel, INT64_MIN);
    for (int i = 0; i < 7; i++) hdi_wheel_insert(&wheel, &nodes[i], deadlines[i]);
    check_structure();
    for (int i = 0; i < 7; i++) {
        const int64_t deadline_ns = deadlines[order[i]];
        EXPECT_EQ(hdi_wheel_next(&wheel), deadline_ns);
        EXPECT(i == 0 || deadline_ns == deadlines[order[i - 1]] ||
               hdi_wheel_take(&wheel, deadline_ns - 1) == NULL);
        EXPECT(hdi_wheel_take(&wheel, deadline_ns) == &nodes[order[i]]);
    }
}

TEST(what_is_past_is_due_at_once_and_before_what_is_not)
{
    struct hdi_wheel_node nodes[5];
    hdi_wheel_init(&wheel, 1000);
    hdi_wheel_insert(&wheel, &nodes[0], 1001);
    hdi_wheel_insert(&wheel, &nodes[1], 1000);
    hdi_wheel_insert(&wheel, &nodes[2], 10);
    hdi_wheel_insert(&wheel, &nodes[3], INT64_MIN);
    EXPECT_EQ(hdi_wheel_next(&wheel), INT64_MIN);
    hdi_wheel_remove(&wheel, &nodes[3]);
    EXPECT_EQ(hdi_wheel_next(&wheel), 10);
    EXPECT(hdi_wheel_take(&wheel, 1000) == &nodes[1]);
    EXPECT(hdi_wheel_take(&wheel, 1000) == &nodes[2]);
    EXPECT(hdi_wheel_take(&wheel, 1000) == NULL);
    EXPECT_EQ(hdi_wheel_next(&wheel), 1001);
    EXPECT(hdi_wheel_take(&wheel, 2000) == &nodes[0]);
    /* Time is at 1001, so this is not late but the next. */
    hdi_wheel_insert(&wheel, &nodes[4], 1500);
    EXPECT_EQ(hdi_wheel_next(&wheel), 1500);
    EXPECT(hdi_wheel_take(&wheel, 2000) == &nodes[4]);
}

TEST(a_crowd_of_late_ones_bounds_next_from_below)
{
    static struct hdi_wheel_node nodes[100];
    hdi_wheel_init(&wheel, 1000);
    for (int i = 0; i < 100; i++) hdi_wheel_insert(&wheel, &nodes[i], i < 50 ? 999 - i : 1001);
    EXPECT_EQ(hdi_wheel_next(&wheel), 950);
    for (int i = 0; i < 50; i++) EXPECT(hdi_wheel_take(&wheel, 1000) == &nodes[i]);
    EXPECT(hdi_wheel_take(&wheel, 1000) == NULL);
    EXPECT(hdi_wheel_take(&wheel, 1001) == &nodes[50]);
    EXPECT_EQ(hdi_wheel_next(&wheel), 1001); /* WHEEL-7: those before do not count any more. */
}

TEST(time_that_goes_backwards_changes_nothing)
{
    struct hdi_wheel_node nodes[3];
    hdi_wheel_init(&wheel, 0);
    for (int i = 0; i < 3; i++) hdi_wheel_insert(&wheel, &nodes[i], 100 * (i + 1));
    EXPECT(hdi_wheel_take(&wheel, 150) == &nodes[0]);
    EXPECT(hdi_wheel_take(&wheel, 150) == NULL);
    EXPECT(hdi_wheel_take(&wheel, INT64_MIN) == NULL && hdi_wheel_take(&wheel, 10) == NULL);
    hdi_wheel_insert(&wheel, &nodes[0], 120); /* It was 150 already. */
    EXPECT(hdi_wheel_take(&wheel, 20) == &nodes[0]);
    EXPECT(hdi_wheel_take(&wheel, 199) == NULL);
    EXPECT(hdi_wheel_take(&wheel, 300) == &nodes[1]);
    EXPECT(hdi_wheel_take(&wheel, 5) == NULL); /* Time is at 200. */
    EXPECT(hdi_wheel_take(&wheel, 300) == &nodes[2]);
}

/* WHEEL-4: they come from far away, from nearby and at the last moment. */
TEST(equal_deadlines_leave_in_the_order_they_came)
{
    enum { COUNT = 600 };
    static struct hdi_wheel_node nodes[COUNT], others[COUNT];
    const int64_t deadline_ns = 3 * YEAR_NS + 12345;
    hdi_wheel_init(&wheel, 0);
    for (int i = 0; i < COUNT; i++) {
        const int64_t before_ns = deadline_ns >> i / 10;
        hdi_wheel_insert(&wheel, &nodes[i], deadline_ns);
        hdi_wheel_insert(&wheel, &others[i], INT64_MAX - i % 3);
        if (before_ns > 0) EXPECT(hdi_wheel_take(&wheel, deadline_ns - before_ns) == NULL);
    }
    for (int i = 0; i < COUNT; i++) EXPECT(hdi_wheel_take(&wheel, deadline_ns) == &nodes[i]);
    EXPECT(hdi_wheel_take(&wheel, deadline_ns) == NULL);
    for (int left = 2; left >= 0; left--) {
        for (int i = left; i < COUNT; i += 3) {
            EXPECT(hdi_wheel_take(&wheel, INT64_MAX) == &others[i]);
        }
    }
    EXPECT_EQ(hdi_wheel_count(&wheel), 0);
}

TEST(any_node_can_be_removed_while_its_slot_is_being_taken)
{
    enum { COUNT = 40 };
    static struct hdi_wheel_node nodes[COUNT];
    for (int gone = 1; gone < COUNT; gone++) {
        hdi_wheel_init(&wheel, 0);
        for (int i = 0; i < COUNT; i++) hdi_wheel_insert(&wheel, &nodes[i], 1000000 + i / 2);
        EXPECT(hdi_wheel_take(&wheel, 2000000) == &nodes[0]); /* It cascaded. */
        hdi_wheel_remove(&wheel, &nodes[gone]);
        check_structure();
        for (int i = 1; i < COUNT; i++) {
            if (i == gone) continue;
            EXPECT(hdi_wheel_take(&wheel, 2000000) == &nodes[i]);
            hdi_wheel_insert(&wheel, &nodes[0], 1000000); /* Late, so the next but for equals. */
            hdi_wheel_remove(&wheel, &nodes[0]);
        }
        EXPECT(hdi_wheel_take(&wheel, 2000000) == NULL);
        check_structure();
    }
}

TEST(a_node_that_inserts_itself_again_comes_again)
{
    struct hdi_wheel_node node;
    hdi_wheel_init(&wheel, 0);
    hdi_wheel_insert(&wheel, &node, 10);
    for (int64_t i = 1; i <= 100000; i++) {
        EXPECT(hdi_wheel_take(&wheel, YEAR_NS) == &node); /* years late, one period at a time */
        EXPECT_EQ(node.deadline_ns, 10 * i);
        hdi_wheel_insert(&wheel, &node, node.deadline_ns + 10);
    }
}

static void remove_twice(void *arg)
{
    struct hdi_wheel_node *nodes = arg;
    hdi_wheel_remove(&wheel, &nodes[0]);
    hdi_wheel_remove(&wheel, &nodes[0]);
}

TEST(removing_what_is_not_inside_is_noticed)
{
    if (!HDI_DEBUG) test_skip("assertions are off");
    static struct hdi_wheel_node nodes[2];
    hdi_wheel_init(&wheel, 0);
    hdi_wheel_insert(&wheel, &nodes[0], 50);
    expect_abort(remove_twice, nodes, "link");
    hdi_wheel_insert(&wheel, &nodes[1], 50);
    expect_abort(remove_twice, nodes, "link");
}
