/* SPDX-License-Identifier: MIT
 *
 * fp: the floating-point control words, for fibers that keep their own (HD_SAVE_FP).
 *
 * Both ABIs call them preserved across calls, and a switch is a call; yet saving them
 * on every switch costs several times the switch. So contexts share the thread's
 * (SWITCH-3), and a flagged fiber has its own saved when it leaves and loaded when it
 * returns, by the scheduler, which keeps its own pair in between.
 *
 * On x86_64 the sticky exception flags live in MXCSR too and travel with it; on aarch64
 * they are in FPSR and stay with the thread.
 */
#ifndef HDI_CTX_FP_H
#define HDI_CTX_FP_H

#include <stdint.h>

#if defined(__x86_64__)

struct hdi_fp_control {
    uint32_t mxcsr;
    uint16_t x87;
};

static inline void hdi_fp_save(struct hdi_fp_control *fp)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(fp->mxcsr), "=m"(fp->x87) : : "memory");
}

static inline void hdi_fp_load(const struct hdi_fp_control *fp)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(fp->mxcsr), "m"(fp->x87) : "memory");
}

#elif defined(__aarch64__)

struct hdi_fp_control {
    uint64_t fpcr;
};

static inline void hdi_fp_save(struct hdi_fp_control *fp)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(fp->fpcr) : : "memory");
}

static inline void hdi_fp_load(const struct hdi_fp_control *fp)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(fp->fpcr) : "memory");
}

#else
#error "heddle needs x86_64 or aarch64"
#endif

#endif
