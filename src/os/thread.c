/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

int hdi_thread_pin(struct hdi_thread *thread, unsigned cpu)
{
    (void)thread, (void)cpu;
    return 0;
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

int hdi_thread_pin(struct hdi_thread *thread, unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= CPU_SETSIZE) return -EINVAL;
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(thread->id, sizeof(set), &set) == 0 ? 0 : -EINVAL;
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

unsigned hdi_thread_count(void)
{
    char stat[1024];
    const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t bytes = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    if (bytes <= 0) return 0;
    stat[bytes] = '\0';
    /* The name, in parentheses, may hold anything; 17 fields later comes the count. */
    const char *at = strrchr(stat, ')');
    unsigned threads = 0;
    if (!at || sscanf(at + 1, " %*c%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s %u",
                      &threads) != 1) {
        return 0;
    }
    return threads;
}
