/* SPDX-License-Identifier: MIT
 *
 * heddle: runs Heddle programs in sim: one schedule, many, a recorded one again; and reads logs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const struct command *const commands[] = {
    &command_sim,    &command_explore, &command_replay, &command_shrink, &command_show,
    &command_diff,   &command_verify,  &command_doctor,
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char exit_codes[] =
    "Exit codes:\n"
    "    0  it went well; nothing was found\n"
    "    1  a bug was found\n"
    "    2  the command line makes no sense\n"
    "    3  two logs, or a log and its replay, differ\n"
    "    4  a log is damaged, or is none\n"
    "    5  the program cannot be run, or is no Heddle program\n"
    "    6  the system refused something, or the time did not suffice\n"
    "  130  a signal came before anything was found\n";

int tool_complain(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("heddle: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}

static int output_err; /* of the first write to stdout that failed */

void tool_flush(void)
{
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (failed && !output_err) output_err = errno ? errno : EIO;
}

const char *tool_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

unsigned tool_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
    return (unsigned)CPU_COUNT(&set);
}

/* ---- as a fiber ---- */

struct first {
    hd_fn *fn;
    void *arg;
    int status;
};

static bool interrupted;

bool tool_interrupted(void)
{
    return interrupted;
}

static int watch_signals(void *arg)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    hd_chan *chan;
    int signal;
    int err = hd_signal_open(&chan, signals, sizeof(signals) / sizeof(signals[0]));
    if (err) return err;
    err = hd_chan_recv(chan, &signal);
    hd_signal_close(chan);
    if (err) return err;
    interrupted = true;
    hd_nursery_cancel(arg);
    return 0;
}

static int first_fiber(void *arg)
{
    struct first *first = arg;
    HD_NURSERY(all) {
        const int err = hd_go(all, watch_signals, all);
        if (err) {
            first->status = tool_complain(TOOL_SYSTEM, "cannot start: %s", strerror(-err));
            break;
        }
        first->status = first->fn(first->arg);
        hd_nursery_cancel(all);
    }
    return 0;
}

int tool_run(hd_fn *fn, void *arg)
{
    /* One worker: fibers that share memory take turns. Live whatever the environment says, which is
     * meant for the programs we run. */
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    options.stack_bytes = 256 << 10;
    struct first first = {.fn = fn, .arg = arg, .status = TOOL_SYSTEM};
    const int err = hd_run(first_fiber, &first, &options);
    if (err) return tool_complain(TOOL_SYSTEM, "cannot start: %s", strerror(-err));
    return first.status;
}

/* ---- help ---- */

static void overview(FILE *out)
{
    fputs("usage: heddle COMMAND [OPTIONS] ...\n\n"
          "Runs Heddle programs in simulation: finds, repeats and shrinks concurrency bugs.\n\n",
          out);
    for (unsigned i = 0; i < COMMANDS; i++) {
        fprintf(out, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(out, "  %-8s  %s\n\n%s\n", "help", "this, or more on one command", exit_codes);
    fputs("`heddle help COMMAND` has the options; heddle(1) has it all.\n", out);
}

static void explain(const struct command *command, FILE *out)
{
    fprintf(out, "usage: heddle %s [OPTIONS] %s\n\n%s.\n%s", command->name, command->operands,
            command->summary, command->details);
    if (command->options->name) fputs("\nOptions:\n", out);
    for (const struct option_spec *option = command->options; option->name; option++) {
        char name[40];
        snprintf(name, sizeof(name), "--%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        fprintf(out, "  %-20s  %s\n", name, option->help);
    }
    fprintf(out, "\n%s", exit_codes);
}

static const struct command *find(const char *name)
{
    const char *names[COMMANDS + 2] = {[COMMANDS] = "help"};
    for (unsigned i = 0; i < COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (!strcmp(name, names[i])) return commands[i];
    }
    const char *nearest = options_nearest(name, names);
    if (nearest) {
        tool_complain(0, "there is no command '%s'; did you mean '%s'?", name, nearest);
    } else {
        tool_complain(0, "there is no command '%s'; `heddle help` lists them", name);
    }
    return NULL;
}

static int help(char **argv)
{
    if (!argv[0]) {
        overview(stdout);
        return TOOL_FINE;
    }
    const struct command *command = find(argv[0]);
    if (!command) return TOOL_USAGE;
    explain(command, stdout);
    return TOOL_FINE;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        overview(stderr);
        return TOOL_USAGE;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("heddle %s\n", hd_version());
        return TOOL_FINE;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        return help(argv + 2);
    }
    const struct command *command = find(argv[1]);
    if (!command) return TOOL_USAGE;
    struct arguments arguments;
    const int parsed = options_parse(command->options, command->name, argv + 2, &arguments);
    if (parsed < 0) return TOOL_USAGE;
    if (parsed > 0) {
        explain(command, stdout);
        return TOOL_FINE;
    }
    return command->run(&arguments);
}

/* Descriptors that were closed are opened, so that no file of ours gets the number of a stream.
 * What nobody wants to hear is dropped, but a result that cannot be written is an error. */
static void need_streams(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0) return;
    }
}

int main(int argc, char **argv)
{
    need_streams();
    const int status = run(argc, argv);
    tool_flush();
    if (!output_err) return status;
    /* A full disk, or a reader that left, is no success. */
    return tool_complain(TOOL_SYSTEM, "cannot write: %s", strerror(output_err));
}
