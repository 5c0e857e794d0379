/* SPDX-License-Identifier: MIT
 *
 * dial: connecting to a place by name: happy eyeballs (RFC 8305).
 *
 * Every attempt is a fiber of a nursery that the caller opens for it. The caller alone decides:
 *
 *   it starts one attempt; then it waits until one of those under way has ended, or `attempt_ns`
 *   have passed. One has connected: the others are cancelled. One has failed, or time has passed:
 *   the next one is started. All have failed: what the last of them said.
 *
 *   DIAL-1  An attempt writes `conn` only if it has connected. Once the nursery was waited for,
 *           every `conn` but the winner's is closed, so also one that connected too late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/net.h>
#include <heddle/nursery.h>
#include <heddle/select.h>

#include "io/socket.h"
#include "io/source.h"

enum {
    ATTEMPTS_MAX = 16, /* more addresses of one name are not tried */
    HOST_BYTES = 1025, /* as many as hd_resolve() takes */
};
#define ATTEMPT_NS (250 * HD_MS_NS)

struct attempt {
    struct dial *dial;
    hd_task *task; /* NULL: not under way */
    hd_io conn;    /* DIAL-1 */
    int err;       /* of one that is not under way any more */
};

struct dial {
    struct hd_runtime *runtime;
    int64_t deadline;
    int64_t attempt_ns;
    bool delayed;
    hd_addr from;     /* length 0: the system chooses */
    unsigned count;   /* of addresses, and so of attempts */
    unsigned started; /* the first so many */
    hd_addr addrs[ATTEMPTS_MAX];
    struct attempt attempts[ATTEMPTS_MAX];
    hd_case cases[ATTEMPTS_MAX];
    char host[HOST_BYTES];
};

/* ---- the race ---- */

static int dial_one(const struct dial *dial, size_t i, hd_io *conn)
{
    const hd_addr *from = dial->from.length > 0 ? &dial->from : NULL;
    return hdi_socket_dial(conn, &dial->addrs[i], from, dial->delayed, dial->deadline);
}

static int run_attempt(void *arg)
{
    struct attempt *attempt = arg;
    const struct dial *dial = attempt->dial;
    return dial_one(dial, (size_t)(attempt - dial->attempts), &attempt->conn);
}

static void start_next(struct dial *dial, hd_nursery *nursery)
{
    struct attempt *attempt = &dial->attempts[dial->started++];
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    options.name = "connect";
    attempt->dial = dial;
    attempt->err = hd_spawn_with(&attempt->task, run_attempt, attempt, &options);
    if (attempt->err) attempt->task = NULL;
}

static bool under_way(const struct dial *dial)
{
    for (unsigned i = 0; i < dial->started; i++) {
        if (dial->attempts[i].task) return true;
    }
    return false;
}

/* Wait until one of those under way has ended, or until it is time for the next. Returns: its
 * number; -EAGAIN: the next; -ECANCELED, -ETIMEDOUT. */
static int wait_for_one(struct dial *dial)
{
    int64_t next = HD_FOREVER;
    if (dial->started < dial->count) {
        const int64_t now = dial->runtime->world->now(dial->runtime);
        next = dial->attempt_ns < HD_FOREVER - now ? now + dial->attempt_ns : HD_FOREVER;
    }
    for (unsigned i = 0; i < dial->started; i++) {
        struct attempt *attempt = &dial->attempts[i];
        dial->cases[i] = attempt->task ? (hd_case)HD_JOIN(attempt->task, &attempt->err)
                                       : (hd_case)HD_NEVER;
    }
    const int64_t until = next < dial->deadline ? next : dial->deadline;
    const int which = hd_select_until(dial->cases, dial->started, HD_SELECT_FIRST, until);
    if (which >= 0) dial->attempts[which].task = NULL;
    /* Or a scope around is out of time; then the others fail at once. */
    return which == -ETIMEDOUT && next < dial->deadline ? -EAGAIN : which;
}

/* Returns: the number of the one that has connected; -errno. */
static int race(struct dial *dial, hd_nursery *nursery)
{
    for (;;) {
        if (dial->started < dial->count) start_next(dial, nursery);
        if (under_way(dial)) {
            const int which = wait_for_one(dial);
            if (which >= 0 && dial->attempts[which].err == 0) return which;
            if (which < 0 && which != -EAGAIN) return which;
        } else if (dial->started == dial->count) {
            return dial->attempts[dial->count - 1].err;
        }
    }
}

