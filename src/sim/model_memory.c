/* SPDX-License-Identifier: MIT */
#include "sim/model_memory.h"

#include <stdalign.h>
#include <string.h>

#include "base/check.h"

/* ---- State ------------------------------------------------------------------------ */

/* The orders that base/atomics.h passes, C11's by value. */
enum {
    RELAXED = __ATOMIC_RELAXED,
    RELEASE = __ATOMIC_RELEASE,
    ACQ_REL = __ATOMIC_ACQ_REL,
    SEQ_CST = __ATOMIC_SEQ_CST,
};

typedef uint16_t clock_vector __attribute__((vector_size(2 * HDI_MODEL_THREADS_MAX)));

struct store {
    volatile void *addr;
    uint64_t value;
    clock_vector clock; /* what a release store publishes, zero for a relaxed one */
    uint32_t age;       /* order of issue over all threads */
    uint32_t move;      /* the thread's last move when it was issued, */
    uint32_t operation; /* and its last operation */
    uint8_t bytes;
    bool release, seq_cst;
    bool unissued; /* taken to come after the barrier that is under way */
    bool relevant; /* scratch of mark_relevant() */
};

struct buffer {
    unsigned count;
    uint32_t arrived; /* one more than the greatest age that has reached memory */
    struct store stores[HDI_MODEL_BUFFER]; /* oldest first */
};

/* What the clocks know of one address. */
struct location {
    const volatile void *addr;
    uint32_t execution; /* the entry is empty unless this is mm.execution */
    uint16_t write_time;
    uint8_t writer;
    bool written;
    clock_vector release; /* joined by an acquire that reads here */
    clock_vector reads;   /* of plain reads since the last plain write */
};

#define LOCATIONS   1024 /* a power of two */
#define BLOCKS      256
#define ARENA_BYTES (1u << 20)

struct block {
    char *start;
    size_t bytes;
    bool freed;
};

static struct {
    enum hdi_model_memory memory;
    unsigned pending; /* stores in all buffers */
    uint32_t age;
    uint32_t execution;
    unsigned threads; /* started in this execution */
    unsigned locations_used;
    unsigned blocks_used, blocks_freed;
    size_t arena_used;
    clock_vector clocks[HDI_MODEL_THREADS_MAX];
    struct buffer buffers[HDI_MODEL_THREADS_MAX];
    struct block blocks[BLOCKS];
    struct location locations[LOCATIONS];
} mm;

alignas(64) static char arena[ARENA_BYTES];

void hdi_mm_begin(enum hdi_model_memory memory)
{
    mm.memory = memory;
    mm.pending = 0;
    mm.age = 0;
    mm.execution++;
    mm.threads = 1;
    mm.locations_used = 0;
    mm.blocks_used = mm.blocks_freed = 0;
    memset(arena, 0, mm.arena_used);
    mm.arena_used = 0;
    for (unsigned t = 0; t < HDI_MODEL_THREADS_MAX; t++) {
        mm.clocks[t] = (clock_vector){0};
        mm.buffers[t].count = 0;
        mm.buffers[t].arrived = 0;
    }
}

/* ---- Memory of the execution ------------------------------------------------------- */

void *hdi_model_alloc(size_t bytes)
{
    const size_t room = (bytes + 63) & ~(size_t)63;
    HD_CHECK_MSG(mm.blocks_used < BLOCKS && room <= ARENA_BYTES - mm.arena_used,
                 "hdi_model_alloc: the scenario allocates too much");
    struct block *b = &mm.blocks[mm.blocks_used++];
    *b = (struct block){arena + mm.arena_used, bytes, false};
    mm.arena_used += room;
    return b->start;
}

static struct block *block_of(const volatile void *addr)
{
    const uintptr_t at = (uintptr_t)addr;
    if (at - (uintptr_t)arena >= mm.arena_used) return NULL;
    for (unsigned i = mm.blocks_used; i-- > 0;) {
        if (at >= (uintptr_t)mm.blocks[i].start) return &mm.blocks[i];
    }
    return NULL;
}

