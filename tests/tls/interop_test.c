/* SPDX-License-Identifier: MIT
 *
 * TLS with another program: `openssl s_client` and `openssl s_server`. Live only.
 */
#include "peers.h"

TEST_MAIN

enum { OUTPUT_BYTES = 16384 };

/* ---- their client ---- */

struct service {
    hd_tls_options options;
    hd_io listener;
    int port;
    int result; /* what the last read said */
    char error[HD_TLS_TEXT_MAX], version[16], alpn[16];
};

/* Answer each line with itself, until "bye". */
static int echo_lines(struct service *service, hd_tls *tls)
{
    char in_memory[256], out_memory[256];
    const char *line = NULL;
    ssize_t n;
    hd_reader in;
    hd_writer out;
    hd_reader_init_fn(&in, hd_tls_read_fn, tls, in_memory, sizeof(in_memory));
    hd_writer_init_fn(&out, hd_tls_write_fn, tls, out_memory, sizeof(out_memory));
    while ((n = hd_read_line(&in, &line)) >= 0) {
        snprintf(service->version, sizeof(service->version), "%s", hd_tls_version(tls));
        const char *alpn = hd_tls_alpn(tls);
        snprintf(service->alpn, sizeof(service->alpn), "%s", alpn ? alpn : "none");
        int err = hd_writer_printf(&out, "echo %.*s\n", (int)n, line);
        if (!err) err = hd_writer_flush(&out);
        EXPECT_EQ(err, 0);
        if (n == 3 && memcmp(line, "bye", 3) == 0) return hd_tls_shutdown(tls);
    }
    return (int)n;
}

static int serve(void *arg)
{
    struct service *service = arg;
    hd_tls_config *config = peers_config(&service->options);
    hd_io conn;
    hd_tls *tls;
    EXPECT_EQ(hd_accept(service->listener, &conn, NULL), 0);
    EXPECT_EQ(hd_tls_server(&tls, conn, config), 0);
    service->result = echo_lines(service, tls);
    snprintf(service->error, sizeof(service->error), "%s", hd_tls_error(tls));
    hd_tls_destroy(tls);
    hd_tls_config_destroy(config);
    EXPECT_EQ(hd_close(conn), 0);
    return hd_close(service->listener);
}

static int listen_anywhere(void *arg)
{
    struct service *service = arg;
    hd_addr addr;
    EXPECT_EQ(hd_tcp_listen(&service->listener, "127.0.0.1:0", NULL), 0);
    EXPECT_EQ(hd_local_addr(service->listener, &addr), 0);
    service->port = hd_addr_port(&addr);
    return 0;
}

/* All that a shell command printed. */
static void run_command(const char *command, char output[OUTPUT_BYTES])
{
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    const size_t n = fread(output, 1, OUTPUT_BYTES - 1, pipe);
    output[n] = 0;
    pclose(pipe);
}

static void need_openssl(void)
{
    char output[OUTPUT_BYTES];
    run_command("openssl version 2>&1", output);
    if (strncmp(output, "OpenSSL 3", 9) != 0) test_skip("no openssl program");
}

static void service_init(struct service *service)
{
    need_openssl();
    *service = (struct service){.options = HD_TLS_OPTIONS_INIT};
    service->options.cert_file = certs.server;
    service->options.alpn = "h2,echo";
}

/* s_client says `lines`, with more options; that ends the service. */
static void serve_client(struct service *service, const char *lines, const char *more,
                         char output[OUTPUT_BYTES])
{
    char command[1024];
    hd_options options = HD_OPTIONS_INIT;
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, listen_anywhere, service)), 0);
    hd_task *server = rt_spawn(runtime, serve, service);
    snprintf(command, sizeof(command),
             "printf '%s' | timeout 30 openssl s_client -connect 127.0.0.1:%d -CAfile %s"
             " -servername localhost -verify_hostname localhost -verify_return_error %s 2>&1",
             lines, service->port, certs.ca, more);
    run_command(command, output);
    EXPECT_EQ(rt_join(server), 0);
    hd_runtime_destroy(runtime);
}

