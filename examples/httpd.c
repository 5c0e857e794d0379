/* SPDX-License-Identifier: MIT
 *
 * httpd: an HTTP/1.1 server that says hello, with keep-alive and pipelining.
 *
 *   ./httpd --listen 127.0.0.1:8080
 *   curl http://127.0.0.1:8080/
 *   HEDDLE_SEED=42 ./httpd --self-test   simulated
 *
 * A connection is a fiber with two buffers. What one read brings is parsed at once, by llhttp,
 * which keeps what is unfinished in its state; the answers gather in the other buffer and go out
 * by one write. Nothing is allocated for a request, and nothing that a client does makes a
 * connection larger: heads have a limit, bodies and their trailers are read and forgotten, a client
 * that does not read its answers is read from no more.
 *
 * A request has to be complete request_ms after it began, so that sending slowly keeps no
 * connection; between requests idle_ms may pass.
 */
#include "server.h"

#include <llhttp.h>
#include <time.h>

enum {
    IN_BYTES = 4096,
    OUT_BYTES = 4096,
    ANSWER_BYTES_MAX = 256, /* one answer */
    HEAD_BYTES_MAX = 8192,
    LINGER_MS = 1000,
};

/* So only a head that an earlier read began can become too long. */
_Static_assert((int)HEAD_BYTES_MAX > (int)IN_BYTES, "a head is longer than what one read brings");

struct httpd {
    unsigned request_ms, idle_ms;
    int64_t wall_ns; /* what the time of day is when hd_now() is 0 */
};

struct session {
    hd_io conn;
    const struct httpd *httpd;
    llhttp_t parser;
    int64_t now;      /* of this batch of bytes */
    int64_t deadline; /* of the request that has begun, or for one to begin */
    bool begun;
    bool in_head;     /* of the request that has begun */
    bool last;        /* no answer follows those in `out` */
    size_t head_end;  /* in_head: where in `in` the head has to be over */
    size_t out_bytes;
    char in[IN_BYTES];
    char out[OUT_BYTES];
};

/* ---- answers ---- */

static const char greeting[] = "Hello, world\n";

