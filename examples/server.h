/* SPDX-License-Identifier: MIT
 *
 * server: what the example servers have in common: arguments, listening, a fiber for each
 * connection, ending on a signal, and testing themselves.
 *
 * A server is told to stop by server_stop(): it accepts no more, and connections may go on for
 * drain_ms. SIGINT and SIGTERM do that; a second one does not wait for connections.
 */
#ifndef EXAMPLES_SERVER_H
#define EXAMPLES_SERVER_H

#include <errno.h>
#include <getopt.h>
#include <heddle.h>
#include <heddle/net.h>
#include <heddle/process.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* An option of the program: either a number from 1 to `most`, or a text. */
struct server_option {
    const char *name;
    unsigned *number;
    unsigned most;
    const char **text;
};

enum { SERVER_OPTIONS_MAX = 12, SERVER_SPARE_FDS = 64 };

struct server {
    const char *name; /* of the program */
    const char *help;
    const char *place; /* where it listens */
    int (*connection)(hd_io conn, void *arg); /* what a connection does until it is closed */
    int (*check)(const char *place, void *arg); /* --self-test: a client's view; 0 if all is well */
    void *arg;
    unsigned workers;         /* 0: one for each CPU */
    unsigned connections_max; /* at a time; others wait to be accepted */
    unsigned fds_each;        /* descriptors of one connection */
    unsigned drain_ms;        /* 0: a stop ends connections at once */
    struct server_option options[SERVER_OPTIONS_MAX]; /* beside those that all have */

    /* private */
    hd_io listener;
    char at[HD_ADDR_TEXT_MAX]; /* where that is */
    hd_sem free;               /* connections that may still be accepted */
    hd_nursery *nursery;       /* of the program */
    hd_chan *signals;
};

/* ---- serving ---- */

struct server_conn {
    struct server *server;
    hd_io io;
};

static inline int server_fail(const struct server *server, const char *what, int err)
{
    fprintf(stderr, "%s: %s: %s\n", server->name, what, strerror(-err));
    return err;
}

static inline void server_end_conn(struct server_conn *conn)
{
    hd_close(conn->io);
    hd_sem_release(&conn->server->free, 1);
    free(conn);
}

static inline int server_run_conn(void *arg)
{
    struct server_conn *conn = arg;
    const int result = conn->server->connection(conn->io, conn->server->arg);
    server_end_conn(conn);
    return result;
}

/* A connection that there is no memory for is dropped; others may go on. */
static inline void server_start_conn(struct server *server, hd_nursery *nursery, hd_io io)
{
    struct server_conn *conn = malloc(sizeof(*conn));
    if (!conn) {
        hd_close(io);
        hd_sem_release(&server->free, 1);
        return;
    }
    *conn = (struct server_conn){server, io};
    if (hd_go(nursery, server_run_conn, conn)) server_end_conn(conn);
}

struct server_drain {
    hd_nursery *nursery;
    int64_t deadline;
};

static inline int server_end_drain(void *arg)
{
    const struct server_drain *drain = arg;
    const int err = hd_sleep_until(drain->deadline);
    if (!err) hd_nursery_cancel(drain->nursery);
    return err;
}

/* Accept and serve connections until server_stop(), or a cancel. */
static inline int server_serve(void *arg)
{
    struct server *server = arg;
    struct server_drain drain;
    int err = 0;
    HD_NURSERY(n, .on_error = HD_ON_ERROR_IGNORE) {
        for (hd_io io;;) {
            err = hd_sem_acquire(&server->free, 1);
            if (!err) err = hd_accept(server->listener, &io, NULL);
            if (err) break;
            server_start_conn(server, n, io);
        }
        drain = (struct server_drain){n, hd_after_ms(server->drain_ms)};
        const hd_spawn_options daemon = {
            .size = sizeof(daemon), .nursery = n, .flags = HD_DAEMON};
        if (server->drain_ms == 0 || hd_spawn_with(NULL, server_end_drain, &drain, &daemon)) {
            hd_nursery_cancel(n);
        }
    }
    const bool stopped = err == -EPIPE || err == -EBADF || err == -ECANCELED;
    return stopped ? 0 : server_fail(server, "accepting", err);
}

