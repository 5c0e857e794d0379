/* SPDX-License-Identifier: MIT
 *
 * disk_names: the directories of a simulated disk, and what a crash leaves of their changes.
 *
 * A change gives one or two names (of a rename) another inode, or none. It is seen at once, and
 * waits in a list, oldest first, to become durable: by the sync of a directory that it names, or
 * because the list is long. A crash keeps some of the changes that wait, and forgets the others;
 * of a rename both names or neither. Changes may overtake each other, as POSIX allows, but
 *
 *   CHANGE-1  A change that is kept has those kept before it that named one of its names;
 *   CHANGE-2  if it removes a directory, all that named something in it;
 *   CHANGE-3  if it moves a directory to another, all that did so: they could make a ring.
 *
 * A sync that fails leaves them waiting; a later one makes them durable.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/disk_tree.h"

enum { CHANGES_MAX = 1024 };

struct named {
    struct hdi_inode *dir;
    struct hdi_name *name;
    struct hdi_inode *inode; /* NULL: none */
};

struct hdi_change {
    struct hdi_list link; /* first */
    uint64_t number;
    unsigned count;
    struct named named[2];
    struct hdi_inode *removed; /* a directory that nothing names any more; NULL */
    bool moves_dir;            /* to another one */
    bool needed;               /* scratch: to be made durable */
};

/* ---- entries ---- */

static struct hdi_name *name_create(const char *text, size_t length)
{
    struct hdi_name *name = malloc(sizeof(*name) + length + 1);
    if (!name) return NULL;
    name->refs = 1;
    memcpy(name->text, text, length);
    name->text[length] = 0;
    return name;
}

static void name_drop(struct hdi_name *name)
{
    if (--name->refs == 0) free(name);
}

/* As strcmp(a, b), where b is not terminated. */
static int compare(const char *a, const char *b, size_t length)
{
    const int order = strncmp(a, b, length);
    return order ? order : a[length] != 0;
}

