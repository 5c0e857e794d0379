/* SPDX-License-Identifier: MIT
 *
 * signal: signals of the process as items of channels.
 *
 * In live one handler, the same for all signals that some channel wants, notes the signal in a
 * word and rings a bell, an eventfd; a thread of its own waits for the bell and sends to the
 * channels. It is there while a channel is open.
 *
 *   handler, on any thread                  thread
 *   1. inside + 1                           1. wait for the bell
 *   2. pending |= signal          (P)       2. pending -> 0                (P)
 *   3. ring the bell, if there is one (B)   3. send to all channels that want it
 *   4. inside - 1
 *
 *   SIG-1  The list of channels is changed and walked under `list_lock`, so nobody sends to a
 *          channel that is gone. Handlers, bell and thread are changed under `life_lock` too,
 *          which is taken first.
 *   SIG-2  The bell is taken away before it is closed, and closed when no handler is inside: one
 *          that began earlier would write into whatever has its number then.
 *
 * Threads of the library block all signals, so the program's own run the handler; and the thread
 * here, in its wait only, in case all others block them.
 *
 * Rejected
 *   A signalfd: it needs the signals blocked in every thread of the program.
 *   A task that reads the bell: it would keep its runtime from being quiet, and each runtime
 *   would need one.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <heddle/process.h>

#include "io/signals.h"
#include "io/source.h"
#include "os/event.h"
#include "os/mutex.h"
#include "os/thread.h"
#include "sched/prod.h"
#include "sync/chan.h"

enum { SIGNALS_MAX = 64 }; /* they are numbered from 1 */

struct subscription {
    struct hdi_list link;    /* first; SIG-1 */
    struct hd_runtime *sim;  /* the simulated runtime it gets them from; NULL: live */
    uint32_t process;        /* and which of its processes; 0: the program itself */
    struct hd_chan *chan;
    uint64_t wanted;         /* bit n - 1: signal n */
};

static struct hdi_mutex life_lock = HDI_MUTEX_INIT;
static struct hdi_mutex list_lock = HDI_MUTEX_INIT;
static struct hdi_list subscriptions = {&subscriptions, &subscriptions}; /* list_lock */
static unsigned users[SIGNALS_MAX + 1];           /* life_lock: live channels of each signal */
static struct sigaction before[SIGNALS_MAX + 1];  /* life_lock: what was there */
static struct hdi_thread thread;                  /* life_lock */
static _Atomic(uint64_t) pending;                 /* as `wanted`; see above */
static _Atomic(uint32_t) inside;                  /* handlers that run; SIG-2 */
static _Atomic(int) bell = -1;                    /* life_lock writes; SIG-2 */

static uint64_t bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

/* ---- channels ---- */

/* Context: the channel's lock. */
static bool waits_already(const struct hd_chan *chan, int number)
{
    const int *items = (const int *)(const void *)chan->ring;
    for (uint32_t i = 0; i < chan->count; i++) {
        if (items[(chan->head + i) % chan->capacity] == number) return true;
    }
    return false;
}

static void send_to(struct hd_chan *chan, int number, struct hdi_wakeups *wakeups)
{
    hdi_lock_take(&chan->base.lock);
    if (!waits_already(chan, number)) {
        (void)hdi_chan_send_batch(chan, &number, 1, wakeups); /* There is room, or it is closed. */
    }
    hdi_lock_give(&chan->base.lock);
}

static bool is_of(const struct subscription *subscription, const struct hd_runtime *sim,
                  uint32_t process)
{
    return subscription->sim == sim && subscription->process == process;
}

/* Send to all channels of a process of a simulated runtime, or, with NULL, to all in live. Returns
 * which of them somebody wants. */
static uint64_t send_all(const struct hd_runtime *sim, uint32_t process, uint64_t signals)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    uint64_t sent = 0;
    hdi_mutex_lock(&list_lock);
    for (struct hdi_list *link = subscriptions.next; link != &subscriptions; link = link->next) {
        const struct subscription *to = (const struct subscription *)link;
        const uint64_t wanted = is_of(to, sim, process) ? to->wanted & signals : 0;
        for (int number = 1; wanted && number <= SIGNALS_MAX; number++) {
            if (wanted & bit(number)) send_to(to->chan, number, &wakeups);
        }
        sent |= wanted;
    }
    hdi_mutex_unlock(&list_lock);
    hdi_wakeups_go(&wakeups);
    return sent;
}

/* ---- handler and thread ---- */

