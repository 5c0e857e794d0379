/* SPDX-License-Identifier: MIT */
#include "sim/model.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "ctx/switch.h"
#include "os/memory.h"
#include "sim/model_memory.h"

#define STACK_BYTES (256u << 10)
#define GUARD_BYTES (64u << 10) /* a multiple of every page size */
#define STEPS_MOST  20000u /* the clocks of sim/model_memory.c have 16 bits */
#define NAMES       64
#define PAUSES_ALONE 8

enum hdi_mutant_id hdi_mutant;

/* MODEL-1: a thread is in `enabled` unless it has ended, waits on a futex, or joins.
 * MODEL-2: `paused` is a subset of `enabled`. */
struct thread {
    void *sp; /* valid while another runs */
    void *stack;
    void (*entry)(void *);
    void *arg;
    void *slot; /* os/thread.h's self pointer */
    const char *name;
    const volatile void *waits_on; /* futex, or NULL */
    struct thread *joins;
    uint32_t waits_since; /* order among waiters */
    int64_t deadline_ns;  /* of its wait; INT64_MAX: none */
    uint32_t last_operation, last_move, last_pause;
    uint32_t pauses_alone; /* in a row without another thread's move */
    uint32_t yields_to; /* threads that must move before it runs again after a pause */
    int wait_result;
    bool chosen; /* for its next operation: no decision is needed there */
    bool ended;
};

struct name {
    const volatile void *addr;
    size_t bytes;
    const char *text;
};

static struct {
    struct hdi_model_config config;
    struct hdi_search explore;
    struct hdi_model_result *result;
    struct thread *current; /* NULL outside an execution */
    void *main_sp;
    unsigned threads_used, alive;
    uint32_t enabled, paused, sleepers; /* sets of threads; sleepers may wake unasked */
    uint32_t moves, waits;
    int64_t now_ns;
    uint32_t records, names_used;
    bool calm; /* decisions are not asked for */
    struct thread threads[HDI_MODEL_THREADS_MAX];
    struct name names[NAMES];
    struct hdi_model_step trace[HDI_MODEL_TRACE];
} m;

static void *slot_outside;

bool hdi_model_active(void)
{
    return m.current != NULL;
}

static unsigned index_of(const struct thread *t)
{
    return (unsigned)(t - m.threads);
}

static uint32_t bit(const struct thread *t)
{
    return 1u << index_of(t);
}

unsigned hdi_model_self(void)
{
    return index_of(m.current);
}

uint32_t hdi_model_last_operation(unsigned thread)
{
    return m.threads[thread].last_operation;
}

uint32_t hdi_model_last_move(unsigned thread)
{
    return m.threads[thread].last_move;
}

/* ---- Trace ------------------------------------------------------------------------ */

struct hdi_model_step *hdi_model_record(enum hdi_step_kind kind, const volatile void *addr,
                                        const void *site)
{
    struct hdi_model_step *step = &m.trace[m.records++ % HDI_MODEL_TRACE];
    *step = (struct hdi_model_step){
        .addr = addr, .site = site, .thread = (uint8_t)hdi_model_self(), .kind = (uint8_t)kind};
    return step;
}

size_t hdi_model_trace_count(void)
{
    return m.records < HDI_MODEL_TRACE ? m.records : HDI_MODEL_TRACE;
}

const struct hdi_model_step *hdi_model_trace_step(size_t i)
{
    return &m.trace[(m.records - hdi_model_trace_count() + i) % HDI_MODEL_TRACE];
}

const char *hdi_model_thread_name(unsigned thread)
{
    return m.threads[thread].name;
}

const char *hdi_model_object(const volatile void *addr, size_t *offset)
{
    const struct name *best = NULL; /* the smallest object around addr, the newest of equals */
    for (uint32_t i = 0; i < m.names_used; i++) {
        const struct name *n = &m.names[i];
        const size_t at = (size_t)((uintptr_t)addr - (uintptr_t)n->addr);
        if (at < n->bytes && (!best || n->bytes <= best->bytes)) {
            best = n;
            *offset = at;
        }
    }
    return best ? best->text : NULL;
}

