/* SPDX-License-Identifier: MIT
 *
 * The example tls_get, against a server that is as it should be, and against others.
 */
#include "peers.h"

int example_main(int argc, char **argv);
#define main example_main
#include "../../examples/tls_get.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

TEST_MAIN

enum { PAGE_BYTES = 50000 };

/* A server for one connection. */
struct site {
    const char *cert_file;
    const char *head;    /* what it answers; NULL: nothing, it waits */
    bool vanishes;       /* without a goodbye */
    hd_io listener;
    char asked[512];     /* the request, a line after the other */
    char asked_for[64];  /* the name (SNI) */
};

static char page_byte(size_t at)
{
    return (char)('a' + (at + at / 100) % 26);
}

static void read_request(struct site *site, hd_reader *in)
{
    const char *line;
    ssize_t n;
    size_t used = 0;
    while ((n = hd_read_line(in, &line)) > 0) {
        used += (size_t)snprintf(site->asked + used, sizeof(site->asked) - used, "%.*s\n", (int)n,
                                 line);
    }
}

static int answer(struct site *site, hd_tls *tls)
{
    char memory[1024];
    hd_reader in;
    hd_writer out;
    hd_reader_init_fn(&in, hd_tls_read_fn, tls, memory, sizeof(memory));
    read_request(site, &in);
    const char *name = hd_tls_server_name(tls);
    snprintf(site->asked_for, sizeof(site->asked_for), "%s", name ? name : "");
    if (!site->head) return (int)hd_tls_read(tls, memory, 1); /* until the client has gone */
    hd_writer_init_fn(&out, hd_tls_write_fn, tls, memory, sizeof(memory));
    int err = hd_writer_puts(&out, site->head);
    for (size_t i = 0; !err && i < PAGE_BYTES; i++) {
        const char byte = page_byte(i);
        err = hd_writer_put(&out, &byte, 1);
    }
    if (!err) err = hd_writer_flush(&out);
    return err || site->vanishes ? err : hd_tls_shutdown(tls);
}

static int serve_site(void *arg)
{
    struct site *site = arg;
    hd_tls_options options = HD_TLS_OPTIONS_INIT;
    options.cert_file = site->cert_file;
    options.ca_file = certs.ca; /* as in peers_init() */
    hd_tls_config *config = peers_config(&options);
    hd_io conn;
    hd_tls *tls;
    EXPECT_EQ(hd_accept(site->listener, &conn, NULL), 0);
    EXPECT_EQ(hd_tls_server(&tls, conn, config), 0);
    (void)answer(site, tls); /* The client may have gone before. */
    hd_tls_destroy(tls);
    hd_tls_config_destroy(config);
    return hd_close(conn);
}

/* A client, its server, and the page that it prints. */
struct visit {
    struct site site;
    struct get get;
    hd_io printed[2];
    size_t got;
    int result;
};

