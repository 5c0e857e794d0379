/* SPDX-License-Identifier: MIT
 *
 * overflow: say which fiber overflowed its stack, before the process dies of it.
 *
 * Process-wide and refcounted: the first hdi_overflow_install() takes over SIGSEGV and
 * SIGBUS, the last hdi_overflow_uninstall() gives them back. Faults that are not an
 * overflow go to the handlers that were there before, as if this one were not.
 *
 * A fault handler cannot run on the stack that overflowed, so every thread that runs
 * fibers needs an alternate one: hdi_overflow_thread_init().
 */
#ifndef HDI_CTX_OVERFLOW_H
#define HDI_CTX_OVERFLOW_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <heddle/base.h>

struct hdi_overflow_info {
    uint64_t id;         /* the fiber */
    const char *name;    /* "" or NULL: none */
    const hd_site *site; /* NULL: unknown */
    size_t stack_bytes;
    bool job;            /* it runs a job (heddle/fork.h) */
};

/* Whether the calling thread's current fiber overflowed into `address`; if so, fills
 * `info`. Runs in a signal handler: may only look. */
typedef bool hdi_overflow_lookup(const void *address, struct hdi_overflow_info *info);

/* Every user in the process passes the same function.
 * Context: any thread.  Returns: 0, or -errno from sigaction(). */
HD_MUST_USE int hdi_overflow_install(hdi_overflow_lookup *lookup);
void hdi_overflow_uninstall(void);

/* The alternate signal stack of one thread. */
struct hdi_overflow_thread {
    void *base; /* NULL: the thread had one already, which stays */
    size_t bytes;
    stack_t previous;
};

/* Context: the thread itself, both.  Returns: 0, or -ENOMEM. */
HD_MUST_USE int hdi_overflow_thread_init(struct hdi_overflow_thread *thread);
void hdi_overflow_thread_fini(struct hdi_overflow_thread *thread);

/* Write the report to stderr. Async-signal-safe. */
void hdi_overflow_report(const struct hdi_overflow_info *info);

/* For canaries, which speak after the fact: report and abort. */
noreturn void hdi_overflow_die(const struct hdi_overflow_info *info);

#endif
