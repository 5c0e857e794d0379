/* SPDX-License-Identifier: MIT
 *
 * switch: leave one stack and continue on another.
 *
 * The contract, tested register by register in tests/ctx/:
 *   SWITCH-1  Callee-saved registers hold for the context that resumes what they held
 *             when it left: rbx rbp r12-r15 and rsp on x86_64; x19-x30, sp and d8-d15
 *             on aarch64. All others are the caller's to save, as in any call.
 *   SWITCH-2  A new context enters with its stack aligned as after a call, with the
 *             argument in the first argument register, called from an outermost
 *             frame where debuggers and unwinders stop.
 *   SWITCH-3  FP control words (MXCSR and x87, FPCR) are not touched: contexts share
 *             the thread's. A fiber that wants its own uses ctx/fp.h around switches.
 *   SWITCH-4  The context is complete in memory once the other side runs, and not
 *             before: only code on the other side may make it resumable by others.
 *   SWITCH-5  The resumed side is reached by an indirect jump, not a return: between
 *             two places that resume each other a jump is predicted, a return is not.
 *
 * Normal builds switch with ctx/jump.h, which costs half as much; this one is for code
 * that needs a function: instrumented builds, and the model checker.
 */
#ifndef HDI_CTX_SWITCH_H
#define HDI_CTX_SWITCH_H

/* Save this context's stack pointer in *save and continue the one in `load`. Returns
 * when somebody switches back to *save, with the value they passed. */
void *hdi_switch(void **save, void *load, void *pass);

/* Prepare a context at the top of a stack (16-aligned): the first switch to the
 * returned pointer calls entry(arg), which must not return. */
void *hdi_switch_prepare(void *top, void (*entry)(void *), void *arg);

#endif
