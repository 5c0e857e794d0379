/* SPDX-License-Identifier: MIT
 *
 * cap_table: entries, their handles, and their families.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/prng.h"
#include "base/siphash.h"
#include "scope/cap.h"
#include "sync/chan.h"

#define NO_INDEX    0u /* the slot of HD_CAP_NONE is never taken */
#define ONE_USE     (UINT64_C(1) << HDI_CAP_INDEX_BITS)
#define GENERATIONS (UINT64_MAX >> HDI_CAP_INDEX_BITS)

/* All tables, so that each has a number of its own. Two runtimes of one seed have one key in sim:
 * it is the number that tells their handles apart. The least that is free is taken, so that a
 * program that runs a simulation twice sees the same handles twice. */
static struct hdi_mutex registry = HDI_MUTEX_INIT;
static struct hdi_caps *tables; /* by number; registry */

/* ---- handles ---- */

static uint64_t tag_of(const struct hdi_caps *table, uint64_t id)
{
    const uint64_t message[2] = {id, table->number};
    return hdi_siphash(table->key, message, sizeof(message));
}

hd_cap hdi_cap_handle(const struct hdi_cap *cap)
{
    return (hd_cap){cap->id, tag_of(cap->table, cap->id)};
}

/* One comparison of whole words takes the same time wherever they differ; and nothing is looked
 * up by an id before that. */
bool hdi_cap_genuine(const struct hdi_caps *table, hd_cap handle)
{
    return (tag_of(table, handle.id) ^ handle.tag) == 0;
}

static uint32_t index_of(uint64_t id)
{
    return (uint32_t)(id & HDI_CAP_INDEX_MASK);
}

/* NULL: no slot of this index was ever taken. */
static struct hdi_cap *slot(struct hdi_caps *table, uint32_t index)
{
    if (index == NO_INDEX || index >= HDI_CAPS_SLOTS) return NULL;
    struct hdi_cap *chunk = hdi_load_acquire(&table->chunks[index / HDI_CAPS_CHUNK]); /* C <- C */
    return chunk ? &chunk[index % HDI_CAPS_CHUNK] : NULL;
}

struct hdi_cap *hdi_cap_find(struct hdi_caps *table, hd_cap handle)
{
    if (!hdi_cap_genuine(table, handle)) return NULL;
    struct hdi_cap *cap = slot(table, index_of(handle.id));
    return cap && hdi_load_acquire(&cap->valid) == handle.id ? cap : NULL; /* V <- V */
}

struct hdi_cap *hdi_cap_with_id(struct hdi_caps *table, uint64_t id)
{
    struct hdi_cap *cap = slot(table, index_of(id));
    return cap && cap->id == id ? cap : NULL;
}

struct hdi_cap *hdi_cap_hold(struct hdi_caps *table, hd_cap handle)
{
    hdi_mutex_lock(&table->lock);
    struct hdi_cap *cap = hdi_cap_find(table, handle);
    if (cap) cap->refs++;
    hdi_mutex_unlock(&table->lock);
    return cap;
}

/* ---- slots ---- */

/* Context: the lock. */
static struct hdi_cap *need_slot(struct hdi_caps *table, uint32_t index)
{
    struct hdi_cap *found = slot(table, index);
    if (found) return found;
    struct hdi_cap *chunk = calloc(HDI_CAPS_CHUNK, sizeof(*chunk));
    if (!chunk) return NULL;
    const uint32_t first = index - index % HDI_CAPS_CHUNK;
    for (uint32_t i = 0; i < HDI_CAPS_CHUNK; i++) chunk[i].id = first + i;
    hdi_store_release(&table->chunks[index / HDI_CAPS_CHUNK], chunk); /* C -> C */
    return slot(table, index);
}

/* Context: the lock. Returns: 0, -ENOMEM, -EOVERFLOW. */
static int take_slot(struct hdi_caps *table, struct hdi_cap **cap)
{
    if (table->free) {
        *cap = table->free;
        table->free = (*cap)->next;
        return 0;
    }
    if (table->used == HDI_CAPS_MAX) return -EOVERFLOW;
    *cap = need_slot(table, HD_CAP_KINDS + table->used);
    if (!*cap) return -ENOMEM;
    table->used++;
    return 0;
}

