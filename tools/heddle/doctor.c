/* SPDX-License-Identifier: MIT
 *
 * doctor: what this machine gives to Heddle programs, what that means, and what can be done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "json.h"
#include "tool.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static bool doctor_json;

static const struct option_spec doctor_options[] = {
    {"json", NULL, "the findings as JSON", OPTION_FLAG, &doctor_json},
    {0},
};

enum state { GOOD, LIMITED, MISSING };

struct finding {
    const char *name;
    enum state state;
    char value[160];
    const char *meaning;
    const char *remedy; /* NULL: nothing to be done */
};

typedef void check_fn(struct finding *finding);

__attribute__((format(printf, 2, 3)))
static void value(struct finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->value, sizeof(finding->value), format, arguments);
    va_end(arguments);
}

/* The number in a file of /proc or /sys; -1 if there is none. */
static int64_t setting(const char *path)
{
    long long number = -1;
    FILE *in = fopen(path, "re");
    if (!in) return -1;
    if (fscanf(in, "%lld", &number) != 1) number = -1;
    fclose(in);
    return number;
}

/* ---- what is looked at ---- */

static void kernel(struct finding *f)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
        f->state = LIMITED;
        value(f, "unknown");
        return;
    }
    value(f, "%s %s %s", name.sysname, name.release, name.machine);
    const unsigned version = major * 1000 + minor;
    f->state = version >= 6013 ? GOOD : version >= 5006 ? LIMITED : MISSING;
    f->meaning = "Heddle is made for Linux 5.6 and later; 6.13 has guard pages without mappings";
    if (f->state != GOOD) f->remedy = "a newer kernel, if you need millions of fibers";
}

static void cpus(struct finding *f)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned usable = tool_cpus();
    value(f, "%u of %ld", usable, online);
    f->meaning = "a live runtime has so many workers, and explore so many jobs, by default";
    if (usable < 2) f->state = LIMITED;
    if ((long)usable < online) f->remedy = "taskset, or the CPU set of the container";
}

/* Between the first and the second number of the cgroup's cpu.max. */
static void quota(struct finding *f)
{
    long long used = 0, period = 0;
    FILE *in = fopen("/sys/fs/cgroup/cpu.max", "re");
    const int got = in ? fscanf(in, "%lld %lld", &used, &period) : 0;
    if (in) fclose(in);
    f->meaning = "with less time than CPUs, workers are stopped in turn, and latencies grow";
    if (got != 2 || period <= 0) {
        value(f, "no limit");
        return;
    }
    value(f, "%.1f CPUs", (double)used / (double)period);
    if (used < period * tool_cpus()) {
        f->state = LIMITED;
        f->remedy = "raise the container's limit, or set hd_options.workers to it";
    }
}

static void gather_line(void *arg, const char *line)
{
    char *text = arg;
    if (!text[0]) snprintf(text, 120, "%s", line);
}

static int do_io(void *arg)
{
    char *driver = arg;
    hd_io ends[2];
    if (hd_pipe(ends) != 0) return 0;
    char byte = 0;
    hd_runtime *runtime = hd_runtime_self();
    if (hd_write(ends[1], &byte, 1) == 1 && hd_read(ends[0], &byte, 1) == 1) {
        /* It has to wait once. */
        if (hd_read_until(ends[0], &byte, 1, hd_after_ms(1)) != -ETIMEDOUT) driver[0] = 0;
    }
    snprintf(driver, 32, "%s", hd_runtime_io(runtime));
    hd_close(ends[0]);
    hd_close(ends[1]);
    return 0;
}

static void io(struct finding *f)
{
    char driver[32] = "none", why[120] = "";
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    options.log = gather_line;
    options.log_arg = why;
    const int err = hd_run(do_io, driver, &options);
    f->meaning = "by io_uring a worker asks for many things at once; by epoll each costs a call";
    if (err) {
        f->state = MISSING;
        value(f, "%s", strerror(-err));
        return;
    }
    const bool best = strcmp(driver, "io_uring") == 0;
    value(f, "%s", best || !why[0] ? driver : why);
    if (best) return;
    f->state = LIMITED;
    f->remedy = setting("/proc/sys/kernel/io_uring_disabled") > 0
                    ? "sysctl kernel.io_uring_disabled=0"
                    : "a kernel, a container profile and a build with io_uring; unset HEDDLE_IO";
}

static void guards(struct finding *f)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int64_t maps = setting("/proc/sys/vm/max_map_count");
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool works = memory != MAP_FAILED && madvise(memory, page, MADV_GUARD_INSTALL) == 0;
    if (memory != MAP_FAILED) munmap(memory, page);
    f->meaning = "what finds the overflow of a fiber's stack";
    if (works) {
        value(f, "by madvise: any number of fibers");
        return;
    }
    f->state = LIMITED;
    value(f, "by mprotect: about %" PRId64 " fibers that have begun", maps > 0 ? maps / 2 : 32000);
    f->remedy = "Linux 6.13, or sysctl vm.max_map_count=1000000, or hd_options.guard =\n"
                "HD_GUARD_CANARY";
}

static void mappings(struct finding *f)
{
    const int64_t maps = setting("/proc/sys/vm/max_map_count");
    value(f, "%" PRId64 " (vm.max_map_count)", maps);
    f->meaning = "each stack takes two without guards by madvise, and only a few hundred with them";
    if (maps >= 0 && maps < 65530) {
        f->state = LIMITED;
        f->remedy = "sysctl vm.max_map_count=65530";
    }
}

