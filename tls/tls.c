/* SPDX-License-Identifier: MIT
 *
 * tls: connections. OpenSSL works on memory only: bytes that came from the stream are put into
 * one of its memory BIOs, what it wants to send is taken out of another.
 *
 * Four locks, taken in this order:
 *
 *   hello who shakes hands, before `ready`
 *   in    who reads from the stream once it is `ready`: held by a read while it waits
 *   out   who writes to the stream: held by a write while it waits
 *   core  for OpenSSL itself: a lock of the system's, held for the time of one call, never while
 *         anything waits, so that reading and writing do not wait for each other
 *
 *   TLS-1  `input` is hello's before `ready`, and in's from then on. What was read is in the BIO
 *          before the lock is given back, so bytes arrive in order.
 *   TLS-2  `output` is out's. A part of it that was not written is written first by whoever has
 *          `out` next, so bytes leave in order. `start` and `end` are changed by who holds `out`
 *          and `core`, so that one of them suffices for reading.
 *   TLS-3  Whatever a call makes OpenSSL say (an alert, a new key) is offered to the stream before
 *          the call waits for an answer, or returns. If somebody else has `out` meanwhile, it is
 *          theirs to send: after giving `out` back they look again.
 *   TLS-4  `unsent` is bounded: a write adds a record to nothing, and a read, which adds an answer
 *          to each request for new keys, first waits until less than UNSENT_BYTES_MAX are left.
 *   TLS-5  Cancelled and late calls have taken nothing: bytes are taken by one call of OpenSSL, and
 *          what follows it cannot undo it, and is not told.
 *
 * Rejected: holding one lock while waiting: a reader that waits for data would keep writers out.
 * `in` for the handshake too: a writer that waits for its end would find a reader there for ever.
 * A lock of Heddle's as `core`: it fails by a cancel, and then what was read would be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <heddle/select.h>
#include <heddle/sync.h>

#include "tls_private.h"

enum {
    RECORD_BYTES = 16384,                 /* of data in one record, by the protocol */
    STREAM_BYTES = RECORD_BYTES + 512,    /* moved at once: a record and what is around it */
    UNSENT_BYTES_MAX = 4 * RECORD_BYTES,  /* beyond that, nothing is read that may add to it */
    ENDED = 1,                            /* beside 0 and -errno: the other side said goodbye */
};

struct hd_tls {
    hd_io conn;
    struct hd_tls_config *config;
    hd_mutex hello, in, out;
    pthread_mutex_t core;
    SSL *ssl;                             /* core */
    BIO *received, *unsent;               /* core; ssl has them */
    bool ready;                           /* core: the handshake is done */
    bool truncated;                       /* as input */
    int failed;                           /* core: what all calls return from now on */
    size_t start, end;                    /* TLS-2: the part of output that is not written */
    char error[HD_TLS_TEXT_MAX];          /* core; written once */
    char name[HD_TLS_TEXT_MAX];           /* core; the server's; constant once `ready` */
    char alpn[HD_TLS_TEXT_MAX];           /* the same */
    unsigned char input[STREAM_BYTES], output[STREAM_BYTES];
};

/* ---- OpenSSL ---- */

static void enter(struct hd_tls *tls)
{
    pthread_mutex_lock(&tls->core);
    ERR_clear_error();
}

static void leave(struct hd_tls *tls)
{
    pthread_mutex_unlock(&tls->core);
}

/* The first words are kept. Context: core. */
static void say(struct hd_tls *tls, const char *text)
{
    if (tls->error[0] == 0) snprintf(tls->error, sizeof(tls->error), "%s", text);
}

/* Context: core, right after the call that failed. */
static int fail(struct hd_tls *tls)
{
    char text[HD_TLS_TEXT_MAX], words[HD_TLS_TEXT_MAX];
    const unsigned long error = ERR_peek_error();
    const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    const bool invalid = reason == SSL_R_CERTIFICATE_VERIFY_FAILED;
    const bool missing = reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
    tls->failed = hdt_error_take(text, invalid || missing ? -EKEYREJECTED : -EPROTO);
    const char *verdict = X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl));
    snprintf(words, sizeof(words), "%.140s%s%.100s", text, invalid ? ": " : "",
             invalid ? verdict : "");
    say(tls, words);
    return tls->failed;
}

