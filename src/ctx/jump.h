/* SPDX-License-Identifier: MIT
 *
 * jump: the switch without a call, for the paths that switch millions of times a second.
 *
 * A CPU predicts returns with a stack of its own, which a switch cannot switch. A switch
 * that is called pushes an entry that nobody pops, or pops one that belongs to somebody
 * else: the next return is mispredicted either way. A jump from inside the suspending
 * function leaves the predictor alone, so that a fiber's return to its caller is
 * predicted as long as the scheduler's calls between two jumps are balanced: the
 * scheduler's loop should contain its jump, not call a function that does.
 *
 * Measured, one fiber and the scheduler there and back, and with 1,000 fibers in turn:
 * called with jmp 22 and 60 ns, called with ret 24 and 57 ns, jump 9 and 18 ns.
 *
 * The contract is SWITCH-1 to SWITCH-4 of ctx/switch.h; and
 *   JUMP-1  the compiler saves what lives in other registers, because all are declared
 *           overwritten; except the frame and base pointers, which it may have reserved
 *           and which are saved here.
 *   JUMP-2  nothing is pushed: the red zone below the suspended stack pointer stays.
 *   JUMP-3  hdi_jump_lost() is opaque to every compiler, being assembly. Without a call
 *           that might return, gcc takes for granted that inline assembly changes no
 *           static variable, and keeps them in registers across the jump.
 *
 * Not for instrumented builds: there clang addresses locals through a base pointer of
 * its choosing, and speed does not matter.
 */
#ifndef HDI_CTX_JUMP_H
#define HDI_CTX_JUMP_H

#include <stddef.h>

#include "base/check.h"

struct hdi_jump {
    void *sp;
    void *fp;   /* rbp, x29 */
    void *pc;   /* in debug builds NULL while it runs */
    void *base; /* rbx, x19 */
};
_Static_assert(offsetof(struct hdi_jump, fp) == 8 && offsetof(struct hdi_jump, pc) == 16 &&
                   offsetof(struct hdi_jump, base) == 24,
               "the assembly below knows them");

/* In switch_*.S. The first calls the function in `base` with the word at sp; the second
 * stops the program. */
void hdi_jump_start(void);
void hdi_jump_lost(void);

/* The first jump to `self` calls entry(arg) at `top` (16-aligned); it must not return. */
static inline void hdi_jump_prepare(struct hdi_jump *self, void *top, void (*entry)(void *),
                                    void *arg)
{
    void **sp = (void **)top - 2; /* SWITCH-2 */
    sp[0] = arg;
    *self = (struct hdi_jump){
        .sp = sp,
        .pc = __extension__(void *)hdi_jump_start,
        .base = __extension__(void *)entry,
    };
}

#if defined(__x86_64__)

#if defined(__CET__)
#define HDI_JUMP_LANDING_ "endbr64"
#else
#define HDI_JUMP_LANDING_ ""
#endif
#if defined(__AVX512F__)
#define HDI_JUMP_CLOBBERS_AVX512_                                                        \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",   \
        "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", \
        "k3", "k4", "k5", "k6", "k7"
#else
#define HDI_JUMP_CLOBBERS_AVX512_
#endif
#if defined(__APX_F__)
#error "jump.h does not know the registers of APX yet"
#endif

static inline __attribute__((always_inline)) void hdi_jump_(struct hdi_jump *from,
                                                            struct hdi_jump *to, void *pc)
{
    __asm__ volatile(
        "leaq 1f(%%rip), %%rax\n\t"
        "movq %%rsp, 0(%0)\n\t"
        "movq %%rbp, 8(%0)\n\t"
        "movq %%rax, 16(%0)\n\t"
        "movq %%rbx, 24(%0)\n\t"
        "movq 0(%1), %%rsp\n\t"
        "movq 8(%1), %%rbp\n\t"
        "movq 24(%1), %%rbx\n\t"
        "jmpq *%2\n"
        "1:\t" HDI_JUMP_LANDING_
        : "+D"(from), "+S"(to), "+d"(pc)
        :
        : "memory", "cc", "rax", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "xmm0", "xmm1",
          "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15" HDI_JUMP_CLOBBERS_AVX512_);
}

#elif defined(__aarch64__)

#if defined(__ARM_FEATURE_BTI_DEFAULT)
#define HDI_JUMP_LANDING_ "hint #36" /* bti j */
#else
#define HDI_JUMP_LANDING_ ""
#endif
#if defined(__ARM_FEATURE_SVE)
#define HDI_JUMP_CLOBBERS_SVE_                                                           \
    , "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12",   \
        "p13", "p14", "p15", "ffr"
#else
#define HDI_JUMP_CLOBBERS_SVE_
#endif

static inline __attribute__((always_inline)) void hdi_jump_(struct hdi_jump *from,
                                                            struct hdi_jump *to, void *pc)
{
    register struct hdi_jump *x0 __asm__("x0") = from;
    register struct hdi_jump *x1 __asm__("x1") = to;
    register void *x2 __asm__("x2") = pc;
    __asm__ volatile(
        "adr x9, 1f\n\t"
        "mov x10, sp\n\t"
        "stp x10, x29, [%0]\n\t"
        "stp x9, x19, [%0, #16]\n\t"
        "ldp x10, x29, [%1]\n\t"
        "ldr x19, [%1, #24]\n\t"
        "mov sp, x10\n\t"
        "br %2\n"
        "1:\t" HDI_JUMP_LANDING_
        : "+r"(x0), "+r"(x1), "+r"(x2)
        :
        : "memory", "cc", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
          "x14", "x15", "x16", "x17", "x18", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
          "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",
          "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31" HDI_JUMP_CLOBBERS_SVE_);
}

#else
#error "heddle needs x86_64 or aarch64"
#endif

/* Suspend here in *from and continue *to. Returns when somebody jumps to *from. */
static inline __attribute__((always_inline)) void hdi_jump(struct hdi_jump *from,
                                                           struct hdi_jump *to)
{
    void *pc = to->pc;
    if (hdi_unlikely(!pc)) hdi_jump_lost(); /* JUMP-3 */
#if HDI_DEBUG
    to->pc = NULL; /* resumed once per suspension */
#endif
    hdi_jump_(from, to, pc);
}

#endif