static void ring(void)
{
    const int fd = hdi_load_seq_cst(&bell); /* B */
    if (fd >= 0) hdi_event_raise(fd);
}

static void on_signal(int number, siginfo_t *what, void *machine)
{
    (void)machine;
    if (number == HDI_PROD_SIGNAL && hdi_prod_take(what)) return;
    hdi_fetch_add_seq_cst(&inside, 1); /* B: before the bell is looked at */
    hdi_fetch_or_acq_rel(&pending, bit(number)); /* P */
    ring();
    hdi_fetch_sub_acq_rel(&inside, 1);
}

/* All that live channels want. */
static uint64_t wanted_now(void)
{
    uint64_t wanted = 0;
    hdi_mutex_lock(&list_lock);
    for (struct hdi_list *link = subscriptions.next; link != &subscriptions; link = link->next) {
        const struct subscription *of = (const struct subscription *)link;
        if (!of->sim) wanted |= of->wanted;
    }
    hdi_mutex_unlock(&list_lock);
    return wanted;
}

/* Until the bell rings, or a signal comes to this thread; or the kernel says something else. */
static void wait_for_bell(uint64_t wanted)
{
    sigset_t blocked;
    sigfillset(&blocked);
    for (int number = 1; number <= SIGNALS_MAX; number++) {
        if (wanted & bit(number)) sigdelset(&blocked, number);
    }
    struct pollfd entry = {.fd = hdi_load_seq_cst(&bell), .events = POLLIN};
    if (hdi_live(NULL, ppoll, &entry, 1, NULL, &blocked) > 0) hdi_event_clear(entry.fd);
}

static void thread_main(void *arg)
{
    (void)arg;
    for (uint64_t wanted; (wanted = wanted_now()) != 0;) {
        wait_for_bell(wanted);
        (void)send_all(NULL, 0, hdi_exchange_acq_rel(&pending, 0)); /* P */
    }
}

/* ---- live: context: life_lock ---- */

/* No handler of ours is installed. */
static int make_bell(void)
{
    const int fd = hdi_event_open(NULL);
    if (fd < 0) return fd;
    hdi_store_relaxed(&pending, 0); /* What came too late for those before. */
    hdi_store_seq_cst(&bell, fd);
    return 0;
}

static void end_bell(void)
{
    const int fd = hdi_load_relaxed(&bell);
    hdi_store_seq_cst(&bell, -1);                               /* B */
    while (hdi_load_seq_cst(&inside) > 0) hdi_thread_yield();   /* B; SIG-2 */
    close(fd);
}

/* Somebody may have installed a handler above ours, be it sched/prod.c: then theirs stays. */
static void put_back(int number)
{
    struct sigaction now;
    HD_CHECK(sigaction(number, NULL, &now) == 0);
    const bool ours = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal;
    if (ours) (void)sigaction(number, &before[number], NULL);
}

static void uninstall(uint64_t wanted)
{
    for (int number = 1; number <= SIGNALS_MAX; number++) {
        if (!(wanted & bit(number)) || --users[number] > 0) continue;
        put_back(number);
    }
}

static int install(uint64_t wanted)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    for (int number = 1; number <= SIGNALS_MAX; number++) {
        if (!(wanted & bit(number)) || users[number]++ > 0) continue;
        const int err = hdi_live(NULL, sigaction, number, &action, &before[number]);
        if (!err) continue;
        users[number] = 0;
        uninstall(wanted & (bit(number) - 1));
        return err;
    }
    return 0;
}

static void put_in(struct subscription *subscription)
{
    hdi_mutex_lock(&list_lock);
    hdi_list_push_back(&subscriptions, &subscription->link);
    hdi_mutex_unlock(&list_lock);
}

static void take_out(struct subscription *subscription)
{
    hdi_mutex_lock(&list_lock);
    hdi_list_remove(&subscription->link);
    hdi_mutex_unlock(&list_lock);
}

/* Returns: 0, -errno; then it is not in. */
static int begin_live(struct subscription *subscription)
{
    const bool first = hdi_load_relaxed(&bell) < 0;
    int err = first ? make_bell() : 0;
    if (err) return err;
    put_in(subscription);
    err = install(subscription->wanted);
    if (!err && first) {
        err = hdi_thread_start(&thread, thread_main, NULL, "heddle-signals");
        if (err) uninstall(subscription->wanted);
    }
    if (!err) {
        ring(); /* The thread lets them come to it, too. */
        return 0;
    }
    take_out(subscription);
    if (first) end_bell();
    return err;
}

