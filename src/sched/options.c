/* SPDX-License-Identifier: MIT
 *
 * options: defaults, limits, and the environment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctx/stack.h"
#include "os/thread.h"
#include "sched/runtime.h"

/* The seed in HEDDLE_SEED, if set. secure_getenv: a set-user-ID program does not let
 * its caller choose its schedule. Returns false if it is not a number. */
static bool seed_from_environment(bool *found, uint64_t *seed)
{
    const char *text = secure_getenv("HEDDLE_SEED");
    *found = text && *text;
    if (!*found) return true;
    char *end;
    const int saved = errno;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 0);
    const bool good = errno == 0 && *end == '\0' && *text >= '0' && *text <= '9';
    errno = saved;
    if (good) *seed = value;
    return good;
}

static void from_environment(const char **field, const char *name)
{
    const char *text = secure_getenv(name);
    if (text && *text) *field = text;
}

static void resolve_files(hd_options *options)
{
    from_environment(&options->sampler, "HEDDLE_SAMPLER");
    from_environment(&options->record, "HEDDLE_LOG");
    from_environment(&options->replay, "HEDDLE_REPLAY");
}

static const char *resolve_world(hd_options *options)
{
    if (options->world == HD_WORLD_AUTO) {
        bool found;
        uint64_t seed;
        if (!seed_from_environment(&found, &seed)) {
            return "HEDDLE_SEED is not a number; use for example HEDDLE_SEED=42";
        }
        resolve_files(options);
        options->world = found || options->replay ? HD_WORLD_SIM : HD_WORLD_LIVE;
        if (found) options->seed = seed;
    }
    if (options->world != HD_WORLD_SIM) {
        options->seed = 0;
        options->sampler = options->record = options->replay = NULL;
    }
    const bool chooses = options->sampler || options->record || options->replay;
    if (chooses && options->sim_order == HD_SIM_WORKERS) {
        return "sim_order HD_SIM_WORKERS has no sampler, no record and no replay";
    }
    if (options->embedded && options->world == HD_WORLD_SIM) {
        return "embedded is for the live world: the simulation is driven by who waits";
    }
    return NULL;
}

/* The environment wins. */
static const char *resolve_io(hd_options *options)
{
    const char *name = secure_getenv("HEDDLE_IO");
    if (!name || !*name) return NULL;
    if (strcmp(name, "epoll") == 0) {
        options->io = HD_IO_EPOLL;
    } else if (strcmp(name, "uring") == 0) {
        options->io = HD_IO_URING;
    } else {
        return "HEDDLE_IO is neither epoll nor uring";
    }
    return NULL;
}

static const char *resolve_workers(hd_options *options)
{
    const bool sim = options->world == HD_WORLD_SIM;
    if (options->workers > HDI_WORKERS_MAX) return "workers is over 256";
    if (options->embedded && options->workers > 1) return "embedded has one worker";
    if (options->embedded) {
        options->workers = 1;
        options->quantum_ns = options->stall_ns = HD_FOREVER; /* There is no thread to watch. */
    }
    if (sim && options->sim_order == HD_SIM_RANDOM) {
        options->workers = 1; /* One queue from which any task may come. */
    } else if (options->workers == 0) {
        /* A simulation must not depend on the machine it runs on. */
        const unsigned cpus = sim ? 4 : hdi_cpu_count();
        options->workers = cpus < HDI_WORKERS_MAX ? cpus : HDI_WORKERS_MAX;
    }
    return NULL;
}

#define DEFAULT(field, value)                                                            \
    if (options->field == 0) options->field = (value)

static void resolve_scheduling(hd_options *options)
{
    DEFAULT(stack_bytes, 64u << 10);
    DEFAULT(job_stack_bytes, 1u << 20);
    DEFAULT(lifo_cap, 3);
    DEFAULT(poll_budget, 128);
    DEFAULT(inject_interval_min, 8);
    DEFAULT(inject_interval_max, 255);
    DEFAULT(inject_latency_ns, 1000000);
    DEFAULT(ewma_percent, 10);
    DEFAULT(steal_scan_max, 4);
    DEFAULT(quantum_ns, 10000000);
    DEFAULT(quantum_ops, 10000);
    DEFAULT(sim_tick_ns, 1000);
    DEFAULT(sim_events_max, 1000000);
    DEFAULT(sim_long_wait_ns, 1000000 * options->sim_tick_ns);
    /* Who has one worker may count on it that no two tasks run at once. */
    DEFAULT(stall_ns, options->workers == 1 ? HD_FOREVER : 20000000);
    /* With more workers than CPUs a spinning thief keeps its victim from running. */
    DEFAULT(spin_rounds, options->workers > hdi_cpu_count() || HDI_MODEL ? 1 : 16);
}

static const char *check(const hd_options *options)
{
    if ((unsigned)options->policy > HD_POLICY_PRIORITY) return "policy is none of HD_POLICY_*";
    if (options->stack_bytes < HDI_STACK_BYTES_MIN) return "stack_bytes is under 16 KiB";
    if (options->stack_bytes > HDI_STACK_BYTES_MAX) return "stack_bytes is over 1 GiB";
    if (options->job_stack_bytes < HDI_STACK_BYTES_MIN) return "job_stack_bytes is under 16 KiB";
    if (options->job_stack_bytes > HDI_STACK_BYTES_MAX) return "job_stack_bytes is over 1 GiB";
    if (options->inject_interval_min < 2) {
        return "inject_interval_min is 1: injected tasks could starve all others";
    }
    if (options->inject_interval_min > options->inject_interval_max) {
        return "inject_interval_min is over inject_interval_max";
    }
    if (options->inject_latency_ns < 0) return "inject_latency_ns is negative";
    if (options->ewma_percent > 100) return "ewma_percent is over 100";
    if (options->spin_rounds > 10000) return "spin_rounds is over 10,000";
    if (options->quantum_ns < 0) return "quantum_ns is negative";
    if (options->stall_ns < 0) return "stall_ns is negative";
    if (options->sim_tick_ns < 0) return "sim_tick_ns is negative";
    if (options->sim_tick_ns > HD_SECOND_NS) return "sim_tick_ns is over a second";
    if (options->sim_long_wait_ns < 0) return "sim_long_wait_ns is negative";
    return NULL;
}

const char *hdi_options_resolve(const hd_options *in, hd_options *out)
{
    *out = (hd_options){.size = sizeof(*out)};
    if (in) {
        if (in->size != sizeof(*in)) return "size is not sizeof(hd_options); use HD_OPTIONS_INIT";
        *out = *in;
    }
    if ((unsigned)out->world > HD_WORLD_SIM) return "world is none of HD_WORLD_*";
    if ((unsigned)out->sim_order > HD_SIM_WORKERS) return "sim_order is none of HD_SIM_*";
    if ((unsigned)out->guard > HD_GUARD_CANARY) return "guard is none of HD_GUARD_*";
    if ((unsigned)out->deadlock > HD_DEADLOCK_WAIT) return "deadlock is none of HD_DEADLOCK_*";
    if ((unsigned)out->profile > HD_PROFILE_SOVEREIGN) return "profile is none of HD_PROFILE_*";
    if ((unsigned)out->io > HD_IO_EPOLL) return "io is none of HD_IO_*";
    const char *wrong = resolve_world(out);
    if (!wrong) wrong = resolve_io(out);
    if (!wrong) wrong = resolve_workers(out);
    if (wrong) return wrong;
    resolve_scheduling(out);
    return check(out);
}

const char *hd_options_error(const hd_options *options)
{
    hd_options resolved;
    return hdi_options_resolve(options, &resolved);
}
