/* SPDX-License-Identifier: MIT
 *
 * proxy: passes TCP connections on to another place.
 *
 *   ./proxy --listen 127.0.0.1:8000 --to example.org:80
 *   kill -TERM PID                       accepts no more, and ends when all connections have, or
 *                                        after --drain ms
 *   HEDDLE_SEED=42 ./proxy --self-test   simulated
 *
 * A connection is two fibers, one for each direction, in a nursery: if one fails the other is
 * cancelled. Bytes are passed on in the buffer they came in (heddle/lease.h), and who waits has
 * none. A side that says it will send no more has only ended its own direction: that is
 * passed on, and the other direction goes on until it ends, too. A connection that is silent in
 * both directions for idle_ms is ended.
 */
#include "server.h"

#include <stdatomic.h>

struct proxy {
    const char *to;
    unsigned connect_ms, idle_ms;
};

/* What both directions of a connection share. */
struct link {
    const struct proxy *proxy;
    _Atomic(int64_t) heard; /* when bytes came last, from either side */
};

struct direction {
    struct link *link;
    hd_io from, to;
};

static int64_t idle_deadline(struct link *link)
{
    return atomic_load(&link->heard) + link->proxy->idle_ms * HD_MS_NS;
}

/* Read; a silence counts only if the other direction is silent as well. */
static ssize_t read_some(const struct direction *d, hd_lease *bytes)
{
    for (;;) {
        const int64_t deadline = idle_deadline(d->link);
        const ssize_t n = hd_lease_read_until(d->from, bytes, deadline);
        if (n >= 0) atomic_store(&d->link->heard, hd_now(NULL));
        if (n != -ETIMEDOUT || idle_deadline(d->link) == deadline) return n;
    }
}

static int pump(void *arg)
{
    const struct direction *d = arg;
    hd_lease bytes = {0};
    ssize_t n;
    while ((n = read_some(d, &bytes)) > 0) {
        const int err = hd_lease_write_until(d->to, &bytes, idle_deadline(d->link));
        hd_lease_end(&bytes);
        if (err) return err;
    }
    if (n < 0) return (int)n;
    hd_shutdown(d->to, SHUT_WR); /* It may be gone altogether, which its reader will find. */
    return 0;
}

static int proxy_connection(hd_io conn, void *arg)
{
    const struct proxy *proxy = arg;
    hd_io other;
    const int err =
        hd_tcp_connect_until(&other, proxy->to, NULL, hd_after_ms(proxy->connect_ms));
    if (err) {
        fprintf(stderr, "proxy: %s: %s\n", proxy->to, strerror(-err));
        return err;
    }
    struct link link = {.proxy = proxy, .heard = hd_now(NULL)};
    struct direction there = {&link, conn, other}, back = {&link, other, conn};
    HD_NURSERY(n) {
        if (hd_go(n, pump, &there)) hd_nursery_cancel(n);
        if (pump(&back)) hd_nursery_cancel(n);
    }
    hd_close(other);
    return 0;
}

/* ---- testing itself ---- */

enum { TALK_BYTES = 100000, IDLE_MS = 200 };

/* The place that is passed on to: answers only when it has heard all. */
static int answer_late(hd_io conn, void *arg)
{
    (void)arg;
    static const size_t room = TALK_BYTES + 1;
    char *bytes = malloc(room);
    size_t got = 0;
    ssize_t n = bytes ? 1 : -ENOMEM;
    while (n > 0) {
        n = hd_read(conn, bytes + got, room - got);
        if (n > 0) got += (size_t)n;
    }
    int err = (int)n;
    if (!err) err = hd_write_all(conn, bytes, got, NULL);
    free(bytes);
    return err;
}

static int talk_through(const char *place, size_t bytes)
{
    hd_io conn;
    int err = hd_tcp_connect(&conn, place, NULL);
    if (err) return err;
    err = server_talk(conn, bytes);
    hd_close(conn);
    if (err) fprintf(stderr, "proxy: %zu bytes: %s\n", bytes, strerror(-err));
    return err;
}

/* Say nothing: the proxy ends it, not before its time. */
static int stay_silent(const char *place)
{
    hd_io conn;
    char byte;
    const int64_t start = hd_now(NULL);
    int err = hd_tcp_connect(&conn, place, NULL);
    if (err) return err;
    const ssize_t n = hd_read(conn, &byte, 1);
    if (n != 0 && n != -ECONNRESET) err = n < 0 ? (int)n : -EBADMSG;
    if (hd_now(NULL) - start < IDLE_MS * HD_MS_NS / 2) err = -EBADMSG;
    hd_close(conn);
    if (err) fprintf(stderr, "proxy: silent: %s\n", strerror(-err));
    return err;
}

static int proxy_check(const char *place, void *arg)
{
    struct proxy *proxy = arg;
    struct server target = {.name = "target", .connection = answer_late, .connections_max = 10};
    int err = server_listen(&target, "127.0.0.1:0");
    if (err) return err;
    proxy->to = target.at;
    proxy->idle_ms = IDLE_MS;
    HD_NURSERY(n) {
        err = hd_go(n, server_serve, &target);
        if (!err) err = talk_through(place, TALK_BYTES);
        if (!err) err = talk_through(place, 0);
        if (!err) err = stay_silent(place);
        server_stop(&target);
    }
    server_fini(&target);
    return err;
}

/* ---- the program ---- */

static const char help[] =
    "usage: proxy --to PLACE [OPTION]...\n"
    "Pass TCP connections on to another place.\n\n"
    "  --to PLACE         NAME:PORT or ADDRESS:PORT\n"
    "  --listen PLACE     ADDRESS:PORT; port 0 is any free one; default 127.0.0.1:8000\n"
    "  --connections N    at a time, at most; default 5000\n"
    "  --connect MS       that connecting may take; default 10000\n"
    "  --idle MS          end connections that are silent for so long; default 60000\n"
    "  --drain MS         that connections may go on after SIGTERM; default 10000\n"
    "  --workers N        1 to 256; default: one for each CPU\n"
    "  --self-test        serve, talk to it, and exit\n"
    "  --help             show this\n\n"
    "With HEDDLE_SEED=N in the environment it runs simulated.\n";

int main(int argc, char **argv)
{
    struct proxy proxy = {.connect_ms = 10000, .idle_ms = 60000};
    struct server server = {
        .name = "proxy",
        .help = help,
        .place = "127.0.0.1:8000",
        .connection = proxy_connection,
        .check = proxy_check,
        .arg = &proxy,
        .connections_max = 5000,
        .fds_each = 2,
        .drain_ms = 10000,
        .options = {{.name = "to", .text = &proxy.to},
                    {.name = "connect", .number = &proxy.connect_ms, .most = 86400000},
                    {.name = "idle", .number = &proxy.idle_ms, .most = 86400000},
                    {.name = "drain", .number = &server.drain_ms, .most = 86400000}},
    };
    bool self_test = false;
    const int status = server_read_arguments(&server, &self_test, argc, argv);
    if (status >= 0) return status;
    if (!proxy.to && !self_test) {
        fputs("proxy: --to is missing; see --help\n", stderr);
        return 2;
    }
    return server_main(&server, self_test);
}