/* Context: the lock, unless nobody knows the table. */
static void set_entry(struct hdi_caps *table, struct hdi_cap *cap, struct hdi_cap *parent,
                      hd_cap_kind kind, const struct hdi_bounds *bounds)
{
    cap->table = table;
    cap->kind = (uint8_t)kind;
    cap->counts = bounds->live_max != HD_UNLIMITED || (parent && parent->counts);
    cap->revoked = false;
    cap->refs = 0;
    cap->live = 0;
    cap->parent = parent;
    cap->bounds = *bounds;
    hdi_list_init(&cap->children);
    hdi_list_init(&cap->sibling);
    if (parent) hdi_list_push_back(&parent->children, &cap->sibling);
    hdi_store_release(&cap->valid, cap->id); /* V -> V */
}

/* Its id is spent, so that no handle of it is good for what is there next. The last generation of a
 * slot is its end. Context: the lock. */
static void give_slot(struct hdi_caps *table, struct hdi_cap *cap)
{
    HDI_ASSERT(cap->live == 0);
    if (cap->id >> HDI_CAP_INDEX_BITS == GENERATIONS) return;
    cap->id += ONE_USE; /* CAP-2 */
    cap->next = table->free;
    table->free = cap;
}

/* ---- a table ---- */

/* Context: registry. */
static void enlist(struct hdi_caps *table)
{
    struct hdi_caps **at = &tables;
    while (*at && (*at)->number == table->number) {
        table->number++;
        at = &(*at)->next;
    }
    table->next = *at;
    *at = table;
}

static void delist(struct hdi_caps *table)
{
    hdi_mutex_lock(&registry);
    struct hdi_caps **at = &tables;
    while (*at != table) at = &(*at)->next;
    *at = table->next;
    hdi_mutex_unlock(&registry);
}

static void free_table(struct hdi_caps *table)
{
    delist(table);
    for (unsigned i = 0; i < HDI_CAPS_CHUNKS; i++) {
        free(hdi_load_relaxed(&table->chunks[i])); /* Nobody else knows it any more. */
    }
    free(table);
}

static void set_own(struct hdi_caps *table, struct hdi_cap *first)
{
    const struct hdi_profile *profile = hdi_profile_of(table->runtime);
    table->own.table = table;
    for (unsigned kind = HD_CAP_NONE + 1; kind < HD_CAP_KINDS; kind++) {
        if (!(profile->kinds & 1u << kind)) continue;
        const struct hdi_bounds bounds = hdi_profile_bounds(profile, (hd_cap_kind)kind);
        struct hdi_cap *cap = first + (kind - 1);
        set_entry(table, cap, NULL, (hd_cap_kind)kind, &bounds);
        table->own.of[kind] = cap;
    }
    table->own.by = table->own.of[HD_CAP_SPAWN];
}

static struct hdi_caps *new_table(struct hd_runtime *runtime)
{
    struct hdi_caps *table = calloc(1, sizeof(*table));
    if (!table) return NULL;
    table->runtime = runtime;
    table->refs = 1;
    for (unsigned i = 0; i < 2; i++) {
        table->key[i] =
            hdi_stream_draw(runtime->world->entropy(runtime), HDI_PURPOSE_CAP_KEY, i, 0);
    }
    struct hdi_cap *first = need_slot(table, HD_CAP_NONE + 1);
    if (!first) {
        free(table);
        return NULL;
    }
    set_own(table, first);
    return table;
}

struct hdi_caps *hdi_caps_need(struct hd_runtime *runtime)
{
    struct hdi_caps *table = hdi_caps_of(runtime);
    if (table) return table;
    hdi_mutex_lock(&registry);
    table = hdi_caps_of(runtime);
    if (!table) {
        table = new_table(runtime);
        if (table) {
            enlist(table);
            hdi_store_release(&runtime->caps, table); /* T -> T */
        }
    }
    hdi_mutex_unlock(&registry);
    return table;
}

