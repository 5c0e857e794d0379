/* SPDX-License-Identifier: MIT
 *
 * The libuv side of the benchmark: `libuv_bench ROW [key=value]...` runs one sample of
 * one row, warm-up included, and prints `key value` lines. What each row does, on every
 * side, is in bench/README.md. There is one loop on one thread, whatever `workers` says.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <uv.h>

#define WARM_UP 1000
#define HOUR_MS 3600000

static struct {
    unsigned workers;
    unsigned ms;    /* how long the measured part lasts */
    unsigned count; /* of timer_million */
    unsigned live;  /* of timer_cycle: other timers */
} params = {.workers = 1, .ms = 80, .count = 1000000, .live = 0};

static uv_loop_t loop;

#define MUST(call)                                                                       \
    do {                                                                                 \
        const int must_error = (call);                                                   \
        if (must_error != 0) {                                                           \
            fprintf(stderr, "%s: %s\n", #call, uv_strerror(must_error));                 \
            abort();                                                                     \
        }                                                                                \
    } while (0)

static void *must_alloc(size_t count, size_t size)
{
    void *memory = malloc(count * size);
    if (memory == NULL) abort();
    memset(memory, 0, count * size); /* Touched before the clock starts. */
    return memory;
}

static double now_ns(void)
{
    return (double)uv_hrtime();
}

static void report(const char *key, double value)
{
    printf("%s %.3f\n", key, value);
}

/* Report ns per operation, where work(n) performs n. Finding an n that lasts params.ms is
 * the warm-up. */
static void measure(void (*work)(uint64_t n))
{
    const double target = (double)params.ms * 1e6;
    uint64_t n = 1;
    for (;; n *= 2) {
        const double start = now_ns();
        work(n);
        const double took = now_ns() - start;
        if (took >= target / 8) {
            n = (uint64_t)((double)n * target / took) + 1;
            break;
        }
    }
    const double start = now_ns();
    work(n);
    report("ns", (now_ns() - start) / (double)n);
}

/* ---- timers ---- */

/* A delay of first ... first + span - 1 milliseconds; all sides draw the same. */
static uint64_t draw_ms(uint64_t *state, uint64_t first, uint64_t span)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return first + (*state >> 33) % span;
}

static void ignore(uv_timer_t *timer)
{
    (void)timer;
}

static void start_all(uv_timer_t *timers, size_t count, uint64_t first, uint64_t span)
{
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        MUST(uv_timer_init(&loop, &timers[i]));
        MUST(uv_timer_start(&timers[i], ignore, draw_ms(&state, first, span), 0));
    }
}

static void stop_all(uv_timer_t *timers, size_t count)
{
    for (size_t i = 0; i < count; i++) MUST(uv_timer_stop(&timers[i]));
}

static uv_timer_t cycled;

static void cycles(uint64_t n)
{
    uint64_t state = 1;
    for (uint64_t i = 0; i < n; i++) {
        MUST(uv_timer_start(&cycled, ignore, draw_ms(&state, 1, 1000), 0));
        MUST(uv_timer_stop(&cycled));
    }
}

static void row_timer_cycle(void)
{
    uv_timer_t *live = must_alloc(params.live, sizeof *live);
    start_all(live, params.live, HOUR_MS, HOUR_MS);
    MUST(uv_timer_init(&loop, &cycled));
    measure(cycles);
    stop_all(live, params.live);
}

/* Start all, then stop all in the same order; ns for each. */
static double timers_ns(uv_timer_t *timers, size_t count)
{
    const double start = now_ns();
    start_all(timers, count, 10000, 60000);
    stop_all(timers, count);
    return (now_ns() - start) / (double)count;
}

static void row_timer_million(void)
{
    timers_ns(must_alloc(WARM_UP, sizeof(uv_timer_t)), WARM_UP);
    report("ns", timers_ns(must_alloc(params.count, sizeof(uv_timer_t)), params.count));
}

/* ---- blocking calls ---- */

struct calls {
    uv_work_t work;
    uint64_t left;
    uint64_t done;
};

static void call(uv_work_t *work)
{
    ((struct calls *)work->data)->done++;
}

static void called(uv_work_t *work, int status)
{
    struct calls *c = work->data;
    MUST(status);
    if (--c->left > 0) MUST(uv_queue_work(&loop, work, call, called));
}

static void blocking_calls(uint64_t n)
{
    struct calls c = {.left = n};
    c.work.data = &c;
    MUST(uv_queue_work(&loop, &c.work, call, called));
    MUST(uv_run(&loop, UV_RUN_DEFAULT));
    if (c.done != n) abort();
}

static void row_blocking(void)
{
    measure(blocking_calls);
}

/* ---- reading a file ---- */

#define FILE_BYTES  (64 << 20)
#define PIECE_BYTES (64 << 10)

