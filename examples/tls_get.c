/* SPDX-License-Identifier: MIT
 *
 * tls_get: fetches a page by HTTPS, and prints it.
 *
 *   ./tls_get https://example.org/
 *   ./tls_get --ca ca.pem --timeout 2000 https://localhost:8443/page
 *
 * The server has to show a certificate of the name that was asked for, by somebody whom the system,
 * or the file, trusts. Resolving, connecting, shaking hands and reading have one deadline together:
 * that of the scope around them. A page that ends without the server's goodbye was cut off, and is
 * an error.
 */
#include <errno.h>
#include <getopt.h>
#include <heddle.h>
#include <heddle/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 254, LINE_BYTES_MAX = 8 << 10, TIMEOUT_MS_MAX = 86400000 };

struct get {
    const char *url, *ca_file;
    unsigned timeout_ms;
    hd_io out;
    char name[NAME_BYTES_MAX];       /* of the server: for SNI, and to be in its certificate */
    char host[NAME_BYTES_MAX + 8];   /* as the URL has it: for the request */
    char place[NAME_BYTES_MAX + 16]; /* host and port, to connect to */
    const char *path;
    char why[HD_TLS_TEXT_MAX]; /* what went wrong, if errno does not say it */
};

/* https://HOST[:PORT][/PATH], where HOST may be an IPv6 address in brackets. */
static int read_url(struct get *get)
{
    static const char scheme[] = "https://";
    if (strncmp(get->url, scheme, strlen(scheme)) != 0) return -EINVAL;
    const char *host = get->url + strlen(scheme);
    const size_t host_bytes = strcspn(host, "/");
    const char *bracket = *host == '[' ? memchr(host, ']', host_bytes) : NULL;
    const char *name = bracket ? host + 1 : host;
    const size_t name_bytes = bracket ? (size_t)(bracket - name) : strcspn(host, ":/");
    const char *port = bracket ? bracket + 1 : host + name_bytes;
    const bool has_port = port < host + host_bytes;
    if (name_bytes == 0 || host_bytes >= sizeof(get->host) || name_bytes >= sizeof(get->name) ||
        strpbrk(get->url, " \r\n") || (has_port && *port != ':')) {
        return -EINVAL;
    }
    get->path = host[host_bytes] == '/' ? host + host_bytes : "/";
    snprintf(get->name, sizeof(get->name), "%.*s", (int)name_bytes, name);
    snprintf(get->host, sizeof(get->host), "%.*s", (int)host_bytes, host);
    snprintf(get->place, sizeof(get->place), "%s%s", get->host, has_port ? "" : ":443");
    return 0;
}

/* ---- the request, and the answer ---- */

/* The head: a status, then lines up to an empty one. Returns: 0; -EREMOTEIO: the server has
 * something else than the page. */
static int read_head(struct get *get, hd_reader *in)
{
    const char *line;
    ssize_t n = hd_read_line(in, &line);
    if (n < 0) return (int)n;
    if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || memcmp(line + 8, " 200", 4) != 0) {
        snprintf(get->why, sizeof(get->why), "the server says %.*s", (int)n, line);
        return -EREMOTEIO;
    }
    while ((n = hd_read_line(in, &line)) > 0) continue;
    return (int)n;
}

static int copy_page(struct get *get, hd_reader *in)
{
    char bytes[4 << 10];
    ssize_t n;
    while ((n = hd_reader_read(in, bytes, sizeof(bytes))) > 0) {
        const int err = hd_write_all(get->out, bytes, (size_t)n, NULL);
        if (err) return err;
    }
    return (int)n;
}