/* How a call of OpenSSL ended: 0, ENDED, -EAGAIN: it needs more from the stream; or it failed.
 * Context: core, right after the call. */
static int outcome(struct hd_tls *tls, int result)
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_NONE: return 0;
    case SSL_ERROR_ZERO_RETURN: return ENDED;
    case SSL_ERROR_WANT_READ: return -EAGAIN;
    default: return fail(tls);
    }
}

/* Context: core. */
static void note_agreement(struct hd_tls *tls)
{
    const unsigned char *alpn = NULL;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(tls->ssl, &alpn, &bytes);
    if (bytes > 0) memcpy(tls->alpn, alpn, bytes);
    const char *name = SSL_get_servername(tls->ssl, TLSEXT_NAMETYPE_host_name);
    if (name && tls->name[0] == 0) snprintf(tls->name, sizeof(tls->name), "%s", name);
    tls->ready = true;
}

static int step_handshake(struct hd_tls *tls)
{
    enter(tls);
    int err = tls->failed;
    if (!err) err = outcome(tls, SSL_do_handshake(tls->ssl));
    if (!err) note_agreement(tls);
    if (err == ENDED) {
        say(tls, "the other side said goodbye before the handshake was done");
        err = tls->failed = -ECONNABORTED;
    }
    leave(tls);
    return err;
}

static int decrypt(struct hd_tls *tls, void *buffer, size_t bytes, size_t *done)
{
    enter(tls);
    int err = tls->failed;
    if (!err) err = outcome(tls, SSL_read_ex(tls->ssl, buffer, bytes, done));
    leave(tls);
    return err;
}

static bool said_goodbye(struct hd_tls *tls)
{
    return (SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN) != 0;
}

static int encrypt(struct hd_tls *tls, const void *buffer, size_t bytes, size_t *done)
{
    enter(tls);
    int err = tls->failed;
    if (!err && said_goodbye(tls)) err = -EPIPE;
    if (!err) err = outcome(tls, SSL_write_ex(tls->ssl, buffer, bytes, done));
    leave(tls);
    /* With memory below and no renegotiation, nothing has to be read first. */
    return err == -EAGAIN ? -EPROTO : err == ENDED ? -EPIPE : err;
}

static int say_goodbye(struct hd_tls *tls)
{
    enter(tls);
    int err = tls->failed;
    if (!err && !said_goodbye(tls)) {
        const int result = SSL_shutdown(tls->ssl);
        if (result < 0) err = outcome(tls, result);
    }
    leave(tls);
    return err == ENDED ? 0 : err;
}

/* ---- the stream ---- */

/* How much OpenSSL wants to say that was not written yet. */
static size_t output_bytes(struct hd_tls *tls)
{
    enter(tls);
    const size_t bytes = tls->end - tls->start + BIO_ctrl_pending(tls->unsent);
    leave(tls);
    return bytes;
}

/* `bytes` of the output were written; have more. Returns whether there is any. Context: out. */
static bool next_output(struct hd_tls *tls, size_t bytes)
{
    enter(tls);
    tls->start += bytes;
    if (tls->start == tls->end) {
        const int n = BIO_read(tls->unsent, tls->output, sizeof(tls->output));
        tls->start = 0;
        tls->end = n > 0 ? (size_t)n : 0;
    }
    leave(tls);
    return tls->start < tls->end;
}

/* Write all that OpenSSL wants to say. Context: out. */
static int send_output(struct hd_tls *tls, int64_t deadline)
{
    ssize_t n = 0;
    while (next_output(tls, (size_t)n)) {
        n = hd_write_until(tls->conn, tls->output + tls->start, tls->end - tls->start, deadline);
        if (n < 0) return (int)n;
    }
    return 0;
}

/* Send what can be sent now, unless somebody else is at it (TLS-3). Returns: 0; -EAGAIN: there is
 * more, and nobody who sends it; an error. */
static int offer_output(struct hd_tls *tls)
{
    int err = 0;
    while (!err && output_bytes(tls) > 0) {
        if (hd_mutex_lock_try(&tls->out)) return 0;
        err = send_output(tls, HD_NOW);
        hd_mutex_unlock(&tls->out);
    }
    return err;
}

