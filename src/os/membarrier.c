/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/membarrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/mutex.h"

bool hdi_barrier_asymmetric = HDI_MODEL;

void hdi_barrier_init(void)
{
#if !HDI_MODEL
    static struct hdi_mutex lock = HDI_MUTEX_INIT;
    static bool registered; /* lock */
    const int saved = errno;
    hdi_mutex_lock(&lock);
    if (!registered) {
        const long err = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
        hdi_barrier_asymmetric = err == 0;
        registered = true;
    }
    hdi_mutex_unlock(&lock);
    errno = saved;
#endif
}

bool hdi_barrier_heavy(void)
{
#if HDI_MODEL
    hdi_model_barrier_all();
    return true;
#else
    if (!hdi_barrier_asymmetric) {
        hdi_barrier_full();
        return true;
    }
    const int saved = errno;
    const long err = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    errno = saved;
    return err == 0;
#endif
}
