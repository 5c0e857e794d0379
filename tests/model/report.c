/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE_TEXT 200

extern char __executable_start[]; /* the linker's: where the program is loaded */

const char *report_memory(enum hdi_model_memory memory)
{
    static const char *const names[HDI_MEMORY_MODES] = {"sc", "tso", "pso"};
    return names[memory];
}

const char *report_verdict(enum hdi_verdict verdict)
{
    switch (verdict) {
    case HDI_VERDICT_PASS: return "pass";
    case HDI_VERDICT_CHECK: return "check failed";
    case HDI_VERDICT_DEADLOCK: return "deadlock";
    case HDI_VERDICT_LIVELOCK: return "livelock";
    case HDI_VERDICT_RACE: return "data race";
    case HDI_VERDICT_FREED: return "freed memory";
    case HDI_VERDICT_CRASH: return "crash";
    case HDI_VERDICT_DIVERGED: return "diverged";
    }
    return "?";
}

/* ---- Source positions, from addr2line if it is there -------------------------------- */

static void clean_line(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *note = strstr(line, " (discriminator");
    if (note) *note = '\0';
}

/* An addr2line command for all sites of the trace, or NULL. */
static char *sites_command(size_t count)
{
    const size_t size = 64 + PATH_MAX + count * 20;
    char *command = malloc(size), exe[PATH_MAX] = "";
    if (!command || readlink("/proc/self/exe", exe, sizeof(exe) - 1) <= 0) {
        free(command);
        return NULL;
    }
    size_t used = (size_t)snprintf(command, size, "addr2line -a -f -i -s -e '%s'", exe);
    for (size_t i = 0; i < count; i++) {
        const char *site = hdi_model_trace_step(i)->site;
        if (!site) continue;
        used += (size_t)snprintf(command + used, size - used, " 0x%tx",
                                 site - 1 - __executable_start);
    }
    snprintf(command + used, size - used, " 2>/dev/null");
    return command;
}

/* Read the next answer: the address, then function and place of each inlined frame, from
 * the innermost. Keeps "function file:line < outermost function". `line` holds the line
 * read ahead. */
static void read_site(FILE *pipe, char *line, size_t size, char *site)
{
    char function[64] = "", outer[64] = "", place[64] = "";
    while (fgets(line, (int)size, pipe) && strncmp(line, "0x", 2) != 0) {
        clean_line(line);
        snprintf(outer, sizeof(outer), "%.60s", line);
        if (!fgets(line, (int)size, pipe)) break;
        clean_line(line);
        if (function[0]) continue;
        snprintf(function, sizeof(function), "%s", outer);
        snprintf(place, sizeof(place), "%.60s", line);
    }
    snprintf(site, SITE_TEXT, "%s %s", function, place);
    const size_t used = strlen(site);
    if (strcmp(function, outer) != 0) snprintf(site + used, SITE_TEXT - used, " < %s", outer);
}

/* Fill sites[i] for every step that has one. */
static void find_sites(char (*sites)[SITE_TEXT], size_t count)
{
    char *command = sites_command(count);
    FILE *pipe = command ? popen(command, "r") : NULL;
    free(command);
    if (!pipe) return;
    char line[1024] = "";
    if (fgets(line, sizeof(line), pipe)) {
        for (size_t i = 0; i < count; i++) {
            if (hdi_model_trace_step(i)->site) read_site(pipe, line, sizeof(line), sites[i]);
        }
    }
    pclose(pipe);
}

/* ---- One step, one line ---------------------------------------------------------------- */

static const char *step_verb(const struct hdi_model_step *step)
{
    static const char *const rmw[] = {"exchange", "add", "sub", "or", "and"};
    switch ((enum hdi_step_kind)step->kind) {
    case HDI_STEP_LOAD: return "load";
    case HDI_STEP_FORWARD: return "load own";
    case HDI_STEP_STORE: return "store";
    case HDI_STEP_BUFFER: return "store...";
    case HDI_STEP_COMMIT: return "...arrives";
    case HDI_STEP_RMW: return rmw[step->op];
    case HDI_STEP_CAS: return step->failed ? "cas lost" : "cas";
    case HDI_STEP_PAUSE: return "pause";
    case HDI_STEP_BARRIER: return "barrier";
    case HDI_STEP_WAIT: return step->failed ? "wait not" : "wait";
    case HDI_STEP_WAKE: return "wake";
    case HDI_STEP_EXPIRE: return "wait over";
    case HDI_STEP_START: return "start";
    case HDI_STEP_JOIN: return "join";
    case HDI_STEP_EXIT: return "exit";
    case HDI_STEP_PLAIN_READ: return "read";
    case HDI_STEP_PLAIN_WRITE: return "write";
    case HDI_STEP_FREE: return "free";
    case HDI_STEP_TOUCH: return "TOUCHES";
    case HDI_STEP_NOTE: return "note";
    }
    return "?";
}