/* Where the name is, or would be. */
static size_t search(const struct hdi_entries *entries, const char *name, size_t length,
                     bool *found)
{
    size_t from = 0, to = entries->count;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (compare(entries->list[middle].name->text, name, length) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *found = from < entries->count && compare(entries->list[from].name->text, name, length) == 0;
    return from;
}

static struct hdi_inode *look_up(const struct hdi_entries *entries, const char *name,
                                 size_t length)
{
    bool found;
    const size_t at = search(entries, name, length, &found);
    return found ? entries->list[at].inode : NULL;
}

static int reserve(struct hdi_entries *entries, size_t room)
{
    if (room <= entries->room) return 0;
    if (room < 2 * entries->room) room = 2 * entries->room;
    struct hdi_entry *list = realloc(entries->list, room * sizeof(*list));
    if (!list) return -ENOMEM;
    entries->list = list;
    entries->room = room;
    return 0;
}

static void take_out(struct hdi_disk *disk, struct hdi_entries *entries, size_t at)
{
    const struct hdi_entry gone = entries->list[at];
    entries->count--;
    memmove(&entries->list[at], &entries->list[at + 1],
            (entries->count - at) * sizeof(*entries->list));
    name_drop(gone.name);
    hdi_inode_drop(disk, gone.inode);
}

static void put_in(struct hdi_entries *entries, size_t at, struct hdi_name *name,
                   struct hdi_inode *inode)
{
    HDI_ASSERT(entries->count < entries->room); /* TREE-4 */
    memmove(&entries->list[at + 1], &entries->list[at],
            (entries->count - at) * sizeof(*entries->list));
    entries->list[at] = (struct hdi_entry){name, inode};
    entries->count++;
    name->refs++;
    inode->refs++;
}

static void set(struct hdi_disk *disk, struct hdi_entries *entries, const struct named *named)
{
    bool found;
    const char *text = named->name->text;
    const size_t at = search(entries, text, strlen(text), &found);
    if (named->inode) named->inode->refs++; /* The same one may be taken out. */
    if (found) take_out(disk, entries, at);
    if (named->inode) {
        put_in(entries, at, named->name, named->inode);
        hdi_inode_drop(disk, named->inode);
    }
}

static void clear(struct hdi_disk *disk, struct hdi_entries *entries)
{
    while (entries->count > 0) take_out(disk, entries, entries->count - 1);
}

void hdi_names_free(struct hdi_disk *disk, struct hdi_inode *dir)
{
    clear(disk, &dir->now);
    clear(disk, &dir->durable);
    free(dir->now.list);
    free(dir->durable.list);
}

/* ---- paths ---- */

static void step(struct hdi_spot *spot, const char *name, size_t length)
{
    struct hdi_inode *dir = spot->inode;
    const bool self = length == 1 && name[0] == '.';
    const bool up = length == 2 && name[0] == '.' && name[1] == '.';
    if (self || up)
        *spot = (struct hdi_spot){.inode = self ? dir : dir->parent};
    else
        *spot = (struct hdi_spot){dir, name, length, look_up(&dir->now, name, length), false};
}

/* From where spot is. */
static int walk(const char *path, struct hdi_spot *spot)
{
    if (!*path) return -ENOENT;
    if (strlen(path) >= PATH_MAX) return -ENAMETOOLONG;
    for (;;) {
        const size_t slashes = strspn(path, "/");
        path += slashes;
        spot->slash = slashes > 0;
        if (spot->slash && spot->inode && !hdi_inode_is_dir(spot->inode)) return -ENOTDIR;
        if (!*path) return 0;
        if (!spot->inode) return -ENOENT;
        const size_t length = strcspn(path, "/");
        if (length > NAME_MAX) return -ENAMETOOLONG;
        step(spot, path, length);
        path += length;
    }
}

int hdi_names_find(struct hdi_disk *disk, const char *path, struct hdi_spot *spot)
{
    *spot = (struct hdi_spot){.inode = disk->root};
    if (*path && *path != '/') {
        const int err = walk(hdi_host_dir(), spot);
        if (err) return err;
        if (!spot->inode) return -ENOENT;
        if (!hdi_inode_is_dir(spot->inode)) return -ENOTDIR;
    }
    return walk(path, spot);
}

/* ---- changes ---- */

static void free_change(struct hdi_disk *disk, struct hdi_change *change)
{
    for (unsigned i = 0; i < change->count; i++) {
        struct named *named = &change->named[i];
        named->dir->pending--;
        hdi_inode_drop(disk, named->dir);
        if (named->inode) hdi_inode_drop(disk, named->inode);
        name_drop(named->name);
    }
    if (change->removed) hdi_inode_drop(disk, change->removed);
    hdi_list_remove(&change->link);
    disk->change_count--;
    free(change);
}

static void make_durable(struct hdi_disk *disk, struct hdi_change *change)
{
    for (unsigned i = 0; i < change->count; i++)
        set(disk, &change->named[i].dir->durable, &change->named[i]);
    free_change(disk, change);
}

static bool depends(const struct hdi_change *later, const struct hdi_change *earlier)
{
    if (later->moves_dir && earlier->moves_dir) return true; /* CHANGE-3 */
    for (unsigned i = 0; i < earlier->count; i++) {
        const struct named *a = &earlier->named[i];
        if (a->dir == later->removed) return true; /* CHANGE-2 */
        for (unsigned j = 0; j < later->count; j++) {
            const struct named *b = &later->named[j];
            if (a->dir == b->dir && strcmp(a->name->text, b->name->text) == 0) return true;
        }
    }
    return false;
}

static bool names(const struct hdi_change *change, const struct hdi_inode *dir)
{
    for (unsigned i = 0; i < change->count; i++) {
        if (change->named[i].dir == dir) return true;
    }
    return false;
}

static struct hdi_change *oldest(struct hdi_disk *disk)
{
    return (struct hdi_change *)disk->changes.next;
}

/* Mark what a change that is marked depends on. */
static void mark_before(struct hdi_disk *disk, struct hdi_change *change)
{
    for (struct hdi_list *l = change->link.prev; l != &disk->changes; l = l->prev) {
        struct hdi_change *earlier = (struct hdi_change *)l;
        earlier->needed |= depends(change, earlier);
    }
}

void hdi_names_sync(struct hdi_disk *disk, const struct hdi_inode *dir)
{
    for (struct hdi_list *l = disk->changes.prev; l != &disk->changes; l = l->prev) {
        struct hdi_change *change = (struct hdi_change *)l;
        change->needed |= names(change, dir);
        if (change->needed) mark_before(disk, change);
    }
    for (struct hdi_list *l = disk->changes.next, *next; l != &disk->changes; l = next) {
        struct hdi_change *change = (struct hdi_change *)l;
        next = l->next;
        if (change->needed) make_durable(disk, change);
    }
}

/* Room for what a change adds, now and when it becomes durable (TREE-4). */
static int reserve_for(struct hdi_inode *dir)
{
    int err = reserve(&dir->durable, dir->durable.count + dir->pending + 2);
    const size_t room = dir->durable.room, more = dir->now.count + 2;
    if (!err) err = reserve(&dir->now, room > more ? room : more);
    return err;
}

/* `naming` becomes part of the change, and is seen. */
static void carry_out(struct hdi_disk *disk, struct hdi_change *change,
                      const struct hdi_naming *naming, struct hdi_name *name)
{
    struct hdi_inode *dir = naming->spot->dir, *inode = naming->inode;
    struct hdi_inode *before = naming->spot->inode;
    struct named *named = &change->named[change->count++];
    *named = (struct named){dir, name, inode};
    dir->refs++;
    dir->pending++;
    dir->changed_ns = disk->runtime->world->now(disk->runtime);
    if (inode) {
        inode->refs++;
        inode->names++;
        if (hdi_inode_is_dir(inode)) inode->parent = dir;
    }
    if (before) {
        before->refs++;
        before->names--;
    }
    set(disk, &dir->now, named);
    if (!before) return;
    hdi_inode_lost_user(disk, before);
    hdi_inode_drop(disk, before);
}

static void describe(struct hdi_change *change, const struct hdi_naming *namings, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct hdi_inode *before = namings[i].spot->inode;
        const bool moved = count == 2 && before == namings[1 - i].inode;
        if (!before || !hdi_inode_is_dir(before)) continue;
        if (!moved) {
            change->removed = before;
            before->refs++;
        } else if (namings[0].spot->dir != namings[1].spot->dir) {
            change->moves_dir = true;
        }
    }
}

