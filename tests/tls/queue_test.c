/* SPDX-License-Identifier: MIT
 *
 * TLS: OpenSSL's queue of errors belongs to the thread, and all its fibers leave theirs there. What
 * others left is never taken for ours, nor ours for theirs: not by calls that wait, nor by those
 * that go on with another thread.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "peers.h"
#include "pools.h"

TEST_MAIN

/* As one does who uses OpenSSL by himself, and does not clear up. Taken for ours, it would be
 * -EKEYREJECTED. */
static void litter(void)
{
    ERR_raise_data(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED, "left by somebody else");
}

/* In live one thread for all, as there is in sim. */
static hd_options one_thread(const hd_options *options)
{
    return rt_is_sim(options) ? *options : rt_workers(options, 1);
}

/* ---- bytes that come one by one, each from somebody who litters ---- */

struct relay {
    hd_io from, to;
};

static int relay_and_litter(void *arg)
{
    const struct relay relay = *(struct relay *)arg;
    char byte;
    free(arg);
    while (hd_read(relay.from, &byte, 1) == 1) {
        litter();
        if (hd_write_all(relay.to, &byte, 1, NULL)) break;
        hd_yield(); /* who reads has a byte of the record, and needs more */
    }
    hd_shutdown(relay.to, SHUT_WR);
    return 0;
}

static void between_litterers(hd_io ends[4])
{
    for (int i = 0; i < 2; i++) {
        struct relay *relay = malloc(sizeof(*relay));
        *relay = (struct relay){ends[1 + i], ends[2 - i]};
        hd_detach(rt_spawn(NULL, relay_and_litter, relay));
    }
}

/* ---- calls that succeed ---- */

static void expect_line(hd_tls *tls, const char *line)
{
    char got[100];
    const size_t bytes = strlen(line);
    for (size_t n = 0; n < bytes;) {
        litter();
        const ssize_t more = hd_tls_read(tls, got + n, bytes - n);
        EXPECT(more > 0);
        n += (size_t)more;
    }
    EXPECT(memcmp(got, line, bytes) == 0);
}

static void say_line(hd_tls *tls, const char *line)
{
    litter();
    EXPECT_EQ(hd_tls_write_all(tls, line, strlen(line), NULL), 0);
}

static int part(hd_tls *tls)
{
    char byte;
    litter();
    EXPECT_EQ(hd_tls_shutdown(tls), 0);
    litter();
    EXPECT_EQ(hd_tls_read(tls, &byte, 1), 0);
    EXPECT_EQ(hd_tls_error(tls)[0], 0);
    return 0;
}

static int ask(struct peer *peer)
{
    hd_tls_certificate certificate;
    litter();
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    litter();
    EXPECT_EQ(hd_tls_peer_certificate(peer->tls, &certificate), 0);
    for (int i = 0; i < 5; i++) {
        say_line(peer->tls, "is anybody there?\n");
        expect_line(peer->tls, "not that I knew\n");
    }
    return part(peer->tls);
}

static int answer(struct peer *peer)
{
    litter();
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    for (int i = 0; i < 5; i++) {
        expect_line(peer->tls, "is anybody there?\n");
        say_line(peer->tls, "not that I knew\n");
    }
    return part(peer->tls);
}

/* One's own, from before the call. */
TEST_PEERS(errors_from_before_a_call, options, kind)
{
    const hd_options own = one_thread(options);
    peers_meet(&own, kind, ask, answer, 0, 0);
}

TEST_PEERS(errors_from_while_it_waits, options, kind)
{
    const hd_options own = one_thread(options);
    struct peers p;
    peers_init(&p, kind, ask, answer);
    p.between = between_litterers;
    peers_expect(&p, &own, 0, 0);
}

/* ---- calls that fail, of several connections at once ---- */

static int shake(struct peer *peer)
{
    const int err = hd_tls_handshake(peer->tls);
    litter();
    return err;
}

static int read_a_byte(struct peer *peer)
{
    char byte;
    const int err = (int)hd_tls_read(peer->tls, &byte, 1);
    litter();
    return err;
}

