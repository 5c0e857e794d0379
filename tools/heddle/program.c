/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

/* After which a program that does not heed SIGTERM gets SIGKILL. */
#define KILL_GRACE_NS HD_SECOND_NS

/* ---- running ---- */

static const char *const ours[] = {"HEDDLE_SEED",  "HEDDLE_SAMPLER", "HEDDLE_LOG",
                                   "HEDDLE_LOG_SYNC", "HEDDLE_REPLAY", "HEDDLE_UNTIL",
                                   "HEDDLE_EXPLORE", "HEDDLE_SHRINK", "HEDDLE_SUMMARY"};
enum { OURS = sizeof(ours) / sizeof(ours[0]) };

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < OURS; i++) {
        const size_t length = strlen(ours[i]);
        if (!strncmp(variable, ours[i], length) && variable[length] == '=') return true;
    }
    return false;
}

void program_clear_environment(void)
{
    for (size_t i = 0; i < OURS; i++) unsetenv(ours[i]);
}

/* Our environment with the launch's variables; to be freed. */
static const char **environment(const struct launch *launch)
{
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    const size_t added = sizeof(launch->env) / sizeof(launch->env[0]);
    const char **env = calloc(count + added + 1, sizeof(*env));
    if (!env) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environ[i])) env[kept++] = environ[i];
    }
    for (size_t i = 0; launch->env[i]; i++) env[kept++] = launch->env[i];
    return env;
}

/* Keep the end of what comes, until no more does; whole lines. */
static void gather(hd_io from, char said[static PROGRAM_SAID_MAX])
{
    char text[2 * PROGRAM_SAID_MAX];
    const size_t most = PROGRAM_SAID_MAX - 2; /* with the end of the last line */
    size_t held = 0;
    bool cut = false;
    ssize_t n;
    while ((n = hd_read(from, text + held, sizeof(text) - held)) > 0) {
        held += (size_t)n;
        if (held <= most) continue;
        memmove(text, text + held - most, most);
        held = most;
        cut = true;
    }
    const char *line = cut ? memchr(text, '\n', held - 1) : NULL; /* One half at most is lost. */
    const size_t skipped = line ? (size_t)(line + 1 - text) : 0;
    held -= skipped;
    memcpy(said, text + skipped, held);
    if (held > 0 && said[held - 1] != '\n') said[held++] = '\n';
    said[held] = 0;
}

static void direct(hd_child_options *options, enum program_streams streams)
{
    switch (streams) {
    case PROGRAM_SHOWN: return;
    case PROGRAM_SHOWN_2:
        options->streams[1] = HD_CHILD_FD;
        options->fds[1] = STDERR_FILENO;
        return;
    case PROGRAM_SILENT:
    case PROGRAM_GATHERED:
        options->streams[0] = HD_CHILD_NULL;
        options->streams[1] = HD_CHILD_NULL;
        options->streams[2] = streams == PROGRAM_GATHERED ? HD_CHILD_PIPE : HD_CHILD_NULL;
        return;
    }
}

int program_run(const struct launch *launch, struct ending *ending)
{
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    const char **env = environment(launch);
    if (!env) return -ENOMEM;
    options.env = env;
    options.dir = launch->dir;
    options.kill_grace_ns = KILL_GRACE_NS;
    direct(&options, launch->streams);
    hd_child *child;
    ending->said[0] = 0;
    fflush(NULL); /* What we said comes before what it says. */
    int err = hd_child_start(&child, (const char *const *)launch->argv, &options);
    free(env);
    if (err) return err;
    if (launch->started) launch->started(hd_child_pid(child));
    if (launch->streams == PROGRAM_GATHERED) gather(hd_child_pipe(child, 2), ending->said);
    err = hd_child_wait(child, &ending->status);
    hd_child_free(child);
    return err;
}

const char *program_ending(const struct ending *ending, char *text, size_t size)
{
    if (WIFSIGNALED(ending->status)) {
        const int signal = WTERMSIG(ending->status);
        snprintf(text, size, "%s (signal %d)", strsignal(signal), signal);
    } else {
        snprintf(text, size, "exit status %d", WEXITSTATUS(ending->status));
    }
    return text;
}

