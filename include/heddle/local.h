/* SPDX-License-Identifier: MIT
 *
 * local: values that belong to a task, not to the thread it happens to run on.
 *
 *   static const hd_local request_id = HD_LOCAL(free, NULL);
 *
 *   hd_local_set(&request_id, strdup("4711"));   in a task
 *   ...
 *   log(hd_local_get(&request_id));              anywhere below it, on any thread
 *
 * A key is a constant that lives as long as the tasks that use it. A task with no values
 * pays nothing; one with a few looks them up one by one.
 */
#ifndef HEDDLE_LOCAL_H
#define HEDDLE_LOCAL_H

#include <heddle/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_local {
    /* Called with a value that is replaced, or whose task ends, newest first; NULL: nothing
     * is. In the task itself, as its last act, where it may wait; it may set values, which
     * are then ended too, for a few rounds. */
    void (*destroy)(void *value);

    /* What a task spawned by one that has a value starts with: store it in *value and
     * return 0, or return -ENOMEM, and the spawn fails with that. Called in the spawning
     * task. NULL: children start without. */
    int (*inherit)(void *parents, void **value);
} hd_local;

#define HD_LOCAL(destroy, inherit) {(destroy), (inherit)}

/* An `inherit` that gives children the same pointer. */
HD_API int hd_local_share(void *parents, void **value);

/* The running task's value; NULL if it has none, and outside a task.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void *hd_local_get(const hd_local *key);

/* Set the running task's value, ending the one it had; NULL takes it away.
 * Context: fiber or stackless task.  Switches: no, unless `destroy` does.
 * Allocates: at the first values.
 * Returns: 0, -ENOMEM, -EINVAL outside a task. */
HD_API HD_MUST_USE int hd_local_set(const hd_local *key, void *value);

#ifdef __cplusplus
}
#endif
#endif
