/* SPDX-License-Identifier: MIT
 *
 * TLS: every system call of a handshake, some data and the end fails in turn (tests/faults.h). The
 * side that learns of it closes its connection, and the other ends, too.
 */
#include "faults.h"
#include "peers.h"

TEST_MAIN

enum { BYTES = 20000 }; /* more than one record */

static hd_tls_config *configs[2]; /* of the client, of the server */
static enum nets_kind kind;

struct end {
    hd_io conn;
    bool client;
};

static int exchange(hd_tls *tls, bool client)
{
    static char bytes[2][BYTES];
    char *own = bytes[client];
    size_t done = 0;
    int err = hd_tls_handshake(tls);
    if (!err && client) err = hd_tls_write_all(tls, own, BYTES, NULL);
    while (!err && done < BYTES) {
        const ssize_t n = hd_tls_read(tls, own + done, BYTES - done);
        if (n > 0) done += (size_t)n;
        if (n <= 0) err = n == 0 ? -EPIPE : (int)n;
    }
    if (!err && client) err = (int)hd_tls_read(tls, own, 1); /* The end, and a clean one. */
    if (!err && !client) err = hd_tls_write_all(tls, own, BYTES, NULL);
    return err || client ? err : hd_tls_shutdown(tls);
}

static int run_end(void *arg)
{
    const struct end *end = arg;
    hd_tls *tls;
    int err = end->client ? hd_tls_client(&tls, end->conn, configs[0], "localhost")
                          : hd_tls_server(&tls, end->conn, configs[1]);
    if (!err) {
        err = exchange(tls, end->client);
        hd_tls_destroy(tls);
    }
    EXPECT_EQ(hd_close(end->conn), 0);
    return err;
}

static int connect_both(hd_io ends[2])
{
    hd_addr addr;
    hd_io listener;
    if (kind == NETS_UNIX) return hd_unix_pair(ends);
    int err = hd_tcp_listen(&listener, "127.0.0.1:0", NULL);
    if (err) return err;
    err = hd_local_addr(listener, &addr);
    if (!err) err = hd_connect(&ends[0], &addr);
    if (!err) {
        err = hd_accept(listener, &ends[1], NULL);
        if (err) EXPECT_EQ(hd_close(ends[0]), 0);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return err;
}

static int talk(void *arg)
{
    (void)arg;
    hd_io ends[2];
    hd_task *server;
    int err = connect_both(ends);
    if (err) return err;
    struct end client = {ends[0], true}, other = {ends[1], false};
    err = hd_spawn(&server, run_end, &other);
    if (err) {
        nets_close(ends[0], ends[1]);
        return err;
    }
    err = run_end(&client);
    const int theirs = rt_join(server);
    return err ? err : theirs;
}

static void fail_each(enum nets_kind of, const hd_options *options)
{
    hd_tls_options client = HD_TLS_OPTIONS_INIT, server = HD_TLS_OPTIONS_INIT;
    client.ca_file = server.ca_file = certs.ca;
    server.cert_file = certs.server;
    configs[0] = peers_config(&client);
    configs[1] = peers_config(&server);
    kind = of;
    faults_each(talk, NULL, options);
    faults_expect("recvmsg");
    faults_expect("sendmsg");
    hd_tls_config_destroy(configs[0]);
    hd_tls_config_destroy(configs[1]);
}

TEST_PEERS(whatever_fails_both_sides_end, options, of) { fail_each(of, options); }
