/* SPDX-License-Identifier: MIT
 *
 * echo: a server that sends back what it gets; and a client for it.
 *
 *   ./echo --listen 127.0.0.1:7007
 *   echo hello | ./echo --client 127.0.0.1:7007
 *   HEDDLE_SEED=42 ./echo --self-test   simulated: server, client and network in one process
 *
 * A connection is a fiber, and the whole server is the one loop below.
 */
#include "server.h"

struct echo {
    unsigned idle_ms;   /* a connection is ended that is silent for so long */
    const char *client; /* connect to this place instead of serving */
};

static int echo_connection(hd_io conn, void *arg)
{
    const struct echo *echo = arg;
    char bytes[16 << 10];
    for (;;) {
        const int64_t deadline = hd_after_ms(echo->idle_ms);
        const ssize_t n = hd_read_until(conn, bytes, sizeof(bytes), deadline);
        if (n <= 0) return (int)n;
        const int err = hd_write_all_until(conn, bytes, (size_t)n, NULL, deadline);
        if (err) return err;
    }
}

/* ---- the client ---- */

static int copy(hd_io from, hd_io to)
{
    char bytes[4 << 10];
    ssize_t n;
    while ((n = hd_read(from, bytes, sizeof(bytes))) > 0) {
        const int err = hd_write_all(to, bytes, (size_t)n, NULL);
        if (err) return err;
    }
    return (int)n;
}

static int send_input(void *arg)
{
    const hd_io *conn = arg;
    const int err = copy(hd_stdin(), *conn);
    return err ? err : hd_shutdown(*conn, SHUT_WR);
}

static int client_app(void *arg)
{
    const struct echo *echo = arg;
    hd_io conn;
    int err = hd_tcp_connect_until(&conn, echo->client, NULL, hd_after_ms(10000));
    if (!err) {
        HD_NURSERY(n) {
            err = hd_go(n, send_input, &conn);
            if (!err) err = copy(conn, hd_stdout());
            hd_nursery_cancel(n); /* The server has ended it: what is typed now goes nowhere. */
        }
        hd_close(conn);
    }
    if (err) fprintf(stderr, "echo: %s: %s\n", echo->client, strerror(-err));
    return err;
}

/* ---- testing itself ---- */

struct talker {
    const char *place;
    size_t bytes;
};

static int talk(void *arg)
{
    const struct talker *talker = arg;
    hd_io conn;
    int err = hd_tcp_connect(&conn, talker->place, NULL);
    if (err) return err;
    err = server_talk(conn, talker->bytes);
    hd_close(conn);
    return err;
}

/* Several clients at once, each of which gets back what it sent. */
static int echo_check(const char *place, void *arg)
{
    (void)arg;
    struct talker talkers[] = {{place, 0}, {place, 1}, {place, 10000}, {place, 100000}};
    HD_NURSERY(n) {
        for (size_t i = 0; i < sizeof(talkers) / sizeof(talkers[0]); i++) {
            if (hd_go(n, talk, &talkers[i])) hd_nursery_cancel(n);
        }
    }
    return hd_nursery_result();
}

/* ---- the program ---- */

static const char help[] =
    "usage: echo [OPTION]...\n"
    "Send back what clients send.\n\n"
    "  --listen PLACE     ADDRESS:PORT; port 0 is any free one; default 127.0.0.1:7007\n"
    "  --connections N    at a time, at most; default 10000\n"
    "  --idle MS          end connections that are silent for so long; default 60000\n"
    "  --workers N        1 to 256; default: one for each CPU\n"
    "  --client PLACE     instead, send the standard input to a server and show what comes back\n"
    "  --self-test        serve, talk to it, and exit\n"
    "  --help             show this\n\n"
    "With HEDDLE_SEED=N in the environment it runs simulated.\n";

int main(int argc, char **argv)
{
    struct echo echo = {.idle_ms = 60000};
    struct server server = {
        .name = "echo",
        .help = help,
        .place = "127.0.0.1:7007",
        .connection = echo_connection,
        .check = echo_check,
        .arg = &echo,
        .connections_max = 10000,
        .fds_each = 1,
        .options = {{.name = "idle", .number = &echo.idle_ms, .most = 86400000},
                    {.name = "client", .text = &echo.client}},
    };
    bool self_test = false;
    const int status = server_read_arguments(&server, &self_test, argc, argv);
    if (status >= 0) return status;
    if (echo.client) return server_run(&server, client_app, &echo);
    return server_main(&server, self_test);
}
