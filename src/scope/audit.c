/* SPDX-License-Identifier: MIT
 *
 * audit: what is missing, in words, for who was refused and for the hook.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scope/cap.h"

static uint64_t self_id(void)
{
    const struct hd_task *task = hdi_task_self();
    return task ? task->id : 0;
}

void hdi_audit(struct hdi_caps *table, hd_audit_event event, hd_cap_kind kind, uint64_t cap,
               const char *what)
{
    /* Relaxed: a hook that was just set may miss what happens at the same time. */
    if (hdi_likely(!hdi_load_relaxed(&table->audited))) return;
    hdi_mutex_lock(&table->audit_lock);
    hd_audit_fn *fn = table->audit;
    void *arg = table->audit_arg;
    hdi_mutex_unlock(&table->audit_lock);
    if (!fn) return;
    const hd_audit audit = {.event = event, .kind = kind, .cap = cap, .task = self_id(),
                            .what = what};
    HDI_CALL_OUT(fn(&audit, arg));
}

int hd_cap_audit(hd_runtime *runtime, hd_audit_fn *fn, void *arg)
{
    struct hdi_caps *table = hdi_caps_need(runtime);
    if (!table) return -ENOMEM;
    hdi_mutex_lock(&table->audit_lock);
    table->audit = fn;
    table->audit_arg = arg;
    hdi_store_relaxed(&table->audited, fn != NULL); /* The lock orders the others. */
    hdi_mutex_unlock(&table->audit_lock);
    return 0;
}

/* Where the running task, or thread, keeps what it missed last; NULL if there is none, or, with
 * `make`, if memory is short. */
static char *missing(bool make)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return hdi_thread_note();
    struct hdi_extras *extras = make ? hdi_task_need_extras(task) : hdi_task_extras(task);
    if (!extras) return NULL;
    if (!extras->missing && make) extras->missing = calloc(1, HDI_NOTE_BYTES);
    return extras->missing;
}

int hdi_deny(struct hdi_caps *table, hd_cap_kind kind, uint64_t cap, const char *format, ...)
{
    char text[HDI_NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *note = missing(true);
    if (note) memcpy(note, text, sizeof(text));
    if (table) hdi_audit(table, HD_AUDIT_DENY, kind, cap, text);
    return -EPERM;
}

int hdi_deny_handle(struct hdi_caps *table, hd_cap handle, const char *doing)
{
    if (table && hdi_cap_genuine(table, handle)) {
        return hdi_deny(table, HD_CAP_NONE, handle.id, "%s: capability %llu is revoked", doing,
                        (unsigned long long)handle.id);
    }
    return hdi_deny(table, HD_CAP_NONE, 0, "%s: this is no capability of this runtime", doing);
}

const char *hd_missing(void)
{
    const char *note = missing(false);
    return note ? note : "";
}
