/* SPDX-License-Identifier: MIT
 *
 * A server that crashes and comes back, over bad links, and children that start late or not at all,
 * for the digests.
 */
#include <heddle.h>

#include "parts.h"

static int serve(void *arg)
{
    struct trail *trail = arg;
    hd_io listener, conn;
    char buffer[300];
    MUST(hd_tcp_listen(&listener, ":80", NULL));
    record(trail, UINT64_C(8) << 40);
    while (hd_accept(listener, &conn, NULL) == 0) {
        ssize_t n;
        while ((n = hd_read(conn, buffer, sizeof(buffer))) > 0) {
            record(trail, UINT64_C(9) << 40 | (uint64_t)n);
            if (hd_write_all(conn, buffer, (size_t)n, NULL) != 0) break;
        }
        record(trail, UINT64_C(10) << 40 | (uint64_t)(unsigned)n);
        hd_close(conn);
    }
    hd_close(listener);
    return 0;
}

/* What comes back of a thousand bytes, in which pieces, when. */
static void talk(struct trail *trail)
{
    char buffer[1000] = {0};
    const int64_t deadline = hd_after_ms(3000);
    hd_io conn;
    ssize_t n = hd_tcp_connect_until(&conn, "server:80", NULL, deadline);
    record(trail, (uint64_t)hd_now(NULL) ^ (uint64_t)n);
    if (n) return;
    n = hd_write_all_until(conn, buffer, sizeof(buffer), NULL, deadline);
    for (size_t got = 0; n >= 0 && got < sizeof(buffer); got += (size_t)n) {
        n = hd_read_until(conn, buffer, sizeof(buffer), deadline);
        record(trail, (uint64_t)hd_now(NULL) ^ (uint64_t)n);
        if (n <= 0) break;
    }
    hd_close(conn);
}

static void send_datagrams(struct trail *trail)
{
    hd_io from, to;
    hd_addr addr;
    unsigned number;
    MUST(hd_udp_open(&to, "127.0.0.1:53"));
    MUST(hd_udp_open(&from, "127.0.0.1:0"));
    MUST(hd_local_addr(to, &addr));
    for (unsigned i = 0; i < 20; i++) {
        record(trail, (uint64_t)hd_send_to(from, &i, sizeof(i), &addr));
    }
    while (hd_recv_from_until(to, &number, sizeof(number), NULL, hd_after_ms(1000)) > 0) {
        record(trail, (uint64_t)hd_now(NULL) ^ number);
    }
    hd_close(from);
    hd_close(to);
}

/* A program that says how long it took to start. */
static int tell_time(const hd_sim_process *self, void *arg)
{
    (void)self;
    record(arg, (uint64_t)hd_now(NULL));
    return hd_write(hd_stdout(), "x", 1) == 1 ? 7 : 8;
}

static void have_child(struct trail *trail)
{
    static const char *const argv[] = {"time", NULL};
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    hd_child *child;
    int status = -1;
    MUST(hd_sim_program("time", tell_time, trail));
    options.streams[1] = HD_CHILD_PIPE;
    const int err = hd_child_start(&child, argv, &options);
    record(trail, (uint64_t)err);
    if (err) return;
    MUST(hd_child_wait(child, &status));
    record(trail, (uint64_t)hd_now(NULL) ^ (uint64_t)status);
    hd_child_free(child);
}

int network_fiber(void *arg)
{
    struct trail *trail = arg;
    hd_sim_host *server;
    MUST(hd_sim_host_add(&server, "server", NULL, serve, trail));
    MUST(hd_sim_chaos(HD_SIM_CHAOS_ALL, 10 * HD_SECOND_NS));
    send_datagrams(trail);
    for (unsigned i = 0; i < 6; i++) {
        talk(trail);
        have_child(trail);
        MUST(hd_sleep_ms(500));
    }
    return 0;
}
