/* SPDX-License-Identifier: MIT
 *
 * load: what the parts of io_load share. The rows are in load.c, the servers and what they use in
 * server.c, the client's connections in client.c.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The key=value arguments of the command line. */
struct params {
    const char *server;
    unsigned conns;
    unsigned bytes; /* of a message */
    unsigned rate;  /* of paced: messages per second over all connections */
    unsigned ms;    /* that a sample of other rows lasts; a window is six of these */
};
extern struct params params;

/* Leave, with the sample not taken: why, and errno unless it is 0. */
_Noreturn void fail(const char *why);

int64_t now_ns(void);

/* Be on the CPU of the servers (0) or of the clients (1), with all threads to come. */
void pin(unsigned which);

/* ---- server.c: one server at a time, in a process of its own, on the first CPU ---- */

/* Start params.server, to serve "echo" or "http". Leaves with status 77 if it is not there. */
void server_start(const char *what);
void server_stop(void);

unsigned server_port(void);
int64_t server_cpu_ns(void); /* of all its threads so far, those of the kernel for it included */
int64_t server_resident_bytes(void);

/* Run a program on the second CPU until it ends. Returns what it printed, up to `bytes`. */
void run_client(char *const argv[], char *output, size_t bytes);

/* ---- client.c: the connections, on the second CPU ---- */

struct outcome {
    uint64_t done;      /* messages answered, or connections closed, in the window */
    int64_t wall_ns;    /* of the window */
    int64_t cpu_ns;     /* that the server used in it */
    int64_t *latencies; /* one for each, and for each that was due and not answered */
    size_t count;
};

/* Open so many connections; each sends a message, and is sent it back. */
void client_open(unsigned conns);

/* Each connection sends its next message when the last is answered. */
struct outcome client_closed_loop(int64_t window_ns);

/* Messages are due at a fixed rate, whatever the server does, and their latency is measured from
 * when they are due. */
struct outcome client_paced(int64_t window_ns);

/* Connections are opened, ended by us, and ended by the server; so many at a time. */
struct outcome client_connects(int64_t window_ns);

#endif