TEST(their_client)
{
    static const char *versions[][2] = {{"-tls1_2", "TLSv1.2"}, {"-tls1_3", "TLSv1.3"}};
    for (int i = 0; i < 2; i++) {
        char output[OUTPUT_BYTES], more[64];
        struct service service;
        service_init(&service);
        snprintf(more, sizeof(more), "-quiet -alpn other,echo %s", versions[i][0]);
        serve_client(&service, "hello\\nbye\\n", more, output);
        expect_text(output, "echo hello\necho bye\n");
        EXPECT_EQ(service.result, 0);
        expect_text(service.version, versions[i][1]);
        expect_text(service.alpn, "echo");
    }
}

TEST(a_client_that_is_too_old)
{
    char output[OUTPUT_BYTES];
    struct service service;
    service_init(&service);
    service.options.version_min = HD_TLS_1_3;
    serve_client(&service, "hello\\nbye\\n", "-quiet -tls1_2", output);
    EXPECT_EQ(service.result, -EPROTO);
    expect_text(service.error, "unsupported protocol");
    expect_text(output, "alert protocol version");
}

/* 'R' is s_client's command for it. */
TEST(a_client_that_wants_to_renegotiate)
{
    char output[OUTPUT_BYTES];
    struct service service;
    service_init(&service);
    serve_client(&service, "R\\n", "-tls1_2", output);
    expect_text(output, "RENEGOTIATING");
    expect_text(output, "no renegotiation");
    EXPECT(service.result < 0);
    EXPECT_EQ(service.version[0], 0); /* It has read nothing. */
}

/* 'K' asks for new keys of both sides, which the server answers while it reads. */
TEST(a_client_that_wants_new_keys)
{
    char output[OUTPUT_BYTES];
    struct service service;
    service_init(&service);
    serve_client(&service, "K\\n", "-tls1_3", output);
    expect_text(output, "KEYUPDATE");
    EXPECT_EQ(service.result, -EPIPE); /* a clean end */
    EXPECT_EQ(service.error[0], 0);
}

/* ---- their server ---- */

struct call {
    int port, result;
};

/* s_server -rev answers each line reversed. */
static int call_server(void *arg)
{
    struct call *call = arg;
    char place[64], memory[256];
    const char *line = NULL;
    hd_tls_options options = HD_TLS_OPTIONS_INIT;
    options.ca_file = certs.ca;
    hd_tls_config *config = peers_config(&options);
    hd_io conn;
    hd_tls *tls;
    hd_reader in;
    snprintf(place, sizeof(place), "127.0.0.1:%d", call->port);
    EXPECT_EQ(hd_tcp_connect(&conn, place, NULL), 0);
    EXPECT_EQ(hd_tls_client(&tls, conn, config, "localhost"), 0);
    hd_tls_config_destroy(config);
    hd_reader_init_fn(&in, hd_tls_read_fn, tls, memory, sizeof(memory));
    call->result = hd_tls_write_all(tls, "heddle\n", 7, NULL);
    if (call->result == 0) {
        EXPECT_EQ(hd_read_line(&in, &line), 6);
        EXPECT(memcmp(line, "elddeh", 6) == 0);
        EXPECT_EQ(hd_tls_write_all(tls, "CLOSE\n", 6, NULL), 0); /* It says goodbye. */
        EXPECT_EQ(hd_read_line(&in, &line), -EPIPE);
        EXPECT_EQ(hd_tls_shutdown(tls), 0);
    }
    hd_tls_destroy(tls);
    return hd_close(conn);
}

static void call_their_server(struct call *call, const char *file, const char *more)
{
    char command[1024], line[256];
    snprintf(command, sizeof(command),
             "timeout 30 openssl s_server -accept 127.0.0.1:0 -naccept 1 -rev -cert %s %s 2>&1",
             file, more);
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    call->port = 0;
    while (call->port == 0 && fgets(line, sizeof(line), pipe)) {
        sscanf(line, "ACCEPT 127.0.0.1:%d", &call->port);
    }
    EXPECT(call->port > 0);
    hd_options options = HD_OPTIONS_INIT;
    rt_run(call_server, call, &options);
    while (fgets(line, sizeof(line), pipe)) continue;
    pclose(pipe);
}

TEST(their_server)
{
    need_openssl();
    struct call call;
    call_their_server(&call, certs.server, "-tls1_3");
    EXPECT_EQ(call.result, 0);
    call_their_server(&call, certs.server, "-tls1_2");
    EXPECT_EQ(call.result, 0);
    call_their_server(&call, certs.stranger, "");
    EXPECT_EQ(call.result, -EKEYREJECTED);
}
