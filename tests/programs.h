/* SPDX-License-Identifier: MIT
 *
 * programs: what tests of child processes start, for sim, where they are simulated programs: true,
 * cat, sleep, and as much of a shell as those tests need.
 */
#ifndef TEST_PROGRAMS_H
#define TEST_PROGRAMS_H

#include <fcntl.h>
#include <signal.h>

#include <heddle/sim.h>

#include "rt.h"

static inline int programs_true(const hd_sim_process *self, void *arg)
{
    (void)self;
    (void)arg;
    return 0;
}

static inline int programs_sleep(const hd_sim_process *self, void *arg)
{
    (void)arg;
    return self->argc == 2 ? hd_sleep_ms(1000 * atoll(self->argv[1])) : 1;
}

static inline int programs_cat(const hd_sim_process *self, void *arg)
{
    char text[5000];
    ssize_t n;
    (void)self;
    (void)arg;
    while ((n = hd_read(hd_stdin(), text, sizeof(text))) > 0) {
        if (hd_write_all(hd_stdout(), text, (size_t)n, NULL) != 0) return 1;
    }
    return n == 0 ? 0 : 1;
}

/* ---- a shell: commands apart by "; ", without quoting, but for that of traps ---- */

struct programs_shell {
    const hd_sim_process *self;
    hd_chan *term; /* SIGTERM is trapped; NULL: it is not */
    int on_term;   /* what it exits with then; -1: it goes on */
    int status;    /* what it exits with; -1: it goes on */
};

static inline const char *programs_variable(const hd_sim_process *self, const char *name,
                                            size_t bytes)
{
    for (const char *const *at = self->env; *at; at++) {
        if (strncmp(*at, name, bytes) == 0 && (*at)[bytes] == '=') return *at + bytes + 1;
    }
    return "";
}

static inline void programs_echo(struct programs_shell *shell, const char *words)
{
    char text[256], line[256];
    size_t done = 0, bytes;
    const char *other = strstr(words, " >&2");
    snprintf(text, sizeof(text), "%.*s", other ? (int)(other - words) : 255, words);
    for (const char *at = text; *at && done < sizeof(line); at += bytes) {
        const bool variable = *at == '$';
        bytes = variable ? 1 + strcspn(at + 1, "$ ") : strcspn(at, "$");
        const char *value = variable ? programs_variable(shell->self, at + 1, bytes - 1) : at;
        const int length = variable ? 255 : (int)bytes;
        done += (size_t)snprintf(line + done, sizeof(line) - done, "%.*s", length, value);
    }
    EXPECT(done < sizeof(line));
    line[done++] = '\n';
    if (hd_write_all(other ? hd_stderr() : hd_stdout(), line, done, NULL) != 0) shell->status = 1;
}

/* One line, or, for a loop, all of them; a trap may come meanwhile. */
static inline void programs_read(struct programs_shell *shell, bool loop)
{
    char byte = 0;
    ssize_t n = 1;
    while (n == 1 && shell->status < 0 && (loop || byte != '\n')) {
        int number;
        hd_case cases[] = {HD_READABLE(hd_stdin()), HD_RECV(shell->term, &number)};
        const int which = hd_select(cases, shell->term ? 2 : 1);
        if (which == 1) shell->status = shell->on_term;
        if (which == 0) n = hd_read(hd_stdin(), &byte, 1);
        if (which < 0) n = which;
    }
}

static inline void programs_command(struct programs_shell *shell, const char *text)
{
    static const int term[] = {SIGTERM};
    if (strncmp(text, "exit ", 5) == 0) shell->status = atoi(text + 5);
    else if (strncmp(text, "kill -9 ", 8) == 0) (void)hd_signal_raise(SIGKILL);
    else if (strncmp(text, "echo", 4) == 0) programs_echo(shell, text + strlen("echo "));
    else if (strcmp(text, "pwd") == 0) programs_echo(shell, shell->self->dir);
    else if (strcmp(text, "cat") == 0) (void)programs_cat(shell->self, NULL);
    else if (strcmp(text, "read line") == 0) programs_read(shell, false);
    else if (strcmp(text, "while read line") == 0) programs_read(shell, true);
    else if (strncmp(text, "trap '", 6) == 0) {
        shell->on_term = strncmp(text + 6, "exit ", 5) == 0 ? atoi(text + 11) : -1;
        if (hd_signal_open(&shell->term, term, 1) != 0) shell->status = 1;
    } else if (strcmp(text, "do :") != 0 && strcmp(text, "done") != 0) {
        shell->status = 127;
    }
}

static inline int programs_sh(const hd_sim_process *self, void *arg)
{
    struct programs_shell shell = {.self = self, .status = -1};
    char script[256], *rest = script;
    (void)arg;
    if (self->argc != 3 || strcmp(self->argv[1], "-c") != 0) return 127;
    snprintf(script, sizeof(script), "%s", self->argv[2]);
    while (rest && shell.status < 0) {
        char *command = rest, *end = strstr(rest, "; ");
        rest = end ? end + 2 : NULL;
        if (end) *end = 0;
        programs_command(&shell, command);
    }
    return shell.status < 0 ? 0 : shell.status; /* A channel of signals goes with the process. */
}

/* ---- having them ---- */

/* In sim there are these programs, and the files and directories that tests name. */
static inline void programs_add(void)
{
    if (!hd_sim_host_self()) return;
    hd_io file;
    EXPECT_EQ(hd_sim_program("true", programs_true, NULL), 0);
    EXPECT_EQ(hd_sim_program("sleep", programs_sleep, NULL), 0);
    EXPECT_EQ(hd_sim_program("cat", programs_cat, NULL), 0);
    EXPECT_EQ(hd_sim_program("sh", programs_sh, NULL), 0);
    EXPECT_EQ(hd_mkdir("/usr", 0755), 0);
    EXPECT_EQ(hd_mkdir("/etc", 0755), 0);
    EXPECT_EQ(hd_file_open(&file, "/etc/passwd", O_WRONLY | O_CREAT, 0644), 0);
    EXPECT_EQ(hd_close(file), 0);
}

/* ---- short forms ---- */

static const hd_child_options programs_piped __attribute__((unused)) = {
    .size = sizeof(programs_piped), .streams = {HD_CHILD_PIPE, HD_CHILD_PIPE}};

/* In sim: a child that runs this. */
static inline hd_child *programs_start(const char *name, hd_sim_main *fn, void *arg,
                                       const hd_child_options *options)
{
    const char *const argv[] = {name, NULL};
    hd_child *child = NULL;
    EXPECT_EQ(hd_sim_program(name, fn, arg), 0);
    EXPECT_EQ(hd_child_start(&child, argv, options), 0);
    return child;
}

/* Wait for a child, and free its handle. Returns its status. */
static inline int programs_finish(hd_child *child)
{
    int status = -1;
    EXPECT_EQ(hd_child_wait(child, &status), 0);
    hd_child_free(child);
    return status;
}

/* What is read up to the end is this. */
static inline void programs_expect(hd_io io, const char *text)
{
    char got[64];
    size_t bytes;
    EXPECT_EQ(hd_read_exact(io, got, sizeof(got), &bytes), -EPIPE);
    EXPECT_EQ(bytes, strlen(text));
    EXPECT(memcmp(got, text, bytes) == 0);
}

/* In a program. Returns an exit status. */
static inline int programs_say(const char *text)
{
    return hd_write_all(hd_stdout(), text, strlen(text), NULL) ? 1 : 0;
}

#endif
