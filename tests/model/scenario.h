/* SPDX-License-Identifier: MIT
 *
 * scenario: how to write a program for the model checker.
 *
 *   static void thief(void *arg) { struct hdi_ring *ring = arg; ... }
 *
 *   MODEL(ring_two_thieves, .sc = 3, .tso = 2, .pso = 2, .kills = "ring_abandon ring_narrow")
 *   {
 *       struct hdi_ring ring;
 *       hdi_ring_init(&ring, false);
 *       MODEL_NAME(ring.head);
 *       void *t = model_thread(thief, &ring);
 *       ... use the ring as its owner ...
 *       model_join(t);
 *       MODEL_CHECK(model_live() == 0);
 *   }
 *
 * The body is model thread 0 and runs once per interleaving, as often as a million times:
 *   - Keep it small: three threads of ten atomic operations each are plenty. The work grows
 *     with steps^preemptions.
 *   - Initialise everything in the body, statics too. State that survives an execution
 *     gives the verdict "diverged". Locals of the body are the best shared state: they live
 *     until the body returns, so join every thread before that.
 *   - The clock is the model's: it stands still but for waits that time out, and model_pass().
 *   - What leads nowhere else: no randomness, no addresses as numbers.
 *   - Code between two atomic operations runs at once. Data handed from thread to thread
 *     without being atomic goes through MODEL_READ and MODEL_WRITE, which check that the
 *     hand-over is ordered, in every memory mode.
 *   - malloc() works; model_alloc() also finds uses after model_free().
 *   - At most HDI_MODEL_THREADS_MAX threads, the body's included.
 *
 * An execution passes if every thread ends and nothing objected. What can object: HD_CHECK
 * and HDI_ASSERT in the library, MODEL_CHECK here, deadlock, livelock, a race, memory used
 * after free, a crash. sim/model.h has the semantics and the limits.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "base/atomics.h"
#include "base/check.h"
#include "sim/model.h"

#define MODEL_ALL 255 /* every interleaving, no preemption bound */

struct model_scenario {
    const char *name;
    const char *file;
    void (*body)(void *unused);

    /* Preemption bound by memory mode; 0 leaves the mode out. */
    uint8_t sc, tso, pso;

    /* Optional. */
    uint8_t delays;          /* how many stores may be passed; 2 by default */
    bool early_wakes;        /* futex waits may also return without a wake */
    uint32_t steps;          /* cap per execution, then it is a livelock; 1000 by default */
    uint64_t cap;            /* interleavings per mode; 2 million by default. A capped mode
                              * adds a tenth of that as a random walk without bounds */
    enum hdi_verdict expect; /* the verdict that must be found, for checks of the checker */
    const char *kills;       /* mutants it is expected to find, separated by spaces */

    struct model_scenario *next;
};

void model_register(struct model_scenario *scenario);

#define MODEL(id, ...)                                                                   \
    static void model_body_##id(void *unused);                                           \
    static struct model_scenario model_scenario_##id = {                                 \
        .name = #id, .file = __FILE__, .body = model_body_##id, __VA_ARGS__};            \
    __attribute__((constructor)) static void model_register_##id(void)                   \
    {                                                                                    \
        model_register(&model_scenario_##id);                                            \
    }                                                                                    \
    static void model_body_##id(__attribute__((unused)) void *unused)

/* Start and join a model thread. The trace names it after its function. */
#define model_thread(entry, arg)                                                         \
    (__extension__({                                                                     \
        void *const thread_ = hdi_model_thread_start(entry, arg);                        \
        hdi_model_name_thread(thread_, #entry);                                          \
        thread_;                                                                         \
    }))
#define model_join(thread) hdi_model_thread_join(thread)

/* End the execution with a verdict unless the condition holds. */
#define MODEL_CHECK(cond)                                                                \
    ((cond) ? (void)0 : hdi_model_fail(HDI_VERDICT_CHECK, __FILE__, __LINE__, #cond))
#define MODEL_EQUAL(a, b)                                                                \
    model_equal_((long long)(a), (long long)(b), #a, #b, __FILE__, __LINE__)
void model_equal_(long long a, long long b, const char *a_text, const char *b_text,
                  const char *file, int line);

/* Read and write plain data that threads hand to each other. */
#define MODEL_READ(x) (hdi_model_plain(&(x), false, __FILE__, __LINE__), (x))
#define MODEL_WRITE(x, value)                                                            \
    (__extension__({                                                                     \
        const __typeof__(x) value_ = (value);                                            \
        hdi_model_plain(&(x), true, __FILE__, __LINE__);                                 \
        (x) = value_;                                                                    \
    }))

/* Zeroed memory of this execution. Using it after the free, or freeing it twice, is a
 * verdict; model_live() counts blocks that were not freed. */
#define model_alloc(bytes) hdi_model_alloc(bytes)
#define model_free(block)  hdi_model_free(block)
#define model_live()       hdi_model_live()

/* A value in [0, count), all of which are explored. */
#define model_any(count) hdi_model_any(count)

/* While calm nothing is explored: for setting the stage, and clearing it away. */
#define model_calm(calm) hdi_model_calm(calm)

/* Let time pass until then. */
#define model_pass(until_ns) hdi_model_pass(until_ns)

/* For the trace: name an object (its parts then show as name+offset), leave a remark. */
#define MODEL_NAME(object)     hdi_model_name(&(object), sizeof(object), #object)
#define MODEL_NOTE(text, value) hdi_model_note(text, (uint64_t)(value))

#endif