static int read_printed(void *arg)
{
    struct visit *visit = arg;
    char bytes[3000];
    ssize_t n;
    while ((n = hd_read(visit->printed[0], bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(bytes[i], page_byte(visit->got++));
    }
    return (int)n;
}

static int visit_app(void *arg)
{
    struct visit *visit = arg;
    hd_addr addr;
    char url[64];
    EXPECT_EQ(hd_pipe(visit->printed), 0);
    EXPECT_EQ(hd_tcp_listen(&visit->site.listener, "127.0.0.1:0", NULL), 0);
    EXPECT_EQ(hd_local_addr(visit->site.listener, &addr), 0);
    snprintf(url, sizeof(url), "https://localhost:%d/page?a#b", hd_addr_port(&addr));
    visit->get.url = url;
    EXPECT_EQ(read_url(&visit->get), 0);
    visit->get.out = visit->printed[1];
    hd_task *server = rt_spawn(NULL, serve_site, &visit->site);
    hd_task *reader = rt_spawn(NULL, read_printed, visit);
    visit->result = get_app(&visit->get);
    EXPECT_EQ(hd_close(visit->printed[1]), 0);
    EXPECT_EQ(rt_join(reader), 0);
    EXPECT_EQ(rt_join(server), 0);
    EXPECT_EQ(hd_close(visit->printed[0]), 0);
    return hd_close(visit->site.listener);
}

static void visit_init(struct visit *visit)
{
    *visit = (struct visit){.get = {.timeout_ms = 60000}};
    visit->get.ca_file = certs.ca;
    visit->site.cert_file = certs.server;
    visit->site.head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
}

static void visit_expect(struct visit *visit, const hd_options *options, int result,
                         const char *words)
{
    rt_run(visit_app, visit, options);
    EXPECT_EQ(visit->result, result);
    expect_text(visit->get.why, words);
}

TEST_IO(a_page, options)
{
    struct visit visit;
    visit_init(&visit);
    visit_expect(&visit, options, 0, "");
    EXPECT_EQ(visit.got, PAGE_BYTES);
    EXPECT(strcmp(visit.site.asked_for, "localhost") == 0);
    expect_text(visit.site.asked, "GET /page?a HTTP/1.0\nHost: localhost:");
}

TEST_IO(nobody_is_trusted_unasked, options)
{
    struct visit visit;
    visit_init(&visit);
    visit.get.ca_file = NULL;
    visit_expect(&visit, options, -EKEYREJECTED, "certificate verify failed");
    EXPECT_EQ(visit.got, 0);
    EXPECT_EQ(visit.site.asked[0], 0);
}

TEST_IO(nor_a_stranger, options)
{
    struct visit visit;
    visit_init(&visit);
    visit.site.cert_file = certs.stranger;
    visit_expect(&visit, options, -EKEYREJECTED, "unable to get local issuer certificate");
    EXPECT_EQ(visit.site.asked[0], 0);
}

TEST_IO(no_such_page, options)
{
    struct visit visit;
    visit_init(&visit);
    visit.site.head = "HTTP/1.1 404 Not Found\r\n\r\n";
    visit_expect(&visit, options, -EREMOTEIO, "HTTP/1.1 404 Not Found");
    EXPECT_EQ(visit.got, 0);
}

TEST_IO(a_page_that_is_cut_off, options)
{
    struct visit visit;
    visit_init(&visit);
    visit.site.vanishes = true;
    visit_expect(&visit, options, -ECONNABORTED, "without a goodbye");
}

TEST_IO(a_server_that_says_nothing, options)
{
    struct visit visit;
    visit_init(&visit);
    visit.site.head = NULL;
    visit.get.timeout_ms = rt_is_sim(options) ? 200 : 5000; /* The request is made before. */
    visit_expect(&visit, options, -ETIMEDOUT, "");
    expect_text(visit.site.asked, "GET ");
}

TEST(urls)
{
    static const char *const good[][4] = {
        {"https://a.org", "a.org", "a.org:443", "/"},
        {"https://a.org:1/x/y?z", "a.org", "a.org:1", "/x/y?z"},
        {"https://10.0.0.1/", "10.0.0.1", "10.0.0.1:443", "/"},
        {"https://[::1]:8443/", "::1", "[::1]:8443", "/"},
        {"https://[fe80::1]/a:b", "fe80::1", "[fe80::1]:443", "/a:b"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct get get = {.url = good[i][0]};
        EXPECT_EQ(read_url(&get), 0);
        EXPECT(strcmp(get.name, good[i][1]) == 0);
        EXPECT(strcmp(get.place, good[i][2]) == 0);
        EXPECT(strcmp(get.path, good[i][3]) == 0);
    }
    static const char *const bad[] = {"",           "http://a.org",      "https://",
                                      "https:///x", "https://[::1]x/",   "https://a.org/x\r\nY: z",
                                      "https://:1", "https://a.org/a b", "https://[]/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct get get = {.url = bad[i]};
        EXPECT_EQ(read_url(&get), -EINVAL);
    }
    char longest[400] = "https://";
    memset(longest + 8, 'x', 300);
    struct get get = {.url = longest};
    EXPECT_EQ(read_url(&get), -EINVAL);
}