void hdi_model_free(void *pointer)
{
    if (!pointer) return;
    struct block *b = block_of(pointer);
    HD_CHECK_MSG(b && b->start == pointer, "hdi_model_free: not from hdi_model_alloc()");
    hdi_mm_drain(hdi_model_self()); /* as an allocator's lock does */
    hdi_model_record(HDI_STEP_FREE, pointer, __builtin_return_address(0));
    if (b->freed) hdi_model_fail(HDI_VERDICT_FREED, NULL, 0, "freed twice");
    b->freed = true;
    mm.blocks_freed++;
    memset(b->start, 0xdd, b->bytes);
}

/* free(), by the linker's --wrap: a store still on its way must not arrive in memory that is
 * another's by then. */
void __real_free(void *pointer);
void __wrap_free(void *pointer);
void __wrap_free(void *pointer)
{
    if (pointer && hdi_model_active()) hdi_mm_drain(hdi_model_self());
    __real_free(pointer);
}

unsigned hdi_model_live(void)
{
    return mm.blocks_used - mm.blocks_freed;
}

static void check_live(const volatile void *addr, const void *site)
{
    if (hdi_likely(mm.blocks_freed == 0)) return;
    const struct block *b = block_of(addr);
    if (!b || !b->freed) return;
    hdi_model_record(HDI_STEP_TOUCH, addr, site);
    hdi_model_fail(HDI_VERDICT_FREED, NULL, 0, "used after it was freed");
}

/* ---- Happens-before ---------------------------------------------------------------- */

static clock_vector joined(clock_vector a, clock_vector b)
{
    const clock_vector later = (clock_vector)(a > b);
    return (a & later) | (b & ~later);
}

static struct location *location_of(const volatile void *addr)
{
    size_t i = (size_t)(hdi_mix64((uintptr_t)addr) & (LOCATIONS - 1));
    for (;; i = (i + 1) & (LOCATIONS - 1)) {
        struct location *l = &mm.locations[i];
        if (l->execution != mm.execution) {
            HD_CHECK_MSG(++mm.locations_used < LOCATIONS * 3 / 4, "model: too many addresses");
            memset(l, 0, sizeof(*l));
            l->addr = addr;
            l->execution = mm.execution;
            return l;
        }
        if (l->addr == addr) return l;
    }
}

static bool acquires(int order)
{
    return order != RELAXED && order != RELEASE;
}

static bool releases(int order)
{
    return order == RELEASE || order >= ACQ_REL;
}

static void tick(unsigned self)
{
    mm.clocks[self][self]++;
}

static void clock_load(unsigned self, const volatile void *addr, int order)
{
    if (acquires(order)) mm.clocks[self] = joined(mm.clocks[self], location_of(addr)->release);
}

/* A read-modify-write continues the release sequence it reads from. */
static void clock_rmw(unsigned self, const volatile void *addr, int order)
{
    if (order == RELAXED) return;
    struct location *l = location_of(addr);
    if (acquires(order)) mm.clocks[self] = joined(mm.clocks[self], l->release);
    if (!releases(order)) return;
    tick(self);
    l->release = joined(l->release, mm.clocks[self]);
    tick(self);
}

/* What a store publishes when it reaches memory. */
static clock_vector clock_store(unsigned self, int order)
{
    if (!releases(order)) return (clock_vector){0};
    tick(self);
    const clock_vector clock = mm.clocks[self];
    tick(self);
    return clock;
}

void hdi_model_plain(const volatile void *addr, bool write, const char *file, int line)
{
    if (!hdi_model_active()) return;
    const unsigned self = hdi_model_self();
    const void *const site = __builtin_return_address(0);
    check_live(addr, site);
    hdi_model_record(write ? HDI_STEP_PLAIN_WRITE : HDI_STEP_PLAIN_READ, addr, site);
    struct location *l = location_of(addr);
    const clock_vector now = mm.clocks[self];
    if (l->written && l->writer != self && l->write_time >= now[l->writer]) {
        hdi_model_fail(HDI_VERDICT_RACE, file, line,
                       write ? "unordered with another thread's write" : "reads what another "
                       "thread wrote, unordered");
    }
    for (unsigned t = 0; write && t < mm.threads; t++) {
        if (t != self && l->reads[t] != 0 && l->reads[t] - 1 >= now[t]) {
            hdi_model_fail(HDI_VERDICT_RACE, file, line, "writes what another thread reads, "
                                                         "unordered");
        }
    }
    if (write) {
        l->reads = (clock_vector){0};
        l->written = true;
        l->writer = (uint8_t)self;
        l->write_time = now[self];
    } else {
        l->reads[self] = now[self] + 1;
    }
}

