/* SPDX-License-Identifier: MIT
 *
 * Rows of I/O: the echo server that io_load drives, and reading of files.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <heddle/file.h>
#include <heddle/net.h>

#include "bench.h"

/* ---- the echo server ---- */

#define SMALL 512        /* a connection's own buffer, on its stack */
#define LARGE (32 << 10) /* what one takes that has filled it, for as long as it echoes */

/* Buffers that nobody uses, the last used first: it is still in the cache. */
struct spare {
    struct spare *next;
};
static _Thread_local struct spare *spares;

static __attribute__((noinline)) void *take_spare(void)
{
    struct spare *spare = spares;
    if (spare == NULL) return aligned_alloc(64, LARGE);
    spares = spare->next;
    return spare;
}

/* On another thread, perhaps, than it was taken on. */
static __attribute__((noinline)) void give_spare(void *buffer)
{
    struct spare *spare = buffer;
    spare->next = spares;
    spares = spare;
}

/* Returns how many bytes it echoed; 0: the connection is over, however it ended. */
static size_t echo_once(hd_io conn, char *buffer, size_t size)
{
    const ssize_t n = hd_read(conn, buffer, size);
    if (n <= 0 || hd_write_all(conn, buffer, (size_t)n, NULL) != 0) return 0;
    return (size_t)n;
}

/* A buffer only once there is something to read. */
static size_t echo_large(hd_io conn)
{
    hd_case readable = HD_READABLE(conn);
    EXPECT(hd_select(&readable, 1) == 0);
    char *buffer = take_spare();
    EXPECT(buffer != NULL);
    const size_t n = echo_once(conn, buffer, LARGE);
    give_spare(buffer);
    return n;
}

static int echo(void *arg)
{
    const hd_io conn = {(uintptr_t)arg};
    char small[SMALL];
    size_t n;
    while ((n = echo_once(conn, small, SMALL)) > 0 && n < SMALL) continue;
    while (n > 0) n = echo_large(conn);
    MUST(hd_close(conn));
    return 0;
}

static int accept_all(void *arg)
{
    hd_io listener, conn;
    hd_addr addr;
    (void)arg;
    MUST(hd_tcp_listen(&listener, "127.0.0.1:0", NULL));
    MUST(hd_local_addr(listener, &addr));
    char place[HD_ADDR_TEXT_MAX];
    printf("%s\n", hd_addr_format(&addr, place));
    fflush(stdout);
    for (;;) {
        MUST(hd_accept(listener, &conn, NULL));
        MUST(hd_spawn(NULL, echo, (void *)(uintptr_t)conn.private_));
    }
}

void row_serve_echo(void)
{
    run_in_fiber(accept_all);
}

/* ---- reading a file that is in the page cache ---- */

#define FILE_BYTES  (64 << 20)
#define PIECE_BYTES (64 << 10)

static char path[] = "/tmp/heddle_bench.XXXXXX";
static char piece[PIECE_BYTES];
static hd_io file;
static int plain_file;

static int64_t piece_at(uint64_t i)
{
    return (int64_t)(i * PIECE_BYTES % FILE_BYTES);
}

static void make_file(void)
{
    plain_file = mkstemp(path);
    EXPECT(plain_file >= 0);
    for (int i = 0; i < FILE_BYTES / PIECE_BYTES; i++)
        EXPECT(write(plain_file, piece, PIECE_BYTES) == PIECE_BYTES);
}

static void file_reads(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        EXPECT(hd_pread(file, piece, PIECE_BYTES, piece_at(i)) == PIECE_BYTES);
}

static void plain_reads(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        EXPECT(pread(plain_file, piece, PIECE_BYTES, piece_at(i)) == PIECE_BYTES);
}

static int file_root(void *arg)
{
    (void)arg;
    MUST(hd_file_open(&file, path, O_RDONLY, 0));
    measure(1, file_reads);
    MUST(hd_close(file));
    return 0;
}

void row_file_read(void)
{
    make_file();
    run_in_fiber(file_root);
    EXPECT(unlink(path) == 0);
}

void row_pread(void)
{
    make_file();
    EXPECT(unlink(path) == 0);
    measure(1, plain_reads);
}
