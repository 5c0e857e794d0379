/* SPDX-License-Identifier: MIT
 *
 * model: runs the library's own lock-free code under the explorer, in model builds.
 *
 * Model threads are contexts on one OS thread. Each operation of base/atomics.h, os/futex.h
 * and os/thread.h arrives here (base/model_hooks.h) and is a scheduling point: the explorer
 * decides whose pending operation happens next. Code between two operations runs at once,
 * so whatever threads share must be atomic, or be announced with hdi_model_plain().
 *
 * SCHEDULING
 *   - Going on with the current thread is free. Leaving it while it could go on costs one
 *     preemption. When it blocks, pauses or ends, any ready thread may follow for free.
 *   - A thread that pauses (hdi_cpu_relax) is not run again before another has moved, nor
 *     before every thread that was ready all along since its last pause has moved once;
 *     if no other can move, it goes on, but not for many pauses in a row. So spin loops
 *     end, and an endless one is found or runs into the step cap.
 *   - A futex wake takes waiters in the order they came, as Linux does. A timed wait may
 *     time out at any point for one preemption, and for free when nothing else can happen.
 *     With `early_wakes` every wait may also return 0 without a wake, for one preemption.
 *   - The clock stands at 0. When a wait times out it moves on to the wait's deadline.
 *   - Thread start, join of an ended thread and a buffered store are no scheduling points:
 *     no other thread can tell when they happen. Neither is the return from a wait: the
 *     thread is chosen once, for its next operation.
 *
 * MEMORY
 *   SC    A store is in memory at once.
 *   TSO   What x86 does. Stores below seq_cst go into the thread's buffer and reach memory
 *         in order, later. Loads look into the own buffer first. A seq_cst store and every
 *         read-modify-write empty the own buffer first.
 *   PSO   Nearer to C11. Stores to different addresses may also reach memory out of order;
 *         a release store comes after all earlier ones of its thread. A seq_cst store is
 *         buffered like a release store, and a seq_cst load or read-modify-write of the same
 *         thread waits for it: seq_cst on one side only is not enough here. A read-
 *         modify-write below release waits for stores to its own address only.
 *   In all modes futex calls, start and join empty the own buffer, and os/membarrier.h's
 *   heavy barrier empties all. Loads are never reordered with later operations; what an
 *   acquire guards is checked by happens-before instead, see hdi_model_plain().
 *
 *   A buffered store reaches memory at the last moment at which it makes a difference: when
 *   another thread accesses its address. Then the explorer chooses between "it arrived in
 *   time" and "it is still on its way". Moving it so late loses nothing, because until then
 *   no step depends on it. Which stores are in question is a closure: those to the accessed
 *   address, those that must arrive before them, those to the same addresses, and so on.
 *   Arrival in the order of issue is free. Anything else costs one delay, except passing a
 *   store whose thread has done nothing visible since: in SC it would not have happened
 *   yet. A buffer holds HDI_MODEL_BUFFER stores; the oldest leaves when it is full.
 *
 * HAPPENS-BEFORE
 *   Vector clocks follow C11 (release to acquire, release sequences through read-modify-
 *   writes, start, join, membarrier). A futex wake orders nothing. hdi_model_plain() reports
 *   two unordered plain accesses, in every mode.
 *
 * VERDICTS end the run at the first execution that has one; its memory is abandoned.
 *
 * One model per process. Outside an execution every hook does the plain operation.
 */
#ifndef HDI_SIM_MODEL_H
#define HDI_SIM_MODEL_H

#include <stdnoreturn.h>

#include "base/model_hooks.h"
#include "sim/search.h"

#define HDI_MODEL_THREADS_MAX 8
#define HDI_MODEL_BUFFER      8
#define HDI_MODEL_TRACE       4096 /* steps kept; the oldest go */

enum hdi_model_memory { HDI_MEMORY_SC, HDI_MEMORY_TSO, HDI_MEMORY_PSO, HDI_MEMORY_MODES };