/* ---- Store buffers ----------------------------------------------------------------- */

static uint64_t read_memory(const volatile void *addr, unsigned bytes)
{
    switch (bytes) {
    case 1: return *(const volatile uint8_t *)addr;
    case 2: return *(const volatile uint16_t *)addr;
    case 4: return *(const volatile uint32_t *)addr;
    default: return *(const volatile uint64_t *)addr;
    }
}

static void write_memory(volatile void *addr, unsigned bytes, uint64_t value)
{
    switch (bytes) {
    case 1: *(volatile uint8_t *)addr = (uint8_t)value; break;
    case 2: *(volatile uint16_t *)addr = (uint16_t)value; break;
    case 4: *(volatile uint32_t *)addr = (uint32_t)value; break;
    default: *(volatile uint64_t *)addr = value; break;
    }
}

static bool overlaps(const struct store *s, const volatile void *addr, unsigned bytes)
{
    const uintptr_t a = (uintptr_t)s->addr, b = (uintptr_t)addr;
    return a < b + bytes && b < a + s->bytes;
}

/* Must the earlier store of the same thread arrive first? */
static bool ordered(const struct store *earlier, const struct store *later)
{
    return mm.memory == HDI_MEMORY_TSO || later->release ||
           overlaps(earlier, later->addr, later->bytes);
}

static bool committable(const struct buffer *b, unsigned i)
{
    for (unsigned j = 0; j < i; j++) {
        if (ordered(&b->stores[j], &b->stores[i])) return false;
    }
    return true;
}

static void commit(unsigned thread, unsigned i)
{
    struct buffer *b = &mm.buffers[thread];
    const struct store s = b->stores[i];
    check_live(s.addr, NULL);
    struct hdi_model_step *step = hdi_model_record(HDI_STEP_COMMIT, s.addr, NULL);
    step->thread = (uint8_t)thread;
    step->before = read_memory(s.addr, s.bytes);
    step->after = s.value;
    write_memory(s.addr, s.bytes, s.value);
    location_of(s.addr)->release = s.clock;
    memmove(&b->stores[i], &b->stores[i + 1], (b->count - i - 1) * sizeof(s));
    b->count--;
    if (s.age >= b->arrived) b->arrived = s.age + 1;
    mm.pending--;
}

/* Is any other thread's store to these bytes on its way? */
static bool contested(unsigned self, const volatile void *addr, unsigned bytes)
{
    for (unsigned t = 0; t < mm.threads; t++) {
        for (unsigned i = 0; t != self && i < mm.buffers[t].count; i++) {
            const struct store *s = &mm.buffers[t].stores[i];
            if (!s->unissued && overlaps(s, addr, bytes)) return true;
        }
    }
    return false;
}

static bool touches_relevant(const struct store *s, const volatile void *addr, unsigned bytes)
{
    if (overlaps(s, addr, bytes)) return true;
    for (unsigned t = 0; t < mm.threads; t++) {
        for (unsigned i = 0; i < mm.buffers[t].count; i++) {
            const struct store *other = &mm.buffers[t].stores[i];
            if (other->relevant && overlaps(s, other->addr, other->bytes)) return true;
        }
    }
    return false;
}

/* Mark the closure of stores whose arrival the access can tell. Returns whether one of
 * them is from another thread that has moved since, so that passing it is a delay. */
