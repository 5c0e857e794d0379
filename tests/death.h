/* SPDX-License-Identifier: MIT
 *
 * death: run something that is meant to end its process, and see how and with what words.
 */
#ifndef TEST_DEATH_H
#define TEST_DEATH_H

#include <signal.h>

#include "test.h"

struct death {
    int status;
    char text[4096]; /* what it wrote to stderr */
};

/* Context: a test without threads of its own, since it forks. */
static inline struct death death_of(void (*body)(void *arg), void *arg)
{
    struct death death = {0};
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own handler would speak first */
        signal(SIGBUS, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        body(arg);
        _exit(0);
    }
    close(ends[1]);
    const size_t room = sizeof(death.text) - 1;
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], death.text + length, room - length)) > 0;) {
        length += (size_t)n;
    }
    close(ends[0]);
    EXPECT(waitpid(pid, &death.status, 0) == pid);
    return death;
}

static inline int death_signal(const struct death *death)
{
    return WIFSIGNALED(death->status) ? WTERMSIG(death->status) : 0;
}

/* It dies by a failed check, and says this. */
static inline void expect_abort(void (*body)(void *arg), void *arg, const char *words)
{
    const struct death death = death_of(body, arg);
    if (death_signal(&death) != SIGABRT || !strstr(death.text, words)) {
        test_fail(__FILE__, __LINE__, "expected an abort saying \"%s\", got status %d: %s", words,
                  death.status, death.text);
    }
}

#endif
