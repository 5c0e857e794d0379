/* SPDX-License-Identifier: MIT
 *
 * prod: the handler, and sending the signal.
 */
#include "sched/prod.h"

#include <errno.h>

#include "base/check.h"
#include "os/mutex.h"
#include "sched/runtime.h"

static struct hdi_mutex installing = HDI_MUTEX_INIT;
static unsigned users;            /* installing */
static struct sigaction previous; /* written before the handler can run, and then for ever */

/* One that was installed above ours, and passes on what it gets, stays there when ours goes, and is
 * below it when it comes again: so it may give us what it has from us. */
static void pass_on(int number, siginfo_t *what, void *machine)
{
    bool *passing = hdi_thread_flag();
    if (*passing) return;
    *passing = true;
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, what, machine);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number); /* By default the signal is ignored. */
    }
    *passing = false;
}

/* Whether it is one of ours, be it that another has done already what it was sent for. */
static bool is_sent(const siginfo_t *what)
{
    return what->si_code == SI_QUEUE && what->si_value.sival_ptr == &users;
}

/* One signal may stand for several that were sent. */
bool hdi_prod_take(const siginfo_t *what)
{
    const int saved = errno;
    struct hdi_worker *worker = hdi_worker_self();
    bool ours = hdi_stall_answer();
    if (worker && hdi_exchange_acq_rel(&worker->prodded, false)) {
        hdi_lane_prodded(worker);
        hdi_store_release(&worker->prods, hdi_load_relaxed(&worker->prods) + 1); /* P -> P */
        ours = true;
    }
    errno = saved;
    return ours || is_sent(what);
}

static void handle(int number, siginfo_t *what, void *machine)
{
    if (!hdi_prod_take(what)) pass_on(number, what, machine);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handle;
}

void hdi_prod_install(void)
{
    struct sigaction ours = {
        .sa_sigaction = handle,
        .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART,
    };
    sigemptyset(&ours.sa_mask);
    hdi_mutex_lock(&installing);
    if (users++ == 0) {
        struct sigaction before;
        HD_CHECK(sigaction(HDI_PROD_SIGNAL, NULL, &before) == 0);
        if (!is_ours(&before)) {
            previous = before;
            HD_CHECK(sigaction(HDI_PROD_SIGNAL, &ours, NULL) == 0);
        }
    }
    hdi_mutex_unlock(&installing);
}

/* Somebody may have installed a handler above ours: then theirs stays. */
void hdi_prod_uninstall(void)
{
    struct sigaction now;
    hdi_mutex_lock(&installing);
    HD_CHECK(users > 0);
    if (--users == 0 && sigaction(HDI_PROD_SIGNAL, NULL, &now) == 0 && is_ours(&now)) {
        HD_CHECK(sigaction(HDI_PROD_SIGNAL, &previous, NULL) == 0);
    }
    hdi_mutex_unlock(&installing);
}

/* Without a stack of its own the handler takes a fiber's, which has room for it as a rule. */
void hdi_prod_admit(struct hdi_worker *worker)
{
    struct hdi_overflow_thread *stack = &worker->overflow;
    if (!stack->base && hdi_overflow_thread_init(stack) != 0) stack->base = NULL;
    hdi_thread_admit(HDI_PROD_SIGNAL);
}

void hdi_prod_send(const struct hdi_worker *worker)
{
    hdi_thread_send(&worker->thread, HDI_PROD_SIGNAL, &users);
}

bool hdi_prod(struct hdi_worker *worker)
{
    enum { PATIENCE = 256 };
    const uint32_t before = hdi_load_acquire(&worker->prods);
    hdi_exchange_acq_rel(&worker->prodded, true);
    hdi_prod_send(worker);
    for (int i = 0; i < PATIENCE; i++) {
        if (hdi_load_acquire(&worker->prods) != before) return true; /* P <- P */
        hdi_thread_yield();
    }
    return false;
}