static int flush_output(struct hd_tls *tls, int64_t deadline)
{
    int err = hd_mutex_lock_until(&tls->out, deadline);
    if (err) return err;
    err = send_output(tls, deadline);
    hd_mutex_unlock(&tls->out);
    (void)offer_output(tls);
    return err;
}

/* Read from the stream. While there is output that nobody sends, wait for either: the other side
 * may be waiting for that. Context: hello or in (TLS-1). */
static ssize_t receive(struct hd_tls *tls, int64_t deadline)
{
    for (;;) {
        const int err = output_bytes(tls) > UNSENT_BYTES_MAX ? flush_output(tls, deadline) : 0;
        if (err) return err; /* TLS-4 */
        const bool stuck = offer_output(tls) == -EAGAIN;
        const ssize_t n = hd_read_until(tls->conn, tls->input, sizeof(tls->input),
                                        stuck ? HD_NOW : deadline);
        if (!stuck || n != -EAGAIN || deadline == HD_NOW) return n;
        hd_case cases[] = {HD_READABLE(tls->conn), HD_WRITABLE(tls->conn)};
        const int which = hd_select_until(cases, 2, 0, deadline);
        if (which < 0) return which;
    }
}

/* Get more for OpenSSL. Context: hello or in (TLS-1). */
static int fill_input(struct hd_tls *tls, int64_t deadline)
{
    const ssize_t n = tls->truncated ? 0 : receive(tls, deadline);
    if (n < 0) return (int)n;
    enter(tls);
    int err = 0;
    if (n == 0) {
        tls->truncated = true;
        say(tls, "the connection ended without a goodbye");
        err = -ECONNABORTED;
    } else if (BIO_write(tls->received, tls->input, (int)n) != n) {
        say(tls, "out of memory");
        err = tls->failed = -ENOMEM; /* What was read is lost. */
    }
    leave(tls);
    return err;
}

/* ---- handshake ---- */

static bool passes(int err)
{
    return err == -ECANCELED || err == -ETIMEDOUT || err == -EAGAIN;
}

/* Sending failed with `err`: the other side may have said why before it left. Context: hello. */
static int explain(struct hd_tls *tls, int err)
{
    while (!passes(err) && fill_input(tls, HD_NOW) == 0) {
        const int why = step_handshake(tls);
        if (why != -EAGAIN) return why;
    }
    return err;
}

/* Context: hello. */
static int shake_hands(struct hd_tls *tls, int64_t deadline)
{
    for (;;) {
        int err = step_handshake(tls);
        if (err && err != -EAGAIN) {
            (void)offer_output(tls); /* an alert that says why */
            return err;
        }
        const bool done = err == 0;
        err = output_bytes(tls) > 0 ? flush_output(tls, deadline) : 0;
        /* Once it is done, only who writes needs to know: something may still be read. */
        if (done) return passes(err) ? err : 0;
        err = err ? explain(tls, err) : fill_input(tls, deadline);
        if (err) return err;
    }
}

static bool is_ready(struct hd_tls *tls)
{
    enter(tls);
    const bool ready = tls->ready;
    leave(tls);
    return ready;
}

static int have_handshake(struct hd_tls *tls, int64_t deadline)
{
    if (is_ready(tls)) return 0;
    int err = hd_mutex_lock_until(&tls->hello, deadline);
    if (err) return err;
    if (!is_ready(tls)) err = shake_hands(tls, deadline);
    hd_mutex_unlock(&tls->hello);
    return err;
}

int hd_tls_handshake_until(hd_tls *tls, int64_t deadline)
{
    const int err = have_handshake(tls, deadline);
    return err ? err : flush_output(tls, deadline); /* One before may have been cut short. */
}

int hd_tls_handshake(hd_tls *tls)
{
    return hd_tls_handshake_until(tls, HD_FOREVER);
}

/* ---- reading and writing ---- */

ssize_t hd_tls_read_until(hd_tls *tls, void *buffer, size_t bytes, int64_t deadline)
{
    if (bytes == 0) return 0;
    int err = have_handshake(tls, deadline);
    if (!err) err = hd_mutex_lock_until(&tls->in, deadline);
    if (err) return err;
    size_t done = 0;
    while ((err = decrypt(tls, buffer, bytes, &done)) == -EAGAIN) {
        err = fill_input(tls, deadline);
        if (err) break;
    }
    hd_mutex_unlock(&tls->in);
    (void)offer_output(tls);
    return err < 0 ? err : (ssize_t)done;
}

