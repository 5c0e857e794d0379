/* SPDX-License-Identifier: MIT
 *
 * What is done with leases: written, in whole or in part, to whatever there is; held, by many or
 * for long; ended by others. What is written arrives, whoever closes and whatever has no room.
 */
#include <ctype.h>
#include <netinet/in.h>
#include <pthread.h>

#include "files.h"
#include "leases.h"

TEST_MAIN

/* ---- proxies ---- */

/* From one pair to the other: what is sent to in[1] comes from out[0]. */
static void carry(hd_io in[2], hd_io out[2], size_t bytes, size_t piece)
{
    struct leases_way way = {in[0], out[1]};
    struct leases_part sent = {in[1], bytes, 0, piece}, expected = {out[0], bytes, 0, 0};
    hd_task *tasks[] = {rt_spawn(NULL, leases_carry, &way),
                        rt_spawn(NULL, leases_take, &expected)};
    EXPECT_EQ(leases_send(&sent), 0);
    EXPECT_EQ(hd_close(in[1]), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(hd_close(in[0]), 0);
    nets_close(out[0], out[1]);
}

static int between_kinds(void *arg)
{
    const size_t pieces[] = {64, 3000, LEASES_LARGE, 70000};
    (void)arg;
    for (int i = 0; i < NETS_KINDS * NETS_KINDS * 4; i++) {
        hd_io in[2], out[2];
        const size_t piece = pieces[i % 4];
        nets_pair((enum nets_kind)(i / 4 % NETS_KINDS), in);
        nets_pair((enum nets_kind)(i / 4 / NETS_KINDS), out);
        carry(in, out, piece * (nets_in_sim() ? 3 : 40), piece);
    }
    return 0;
}

TEST_IO(each_kind_of_stream_to_each, options) { leases_run(between_kinds, NULL, options); }

/* Leases of one worker are written by another, to a connection of a third. */
enum { PROXIES = 12 };

struct proxy {
    hd_io in[2], out[2];
    size_t piece;
    hd_task *task;
};

static int run_proxy(void *arg)
{
    struct proxy *proxy = arg;
    carry(proxy->in, proxy->out, proxy->piece * (nets_in_sim() ? 5 : 100), proxy->piece);
    return 0;
}

static int make_watched(void *arg)
{
    leases_pair(arg, true);
    return 0;
}

static int many_proxies(void *arg)
{
    static struct proxy proxies[PROXIES];
    hd_task *makers[2 * PROXIES];
    (void)arg;
    for (int i = 0; i < PROXIES; i++) { /* each by whatever worker has time */
        makers[2 * i] = rt_spawn(NULL, make_watched, proxies[i].in);
        makers[2 * i + 1] = rt_spawn(NULL, make_watched, proxies[i].out);
    }
    for (int i = 0; i < 2 * PROXIES; i++) EXPECT_EQ(rt_join(makers[i]), 0);
    for (int i = 0; i < PROXIES; i++) {
        proxies[i].piece = i % 3 == 0 ? 64 : i % 3 == 1 ? LEASES_LARGE : 50000;
        proxies[i].task = rt_spawn(NULL, run_proxy, &proxies[i]);
    }
    for (int i = 0; i < PROXIES; i++) EXPECT_EQ(rt_join(proxies[i].task), 0);
    return 0;
}

TEST_IO(proxies_on_several_workers, options)
{
    const hd_options own = rt_workers(options, 4);
    rt_run(many_proxies, NULL, &own);
}

/* Sure to be another: a worker of its own has no connections, and uses another's. */
static int elsewhere(void *arg)
{
    hd_dispatcher *single;
    hd_io in[2], out[2];
    (void)arg;
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    for (size_t i = 0; i < 20; i++) {
        leases_pair(in, i % 2);
        leases_pair(out, i % 2);
        hd_lease lease = leases_one(in[1], in[0], i % 2 ? LEASES_LARGE : 64, i);
        const size_t count = lease.count;
        HD_ON(single) EXPECT_EQ(hd_lease_write(out[1], &lease), 0);
        struct leases_part expected = {.io = out[0], .bytes = count, .at = i};
        EXPECT_EQ(leases_take(&expected), 0);
        nets_close(in[0], in[1]);
        nets_close(out[0], out[1]);
    }
    hd_dispatcher_unref(single);
    return 0;
}

TEST_DRIVERS(another_dispatcher_writes, options) { leases_run(elsewhere, NULL, options); }

/* ---- files ---- */

static int through_a_file(void *arg)
{
    const size_t bytes = 200000;
    hd_io in[2], out[2];
    hd_lease lease = {0};
    (void)arg;
    files_begin();
    leases_pair(in, true);
    leases_pair(out, true);
    hd_io file = files_open(files_path("kept"), O_WRONLY | O_CREAT);
    struct leases_way way = {in[0], file};
    struct leases_part sent = {.io = in[1], .bytes = bytes}, expected = {out[0], bytes, 0, 0};
    hd_task *task = rt_spawn(NULL, leases_carry, &way);
    EXPECT_EQ(leases_send(&sent), 0);
    EXPECT_EQ(hd_close(in[1]), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(hd_close(in[0]), 0);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(files_size(files_path("kept")), bytes);
    file = files_open(files_path("kept"), O_RDONLY);
    task = rt_spawn(NULL, leases_take, &expected);
    way = (struct leases_way){file, out[1]};
    EXPECT_EQ(leases_carry(&way), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(hd_lease_read(file, &lease), 0);
    EXPECT(leases_is_none(&lease));
    EXPECT_EQ(hd_close(file), 0);
    nets_close(out[0], out[1]);
    files_end();
    return 0;
}

TEST_IO(to_a_file_and_from_it, options) { leases_run(through_a_file, NULL, options); }

/* ---- a part of it ---- */

/* Whatever the lease lies in: much or little was received, before or after it was asked for. */
static int narrowed(void *arg)
{
    const size_t sizes[] = {64, 2000, LEASES_LARGE};
    hd_io ends[2], out[2];
    (void)arg;
    for (size_t i = 0; i < 3 * 2; i++) {
        leases_pair(ends, i / 3);
        leases_pair(out, i / 3);
        hd_lease lease = leases_one(ends[1], ends[0], sizes[i % 3], 0);
        const size_t skip = lease.count / 3, part = lease.count / 2;
        lease.bytes += skip; /* behind a header, */
        lease.count = part;  /* and before what follows */
        EXPECT_EQ(hd_lease_write(out[1], &lease), 0);
        EXPECT(leases_is_none(&lease));
        EXPECT_EQ(hd_write_all(out[1], "!", 1, NULL), 0);
        struct leases_part expected = {.io = out[0], .bytes = part, .at = skip};
        char mark = 0;
        EXPECT_EQ(leases_copy(&expected), 0);
        EXPECT_EQ(hd_read_exact(out[0], &mark, 1, NULL), 0);
        EXPECT_EQ(mark, '!');
        nets_close(ends[0], ends[1]);
        nets_close(out[0], out[1]);
    }
    return 0;
}

TEST_IO(a_part_is_written, options) { leases_run(narrowed, NULL, options); }

static int none_of_it(void *arg)
{
    hd_io ends[2];
    (void)arg;
    for (int i = 0; i < 2000; i++) { /* more than there are buffers, if they did not come back */
        if (i % 1000 == 0) leases_pair(ends, i > 0);
        hd_lease lease = leases_one(ends[1], ends[0], 10, 0);
        lease.bytes += lease.count;
        lease.count = 0;
        EXPECT_EQ(hd_lease_write(ends[0], &lease), 0);
        EXPECT(leases_is_none(&lease));
        if (i % 1000 == 999) {
            nets_expect_byte(ends[0], ends[1], 'o'); /* It is the first. */
            nets_close(ends[0], ends[1]);
        }
        if (nets_in_sim() && i % 1000 == 10) i += 988;
    }
    return 0;
}

TEST_IO(none_of_it_is_written, options) { leases_run(none_of_it, NULL, options); }

static int shout(void *arg)
{
    const hd_io *io = arg;
    hd_lease lease = {0};
    while (hd_lease_read(*io, &lease) > 0) {
        for (size_t i = 0; i < lease.count; i++) lease.bytes[i] = (char)toupper(lease.bytes[i]);
        EXPECT_EQ(hd_lease_write(*io, &lease), 0);
    }
    return 0;
}

static int changed(void *arg)
{
    const size_t sizes[] = {10, 3000, 50000};
    hd_io ends[2];
    (void)arg;
    nets_pair(NETS_TCP, ends);
    hd_task *task = rt_spawn(NULL, shout, &ends[0]);
    for (size_t i = 0; i < 12; i++) {
        const size_t bytes = sizes[i % 3];
        char *text = malloc(bytes);
        for (size_t k = 0; k < bytes; k++) text[k] = (char)('a' + (i + k) % 26);
        EXPECT_EQ(hd_write_all(ends[1], text, bytes, NULL), 0);
        EXPECT_EQ(hd_read_exact(ends[1], text, bytes, NULL), 0);
        for (size_t k = 0; k < bytes; k++) EXPECT_EQ(text[k], 'A' + (i + k) % 26);
        free(text);
    }
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    EXPECT_EQ(rt_join(task), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(bytes_are_changed_in_place, options) { leases_run(changed, NULL, options); }

/* ---- no room ---- */

/* Write the next of a stream by leases until there is no room. Returns up to where; the lease that
 * was not written goes on. */
static size_t fill(hd_io from[2], hd_io to, size_t piece, hd_lease *left)
{
    const int64_t quiet_ms = nets_in_sim() ? 5 : nets_full_after_ms_(to);
    for (size_t at = 0;; at += piece) {
        struct leases_part sent = {.io = from[1], .bytes = piece, .at = at};
        EXPECT_EQ(leases_send(&sent), 0);
        for (size_t got = 0; got < piece;) {
            const ssize_t n = hd_lease_read(from[0], left);
            EXPECT(n > 0);
            got += (size_t)n;
            const int err = hd_lease_write_until(to, left, hd_after_ms(quiet_ms));
            if (err == 0) continue;
            EXPECT_EQ(err, -ETIMEDOUT);
            EXPECT(left->count > 0 && left->count <= (size_t)n);
            leases_expect(left->bytes, left->count, at + got - left->count);
            struct leases_part rest = {.io = from[0], .bytes = piece - got, .at = at + got};
            EXPECT_EQ(leases_copy(&rest), 0);
            return at + got - left->count;
        }
    }
}

static int late_then_read(void *arg)
{
    const size_t pieces[] = {500, LEASES_LARGE, HD_LEASE_MAX};
    (void)arg;
    for (size_t i = 0; i < 3; i++) {
        hd_io from[2], out[2];
        hd_lease left = {0};
        leases_pair(from, pieces[i] > 2048);
        leases_pair(out, true); /* Nothing is received from it before it is asked for. */
        const int little = 1 << 13;
        if (!nets_in_sim()) {
            EXPECT_EQ(hd_set_option(out[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
            EXPECT_EQ(hd_set_option(out[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
        }
        const size_t written = fill(from, out[1], pieces[i], &left);
        EXPECT_EQ(hd_lease_write_until(out[1], &left, HD_NOW), -EAGAIN);
        struct leases_part expected = {.io = out[0], .bytes = written + left.count};
        hd_task *reader = rt_spawn(NULL, leases_take, &expected);
        EXPECT_EQ(hd_lease_write(out[1], &left), 0); /* It waits for room. */
        EXPECT_EQ(rt_join(reader), 0);
        nets_close(from[0], from[1]);
        nets_close(out[0], out[1]);
    }
    return 0;
}

TEST_IO(a_write_that_gave_up_goes_on, options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(late_then_read, NULL, &own);
}

struct writing {
    hd_io io;
    hd_lease lease;
    atomic_int begun;
};

static int write_one(void *arg)
{
    struct writing *writing = arg;
    atomic_store(&writing->begun, 1);
    return hd_lease_write(writing->io, &writing->lease);
}

enum early { EARLY_CANCEL, EARLY_CLOSE, EARLY_GONE, EARLIES };

/* A writer that waits is cancelled, or its connection closed, or the reader goes. */
static void end_early(enum early how, hd_io from[2], hd_io out[2])
{
    struct writing writing = {.io = out[1]};
    size_t all = fill(from, out[1], LEASES_LARGE, &writing.lease);
    all += writing.lease.count;
    hd_task *task = rt_spawn(NULL, write_one, &writing);
    rt_until(&writing.begun);
    hd_yield();
    if (how == EARLY_CANCEL) hd_cancel(task);
    else EXPECT_EQ(hd_close(out[how == EARLY_CLOSE]), 0);
    const int err = rt_join(task);
    if (how == EARLY_GONE) EXPECT(err == -ECONNRESET || err == -EPIPE);
    else EXPECT_EQ(err, -ECANCELED);
    EXPECT(writing.lease.count > 0);
    const size_t written = all - writing.lease.count;
    leases_expect(writing.lease.bytes, writing.lease.count, written);
    if (how == EARLY_CANCEL) { /* All but that has arrived, and nothing else. */
        struct leases_part expected = {.io = out[0], .bytes = written};
        EXPECT_EQ(leases_copy(&expected), 0);
        nets_expect_byte(out[1], out[0], '.');
    }
    hd_lease_end(&writing.lease);
}

static int ended_while_writing(void *arg)
{
    (void)arg;
    for (int how = 0; how < EARLIES; how++) {
        hd_io from[2], out[2];
        leases_pair(from, true);
        leases_pair(out, true);
        end_early((enum early)how, from, out);
        (void)hd_close(out[0]); /* Or it was closed. */
        (void)hd_close(out[1]);
        nets_close(from[0], from[1]);
    }
    return 0;
}

TEST_IO(a_write_that_ends_early_keeps_the_rest, options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(ended_while_writing, NULL, &own);
}

/* ---- held ---- */

enum { HELD = 1500, HOLDERS = 30, HELD_SIM = 60 };

struct held {
    hd_lease *leases;
    size_t count, *at;
};

/* Each is what was read, while many are held. */
static void expect_held(const struct held *held)
{
    for (size_t i = 0; i < held->count; i++) {
        leases_expect(held->leases[i].bytes, held->leases[i].count, held->at[i]);
    }
}

/* One message after the other, on each connection in turn. */
static void hold(struct held *held, hd_io (*pairs)[2], size_t count, size_t bytes)
{
    held->leases = calloc(count, sizeof(*held->leases));
    held->at = calloc(count, sizeof(*held->at));
    held->count = count;
    for (size_t i = 0; i < count; i++) {
        hd_io *ends = pairs[i % HOLDERS];
        held->at[i] = i * 7;
        held->leases[i] = leases_one(ends[1], ends[0], bytes, held->at[i]);
    }
}

enum ender { BY_SELF, BY_FIBER, BY_THREAD, ENDERS };

static int end_held(void *arg)
{
    struct held *held = arg;
    for (size_t i = 0; i < held->count; i += 2) hd_lease_end(&held->leases[i]);
    for (size_t i = held->count; i-- > 0;) hd_lease_end(&held->leases[i]); /* the others */
    return 0;
}

static void *end_by_thread(void *arg)
{
    EXPECT_EQ(end_held(arg), 0);
    return NULL;
}

static void end_by(enum ender ender, struct held *held)
{
    pthread_t thread;
    switch (ender) {
    case BY_SELF:
    case ENDERS: EXPECT_EQ(end_held(held), 0); break;
    case BY_FIBER: EXPECT_EQ(rt_join(rt_spawn(NULL, end_held, held)), 0); break;
    case BY_THREAD:
        EXPECT_EQ(pthread_create(&thread, NULL, end_by_thread, held), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        break;
    }
    free(held->leases);
    free(held->at);
}

static int hold_many(void *arg)
{
    const size_t bytes = *(size_t *)arg, count = nets_in_sim() ? HELD_SIM : HELD;
    static hd_io pairs[HOLDERS][2];
    hd_io others[2];
    for (int i = 0; i < HOLDERS; i++) leases_pair(pairs[i], bytes > 2048);
    nets_pair(NETS_TCP, others);
    for (int ender = 0; ender < ENDERS; ender++) {
        struct held held;
        hold(&held, pairs, count, bytes);
        for (size_t i = 0; i < 50; i++) leases_pass(others[1], others[0], i % 5 ? 64 : 5000, i);
        expect_held(&held);
        end_by((enum ender)ender, &held);
        for (int i = 0; i < HOLDERS; i++) leases_pass(pairs[i][1], pairs[i][0], bytes, 0);
    }
    for (int i = 0; i < HOLDERS; i++) nets_close(pairs[i][0], pairs[i][1]);
    nets_close(others[0], others[1]);
    return 0;
}

TEST_IO(many_are_held_while_others_go_on, options)
{
    size_t bytes = 64;
    leases_run(hold_many, &bytes, options);
}

TEST_IO(many_that_are_large_are_held, options)
{
    size_t bytes = 5000;
    leases_run(hold_many, &bytes, options);
}

/* All are written at once, which is more than is left to be sent later. */
static int write_many(void *arg)
{
    const size_t count = nets_in_sim() ? 40 : 400;
    hd_io (*pairs)[2] = calloc(count, sizeof(*pairs));
    hd_lease *leases = calloc(count, sizeof(*leases));
    size_t *counts = calloc(count, sizeof(*counts));
    (void)arg;
    for (size_t i = 0; i < count; i++) leases_pair(pairs[i], i % 2);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++) {
            leases[i] = leases_one(pairs[i][1], pairs[i][0], i % 2 ? 5000 : 64, i);
            counts[i] = leases[i].count;
        }
        for (size_t i = 0; i < count; i++) EXPECT_EQ(hd_lease_write(pairs[i][0], &leases[i]), 0);
        for (size_t i = 0; i < count; i++) {
            struct leases_part part = {.io = pairs[i][1], .bytes = counts[i], .at = i};
            EXPECT_EQ(leases_copy(&part), 0);
        }
    }
    for (size_t i = 0; i < count; i++) nets_close(pairs[i][0], pairs[i][1]);
    free(pairs);
    free(leases);
    free(counts);
    return 0;
}

TEST_IO(many_are_written_at_once, options) { leases_run(write_many, NULL, options); }

/* ---- longer than its connection ---- */

static int outlive(void *arg)
{
    const size_t sizes[] = {64, 2000, LEASES_LARGE};
    hd_io ends[2], next[2], out[2];
    (void)arg;
    for (size_t i = 0; i < 3 * 2; i++) {
        leases_pair(ends, i / 3);
        leases_pair(out, i / 3);
        hd_lease lease = leases_one(ends[1], ends[0], sizes[i % 3], i);
        const size_t count = lease.count;
        nets_close(ends[0], ends[1]);
        leases_pair(next, i / 3); /* in its place, with whatever buffers it can get */
        leases_pass(next[1], next[0], 100000, i + 1);
        leases_expect(lease.bytes, count, i);
        EXPECT_EQ(hd_lease_write(out[1], &lease), 0);
        EXPECT_EQ(hd_close(out[1]), 0);
        struct leases_part expected = {.io = out[0], .bytes = count, .at = i};
        EXPECT_EQ(leases_take(&expected), 0);
        EXPECT_EQ(hd_lease_read(out[0], &lease), 0);
        EXPECT_EQ(hd_close(out[0]), 0);
        nets_close(next[0], next[1]);
    }
    return 0;
}

TEST_IO(a_lease_outlives_its_connection, options) { leases_run(outlive, NULL, options); }
