/* SPDX-License-Identifier: MIT
 *
 * supervise: nurseries that restart their children.
 *
 *   hd_supervision s = {.size = sizeof(s), .strategy = HD_ONE_FOR_ALL, .intensity = 5,
 *                       .period_ns = 10 * HD_SECOND_NS, .backoff_ns = 100 * HD_MS_NS};
 *   HD_NURSERY(n, .supervision = &s) {
 *       if (hd_supervise(n, "reader", HD_PERMANENT, reader, socket) ||
 *           hd_supervise(n, "writer", HD_PERMANENT, writer, socket)) {
 *           hd_nursery_cancel(n);
 *       }
 *   }
 *
 * A child that ends, and is of a kind that is restarted, is run again by the same task, after a
 * pause that doubles with every restart in a row, with jitter drawn from the seed. A child that ran
 * for longer than its last pause begins with the first one again. One that is not restarted is
 * forgotten; that it failed concerns nobody.
 *
 * If there were more than `intensity` restarts within `period_ns`, the nursery gives up: all
 * children are cancelled, and its result is the error of the one that ended last, -ESRCH if that
 * had none. Cancelling the nursery ends everything, and nothing is started any more.
 *
 * Strategies, kinds and intensity mean what they mean in Erlang, but for three things: there is a
 * pause; a transient child that ended well is forgotten, so that no later round starts it again;
 * and a round waits for as long as the others take to end: nobody is killed. Tasks that were
 * spawned into the nursery otherwise are not supervised: hd_go() is what it is everywhere.
 */
#ifndef HEDDLE_SUPERVISE_H
#define HEDDLE_SUPERVISE_H

#include <heddle/base.h>
#include <heddle/nursery.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_strategy {
    HD_ONE_FOR_ONE,  /* only the child that ended */
    HD_ONE_FOR_ALL,  /* all: the others are cancelled, and when they have ended all start anew, in
                      * the order they were added */
    HD_REST_FOR_ONE, /* the one that ended, and those added after it, in the same way */
} hd_strategy;

typedef enum hd_restart {
    HD_PERMANENT, /* always */
    HD_TRANSIENT, /* if it failed: returned less than 0 */
    HD_TEMPORARY, /* never, also not with others */
} hd_restart;

struct hd_supervision {
    size_t size;
    hd_strategy strategy;
    unsigned intensity;      /* restarts within period_ns, which are counted together for all
                              * children, a round of several as one; default 3; at most 1,000,000 */
    int64_t period_ns;       /* default 5 s */
    int64_t backoff_ns;      /* the first pause; default 0: none */
    int64_t backoff_max_ns;  /* the longest; default 30 s, or backoff_ns if that is more */
    unsigned jitter_percent; /* a pause is shortened by up to so much; default 0; at most 100 */
};

#ifdef __cplusplus
#define HD_SUPERVISION_INIT                                                              \
    ([] {                                                                                \
        hd_supervision o = hd_supervision();                                             \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_SUPERVISION_INIT {.size = sizeof(hd_supervision)}
#endif

/* Add a child to a supervised nursery, and start it. The name is copied. While others are about to
 * start anew, it starts after them.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: as hd_go(); -EINVAL if the nursery is not supervised, or without a name; -EEXIST if
 * there is a child of this name. */
#define hd_supervise(nursery, name, restart, fn, arg)                                    \
    hd_supervise_at((nursery), (name), (restart), (fn), (arg), HD_SITE)
HD_API HD_MUST_USE int hd_supervise_at(hd_nursery *nursery, const char *name, hd_restart restart,
                                       hd_fn *fn, void *arg, const hd_site *site);

typedef struct hd_supervised {
    uint64_t starts;    /* how often it was started */
    bool running;       /* not ended, and not in a pause */
    int last;           /* what it returned last; 0 before */
} hd_supervised;

/* Context: any thread, before the nursery is left.  Switches: no.  Allocates: no.
 * Returns: 0, -ENOENT. */
HD_API HD_MUST_USE int hd_supervised_look(hd_nursery *nursery, const char *name,
                                          hd_supervised *out);

#ifdef __cplusplus
}
#endif
#endif