static struct {
    uv_file file;
    uint64_t left;
    int64_t at;
    char piece[PIECE_BYTES];
} reading;

static void read_next(uv_fs_t *request);

static void was_read(uv_fs_t *request)
{
    if (request->result != PIECE_BYTES) abort();
    uv_fs_req_cleanup(request);
    reading.at = (reading.at + PIECE_BYTES) % FILE_BYTES;
    if (--reading.left > 0) read_next(request);
}

static void read_next(uv_fs_t *request)
{
    const uv_buf_t piece = uv_buf_init(reading.piece, PIECE_BYTES);
    MUST(uv_fs_read(&loop, request, reading.file, &piece, 1, reading.at, was_read));
}

static void file_reads(uint64_t n)
{
    uv_fs_t request;
    reading.left = n;
    reading.at = 0;
    read_next(&request);
    MUST(uv_run(&loop, UV_RUN_DEFAULT));
}

static void row_file_read(void)
{
    char path[] = "/tmp/libuv_bench.XXXXXX";
    reading.file = mkstemp(path);
    if (reading.file < 0 || unlink(path) != 0) abort();
    for (int i = 0; i < FILE_BYTES / PIECE_BYTES; i++)
        if (write(reading.file, reading.piece, PIECE_BYTES) != PIECE_BYTES) abort();
    measure(file_reads);
}

/* ---- an echo server ---- */

/* What has come is written at once, from one buffer for all connections; only what the socket
 * does not take is copied. */
static char arrived[64 << 10];

static void give_buffer(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    (void)handle, (void)wanted;
    *buffer = uv_buf_init(arrived, sizeof arrived);
}

static void forget(uv_handle_t *handle)
{
    free(handle);
}

static void written(uv_write_t *request, int status)
{
    (void)status; /* The next read says it too. */
    free(request);
}

static void write_later(uv_stream_t *conn, const char *from, size_t bytes)
{
    uv_write_t *request = must_alloc(1, sizeof *request + bytes);
    const uv_buf_t rest = uv_buf_init(memcpy(request + 1, from, bytes), (unsigned)bytes);
    MUST(uv_write(request, conn, &rest, 1, written));
}

static void echo(uv_stream_t *conn, ssize_t got, const uv_buf_t *buffer)
{
    if (got == 0) return;
    if (got < 0) {
        uv_close((uv_handle_t *)conn, forget);
        return;
    }
    const uv_buf_t all = uv_buf_init(buffer->base, (unsigned)got);
    int done = uv_try_write(conn, &all, 1);
    if (done < 0) done = 0;
    if (done < got) write_later(conn, buffer->base + done, (size_t)(got - done));
}

static void connected(uv_stream_t *listener, int status)
{
    uv_tcp_t *conn = must_alloc(1, sizeof *conn);
    MUST(status);
    MUST(uv_tcp_init(&loop, conn));
    MUST(uv_accept(listener, (uv_stream_t *)conn));
    MUST(uv_tcp_nodelay(conn, 1));
    MUST(uv_read_start((uv_stream_t *)conn, give_buffer, echo));
}

static void row_serve_echo(void)
{
    struct sockaddr_in addr;
    int length = sizeof addr;
    uv_tcp_t listener;
    MUST(uv_ip4_addr("127.0.0.1", 0, &addr));
    MUST(uv_tcp_init(&loop, &listener));
    MUST(uv_tcp_bind(&listener, (struct sockaddr *)&addr, 0));
    MUST(uv_listen((uv_stream_t *)&listener, 4096, connected));
    MUST(uv_tcp_getsockname(&listener, (struct sockaddr *)&addr, &length));
    printf("127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);
    MUST(uv_run(&loop, UV_RUN_DEFAULT));
}

/* ---- main ---- */

static const struct {
    const char *name;
    void (*run)(void);
} rows[] = {
    {"timer_cycle", row_timer_cycle},
    {"timer_million", row_timer_million},
    {"blocking", row_blocking},
    {"file_read", row_file_read},
    {"serve_echo", row_serve_echo},
};

static int usage(void)
{
    fprintf(stderr, "usage: libuv_bench ROW [workers=N] [ms=N] [count=N] [live=N]\n");
    return 2;
}

static bool parse(const char *arg)
{
    return sscanf(arg, "workers=%u", &params.workers) == 1 ||
           sscanf(arg, "ms=%u", &params.ms) == 1 || sscanf(arg, "count=%u", &params.count) == 1 ||
           sscanf(arg, "live=%u", &params.live) == 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) return usage();
    for (int i = 2; i < argc; i++)
        if (!parse(argv[i])) return usage();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(argv[1], rows[i].name) == 0) {
            MUST(uv_loop_init(&loop));
            rows[i].run();
            return 0;
        }
    }
    return usage();
}