static const char *step_order(const struct hdi_model_step *step)
{
    static const char *const names[] = {"relaxed", "consume", "acquire",
                                        "release", "acq_rel", "seq_cst"};
    switch ((enum hdi_step_kind)step->kind) {
    case HDI_STEP_LOAD:
    case HDI_STEP_STORE:
    case HDI_STEP_BUFFER:
    case HDI_STEP_RMW:
    case HDI_STEP_CAS: return names[step->order];
    case HDI_STEP_FORWARD:
    case HDI_STEP_COMMIT:
    case HDI_STEP_PAUSE:
    case HDI_STEP_BARRIER:
    case HDI_STEP_WAIT:
    case HDI_STEP_WAKE:
    case HDI_STEP_EXPIRE:
    case HDI_STEP_START:
    case HDI_STEP_JOIN:
    case HDI_STEP_EXIT:
    case HDI_STEP_PLAIN_READ:
    case HDI_STEP_PLAIN_WRITE:
    case HDI_STEP_FREE:
    case HDI_STEP_TOUCH:
    case HDI_STEP_NOTE: return "";
    }
    return "";
}

/* The object's name, or a number in order of first appearance: a1, a2, ... */
static void address_text(const volatile void *addr, char *text, size_t size)
{
    static const volatile void *seen[256];
    static unsigned used;
    size_t offset = 0;
    const char *name = hdi_model_object(addr, &offset);
    if (name && offset == 0) {
        snprintf(text, size, "%s", name);
    } else if (name) {
        snprintf(text, size, "%s+%zu", name, offset);
    } else {
        unsigned i = 0;
        while (i < used && seen[i] != addr) i++;
        if (i == used && used < 256) seen[used++] = addr;
        snprintf(text, size, "a%u", i + 1);
    }
}

static const char *number_text(uint64_t value, char text[24])
{
    const bool minus = value > UINT64_MAX - 1000;
    if (minus || value < 1000000) {
        snprintf(text, 24, "%" PRId64, (int64_t)value);
    } else {
        snprintf(text, 24, "0x%" PRIx64, value);
    }
    return text;
}

static void values_text(const struct hdi_model_step *step, char *text, size_t size)
{
    char a[24], b[24];
    number_text(step->before, a);
    number_text(step->after, b);
    text[0] = '\0';
    switch ((enum hdi_step_kind)step->kind) {
    case HDI_STEP_LOAD:
    case HDI_STEP_FORWARD: snprintf(text, size, "= %s", b); break;
    case HDI_STEP_STORE:
    case HDI_STEP_BUFFER:
    case HDI_STEP_COMMIT:
    case HDI_STEP_RMW: snprintf(text, size, "%s -> %s", a, b); break;
    case HDI_STEP_CAS: snprintf(text, size, step->failed ? "is %s" : "%s -> %s", a, b); break;
    case HDI_STEP_WAIT: snprintf(text, size, "is %s, while %s", a, b); break;
    case HDI_STEP_WAKE: snprintf(text, size, "%s of %s", b, a); break;
    case HDI_STEP_START:
    case HDI_STEP_JOIN: snprintf(text, size, "t%s", b); break;
    case HDI_STEP_NOTE: snprintf(text, size, "%s", b); break;
    case HDI_STEP_PAUSE:
    case HDI_STEP_BARRIER:
    case HDI_STEP_EXPIRE:
    case HDI_STEP_EXIT:
    case HDI_STEP_PLAIN_READ:
    case HDI_STEP_PLAIN_WRITE:
    case HDI_STEP_FREE:
    case HDI_STEP_TOUCH: break;
    }
}

static void print_step(size_t i, const struct hdi_model_step *step, const char *site)
{
    char where[48] = "", values[64], who[32];
    if (step->kind == HDI_STEP_NOTE) {
        snprintf(where, sizeof(where), "%s", (const char *)(uintptr_t)step->addr);
    } else if (step->addr) {
        address_text(step->addr, where, sizeof(where));
    }
    values_text(step, values, sizeof(values));
    const char *name = hdi_model_thread_name(step->thread);
    snprintf(who, sizeof(who), "t%u %s", step->thread,
             name ? name : step->thread == 0 ? "body" : "");
    printf("# %4zu  %-20.20s %-10s %-22s %-24s %-8s %s\n", i + 1, who, step_verb(step), where,
           values, step_order(step), site);
}

void report_execution(const struct model_scenario *scenario, enum hdi_model_memory memory,
                      const struct hdi_model_result *result)
{
    const size_t count = hdi_model_trace_count();
    printf("#\n# %s in %s: %s: ", scenario->name, report_memory(memory),
           report_verdict(result->verdict));
    if (result->file) printf("%s:%d: ", result->file, result->line);
    printf("%s\n", result->text);
    fflush(stdout);
    char(*sites)[SITE_TEXT] = calloc(count + 1, SITE_TEXT);
    if (!sites) return;
    find_sites(sites, count);
    for (size_t i = 0; i < count; i++) print_step(i, hdi_model_trace_step(i), sites[i]);
    free(sites);
}
