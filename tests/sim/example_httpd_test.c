/* SPDX-License-Identifier: MIT
 *
 * The example httpd, over networks that cut requests anywhere; and a fault planted in it: when the
 * buffer for answers is full, the requests that were read and not yet parsed are forgotten.
 */
#include "planted.h"

#include <http_parser.h>

static size_t parse_all(http_parser *parser, const http_parser_settings *settings,
                        const char *data, size_t bytes)
{
    const size_t used = http_parser_execute(parser, settings, data, bytes);
    return planted ? bytes : used;
}

#define main                example_main
#define http_parser_execute parse_all
#include "../../examples/httpd.c" /* NOLINT(bugprone-suspicious-include) */
#undef http_parser_execute
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
    http_parser_set_max_header_size(HEAD_BYTES_MAX);
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

/* ---- the fault ---- */

TEST(finds_requests_dropped_where_the_answers_fill_their_buffer)
{
    planted_found(pipeline, 20);
}

TEST_MAIN
