/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

bool hdi_barrier_asymmetric = HDI_MODEL;

void hdi_barrier_init(void)
{
#if !HDI_MODEL
    static _Atomic(bool) registered; /* monotonic: set once, to the same value by all */
    if (hdi_load_acquire(&registered)) return;
    const long err = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    if (err == 0) hdi_barrier_asymmetric = true;
    hdi_store_release(&registered, true);
#endif
}

void hdi_barrier_heavy(void)
{
#if HDI_MODEL
    hdi_model_barrier_all();
#else
    if (hdi_barrier_asymmetric) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    } else {
        hdi_barrier_full();
    }
#endif
}

void hdi_barrier_full(void)
{
    /* An exchange on a private word orders like a fence and ThreadSanitizer sees it. */
    _Atomic(uint32_t) word = 0;
    (void)hdi_exchange_seq_cst(&word, 1);
}