static int talk_plainly(struct peer *peer)
{
    char alert[100];
    const int err = hd_write_all(peer->conn, "GET / HTTP/1.0\r\n\r\n", 18, NULL);
    EXPECT(err == 0 || err == -ECONNRESET || err == -EPIPE); /* They may have left by then. */
    while (hd_read(peer->conn, alert, sizeof(alert)) > 0) continue;
    return 0;
}

enum { MISNAMED, EXPIRED, MUTE, PLAIN, FINE, CROWD };

static int meet_all(void *arg)
{
    struct peers *crowd = arg;
    hd_task *tasks[CROWD];
    for (int i = 0; i < CROWD; i++) tasks[i] = rt_spawn(NULL, peers_main, &crowd[i]);
    for (int i = 0; i < CROWD; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

static void expect_failed(const struct peer *peer, int err, const char *words)
{
    EXPECT_EQ(peer->result, err);
    expect_text(peer->error, words);
    EXPECT(strstr(peer->error, "somebody else") == NULL);
}

static void crowd_init(struct peers crowd[CROWD], enum nets_kind kind)
{
    for (int i = 0; i < CROWD; i++) {
        if (i == FINE) {
            peers_init(&crowd[i], kind, ask, answer);
        } else {
            peers_init(&crowd[i], kind, i == PLAIN ? talk_plainly : read_a_byte, shake);
        }
        crowd[i].between = between_litterers;
    }
    crowd[MISNAMED].name = "localhost.example";
    crowd[EXPIRED].server.options.cert_file = certs.expired;
    crowd[MUTE].client.options.alpn = "h2";
    crowd[MUTE].server.options.alpn = "http/1.1";
}

static void crowd_expect(const struct peers crowd[CROWD])
{
    expect_failed(&crowd[MISNAMED].client, -EKEYREJECTED, "ostname mismatch");
    expect_failed(&crowd[MISNAMED].server, -EPROTO, "alert");
    expect_failed(&crowd[EXPIRED].client, -EKEYREJECTED, "expired");
    expect_failed(&crowd[EXPIRED].server, -EPROTO, "alert");
    expect_failed(&crowd[MUTE].client, -EPROTO, "no application protocol");
    expect_failed(&crowd[MUTE].server, -EPROTO, "no application protocol");
    expect_failed(&crowd[PLAIN].server, -EPROTO, "http request");
    expect_failed(&crowd[FINE].client, 0, "");
    expect_failed(&crowd[FINE].server, 0, "");
}

TEST_PEERS(each_connection_has_its_own, options, kind)
{
    const hd_options own = one_thread(options);
    struct peers crowd[CROWD];
    crowd_init(crowd, kind);
    rt_run(meet_all, crowd, &own);
    crowd_expect(crowd);
}

/* They move between the threads as they like. */
TEST_DRIVERS(whichever_thread_they_are_on, options)
{
    const hd_options own = rt_workers(options, 4);
    struct peers crowd[CROWD];
    for (int round = 0; round < 10; round++) {
        crowd_init(crowd, round % 2 ? NETS_TCP : NETS_UNIX);
        rt_run(meet_all, crowd, &own);
        crowd_expect(crowd);
    }
}

/* ---- a call that goes on with another thread ----
 *
 * A pool of two threads, on which the client reads. Once it has the first byte of a record, a fiber
 * takes each thread, and litters. The one on the thread that the client came from keeps it; the
 * other leaves, so the client goes on there. Then the record comes on, byte by byte. */

struct holders {
    hd_dispatcher *pool;
    atomic_int reader;  /* the thread that the client came from */
    atomic_int count;   /* holders that have a thread */
    atomic_int chosen, done;
};

static struct holders holders; /* a process per test */

static int hold_thread(void *arg)
{
    (void)arg;
    litter();
    atomic_fetch_add(&holders.count, 1);
    while (!atomic_load(&holders.chosen)) continue; /* without giving way: no two on one thread */
    while (gettid() == atomic_load(&holders.reader) && !atomic_load(&holders.done)) continue;
    return 0;
}

/* By then the reader waits: no thread was left for it. From then on, one is. */
static void take_threads(void)
{
    for (int i = 0; i < 2; i++) hd_detach(spawn_on(holders.pool, hold_thread, NULL, 0));
    while (atomic_load(&holders.count) < 2) hd_yield();
    atomic_store(&holders.chosen, 1);
}

/* A byte that who reads has taken out of the socket by the end. */
static void pass_byte(hd_io to, const char *byte)
{
    int left = 1;
    EXPECT_EQ(hd_write(to, byte, 1), 1);
    while (left > 0) {
        EXPECT_EQ(ioctl(hd_io_fd(to), SIOCOUTQ, &left), 0);
        hd_yield();
    }
}

static int relay_and_move(void *arg)
{
    const struct relay relay = *(struct relay *)arg;
    char bytes[4096];
    ssize_t n;
    free(arg);
    while ((n = hd_read(relay.from, bytes, sizeof(bytes))) > 0) {
        ssize_t passed = 0;
        if (atomic_load(&holders.reader) && !atomic_load(&holders.chosen)) {
            pass_byte(relay.to, bytes);
            take_threads();
            for (passed = 1; passed < n - 1; passed++) pass_byte(relay.to, bytes + passed);
        }
        EXPECT_EQ(hd_write_all(relay.to, bytes + passed, (size_t)(n - passed), NULL), 0);
    }
    return 0;
}

static int relay_on(void *arg)
{
    const struct relay relay = *(struct relay *)arg;
    char bytes[4096];
    ssize_t n;
    free(arg);
    while ((n = hd_read(relay.from, bytes, sizeof(bytes))) > 0) {
        EXPECT_EQ(hd_write_all(relay.to, bytes, (size_t)n, NULL), 0);
    }
    return 0;
}

static void between_threads(hd_io ends[4])
{
    for (int i = 0; i < 2; i++) {
        struct relay *relay = malloc(sizeof(*relay));
        *relay = (struct relay){ends[1 + i], ends[2 - i]};
        hd_detach(rt_spawn(NULL, i ? relay_and_move : relay_on, relay));
    }
}

static int read_and_move(struct peer *peer)
{
    char byte = 0;
    holders.pool = pool("two", 2, HD_POLICY_FAIR);
    HD_ON(holders.pool)
    {
        EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 1);
        EXPECT_EQ(byte, 'a');
        atomic_store(&holders.reader, gettid());
        EXPECT_EQ(hd_tls_write(peer->tls, "?", 1), 1);
        EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 1);
        EXPECT(gettid() != atomic_load(&holders.reader));
        atomic_store(&holders.done, 1);
    }
    hd_dispatcher_unref(holders.pool);
    return byte;
}

