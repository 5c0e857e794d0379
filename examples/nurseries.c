/* SPDX-License-Identifier: MIT
 *
 * nurseries: no task outlives its block. The first answer wins, a failure stops its siblings, a
 * deadline stops a whole tree, and every task cleans up after itself.
 *
 *   ./nurseries                  on all cores
 *   HEDDLE_SEED=42 ./nurseries   simulated: the same order every time
 */
#include <errno.h>
#include <heddle.h>
#include <stdio.h>
#include <string.h>

struct mirror {
    const char *name;
    int ms;
};

static int ask_mirror(void *arg)
{
    const struct mirror *mirror = arg;
    const int err = hd_sleep_ms(mirror->ms);
    printf("  %-8s %s\n", mirror->name, err ? "was given up" : "answered");
    return err;
}

static void first_answer_wins(void)
{
    static struct mirror mirrors[] = {{"berlin", 40}, {"lyon", 15}, {"malmo", 90}};
    puts("first answer wins:");
    HD_NURSERY(n, .join = HD_JOIN_ANY) {
        for (int i = 0; i < 3; i++) hd_go(n, ask_mirror, &mirrors[i]);
    }
    printf("  result: %d\n", hd_nursery_result());
}

static int fail(void *arg)
{
    (void)arg;
    (void)hd_sleep_ms(10);
    return -EIO;
}

static int tidy_up(void *arg)
{
    (void)arg;
    const int err = hd_sleep_ms(60000);
    const hd_cause cause = hd_self_cause();
    printf("  a sibling stops: %s, which began as %s; tidying up\n", hd_reason_name(cause.reason),
           hd_reason_name(cause.root));
    /* A cancel stays: without the shield this sleep would not happen. */
    HD_SCOPE(s, .shield = HD_SHIELD_SOFT, .grace = hd_after_ms(1000)) (void)hd_sleep_ms(5);
    return err;
}

static void a_failure_stops_the_others(void)
{
    puts("a failure stops the others:");
    HD_NURSERY(n) {
        hd_go(n, tidy_up, NULL);
        hd_go(n, fail, NULL);
    }
    printf("  result: %s\n", strerror(-hd_nursery_result()));
}

static int branch(void *arg)
{
    const int depth = *(const int *)arg;
    int below = depth - 1;
    if (depth == 0) return tidy_up(NULL);
    HD_NURSERY(n) hd_go(n, branch, &below);
    return hd_nursery_result();
}

static void a_deadline_stops_a_tree(void)
{
    int depth = 3;
    puts("a deadline stops a tree:");
    HD_NURSERY(n, .deadline = hd_after_ms(30)) hd_go(n, branch, &depth);
    printf("  result: %s\n", strerror(-hd_nursery_result()));
}

static int app(void *arg)
{
    (void)arg;
    first_answer_wins();
    a_failure_stops_the_others();
    a_deadline_stops_a_tree();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    return hd_run(app, NULL, NULL);
}