static void end_live(struct subscription *subscription)
{
    take_out(subscription);
    const bool last = wanted_now() == 0;
    ring();
    if (last) hdi_thread_join(&thread);
    uninstall(subscription->wanted);
    if (last) end_bell();
}

/* ---- the calls ---- */

/* Those that cannot be caught; and those of faults, which the thread that faulted handles. */
static bool can_be_had(int number)
{
    static const int not[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    if (number < 1 || number > SIGNALS_MAX) return false;
    for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++) {
        if (number == not[i]) return false;
    }
    return true;
}

static uint64_t bits_of(const int *signals, unsigned count)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!can_be_had(signals[i])) return 0;
        bits |= bit(signals[i]);
    }
    return bits;
}

static struct hd_runtime *simulated(struct hd_runtime *runtime)
{
    return runtime && runtime->world->kind == HD_WORLD_SIM ? runtime : NULL;
}

static int begin(struct subscription *subscription)
{
    if (subscription->sim) {
        put_in(subscription);
        return 0;
    }
    hdi_mutex_lock(&life_lock);
    const int err = begin_live(subscription);
    hdi_mutex_unlock(&life_lock);
    return err;
}

int hd_signal_open(hd_chan **chan, const int *signals, unsigned count)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    const uint64_t wanted = bits_of(signals, count);
    if (!runtime || wanted == 0) return -EINVAL;
    struct subscription *subscription = malloc(sizeof(*subscription));
    if (!subscription) return -ENOMEM;
    const struct hdi_process *process = hdi_io_process(runtime);
    *subscription = (struct subscription){.sim = simulated(runtime), .wanted = wanted};
    if (process) subscription->process = process->number;
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = (size_t)__builtin_popcountll(wanted);
    int err = hd_chan_create_with(&subscription->chan, sizeof(int), &options);
    if (!err) {
        err = begin(subscription);
        if (err) hd_chan_destroy(subscription->chan);
    }
    if (err) {
        free(subscription);
        return err;
    }
    *chan = subscription->chan;
    return 0;
}

static struct subscription *subscription_of(const struct hd_chan *chan)
{
    struct subscription *found = NULL;
    hdi_mutex_lock(&list_lock);
    for (struct hdi_list *link = subscriptions.next; link != &subscriptions; link = link->next) {
        struct subscription *of = (struct subscription *)link;
        if (of->chan == chan) found = of;
    }
    hdi_mutex_unlock(&list_lock);
    return found;
}

void hd_signal_close(hd_chan *chan)
{
    if (!chan) return;
    struct subscription *subscription = subscription_of(chan);
    HD_CHECK_MSG(subscription, "hd_signal_close() of another channel than hd_signal_open() made");
    if (subscription->sim) {
        take_out(subscription);
    } else {
        hdi_mutex_lock(&life_lock);
        end_live(subscription);
        hdi_mutex_unlock(&life_lock);
    }
    hd_chan_destroy(chan);
    free(subscription);
}

int hd_signal_raise(int signal)
{
    if (signal < 1 || signal > SIGNALS_MAX) return -EINVAL;
    struct hd_runtime *sim = simulated(hdi_io_runtime());
    /* Not raise(): the calling thread may block it. */
    if (!sim) return hdi_live(NULL, kill, getpid(), signal);
    const struct hdi_process *process = hdi_io_process(sim);
    if (process) return hdi_sys(sim, kill, (pid_t)process->number, -1, signal);
    (void)send_all(sim, 0, bit(signal));
    return 0;
}

/* ---- for simulated processes ---- */

bool hdi_signal_send(struct hd_runtime *sim, uint32_t process, int number)
{
    return send_all(sim, process, bit(number)) != 0;
}

void hdi_signals_end(struct hd_runtime *sim, uint32_t process)
{
    struct hdi_list ended;
    hdi_list_init(&ended);
    hdi_mutex_lock(&list_lock);
    for (struct hdi_list *link = subscriptions.next, *next; link != &subscriptions; link = next) {
        next = link->next;
        if (!is_of((const struct subscription *)link, sim, process)) continue;
        hdi_list_remove(link);
        hdi_list_push_back(&ended, link);
    }
    hdi_mutex_unlock(&list_lock);
    for (struct hdi_list *link; (link = hdi_list_pop_front(&ended));) {
        struct subscription *subscription = (struct subscription *)link;
        hd_chan_destroy(subscription->chan);
        free(subscription);
    }
}