void hdi_model_name(const volatile void *addr, size_t bytes, const char *name)
{
    if (m.names_used < NAMES) m.names[m.names_used++] = (struct name){addr, bytes, name};
}

void hdi_model_name_thread(void *thread, const char *name)
{
    struct thread *t = thread ? thread : m.current;
    if (t) t->name = name;
}

void hdi_model_note(const char *text, uint64_t value)
{
    if (m.current) hdi_model_record(HDI_STEP_NOTE, text, NULL)->after = value;
}

/* ---- Verdicts --------------------------------------------------------------------- */

/* Leave the execution for hdi_model_run(). Its stacks are not unwound. */
static noreturn void leave(void)
{
    void *abandoned;
    m.current = NULL;
    hdi_switch(&abandoned, m.main_sp, NULL);
    __builtin_unreachable();
}

noreturn void hdi_model_fail(enum hdi_verdict verdict, const char *file, int line,
                             const char *text)
{
    m.result->verdict = verdict;
    m.result->file = file;
    m.result->line = line;
    if (text != m.result->text) snprintf(m.result->text, sizeof(m.result->text), "%s", text);
    leave();
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    const size_t used = strlen(m.result->text);
    va_list args;
    va_start(args, format);
    vsnprintf(m.result->text + used, sizeof(m.result->text) - used, format, args);
    va_end(args);
}

static void say_thread(const struct thread *t)
{
    say("t%u", index_of(t));
    if (t->name) say(" %s", t->name);
}

static noreturn void fail_deadlock(void)
{
    say("nobody can move:");
    const char *separator = " ";
    for (unsigned i = 0; i < m.threads_used; i++) {
        const struct thread *t = &m.threads[i];
        if (t->ended) continue;
        say("%s", separator);
        say_thread(t);
        if (t->joins) {
            say(" joins t%u", index_of(t->joins));
        } else {
            size_t offset = 0;
            const char *name = hdi_model_object(t->waits_on, &offset);
            say(" waits on %s", name ? name : "a futex");
        }
        separator = ", ";
    }
    hdi_model_fail(HDI_VERDICT_DEADLOCK, NULL, 0, m.result->text);
}

static noreturn void fail_spinning(void)
{
    const struct thread *t = &m.threads[__builtin_ctz(m.paused)];
    say_thread(t);
    say(" spins and no other thread can move");
    hdi_model_fail(HDI_VERDICT_LIVELOCK, NULL, 0, m.result->text);
}

static void on_check(const char *file, int line, const char *what)
{
    if (m.current) hdi_model_fail(HDI_VERDICT_CHECK, file, line, what);
}

static void on_signal(int number)
{
    if (m.current) {
        say("%s", strsignal(number));
        hdi_model_fail(HDI_VERDICT_CRASH, NULL, 0, m.result->text);
    }
    signal(number, SIG_DFL);
    raise(number);
}

unsigned hdi_model_choose(const struct hdi_choice *choice)
{
    if (m.calm) return 0;
    const int pick = hdi_search_choose(&m.explore, choice);
    if (hdi_unlikely(pick < 0)) {
        hdi_model_fail(HDI_VERDICT_DIVERGED, NULL, 0,
                       m.config.explore.mode == HDI_SEARCH_REPLAY
                           ? "the list does not fit this program"
                           : "the same decisions led elsewhere: state survives executions");
    }
    return (unsigned)pick;
}

void hdi_model_calm(bool calm)
{
    m.calm = calm;
}

unsigned hdi_model_any(unsigned count)
{
    if (!m.current || count < 2) return 0;
    return hdi_model_choose(&(struct hdi_choice){.count = count});
}

/* ---- Scheduling ------------------------------------------------------------------- */

static void count_step(struct thread *t)
{
    t->last_move = ++m.moves;
    if (hdi_unlikely(!hdi_search_step(&m.explore))) {
        hdi_model_fail(HDI_VERDICT_LIVELOCK, NULL, 0, "the step cap is reached");
    }
}