static bool mark_relevant(unsigned self, const volatile void *addr, unsigned bytes,
                          const struct store *skip)
{
    bool late = false, changed = true;
    for (unsigned t = 0; t < mm.threads; t++) {
        for (unsigned i = 0; i < mm.buffers[t].count; i++) mm.buffers[t].stores[i].relevant = false;
    }
    while (changed) {
        changed = false;
        for (unsigned t = 0; t < mm.threads; t++) {
            struct buffer *b = &mm.buffers[t];
            for (unsigned i = b->count; i-- > 0;) {
                struct store *s = &b->stores[i];
                if (s->relevant || s->unissued || s == skip) continue;
                s->relevant = touches_relevant(s, addr, bytes);
                for (unsigned j = i + 1; j < b->count && !s->relevant; j++) {
                    s->relevant = b->stores[j].relevant && ordered(s, &b->stores[j]);
                }
                changed |= s->relevant;
                late |= s->relevant && t != self && s->move != hdi_model_last_move(t);
            }
        }
    }
    return late;
}

struct candidate {
    uint32_t age;
    uint8_t thread, index;
};

/* The relevant stores that may arrive now, oldest first. */
static unsigned list_candidates(struct candidate *list, const struct store *skip)
{
    unsigned n = 0;
    for (unsigned t = 0; t < mm.threads; t++) {
        const struct buffer *b = &mm.buffers[t];
        for (unsigned i = 0; i < b->count; i++) {
            const struct store *s = &b->stores[i];
            if (!s->relevant || s == skip || !committable(b, i)) continue;
            HD_CHECK_MSG(n < HDI_ALTERNATIVES_MAX - 1, "model: too many stores on their way");
            unsigned at = n++;
            for (; at > 0 && list[at - 1].age > s->age; at--) list[at] = list[at - 1];
            list[at] = (struct candidate){s->age, (uint8_t)t, (uint8_t)i};
        }
    }
    return n;
}

/* Before `self` reads or writes these bytes of memory: the explorer chooses which of the
 * stores that matter arrive first. `skip` is the own store about to arrive, if that is the
 * access; returns where it is now, since older ones may have left. */
static const struct store *settle(unsigned self, const volatile void *addr, unsigned bytes,
                                  const struct store *skip)
{
    while (mm.pending > 0 && contested(self, addr, bytes)) {
        struct candidate list[HDI_ALTERNATIVES_MAX];
        const bool late = mark_relevant(self, addr, bytes, skip);
        const unsigned n = list_candidates(list, skip);
        if (n == 0) break;
        const uint32_t others = (1u << n) - 2, proceed = 1u << n;
        const struct hdi_choice choice = {
            .count = n + 1, .costly[HDI_BUDGET_DELAY] = others | (late ? proceed : 0)};
        const unsigned pick = hdi_model_choose(&choice);
        if (pick == n) break;
        const struct candidate *c = &list[pick];
        if (skip && c->thread == self && &mm.buffers[self].stores[c->index] < skip) skip--;
        commit(c->thread, c->index);
    }
    return skip;
}

static void commit_own(unsigned self, unsigned i)
{
    const struct buffer *b = &mm.buffers[self];
    const struct store *s = settle(self, b->stores[i].addr, b->stores[i].bytes, &b->stores[i]);
    commit(self, (unsigned)(s - b->stores));
}

void hdi_mm_drain(unsigned thread)
{
    while (mm.buffers[thread].count > 0) commit_own(thread, 0);
}

void hdi_mm_drain_all(void)
{
    for (unsigned t = 0; t < mm.threads; t++) hdi_mm_drain(t);
}

bool hdi_mm_pending(unsigned thread)
{
    return mm.buffers[thread].count > 0;
}

bool hdi_mm_pending_any(void)
{
    return mm.pending > 0;
}

static void push(unsigned self, volatile void *addr, unsigned bytes, uint64_t value, int order)
{
    struct buffer *b = &mm.buffers[self];
    if (b->count == HDI_MODEL_BUFFER) commit_own(self, 0);
    b->stores[b->count++] = (struct store){
        .addr = addr,
        .value = value,
        .clock = clock_store(self, order),
        .age = mm.age++,
        .move = hdi_model_last_move(self),
        .operation = hdi_model_last_operation(self),
        .bytes = (uint8_t)bytes,
        .release = releases(order),
        .seq_cst = order == SEQ_CST,
    };
    mm.pending++;
    hdi_model_unchoose(); /* Others may pass the store before our next operation. */
}

