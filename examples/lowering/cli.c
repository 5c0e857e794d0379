/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "run.h"

struct arguments {
    const char *file;
    bool qtjir, help, sim;
    uint64_t seed;
};

static const char usage[] = "usage: lowering [--qtjir] [--seed N] FILE\n";

static const char help_options[] =
    "\n"
    "Reads a program in Janus notation, lowers it to opcodes, and runs those as fibers.\n"
    "\n"
    "  --qtjir    print the opcodes first\n"
    "  --seed N   simulate: one thread, virtual time, N chooses who runs when\n"
    "  --help     this text\n"
    "  FILE       the program; - is standard input\n"
    "\n"
    "A program:\n"
    "\n"
    "  let x = 6                  // numbers have 64 bits; + - * and ( )\n"
    "  nursery {                  // does not end before all its tasks have\n"
    "      spawn compute(x)       // a task\n"
    "      spawn { print(\"hi\") }  // a task with a block of its own\n"
    "      let h = async fib(10)  // a task with a result,\n"
    "      print(await h + x)     // and the result\n"
    "  }\n"
    "\n"
    "Functions:";

static const char help_end[] =
    "\n"
    "\n"
    "Try: lowering examples/lowering/hello.janus\n"
    "\n"
    "Exit status: 0; 1: bad source; 2: bad usage, or the file cannot be read; 3: the program\n"
    "failed. HEDDLE_SEED=N in the environment does what --seed does.\n";

static void print_help(FILE *out)
{
    fprintf(out, "%s%s", usage, help_options);
    for (const struct native *native = natives; native->name; native++) {
        fprintf(out, " %s/%u", native->name, native->arguments);
    }
    fputs(help_end, out);
}

static bool read_seed(const char *text, struct arguments *arguments)
{
    char *end;
    errno = 0;
    arguments->seed = strtoull(text, &end, 0);
    arguments->sim = true;
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
}

/* Returns what is wrong; NULL: nothing. */
static const char *read_arguments(char **words, struct arguments *arguments)
{
    bool options = true;
    for (; *words; words++) {
        const char *word = *words;
        if (!options || word[0] != '-' || strcmp(word, "-") == 0) {
            if (arguments->file) return "more than one file: name one";
            arguments->file = word;
        } else if (strcmp(word, "--") == 0) {
            options = false;
        } else if (strcmp(word, "--qtjir") == 0) {
            arguments->qtjir = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            arguments->help = true;
        } else if (strcmp(word, "--seed") == 0) {
            if (!words[1] || !read_seed(*++words, arguments)) {
                return "--seed needs a number, e.g. --seed 42";
            }
        } else {
            return "unknown option: --help lists them";
        }
    }
    return arguments->file || arguments->help
               ? NULL
               : "no file: try examples/lowering/hello.janus, or --help";
}

static int execute(const struct source *source, const struct program *program,
                   const struct arguments *arguments, FILE *out, FILE *err)
{
    hd_options options = HD_OPTIONS_INIT;
    if (arguments->sim) {
        options.world = HD_WORLD_SIM;
        options.seed = arguments->seed;
    }
    const char *wrong = hd_options_error(&options);
    if (wrong) {
        fprintf(err, "lowering: %s\n", wrong);
        return CLI_USAGE;
    }
    struct fault fault;
    const int failed = run_program(program, &options, out, &fault);
    fflush(out);
    if (failed) source_report(source, &fault, err);
    return failed ? CLI_FAILED : CLI_OK;
}

static int compile_and_execute(const struct source *source, const struct arguments *arguments,
                               FILE *out, FILE *err)
{
    struct program program;
    struct fault fault;
    if (!compile(source, natives, &program, &fault)) {
        source_report(source, &fault, err);
        return CLI_SOURCE;
    }
    if (arguments->qtjir) qtjir_print(&program, out);
    int status = execute(source, &program, arguments, out, err);
    program_free(&program);
    if (status == CLI_OK && ferror(out)) {
        fprintf(err, "lowering: cannot write the output\n");
        status = CLI_FAILED;
    }
    return status;
}

int cli(char **words, FILE *out, FILE *err)
{
    struct arguments arguments = {0};
    const char *wrong = read_arguments(words, &arguments);
    if (wrong) {
        fprintf(err, "lowering: %s\n%s", wrong, usage);
        return CLI_USAGE;
    }
    if (arguments.help) {
        print_help(out);
        return CLI_OK;
    }
    struct source source;
    const int failed = source_load(&source, arguments.file);
    if (failed) {
        fprintf(err, "lowering: %s: %s\n", arguments.file,
                failed == -EFBIG ? "over 64 KiB: make the program smaller" : strerror(-failed));
        return CLI_USAGE;
    }
    const int status = compile_and_execute(&source, &arguments, out, err);
    source_free(&source);
    return status;
}
