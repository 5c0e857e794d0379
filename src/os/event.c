/* SPDX-License-Identifier: MIT */
#include "os/event.h"

#if HDI_MODEL

#include "os/futex.h"

static _Atomic(uint32_t) raised;

int hdi_event_open(struct hd_runtime *runtime)
{
    (void)runtime;
    hdi_store_relaxed(&raised, 0); /* Nobody else knows it yet. */
    return 0;
}

/* As in the kernel, who wakes by it has seen all that was written before it was raised. */
void hdi_event_raise(int fd)
{
    (void)fd;
    (void)hdi_exchange_acq_rel(&raised, 1);
    (void)hdi_futex_wake(&raised, 1);
}

void hdi_event_clear(int fd)
{
    (void)fd;
    (void)hdi_exchange_acq_rel(&raised, 0);
}

void hdi_event_wait(int fd, int64_t deadline_ns)
{
    (void)fd;
    if (!hdi_load_acquire(&raised)) (void)hdi_futex_wait(&raised, 0, deadline_ns);
}

#else

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/sys.h"

int hdi_event_open(struct hd_runtime *runtime)
{
    return hdi_live(runtime, eventfd, 0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void hdi_event_raise(int fd)
{
    const int before = errno;
    const uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
    errno = before;
}

void hdi_event_clear(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR) continue;
}

#endif