static int write_on_request(struct peer *peer)
{
    char byte;
    EXPECT_EQ(hd_tls_write(peer->tls, "a", 1), 1);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 1);
    EXPECT_EQ(hd_tls_write(peer->tls, "b", 1), 1);
    return 0;
}

TEST_DRIVERS(a_read_that_goes_on_with_another_thread, options)
{
    hd_options own = *options;
    struct peers p;
    own.stall_ns = HD_FOREVER; /* No other thread comes instead of those that are held. */
    own.workers = 2;
    peers_init(&p, NETS_UNIX, read_and_move, write_on_request);
    p.between = between_threads;
    peers_expect(&p, &own, 'b', 0);
}

/* ---- configurations ---- */

static void expect_refused(const hd_tls_options *options, int err, const char *words)
{
    hd_tls_config *config = NULL;
    char why[HD_TLS_TEXT_MAX] = "";
    litter();
    EXPECT_EQ(hd_tls_config_create(&config, options, why), err);
    expect_text(why, words);
    EXPECT(strstr(why, "somebody else") == NULL);
    EXPECT_EQ(ERR_peek_error(), 0); /* nor do we litter */
}

TEST(a_file_that_cannot_be_used)
{
    hd_tls_options options = HD_TLS_OPTIONS_INIT;
    options.ca_file = "/nowhere/ca.pem";
    expect_refused(&options, -ENOENT, "No such file");
    options.ca_file = certs.key;
    expect_refused(&options, -EINVAL, "key.pem: ");
    options.ca_file = NULL;
    options.unverified = true; /* No file is read before. */
    options.cert_file = "/nowhere/cert.pem";
    expect_refused(&options, -ENOENT, "No such file");
    options.cert_file = certs.server;
    options.key_file = "/nowhere/key.pem";
    expect_refused(&options, -ENOENT, "No such file");
    options.key_file = certs.key;
    expect_refused(&options, -EINVAL, "key values mismatch");
}
