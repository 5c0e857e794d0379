/* SPDX-License-Identifier: MIT
 *
 * resolve: names to addresses.
 *
 * The system's resolver blocks its thread, for seconds if it must, and cannot be interrupted. So
 * it is asked by an errand on the io pool, and the caller waits for that, but not if it is
 * cancelled or late: it leaves the errand to itself. What both use is a request on the heap:
 *
 *   REQ-1  The request has two owners, the caller and the errand's state. The last frees it.
 *   REQ-2  Only the errand writes `found`; the caller reads it after it has joined the errand.
 *
 * A runtime that ends waits for its errands, so one that is being answered is waited for; one that
 * has not begun does not begin.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/net.h>
#include <heddle/time.h>

#include "io/socket.h"

enum {
    FOUND_MAX = 64,       /* more addresses of one name are not looked at */
    NAME_BYTES_MAX = 1024 /* longer than any name of the DNS; local databases may have others */
};

struct request {
    struct hd_runtime *runtime;  /* constant */
    _Atomic(uint32_t) owners;    /* REQ-1 */
    _Atomic(bool) abandoned;     /* relaxed: a hint that nobody waits for the answer */
    struct sockaddr_storage found[FOUND_MAX]; /* REQ-2 */
    char name[NAME_BYTES_MAX + 1];
};

/* ---- addresses ---- */

static void set_addr(hd_addr *addr, const struct sockaddr_storage *found, unsigned port)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    const bool is_six = found->ss_family == AF_INET6;
    memcpy(&six, found, sizeof(six));
    memcpy(&four, found, sizeof(four));
    six.sin6_port = four.sin_port = htons((uint16_t)port);
    memset(addr, 0, sizeof(*addr));
    addr->length = is_six ? sizeof(six) : sizeof(four);
    memcpy(addr->bytes, is_six ? (const void *)&six : &four, addr->length);
}

/* The next one from `i` on that is of the family, or is not; `count` if there is none. */
static size_t next_of(const struct sockaddr_storage *found, size_t count, size_t i, int family,
                      bool same)
{
    while (i < count && (found[i].ss_family == family) != same) i++;
    return i;
}

/* The families by turns, so that one that does not work costs one attempt and not many (RFC 8305,
 * section 4); the first that was found stays the first. */
static int interleave(const struct sockaddr_storage *found, size_t count, unsigned port,
                      hd_addr *addrs, size_t max)
{
    const int family = found[0].ss_family;
    size_t same = 0, other = next_of(found, count, 0, family, false), n = 0;
    for (; n < max && (same < count || other < count); n++) {
        const bool first = other == count || (same < count && n % 2 == 0);
        size_t *turn = first ? &same : &other;
        set_addr(&addrs[n], &found[*turn], port);
        *turn = next_of(found, count, *turn + 1, family, first);
    }
    return (int)n;
}

/* ---- the request ---- */

static struct request *create_request(struct hd_runtime *runtime, const char *name)
{
    struct request *request = malloc(sizeof(*request));
    if (!request) return NULL;
    request->runtime = runtime;
    hdi_store_relaxed(&request->owners, 1); /* The errand's queue publishes both. */
    hdi_store_relaxed(&request->abandoned, false);
    memcpy(request->name, name, strlen(name) + 1); /* It was measured. */
    return request;
}

static void release(struct request *request)
{
    if (hdi_fetch_sub_acq_rel(&request->owners, 1) == 1) free(request);
}

static void drop_request(void *state)
{
    release(*(struct request **)state);
}

static hd_poll run_request(void *state, int *result)
{
    struct request *request = *(struct request **)state;
    const bool needless = hdi_load_relaxed(&request->abandoned) || hd_cancelled();
    *result = needless ? -ECANCELED
                       : hdi_sys(request->runtime, resolve, request->name, request->found,
                                 FOUND_MAX);
    return HD_READY;
}

/* Returns: how many were found, -errno. */
static int ask(struct request *request, int64_t deadline)
{
    struct hd_runtime *runtime = request->runtime;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = hdi_dispatcher_io(runtime);
    if (!options.dispatcher) return hdi_load_relaxed(&runtime->closing) ? -ESHUTDOWN : -ENOMEM;
    options.name = "resolve";
    options.drop = drop_request;
    hdi_store_relaxed(&request->owners, 2); /* REQ-1; still nobody else's. */
    hd_task *task;
    int count = 0;
    int err = hdi_spawn_errand(&task, run_request, &request, sizeof(request), &options, HD_SITE);
    if (err) {
        release(request);
        return err;
    }
    err = hd_join_until(task, &count, deadline);
    if (!err) return count;
    hdi_store_relaxed(&request->abandoned, true);
    hd_detach(task);
    return err;
}

/* In sim an answer takes its time, which a task of the io pool could not wait for. */
static int let_time_pass(struct hd_runtime *runtime, const char *name, int64_t deadline)
{
    if (!runtime->sys->resolve_delay) return 0;
    const int64_t now = runtime->world->now(runtime);
    const int64_t delay = runtime->sys->resolve_delay(runtime, name);
    const bool late = deadline <= now || deadline - now < delay;
    const int err = hd_sleep_until(late ? deadline : now + delay);
    return err ? err : late ? -ETIMEDOUT : 0;
}

static int resolve_name(const char *name, unsigned port, hd_addr *addrs, size_t max,
                        int64_t deadline)
{
    int err = hdi_wait_enter_self(hdi_task_self(), deadline, HDI_COST_SYSCALL, NULL);
    if (err) return err;
    if (deadline == HD_NOW) return -EAGAIN;
    struct hd_runtime *runtime = hdi_io_runtime();
    err = runtime ? let_time_pass(runtime, name, deadline) : 0;
    if (err) return err;
    struct request *request = create_request(runtime, name);
    if (!request) return -ENOMEM;
    /* A plain thread in live may block, and does. */
    const int count = runtime ? ask(request, deadline)
                              : hdi_sys_real(NULL, resolve, name, request->found, FOUND_MAX);
    const int n =
        count > 0 ? interleave(request->found, (size_t)count, port, addrs, max) : count;
    release(request);
    return n;
}

int hd_resolve_until(const char *name, unsigned port, hd_addr *addrs, size_t max, int64_t deadline)
{
    if (!name || !addrs || max == 0 || port > UINT16_MAX) return -EINVAL;
    const size_t bytes = strnlen(name, NAME_BYTES_MAX + 1);
    if (bytes == 0 || bytes > NAME_BYTES_MAX) return -EINVAL;
    if (hdi_addr_of(&addrs[0], name, (int)port) == 0) return 1;
    return resolve_name(name, port, addrs, max, deadline);
}

int hd_resolve(const char *name, unsigned port, hd_addr *addrs, size_t max)
{
    return hd_resolve_until(name, port, addrs, max, HD_FOREVER);
}
