/* SPDX-License-Identifier: MIT
 *
 * Connecting by name.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <heddle/sim.h>

#include "rt.h"

TEST_MAIN

static bool in_sim(void)
{
    return hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM;
}

static hd_io listen_at(const char *place)
{
    hd_io listener;
    EXPECT_EQ(hd_tcp_listen(&listener, place, NULL), 0);
    return listener;
}

static const char *place_of(hd_io listener, const char *name, char text[64])
{
    hd_addr addr;
    EXPECT_EQ(hd_local_addr(listener, &addr), 0);
    snprintf(text, 64, "%s:%d", name, hd_addr_port(&addr));
    return text;
}

/* They talk to each other. */
static void expect_connected(hd_io listener, hd_io conn)
{
    hd_io other;
    char byte = 'x';
    EXPECT_EQ(hd_accept(listener, &other, NULL), 0);
    EXPECT_EQ(hd_write_all(conn, "!", 1, NULL), 0);
    EXPECT_EQ(hd_read_exact(other, &byte, 1, NULL), 0);
    EXPECT_EQ(byte, '!');
    EXPECT_EQ(hd_close(other), 0);
}

/* ---- places ---- */

static int by_name(void *arg)
{
    (void)arg;
    static const char *const names[] = {"localhost", "127.0.0.1", ""};
    hd_io listener = listen_at("127.0.0.1:0"), conn;
    char place[64];
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_tcp_connect(&conn, place_of(listener, names[i], place), NULL), 0);
        expect_connected(listener, conn);
        EXPECT_EQ(hd_close(conn), 0);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

/* What "localhost" or this machine has for IPv6 refuses, and the next is tried. */
TEST_IO(names_and_numbers_are_places, options) { rt_run(by_name, NULL, options); }

static int bad_places(void *arg)
{
    (void)arg;
    static const char *const places[] = {
        "", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:-1",
        "localhost:+1", "localhost:8o", "localhost: 80", "localhost:99999999999999999999", ":0",
        ":", "127.0.0.1", "127.0.0.1:0", "[::1]", "[::1", "[::1]:", "[::1]80", "::1:80", "a:b:80",
        "[localhost]:80", "[]:80", "loc[al]host:80", "unix:/tmp/socket", "unix:@name",
    };
    hd_io conn = {0};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const int err = hd_tcp_connect(&conn, places[i], NULL);
        if (err != -EINVAL) fprintf(stderr, "# \"%s\": %d\n", places[i], err);
        EXPECT_EQ(err, -EINVAL);
    }
    EXPECT_EQ(hd_tcp_connect(&conn, NULL, NULL), -EINVAL);
    EXPECT_EQ(conn.private_, 0);
    return 0;
}

TEST_IO(bad_places_are_refused, options) { rt_run(bad_places, NULL, options); }

static int closed_port(void *arg)
{
    (void)arg;
    char place[64];
    hd_io listener = listen_at("127.0.0.1:0"), conn = {0};
    place_of(listener, "localhost", place);
    EXPECT_EQ(hd_close(listener), 0);
    EXPECT_EQ(hd_tcp_connect(&conn, place, NULL), -ECONNREFUSED);
    EXPECT_EQ(conn.private_, 0);
    return 0;
}

TEST_IO(nobody_listens, options) { rt_run(closed_port, NULL, options); }

static int unknown(void *arg)
{
    (void)arg;
    hd_io conn = {0};
    if (in_sim()) EXPECT_EQ(hd_tcp_connect(&conn, "nobody:80", NULL), -ENOENT);
    EXPECT_EQ(conn.private_, 0);
    return 0;
}

TEST_IO(a_name_that_nobody_has, options) { rt_run(unknown, NULL, options); }

static hd_poll connect_poll(void *state, int *result)
{
    (void)state;
    hd_io conn = {0};
    EXPECT_EQ(hd_tcp_connect(&conn, ":80", NULL), -EINVAL);
    EXPECT_EQ(hd_tcp_connect_until(&conn, "name:80", NULL, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_tcp_connect_until(&conn, ":80", NULL, HD_NOW), -EAGAIN);
    EXPECT_EQ(conn.private_, 0);
    *result = 0;
    return HD_READY;
}

TEST_IO(nothing_is_connected_without_waiting, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, connect_poll, NULL, 0)), 0);
    hd_runtime_destroy(runtime);
}