int hdi_names_change(struct hdi_disk *disk, const struct hdi_naming *namings, unsigned count)
{
    struct hdi_name *texts[2] = {NULL, NULL};
    struct hdi_change *change = calloc(1, sizeof(*change));
    int err = change ? 0 : -ENOMEM;
    for (unsigned i = 0; i < count && !err; i++) {
        texts[i] = name_create(namings[i].spot->name, namings[i].spot->length);
        err = texts[i] ? reserve_for(namings[i].spot->dir) : -ENOMEM;
    }
    if (err) {
        for (unsigned i = 0; i < count; i++) free(texts[i]);
        free(change);
        return err;
    }
    change->number = disk->write_next++;
    describe(change, namings, count);
    hdi_list_push_back(&disk->changes, &change->link);
    for (unsigned i = 0; i < count; i++) carry_out(disk, change, &namings[i], texts[i]);
    if (++disk->change_count > CHANGES_MAX) make_durable(disk, oldest(disk));
    return 0;
}

/* ---- calls ---- */

int hdi_names_unlink(struct hdi_disk *disk, const char *path)
{
    struct hdi_spot spot;
    const int err = hdi_names_find(disk, path, &spot);
    if (err) return err;
    if (!spot.inode) return -ENOENT;
    if (hdi_inode_is_dir(spot.inode)) return -EISDIR;
    return hdi_names_change(disk, &(struct hdi_naming){&spot, NULL}, 1);
}

int hdi_names_mkdir(struct hdi_disk *disk, const char *path, mode_t mode)
{
    struct hdi_spot spot;
    int err = hdi_names_find(disk, path, &spot);
    if (err) return err;
    if (spot.inode) return -EEXIST;
    struct hdi_inode *dir = hdi_inode_create(disk, S_IFDIR | (mode & 07777));
    if (!dir) return -ENOMEM;
    err = hdi_names_change(disk, &(struct hdi_naming){&spot, dir}, 1);
    hdi_inode_drop(disk, dir);
    return err;
}

int hdi_names_rmdir(struct hdi_disk *disk, const char *path)
{
    struct hdi_spot spot;
    const int err = hdi_names_find(disk, path, &spot);
    if (err) return err;
    if (!spot.inode) return -ENOENT;
    if (!hdi_inode_is_dir(spot.inode)) return -ENOTDIR;
    if (!spot.dir) return -EBUSY;
    if (spot.inode->now.count > 0) return -ENOTEMPTY;
    return hdi_names_change(disk, &(struct hdi_naming){&spot, NULL}, 1);
}

