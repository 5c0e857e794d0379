/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#if HDI_MODEL
int hdi_thread_start(struct hdi_thread *thread, void (*entry)(void *), void *arg,
                     const char *name)
{
    (void)name;
    thread->model = hdi_model_thread_start(entry, arg);
    return 0;
}

void hdi_thread_join(struct hdi_thread *thread)
{
    hdi_model_thread_join(thread->model);
}

void hdi_thread_yield(void)
{
    hdi_model_pause();
}

void hdi_thread_set_self(void *self)
{
    *hdi_model_thread_slot() = self;
}

uintptr_t hdi_thread_id(void)
{
    return (uintptr_t)hdi_model_thread_slot();
}
#else
/* Read in thread.h by name. */
__thread void *hdi_thread_pointer __attribute__((tls_model("initial-exec"), used));

__attribute__((noinline)) void hdi_thread_set_self(void *self)
{
    __asm__ volatile("" ::: "memory");
    hdi_thread_pointer = self;
}

__attribute__((noinline)) uintptr_t hdi_thread_id(void)
{
    __asm__ volatile("" ::: "memory");
    return (uintptr_t)&hdi_thread_pointer;
}

static void *thread_main(void *arg)
{
    struct hdi_thread *thread = arg;
    thread->entry(thread->arg);
    return NULL;
}

int hdi_thread_start(struct hdi_thread *thread, void (*entry)(void *), void *arg,
                     const char *name)
{
    thread->entry = entry;
    thread->arg = arg;
    /* Signals belong to the program: its own threads handle them. Faults stay open: the
     * kernel kills a thread that faults while they are blocked, past any handler. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t most, saved;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&most, faults[i]);
    pthread_sigmask(SIG_SETMASK, &most, &saved);
    const int err = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (err) return -EAGAIN;
    pthread_setname_np(thread->id, name);
    return 0;
}

void hdi_thread_join(struct hdi_thread *thread)
{
    pthread_join(thread->id, NULL);
}

void hdi_thread_yield(void)
{
    sched_yield();
}
#endif

unsigned hdi_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}
