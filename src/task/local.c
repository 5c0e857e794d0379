/* SPDX-License-Identifier: MIT */
#include "task/local.h"

#include <errno.h>
#include <stdlib.h>

#include <heddle/local.h>

#include "task/exec.h"

struct value {
    const hd_local *key;
    void *value; /* never NULL */
};

/* LOCAL-1: keys of values[0 .. count) differ; the newest is last. */
struct hdi_locals {
    unsigned count, capacity;
    struct value values[];
};

static struct value *find(struct hdi_locals *locals, const hd_local *key)
{
    for (unsigned i = 0; locals && i < locals->count; i++) {
        if (locals->values[i].key == key) return &locals->values[i];
    }
    return NULL;
}

struct hdi_extras *hdi_task_need_extras(struct hd_task *task)
{
    struct hdi_extras *extras = hdi_task_extras(task);
    if (extras) return extras;
    extras = calloc(1, sizeof(*extras));
    if (extras) hdi_store_release(&task->extras, extras); /* E */
    return extras;
}

static struct hdi_locals *locals_of(const struct hd_task *task)
{
    const struct hdi_extras *extras = hdi_task_extras(task);
    return extras ? extras->locals : NULL;
}

/* Room for one more. Returns false if memory is short. */
static bool reserve(struct hd_task *task)
{
    struct hdi_extras *extras = hdi_task_need_extras(task);
    if (!extras) return false;
    struct hdi_locals *locals = extras->locals;
    if (locals && locals->count < locals->capacity) return true;
    const unsigned capacity = locals ? 2 * locals->capacity : 4;
    struct hdi_locals *larger =
        realloc(locals, sizeof(*larger) + capacity * sizeof(larger->values[0]));
    if (!larger) return false;
    if (!locals) larger->count = 0;
    larger->capacity = capacity;
    extras->locals = larger;
    return true;
}

static bool append(struct hd_task *task, const hd_local *key, void *value)
{
    if (!reserve(task)) return false;
    struct hdi_locals *locals = locals_of(task);
    locals->values[locals->count++] = (struct value){key, value};
    return true;
}

static void take_out(struct hdi_locals *locals, struct value *at)
{
    const struct value *end = &locals->values[--locals->count];
    for (; at < end; at++) at[0] = at[1];
}

/* Last: it may change the locals. */
static void destroy(const hd_local *key, void *value)
{
    if (key->destroy) key->destroy(value);
}

int hd_local_share(void *parents, void **value)
{
    *value = parents;
    return 0;
}

void *hdi_local_of(const struct hd_task *task, const hd_local *key)
{
    const struct value *found = find(locals_of(task), key);
    return found ? found->value : NULL;
}

void *hd_local_get(const hd_local *key)
{
    const struct hd_task *task = hdi_task_self();
    return task ? hdi_local_of(task, key) : NULL;
}

int hd_local_set(const hd_local *key, void *value)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return -EINVAL;
    struct value *found = find(locals_of(task), key);
    void *old = found ? found->value : NULL;
    if (!found) {
        if (value && !append(task, key, value)) return -ENOMEM;
    } else if (value) {
        found->value = value;
    } else {
        take_out(locals_of(task), found);
    }
    if (old && old != value) destroy(key, old);
    return 0;
}

int hdi_locals_inherit(const struct hd_task *parent, struct hd_task *child)
{
    const struct hdi_locals *locals = locals_of(parent);
    for (unsigned i = 0; locals && i < locals->count; i++) {
        const struct value *from = &locals->values[i];
        void *value = NULL;
        if (!from->key->inherit) continue;
        int err = from->key->inherit(from->value, &value);
        if (!err && value && !append(child, from->key, value)) {
            destroy(from->key, value);
            err = -ENOMEM;
        }
        if (err) {
            hdi_locals_end(child);
            return err;
        }
    }
    return 0;
}

void hdi_locals_end(struct hd_task *task)
{
    enum { ROUNDS_MAX = 1000 }; /* values set by destructors: some end, others would not */
    for (int i = 0; i < ROUNDS_MAX; i++) {
        struct hdi_locals *locals = locals_of(task);
        if (!locals || locals->count == 0) break;
        const struct value last = locals->values[--locals->count];
        destroy(last.key, last.value);
    }
    struct hdi_extras *extras = hdi_task_extras(task);
    if (!extras) return;
    free(extras->locals);
    extras->locals = NULL;
}
