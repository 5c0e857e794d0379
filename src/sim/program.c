/* SPDX-License-Identifier: MIT
 *
 * program: simulated programs, and the processes that run them. The protocol is in program.h.
 */
#include "sim/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle/local.h>
#include <heddle/time.h>

#include "base/check.h"
#include "io/signals.h"
#include "io/stream.h"
#include "sim/disk.h"
#include "sim/net.h"
#include "task/local.h"

struct hdi_program {
    struct hdi_program *next;
    hd_sim_main *main; /* NULL: it is none, but for what may be wrong with it */
    void *arg;
    const hd_site *site;
    bool faulty;       /* the next three were given */
    int err;
    uint32_t ppm;
    int64_t delay_ns;
    char name[];       /* "": any */
};

struct hdi_proc {
    struct hdi_process known;    /* first; constant, as all up to `texts` */
    struct hdi_net *net;
    struct hdi_life *life;       /* of its host */
    struct hdi_life gone;        /* what is told for it once it is dead */
    uint32_t parent;             /* 0: the program itself */
    const struct hdi_program *program;
    hd_sim_main *main;
    void *arg;
    hd_sim_process start;
    char *texts;                 /* what that points to */
    struct hdi_net_event begins; /* the lock, as all of these; queued until it does */
    struct hdi_list link;        /* in net->processes */
    struct hdi_list dying;       /* in net->dying, or in none */
    unsigned tasks;              /* that carry it, or will */
    int exit_fd;                 /* the other end of the pidfd; -1: none */
    int status;                  /* once it is */
    bool dead;
    bool closed;                 /* its handles are, and its tasks cancelled */
    bool ended;                  /* PROC-3 */
    bool unwanted;               /* nobody will wait for it */
    bool aside;                  /* its running task alone: what that spawns does not carry it */
};

/* ---- the process of a task ---- */

/* Context: the lock. */
static void note(struct hdi_proc *proc)
{
    if (hdi_list_empty(&proc->dying)) hdi_list_push_back(&proc->net->dying, &proc->dying);
    proc->net->runtime->world->notify(&proc->net->runtime->main);
}

/* Context: the lock. The first who says how it ended is right. */
static void die(struct hdi_proc *proc, int status)
{
    if (proc->dead) return;
    proc->dead = true;
    proc->status = status;
    note(proc);
}

static int carry_on(void *parents, void **value)
{
    struct hdi_proc *proc = parents;
    hdi_mutex_lock(&proc->net->lock);
    const bool dead = proc->dead; /* PROC-2 */
    if (!dead && !proc->aside) proc->tasks++;
    *value = proc->aside ? NULL : proc;
    hdi_mutex_unlock(&proc->net->lock);
    return dead ? -ENOMEM : 0;
}

/* A task that carried it ends. */
static void let_go(void *value)
{
    struct hdi_proc *proc = value;
    hdi_mutex_lock(&proc->net->lock);
    if (--proc->tasks == 0) note(proc);
    hdi_mutex_unlock(&proc->net->lock);
}

static const hd_local proc_key = HD_LOCAL(let_go, carry_on);

static struct hdi_proc *proc_self(void)
{
    return hd_local_get(&proc_key);
}

const struct hdi_process *hdi_process_self(struct hd_runtime *runtime)
{
    (void)runtime; /* A task carries one of its own. */
    const struct hdi_proc *proc = proc_self();
    return proc ? &proc->known : NULL;
}

struct hdi_life *hdi_process_gone(void)
{
    struct hdi_proc *proc = proc_self();
    return proc && proc->dead ? &proc->gone : NULL;
}

void hdi_process_aside(bool aside)
{
    struct hdi_proc *proc = proc_self();
    if (proc) proc->aside = aside;
}

const char *hdi_host_dir(void)
{
    const struct hdi_proc *proc = proc_self();
    return proc ? proc->start.dir : "/";
}

/* ---- programs ---- */

static struct hdi_program *find_program(struct hdi_net *net, const char *name)
{
    struct hdi_program *at = net->programs;
    while (at && strcmp(at->name, name) != 0) at = at->next;
    return at;
}

