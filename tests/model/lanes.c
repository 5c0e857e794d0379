/* SPDX-License-Identifier: MIT */
#include "lanes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/thread.h"

/* Shared with the child, which writes only what is said. */
struct lane {
    pid_t pid; /* 0 once it has ended */
    int output;
    bool failed;
    uint64_t interleavings; /* by the child */
};

__attribute__((__noreturn__)) static void give_up(const char *what)
{
    fprintf(stderr, "model: %s: %s\n", what, strerror(errno));
    exit(2);
}

int lanes_fork(void)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) give_up("fork");
    if (pid == 0) (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

void *lanes_share(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) give_up("mmap");
    return base;
}

static void start(struct lane *lane, int index, lanes_case *body)
{
    lane->output = memfd_create("lane", MFD_CLOEXEC);
    if (lane->output < 0) give_up("memfd_create");
    const pid_t pid = lanes_fork();
    if (pid != 0) {
        lane->pid = pid;
        return;
    }
    if (dup2(lane->output, STDOUT_FILENO) < 0) give_up("dup2");
    const bool passed = body(index, &lane->interleavings);
    fflush(NULL);
    _exit(passed ? 0 : 1);
}

static void wait_for_one(struct lane *lanes, int count)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, 0)) < 0 && errno == EINTR) continue;
    for (int i = 0; i < count; i++) {
        if (lanes[i].pid != pid) continue;
        lanes[i].pid = 0;
        lanes[i].failed = status != 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) return;
        fprintf(stderr, "model: case %d ended with status %d\n", i + 1, status);
        exit(2);
    }
    give_up("waitpid");
}

static void show(const struct lane *lane)
{
    char text[4096];
    ssize_t n;
    for (off_t at = 0; (n = pread(lane->output, text, sizeof(text), at)) > 0; at += n) {
        fwrite(text, 1, (size_t)n, stdout);
    }
    close(lane->output);
}

struct lanes_totals lanes_run(int count, lanes_case *body)
{
    struct lanes_totals totals = {0};
    const int most = (int)hdi_cpu_count();
    const size_t bytes = sizeof(struct lane) * (size_t)(count + 1); /* not 0 */
    struct lane *lanes = lanes_share(bytes);
    int running = 0, started = 0, shown = 0;
    while (shown < count) {
        for (; running < most && started < count; running++, started++) {
            start(&lanes[started], started, body);
        }
        wait_for_one(lanes, started);
        running--;
        for (; shown < started && lanes[shown].pid == 0; shown++) {
            show(&lanes[shown]);
            totals.failed += lanes[shown].failed;
            totals.interleavings += lanes[shown].interleavings;
        }
    }
    munmap(lanes, bytes);
    return totals;
}