int hdi_caps_begin(struct hd_runtime *runtime)
{
    return hdi_caps_need(runtime) ? 0 : -ENOMEM;
}

/* Context: the lock, given back. */
static void drop_table(struct hdi_caps *table)
{
    const bool last = --table->refs == 0;
    hdi_mutex_unlock(&table->lock);
    if (last) free_table(table);
}

void hdi_caps_end(struct hd_runtime *runtime)
{
    struct hdi_caps *table = hdi_caps_of(runtime);
    if (!table) return;
    hdi_mutex_lock(&table->lock);
    drop_table(table); /* Dispatchers that are still held go with the runtime. */
}

/* ---- freeing ---- */

/* Context: the lock. Returns whether it goes, and is now on the list. */
static bool try_free(struct hdi_cap *cap, struct hdi_cap **gone)
{
    if (!cap->revoked || cap->refs > 0 || !hdi_list_empty(&cap->children)) return false; /* CAP-6 */
    hdi_list_remove(&cap->sibling);
    cap->next = *gone;
    *gone = cap;
    return true;
}

/* The same, and those above that were waiting for it. */
static void free_upwards(struct hdi_cap *cap, struct hdi_cap **gone)
{
    while (cap) {
        struct hdi_cap *parent = cap->parent;
        if (!try_free(cap, gone)) return;
        cap = parent;
    }
}

/* Dispatchers are let go without the lock, because that may wait for their threads. Context: no
 * lock; the entries are nobody's. */
static void bury(struct hdi_caps *table, struct hdi_cap *gone)
{
    if (!gone) return;
    for (struct hdi_cap *cap = gone; cap; cap = cap->next) {
        for (unsigned i = 0; i < cap->bounds.dispatcher_count; i++) {
            hd_dispatcher_unref(cap->bounds.dispatchers[i]);
        }
    }
    hdi_mutex_lock(&table->lock);
    for (struct hdi_cap *cap; (cap = gone);) {
        gone = cap->next;
        give_slot(table, cap);
    }
    hdi_mutex_unlock(&table->lock);
}

void hdi_cap_ref(struct hdi_cap *cap)
{
    hdi_mutex_lock(&cap->table->lock);
    cap->refs++;
    hdi_mutex_unlock(&cap->table->lock);
}

void hdi_cap_unref(struct hdi_cap *cap)
{
    struct hdi_caps *table = cap->table;
    struct hdi_cap *gone = NULL;
    hdi_mutex_lock(&table->lock);
    HDI_ASSERT(cap->refs > 0);
    if (--cap->refs == 0) free_upwards(cap, &gone);
    hdi_mutex_unlock(&table->lock);
    bury(table, gone);
}

/* ---- families ---- */

bool hdi_cap_descends(const struct hdi_cap *cap, const struct hdi_cap *other)
{
    while (cap && cap != other) cap = cap->parent;
    return cap != NULL;
}

/* Context: the lock. */
static int derive(struct hdi_caps *table, hd_cap from, const hd_cap_limits *limits,
                  struct hdi_cap **cap)
{
    struct hdi_cap *parent = hdi_cap_find(table, from);
    if (!parent) return -EPERM;
    struct hdi_bounds bounds;
    int err = hdi_bounds_narrow(parent, limits, &bounds);
    if (!err) err = take_slot(table, cap);
    if (err) return err;
    for (unsigned i = 0; i < bounds.dispatcher_count; i++) hd_dispatcher_ref(bounds.dispatchers[i]);
    set_entry(table, *cap, parent, (hd_cap_kind)parent->kind, &bounds);
    return 0;
}

int hdi_cap_derive(struct hdi_caps *table, hd_cap from, const hd_cap_limits *limits, hd_cap *cap,
                   hd_cap_kind *kind)
{
    struct hdi_cap *made = NULL;
    hdi_mutex_lock(&table->lock);
    const int err = derive(table, from, limits, &made);
    if (!err) {
        *cap = hdi_cap_handle(made);
        *kind = (hd_cap_kind)made->kind;
    }
    hdi_mutex_unlock(&table->lock);
    return err;
}