static struct hdi_program *need_program(struct hdi_net *net, const char *name)
{
    struct hdi_program *at = find_program(net, name);
    if (at) return at;
    const size_t bytes = strlen(name) + 1;
    at = hdi_net_alloc(sizeof(*at) + bytes);
    memcpy(at->name, name, bytes);
    at->next = net->programs;
    net->programs = at;
    return at;
}

int hd_sim_program_at(const char *name, hd_sim_main *main, void *arg, const hd_site *site)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if (!name || !*name) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    struct hdi_program *program = need_program(net, name);
    program->main = main;
    program->arg = arg;
    program->site = site;
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_program_fault(const char *name, int err, uint32_t ppm, int64_t delay_ns)
{
    int why;
    struct hdi_net *net = hdi_net_self(&why);
    if (!net) return why;
    if (err >= 0 || delay_ns < 0 || (name && !*name)) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    struct hdi_program *program = need_program(net, name ? name : "");
    program->faulty = true;
    program->err = err;
    program->ppm = ppm;
    program->delay_ns = delay_ns;
    hdi_mutex_unlock(&net->lock);
    return 0;
}

void hdi_programs_heal(struct hdi_net *net)
{
    for (struct hdi_program *at = net->programs; at; at = at->next) at->faulty = false;
}

static const struct hdi_program *fault_of(struct hdi_net *net, const char *name)
{
    const struct hdi_program *at = find_program(net, name);
    if (!at || !at->faulty) at = find_program(net, "");
    return at && at->faulty ? at : NULL;
}

/* ---- beginning ---- */

/* Its first fiber. */
static int run_program(void *arg)
{
    struct hdi_proc *proc = arg;
    int err = hd_local_set(&proc_key, proc); /* It is counted already. */
    if (err) {
        let_go(proc);
        return err;
    }
    err = hdi_life_enter(proc->life);
    if (!err && !hdi_process_gone()) err = proc->main(&proc->start, proc->arg);
    hdi_mutex_lock(&proc->net->lock);
    die(proc, W_EXITCODE(err & 0xff, 0));
    hdi_mutex_unlock(&proc->net->lock);
    return 0;
}

static void begin(struct hdi_net *net, struct hdi_net_event *event, bool fire)
{
    struct hdi_proc *proc = hdi_container_of(event, struct hdi_proc, begins);
    if (!fire) return; /* hdi_programs_end() frees it. */
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = net->runtime;
    options.name = proc->program->name;
    const hd_site *site = proc->program->site;
    proc->tasks = 1;
    hdi_mutex_unlock(&net->lock);
    const int err = hd_spawn_at(NULL, run_program, proc, &options, site);
    hdi_mutex_lock(&net->lock);
    if (!err) return;
    proc->tasks = 0;
    die(proc, SIGKILL); /* The runtime ends, or memory is short. */
}

/* ---- what it is started with ---- */

static size_t count_texts(const char *const *texts, size_t *bytes)
{
    size_t count = 0;
    for (; texts[count]; count++) *bytes += strlen(texts[count]) + 1;
    return count;
}

static char *copy_texts(const char *const *from, const char **to, char *at)
{
    for (; *from; from++) {
        const size_t bytes = strlen(*from) + 1;
        *to++ = memcpy(at, *from, bytes);
        at += bytes;
    }
    *to = NULL;
    return at;
}

/* Where it runs, from where the caller does. */
static void put_dir(char *to, size_t bytes, const char *dir)
{
    const char *from = hdi_host_dir();
    if (!dir) snprintf(to, bytes, "%s", from);
    else if (*dir == '/') snprintf(to, bytes, "%s", dir);
    else snprintf(to, bytes, "%s/%s", from, dir);
}

