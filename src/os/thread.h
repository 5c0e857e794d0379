/* SPDX-License-Identifier: MIT
 *
 * thread: OS threads, and what is thread-local in the library: two pointers, and some room.
 *
 * A fiber may wake up on another thread, and compilers cache thread-local addresses
 * across calls they can see into. So the pointers are read by volatile assembly, which
 * they must repeat, and are asked for again after every switch.
 */
#ifndef HDI_OS_THREAD_H
#define HDI_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/atomics.h"

struct hdi_thread {
#if HDI_MODEL
    void *model;
#else
    pthread_t id;
    _Atomic(int32_t) tid; /* the kernel's name for it; 0 until it runs. Itself writes, relaxed */
#endif
    void (*entry)(void *arg);
    void *arg;
};

/* Start a thread with all signals blocked but faults. Returns: 0, or -EAGAIN. */
int hdi_thread_start(struct hdi_thread *thread, void (*entry)(void *), void *arg,
                     const char *name);

/* Returns when it has ended, and is not counted any more. */
void hdi_thread_join(struct hdi_thread *thread);

/* Keep it on one CPU. Returns: 0, -EINVAL if this process may not use that one. */
int hdi_thread_pin(struct hdi_thread *thread, unsigned cpu);

/* CPU time it has used. Context: any, before it is joined; as the next two. */
int64_t hdi_thread_cpu_ns(const struct hdi_thread *thread);

/* Whether it runs, or waits only for a CPU; false if it sleeps in the kernel, or if nobody can
 * tell. */
bool hdi_thread_ready(struct hdi_thread *thread);

/* Send it a signal, which it must have admitted, with this value in its siginfo_t, as a rule. */
void hdi_thread_send(const struct hdi_thread *thread, int signal_number, void *value);

/* Let signals of this number come to the calling thread. */
void hdi_thread_admit(int signal_number);

/* Let another OS thread run. */
void hdi_thread_yield(void);

/* CPUs this process may use, at least 1. */
unsigned hdi_cpu_count(void);

/* OS threads of this process; 0 if that cannot be told. */
unsigned hdi_thread_count(void);

/* The calling thread's own memory, zeroed at first. Context: a plain thread; no fiber may keep it.
 * Model threads share one. */
#define HDI_THREAD_ROOM_BYTES 256
void *hdi_thread_room(void);

extern __thread void *hdi_thread_pointer; /* only for the next function */

/* The calling thread's pointer; NULL until set. */
static inline void *hdi_thread_self(void)
{
#if HDI_MODEL
    return *hdi_model_thread_slot();
#else
    void *self;
#if defined(__x86_64__)
    __asm__ volatile("movq hdi_thread_pointer@gottpoff(%%rip), %0\n\t"
                     "movq %%fs:(%0), %0"
                     : "=r"(self));
#elif defined(__aarch64__)
    uintptr_t offset;
    __asm__ volatile("mrs %0, tpidr_el0\n\t"
                     "adrp %1, :gottprel:hdi_thread_pointer\n\t"
                     "ldr %1, [%1, #:gottprel_lo12:hdi_thread_pointer]\n\t"
                     "ldr %0, [%0, %1]"
                     : "=&r"(self), "=&r"(offset));
#endif
    return self;
#endif
}

void hdi_thread_set_self(void *self);

/* Where the calling thread's forks look whether somebody wants work (heddle/fork.h); NULL: nobody
 * does. */
void hdi_thread_want(_Atomic(uint32_t) *wanted);

/* Text of the calling thread's own, at first empty: what it was last refused, if it is a plain
 * one (scope/audit.c). */
#define HDI_NOTE_BYTES 160
char *hdi_thread_note(void);

/* A flag of the calling thread's own, at first false, for handlers of signals (sched/prod.c). */
bool *hdi_thread_flag(void);

/* A number that identifies the calling OS thread while it lives, never 0. */
uintptr_t hdi_thread_id(void);

#endif