static void overcommit(struct finding *f)
{
    const int64_t mode = setting("/proc/sys/vm/overcommit_memory");
    value(f, "vm.overcommit_memory=%" PRId64, mode);
    f->meaning = "stacks are address space first, and memory when they are used";
    if (mode == 2) {
        f->state = LIMITED;
        f->remedy = "sysctl vm.overcommit_memory=0: with 2 each stack counts in full";
    }
}

static void descriptors(struct finding *f)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    value(f, "%llu, can be raised to %llu", (unsigned long long)limit.rlim_cur,
          (unsigned long long)limit.rlim_max);
    f->meaning = "each connection, file, pipe end and child takes one";
    if (limit.rlim_cur < 4096) {
        f->state = LIMITED;
        f->remedy = "ulimit -n 65536, or LimitNOFILE= of the service";
    }
}

static void threads(struct finding *f)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NPROC, &limit);
    const int64_t pids = setting("/sys/fs/cgroup/pids.max");
    if (limit.rlim_cur == RLIM_INFINITY && pids < 0) {
        value(f, "no limit");
    } else if (pids >= 0) {
        value(f, "%" PRId64 " in this container", pids);
    } else {
        value(f, "%llu of this user", (unsigned long long)limit.rlim_cur);
    }
    f->meaning = "workers, blocking calls and children are threads and processes";
    if ((pids >= 0 && pids < 256) || limit.rlim_cur < 256) {
        f->state = LIMITED;
        f->remedy = "ulimit -u, or the container's limit of processes";
    }
}

static bool in_path(const char *name)
{
    char path[4096];
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/%s", (int)length, at, name);
        if (access(path, X_OK) == 0) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void debugger(struct finding *f)
{
    const int64_t scope = setting("/proc/sys/kernel/yama/ptrace_scope");
    const bool gdb = in_path("gdb");
    value(f, "gdb is %sinstalled, kernel.yama.ptrace_scope=%" PRId64, gdb ? "" : "not ",
          scope < 0 ? 0 : scope);
    f->meaning = "heddle replay --until stops a program for a debugger; with --gdb it starts one";
    if (!gdb) {
        f->state = MISSING;
        f->remedy = "install gdb";
    } else if (scope > 0 && geteuid() != 0) {
        f->state = scope > 2 ? MISSING : LIMITED;
        f->remedy = "use --gdb, where gdb starts the program; or sysctl kernel.yama.ptrace_scope=0";
    }
}

static void perf(struct finding *f)
{
    const int64_t level = setting("/proc/sys/kernel/perf_event_paranoid");
    if (level < 0) value(f, "the kernel has no perf events");
    else value(f, "kernel.perf_event_paranoid=%" PRId64, level);
    f->meaning = "perf can count cache misses and sample programs of this user";
    if (level < 0 || (level > 2 && geteuid() != 0)) {
        f->state = LIMITED;
        f->remedy = "sysctl kernel.perf_event_paranoid=1; Heddle itself does not need it";
    }
}

static void aslr(struct finding *f)
{
    const int64_t mode = setting("/proc/sys/kernel/randomize_va_space");
    value(f, "kernel.randomize_va_space=%" PRId64, mode);
    f->meaning = "addresses differ from run to run; schedules do not depend on them (level D3),\n"
                 "unless the program itself orders things by address";
}

static const struct {
    const char *name;
    check_fn *check;
} checks[] = {
    {"kernel", kernel},           {"CPUs", cpus},       {"CPU quota", quota},
    {"I/O", io},                  {"guards", guards},   {"mappings", mappings},
    {"overcommit", overcommit},   {"descriptors", descriptors},
    {"threads", threads},         {"debugger", debugger},
    {"perf", perf},               {"ASLR", aslr},
};

/* ---- saying it ---- */

static const char *const states[] = {"good", "limited", "missing"};

/* Lines of a text, each indented. */
static void indented(const char *label, const char *text)
{
    for (bool first = true; text; first = false) {
        const size_t length = strcspn(text, "\n");
        printf("%22s%s%.*s\n", "", first ? label : "", (int)length, text);
        text = text[length] ? text + length + 1 : NULL;
    }
}

static int doctor(struct arguments *arguments)
{
    struct json json = {.out = stdout};
    if (arguments->count != 0) return options_refuse("doctor", "no arguments are wanted");
    if (doctor_json) json_open(&json, NULL, '{');
    if (doctor_json) json_open(&json, "findings", '[');
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct finding f = {.name = checks[i].name};
        checks[i].check(&f);
        if (doctor_json) {
            json_open(&json, NULL, '{');
            json_text(&json, "name", f.name);
            json_text(&json, "state", states[f.state]);
            json_text(&json, "value", f.value);
            json_text(&json, "meaning", f.meaning);
            json_text(&json, "remedy", f.remedy);
            json_close(&json, '}');
        } else {
            printf("%-8s %-12s %s\n", states[f.state], f.name, f.value);
            indented("", f.meaning);
            indented("remedy: ", f.remedy);
        }
    }
    if (doctor_json) json_close(&json, ']');
    if (doctor_json) json_close(&json, '}');
    return TOOL_FINE;
}

const struct command command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "Say what this machine supports, and what limits apply",
    .details = "",
    .options = doctor_options,
    .run = doctor,
};