static void copy_start(struct hdi_proc *proc, const struct hdi_spawn *what)
{
    const struct hdi_proc *self = proc_self();
    const char *const *env = self ? self->start.env : (const char *const *)environ;
    if (what->env) env = what->env;
    const size_t dir_bytes = strlen(hdi_host_dir()) + (what->dir ? strlen(what->dir) : 0) + 2;
    size_t bytes = dir_bytes;
    const size_t argc = count_texts(what->argv, &bytes), envc = count_texts(env, &bytes);
    const size_t lists = (argc + envc + 2) * sizeof(const char *);
    proc->texts = hdi_net_alloc(lists + bytes);
    const char **argv = (const char **)(void *)proc->texts, **vars = argv + argc + 1;
    char *at = copy_texts(what->argv, argv, proc->texts + lists);
    char *dir = copy_texts(env, vars, at);
    put_dir(dir, dir_bytes, what->dir);
    proc->start = (hd_sim_process){(int)argc, argv, vars, dir};
}

/* A handle of its own, of what is to be one of its streams. Returns: 0, -errno. */
static int open_stream(struct hd_runtime *runtime, struct hdi_proc *proc, int stream, int from)
{
    const int fd = hdi_sys_sim.dup(runtime, from < 0 ? stream : from, 0);
    hd_io io = {0};
    if (fd < 0) return fd;
    if (fd < HDI_STREAMS) {
        io = hdi_stdio_open(runtime, fd); /* Perhaps it is closed for us, too. */
    } else {
        const int err = hd_io_adopt(&io, fd, 0);
        if (err) {
            (void)hdi_sys_sim.close(runtime, fd);
            return err;
        }
    }
    proc->known.streams[stream] = io.private_;
    hdi_source_give(io, proc->known.number);
    return 0;
}

/* ---- starting ---- */

static void free_proc(struct hdi_proc *proc)
{
    hdi_list_remove(&proc->link);
    hdi_list_remove(&proc->dying);
    free(proc->texts);
    free(proc);
}

/* Where it shall run, and what is there in the place of a program. Returns: 0, -errno. */
static int check_paths(struct hd_runtime *runtime, const struct hdi_spawn *what, bool found)
{
    struct stat info;
    int err = what->dir ? hdi_disk_stat(runtime, what->dir, &info) : 0;
    if (err) return err;
    if (what->dir && !S_ISDIR(info.st_mode)) return -ENOTDIR;
    if (found) return 0;
    const char *name = what->argv[0];
    return strchr(name, '/') && hdi_disk_stat(runtime, name, &info) == 0 ? -EACCES : -ENOENT;
}

/* Context: the lock. A process that has not begun; NULL: it is not started, and *err says why. */
static struct hdi_proc *make(struct hdi_net *net, const struct hdi_program *program, int *err)
{
    const struct hdi_program *fault = fault_of(net, program->name);
    const uint32_t count = net->process_count++;
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_PROGRAM, 0, count);
    if (fault && hdi_net_strikes(net, draw, fault->ppm, "program not started")) {
        *err = fault->err;
        return NULL;
    }
    const struct hdi_proc *self = proc_self();
    struct hdi_proc *proc = hdi_net_alloc(sizeof(*proc));
    proc->known.number = count + 2; /* The first is the program itself. */
    proc->net = net;
    proc->life = hdi_life_self(net);
    proc->gone = (struct hdi_life){.host = proc->life->host, .dead = true};
    proc->parent = self ? self->known.number : 0;
    proc->program = program;
    proc->main = program->main;
    proc->arg = program->arg;
    proc->exit_fd = -1;
    proc->begins.run = begin;
    hdi_list_init(&proc->dying);
    hdi_list_push_back(&net->processes, &proc->link);
    return proc;
}

/* Context: the lock. */
static void begin_later(struct hdi_net *net, struct hdi_proc *proc)
{
    const struct hdi_program *fault = fault_of(net, proc->program->name);
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_PROGRAM, 1, proc->known.number);
    const int64_t delay_ns = fault ? fault->delay_ns : (int64_t)(draw % (uint64_t)HD_MS_NS);
    if (proc->life->dead) die(proc, SIGKILL); /* The host has crashed meanwhile. */
    else hdi_net_event_add(net, &proc->begins, hdi_net_now(net) + delay_ns);
}