/* By HTTP/1.0, so that the page ends with the connection. */
static int talk(struct get *get, hd_tls *tls)
{
    char in_memory[LINE_BYTES_MAX], out_memory[1 << 10];
    hd_reader in;
    hd_writer out;
    hd_reader_init_fn(&in, hd_tls_read_fn, tls, in_memory, sizeof(in_memory));
    hd_writer_init_fn(&out, hd_tls_write_fn, tls, out_memory, sizeof(out_memory));
    int err = hd_writer_printf(&out, "GET %.*s HTTP/1.0\r\nHost: %s\r\nUser-Agent: heddle\r\n\r\n",
                               (int)strcspn(get->path, "#"), get->path, get->host);
    if (!err) err = hd_writer_flush(&out);
    if (!err) err = read_head(get, &in);
    if (!err) err = copy_page(get, &in);
    return err ? err : hd_tls_shutdown(tls);
}

/* ---- the connection ---- */

static int talk_by_tls(struct get *get, hd_tls_config *config, hd_io conn)
{
    hd_tls *tls;
    int err = hd_tls_client(&tls, conn, config, get->name);
    if (err) return err;
    err = talk(get, tls);
    if (err && !get->why[0]) snprintf(get->why, sizeof(get->why), "%s", hd_tls_error(tls));
    hd_tls_destroy(tls);
    return err;
}

static int connect_and_talk(struct get *get, hd_tls_config *config)
{
    hd_io conn;
    int err = hd_tcp_connect(&conn, get->place, NULL);
    if (err == -ENOENT) snprintf(get->why, sizeof(get->why), "there is no such host");
    if (err) return err;
    err = talk_by_tls(get, config, conn);
    hd_close(conn);
    return err;
}

static int get_app(void *arg)
{
    struct get *get = arg;
    hd_tls_options options = HD_TLS_OPTIONS_INIT;
    hd_tls_config *config;
    options.ca_file = get->ca_file;
    int err = hd_tls_config_create(&config, &options, get->why);
    if (err) return err;
    HD_SCOPE(whole, .deadline = hd_after_ms(get->timeout_ms)) err = connect_and_talk(get, config);
    hd_tls_config_destroy(config);
    return err;
}

/* ---- the program ---- */

static const char help[] =
    "usage: tls_get [OPTION]... https://HOST[:PORT][/PATH]\n"
    "Fetch a page by HTTPS, from a server whose certificate is trusted, and print it.\n\n"
    "  --ca FILE       whom to trust (PEM); default: whom the system trusts\n"
    "  --timeout MS    for all of it; default 30000\n"
    "  --help          show this\n";

/* Returns -1 to go on, or what to exit with. */
static int read_arguments(struct get *get, int argc, char **argv)
{
    static const struct option options[] = {{"ca", required_argument, NULL, 'c'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int what; (what = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (what == '?') return 2; /* getopt_long() has said why. */
        if (what == 'h') return fputs(help, stdout) < 0;
        if (what == 'c') get->ca_file = optarg;
        if (what != 't') continue;
        char *end;
        const unsigned long ms = strtoul(optarg, &end, 10);
        if (*optarg < '0' || *optarg > '9' || *end || ms < 1 || ms > TIMEOUT_MS_MAX) {
            fprintf(stderr, "tls_get: --timeout: '%s' is no number from 1 to %d\n", optarg,
                    TIMEOUT_MS_MAX);
            return 2;
        }
        get->timeout_ms = (unsigned)ms;
    }
    if (optind + 1 == argc) get->url = argv[optind];
    if (get->url && read_url(get) == 0) return -1;
    fprintf(stderr, "tls_get: %s; see --help\n", get->url ? "that is no https URL" : "no URL");
    return 2;
}

static int print_app(void *arg)
{
    struct get *get = arg;
    get->out = hd_stdout();
    return get_app(get);
}

int main(int argc, char **argv)
{
    struct get get = {.timeout_ms = 30000};
    const int status = read_arguments(&get, argc, argv);
    if (status >= 0) return status;
    const int err = hd_run(print_app, &get, NULL);
    if (err) {
        fprintf(stderr, "tls_get: %s: %s\n", get.url, get.why[0] ? get.why : strerror(-err));
    }
    return err ? 1 : 0;
}
