/* SPDX-License-Identifier: MIT
 *
 * Closing against everything else: tasks of all workers read, write and select on a few handles
 * that others replace by new connections all the time, so that slots and descriptors are used again
 * at once. Nobody waits for ever, and nobody reads what was not sent to it. The same with files. By
 * both drivers.
 */
#include "files.h"
#include "nets.h"
#include "stress.h"

TEST_MAIN

enum { PLACES = 4, READERS = 4, DIALS = 300 };

struct party {
    hd_io listener;
    hd_addr addr;
    _Atomic(uint64_t) places[PLACES]; /* handles: valid ones, or closed this moment */
    atomic_uint turn, closed;
    atomic_bool over;
};

static hd_io look_at(struct party *party)
{
    return (hd_io){atomic_load(&party->places[atomic_fetch_add(&party->turn, 1) % PLACES])};
}

static void replace(struct party *party, hd_io by)
{
    const unsigned place = atomic_fetch_add(&party->turn, 1) % PLACES;
    const hd_io old = {atomic_exchange(&party->places[place], by.private_)};
    if (old.private_ == 0) return;
    EXPECT_EQ(hd_close(old), 0); /* Nobody else has it from there. */
    atomic_fetch_add(&party->closed, 1);
}

static int keep_reading(void *arg)
{
    struct party *party = arg;
    char bytes[3000];
    for (size_t ask = 1; !atomic_load(&party->over); ask = ask * 7 % sizeof(bytes) + 1) {
        const ssize_t n = hd_read_until(look_at(party), bytes, ask, hd_after_ms(3));
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(bytes[i], 'x');
        hd_yield();
    }
    return 0;
}

static int keep_writing(void *arg)
{
    struct party *party = arg;
    char bytes[8000];
    memset(bytes, 'x', sizeof(bytes));
    for (size_t ask = 1; !atomic_load(&party->over); ask = ask * 7 % sizeof(bytes) + 1) {
        const ssize_t n = hd_write_until(look_at(party), bytes, ask, hd_after_ms(3));
        EXPECT(n != 0 && n <= (ssize_t)ask);
        hd_yield();
    }
    return 0;
}

static int keep_selecting(void *arg)
{
    struct party *party = arg;
    while (!atomic_load(&party->over)) {
        hd_case cases[] = {HD_READABLE(look_at(party)), HD_WRITABLE(look_at(party)),
                           HD_READABLE(look_at(party))};
        const int which = hd_select_until(cases, 3, 0, hd_after_ms(3));
        EXPECT((which >= 0 && which < 3) || which == -ETIMEDOUT);
        hd_yield();
    }
    return 0;
}

static int keep_accepting(void *arg)
{
    struct party *party = arg;
    hd_io conn;
    int err;
    while ((err = hd_accept(party->listener, &conn, NULL)) == 0) replace(party, conn);
    EXPECT(err == -ECANCELED || err == -EBADF);
    return 0;
}

static int keep_dialing(void *arg)
{
    struct party *party = arg;
    for (int i = 0; i < DIALS; i++) {
        hd_io conn;
        EXPECT_EQ(hd_connect(&conn, &party->addr), 0);
        replace(party, conn);
        if (i % 3 == 0) EXPECT_EQ(hd_sleep_until(hd_after_ms(1)), 0);
    }
    return 0;
}

static int hold_party(void *arg)
{
    struct party party = {.listener = nets_listen()};
    hd_task *others[2 * READERS + 3];
    int count = 0;
    (void)arg;
    party.addr = nets_addr(party.listener);
    for (int i = 0; i < READERS; i++) {
        others[count++] = rt_spawn(NULL, keep_reading, &party);
        others[count++] = rt_spawn(NULL, keep_writing, &party);
    }
    others[count++] = rt_spawn(NULL, keep_selecting, &party);
    others[count++] = rt_spawn(NULL, keep_selecting, &party);
    others[count++] = rt_spawn(NULL, keep_accepting, &party);
    hd_task *dialers[2];
    for (int i = 0; i < 2; i++) dialers[i] = rt_spawn(NULL, keep_dialing, &party);
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(dialers[i]), 0);
    atomic_store(&party.over, true);
    EXPECT_EQ(hd_close(party.listener), 0);
    while (count > 0) EXPECT_EQ(rt_join(others[--count]), 0);
    EXPECT(atomic_load(&party.closed) >= 2 * DIALS - PLACES);
    for (int i = 0; i < PLACES; i++) EXPECT_EQ(hd_close(look_at(&party)), 0);
    return 0;
}

TEST_IO(closes_against_all_else, options)
{
    if (rt_is_sim(options)) return; /* One thread: tests/sim has those races. */
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        hd_options own = *options;
        own.workers = workers;
        rt_run(hold_party, NULL, &own);
    }
}

/* ---- files ---- */

/* Each place has files of one letter, so that a descriptor that is another's by now is found. */
struct shelf {
    _Atomic(uint64_t) places[PLACES];
    atomic_uint turn;
    atomic_bool over;
};

static unsigned next_place(struct shelf *shelf)
{
    return atomic_fetch_add(&shelf->turn, 1) % PLACES;
}