/* The newest own store to exactly these bytes, or NULL. */
static const struct store *own_store(unsigned self, const volatile void *addr, unsigned bytes)
{
    const struct buffer *b = &mm.buffers[self];
    for (unsigned i = b->count; i-- > 0;) {
        const struct store *s = &b->stores[i];
        if (overlaps(s, addr, bytes)) return s->addr == addr && s->bytes == bytes ? s : NULL;
    }
    return NULL;
}

/* Must a load or read-modify-write of the same thread wait for this store? */
static bool waits_for(const struct store *s, const volatile void *addr, unsigned bytes, int order,
                      bool rmw)
{
    if (rmw && (mm.memory == HDI_MEMORY_TSO || releases(order))) return true;
    if (order == SEQ_CST && s->seq_cst) return true;
    const bool exact = s->addr == addr && s->bytes == bytes;
    return overlaps(s, addr, bytes) && (rmw || !exact);
}

/* Commit the own stores that an access waits for, and those that must come before. */
static void drain_for(unsigned self, const volatile void *addr, unsigned bytes, int order, bool rmw)
{
    struct buffer *b = &mm.buffers[self];
    for (;;) {
        unsigned i = 0;
        while (i < b->count && !waits_for(&b->stores[i], addr, bytes, order, rmw)) i++;
        if (i == b->count) return;
        unsigned first = 0;
        while (first < i && !ordered(&b->stores[first], &b->stores[i])) first++;
        commit_own(self, first);
    }
}

/* ---- Threads ----------------------------------------------------------------------- */

void hdi_mm_thread_start(unsigned parent, unsigned child)
{
    mm.threads = child + 1;
    tick(parent);
    mm.clocks[child] = mm.clocks[parent];
    tick(parent);
}

void hdi_mm_thread_join(unsigned joiner, unsigned ended)
{
    hdi_mm_drain(ended);
    tick(ended);
    mm.clocks[joiner] = joined(mm.clocks[joiner], mm.clocks[ended]);
}

uint32_t hdi_mm_futex_word(const volatile void *addr)
{
    const unsigned self = hdi_model_self();
    hdi_mm_drain(self);
    check_live(addr, NULL);
    settle(self, addr, 4, NULL);
    return (uint32_t)read_memory(addr, 4);
}

/* Issuing a store is no scheduling point, but a barrier can tell what was issued before it.
 * Stores since the thread's last operation, none of which was seen, may as well come after:
 * the explorer chooses. */
static void choose_issued(unsigned thread)
{
    struct buffer *b = &mm.buffers[thread];
    const uint32_t last = hdi_model_last_operation(thread);
    unsigned fresh = 0;
    while (thread != hdi_model_self() && fresh < b->count) {
        const struct store *s = &b->stores[b->count - 1 - fresh];
        if (s->operation != last || s->age < b->arrived) break;
        fresh++;
    }
    const unsigned later = fresh ? hdi_model_any(fresh + 1) : 0;
    for (unsigned i = 0; i < later; i++) b->stores[b->count - 1 - i].unissued = true;
}

static void drain_issued(void)
{
    for (unsigned t = 0; t < mm.threads; t++) choose_issued(t);
    for (unsigned t = 0; t < mm.threads; t++) {
        const struct buffer *b = &mm.buffers[t];
        while (b->count > 0 && !b->stores[0].unissued) commit_own(t, 0);
    }
    for (unsigned t = 0; t < mm.threads; t++) {
        struct buffer *b = &mm.buffers[t];
        for (unsigned i = 0; i < b->count; i++) b->stores[i].unissued = false;
    }
}

void hdi_model_barrier_all(void)
{
    if (!hdi_model_active()) return;
    if (mm.pending > 0) {
        hdi_model_point();
        drain_issued();
    }
    hdi_model_record(HDI_STEP_BARRIER, NULL, __builtin_return_address(0));
    clock_vector all = {0};
    for (unsigned t = 0; t < mm.threads; t++) {
        tick(t);
        all = joined(all, mm.clocks[t]);
    }
    for (unsigned t = 0; t < mm.threads; t++) {
        mm.clocks[t] = all;
        tick(t);
    }
}

/* ---- The hooks of base/atomics.h --------------------------------------------------- */