int program_refused(char *const *argv, int err)
{
    char here[PROGRAM_PATH_MAX];
    const bool bare = !strchr(argv[0], '/');
    if (bare && (size_t)snprintf(here, sizeof(here), "./%s", argv[0]) < sizeof(here) &&
        access(here, X_OK) == 0) {
        return tool_complain(TOOL_NO_PROGRAM, "cannot run %s, which is looked for in PATH: %s; did"
                             " you mean %s?", argv[0], strerror(-err), here);
    }
    return tool_complain(TOOL_NO_PROGRAM, "cannot run %s: %s", argv[0], strerror(-err));
}

int program_foreign(char *const *argv, const struct ending *ending)
{
    char how[80];
    tool_complain(0, "%s did not run in sim, and ended with %s.", argv[0],
                  program_ending(ending, how, sizeof(how)));
    fputs("  It is no Heddle program, or did not get as far as hd_run(), or asks for the live world"
          " there.\n", stderr);
    if (ending->said[0]) fprintf(stderr, "  It said:\n%s", ending->said);
    return TOOL_NO_PROGRAM;
}

bool program_plausible(const char *path)
{
    /* Who links the library, be it as an archive, has one of these texts in the file. */
    static const char *const traces[] = {"HEDDLE_SEED", "libheddle.so"};
    struct stat about;
    bool found = true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* It may be a FIFO. */
    if (fd < 0) return true; /* Looked for in PATH, or running it says what is wrong. */
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
        about.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        const size_t size = (size_t)about.st_size;
        const char *text = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text != MAP_FAILED) {
            found = memcmp(text, ELFMAG, SELFMAG) != 0; /* A script may run anything. */
            for (size_t i = 0; i < 2 && !found; i++) {
                found = memmem(text, size, traces[i], strlen(traces[i])) != NULL;
            }
            munmap((void *)text, size);
        }
    }
    close(fd);
    return found;
}

/* ---- names ---- */

const char *program_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void program_print_word(FILE *out, const char *text)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_./:=,@%+-";
    if (*text && strspn(text, safe) == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", out);
        else fputc(*text, out);
    }
    fputc('\'', out);
}

static void command(FILE *out, const char *const *env, char *const *argv)
{
    for (; *env; env++) {
        const char *value = strchr(*env, '=') + 1;
        fprintf(out, "%.*s", (int)(value - *env), *env);
        program_print_word(out, value);
        fputc(' ', out);
    }
    for (; *argv; argv++) {
        program_print_word(out, *argv);
        if (argv[1]) fputc(' ', out);
    }
}

char *program_command_text(const char *const *env, char *const *argv)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    command(out, env, argv);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *program_slurp(const char *path)
{
    enum { SLURP_MAX = 1 << 20 };
    char *text = malloc(SLURP_MAX);
    FILE *in = fopen(path, "re");
    if (in && text) {
        text[fread(text, 1, SLURP_MAX - 1, in)] = 0;
    } else {
        free(text);
        text = NULL;
    }
    if (in) fclose(in);
    return text;
}

bool program_is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

int program_check_output(const char *path)
{
    char folder[PROGRAM_PATH_MAX];
    if (!path) return 0;
    struct stat about;
    int err = 0;
    if ((size_t)snprintf(folder, sizeof(folder), "%s", path) >= sizeof(folder)) {
        err = ENAMETOOLONG;
    } else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        if (S_ISDIR(about.st_mode)) err = EISDIR;
        else if (access(path, W_OK) != 0) err = errno;
    } else { /* It is replaced, so that its folder counts. */
        char *slash = strrchr(folder, '/');
        if (slash) slash[1] = 0;
        if (access(slash ? folder : ".", W_OK | X_OK) != 0) err = errno;
    }
    return err ? tool_complain(TOOL_SYSTEM, "cannot write %s: %s", path, strerror(err)) : 0;
}

