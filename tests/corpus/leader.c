/* SPDX-License-Identifier: MIT
 *
 * leader: a candidate asks the other nodes for their votes, and leads if none of those that answer
 * refuses. Cut off from the others it hears no refusal, and there are two leaders.
 *
 * A split brain; fixed by asking for a majority of all, not of those one can see.
 */
#include "corpus.h"

#define NODES 3
#define PLACES(node) ((const char *[]){"10.9.0.1:7", "10.9.0.2:7", "10.9.0.3:7"}[node])
#define HOSTS(node)  ((const char *[]){"10.9.0.1", "10.9.0.2", "10.9.0.3"}[node])

static struct {
    struct corpus_case how;
    hd_sim_host *hosts[NODES];
    int64_t at; /* the election begins */
    int leaders;
} s;

static void say(hd_io io, unsigned node, char what)
{
    hd_addr addr;
    hd_assert(hd_addr_parse(&addr, PLACES(node)) == 0);
    hd_assert(hd_send_to(io, &what, 1, &addr) == 1);
}

/* Count the votes, and give the own one to who asks first. Returns whether the node leads. */
static bool vote(hd_io io, bool candidate)
{
    bool given = candidate, refused = false;
    int votes = candidate;
    char what;
    hd_addr from;
    while (hd_recv_from_until(io, &what, 1, &from, s.at + 10 * HD_MS_NS) == 1) {
        if (what == 'y') votes++;
        if (what == 'n') refused = true;
        if (what != '?') continue;
        hd_assert(hd_send_to(io, given ? "n" : "y", 1, &from) == 1);
        given = true;
    }
    return candidate && (s.how.fixed ? votes > NODES / 2 : !refused);
}

static int node(void *arg)
{
    const unsigned me = PLACE(arg);
    const bool candidate = me != 1;
    hd_io io;
    hd_assert(hd_udp_open(&io, PLACES(me)) == 0);
    if (candidate) {
        hd_sleep_until(s.at);
        for (unsigned i = 0; i < NODES; i++)
            if (i != me) say(io, i, '?');
    }
    if (vote(io, candidate)) hd_atomic_add(&s.leaders, 1);
    hd_close(io);
    return 0;
}

static int cutter(void *arg)
{
    (void)arg;
    hd_sleep_until(s.at);
    hd_assert(hd_sim_partition(s.hosts[2], NULL) == 0);
    return 0;
}

static int leader(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_task *tasks[NODES + 1];
    s.at = hd_after_ms(1);
    for (unsigned i = 0; i < NODES; i++) {
        const char name[] = {(char)('a' + i), 0};
        hd_assert(hd_sim_host_add(&s.hosts[i], name, HOSTS(i), NULL, NULL) == 0);
        hd_assert(hd_sim_spawn(s.hosts[i], &tasks[i], node, (void *)(uintptr_t)i) == 0);
    }
    tasks[NODES] = GO(cutter, NULL);
    for (unsigned i = 0; i <= NODES; i++) corpus_join(tasks[i]);
    hd_assert(s.leaders <= 1);
    return 0;
}
CORPUS(leader, leader, ASSERT, 0, "two leaders in a network that fell apart")