uint64_t hdi_model_load(const volatile void *addr, unsigned bytes, int order)
{
    if (!hdi_model_active()) return read_memory(addr, bytes);
    const unsigned self = hdi_model_self();
    const void *const site = __builtin_return_address(0);
    hdi_model_point();
    check_live(addr, site);
    drain_for(self, addr, bytes, order, false);
    settle(self, addr, bytes, NULL);
    const struct store *own = own_store(self, addr, bytes);
    const uint64_t value = own ? own->value : read_memory(addr, bytes);
    if (!own) clock_load(self, addr, order);
    struct hdi_model_step *step =
        hdi_model_record(own ? HDI_STEP_FORWARD : HDI_STEP_LOAD, addr, site);
    step->order = (uint8_t)order;
    step->after = value;
    return value;
}

static bool buffers_store(int order)
{
    if (mm.memory == HDI_MEMORY_SC || mm.threads == 1) return false;
    return mm.memory == HDI_MEMORY_PSO || order != SEQ_CST;
}

void hdi_model_store(volatile void *addr, unsigned bytes, uint64_t value, int order)
{
    if (!hdi_model_active()) {
        write_memory(addr, bytes, value);
        return;
    }
    const unsigned self = hdi_model_self();
    const void *const site = __builtin_return_address(0);
    const bool buffered = buffers_store(order);
    if (!buffered) {
        hdi_model_point();
        hdi_mm_drain(self);
        settle(self, addr, bytes, NULL);
    }
    check_live(addr, site);
    struct hdi_model_step *step =
        hdi_model_record(buffered ? HDI_STEP_BUFFER : HDI_STEP_STORE, addr, site);
    step->order = (uint8_t)order;
    step->before = read_memory(addr, bytes);
    step->after = value;
    if (buffered) {
        push(self, addr, bytes, value, order);
    } else {
        location_of(addr)->release = clock_store(self, order);
        write_memory(addr, bytes, value);
    }
}

/* Everything a read-modify-write does before it reads. */
static void rmw_begin(const volatile void *addr, unsigned bytes, int order, const void *site)
{
    const unsigned self = hdi_model_self();
    hdi_model_point();
    check_live(addr, site);
    drain_for(self, addr, bytes, order, true);
    settle(self, addr, bytes, NULL);
}

static uint64_t rmw_result(enum hdi_model_rmw_op op, uint64_t old, uint64_t value)
{
    switch (op) {
    case HDI_RMW_XCHG: return value;
    case HDI_RMW_ADD: return old + value;
    case HDI_RMW_SUB: return old - value;
    case HDI_RMW_OR: return old | value;
    case HDI_RMW_AND: return old & value;
    }
    return value;
}

uint64_t hdi_model_rmw(volatile void *addr, unsigned bytes, enum hdi_model_rmw_op op,
                       uint64_t value, int order)
{
    const void *const site = __builtin_return_address(0);
    const bool active = hdi_model_active();
    if (active) rmw_begin(addr, bytes, order, site);
    const uint64_t old = read_memory(addr, bytes);
    write_memory(addr, bytes, rmw_result(op, old, value));
    if (!active) return old;
    clock_rmw(hdi_model_self(), addr, order);
    struct hdi_model_step *step = hdi_model_record(HDI_STEP_RMW, addr, site);
    step->order = (uint8_t)order;
    step->op = (uint8_t)op;
    step->before = old;
    step->after = read_memory(addr, bytes);
    return old;
}

bool hdi_model_cas(volatile void *addr, unsigned bytes, uint64_t *expected, uint64_t desired,
                   int order)
{
    const void *const site = __builtin_return_address(0);
    const bool active = hdi_model_active();
    if (active) rmw_begin(addr, bytes, order, site);
    const uint64_t old = read_memory(addr, bytes);
    const bool done = old == *expected;
    if (done) write_memory(addr, bytes, desired);
    *expected = old;
    if (!active) return done;
    if (done) {
        clock_rmw(hdi_model_self(), addr, order);
    } else {
        clock_load(hdi_model_self(), addr, order); /* a failed one only loads */
    }
    struct hdi_model_step *step = hdi_model_record(HDI_STEP_CAS, addr, site);
    step->order = (uint8_t)order;
    step->before = old;
    step->after = desired;
    step->failed = !done;
    return done;
}