ssize_t hd_tls_read(hd_tls *tls, void *buffer, size_t bytes)
{
    return hd_tls_read_until(tls, buffer, bytes, HD_FOREVER);
}

ssize_t hd_tls_read_fn(void *tls, void *buffer, size_t bytes, int64_t deadline)
{
    return hd_tls_read_until(tls, buffer, bytes, deadline);
}

ssize_t hd_tls_write_until(hd_tls *tls, const void *buffer, size_t bytes, int64_t deadline)
{
    if (bytes == 0) return 0;
    int err = have_handshake(tls, deadline);
    if (!err) err = hd_mutex_lock_until(&tls->out, deadline);
    if (err) return err;
    size_t done = 0;
    err = send_output(tls, deadline);
    if (!err) err = encrypt(tls, buffer, bytes < RECORD_BYTES ? bytes : RECORD_BYTES, &done);
    if (!err) {
        err = send_output(tls, deadline);
        if (passes(err)) err = 0; /* TLS-5 */
    }
    hd_mutex_unlock(&tls->out);
    (void)offer_output(tls);
    return err ? err : (ssize_t)done;
}

ssize_t hd_tls_write(hd_tls *tls, const void *buffer, size_t bytes)
{
    return hd_tls_write_until(tls, buffer, bytes, HD_FOREVER);
}

ssize_t hd_tls_write_fn(void *tls, const void *buffer, size_t bytes, int64_t deadline)
{
    return hd_tls_write_until(tls, buffer, bytes, deadline);
}

int hd_tls_write_all_until(hd_tls *tls, const void *buffer, size_t bytes, size_t *done,
                           int64_t deadline)
{
    const char *from = buffer;
    size_t taken = 0;
    ssize_t n = 0;
    while (taken < bytes) {
        n = hd_tls_write_until(tls, from + taken, bytes - taken, deadline);
        if (n < 0) break;
        taken += (size_t)n;
    }
    if (done) *done = taken;
    return n < 0 ? (int)n : 0;
}

int hd_tls_write_all(hd_tls *tls, const void *buffer, size_t bytes, size_t *done)
{
    return hd_tls_write_all_until(tls, buffer, bytes, done, HD_FOREVER);
}

int hd_tls_shutdown_until(hd_tls *tls, int64_t deadline)
{
    if (!is_ready(tls)) return -ENOTCONN;
    int err = hd_mutex_lock_until(&tls->out, deadline);
    if (err) return err;
    err = send_output(tls, deadline);
    if (!err) err = say_goodbye(tls);
    if (!err) err = send_output(tls, deadline);
    hd_mutex_unlock(&tls->out);
    (void)offer_output(tls);
    return err;
}

int hd_tls_shutdown(hd_tls *tls)
{
    return hd_tls_shutdown_until(tls, HD_FOREVER);
}

/* ---- making and ending ---- */

/* The client: whom to ask for, and whose certificate to accept. */
static int set_name(struct hd_tls *tls, const char *name)
{
    X509_VERIFY_PARAM *check = SSL_get0_param(tls->ssl);
    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    snprintf(tls->name, sizeof(tls->name), "%s", name);
    if (X509_VERIFY_PARAM_set1_ip_asc(check, name) == 1) return 0; /* SNI is for names only. */
    if (SSL_set1_host(tls->ssl, name) != 1) return -ENOMEM;
    return SSL_set_tlsext_host_name(tls->ssl, name) == 1 ? 0 : -ENOMEM;
}