static size_t print_date(char *text, size_t bytes, time_t second)
{
    struct tm tm;
    gmtime_r(&second, &tm);
    return strftime(text, bytes, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
}

static time_t second_of(const struct session *s)
{
    return (time_t)((s->httpd->wall_ns + s->now) / HD_SECOND_NS);
}

/* The usual answer, which is made once a second on each thread. It does not switch and is not
 * inlined, so `mine` is this thread's all the time. */
static __attribute__((noinline)) size_t put_hello(char *out, time_t second)
{
    static _Thread_local struct {
        time_t second;
        size_t bytes;
        char text[ANSWER_BYTES_MAX];
    } mine;
    if (mine.second != second || mine.bytes == 0) {
        char date[64];
        print_date(date, sizeof(date), second);
        mine.bytes = (size_t)snprintf(mine.text, sizeof(mine.text),
                                      "HTTP/1.1 200 OK\r\nServer: heddle\r\n%s"
                                      "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                                      date, sizeof(greeting) - 1, greeting);
        mine.second = second;
    }
    memcpy(out, mine.text, mine.bytes);
    return mine.bytes;
}

/* Any other. */
static void put_answer(struct session *s, int status, const char *reason, const char *more)
{
    const bool head = s->parser.method == HTTP_HEAD;
    const char *body = status == 200 ? greeting : "";
    char date[64];
    print_date(date, sizeof(date), second_of(s));
    s->out_bytes += (size_t)snprintf(
        s->out + s->out_bytes, ANSWER_BYTES_MAX,
        "HTTP/1.1 %d %s\r\nServer: heddle\r\n%s%sConnection: %s\r\n"
        "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
        status, reason, date, more, s->last ? "close" : "keep-alive", strlen(body),
        head ? "" : body);
}

/* ---- what the parser tells ---- */

/* A method that comes in pieces is told of in pieces. */
static int on_method(llhttp_t *parser, const char *at, size_t bytes)
{
    (void)bytes;
    struct session *s = parser->data;
    if (s->begun) return 0;
    s->begun = s->in_head = true;
    s->head_end = (size_t)(at - s->in) + HEAD_BYTES_MAX;
    s->deadline = s->now + s->httpd->request_ms * HD_MS_NS;
    return 0;
}

static int on_head(llhttp_t *parser)
{
    struct session *s = parser->data;
    s->in_head = false;
    return 0;
}

/* What comes after the last request is not looked at, and after CONNECT it is not even HTTP. */
static int on_complete(llhttp_t *parser)
{
    struct session *s = parser->data;
    s->begun = false;
    s->deadline = s->now + s->httpd->idle_ms * HD_MS_NS;
    s->last = !llhttp_should_keep_alive(parser) || parser->method == HTTP_CONNECT;
    if (parser->method == HTTP_GET && !s->last && parser->http_minor == 1) {
        s->out_bytes += put_hello(s->out + s->out_bytes, second_of(s));
    } else if (parser->method == HTTP_GET || parser->method == HTTP_HEAD) {
        put_answer(s, 200, "OK", "");
    } else {
        put_answer(s, 405, "Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    return s->last || s->out_bytes + ANSWER_BYTES_MAX > OUT_BYTES ? HPE_PAUSED : 0;
}

static const llhttp_settings_t settings = {
    .on_method = on_method,
    .on_headers_complete = on_head,
    .on_message_complete = on_complete,
};

/* ---- a connection ---- */

static int flush(struct session *s)
{
    const size_t bytes = s->out_bytes;
    s->out_bytes = 0;
    if (bytes == 0) return 0;
    return hd_write_all_until(s->conn, s->out, bytes, NULL,
                              s->now + s->httpd->idle_ms * HD_MS_NS);
}

/* There is always room for one answer: the parser is paused before there is none. */
static void refuse(struct session *s, int status, const char *reason)
{
    s->last = true;
    put_answer(s, status, reason, "");
}

/* Parse up to `end`. Returns where the parser stopped. */
static size_t parse(struct session *s, size_t at, size_t end)
{
    const enum llhttp_errno error = llhttp_execute(&s->parser, s->in + at, end - at);
    if (error == HPE_OK) return end;
    if (error == HPE_PAUSED) {
        llhttp_resume(&s->parser);
    } else if (error == HPE_PAUSED_UPGRADE) {
        llhttp_resume_after_upgrade(&s->parser); /* We change to no other protocol. */
    } else {
        refuse(s, 400, "Bad Request");
    }
    return (size_t)(llhttp_get_error_pos(&s->parser) - s->in);
}

/* The parser stops where the answers fill their buffer, and goes on from there. */
static int feed(struct session *s, size_t bytes)
{
    for (size_t at = 0; at < bytes && !s->last;) {
        at = parse(s, at, s->in_head && s->head_end < bytes ? s->head_end : bytes);
        if (s->in_head && at == s->head_end && !s->last) {
            refuse(s, 431, "Request Header Fields Too Large");
        }
        if (s->out_bytes + ANSWER_BYTES_MAX > OUT_BYTES) {
            const int err = flush(s);
            if (err) return err;
        }
    }
    if (s->in_head) s->head_end -= bytes;
    return flush(s);
}

/* Closing with bytes unread would reset the connection, and the client might lose our answer. */
static void linger(struct session *s)
{
    const int64_t deadline = hd_after_ms(LINGER_MS);
    hd_shutdown(s->conn, SHUT_WR);
    while (hd_read_until(s->conn, s->in, sizeof(s->in), deadline) > 0) continue;
}

static int httpd_connection(hd_io conn, void *arg)
{
    struct session s;
    s.conn = conn;
    s.httpd = arg;
    s.begun = s.in_head = s.last = false;
    s.head_end = s.out_bytes = 0;
    s.now = hd_now(NULL);
    s.deadline = s.now + s.httpd->idle_ms * HD_MS_NS;
    llhttp_init(&s.parser, HTTP_REQUEST, &settings);
    s.parser.data = &s;
    while (!s.last) {
        const ssize_t n = hd_read_until(conn, s.in, sizeof(s.in), s.deadline);
        if (n <= 0 && !(n == -ETIMEDOUT && s.begun)) return (int)n;
        s.now = hd_now(NULL);
        if (n < 0) refuse(&s, 408, "Request Timeout");
        const int err = feed(&s, n < 0 ? 0 : (size_t)n);
        if (err) return err;
    }
    linger(&s);
    return 0;
}

/* ---- testing itself ---- */

struct answers {
    unsigned count;
    int status; /* of the last */
};

static int count_answer(llhttp_t *parser)
{
    struct answers *answers = parser->data;
    answers->count++;
    answers->status = parser->status_code;
    return 0;
}

struct question {
    hd_io conn;
    const char *text;
    unsigned times;
    const char *last;
};

static int ask(void *arg)
{
    const struct question *question = arg;
    int err = 0;
    for (unsigned i = 0; !err && i < question->times; i++) {
        err = hd_write_all(question->conn, question->text, strlen(question->text), NULL);
    }
    if (!err) err = hd_write_all(question->conn, question->last, strlen(question->last), NULL);
    return err == -EPIPE || err == -ECONNRESET ? 0 : err; /* It has heard enough. */
}

static int read_answers(hd_io conn, struct answers *answers)
{
    static const llhttp_settings_t counting = {.on_message_complete = count_answer};
    llhttp_t parser;
    llhttp_init(&parser, HTTP_RESPONSE, &counting);
    parser.data = answers;
    char text[1000];
    ssize_t n;
    while ((n = hd_read(conn, text, sizeof(text))) > 0) {
        if (llhttp_execute(&parser, text, (size_t)n) != HPE_OK) return -EBADMSG;
    }
    if (n == 0 && llhttp_finish(&parser) != HPE_OK) return -EBADMSG;
    return (int)n;
}

/* Send a text so many times, then the last, without waiting for answers; read them to the end.
 * Returns: 0 if there were `count`, the last with this status. */
static int converse(const char *place, const char *text, unsigned times, const char *last,
                    unsigned count, int status)
{
    struct question question = {.text = text, .times = times, .last = last};
    struct answers answers = {0};
    int err = hd_tcp_connect(&question.conn, place, NULL);
    if (err) return err;
    HD_NURSERY(n) {
        err = hd_go(n, ask, &question);
        if (!err) err = read_answers(question.conn, &answers);
        hd_nursery_cancel(n);
    }
    hd_close(question.conn);
    if (!err && answers.count == count && answers.status == status) return 0;
    fprintf(stderr, "httpd: %u answers, the last %d, and %s; expected %u and %d\n", answers.count,
            answers.status, err ? strerror(-err) : "the end", count, status);
    return err ? err : -EBADMSG;
}

static int httpd_check(const char *place, void *arg)
{
    struct httpd *httpd = arg;
    httpd->request_ms = 2000;
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char close[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static const char post[] = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    char endless[HEAD_BYTES_MAX + 100] = "GET /";
    memset(endless + 5, 'a', sizeof(endless) - 6);
    int err = converse(place, get, 300, close, 301, 200);
    if (!err) err = converse(place, post, 20, close, 21, 200);
    if (!err) err = converse(place, get, 0, "GET / HTTP/1.0\r\n\r\n", 1, 200);
    if (!err) err = converse(place, get, 3, "no request\r\n\r\n", 4, 400);
    if (!err) err = converse(place, get, 1, "CONNECT x:1 HTTP/1.1\r\n\r\n", 2, 405);
    if (!err) err = converse(place, get, 1, "GET / HTT", 2, 408);
    if (!err) err = converse(place, get, 1, endless, 2, 431);
    return err;
}

/* ---- the program ---- */

static const char help[] =
    "usage: httpd [OPTION]...\n"
    "Say hello by HTTP/1.1.\n\n"
    "  --listen PLACE     ADDRESS:PORT; port 0 is any free one; default 127.0.0.1:8080\n"
    "  --connections N    at a time, at most; default 10000\n"
    "  --request MS       that a request may take to come; default 10000\n"
    "  --idle MS          end connections without a request for so long; default 60000\n"
    "  --workers N        1 to 256; default: one for each CPU\n"
    "  --self-test        serve, talk to it, and exit\n"
    "  --help             show this\n\n"
    "With HEDDLE_SEED=N in the environment it runs simulated.\n";

/* A simulated day begins in 1970, so that it is the same every time. */
static int64_t wall_ns_now(void)
{
    struct timespec now;
    const char *seed = getenv("HEDDLE_SEED");
    if ((seed && *seed) || clock_gettime(CLOCK_REALTIME, &now)) return 0;
    return now.tv_sec * HD_SECOND_NS + now.tv_nsec - hd_now(NULL);
}

int main(int argc, char **argv)
{
    struct httpd httpd = {.request_ms = 10000, .idle_ms = 60000, .wall_ns = wall_ns_now()};
    struct server server = {
        .name = "httpd",
        .help = help,
        .place = "127.0.0.1:8080",
        .connection = httpd_connection,
        .check = httpd_check,
        .arg = &httpd,
        .connections_max = 10000,
        .fds_each = 1,
        .options = {{.name = "request", .number = &httpd.request_ms, .most = 86400000},
                    {.name = "idle", .number = &httpd.idle_ms, .most = 86400000}},
    };
    bool self_test = false;
    const int status = server_read_arguments(&server, &self_test, argc, argv);
    if (status >= 0) return status;
    return server_main(&server, self_test);
}
