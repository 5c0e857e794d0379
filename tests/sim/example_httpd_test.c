/* SPDX-License-Identifier: MIT
 *
 * The example httpd, over networks that cut requests anywhere; and a fault planted in it: when the
 * buffer for answers is full, the requests that were read and not yet parsed are forgotten.
 */
#include "planted.h"

#include <llhttp.h>

static llhttp_errno_t parse_all(llhttp_t *parser, const char *data, size_t bytes)
{
    const llhttp_errno_t error = llhttp_execute(parser, data, bytes);
    if (planted && error == HPE_PAUSED) parser->error_pos = data + bytes;
    return error;
}

#define main           example_main
#define llhttp_execute parse_all
#include "../../examples/httpd.c" /* NOLINT(bugprone-suspicious-include) */
#undef llhttp_execute
#undef main

static struct httpd httpd = {.request_ms = 10000, .idle_ms = 60000};
static struct server server = {
    .name = "httpd",
    .connection = httpd_connection,
    .check = httpd_check,
    .arg = &httpd,
    .connections_max = 10,
};
static struct hosted hosted = {":80", &server};

TEST_WORLDS(answers, options)
{
    rt_run(server_self_test, &server, options);
}

/* Every request gets its answer, however they are cut. */
static int pipeline(void *arg)
{
    (void)arg;
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char close[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    hosted_add("server", &hosted);
    EXPECT_EQ(hd_sim_chaos(HD_SIM_CHAOS_LINKS, HD_SECOND_NS), 0);
    return converse("server:80", get, 200, close, 201, 200);
}

TEST_WORLDS(over_slow_and_lossy_links, options)
{
    if (rt_is_sim(options)) rt_run(pipeline, NULL, options);
}

/* ---- cut in two ---- */

/* Send a text, which the server reads in two pieces. Expects so many answers, and the status of the
 * last. */
static void converse_cut(const char *text, size_t at, unsigned count, int status)
{
    hd_io conn;
    struct answers answers = {0};
    EXPECT_EQ(hd_tcp_connect(&conn, "server:80", NULL), 0);
    EXPECT_EQ(hd_write_all(conn, text, at, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(100), 0); /* in virtual time: the first piece has come */
    EXPECT_EQ(hd_write_all(conn, text + at, strlen(text) - at, NULL), 0);
    EXPECT_EQ(read_answers(conn, &answers), 0);
    hd_close(conn);
    if (answers.count == count && answers.status == status) return;
    test_fail(__FILE__, __LINE__, "cut at %zu: %u answers, the last %d; expected %u and %d", at,
              answers.count, answers.status, count, status);
}

/* All kinds of requests, and one that comes after the last. */
static int cut_anywhere(void *arg)
{
    (void)arg;
    static const char text[] =
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        "\r\nGET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
        "POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nGET"
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nGET\r\n0\r\nA: b\r\n\r\n"
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
        "PUT / HTTP/1.1\r\n\r\n";
    hosted_add("server", &hosted);
    for (size_t at = 1; at < strlen(text); at++) converse_cut(text, at, 6, 200);
    return 0;
}

TEST_WORLDS(requests_cut_anywhere, options)
{
    if (rt_is_sim(options)) rt_run(cut_anywhere, NULL, options);
}

/* A head may have so many bytes and not one more, wherever it begins and is cut. */
static int heads_of_all_but_too_many_bytes(void *arg)
{
    (void)arg;
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char head[] = "GET / HTTP/1.1\r\nConnection: close\r\nA: \r\n\r\n";
    static char many[HEAD_BYTES_MAX]; /* of those that make a head long */
    char text[sizeof(get) + HEAD_BYTES_MAX + 1];
    memset(many, 'a', sizeof(many));
    hosted_add("server", &hosted);
    for (unsigned i = 0; i < 4; i++) {
        const size_t bytes = HEAD_BYTES_MAX + i / 2;
        const size_t before = i % 2 * strlen(get);
        snprintf(text, sizeof(text), "%.*s%.*s%.*s\r\n\r\n", (int)before, get,
                 (int)strlen(head) - 4, head, (int)(bytes - strlen(head)), many);
        EXPECT_EQ(strlen(text), before + bytes);
        const size_t cuts[] = {1, 2, IN_BYTES - 1, IN_BYTES, IN_BYTES + 1, bytes - 2, bytes - 1};
        for (size_t j = 0; j < sizeof(cuts) / sizeof(cuts[0]); j++) {
            converse_cut(text, before + cuts[j], i % 2 + 1, bytes > HEAD_BYTES_MAX ? 431 : 200);
        }
    }
    return 0;
}

TEST_WORLDS(a_head_has_a_limit, options)
{
    if (rt_is_sim(options)) rt_run(heads_of_all_but_too_many_bytes, NULL, options);
}

/* ---- the fault ---- */

TEST(finds_requests_dropped_where_the_answers_fill_their_buffer)
{
    planted_found(pipeline, 20);
}

TEST_MAIN
