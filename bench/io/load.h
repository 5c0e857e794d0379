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
    char *servers;  /* names with commas between them */
    unsigned conns;
    unsigned bytes; /* of a message */
    unsigned rate;  /* of paced: messages per second over all connections */
    unsigned ms;    /* that a sample of other rows lasts */
};
extern struct params params;

/* Leave, with the sample not taken: why, and errno unless it is 0. */
_Noreturn void fail(const char *why);

int64_t now_ns(void);

/* Be on the CPU of the servers (0) or of the clients (1), with all threads to come. */
void pin(unsigned which);

/* ---- server.c: servers, each in a process of its own, all on the first CPU ---- */

struct server;

/* Start a server by its name, to serve "echo" or "http". NULL, with a line on stderr: it is not
 * there. */
struct server *server_start(const char *name, const char *what);
void servers_stop(void);

unsigned server_port(const struct server *server);
/* Of all its threads so far, those of the kernel for it included. */
int64_t server_cpu_ns(const struct server *server);
int64_t server_resident_bytes(const struct server *server);

/* Run a program on the second CPU until it ends. Returns what it printed, up to `bytes`. */
void run_client(char *const argv[], char *output, size_t bytes);

/* ---- client.c: the connections, on the second CPU ---- */

struct fleet; /* the connections to one server */

struct outcome {
    uint64_t done;      /* messages answered, or connections closed, in the window */
    int64_t wall_ns;    /* of the window */
    int64_t cpu_ns;     /* that the server used in it */
    int64_t *latencies; /* one for each, and for each that was due and not answered; the client's */
    size_t count;
};

struct fleet *client_new(const struct server *server);

/* Open so many connections more; each sends a message, and is sent it back. */
void client_open(struct fleet *fleet, unsigned conns);

/* What is measured, once or by turns with other fleets. Nothing is under way when it returns. */
typedef struct outcome client_window(struct fleet *fleet, int64_t window_ns);

/* Each connection sends its next message when the last is answered. */
client_window client_closed_loop;

/* Messages are due at a fixed rate, whatever the server does, and their latency is measured from
 * when they are due. */
client_window client_paced;

/* Connections are opened, ended by us, and ended by the server; params.conns at a time. */
client_window client_connects;

#endif
