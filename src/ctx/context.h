/* SPDX-License-Identifier: MIT
 *
 * context: a place to continue, with the hooks that sanitizers need around a switch.
 *
 * Owner      the thread that runs on it; while suspended, whoever may resume it.
 * Life       hdi_context_prepare(), then hdi_context_entered() first thing on the new
 *            stack, any number of hdi_context_switch(), one hdi_context_exit(), and
 *            hdi_context_fini() from another context. One that never ran goes straight
 *            to hdi_context_fini(). A thread's own context only knows
 *            hdi_context_init_thread() and hdi_context_switch().
 * Invariants CONTEXT-1: a context can be resumed exactly while it is suspended.
 *            CONTEXT-2: it is resumed at most once per suspension.
 * Rejected   asking pthread for a thread's stack bounds (AddressSanitizer wants them):
 *            the "thread" may itself be a fiber of another runtime. The bounds are
 *            learnt from the first switch away instead.
 *
 * In normal builds hdi_context_switch() is hdi_jump() and the rest is nothing; a build
 * with sanitizers calls hdi_switch().
 */
#ifndef HDI_CTX_CONTEXT_H
#define HDI_CTX_CONTEXT_H

#include <stddef.h>
#include <stdnoreturn.h>

#include "base/sanitizer.h"
#include "ctx/stack.h"

#define HDI_CONTEXT_JUMPS (!HDI_ASAN && !HDI_TSAN)

#if HDI_CONTEXT_JUMPS
#include "ctx/jump.h"
#else
#include "ctx/switch.h"
#endif

/* Hooks run between two contexts: a function of their own would be entered in one and
 * left in the other, which ThreadSanitizer counts. */
#define HDI_CONTEXT_INLINE_ static inline __attribute__((always_inline))

struct hdi_context {
#if HDI_CONTEXT_JUMPS
    struct hdi_jump jump;
#else
    void *sp; /* written by hdi_switch() */
#endif
#if HDI_ASAN
    void *fake_stack;              /* AddressSanitizer's, while suspended */
    const void *low;               /* NULL: a thread's, not learnt yet */
    size_t bytes;
    struct hdi_context *came_from; /* who switched here last */
#endif
#if HDI_TSAN
    void *fiber; /* ThreadSanitizer's, which knows about 8,000 at a time */
#endif
};

/* ---- the switch and its hooks ---- */

HDI_CONTEXT_INLINE_ void hdi_context_leave_(struct hdi_context *from, struct hdi_context *to,
                                            bool for_ever)
{
    (void)from, (void)to, (void)for_ever;
#if HDI_ASAN
    to->came_from = from;
    __sanitizer_start_switch_fiber(for_ever ? NULL : &from->fake_stack, to->low, to->bytes);
#endif
#if HDI_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

HDI_CONTEXT_INLINE_ void hdi_context_arrive_(struct hdi_context *self)
{
    (void)self;
#if HDI_ASAN
    const void *low;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self->fake_stack, &low, &bytes);
    if (!self->came_from->low) {
        self->came_from->low = low;
        self->came_from->bytes = bytes;
    }
#endif
}

HDI_CONTEXT_INLINE_ void hdi_context_change_(struct hdi_context *from, struct hdi_context *to)
{
#if HDI_CONTEXT_JUMPS
    hdi_jump(&from->jump, &to->jump);
#else
    (void)hdi_switch(&from->sp, to->sp, NULL);
#endif
}

/* ---- what callers use ---- */

/* Make `self` stand for the calling thread's own stack. */
static inline void hdi_context_init_thread(struct hdi_context *self)
{
    __builtin_memset(self, 0, sizeof(*self));
#if HDI_TSAN
    self->fiber = __tsan_get_current_fiber();
#endif
}

/* The first switch to `self` calls entry(arg) at the top of `stack`. entry must call
 * hdi_context_entered() first, and end in hdi_context_exit(). */
static inline void hdi_context_prepare(struct hdi_context *self, struct hdi_stack *stack,
                                       void (*entry)(void *), void *arg)
{
#if HDI_CONTEXT_JUMPS
    hdi_jump_prepare(&self->jump, stack->top, entry, arg);
#else
    *self = (struct hdi_context){.sp = hdi_switch_prepare(stack->top, entry, arg)};
#endif
#if HDI_ASAN
    self->low = stack->low;
    self->bytes = stack->bytes;
#endif
#if HDI_TSAN
    self->fiber = __tsan_create_fiber(0);
#endif
}

HDI_CONTEXT_INLINE_ void hdi_context_entered(struct hdi_context *self)
{
    hdi_context_arrive_(self);
}

/* Suspend `from`, which is the caller, and continue `to`. Returns when somebody switches
 * back, perhaps on another thread: thread-local addresses must be asked for again. */
HDI_CONTEXT_INLINE_ void hdi_context_switch(struct hdi_context *from, struct hdi_context *to)
{
    hdi_context_leave_(from, to, false);
    hdi_context_change_(from, to);
    hdi_context_arrive_(from);
}

/* Leave `from` for ever. The other side may then end it and reuse its stack. */
noreturn HDI_CONTEXT_INLINE_ void hdi_context_exit(struct hdi_context *from,
                                                   struct hdi_context *to)
{
    hdi_context_leave_(from, to, true);
    hdi_context_change_(from, to);
    __builtin_trap(); /* CONTEXT-2: nobody resumes it */
}

/* End a context that left for ever, or never ran. Not from inside itself. */
static inline void hdi_context_fini(struct hdi_context *self)
{
    (void)self;
#if HDI_TSAN
    __tsan_destroy_fiber(self->fiber);
    self->fiber = NULL;
#endif
}

#endif