static int set_role(struct hd_tls *tls, bool client, const char *name)
{
    const struct hd_tls_config *config = tls->config;
    int verify = SSL_VERIFY_NONE;
    if (client) {
        SSL_set_connect_state(tls->ssl);
        if (!config->unverified) verify = SSL_VERIFY_PEER;
    } else {
        SSL_set_accept_state(tls->ssl);
        if (config->verify_client) verify = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_set_verify(tls->ssl, verify, NULL);
    return name ? set_name(tls, name) : 0;
}

/* Returns: 0, or -ENOMEM with some of it done. */
static int set_up(struct hd_tls *tls, bool client, const char *name)
{
    int err = -ENOMEM;
    tls->ssl = SSL_new(tls->config->context);
    tls->received = BIO_new(BIO_s_mem());
    tls->unsent = BIO_new(BIO_s_mem());
    if (tls->ssl && tls->received && tls->unsent) {
        BIO_set_mem_eof_return(tls->received, -1); /* Empty is not the end. */
        SSL_set_bio(tls->ssl, tls->received, tls->unsent);
        err = set_role(tls, client, name);
    } else {
        BIO_free(tls->received);
        BIO_free(tls->unsent);
    }
    ERR_clear_error();
    return err;
}

static int create(hd_tls **tls, hd_io conn, hd_tls_config *config, bool client, const char *name)
{
    struct hd_tls *made = calloc(1, sizeof(*made));
    if (!made) return -ENOMEM;
    made->conn = conn;
    made->config = hdt_config_share(config);
    hd_mutex_init(&made->hello);
    hd_mutex_init(&made->in);
    hd_mutex_init(&made->out);
    pthread_mutex_init(&made->core, NULL);
    const int err = set_up(made, client, name);
    if (err) {
        hd_tls_destroy(made);
        return err;
    }
    *tls = made;
    return 0;
}

int hd_tls_client(hd_tls **tls, hd_io conn, hd_tls_config *config, const char *server_name)
{
    if (!server_name && !config->unverified) return -EINVAL;
    if (server_name && (*server_name == 0 || strlen(server_name) >= HD_TLS_TEXT_MAX)) {
        return -EINVAL;
    }
    return create(tls, conn, config, true, server_name);
}

int hd_tls_server(hd_tls **tls, hd_io conn, hd_tls_config *config)
{
    return config->has_certificate ? create(tls, conn, config, false, NULL) : -EINVAL;
}

void hd_tls_destroy(hd_tls *tls)
{
    SSL_free(tls->ssl);
    hd_mutex_fini(&tls->hello);
    hd_mutex_fini(&tls->in);
    hd_mutex_fini(&tls->out);
    pthread_mutex_destroy(&tls->core);
    hd_tls_config_destroy(tls->config);
    free(tls);
}

/* ---- what was agreed on ---- */

const char *hd_tls_alpn(hd_tls *tls)
{
    return is_ready(tls) && tls->alpn[0] ? tls->alpn : NULL;
}

const char *hd_tls_version(hd_tls *tls)
{
    enter(tls);
    const char *version = tls->ready ? SSL_get_version(tls->ssl) : NULL; /* a constant */
    leave(tls);
    return version;
}

const char *hd_tls_server_name(hd_tls *tls)
{
    enter(tls);
    const bool known = tls->name[0] != 0;
    leave(tls);
    return known ? tls->name : NULL;
}

const char *hd_tls_error(hd_tls *tls)
{
    enter(tls);
    const bool known = tls->error[0] != 0;
    leave(tls);
    return known ? tls->error : "";
}

static int print_name(char text[HD_TLS_TEXT_MAX], const X509_NAME *name)
{
    BIO *memory = BIO_new(BIO_s_mem());
    if (!memory) return -ENOMEM;
    const bool printed = X509_NAME_print_ex(memory, name, 0, XN_FLAG_RFC2253) >= 0;
    const int n = BIO_read(memory, text, HD_TLS_TEXT_MAX - 1);
    text[n > 0 ? n : 0] = 0;
    BIO_free(memory);
    return printed ? 0 : -ENOMEM;
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm tm;
    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

int hd_tls_peer_certificate(hd_tls *tls, hd_tls_certificate *certificate)
{
    hd_tls_certificate made;
    enter(tls);
    X509 *x509 = tls->ready ? SSL_get1_peer_certificate(tls->ssl) : NULL;
    leave(tls);
    if (!x509) return -ENOENT;
    made.not_before = seconds_of(X509_get0_notBefore(x509));
    made.not_after = seconds_of(X509_get0_notAfter(x509));
    int err = print_name(made.subject, X509_get_subject_name(x509));
    if (!err) err = print_name(made.issuer, X509_get_issuer_name(x509));
    if (!err && X509_digest(x509, EVP_sha256(), made.sha256, NULL) != 1) err = -ENOMEM;
    X509_free(x509);
    ERR_clear_error();
    if (!err) *certificate = made;
    return err;
}