/* May a paused thread run again? See sim/model.h. */
static bool pause_over(const struct thread *t)
{
    if (m.moves == t->last_pause) return false;
    for (uint32_t set = t->yields_to & m.enabled; set; set &= set - 1) {
        if (m.threads[__builtin_ctz(set)].last_move <= t->last_pause) return false;
    }
    return true;
}

static uint32_t ready_set(void)
{
    uint32_t ready = m.enabled & ~m.paused;
    for (uint32_t set = m.paused; set; set &= set - 1) {
        const struct thread *t = &m.threads[__builtin_ctz(set)];
        if (pause_over(t)) ready |= bit(t);
    }
    return ready;
}

/* Paused threads that need not be in an endless loop yet: they may have looked too early,
 * or pause for politeness. */
static uint32_t patient_set(void)
{
    uint32_t patient = 0;
    for (uint32_t set = m.paused; set; set &= set - 1) {
        const struct thread *t = &m.threads[__builtin_ctz(set)];
        if (t->pauses_alone < PAUSES_ALONE) patient |= bit(t);
    }
    return patient;
}

/* The thread with the n-th set bit, counted upwards from `first` and round. */
static struct thread *nth(uint32_t set, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < HDI_MODEL_THREADS_MAX; i++) {
        const unsigned at = (first + i) % HDI_MODEL_THREADS_MAX;
        if ((set >> at & 1) && n-- == 0) return &m.threads[at];
    }
    HD_CHECK_MSG(false, "model: no such thread");
    return NULL;
}

int64_t hdi_model_now(void)
{
    return m.now_ns;
}

void hdi_model_pass(int64_t until_ns)
{
    if (until_ns > m.now_ns) m.now_ns = until_ns;
}

/* A wait ends unasked. This is a step of its own: a later wake finds nobody. */
static void expire(struct thread *t)
{
    const bool timed = t->deadline_ns != INT64_MAX;
    if (timed) hdi_model_pass(t->deadline_ns);
    t->wait_result = timed ? -ETIMEDOUT : 0;
    hdi_model_record(HDI_STEP_EXPIRE, t->waits_on, NULL)->thread = (uint8_t)index_of(t);
    t->waits_on = NULL;
    m.enabled |= bit(t);
    m.sleepers &= ~bit(t);
    t->last_move = ++m.moves;
}

static struct thread *pick_thread(uint32_t ready, uint32_t sleepers)
{
    struct thread *const t = m.current;
    const bool can_stay = ready & bit(t);
    const unsigned n = (unsigned)__builtin_popcount(ready);
    const unsigned all = n + (unsigned)__builtin_popcount(sleepers);
    uint32_t costly = 0;
    if (all > 1 && n > 0) costly = ((1u << all) - 1) & ~((1u << (can_stay ? 1 : n)) - 1);
    const unsigned pick =
        hdi_model_choose(&(struct hdi_choice){.count = all, .costly[HDI_BUDGET_PREEMPT] = costly});
    if (pick < n) return nth(ready, index_of(t), pick); /* Starts with t itself. */
    struct thread *const sleeper = nth(sleepers, 0, pick - n);
    expire(sleeper);
    return sleeper;
}

/* Give the explorer the word. Returns when the calling thread is chosen. */
static void yield(void)
{
    struct thread *const t = m.current;
    if (m.alive == 0) leave();
    uint32_t ready = ready_set();
    if (hdi_unlikely(!(ready | m.sleepers))) {
        if (!m.enabled) fail_deadlock();
        ready = patient_set();
        if (!ready) {
            if (!hdi_mm_pending_any()) fail_spinning();
            hdi_mm_drain_all(); /* Only stores on their way can change anything now. */
            ready = m.enabled;
        }
    }
    struct thread *const next = pick_thread(ready, m.sleepers);
    if (m.paused & bit(next)) {
        m.paused &= ~bit(next);
        next->chosen = true;
    }
    if (next == t) return;
    m.current = next;
    hdi_switch(&t->sp, next->sp, NULL);
}

