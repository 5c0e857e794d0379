/* SPDX-License-Identifier: MIT
 *
 * corpus: small programs with one concurrency bug each, and the same without it.
 *
 * A program is a file with all its state in one static struct `s`, which begins with the case it
 * runs as, and is put back when the program begins:
 *
 *   static struct {
 *       struct corpus_case how;
 *       int balance;
 *   } s;
 *
 *   static int lost_update(void *arg)
 *   {
 *       CORPUS_BEGIN(s, arg);
 *       TOGETHER(deposit, deposit);
 *       hd_assert(s.balance == 2);
 *       return 0;
 *   }
 *   CORPUS(lost_update, lost_update, ASSERT, 1, "load and store instead of an add")
 *
 * What tasks share they touch by hd_atomic_*() and hd_race_*() only, except when all others have
 * ended. `how.fixed` is looked at in one place: where the bug is.
 */
#ifndef CORPUS_H
#define CORPUS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <heddle.h>

struct corpus_case {
    bool fixed;
    unsigned size; /* how many tasks, or which variant; what is left to the program */
};

/* What may be found: a set of verdicts. */
enum {
    CORPUS_ASSERT = 1u << HD_VERDICT_ASSERT,
    CORPUS_HARD = 1u << 30, /* not to be expected within 10,000 schedules */
    CORPUS_ASSERT_HARD = CORPUS_ASSERT | CORPUS_HARD,
    CORPUS_RESULT = 1u << HD_VERDICT_RESULT,
    CORPUS_DEADLOCK = 1u << HD_VERDICT_DEADLOCK,
    CORPUS_STUCK = CORPUS_DEADLOCK | 1u << HD_VERDICT_LOST_WAKE, /* a signal came too early */
    CORPUS_LIVELOCK = 1u << HD_VERDICT_LIVELOCK,
    CORPUS_RACE = 1u << HD_VERDICT_RACE,
    CORPUS_STALE = 1u << HD_VERDICT_STALE,
    CORPUS_LEAK = 1u << HD_VERDICT_LEAK,
};

struct corpus_program {
    const char *name;
    hd_fn *run;        /* its argument is a struct corpus_case */
    unsigned size;
    unsigned verdicts; /* CORPUS_* */
    unsigned switches; /* fewest preemptions that lead there, as far as is known */
    const char *notes;
    struct corpus_program *next;
};

/* All of them by name; NULL at the end. */
struct corpus_program *corpus_first(void);
struct corpus_program *corpus_find(const char *name);
void corpus_register(struct corpus_program *program);

#define CORPUS(name, fn, verdict, switches, notes)                                       \
    CORPUS_OF(name, fn, 0, verdict, switches, notes)
#define CORPUS_OF(name, fn, size, verdict, switches, notes)                              \
    static struct corpus_program corpus_##name = {#name,    fn,    size, CORPUS_##verdict, \
                                                  switches, notes, NULL};                \
    __attribute__((constructor)) static void corpus_register_##name(void)                \
    {                                                                                    \
        corpus_register(&corpus_##name);                                                 \
    }

/* ---- for the programs ---- */

#define CORPUS_BEGIN(state, arg)                                                         \
    (memset(&(state), 0, sizeof(state)), (state).how = *(const struct corpus_case *)(arg))

/* A task each for these functions, in this order; wait until all have ended. */
#define TOGETHER(...)                                                                    \
    corpus_together((hd_fn *const[]){__VA_ARGS__},                                       \
                    sizeof((hd_fn *const[]){__VA_ARGS__}) / sizeof(hd_fn *), HD_SITE)
void corpus_together(hd_fn *const *fns, size_t count, const hd_site *site);

/* `count` tasks of one function, then one of another (NULL: none); the argument is the place. */
#define CROWD(count, fn, last) corpus_crowd((count), (fn), (last), HD_SITE)
#define PLACE(arg)             ((unsigned)(uintptr_t)(arg))
#define CORPUS_CROWD_MAX       32
void corpus_crowd(unsigned count, hd_fn *fn, hd_fn *last, const hd_site *site);

/* Calls that succeed. */
#define GO(fn, arg) corpus_go((fn), (arg), HD_SITE)
hd_task *corpus_go(hd_fn *fn, void *arg, const hd_site *site);
void corpus_join(hd_task *handle);
void corpus_lock(hd_mutex *mutex);
void corpus_acquire(hd_sem *sem);
hd_chan *corpus_chan(size_t capacity); /* of int */
void corpus_send(hd_chan *chan, int item);
int corpus_recv(hd_chan *chan);

#endif
