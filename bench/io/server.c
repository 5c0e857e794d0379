/* SPDX-License-Identifier: MIT
 *
 * server: the servers of the rows of I/O, and what they use.
 *
 * A server is a program that listens on a free port, prints a line with 127.0.0.1:PORT in it, and
 * serves until it is killed. nginx prints nothing, so its port is chosen here. All dies with
 * io_load.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVERS_MAX 16
#define WORDS_MAX   8
#define HTTPD       "bench/bench/httpd --workers 1 --listen 127.0.0.1:0"

/* Programs are below build/, which is two folders above ours. %s is what to serve. */
static const struct {
    const char *name;
    const char *what;    /* NULL: any */
    const char *command;
    const char *setting; /* of the environment */
} servers[] = {
    {"heddle_uring", "echo", "bench/bench/heddle_bench serve_echo", "HEDDLE_IO=uring"},
    {"heddle_epoll", "echo", "bench/bench/heddle_bench serve_echo", "HEDDLE_IO=epoll"},
    {"heddle_copy", "echo", "bench/bench/heddle_bench serve_copy", "HEDDLE_IO=uring"},
    {"heddle_uring", "http", HTTPD, "HEDDLE_IO=uring"},
    {"heddle_epoll", "http", HTTPD, "HEDDLE_IO=epoll"},
    {"raw_uring", "echo", "bench/bench/raw_uring_echo", NULL},
    {"raw_epoll", "echo", "bench/bench/raw_epoll_echo", NULL},
    {"libuv", "echo", "bench-peers/libuv_bench serve_%s", NULL},
    {"go", NULL, "bench-peers/go_bench serve_%s", NULL},
    {"tokio", NULL, "bench-peers/tokio_bench serve_%s", NULL},
    {"nginx", "http", "/usr/sbin/nginx", NULL},
};

struct server {
    pid_t pid;
    unsigned port;
    clockid_t clock;
    char folder[32]; /* of nginx */
};

static struct server started[SERVERS_MAX];
static unsigned started_count;

unsigned server_port(const struct server *server)
{
    return server->port;
}

/* ---- what it uses ---- */