int hdi_process_spawn(struct hd_runtime *runtime, const struct hdi_spawn *what)
{
    struct hdi_net *net = hdi_net_of(runtime);
    if (hdi_life_self(net)->dead) return -EHOSTDOWN;
    hdi_mutex_lock(&net->lock);
    const struct hdi_program *program = find_program(net, what->argv[0]);
    const bool found = program && program->main;
    hdi_mutex_unlock(&net->lock);
    int err = check_paths(runtime, what, found);
    if (err) return err;
    hdi_mutex_lock(&net->lock);
    struct hdi_proc *proc = make(net, program, &err);
    hdi_mutex_unlock(&net->lock);
    if (!proc) return err;
    copy_start(proc, what);
    for (int i = 0; i < HDI_STREAMS && !err; i++) {
        err = open_stream(runtime, proc, i, what->fds[i]);
    }
    const uint32_t number = proc->known.number;
    if (err) hdi_sources_close(runtime, number);
    hdi_mutex_lock(&net->lock);
    if (err) free_proc(proc);
    else begin_later(net, proc);
    hdi_mutex_unlock(&net->lock);
    return err ? err : (int)number;
}

/* ---- ending ---- */

static struct hdi_proc *proc_of(struct hdi_list *link)
{
    return hdi_container_of(link, struct hdi_proc, link);
}

static struct hdi_proc *find_proc(struct hdi_net *net, pid_t pid)
{
    for (struct hdi_list *link = net->processes.next; link != &net->processes; link = link->next) {
        if (proc_of(link)->known.number == (uint32_t)pid) return proc_of(link);
    }
    return NULL;
}

/* A call on a process: the network locked; NULL: there is none, nothing is locked, and *err says
 * -EHOSTDOWN to who is dead (PROC-2), or has another word. */
static struct hdi_proc *enter(struct hd_runtime *runtime, pid_t pid, int *err)
{
    struct hdi_net *net = hdi_net_of(runtime);
    hdi_mutex_lock(&net->lock);
    const bool dead = hdi_life_self(net)->dead;
    struct hdi_proc *proc = dead ? NULL : find_proc(net, pid);
    if (dead) *err = -EHOSTDOWN;
    if (!proc) hdi_mutex_unlock(&net->lock);
    return proc;
}

static void close_exit(struct hdi_proc *proc)
{
    if (proc->exit_fd >= 0) hdi_fd_close(proc->net, hdi_fd_at(proc->net, proc->exit_fd));
    proc->exit_fd = -1;
}

int hdi_process_open(struct hd_runtime *runtime, pid_t pid)
{
    int ends[2];
    int err = hdi_sys_sim.pipe(runtime, ends);
    if (err) return err;
    err = -ESRCH;
    struct hdi_proc *proc = enter(runtime, pid, &err);
    if (!proc) {
        for (int i = 0; i < 2; i++) (void)hdi_sys_sim.close(runtime, ends[i]);
        return err;
    }
    HD_CHECK(proc->exit_fd < 0); /* Who started it asks once. */
    proc->exit_fd = ends[1];
    if (proc->ended) close_exit(proc);
    hdi_mutex_unlock(&proc->net->lock);
    return ends[0];
}

int hdi_process_wait(struct hd_runtime *runtime, pid_t pid, int pidfd, int flags, int *status)
{
    (void)pidfd;
    int result = -ECHILD;
    struct hdi_proc *proc = enter(runtime, pid, &result);
    if (!proc) return result;
    struct hdi_net *net = proc->net;
    result = proc->ended;
    if (!proc->ended && !(flags & (WNOHANG | WNOWAIT))) {
        /* There is no thread that could block; so of one that was killed it is told at once, and
         * the other, which might not be, is nobody's any more. */
        proc->unwanted = true;
        result = proc->dead ? 1 : -ECHILD;
    }
    if (result == 1) *status = proc->status;
    if (proc->ended && !(flags & WNOWAIT)) free_proc(proc);
    hdi_mutex_unlock(&net->lock);
    return result;
}