/* The nursery was left: all attempts have ended. */
static int settle(struct dial *dial, int winner, hd_io *conn)
{
    for (unsigned i = 0; i < dial->started; i++) {
        struct attempt *attempt = &dial->attempts[i];
        if (attempt->task) hd_detach(attempt->task);
        if ((int)i != winner) (void)hd_close(attempt->conn); /* DIAL-1; or there is none. */
    }
    if (winner < 0) return winner;
    *conn = dial->attempts[winner].conn;
    return 0;
}

static int dial_all(struct dial *dial, hd_io *conn)
{
    if (dial->deadline == HD_NOW) return -EAGAIN; /* No attempt is over at once. */
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.runtime = dial->runtime;
    options.name = "connect";
    options.on_error = HD_ON_ERROR_IGNORE;
    hd_nursery nursery;
    const int err = hd_nursery_open(&nursery, &options);
    if (err) return err;
    const int winner = race(dial, &nursery);
    hd_nursery_cancel(&nursery);
    (void)hd_nursery_leave(&nursery); /* Of no interest: the attempts say more. */
    return settle(dial, winner, conn);
}

/* ---- the call ---- */

/* Addresses that cannot be connected to from `from` are left out. */
static int leave_out(struct dial *dial)
{
    const unsigned found = dial->count;
    dial->count = 0;
    for (unsigned i = 0; i < found; i++) {
        if (dial->from.length > 0 && dial->from.family != dial->addrs[i].family) continue;
        dial->addrs[dial->count++] = dial->addrs[i];
    }
    return dial->count > 0 ? 0 : -EADDRNOTAVAIL;
}

/* Returns: how many, -errno. */
static int find_host(struct dial *dial, bool bracketed, int port)
{
    hd_addr *addrs = dial->addrs;
    if (bracketed && !strchr(dial->host, ':')) return -EINVAL; /* What is named so has some. */
    if (dial->host[0] == 0) { /* this machine */
        const int err = hdi_addr_of(&addrs[0], "::1", port);
        return err ? err : hdi_addr_of(&addrs[1], "127.0.0.1", port) == 0 ? 2 : 1;
    }
    if (hdi_addr_of(&addrs[0], dial->host, port) == 0) return 1;
    return hd_resolve_until(dial->host, (unsigned)port, addrs, ATTEMPTS_MAX, dial->deadline);
}

static int find_addrs(struct dial *dial, const char *place)
{
    const int port = hdi_place_split(place, dial->host, sizeof(dial->host));
    if (port <= 0) return -EINVAL;
    const int count = find_host(dial, *place == '[', port);
    if (count < 0) return count;
    dial->count = (unsigned)count;
    return leave_out(dial);
}

static int parse_options(struct dial *dial, const hd_connect_options *options)
{
    dial->attempt_ns = ATTEMPT_NS;
    if (!options) return 0;
    if (options->size != sizeof(*options) || options->attempt_ns < 0) return -EINVAL;
    if (options->attempt_ns > 0) dial->attempt_ns = options->attempt_ns;
    dial->delayed = options->delayed;
    if (!options->from) return 0;
    const int err = hd_addr_parse(&dial->from, options->from);
    return err ? err : hd_addr_port(&dial->from) < 0 ? -EINVAL : 0;
}

static int dial_place(struct dial *dial, const char *place, const hd_connect_options *options,
                      hd_io *conn)
{
    int err = parse_options(dial, options);
    if (!err) err = find_addrs(dial, place);
    if (err) return err;
    return dial->count > 1 ? dial_all(dial, conn) : dial_one(dial, 0, conn);
}

int hd_tcp_connect_until(hd_io *conn, const char *place, const hd_connect_options *options,
                         int64_t deadline)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    int err = runtime && place ? hdi_wait_enter(deadline, NULL) : -EINVAL;
    if (err) return err;
    struct dial *dial = calloc(1, sizeof(*dial));
    if (!dial) return -ENOMEM;
    dial->runtime = runtime;
    dial->deadline = deadline;
    err = dial_place(dial, place, options, conn);
    free(dial);
    return err;
}

int hd_tcp_connect(hd_io *conn, const char *place, const hd_connect_options *options)
{
    return hd_tcp_connect_until(conn, place, options, HD_FOREVER);
}
