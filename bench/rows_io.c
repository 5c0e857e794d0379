/* SPDX-License-Identifier: MIT
 *
 * Rows of I/O: the echo server that io_load drives, and reading of files.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <heddle/file.h>
#include <heddle/lease.h>
#include <heddle/net.h>

#include "bench.h"

/* ---- the echo servers ---- */

static int echo(void *arg)
{
    const hd_io conn = {(uintptr_t)arg};
    hd_lease got = {0};
    while (hd_lease_read(conn, &got) > 0 && hd_lease_write(conn, &got) == 0) continue;
    hd_lease_end(&got); /* If it could not be written. */
    MUST(hd_close(conn));
    return 0;
}

/* As one would write it without leases. It has room for more than a message, so that a read which
 * does not fill it has found the end of what there is. */
static int echo_copying(void *arg)
{
    const hd_io conn = {(uintptr_t)arg};
    char bytes[32 << 10];
    ssize_t n;
    while ((n = hd_read(conn, bytes, sizeof(bytes))) > 0 &&
           hd_write_all(conn, bytes, (size_t)n, NULL) == 0)
        continue;
    MUST(hd_close(conn));
    return 0;
}

static int accept_all(hd_fn *serve)
{
    hd_io listener, conn;
    hd_addr addr;
    MUST(hd_tcp_listen(&listener, "127.0.0.1:0", NULL));
    MUST(hd_local_addr(listener, &addr));
    char place[HD_ADDR_TEXT_MAX];
    printf("%s\n", hd_addr_format(&addr, place));
    fflush(stdout);
    for (;;) {
        MUST(hd_accept(listener, &conn, NULL));
        MUST(hd_spawn(NULL, serve, (void *)(uintptr_t)conn.private_));
    }
}

static int serve_echo(void *arg)
{
    (void)arg;
    return accept_all(echo);
}

static int serve_copy(void *arg)
{
    (void)arg;
    return accept_all(echo_copying);
}

void row_serve_echo(void)
{
    run_in_fiber(serve_echo);
}

void row_serve_copy(void)
{
    run_in_fiber(serve_copy);
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