/* ---- scratch files ---- */

static char scratch[PROGRAM_PATH_MAX / 2];

static void end_children_of(const char *thread)
{
    char path[300];
    snprintf(path, sizeof(path), "/proc/self/task/%s/children", thread);
    FILE *file = fopen(path, "r");
    if (!file) return; /* The kernel does not tell. */
    for (int child; fscanf(file, "%d", &child) == 1;) kill(child, SIGKILL);
    fclose(file);
}

/* What is still there of programs that were run, and of what they forked, writes no more. */
static void end_orphans(void)
{
    DIR *threads = opendir("/proc/self/task");
    if (!threads) return;
    for (const struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] != '.') end_children_of(entry->d_name);
    }
    closedir(threads);
    while (waitpid(-1, NULL, 0) > 0) continue;
}

static void scratch_remove(void)
{
    end_orphans();
    DIR *dir = opendir(scratch);
    if (!dir) return;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        unlinkat(dirfd(dir), entry->d_name, 0); /* Not . and .., which are no files. */
    }
    closedir(dir);
    rmdir(scratch);
}

/* Nobody reads what we say any more: end as others do then, but leave nothing behind. The signal
 * comes inside a write of our own, so that whatever that does not hold can be used. */
static void end_by_pipe(int signal)
{
    scratch_remove();
    raise(signal); /* SA_RESETHAND, and blocked until we return */
}

static void need_removal(void)
{
    const struct sigaction action = {.sa_handler = end_by_pipe, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    /* Where it is ignored the write fails, which is said. */
    if (sigaction(SIGPIPE, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    sigaction(SIGPIPE, &action, NULL);
}

/* Programs get these paths in lists apart by blanks. */
static const char *scratch_root(void)
{
    const char *root = getenv("TMPDIR");
    if (!root || *root != '/' || strlen(root) > sizeof(scratch) / 2) return "/tmp";
    return root[strcspn(root, " \t\n")] ? "/tmp" : root;
}

int scratch_path(char path[static PROGRAM_PATH_MAX], const char *name)
{
    if (!scratch[0]) {
        snprintf(scratch, sizeof(scratch), "%s/heddle-XXXXXX", scratch_root());
        if (!mkdtemp(scratch)) {
            scratch[0] = 0;
            return -errno;
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* Children of programs that end become ours. */
        need_removal();
        if (atexit(scratch_remove) != 0) {
            scratch_remove();
            return -ENOMEM;
        }
    }
    snprintf(path, PROGRAM_PATH_MAX, "%s/%s", scratch, name);
    return 0;
}

static int copy(const char *from, const char *to)
{
    char buffer[16384];
    ssize_t n = -1;
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return -errno;
    const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int err = out < 0 ? -errno : 0;
    while (!err && (n = read(in, buffer, sizeof(buffer))) > 0) {
        const ssize_t written = write(out, buffer, (size_t)n);
        if (written != n) err = written < 0 ? -errno : -ENOSPC;
    }
    if (!err && n < 0) err = -errno;
    close(in);
    if (out >= 0 && close(out) != 0 && !err) err = -errno;
    return err;
}

/* A device stays one. */
static int move(const char *from, const char *to)
{
    if (access(to, F_OK) == 0 && !program_is_file(to)) return copy(from, to);
    if (rename(from, to) == 0) return 0;
    return errno == EXDEV ? copy(from, to) : -errno;
}

int scratch_keep(const char *from, const char *to)
{
    char from_meta[PROGRAM_PATH_MAX + 8], to_meta[PROGRAM_PATH_MAX + 8];
    const int err = move(from, to);
    if (err || !program_is_file(to)) return err;
    snprintf(from_meta, sizeof(from_meta), "%s.meta", from);
    snprintf(to_meta, sizeof(to_meta), "%s.meta", to);
    /* It is for people: without it the log is as good. */
    if (move(from_meta, to_meta) == -ENOENT) unlink(to_meta);
    return 0;
}
