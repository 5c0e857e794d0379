/* SPDX-License-Identifier: MIT
 *
 * embed_uv: fibers inside a program whose event loop is libuv's.
 *
 *   ./embed_uv
 *
 * The runtime has no threads: libuv watches its one descriptor, and says when it may run. Here a
 * fiber serves a protocol of lines, written straight down, while a libuv timer and a libuv client
 * go on as ever, all on one thread.
 */
#include <heddle.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

enum { QUESTIONS = 3 };

struct program {
    hd_runtime *runtime;
    uv_loop_t loop;
    uv_poll_t driver;   /* the runtime's descriptor */
    uv_timer_t clock;   /* something of libuv's own */
    uv_tcp_t client;
    uv_connect_t connect;
    uv_write_t write;
    hd_addr at;         /* where the fiber listens */
    unsigned ticks, answers;
    int failed;
};

/* ---- Heddle's part ---- */

static int serve_line(hd_io conn)
{
    char line[64], answer[96];
    const ssize_t n = hd_read(conn, line, sizeof(line));
    if (n <= 0) return (int)n;
    if (hd_sleep_ms(10) != 0) return -ECANCELED; /* It thinks; the loop goes on. */
    const int length = snprintf(answer, sizeof(answer), "you said: %.*s", (int)n, line);
    const int err = hd_write_all(conn, answer, (size_t)length, NULL);
    return err ? err : (int)n;
}

static int serve(void *arg)
{
    const hd_io *listener = arg;
    hd_io conn;
    int err = hd_accept(*listener, &conn, NULL);
    if (err) return err;
    while ((err = serve_line(conn)) > 0) continue;
    (void)hd_close(conn);
    (void)hd_close(*listener);
    return err;
}

static hd_io listener; /* outlives the fiber that made it */

static int start(void *arg)
{
    struct program *program = arg;
    int err = hd_tcp_listen(&listener, "127.0.0.1:0", NULL);
    if (!err) err = hd_local_addr(listener, &program->at);
    return err ? err : hd_spawn(NULL, serve, &listener);
}

/* ---- libuv's part ---- */

/* The whole of the embedding. */
static void drive(uv_poll_t *poll, int status, int events)
{
    struct program *program = poll->data;
    (void)events;
    if (status < 0 || hd_run_once(program->runtime, HD_NOW) < 0) program->failed = 1;
}

static void tick(uv_timer_t *timer)
{
    struct program *program = timer->data;
    program->ticks++;
}

static void end(struct program *program)
{
    uv_close((uv_handle_t *)&program->client, NULL);
    uv_close((uv_handle_t *)&program->clock, NULL);
}

static void ask(struct program *program)
{
    static char question[] = "hello";
    uv_buf_t part = uv_buf_init(question, sizeof(question) - 1);
    if (uv_write(&program->write, (uv_stream_t *)&program->client, &part, 1, NULL) < 0) {
        program->failed = 1;
        end(program);
    }
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    static char bytes[256];
    (void)handle;
    (void)wanted;
    *room = uv_buf_init(bytes, sizeof(bytes));
}

static void take_answer(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct program *program = stream->data;
    if (n == 0) return;
    if (n > 0) printf("%.*s\n", (int)n, bytes->base);
    if (n != 15 || memcmp(bytes->base, "you said: hello", 15) != 0) program->failed = 1;
    if (program->failed || ++program->answers == QUESTIONS) {
        end(program);
    } else {
        ask(program);
    }
}

static void connected(uv_connect_t *connect, int status)
{
    struct program *program = connect->data;
    if (status < 0 || uv_read_start(connect->handle, give_room, take_answer) < 0) {
        program->failed = 1;
        end(program);
    } else {
        ask(program);
    }
}

/* ---- both ---- */

static int begin(struct program *program)
{
    hd_task *task;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    int result;
    options.runtime = program->runtime;
    int err = hd_spawn_with(&task, start, program, &options);
    if (!err) err = hd_join(task, &result); /* Who waits for a task runs it meanwhile. */
    if (err || result) return err ? err : result;
    program->driver.data = program->clock.data = program->client.data = program->connect.data =
        program;
    uv_poll_init(&program->loop, &program->driver, hd_runtime_fd(program->runtime));
    uv_poll_start(&program->driver, UV_READABLE, drive);
    uv_unref((uv_handle_t *)&program->driver); /* The loop ends when its own work does. */
    uv_timer_init(&program->loop, &program->clock);
    uv_timer_start(&program->clock, tick, 0, 1);
    uv_tcp_init(&program->loop, &program->client);
    return uv_tcp_connect(&program->connect, &program->client,
                          (const struct sockaddr *)program->at.bytes, connected);
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    struct program program = {0};
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.embedded = true;
    uv_loop_init(&program.loop);
    int err = hd_runtime_create(&program.runtime, &options);
    if (!err) err = begin(&program);
    if (err) {
        fprintf(stderr, "embed_uv: %s\n", strerror(-err));
        return 1;
    }
    uv_run(&program.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&program.driver, NULL);
    uv_run(&program.loop, UV_RUN_DEFAULT);
    hd_runtime_destroy(program.runtime);
    uv_loop_close(&program.loop);
    printf("%u answers, while the clock went on\n", program.answers);
    return program.failed || program.answers < QUESTIONS || program.ticks < 2;
}
