/* SPDX-License-Identifier: MIT
 *
 * planted: example servers in sim, on hosts of their own, and the search for a fault planted in
 * one of them.
 *
 * A test includes the example's file, with main() renamed, and with a call that the example makes
 * replaced by one that is faulty while `planted` is true. So the example itself has no trace of
 * it, and the same scenario runs with the fault and without.
 */
#ifndef TEST_PLANTED_H
#define TEST_PLANTED_H

#include <heddle/sim.h>
#include <inttypes.h>

#include "../examples/server.h"
#include "rt.h"

static bool planted;

int example_main(int argc, char **argv); /* what the example's main() is called */

/* ---- a server on a host ---- */

struct hosted {
    const char *place; /* where it listens there */
    struct server *server;
};

/* For hosts to boot, with a struct hosted. */
static inline int hosted_boot(void *arg)
{
    const struct hosted *hosted = arg;
    int err = server_listen(hosted->server, hosted->place);
    if (err) return err;
    err = server_serve(hosted->server);
    server_fini(hosted->server);
    return err;
}

/* Add a host with a server, which is listening on return. */
static inline hd_sim_host *hosted_add(const char *name, struct hosted *hosted)
{
    hd_sim_host *host;
    EXPECT_EQ(hd_sim_host_add(&host, name, NULL, hosted_boot, hosted), 0);
    while (hosted->server->at[0] == '\0') hd_yield();
    return host;
}

/* ---- the search ---- */

struct planted_verdict {
    int result;      /* what the scenario returned; -EDEADLK if it got stuck */
    uint64_t digest;
};

/* Context: the child of planted_run(). */
static inline void planted_report(hd_fn *scenario, uint64_t seed, int out)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    hd_runtime *runtime = rt_create(&options);
    struct planted_verdict verdict = {.result = 0};
    planted = true;
    const int err = hd_join(rt_spawn(runtime, scenario, NULL), &verdict.result);
    if (err) verdict.result = err;
    verdict.digest = hd_runtime_digest(runtime);
    EXPECT_EQ(write(out, &verdict, sizeof(verdict)), sizeof(verdict));
}

/* Run it with the fault, in a process of its own, which is left as the fault left it. */
static inline struct planted_verdict planted_run(hd_fn *scenario, uint64_t seed)
{
    int ends[2], status;
    struct planted_verdict verdict;
    EXPECT_EQ(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        if (!freopen("/dev/null", "w", stderr)) _exit(1); /* It has a lot to complain about. */
        planted_report(scenario, seed, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    const ssize_t got = read(ends[0], &verdict, sizeof(verdict));
    close(ends[0]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(got, sizeof(verdict));
    return verdict;
}

/* One of the first `within` seeds finds the fault, and finds it again. */
static inline void planted_found(hd_fn *scenario, uint64_t within)
{
    for (uint64_t seed = 1; seed <= within; seed++) {
        const struct planted_verdict first = planted_run(scenario, seed);
        if (first.result == 0) continue;
        fprintf(stderr, "# seed %" PRIu64 " finds it: %s\n", seed, strerror(-first.result));
        const struct planted_verdict again = planted_run(scenario, seed);
        EXPECT_EQ(again.result, first.result);
        EXPECT_EQ(again.digest, first.digest);
        return;
    }
    test_fail(__FILE__, __LINE__, "none of %" PRIu64 " seeds finds it", within);
}

#endif