/* Returns: 0, or an error after a message. */
static inline int server_listen(struct server *server, const char *place)
{
    int err = hd_tcp_listen(&server->listener, place, NULL);
    if (err) return server_fail(server, place, err);
    hd_addr addr;
    err = hd_local_addr(server->listener, &addr);
    if (!err) err = hd_sem_init(&server->free, server->connections_max);
    if (err) {
        hd_close(server->listener);
        return server_fail(server, place, err);
    }
    hd_addr_format(&addr, server->at);
    return 0;
}

static inline void server_stop(struct server *server)
{
    hd_close(server->listener);
    hd_sem_close(&server->free);
}

/* After server_serve() has returned. */
static inline void server_fini(struct server *server)
{
    server_stop(server);
    hd_sem_fini(&server->free);
}

/* ---- the program ---- */

static inline int server_watch_signals(void *arg)
{
    struct server *server = arg;
    int got, err = hd_chan_recv(server->signals, &got);
    if (!err) {
        printf("%s: stopping\n", server->name);
        fflush(stdout);
        server_stop(server);
        err = hd_chan_recv(server->signals, &got);
    }
    if (!err) hd_nursery_cancel(server->nursery);
    return err;
}

/* Who reads where it listens may send a signal at once. */
static inline int server_open(struct server *server)
{
    int err = server_listen(server, server->place);
    if (err) return err;
    err = hd_signal_open(&server->signals, (const int[]){SIGINT, SIGTERM}, 2);
    if (err) {
        server_fini(server);
        return server_fail(server, "signals", err);
    }
    printf("%s: listening on %s\n", server->name, server->at);
    fflush(stdout);
    return 0;
}

static inline int server_app(void *arg)
{
    struct server *server = arg;
    int err = server_open(server);
    if (err) return err;
    HD_NURSERY(n) {
        server->nursery = n;
        err = hd_go(n, server_watch_signals, server);
        if (!err) err = server_serve(server);
        hd_nursery_cancel(n);
    }
    hd_signal_close(server->signals);
    server_fini(server);
    return err;
}

/* The server, and a client that looks at it. */
static inline int server_self_test(void *arg)
{
    struct server *server = arg;
    int err = server_listen(server, "127.0.0.1:0");
    if (err) return err;
    HD_NURSERY(n) {
        err = hd_go(n, server_serve, server);
        if (!err) err = server->check(server->at, server->arg);
        server_stop(server);
    }
    server_fini(server);
    return err ? err : hd_nursery_result();
}

/* ---- for checks ---- */

static inline char server_pattern(size_t i)
{
    return (char)(i * 7 + i / 251);
}

struct server_talk {
    hd_io conn;
    size_t bytes;
};

static inline int server_talk_send(void *arg)
{
    const struct server_talk *talk = arg;
    char block[1000];
    for (size_t at = 0; at < talk->bytes;) {
        size_t n = 0;
        for (; n < sizeof(block) && at < talk->bytes; n++) block[n] = server_pattern(at++);
        const int err = hd_write_all(talk->conn, block, n, NULL);
        if (err) return err;
    }
    return hd_shutdown(talk->conn, SHUT_WR);
}

/* Send so many bytes, and the end; get the same back. Returns: 0, -EBADMSG, ... */
static inline int server_talk(hd_io conn, size_t bytes)
{
    struct server_talk talk = {conn, bytes};
    char block[3000];
    size_t at = 0;
    ssize_t n = 0;
    bool same = true;
    HD_NURSERY(nursery) {
        if (hd_go(nursery, server_talk_send, &talk)) same = false;
        while (same && (n = hd_read(conn, block, sizeof(block))) > 0) {
            for (ssize_t i = 0; i < n; i++) same &= block[i] == server_pattern(at++);
        }
        if (!same || n != 0 || at != bytes) hd_nursery_cancel(nursery);
    }
    /* A reset is told once, perhaps to the sender; the reader then finds the end. */
    const int err = hd_nursery_result();
    if (err && err != -ECANCELED) return err;
    return n < 0 ? (int)n : same && at == bytes ? err : -EBADMSG;
}

