/* SPDX-License-Identifier: MIT
 *
 * tls_config: what connections have in common, and OpenSSL's errors in words.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "tls_private.h"

int hdt_error_take(char text[HD_TLS_TEXT_MAX], int other)
{
    const char *more = NULL;
    int flags = 0;
    const unsigned long error = ERR_peek_error_data(&more, &flags);
    const char *reason = ERR_reason_error_string(error);
    const bool system = error && ERR_SYSTEM_ERROR(error);
    const bool memory = ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    const int number = ERR_GET_REASON(error);
    if (system) reason = strerrordesc_np(number);
    if (!(flags & ERR_TXT_STRING) || !more) more = "";
    snprintf(text, HD_TLS_TEXT_MAX, "%s%s%s", reason ? reason : "OpenSSL gives no reason",
             *more ? ": " : "", more);
    ERR_clear_error();
    return system ? -number : memory ? -ENOMEM : other;
}

/* ---- ALPN ---- */

/* "a,b" as the protocol has it. */
static int alpn_parse(struct hd_tls_config *config, const char *names)
{
    for (;;) {
        const size_t length = strcspn(names, ",");
        if (length == 0 || config->alpn_bytes + 1 + length > HDT_ALPN_MAX) return -EINVAL;
        config->alpn[config->alpn_bytes++] = (unsigned char)length;
        memcpy(config->alpn + config->alpn_bytes, names, length);
        config->alpn_bytes += (unsigned)length;
        if (names[length] == 0) return 0;
        names += length + 1;
    }
}

/* The server's choice: its own order counts. A client that offers others only is refused, as RFC
 * 7301 wants it. */
static int alpn_choose(SSL *ssl, const unsigned char **chosen, unsigned char *bytes,
                       const unsigned char *offered, unsigned offered_bytes, void *arg)
{
    const struct hd_tls_config *config = arg;
    (void)ssl;
    const int found = SSL_select_next_proto((unsigned char **)chosen, bytes, config->alpn,
                                            config->alpn_bytes, offered, offered_bytes);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* ---- creating ---- */

struct made {
    struct hd_tls_config *config;
    const hd_tls_options *options;
    char *why;
};

/* What is wrong, in words; the caller returns what this does. */
static int refuse(struct made *made, int err, const char *what)
{
    snprintf(made->why, HD_TLS_TEXT_MAX, "%s", what);
    return err;
}

/* OpenSSL failed with a file. */
static int refuse_file(struct made *made, const char *path)
{
    char text[HD_TLS_TEXT_MAX];
    const int err = hdt_error_take(text, -EINVAL);
    snprintf(made->why, HD_TLS_TEXT_MAX, "%.100s: %.140s", path, text);
    return err;
}

static int set_trust(struct made *made)
{
    SSL_CTX *context = made->config->context;
    const char *path = made->options->ca_file;
    if (path) {
        ERR_clear_error();
        return SSL_CTX_load_verify_file(context, path) == 1 ? 0 : refuse_file(made, path);
    }
    if (made->options->unverified && !made->options->verify_client) return 0;
    ERR_clear_error();
    if (SSL_CTX_set_default_verify_paths(context) == 1) return 0;
    return refuse_file(made, "the system's roots");
}

static int set_identity(struct made *made)
{
    SSL_CTX *context = made->config->context;
    const char *cert = made->options->cert_file;
    const char *key = made->options->key_file ? made->options->key_file : cert;
    if (!cert) return key ? refuse(made, -EINVAL, "key_file without cert_file") : 0;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1) return refuse_file(made, cert);
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        return refuse_file(made, key);
    }
    made->config->has_certificate = true;
    return 0;
}

static int set_protocols(struct made *made)
{
    struct hd_tls_config *config = made->config;
    const int least = made->options->version_min ? made->options->version_min : HD_TLS_1_2;
    if (least != HD_TLS_1_2 && least != HD_TLS_1_3) {
        return refuse(made, -EINVAL, "version_min is neither HD_TLS_1_2 nor HD_TLS_1_3");
    }
    if (SSL_CTX_set_min_proto_version(config->context, least) != 1) return -ENOMEM;
    if (!made->options->alpn) return 0;
    if (alpn_parse(config, made->options->alpn)) {
        return refuse(made, -EINVAL, "alpn is no list of names with commas between them");
    }
    SSL_CTX_set_alpn_select_cb(config->context, alpn_choose, config);
    /* This one returns 0 for success. */
    return SSL_CTX_set_alpn_protos(config->context, config->alpn, config->alpn_bytes) ? -ENOMEM : 0;
}

static int set_all(struct made *made)
{
    struct hd_tls_config *config = made->config;
    static const unsigned char sessions[] = "heddle";
    config->unverified = made->options->unverified;
    config->verify_client = made->options->verify_client;
    config->context = SSL_CTX_new(TLS_method());
    if (!config->context) return -ENOMEM;
    SSL_CTX_set_options(config->context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(config->context, SSL_MODE_RELEASE_BUFFERS);
    /* Sessions go on by tickets, which the client keeps; there is no cache to be shared. */
    SSL_CTX_set_session_cache_mode(config->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(config->context, sessions, sizeof(sessions) - 1);
    int err = set_protocols(made);
    if (!err) err = set_trust(made);
    if (!err) err = set_identity(made);
    return err;
}

int hd_tls_config_create(hd_tls_config **config, const hd_tls_options *options,
                         char why[HD_TLS_TEXT_MAX])
{
    static const hd_tls_options defaults = HD_TLS_OPTIONS_INIT;
    char text[HD_TLS_TEXT_MAX] = "";
    struct made made = {NULL, options ? options : &defaults, why ? why : text};
    if (made.options->size != sizeof(defaults)) {
        return refuse(&made, -EINVAL, "size is not that of hd_tls_options");
    }
    made.config = calloc(1, sizeof(*made.config));
    if (!made.config) return refuse(&made, -ENOMEM, "out of memory");
    atomic_init(&made.config->users, 1);
    const int err = set_all(&made);
    if (err) {
        if (err == -ENOMEM) refuse(&made, err, "out of memory");
        hd_tls_config_destroy(made.config);
        return err;
    }
    *config = made.config;
    return 0;
}

void hd_tls_config_destroy(hd_tls_config *config)
{
    /* Release what we did with it; acquire what the others did, before it goes. */
    if (atomic_fetch_sub_explicit(&config->users, 1, memory_order_acq_rel) > 1) return;
    SSL_CTX_free(config->context);
    free(config);
}