static bool is_in(int signal, const int *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == signal) return true;
    }
    return false;
}

int hdi_process_kill(struct hd_runtime *runtime, pid_t pid, int pidfd, int signal)
{
    static const int ignored[] = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
    static const int stop[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    (void)pidfd;
    if (signal < 0 || signal >= NSIG) return -EINVAL;
    int err = -ESRCH;
    const struct hdi_proc *there = enter(runtime, pid, &err);
    if (!there) return err;
    const bool dead = there->dead;
    hdi_mutex_unlock(&there->net->lock);
    if (dead || signal == 0) return 0;
    if (signal != SIGKILL && hdi_signal_send(runtime, (uint32_t)pid, signal)) return 0;
    if (is_in(signal, stop, sizeof(stop) / sizeof(*stop))) return -ENOTSUP;
    if (is_in(signal, ignored, sizeof(ignored) / sizeof(*ignored))) return 0;
    struct hdi_proc *proc = enter(runtime, pid, &err); /* It may have ended meanwhile. */
    if (!proc) return err;
    die(proc, signal);
    hdi_mutex_unlock(&proc->net->lock);
    return 0;
}

void hdi_processes_crash(struct hdi_net *net, const struct hdi_life *life)
{
    for (struct hdi_list *link = net->processes.next; link != &net->processes; link = link->next) {
        struct hdi_proc *proc = proc_of(link);
        if (proc->life != life) continue;
        proc->unwanted = true; /* Who would wait is dead, too. */
        if (proc->ended) note(proc);
        die(proc, SIGKILL);
    }
}

static void cancel_one(struct hd_task *task, void *proc)
{
    if (hdi_local_of(task, &proc_key) == proc) hdi_task_cancel(task);
}

/* Context: the lock, given back in between (PROC-1). */
static void close_all(struct hdi_proc *proc)
{
    struct hdi_net *net = proc->net;
    proc->closed = true;
    hdi_net_event_remove(net, &proc->begins);
    hdi_mutex_unlock(&net->lock);
    hdi_sources_close(net->runtime, proc->known.number);
    hdi_runtime_for_each_task(net->runtime, cancel_one, proc);
    hdi_mutex_lock(&net->lock);
}

/* Nobody waits for its children any more. */
static void leave_children(const struct hdi_proc *proc)
{
    struct hdi_net *net = proc->net;
    for (struct hdi_list *link = net->processes.next, *next; link != &net->processes; link = next) {
        struct hdi_proc *child = proc_of(link);
        next = link->next;
        if (child->parent != proc->known.number) continue;
        child->unwanted = true;
        if (child->ended) free_proc(child);
    }
}

/* PROC-3. Context: the lock, given back in between. */
static void end_proc(struct hdi_proc *proc)
{
    struct hdi_net *net = proc->net;
    hdi_mutex_unlock(&net->lock);
    hdi_signals_end(net->runtime, proc->known.number);
    hdi_mutex_lock(&net->lock);
    proc->ended = true;
    leave_children(proc);
    close_exit(proc);
    if (proc->unwanted) free_proc(proc);
}

void hdi_processes_look(struct hdi_net *net)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->dying));) {
        struct hdi_proc *proc = hdi_container_of(link, struct hdi_proc, dying);
        if (proc->tasks == 0) die(proc, SIGKILL); /* Its fiber has never run. */
        if (!proc->closed) close_all(proc);
        if (proc->tasks == 0 && !proc->ended) end_proc(proc);
        else if (proc->ended && proc->unwanted) free_proc(proc);
    }
}

void hdi_programs_end(struct hdi_net *net)
{
    while (!hdi_list_empty(&net->processes)) {
        struct hdi_proc *proc = proc_of(net->processes.next);
        hdi_signals_end(net->runtime, proc->known.number);
        free_proc(proc);
    }
    for (struct hdi_program *at; (at = net->programs);) {
        net->programs = at->next;
        free(at);
    }
}