/* Revoke it and all below it, without recursion, by a list of those to be looked at; then free
 * what nothing refers to. Those that were done last come first there: children before their
 * parents. Context: the lock. */
static void revoke_family(struct hdi_cap *cap, struct hdi_cap **gone)
{
    struct hdi_cap *todo = cap, *done = NULL;
    cap->next = NULL;
    while (todo) {
        struct hdi_cap *at = todo;
        todo = at->next;
        hdi_store_release(&at->valid, 0); /* V -> V */
        at->revoked = true;
        at->next = done;
        done = at;
        for (struct hdi_list *l = at->children.next; l != &at->children; l = l->next) {
            struct hdi_cap *child = hdi_container_of(l, struct hdi_cap, sibling);
            if (child->revoked) continue; /* before, and those below it (CAP-4) */
            child->next = todo;
            todo = child;
        }
    }
    for (struct hdi_cap *at; (at = done);) {
        done = at->next;
        (void)try_free(at, gone);
    }
}

/* Whether who acts by these rights would take them from itself. Context: the lock. */
static bool is_held(const struct hdi_rights *acting, const struct hdi_cap *cap)
{
    if (!acting || acting->table != cap->table) return false;
    return hdi_cap_descends(acting->of[cap->kind], cap) || hdi_cap_descends(acting->by, cap);
}

int hdi_cap_revoke(struct hdi_caps *table, hd_cap handle, const struct hdi_rights *acting,
                   hd_cap_kind *kind)
{
    struct hdi_cap *gone = NULL;
    int err = 0;
    hdi_mutex_lock(&table->lock);
    struct hdi_cap *cap = hdi_cap_find(table, handle);
    if (!cap) {
        err = -EPERM;
    } else if (!cap->parent || is_held(acting, cap)) {
        err = -EINVAL;
    } else {
        *kind = (hd_cap_kind)cap->kind;
        revoke_family(cap, &gone);
    }
    hdi_mutex_unlock(&table->lock);
    bury(table, gone);
    return err;
}

/* ---- counting ---- */

/* Context: the lock. */
static const struct hdi_cap *count(struct hdi_cap *cap)
{
    for (const struct hdi_cap *c = cap; c; c = c->parent) {
        if (c->live >= c->bounds.live_max) return c;
    }
    for (struct hdi_cap *c = cap; c; c = c->parent) c->live++; /* CAP-5 */
    return NULL;
}

static void uncount(struct hdi_cap *cap)
{
    for (struct hdi_cap *c = cap; c; c = c->parent) {
        HDI_ASSERT(c->live > 0); /* CAP-5 */
        c->live--;
    }
}

const struct hdi_cap *hdi_cap_count(struct hdi_cap *cap)
{
    if (!cap->counts) return NULL;
    hdi_mutex_lock(&cap->table->lock);
    const struct hdi_cap *full = count(cap);
    hdi_mutex_unlock(&cap->table->lock);
    return full;
}

void hdi_cap_uncount(struct hdi_cap *cap)
{
    if (!cap->counts) return;
    hdi_mutex_lock(&cap->table->lock);
    uncount(cap);
    hdi_mutex_unlock(&cap->table->lock);
}

const struct hdi_cap *hdi_cap_count_chan(struct hdi_cap *cap)
{
    struct hdi_caps *table = cap->table;
    hdi_mutex_lock(&table->lock);
    const struct hdi_cap *full = count(cap);
    if (!full) {
        cap->refs++;
        table->refs++;
    }
    hdi_mutex_unlock(&table->lock);
    return full;
}

void hdi_scope_chan_gone(struct hdi_cap *counted)
{
    struct hdi_caps *table = counted->table;
    struct hdi_cap *gone = NULL;
    hdi_mutex_lock(&table->lock);
    uncount(counted);
    if (--counted->refs == 0) free_upwards(counted, &gone);
    hdi_mutex_unlock(&table->lock);
    bury(table, gone);
    hdi_mutex_lock(&table->lock);
    drop_table(table);
}