int64_t server_cpu_ns(const struct server *server)
{
    struct timespec used;
    if (clock_gettime(server->clock, &used) != 0) fail("the server ended");
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

int64_t server_resident_bytes(const struct server *server)
{
    char path[40];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) fail(path);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* ---- processes ---- */

/* Start a program with its output in a pipe. Returns the pipe's end. */
static int start(char *const argv[], const char *setting, unsigned cpu, pid_t *pid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    *pid = fork();
    if (*pid < 0) fail("fork");
    if (*pid > 0) {
        close(ends[1]);
        return ends[0];
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(cpu);
    dup2(ends[1], STDOUT_FILENO);
    if (setting != NULL) putenv((char *)(uintptr_t)setting);
    execvp(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

void run_client(char *const argv[], char *output, size_t bytes)
{
    pid_t pid;
    const int fd = start(argv, NULL, 1, &pid);
    size_t used = 0;
    for (ssize_t n; (n = read(fd, output + used, bytes - 1 - used)) > 0;) used += (size_t)n;
    output[used] = 0;
    close(fd);
    int status;
    waitpid(pid, &status, 0);
    errno = 0;
    if (status != 0) fail("the client failed");
}

static void stop(const struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    if (server->folder[0] != 0) {
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", server->folder);
        if (system(command) != 0) fprintf(stderr, "io_load: %s failed\n", command);
    }
}

void servers_stop(void)
{
    while (started_count > 0) stop(&started[--started_count]);
}

/* ---- nginx ---- */

/* One process, no files: what nginx can do on one core for a constant answer. */
static const char config[] =
    "daemon off; master_process off; worker_processes 1;\n"
    "error_log stderr crit; pid nginx.pid;\n"
    "events { worker_connections 4096; }\n"
    "http {\n"
    "    access_log off; keepalive_requests 1000000000; default_type text/plain;\n"
    "    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n"
    "    uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n"
    "    server { listen 127.0.0.1:%u; location / { return 200 \"Hello, world\\n\"; } }\n"
    "}\n";

static unsigned free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &length) != 0)
        fail("cannot find a free port");
    close(fd);
    return ntohs(addr.sin_port);
}

/* Wait until it accepts. */
static void await_nginx(unsigned port)
{
    const struct sockaddr_in addr = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int64_t limit = now_ns() + INT64_C(5000000000);
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int error = connect(fd, (const struct sockaddr *)&addr, sizeof addr);
        close(fd);
        if (error == 0) return;
        if (now_ns() > limit) fail("nginx does not answer");
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void start_nginx(struct server *server, const char *program)
{
    char path[64], text[2048];
    strcpy(server->folder, "/tmp/io_load.XXXXXX");
    if (mkdtemp(server->folder) == NULL) fail("mkdtemp");
    snprintf(path, sizeof path, "%s/nginx.conf", server->folder);
    server->port = free_port();
    const int length = snprintf(text, sizeof text, config, server->port);
    FILE *file = fopen(path, "w");
    if (file == NULL || fwrite(text, (size_t)length, 1, file) != 1 || fclose(file) != 0) fail(path);
    char *const argv[] = {(char *)(uintptr_t)program, "-e", "stderr", "-p", server->folder, "-c",
                          path, NULL};
    close(start(argv, NULL, 0, &server->pid));
    await_nginx(server->port);
}

/* ---- the others ---- */

static void start_printing(struct server *server, char *command, const char *setting)
{
    char *argv[WORDS_MAX + 1] = {0}, *rest = command, line[200] = "";
    for (unsigned i = 0; i < WORDS_MAX && rest != NULL; i++) argv[i] = strsep(&rest, " ");
    const int fd = start(argv, setting, 0, &server->pid);
    FILE *output = fdopen(fd, "r"); /* Left open: it may print more. */
    while (fgets(line, sizeof line, output) != NULL) {
        const char *place = strstr(line, "127.0.0.1:");
        if (place != NULL && sscanf(place, "127.0.0.1:%u", &server->port) == 1) return;
    }
    errno = 0;
    fail("the server did not print its port");
}

/* The path of a program below build/. */
static void locate(char *path, size_t bytes, const char *command)
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) fail("/proc/self/exe");
    self[length] = 0;
    for (unsigned up = 0; up < 3; up++) *strrchr(self, '/') = 0;
    snprintf(path, bytes, command[0] == '/' ? "%s%s" : "%s/%s", command[0] == '/' ? "" : self,
             command);
}

static bool is_there(const char *path, size_t length)
{
    char program[PATH_MAX];
    snprintf(program, sizeof program, "%.*s", (int)length, path);
    if (access(program, X_OK) == 0) return true;
    fprintf(stderr, "no %s\n", program);
    return false;
}

struct server *server_start(const char *name, const char *what)
{
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        if (strcmp(servers[i].name, name) != 0) continue;
        if (servers[i].what != NULL && strcmp(servers[i].what, what) != 0) continue;
        char command[PATH_MAX], full[PATH_MAX + 32];
        snprintf(full, sizeof full, servers[i].command, what);
        locate(command, sizeof command, full);
        if (!is_there(command, strcspn(command, " "))) return NULL;
        errno = 0;
        if (started_count == SERVERS_MAX) fail("too many servers");
        struct server *server = &started[started_count++];
        *server = (struct server){0};
        if (strcmp(name, "nginx") == 0) start_nginx(server, command);
        else start_printing(server, command, servers[i].setting);
        if (clock_getcpuclockid(server->pid, &server->clock) != 0) fail("clock_getcpuclockid");
        return server;
    }
    fprintf(stderr, "no server %s for %s\n", name, what);
    return NULL;
}
