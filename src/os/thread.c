/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <heddle/fork.h>

#include "os/sys.h"

/* A short file, as a string. Returns its length; -1 if it cannot be read. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const ssize_t bytes = read(fd, text, size - 1);
    close(fd);
    if (bytes >= 0) text[bytes] = '\0';
    return bytes;
}

static __thread alignas(64) char room[HDI_THREAD_ROOM_BYTES];

void *hdi_thread_room(void)
{
    return room;
}

/* Threads of a model share what is thread-local: there each fork takes the slow way, and looks at
 * its worker's own. */
static const uint32_t nobody = HDI_MODEL;

__thread const uint32_t *hd_work_wanted_ = &nobody;

__attribute__((noinline)) void hdi_thread_want(_Atomic(uint32_t) *wanted)
{
    __asm__ volatile("" ::: "memory");
    hd_work_wanted_ = wanted && !HDI_MODEL ? (const uint32_t *)wanted : &nobody;
}

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

int64_t hdi_thread_cpu_ns(const struct hdi_thread *thread)
{
    (void)thread;
    return 0;
}

bool hdi_thread_ready(struct hdi_thread *thread)
{
    (void)thread;
    return true;
}

void hdi_thread_send(const struct hdi_thread *thread, int signal_number, void *value)
{
    (void)thread, (void)signal_number, (void)value;
}

void hdi_thread_admit(int signal_number)
{
    (void)signal_number;
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
    hdi_store_relaxed(&thread->tid, (int32_t)gettid()); /* Who reads 0 asks later. */
    thread->entry(thread->arg);
    return NULL;
}

int hdi_thread_start(struct hdi_thread *thread, void (*entry)(void *), void *arg,
                     const char *name)
{
    thread->entry = entry;
    thread->arg = arg;
    hdi_store_relaxed(&thread->tid, 0);
    /* Signals belong to the program: its own threads handle them. Faults stay open: the
     * kernel kills a thread that faults while they are blocked, past any handler. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t most, saved;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&most, faults[i]);
    pthread_sigmask(SIG_SETMASK, &most, &saved);
    int err = hdi_sys_fails(NULL, "pthread_create");
    if (!err) err = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (err) return -EAGAIN;
    pthread_setname_np(thread->id, name);
    return 0;
}

void hdi_thread_join(struct hdi_thread *thread)
{
    pthread_join(thread->id, NULL);
    /* The kernel wakes who joins a moment before it has forgotten the thread, and whoever counts
     * threads then (hdi_thread_count()) would look once, too early. */
    const int32_t tid = hdi_load_relaxed(&thread->tid); /* Joining has ordered it. */
    const int before = errno;
    while (tgkill(getpid(), tid, 0) == 0) sched_yield();
    errno = before;
}

int hdi_thread_pin(struct hdi_thread *thread, unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= CPU_SETSIZE) return -EINVAL;
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(thread->id, sizeof(set), &set) == 0 ? 0 : -EINVAL;
}

int64_t hdi_thread_cpu_ns(const struct hdi_thread *thread)
{
    clockid_t clock;
    struct timespec used;
    if (pthread_getcpuclockid(thread->id, &clock) != 0) return 0; /* It has just ended. */
    if (clock_gettime(clock, &used) != 0) return 0;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

bool hdi_thread_ready(struct hdi_thread *thread)
{
    char path[64], stat[128];
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)hdi_load_relaxed(&thread->tid));
    const ssize_t bytes = read_file(path, stat, sizeof(stat));
    const char *at = bytes > 0 ? strrchr(stat, ')') : NULL; /* The name may hold anything. */
    return at && at[1] == ' ' && at[2] == 'R';
}

void hdi_thread_send(const struct hdi_thread *thread, int signal_number, void *value)
{
    (void)pthread_sigqueue(thread->id, signal_number, (union sigval){.sival_ptr = value});
}

void hdi_thread_admit(int signal_number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void hdi_thread_yield(void)
{
    sched_yield();
}
#endif

static __thread char note[HDI_NOTE_BYTES] __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) char *hdi_thread_note(void)
{
    char *address = note;
    __asm__ volatile("" : "+r"(address));
    return address;
}

static __thread bool flag __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) bool *hdi_thread_flag(void)
{
    bool *address = &flag;
    __asm__ volatile("" : "+r"(address));
    return address;
}

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
    if (read_file("/proc/self/stat", stat, sizeof(stat)) <= 0) return 0;
    /* The name, in parentheses, may hold anything; 17 fields later comes the count. */
    const char *at = strrchr(stat, ')');
    unsigned threads = 0;
    if (!at || sscanf(at + 1, " %*c%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s %u",
                      &threads) != 1) {
        return 0;
    }
    return threads;
}