void hdi_model_point(void)
{
    struct thread *const t = m.current;
    if (t->chosen) {
        t->chosen = false;
    } else {
        yield();
    }
    count_step(t);
    t->last_operation = m.moves;
}

void hdi_model_unchoose(void)
{
    m.current->chosen = false;
}

void hdi_model_pause(void)
{
    struct thread *const t = m.current;
    if (!t) return;
    hdi_model_record(HDI_STEP_PAUSE, NULL, __builtin_return_address(0));
    count_step(t);
    t->pauses_alone++;
    t->yields_to = 0;
    for (unsigned i = 0; i < m.threads_used; i++) {
        const struct thread *u = &m.threads[i];
        if (u == t) continue;
        if (u->last_move > t->last_pause) t->pauses_alone = 0;
        if ((m.enabled & bit(u)) && u->last_move < t->last_pause) t->yields_to |= bit(u);
    }
    t->last_pause = m.moves;
    m.paused |= bit(t);
    yield();
}

/* ---- Futex ------------------------------------------------------------------------ */

int hdi_model_futex_wait(volatile void *addr, uint32_t expected, int64_t deadline_ns)
{
    struct thread *const t = m.current;
    if (!t) return -EAGAIN;
    hdi_model_point();
    const uint32_t value = hdi_mm_futex_word(addr);
    struct hdi_model_step *step =
        hdi_model_record(HDI_STEP_WAIT, addr, __builtin_return_address(0));
    step->before = value;
    step->after = expected;
    step->failed = value != expected;
    if (value != expected) return -EAGAIN;
    t->waits_on = addr;
    t->waits_since = m.waits++;
    t->deadline_ns = deadline_ns;
    m.enabled &= ~bit(t);
    if (deadline_ns != INT64_MAX || m.config.early_wakes) m.sleepers |= bit(t);
    yield();
    return t->wait_result;
}

static struct thread *longest_waiter(const volatile void *addr)
{
    struct thread *first = NULL;
    for (unsigned i = 0; i < m.threads_used; i++) {
        struct thread *t = &m.threads[i];
        if (t->waits_on != addr) continue;
        if (!first || t->waits_since < first->waits_since) first = t;
    }
    return first;
}

static void make_ready(struct thread *t)
{
    t->waits_on = NULL;
    t->joins = NULL;
    t->wait_result = 0;
    t->chosen = true;
    m.enabled |= bit(t);
    m.sleepers &= ~bit(t);
}

int hdi_model_futex_wake(volatile void *addr, int count)
{
    if (!m.current) return 0;
    hdi_model_point();
    hdi_mm_drain(hdi_model_self());
    int woken = 0;
    for (struct thread *t; woken < count && (t = longest_waiter(addr)); woken++) make_ready(t);
    struct hdi_model_step *step =
        hdi_model_record(HDI_STEP_WAKE, addr, __builtin_return_address(0));
    step->before = (uint64_t)count;
    step->after = (uint64_t)woken;
    return woken;
}

/* ---- Threads ---------------------------------------------------------------------- */

static void thread_main(void *arg)
{
    struct thread *const t = arg;
    t->entry(t->arg);
    HD_CHECK_MSG(m.current == t, "a model thread ended on another's stack");
    hdi_model_record(HDI_STEP_EXIT, NULL, NULL);
    t->ended = true;
    t->last_move = ++m.moves;
    m.enabled &= ~bit(t);
    m.alive--;
    for (unsigned i = 0; i < m.threads_used; i++) {
        if (m.threads[i].joins == t) make_ready(&m.threads[i]);
    }
    yield();
    __builtin_unreachable();
}

static struct thread *add_thread(void (*entry)(void *), void *arg)
{
    HD_CHECK_MSG(m.threads_used < HDI_MODEL_THREADS_MAX, "model: too many threads");
    struct thread *const t = &m.threads[m.threads_used++];
    void *const stack = t->stack;
    *t = (struct thread){.stack = stack, .entry = entry, .arg = arg, .chosen = true};
    t->sp = hdi_switch_prepare((char *)stack + STACK_BYTES, thread_main, t);
    m.enabled |= bit(t);
    m.alive++;
    return t;
}