enum { LETTERS = 5000 };

static hd_io open_letters(unsigned place)
{
    char path[FILES_PATH_MAX];
    snprintf(path, sizeof(path), "%s/%u", files_dir, place);
    return files_open(path, O_RDWR | O_CREAT);
}

static bool is_told(ssize_t n)
{
    return n >= 0 || n == -ECANCELED || n == -EBADF || n == -ETIMEDOUT;
}

static int keep_using(void *arg)
{
    struct shelf *shelf = arg;
    char bytes[LETTERS];
    struct stat info;
    for (unsigned i = 0; !atomic_load(&shelf->over); i++) {
        const unsigned place = next_place(shelf);
        const hd_io file = {atomic_load(&shelf->places[place])};
        const int64_t deadline = i % 3 ? HD_FOREVER : hd_now(NULL) + 20000;
        const char letter = (char)('a' + place);
        memset(bytes, letter, sizeof(bytes));
        EXPECT(is_told(hd_pwrite_until(file, bytes, sizeof(bytes), 0, deadline)));
        if (i % 7 == 0) EXPECT(is_told(hd_file_truncate_until(file, LETTERS / 2, deadline)));
        if (i % 5 == 0) EXPECT(is_told(hd_file_sync_until(file, true, deadline)));
        EXPECT(is_told(hd_file_stat_until(file, &info, deadline)));
        memset(bytes, '?', sizeof(bytes));
        const ssize_t n = hd_pread_until(file, bytes, sizeof(bytes), 0, deadline);
        EXPECT(is_told(n));
        /* What is truncated this moment Linux may read as zeros: two in a million, by threads. */
        for (ssize_t at = 0; at < n; at++) EXPECT(bytes[at] == letter || bytes[at] == '\0');
        hd_yield();
    }
    return 0;
}

static int use_files(void *arg)
{
    struct shelf shelf = {.turn = 0};
    hd_task *users[READERS];
    (void)arg;
    files_begin();
    for (unsigned i = 0; i < PLACES; i++) {
        atomic_store(&shelf.places[i], open_letters(i).private_);
    }
    for (int i = 0; i < READERS; i++) users[i] = rt_spawn(NULL, keep_using, &shelf);
    for (unsigned i = 0; i < DIALS; i++) {
        const unsigned place = i % PLACES;
        const hd_io old = {atomic_load(&shelf.places[place])};
        if (i % 3 == 0) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + i * 1000), 0);
        EXPECT_EQ(hd_close(old), 0);
        /* Meanwhile the descriptor is another's, if nobody uses it. */
        EXPECT_EQ(hd_close(open_letters(PLACES)), 0);
        atomic_store(&shelf.places[place], open_letters(place).private_);
    }
    atomic_store(&shelf.over, true);
    for (int i = 0; i < READERS; i++) EXPECT_EQ(rt_join(users[i]), 0);
    for (unsigned i = 0; i < PLACES; i++) {
        EXPECT_EQ(hd_close((hd_io){atomic_load(&shelf.places[i])}), 0);
    }
    files_end();
    return 0;
}

TEST_IO(closes_against_calls_on_files, options)
{
    const unsigned fds = nets_count_fds();
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        hd_options own = *options;
        own.workers = workers;
        own.sampler = NULL; /* A stale handle ends an explored run. */
        rt_run(use_files, NULL, &own);
    }
    EXPECT_EQ(nets_count_fds(), fds);
}

/* ---- a listener's port ---- */

static int accept_none(void *arg)
{
    hd_io conn;
    const int err = hd_accept(*(hd_io *)arg, &conn, NULL);
    EXPECT(err == -ECANCELED || err == -EBADF);
    return 0;
}

static int work_until(void *over)
{
    while (!atomic_load((atomic_bool *)over)) continue;
    return 0;
}

/* One worker has begun to accept, and is busy when the other closes the listener. */
static int listen_again(void *arg)
{
    (void)arg;
    hd_io listener = nets_listen();
    char place[32];
    const hd_addr addr = nets_addr(listener);
    snprintf(place, sizeof(place), "127.0.0.1:%d", (int)hd_addr_port(&addr));
    for (int i = 0; i < 100; i++) {
        atomic_bool over = false;
        hd_io old = listener;
        hd_task *waits = rt_spawn(NULL, accept_none, &old);
        EXPECT_EQ(hd_sleep_until(hd_after_ms(1)), 0);
        hd_task *works = rt_spawn(NULL, work_until, &over);
        EXPECT_EQ(hd_sleep_until(hd_after_ms(1)), 0);
        EXPECT_EQ(hd_close(listener), 0);
        EXPECT_EQ(hd_tcp_listen(&listener, place, NULL), 0);
        atomic_store(&over, true);
        EXPECT_EQ(rt_join(waits), 0);
        EXPECT_EQ(rt_join(works), 0);
    }
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_port_is_free_after_the_close, options)
{
    hd_options own = *options;
    own.workers = 2;
    if (!rt_is_sim(options)) rt_run(listen_again, NULL, &own);
}