/* ---- arguments ---- */

/* Returns false, with a message, if the text does not fit the option. */
static inline bool server_read_option(const struct server *server,
                                      const struct server_option *option, const char *text)
{
    if (option->text) {
        *option->text = text;
        return true;
    }
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    const bool digits = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
    if (!digits || value < 1 || value > option->most) {
        fprintf(stderr, "%s: --%s: '%s' is no number from 1 to %u\n", server->name, option->name,
                text, option->most);
        return false;
    }
    *option->number = (unsigned)value;
    return true;
}

/* Returns -1 to go on, or what to exit with. */
static inline int server_read_arguments(struct server *server, bool *self_test, int argc,
                                        char **argv)
{
    enum { HELP = SERVER_OPTIONS_MAX + 3, SELF_TEST };
    struct server_option all[SERVER_OPTIONS_MAX + 3] = {
        {.name = "listen", .text = &server->place},
        {.name = "workers", .number = &server->workers, .most = 256},
        {.name = "connections", .number = &server->connections_max, .most = 1000000},
    };
    memcpy(all + 3, server->options, sizeof(server->options));
    struct option options[SERVER_OPTIONS_MAX + 6] = {
        {"help", no_argument, NULL, HELP}, {"self-test", no_argument, NULL, SELF_TEST}};
    for (int i = 0; i < SERVER_OPTIONS_MAX + 3 && all[i].name; i++) {
        options[i + 2] = (struct option){all[i].name, required_argument, NULL, i};
    }
    for (int what; (what = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (what == '?') return 2; /* getopt_long() has said why. */
        if (what == HELP) return fputs(server->help, stdout) < 0;
        if (what == SELF_TEST) {
            *self_test = true;
        } else if (!server_read_option(server, &all[what], optarg)) {
            return 2;
        }
    }
    if (optind == argc) return -1;
    fprintf(stderr, "%s: '%s' is no option; see --help\n", server->name, argv[optind]);
    return 2;
}

/* Have as many descriptors as the connections need, or say that there are fewer. */
static inline void server_raise_limit(struct server *server)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    const rlim_t wanted = (rlim_t)server->connections_max * server->fds_each + SERVER_SPARE_FDS;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit)) getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted) return;
    const rlim_t left = limit.rlim_cur > 2 * SERVER_SPARE_FDS ? limit.rlim_cur - SERVER_SPARE_FDS
                                                              : limit.rlim_cur / 2;
    server->connections_max = (unsigned)(left / server->fds_each);
    fprintf(stderr, "%s: this process may have %llu descriptors: at most %u connections\n",
            server->name, (unsigned long long)limit.rlim_cur, server->connections_max);
}

/* Run an app of the program. Returns what to exit with. */
static inline int server_run(const struct server *server, hd_fn *app, void *arg)
{
    hd_options options = HD_OPTIONS_INIT;
    options.workers = server->workers;
    const char *wrong = hd_options_error(&options);
    const int err = wrong ? -EINVAL : hd_run(app, arg, &options);
    if (wrong) fprintf(stderr, "%s: %s\n", server->name, wrong);
    return err ? 1 : 0;
}

/* Returns what to exit with. */
static inline int server_main(struct server *server, bool self_test)
{
    server_raise_limit(server);
    const int failed = server_run(server, self_test ? server_self_test : server_app, server);
    if (self_test) printf("%s: self-test %s\n", server->name, failed ? "failed" : "passed");
    return failed;
}

#endif
