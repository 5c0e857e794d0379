/* SPDX-License-Identifier: MIT
 *
 * bank: two tasks pay into one account, and sometimes one of the payments is lost.
 *
 *   heddle explore build/release/examples/bank     finds the schedule
 *   bank --fixed                                   has no such schedule
 *
 * Run by itself it goes well: with one worker nothing comes between a load and a store. That is
 * what makes such bugs last.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <heddle.h>

static bool fixed;
static int balance;

static int deposit(void *arg)
{
    (void)arg;
    if (fixed) {
        hd_atomic_add(&balance, 1);
    } else {
        const int seen = hd_atomic_load(&balance); /* another may deposit here */
        hd_atomic_store(&balance, seen + 1);
    }
    return 0;
}

static int bank(void *arg)
{
    (void)arg;
    balance = 0; /* A schedule begins as if it were the first. */
    HD_NURSERY(customers) {
        hd_go(customers, deposit, NULL);
        hd_go(customers, deposit, NULL);
    }
    hd_assert(balance == 2);
    return hd_nursery_result();
}

int main(int argc, char **argv)
{
    hd_options options = HD_OPTIONS_INIT;
    options.workers = 1;
    fixed = argc > 1 && strcmp(argv[1], "--fixed") == 0;
    if (argc > 1 && !fixed) return printf("usage: %s [--fixed]\n", argv[0]) < 0;
    const int err = hd_run(bank, NULL, &options);
    if (err) {
        fprintf(stderr, "bank: %s\n", strerror(err < 0 ? -err : err));
        return 1;
    }
    puts("the balance is 2");
    return 0;
}