enum hdi_verdict {
    HDI_VERDICT_PASS,
    HDI_VERDICT_CHECK,    /* HD_CHECK, HDI_ASSERT or a check of the scenario */
    HDI_VERDICT_DEADLOCK, /* nobody can move and not all have ended */
    HDI_VERDICT_LIVELOCK, /* step cap, or a thread that spins alone */
    HDI_VERDICT_RACE,     /* two plain accesses without happens-before */
    HDI_VERDICT_FREED,    /* memory used after, or freed twice */
    HDI_VERDICT_CRASH,    /* a signal */
    HDI_VERDICT_DIVERGED, /* the same decisions led elsewhere: hidden state, or a wrong list */
};

struct hdi_model_config {
    struct hdi_search_config explore;
    enum hdi_model_memory memory;
    bool early_wakes;
};

struct hdi_model_result {
    enum hdi_verdict verdict;
    struct hdi_search_stats stats;
    const char *file; /* where the verdict was given, or NULL */
    int line;
    char text[256];
    char replay[8192]; /* the decisions, for hdi_search_parse() */
};

/* Run body(arg) as thread 0 in every execution that the configuration asks for. An
 * execution ends when all its threads have ended. */
void hdi_model_run(const struct hdi_model_config *config, void (*body)(void *), void *arg,
                   struct hdi_model_result *result);

/* Inside an execution. ------------------------------------------------------------- */

bool hdi_model_active(void);
noreturn void hdi_model_fail(enum hdi_verdict verdict, const char *file, int line,
                             const char *text);

/* Blocks of hdi_model_alloc() not freed. */
unsigned hdi_model_live(void);

/* A free alternative of the scenario itself: explores every value in [0, count). */
unsigned hdi_model_any(unsigned count);

/* While calm, every decision is the first alternative: threads run until they block or
 * pause, stores arrive in order. For what is not the scenario's subject, like starting and
 * stopping a runtime; each execution begins with it off. */
void hdi_model_calm(bool calm);

/* Let time pass: hdi_clock_now() is at least until_ns from now on. Not a scheduling point. */
void hdi_model_pass(int64_t until_ns);

/* For the trace: the name of an object, of a thread (NULL is the caller), a remark.
 * Strings are kept, not copied. */
void hdi_model_name(const volatile void *addr, size_t bytes, const char *name);
void hdi_model_name_thread(void *thread, const char *name);
void hdi_model_note(const char *text, uint64_t value);

/* After a run: what the last execution did. ------------------------------------------- */

enum hdi_step_kind {
    HDI_STEP_LOAD,
    HDI_STEP_FORWARD, /* a load from the own buffer */
    HDI_STEP_STORE,
    HDI_STEP_BUFFER, /* a store into the buffer; arrives with its COMMIT */
    HDI_STEP_COMMIT,
    HDI_STEP_RMW,
    HDI_STEP_CAS,
    HDI_STEP_PAUSE,
    HDI_STEP_BARRIER,
    HDI_STEP_WAIT,
    HDI_STEP_WAKE,
    HDI_STEP_EXPIRE, /* a wait times out or returns early */
    HDI_STEP_START,
    HDI_STEP_JOIN,
    HDI_STEP_EXIT,
    HDI_STEP_PLAIN_READ,
    HDI_STEP_PLAIN_WRITE,
    HDI_STEP_FREE,
    HDI_STEP_TOUCH, /* an access to freed memory that did not happen */
    HDI_STEP_NOTE,
};

struct hdi_model_step {
    const volatile void *addr; /* NOTE: the text */
    const void *site;          /* return address into the code under test, or NULL */
    uint64_t before, after;    /* memory's value, or argument and result */
    uint8_t thread;
    uint8_t kind; /* enum hdi_step_kind */
    uint8_t order;
    uint8_t op; /* RMW: enum hdi_model_rmw_op */
    bool failed; /* CAS lost, WAIT returned at once */
};

/* Returns: how many steps there are; step `i` of them, the oldest being 0. */
size_t hdi_model_trace_count(void);
const struct hdi_model_step *hdi_model_trace_step(size_t i);
const char *hdi_model_thread_name(unsigned thread); /* NULL if it has none */

/* The name of the object at addr, and the offset in it; NULL if it has none. */
const char *hdi_model_object(const volatile void *addr, size_t *offset);

#endif