/* ---- options ---- */

static int no_delay(hd_io conn)
{
    int value = -1;
    socklen_t bytes = sizeof(value);
    EXPECT_EQ(hd_get_option(conn, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
    return value != 0;
}

static int with_options(void *arg)
{
    (void)arg;
    char place[64], text[HD_ADDR_TEXT_MAX];
    hd_io listener = listen_at("127.0.0.1:0"), conn;
    hd_addr from;
    place_of(listener, "localhost", place);
    hd_connect_options options = HD_CONNECT_OPTIONS_INIT;
    EXPECT_EQ(hd_tcp_connect(&conn, place, &options), 0);
    EXPECT_EQ(no_delay(conn), 1);
    EXPECT_EQ(hd_close(conn), 0);

    options.delayed = true;
    options.from = "127.0.0.2:0";
    EXPECT_EQ(hd_tcp_connect(&conn, place, &options), 0);
    EXPECT_EQ(no_delay(conn), 0);
    EXPECT_EQ(hd_local_addr(conn, &from), 0);
    EXPECT(strncmp(hd_addr_format(&from, text), "127.0.0.2:", 10) == 0);
    EXPECT_EQ(hd_close(conn), 0);

    options.from = "[::1]:0";
    place_of(listener, "127.0.0.1", place);
    EXPECT_EQ(hd_tcp_connect(&conn, place, &options), -EADDRNOTAVAIL);
    static const char *const bad[] = {"nowhere", "localhost:0", "unix:/tmp/socket"};
    for (int i = 0; i < 3; i++) {
        options.from = bad[i];
        EXPECT_EQ(hd_tcp_connect(&conn, place, &options), -EINVAL);
    }
    options.from = NULL;
    options.attempt_ns = -1;
    EXPECT_EQ(hd_tcp_connect(&conn, place, &options), -EINVAL);
    EXPECT_EQ(hd_tcp_connect(&conn, place, &(hd_connect_options){.delayed = true}), -EINVAL);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(options_are_heeded, options) { rt_run(with_options, NULL, options); }

/* ---- giving up ---- */

static int connect_to(void *place)
{
    hd_io conn;
    const int err = hd_tcp_connect(&conn, place, NULL);
    if (!err) EXPECT_EQ(hd_close(conn), 0);
    return err;
}

static int cancelled(void *arg)
{
    (void)arg;
    char place[64];
    hd_io listener = listen_at("127.0.0.1:0");
    place_of(listener, "localhost", place);
    for (int turns = 0; turns < 10; turns++) {
        hd_task *task = rt_spawn(NULL, connect_to, place);
        for (int i = 0; i < turns; i++) hd_yield();
        hd_cancel(task);
        const int err = rt_join(task);
        EXPECT(err == 0 || err == -ECANCELED);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

static unsigned count_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    EXPECT(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

TEST_IO(a_cancel_leaves_nothing_behind, options)
{
    const unsigned fds = count_fds();
    rt_run(cancelled, NULL, options);
    EXPECT_EQ(count_fds(), fds);
}

TEST_IO(a_thread_may_connect_in_sim, options)
{
    hd_io conn;
    hd_runtime *runtime = rt_create(options);
    const int err = hd_tcp_connect(&conn, "localhost:1", NULL);
    EXPECT_EQ(err, rt_is_sim(options) ? -ECONNREFUSED : -EINVAL);
    hd_runtime_destroy(runtime);
}

/* ---- the race, in sim: hosts "a" and "b" serve, "c" does not; "both" is a and b ---- */

struct race {
    hd_sim_host *self, *a, *b, *c;
    atomic_int listening, accepted, open; /* of a and b together */
};

struct served {
    struct race *race;
    hd_io conn;
};

static int hold_open(void *arg)
{
    struct served *served = arg;
    char byte;
    EXPECT(hd_read(served->conn, &byte, 1) <= 0); /* the end, a reset, or a cancel */
    EXPECT_EQ(hd_close(served->conn), 0);
    atomic_fetch_sub(&served->race->open, 1);
    free(served);
    return 0;
}

static int serve(void *arg)
{
    struct race *race = arg;
    hd_io listener = listen_at(":80"), conn;
    atomic_fetch_add(&race->listening, 1);
    while (hd_accept(listener, &conn, NULL) == 0) {
        struct served *served = malloc(sizeof(*served));
        *served = (struct served){race, conn};
        atomic_fetch_add(&race->accepted, 1);
        atomic_fetch_add(&race->open, 1);
        if (hd_spawn(NULL, hold_open, served) != 0) { /* The runtime ends. */
            (void)hd_close(conn);
            free(served);
        }
    }
    return hd_close(listener);
}

static void race_begin(struct race *race)
{
    memset(race, 0, sizeof(*race));
    race->self = hd_sim_host_self();
    EXPECT_EQ(hd_sim_host_add(&race->a, "a", "10.1.0.1", serve, race), 0);
    EXPECT_EQ(hd_sim_host_add(&race->b, "b", "10.1.0.2", serve, race), 0);
    EXPECT_EQ(hd_sim_host_add(&race->c, "c", "10.1.0.3", NULL, NULL), 0);
    EXPECT_EQ(hd_sim_name("both", "10.1.0.1,10.1.0.2"), 0);
    EXPECT_EQ(hd_sim_name("c-or-b", "10.1.0.3,10.1.0.2"), 0);
    EXPECT_EQ(hd_sim_name_fault(NULL, -EAGAIN, 0, 1), 0); /* at once, so that times are known */
    while (atomic_load(&race->listening) < 2) hd_yield();
}

static void set_latency(struct race *race, hd_sim_host *to, int64_t ms)
{
    hd_sim_link_options options = HD_SIM_LINK_OPTIONS_INIT;
    options.latency_ns = ms * HD_MS_NS;
    EXPECT_EQ(hd_sim_link(race->self, to, &options), 0);
    EXPECT_EQ(hd_sim_link(to, race->self, &options), 0);
}

/* Connects, expects who answered, or an error, and returns how long it took, in ms. */
static int64_t timed(const char *place, const hd_connect_options *options, int64_t deadline,
                     const char *peer, int expected)
{
    hd_io conn = {0};
    hd_addr addr;
    char text[HD_ADDR_TEXT_MAX];
    const int64_t began = hd_now(NULL);
    EXPECT_EQ(hd_tcp_connect_until(&conn, place, options, deadline), expected);
    const int64_t took = hd_now(NULL) - began;
    if (expected) {
        EXPECT_EQ(conn.private_, 0);
    } else {
        EXPECT_EQ(hd_peer_addr(conn, &addr), 0);
        EXPECT(strcmp(hd_addr_format(&addr, text), peer) == 0);
        EXPECT_EQ(hd_close(conn), 0);
    }
    return took / HD_MS_NS;
}

/* Whatever was connected is closed, and its other side knows. */
static void race_end(struct race *race)
{
    EXPECT_EQ(hd_sim_heal(NULL, NULL), 0);
    EXPECT_EQ(hd_sleep_ms(200 * 1000), 0); /* virtual */
    EXPECT_EQ(atomic_load(&race->open), 0);
}

#define RACE(name)                                                                       \
    static void race_##name(struct race *race);                                          \
    static int run_##name(void *arg)                                                     \
    {                                                                                    \
        struct race *race = arg;                                                         \
        race_begin(race);                                                                \
        race_##name(race);                                                               \
        race_end(race);                                                                  \
        return 0;                                                                        \
    }                                                                                    \
    TEST_IO(name, options)                                                               \
    {                                                                                    \
        struct race race;                                                                \
        if (rt_is_sim(options)) rt_run(run_##name, &race, options);                      \
    }                                                                                    \
    static void race_##name(struct race *race)

RACE(the_first_is_it_if_it_answers)
{
    (void)race;
    EXPECT(timed("both:80", NULL, HD_FOREVER, "10.1.0.1:80", 0) < 100);
    EXPECT_EQ(atomic_load(&race->accepted), 1);
}

RACE(the_second_begins_when_the_first_is_silent)
{
    hd_connect_options options = HD_CONNECT_OPTIONS_INIT;
    EXPECT_EQ(hd_sim_partition(race->self, race->a), 0);
    int64_t took = timed("both:80", NULL, HD_FOREVER, "10.1.0.2:80", 0);
    EXPECT(took >= 250 && took < 300);
    options.attempt_ns = 40 * HD_MS_NS;
    took = timed("both:80", &options, HD_FOREVER, "10.1.0.2:80", 0);
    EXPECT(took >= 40 && took < 90);
}

RACE(the_second_begins_at_once_when_the_first_refuses)
{
    (void)race;
    EXPECT(timed("c-or-b:80", NULL, HD_FOREVER, "10.1.0.2:80", 0) < 50);
}

RACE(the_faster_wins_though_it_began_later)
{
    set_latency(race, race->a, 1000);
    const int64_t took = timed("both:80", NULL, HD_FOREVER, "10.1.0.2:80", 0);
    EXPECT(took >= 250 && took < 300);
}

/* About at the same time: whoever is second is closed. */
RACE(only_one_wins)
{
    hd_connect_options options = HD_CONNECT_OPTIONS_INIT;
    options.attempt_ns = 1000;
    for (int i = 0; i < 20; i++) {
        hd_io conn;
        EXPECT_EQ(hd_tcp_connect(&conn, "both:80", &options), 0);
        EXPECT_EQ(hd_sleep_ms(100 * 1000), 0);
        EXPECT_EQ(atomic_load(&race->open), 1);
        EXPECT_EQ(hd_close(conn), 0);
        EXPECT_EQ(hd_sleep_ms(100 * 1000), 0);
        EXPECT_EQ(atomic_load(&race->open), 0);
        options.attempt_ns += 30 * 1000;
    }
}

RACE(a_deadline_ends_it)
{
    EXPECT_EQ(hd_sim_partition(race->self, NULL), 0);
    for (int64_t ms = 100; ms < 1000; ms += 300) { /* before and after the second begins */
        const int64_t took = timed("both:80", NULL, hd_after_ms(ms), NULL, -ETIMEDOUT);
        EXPECT(took >= ms && took < ms + 10);
        HD_SCOPE(s, .deadline = hd_after_ms(ms)) {
            const int64_t in_scope = timed("both:80", NULL, HD_FOREVER, NULL, -ETIMEDOUT);
            EXPECT(in_scope >= ms && in_scope < ms + 10);
        }
    }
}

RACE(when_all_fail_the_last_is_told)
{
    EXPECT_EQ(hd_sim_patience(HD_SECOND_NS, 0), 0);
    EXPECT_EQ(hd_sim_partition(race->self, race->a), 0);
    EXPECT_EQ(hd_sim_name("a-or-c", "10.1.0.1,10.1.0.3"), 0);
    EXPECT_EQ(hd_sim_name("c-or-a", "10.1.0.3,10.1.0.1"), 0);
    int64_t took = timed("a-or-c:80", NULL, HD_FOREVER, NULL, -ECONNREFUSED);
    EXPECT(took >= 900);
    took = timed("c-or-a:80", NULL, HD_FOREVER, NULL, -ETIMEDOUT);
    EXPECT(took >= 900);
}

RACE(a_cancel_ends_all_attempts)
{
    set_latency(race, race->a, 100);
    set_latency(race, race->b, 100);
    char place[] = "both:80";
    for (int64_t ms = 0; ms < 500; ms += 50) {
        hd_task *task = rt_spawn(NULL, connect_to, place);
        EXPECT_EQ(hd_sleep_ms(ms), 0);
        hd_cancel(task);
        const int64_t asked = hd_now(NULL);
        const int err = rt_join(task);
        EXPECT(err == 0 || err == -ECANCELED);
        EXPECT(err == 0 || ms <= 250);
        EXPECT(hd_now(NULL) - asked < 10 * HD_MS_NS);
    }
}
