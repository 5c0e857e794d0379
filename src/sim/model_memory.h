/* SPDX-License-Identifier: MIT
 *
 * model_memory: store buffers, happens-before and freed memory of the model's threads.
 *
 * The other half of sim/model.c, which owns the threads; semantics in sim/model.h.
 */
#ifndef HDI_SIM_MODEL_MEMORY_H
#define HDI_SIM_MODEL_MEMORY_H

#include "sim/model.h"

/* Of sim/model_memory.c, for sim/model.c. */
void hdi_mm_begin(enum hdi_model_memory memory); /* a new execution */
void hdi_mm_thread_start(unsigned parent, unsigned child);
void hdi_mm_thread_join(unsigned joiner, unsigned ended); /* also drains what it left */
bool hdi_mm_pending(unsigned thread);
bool hdi_mm_pending_any(void);
void hdi_mm_drain(unsigned thread);
void hdi_mm_drain_all(void);
uint32_t hdi_mm_futex_word(const volatile void *addr); /* drains self first */

/* Of sim/model.c, for sim/model_memory.c. `self` is the running thread. */
unsigned hdi_model_self(void);
uint32_t hdi_model_last_operation(unsigned thread); /* step number */
uint32_t hdi_model_last_move(unsigned thread); /* the same, but pause and exit count too */
void hdi_model_point(void);                    /* let the explorer decide who goes on */
void hdi_model_unchoose(void);                 /* self's next operation needs a decision */
unsigned hdi_model_choose(const struct hdi_choice *choice);
struct hdi_model_step *hdi_model_record(enum hdi_step_kind kind, const volatile void *addr,
                                        const void *site);

#endif