/* Empty the own buffer; others may first look at it. */
static void drain_own(void)
{
    if (!hdi_mm_pending(hdi_model_self())) return;
    hdi_model_point();
    hdi_mm_drain(hdi_model_self());
}

void *hdi_model_thread_start(void (*entry)(void *), void *arg)
{
    HD_CHECK_MSG(m.current, "model: threads start inside a scenario only");
    drain_own();
    struct thread *const t = add_thread(entry, arg);
    hdi_model_unchoose(); /* The new thread may come first. */
    hdi_mm_thread_start(hdi_model_self(), index_of(t));
    hdi_model_record(HDI_STEP_START, NULL, __builtin_return_address(0))->after = index_of(t);
    return t;
}

void hdi_model_thread_join(void *thread)
{
    struct thread *const t = m.current, *const other = thread;
    HD_CHECK_MSG(t && other != t && index_of(other) < m.threads_used, "model: bad join");
    drain_own();
    if (!other->ended) {
        t->joins = other;
        m.enabled &= ~bit(t);
        yield();
    } else if (hdi_mm_pending(index_of(other))) {
        hdi_model_point();
    }
    hdi_mm_thread_join(index_of(t), index_of(other));
    hdi_model_record(HDI_STEP_JOIN, NULL, __builtin_return_address(0))->after = index_of(other);
}

void **hdi_model_thread_slot(void)
{
    return m.current ? &m.current->slot : &slot_outside;
}

/* ---- Runs ------------------------------------------------------------------------- */

static void map_stacks(void)
{
    for (unsigned i = 0; i < HDI_MODEL_THREADS_MAX; i++) {
        if (m.threads[i].stack) continue;
        char *base = hdi_memory_map(GUARD_BYTES + STACK_BYTES);
        HD_CHECK_MSG(base, "model: no memory for stacks");
        HD_CHECK(hdi_memory_guard_protect(&(struct iovec){base, GUARD_BYTES}) == 0);
        m.threads[i].stack = base + GUARD_BYTES;
    }
}

static void catch_signals(void)
{
    static char handler_stack[64 << 10];
    const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
    sigaltstack(&stack, NULL);
    const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_flags = SA_ONSTACK | SA_NODEFER};
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

static void run_execution(void (*body)(void *), void *arg)
{
    m.threads_used = m.alive = 0;
    m.enabled = m.paused = m.sleepers = 0;
    m.moves = m.waits = 0;
    m.now_ns = 0;
    m.records = m.names_used = 0;
    m.calm = false;
    hdi_mm_begin(m.config.memory);
    struct thread *const first = add_thread(body, arg);
    m.current = first;
    hdi_switch(&m.main_sp, first->sp, NULL);
}

void hdi_model_run(const struct hdi_model_config *config, void (*body)(void *), void *arg,
                   struct hdi_model_result *result)
{
    HD_CHECK(config->explore.steps_max > 0 && config->explore.steps_max <= STEPS_MOST);
    memset(result, 0, sizeof(*result));
    m.config = *config;
    m.result = result;
    map_stacks();
    catch_signals();
    hdi_fail_hook = on_check;
    hdi_search_init(&m.explore, &config->explore);
    while (result->verdict == HDI_VERDICT_PASS && hdi_search_begin(&m.explore)) {
        run_execution(body, arg);
        if (result->verdict != HDI_VERDICT_PASS || config->explore.mode == HDI_SEARCH_REPLAY) {
            hdi_search_format(&m.explore, result->replay, sizeof(result->replay));
        }
        if (hdi_search_end(&m.explore) != 0 && result->verdict == HDI_VERDICT_PASS) {
            result->verdict = HDI_VERDICT_DIVERGED;
            say("the execution ended before the list of decisions did");
        }
    }
    result->stats = m.explore.stats;
    hdi_search_fini(&m.explore);
    hdi_fail_hook = NULL;
}
