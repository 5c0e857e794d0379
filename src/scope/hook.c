/* SPDX-License-Identifier: MIT
 *
 * hook: checkpoints that a compiler puts anywhere into a program.
 *
 * They come where no call would: in functions that the library calls and that must not switch
 * (hdi_exec_call_out()), in stackless tasks, on plain threads, while locks of the thread are held.
 * Only a fiber's own code pays and gives way.
 */
#include <errno.h>

#include <heddle/budget.h>

#include "task/exec.h"

/* Not inlined: the fiber may go on with another thread's errno, and compilers take its address for
 * a constant. */
static __attribute__((noinline)) int get_errno(void)
{
    __asm__ volatile("" ::: "memory");
    return errno;
}

static __attribute__((noinline)) void set_errno(int value)
{
    __asm__ volatile("" ::: "memory");
    errno = value;
}

static __attribute__((noinline)) void checkpoint(const struct hdi_exec *exec,
                                                 const struct hd_task *task)
{
    if (exec->calls_out > 0 || task->kind != HDI_TASK_FIBER) return;
    if (task->unusual & HDI_UNUSUAL_HOLDS) return;
    const int saved = get_errno();
    (void)hd_checkpoint(1); /* Whoever wants to know asks. */
    set_errno(saved);
}

void hd_checkpoint_block(void)
{
    const struct hdi_exec *exec = hdi_exec_self();
    struct hd_task *task = exec ? exec->current : NULL;
    if (!task) return;
    /* Relaxed: what is missed is seen in the next block. */
    if (hdi_unlikely(hdi_load_relaxed(&task->word) & HDI_ATTENTION)) checkpoint(exec, task);
}
