/* SPDX-License-Identifier: MIT
 *
 * overflow: the fault handler and its report. See overflow.h.
 *
 * Invariants
 *   OVERFLOW-1  `previous` is written before our handler can run and stays valid for
 *               ever: somebody who took the signals over after us may still call us.
 *   OVERFLOW-2  the handler only reads memory, writes to stderr and calls sigaction().
 */
#include "ctx/overflow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "os/memory.h"
#include "os/mutex.h"

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

static struct hdi_mutex lock = HDI_MUTEX_INIT;
static unsigned users;                        /* under lock */
static struct sigaction previous[SIGNALS];    /* OVERFLOW-1 */
static hdi_overflow_lookup *overflow_lookup;  /* written before the handler is installed */

/* ---- the report: text without stdio ---- */

struct text {
    size_t length;
    char bytes[512]; /* longer reports are cut */
};

static void put(struct text *text, const char *more)
{
    while (*more && text->length < sizeof(text->bytes)) text->bytes[text->length++] = *more++;
}

static void put_number(struct text *text, uint64_t number)
{
    char digits[21];
    char *at = &digits[20];
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    put(text, at);
}

static void put_site(struct text *text, const hd_site *site)
{
    put(text, " spawned at ");
    put(text, site->file ? site->file : "?");
    put(text, ":");
    put_number(text, (uint64_t)(site->line > 0 ? site->line : 0));
    if (!site->function) return;
    put(text, " (");
    put(text, site->function);
    put(text, ")");
}

static void write_all(const struct text *text)
{
    size_t done = 0;
    while (done < text->length) {
        const ssize_t n = write(STDERR_FILENO, text->bytes + done, text->length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        done += (size_t)n;
    }
}

void hdi_overflow_report(const struct hdi_overflow_info *info)
{
    const int saved = errno;
    struct text text = {.length = 0};
    put(&text, "heddle: stack overflow in fiber ");
    put_number(&text, info->id);
    if (info->name && *info->name) {
        put(&text, " \"");
        put(&text, info->name);
        put(&text, "\"");
    }
    if (info->site) put_site(&text, info->site);
    put(&text, ": ");
    put_number(&text, info->stack_bytes);
    put(&text, " bytes of stack; raise ");
    put(&text, info->job ? "job_stack_bytes in hd_options\n" : "stack_bytes in hd_spawn_options\n");
    write_all(&text);
    errno = saved;
}

noreturn void hdi_overflow_die(const struct hdi_overflow_info *info)
{
    hdi_overflow_report(info);
    abort();
}

/* ---- the handler ---- */

static void use_default_action(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* Die as if no handler had been there: a fault repeats when the handler returns, a signal
 * that somebody sent has to be sent again. */
static void die_by_default(int number, const siginfo_t *what)
{
    use_default_action(number);
    if (what->si_code <= 0) (void)raise(number);
}

static void chain(const struct sigaction *before, int number, siginfo_t *what, void *machine)
{
    const bool sent = what->si_code <= 0;
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, what, machine);
    } else if (before->sa_handler == SIG_DFL || (before->sa_handler == SIG_IGN && !sent)) {
        die_by_default(number, what); /* The kernel does not let faults be ignored. */
    } else if (before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    }
}

static void handle(int number, siginfo_t *what, void *machine)
{
    const int saved = errno;
    struct hdi_overflow_info info = {0};
    if (what->si_code > 0 && overflow_lookup(what->si_addr, &info)) {
        hdi_overflow_report(&info);
        die_by_default(number, what);
    } else {
        chain(&previous[number == SIGSEGV ? 0 : 1], number, what, machine);
    }
    errno = saved;
}

/* ---- installing ---- */

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handle;
}

/* If we are there already (somebody above us restored us), `previous` must stay. */
static int take_over(int i)
{
    struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    struct sigaction before;
    if (sigaction(signals[i], NULL, &before) != 0) return -errno;
    if (is_ours(&before)) return 0;
    previous[i] = before; /* OVERFLOW-1 */
    return sigaction(signals[i], &ours, NULL) == 0 ? 0 : -errno;
}

/* Somebody may have installed a handler above ours: then theirs stays. */
static void give_back(int i)
{
    struct sigaction now;
    if (sigaction(signals[i], NULL, &now) != 0 || !is_ours(&now)) return;
    (void)sigaction(signals[i], &previous[i], NULL);
}

int hdi_overflow_install(hdi_overflow_lookup *lookup)
{
    int err = 0;
    hdi_mutex_lock(&lock);
    HD_CHECK_MSG(users == 0 || overflow_lookup == lookup, "one lookup per process");
    overflow_lookup = lookup;
    for (int i = 0; i < SIGNALS && users == 0 && !err; i++) err = take_over(i);
    if (!err) users++;
    hdi_mutex_unlock(&lock);
    return err;
}

void hdi_overflow_uninstall(void)
{
    hdi_mutex_lock(&lock);
    HD_CHECK(users > 0);
    users--;
    for (int i = 0; i < SIGNALS && users == 0; i++) give_back(i);
    hdi_mutex_unlock(&lock);
}

/* ---- alternate signal stacks ---- */

/* Room for the largest register state the CPU saves, and then for chained handlers. */
static size_t signal_stack_bytes(void)
{
    const size_t page = hdi_memory_page_bytes();
    const long frame = sysconf(_SC_MINSIGSTKSZ);
    const size_t wanted = ((size_t)64 << 10) + (frame > 0 ? (size_t)frame : 0);
    return (wanted + page - 1) & ~(page - 1);
}

int hdi_overflow_thread_init(struct hdi_overflow_thread *thread)
{
    *thread = (struct hdi_overflow_thread){.base = NULL};
    if (sigaltstack(NULL, &thread->previous) != 0) return -errno;
    if (!(thread->previous.ss_flags & SS_DISABLE)) return 0;
    thread->bytes = signal_stack_bytes();
    thread->base = hdi_memory_map(thread->bytes);
    if (!thread->base) return -ENOMEM;
    const stack_t ours = {.ss_sp = thread->base, .ss_size = thread->bytes};
    HD_CHECK(sigaltstack(&ours, NULL) == 0);
    return 0;
}

void hdi_overflow_thread_fini(struct hdi_overflow_thread *thread)
{
    if (!thread->base) return;
    HD_CHECK(sigaltstack(&thread->previous, NULL) == 0);
    hdi_memory_unmap(thread->base, thread->bytes);
    thread->base = NULL;
}
