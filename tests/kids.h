/* SPDX-License-Identifier: MIT
 *
 * kids: supervised children that do what a test tells them, one call at a time.
 */
#ifndef TEST_KIDS_H
#define TEST_KIDS_H

#include <stdatomic.h>

#include "rt.h"

enum { KIDS_LOG_BYTES = 4096 };

/* What kids wrote: upper case as one starts, lower case as it ends. */
struct kids_log {
    char text[KIDS_LOG_BYTES];
    atomic_uint length;
};

struct kid {
    char name[8];
    bool deaf;         /* heeds no cancel until it is told to end; `go` orders this too */
    int result;        /* what the next call returns; `go` orders it */
    hd_sem go;         /* a permit: return */
    hd_sem started;    /* one for each call */
    atomic_int calls;  /* so far */
    atomic_int asked;  /* that ended because they were cancelled */
    struct kids_log *log; /* NULL: none */
};

static inline void kids_note(struct kids_log *log, char letter)
{
    if (!log) return;
    const unsigned at = atomic_fetch_add(&log->length, 1);
    EXPECT(at < KIDS_LOG_BYTES - 1);
    log->text[at] = letter;
}

static inline struct kid kid_make(const char *name, struct kids_log *log)
{
    struct kid kid = {.log = log};
    snprintf(kid.name, sizeof(kid.name), "%s", name);
    return kid;
}

/* Waits to be told how to end; ends by itself when cancelled. */
static inline int kid_main(void *arg)
{
    struct kid *kid = arg;
    atomic_fetch_add(&kid->calls, 1);
    kids_note(kid->log, kid->name[0]);
    const bool deaf = kid->deaf;
    if (deaf) EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_sem_release(&kid->started, 1), 0);
    const int err = hd_sem_acquire(&kid->go, 1);
    if (deaf) EXPECT_EQ(hd_unshield(), 0);
    kids_note(kid->log, (char)(kid->name[0] | 0x20));
    if (err == -ECANCELED) atomic_fetch_add(&kid->asked, 1);
    return err ? err : kid->result;
}

/* Have the call under way, or the next, return this. */
static inline void kid_end(struct kid *kid, int result)
{
    kid->result = result;
    EXPECT_EQ(hd_sem_release(&kid->go, 1), 0);
}

/* Wait until it has started once more. */
static inline void kid_await(struct kid *kid)
{
    EXPECT_EQ(hd_sem_acquire(&kid->started, 1), 0);
}

#define kid_supervise(nursery, kid, restart)                                             \
    EXPECT_EQ(hd_supervise((nursery), (kid)->name, (restart), kid_main, (kid)), 0)

/* Supervise it and wait until it runs. */
#define kid_begin(nursery, kid, restart)                                                 \
    do {                                                                                 \
        kid_supervise((nursery), (kid), (restart));                                      \
        kid_await(kid);                                                                  \
    } while (0)

/* From a fiber: wait until the nursery has forgotten a child, or until it rests. */
static inline void kids_until_gone(hd_nursery *nursery, const char *name)
{
    hd_supervised state;
    while (hd_supervised_look(nursery, name, &state) == 0) hd_yield();
}

static inline void kids_until_resting(hd_nursery *nursery, const char *name)
{
    hd_supervised state = {.running = true};
    while (hd_supervised_look(nursery, name, &state) == 0 && state.running) hd_yield();
}

#endif