/* Whether a directory is another, or somewhere below it. */
static bool is_inside(const struct hdi_disk *disk, const struct hdi_inode *dir,
                      const struct hdi_inode *other)
{
    while (dir != other && dir != disk->root) dir = dir->parent;
    return dir == other;
}

static int check_rename(const struct hdi_disk *disk, const struct hdi_spot *from,
                        const struct hdi_spot *to)
{
    if (!from->inode) return -ENOENT;
    if (!from->dir || !to->dir) return -EBUSY;
    const bool dir = hdi_inode_is_dir(from->inode);
    if (!dir && to->slash) return -ENOTDIR;
    if (dir && is_inside(disk, to->dir, from->inode)) return -EINVAL;
    if (!to->inode) return 0;
    if (dir != hdi_inode_is_dir(to->inode)) return dir ? -ENOTDIR : -EISDIR;
    return dir && to->inode != from->inode && to->inode->now.count > 0 ? -ENOTEMPTY : 0;
}

int hdi_names_rename(struct hdi_disk *disk, const char *from_path, const char *to_path)
{
    struct hdi_spot from, to;
    int err = hdi_names_find(disk, from_path, &from);
    if (!err) err = hdi_names_find(disk, to_path, &to);
    if (!err) err = check_rename(disk, &from, &to);
    if (err || from.inode == to.inode) return err;
    const struct hdi_naming namings[] = {{&to, from.inode}, {&from, NULL}};
    return hdi_names_change(disk, namings, 2);
}

ssize_t hdi_names_list(const struct hdi_inode *dir, char **entries)
{
    size_t bytes = 0;
    for (size_t i = 0; i < dir->now.count; i++) bytes += strlen(dir->now.list[i].name->text) + 2;
    char *at = malloc(bytes ? bytes : 1);
    if (!at) return -ENOMEM;
    *entries = at;
    for (size_t i = 0; i < dir->now.count; i++) {
        const struct hdi_entry *entry = &dir->now.list[i];
        *at++ = (char)(entry->inode->mode >> 12); /* DT_*, as IFTODT() */
        at = stpcpy(at, entry->name->text) + 1;
    }
    return (ssize_t)bytes;
}

/* ---- a crash ---- */

static bool is_kept(struct hdi_disk *disk, const struct hdi_change *change)
{
    const bool drawn = hdi_disk_chance(disk, HDI_DRAW_LOST, change->number, disk->options.lost_ppm);
    if (drawn && hdi_schedule_fault(disk->runtime, "change of a name lost")) return false;
    for (struct hdi_list *l = disk->changes.next; l != &change->link; l = l->next) {
        if (depends(change, (struct hdi_change *)l)) return false; /* It is forgotten. */
    }
    return true;
}

static void go_back(struct hdi_disk *disk, struct hdi_inode *dir)
{
    clear(disk, &dir->now);
    for (size_t i = 0; i < dir->durable.count; i++) {
        const struct hdi_entry *entry = &dir->durable.list[i];
        put_in(&dir->now, i, entry->name, entry->inode); /* TREE-4 */
        entry->inode->names++;
        if (hdi_inode_is_dir(entry->inode)) entry->inode->parent = dir;
    }
}

void hdi_names_crash(struct hdi_disk *disk)
{
    /* Those that are kept go from the list, so that what is left before one is forgotten. */
    for (struct hdi_list *l = disk->changes.next, *next; l != &disk->changes; l = next) {
        struct hdi_change *change = (struct hdi_change *)l;
        next = l->next;
        if (is_kept(disk, change)) make_durable(disk, change);
    }
    while (!hdi_list_empty(&disk->changes)) free_change(disk, oldest(disk));
    for (struct hdi_list *l = disk->inodes.next; l != &disk->inodes; l = l->next) {
        struct hdi_inode *inode = (struct hdi_inode *)l;
        inode->refs++; /* None goes while we walk. */
        inode->names = 0;
    }
    for (struct hdi_list *l = disk->inodes.next; l != &disk->inodes; l = l->next) {
        struct hdi_inode *inode = (struct hdi_inode *)l;
        if (hdi_inode_is_dir(inode)) go_back(disk, inode);
    }
    for (struct hdi_list *l = disk->inodes.next, *next; l != &disk->inodes; l = next) {
        next = l->next;
        hdi_inode_drop(disk, (struct hdi_inode *)l);
    }
}
