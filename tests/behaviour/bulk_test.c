/* SPDX-License-Identifier: MIT
 *
 * Connections that carry much at once. A driver may come to treat those otherwise than the rest,
 * and its worker may sleep elsewhere from then on: nobody is to notice, neither they nor what waits
 * for something else.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "files.h"
#include "nets.h"

TEST_MAIN

enum { MESSAGE = 16 << 10, PLENTY = 70000 };

static char pattern(size_t at)
{
    return (char)(at * 11 + at / 253);
}

struct message {
    hd_io io;
    size_t bytes, at;
};

static int send_message(void *arg)
{
    const struct message *message = arg;
    char *bytes = malloc(message->bytes);
    for (size_t i = 0; i < message->bytes; i++) bytes[i] = pattern(message->at + i);
    EXPECT_EQ(hd_write_all(message->io, bytes, message->bytes, NULL), 0);
    free(bytes);
    return 0;
}

static int expect_message(void *arg)
{
    const struct message *message = arg;
    char *bytes = malloc(message->bytes);
    EXPECT_EQ(hd_read_exact(message->io, bytes, message->bytes, NULL), 0);
    for (size_t i = 0; i < message->bytes; i++) EXPECT_EQ(bytes[i], pattern(message->at + i));
    free(bytes);
    return 0;
}

/* A message goes from one end to the other, where somebody waits. */
static void pass(hd_io from, hd_io to, size_t bytes, size_t at)
{
    struct message sent = {from, bytes, at}, expected = {to, bytes, at};
    hd_task *reader = rt_spawn(NULL, expect_message, &expected);
    hd_yield();
    EXPECT_EQ(send_message(&sent), 0);
    EXPECT_EQ(rt_join(reader), 0);
}

/* Both ends have seen, and waited for, much. */
static void bulky_pair(hd_io ends[2])
{
    nets_pair(NETS_TCP, ends);
    for (size_t round = 0; round < 3; round++) {
        pass(ends[0], ends[1], MESSAGE, round);
        pass(ends[1], ends[0], MESSAGE, round);
    }
}

static void run(hd_fn *fn, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(fn, NULL, &own);
}

/* ---- what they carry ---- */

static const size_t sizes[] = {1, 100, 2047, 2048, 2049, 4096, 16384, 3, PLENTY, 1};

static int all_sizes(void *arg)
{
    hd_io ends[2];
    (void)arg;
    nets_pair(NETS_TCP, ends);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        pass(ends[0], ends[1], sizes[i], i);
        pass(ends[1], ends[0], sizes[i], i);
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(messages_of_all_sizes_arrive, options) { run(all_sizes, options); }

/* More than one look of a driver brings. */
enum { MANY = 300 };

static int many(void *arg)
{
    static hd_io pairs[MANY][2];
    static struct message sent[MANY], expected[MANY];
    hd_task *readers[MANY];
    (void)arg;
    for (size_t i = 0; i < MANY; i++) nets_pair(NETS_TCP, pairs[i]);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            const size_t bytes = i % 3 == 0 ? 64 : MESSAGE; /* and some that carry little */
            expected[i] = (struct message){pairs[i][0], bytes, i};
            sent[i] = (struct message){pairs[i][1], bytes, i};
            readers[i] = rt_spawn(NULL, expect_message, &expected[i]);
        }
        hd_yield();
        for (size_t i = 0; i < MANY; i++) EXPECT_EQ(send_message(&sent[i]), 0);
        for (size_t i = 0; i < MANY; i++) EXPECT_EQ(rt_join(readers[i]), 0);
    }
    for (size_t i = 0; i < MANY; i++) nets_close(pairs[i][0], pairs[i][1]);
    return 0;
}

TEST_IO(many_carry_much, options) { run(many, options); }

/* ---- what else there is to wait for ---- */

static void *tell_thread(void *arg)
{
    EXPECT_EQ(hd_chan_send(arg, &(int){7}), 0);
    return NULL;
}

static void expect_thread(void)
{
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    pthread_t thread;
    int got = 0;
    EXPECT(chan != NULL);
    EXPECT_EQ(pthread_create(&thread, NULL, tell_thread, chan), 0);
    EXPECT_EQ(hd_chan_recv(chan, &got), 0);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    hd_chan_destroy(chan);
}

static void expect_file(void)
{
    char text[4] = "";
    files_put(files_path("beside"), "text", 4);
    const hd_io file = files_open(files_path("beside"), O_RDONLY);
    EXPECT_EQ(hd_pread(file, text, 4, 0), 4);
    EXPECT(memcmp(text, "text", 4) == 0);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_close(file), 0);
}

/* While readers of two of them wait. */
static int beside(void *arg)
{
    hd_io bulky[2][2], little[2], pipe[2];
    struct nets_call readers[2];
    (void)arg;
    files_begin();
    for (int i = 0; i < 2; i++) bulky_pair(bulky[i]);
    nets_watched_pair(little);
    nets_pair(NETS_PIPE, pipe);
    for (int i = 0; i < 2; i++) nets_begin(&readers[i], bulky[i][0], nets_do_read);
    for (int round = 0; round < 3; round++) {
        pass(little[1], little[0], 10, 0);
        pass(pipe[1], pipe[0], 10, 0);
        EXPECT_EQ(hd_sleep_ms(1), 0);
        expect_file();
        if (!nets_in_sim()) expect_thread();
        hd_io fresh[2];
        nets_pair(NETS_TCP, fresh); /* A listener, too, is heard of. */
        nets_close(fresh[0], fresh[1]);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(hd_write(bulky[i][1], "x", 1), 1);
        EXPECT_EQ(nets_end(&readers[i]), 1);
        nets_close(bulky[i][0], bulky[i][1]);
    }
    nets_close(little[0], little[1]);
    nets_close(pipe[0], pipe[1]);
    files_end();
    return 0;
}

TEST_IO(other_waits_end_beside_them, options) { run(beside, options); }

/* What a worker is to hear of may be another thread's to tell: here one that asks for more than a
 * ring has room for, while the worker does not look. */
enum { CROWD = 300 };

struct crowd {
    hd_io pairs[CROWD][2];
    hd_task *readers[CROWD];
    atomic_int begun, asked;
};

static int keep_busy(void *arg)
{
    struct crowd *crowd = arg;
    atomic_store(&crowd->begun, 1);
    while (atomic_load(&crowd->asked) < CROWD) sched_yield();
    return 0;
}

struct waiting {
    struct crowd *crowd;
    hd_io io;
};

static int ask(void *arg)
{
    const struct waiting waiting = *(struct waiting *)arg;
    char byte = 0;
    atomic_fetch_add(&waiting.crowd->asked, 1);
    free(arg);
    EXPECT_EQ(hd_read(waiting.io, &byte, 1), 1);
    return byte;
}

static int all_ask(void *arg)
{
    struct crowd *crowd = arg;
    rt_until(&crowd->begun);
    for (int i = 0; i < CROWD; i++) {
        struct waiting *waiting = malloc(sizeof(*waiting));
        *waiting = (struct waiting){crowd, crowd->pairs[i][0]};
        crowd->readers[i] = rt_spawn(NULL, ask, waiting);
    }
    while (atomic_load(&crowd->asked) < CROWD) hd_yield();
    return 0;
}

static int asked_elsewhere(void *arg)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    hd_dispatcher *elsewhere;
    hd_io bulky[2];
    int result;
    (void)arg;
    bulky_pair(bulky);
    for (int i = 0; i < CROWD; i++) nets_pair(NETS_TCP, crowd->pairs[i]);
    EXPECT_EQ(hd_dispatcher_single(&elsewhere, NULL), 0);
    hd_task *busy = rt_spawn(NULL, keep_busy, crowd);
    EXPECT_EQ(hd_on_call(elsewhere, all_ask, crowd, &result), 0);
    EXPECT_EQ(rt_join(busy), 0);
    for (int i = 0; i < CROWD; i++) {
        const char byte = (char)(i % 100);
        EXPECT_EQ(hd_write(crowd->pairs[i][1], &byte, 1), 1);
        EXPECT_EQ(rt_join(crowd->readers[i]), byte);
        nets_close(crowd->pairs[i][0], crowd->pairs[i][1]);
    }
    nets_close(bulky[0], bulky[1]);
    hd_dispatcher_unref(elsewhere);
    free(crowd);
    return 0;
}

TEST_DRIVERS(what_others_asked_for_is_heard, options) { run(asked_elsewhere, options); }

static int chosen(void *arg)
{
    hd_io bulky[2], little[2];
    (void)arg;
    bulky_pair(bulky);
    nets_watched_pair(little);
    for (int round = 0; round < 4; round++) {
        hd_case cases[] = {HD_READABLE(bulky[0]), HD_READABLE(little[0])};
        const int which = round % 2;
        hd_io *from = which == 0 ? bulky : little;
        EXPECT_EQ(hd_select_until(cases, 2, 0, hd_after_ms(1)), -ETIMEDOUT);
        struct message sent = {from[1], which == 0 ? MESSAGE : 5, 0}, expected = sent;
        hd_task *writer = rt_spawn(NULL, send_message, &sent);
        EXPECT_EQ(hd_select(cases, 2), which);
        expected.io = from[0];
        EXPECT_EQ(expect_message(&expected), 0);
        EXPECT_EQ(rt_join(writer), 0);
    }
    nets_close(bulky[0], bulky[1]);
    nets_close(little[0], little[1]);
    return 0;
}

TEST_IO(they_can_be_selected, options) { run(chosen, options); }

/* ---- how they end ---- */

static int given_up(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    bulky_pair(ends);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(1)), -ETIMEDOUT);
    pass(ends[1], ends[0], MESSAGE, 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(a_read_that_gave_up_takes_nothing, options) { run(given_up, options); }

static int closed(void *arg)
{
    hd_io ends[2];
    char byte;
    (void)arg;
    for (int i = 0; i < 3; i++) { /* The next has the descriptor's number. */
        struct nets_call reader;
        bulky_pair(ends);
        nets_begin(&reader, ends[0], nets_do_read);
        EXPECT_EQ(hd_close(ends[0]), 0);
        EXPECT_EQ(nets_end(&reader), -ECANCELED);
        EXPECT_EQ(hd_read(ends[0], &byte, 1), -EBADF);
        EXPECT_EQ(hd_read(ends[1], &byte, 1), 0);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    return 0;
}

TEST_IO(closing_one_wakes_its_reader, options) { run(closed, options); }

static void *close_thread(void *arg)
{
    EXPECT_EQ(hd_close(*(const hd_io *)arg), 0);
    return NULL;
}

static int closed_elsewhere(void *arg)
{
    hd_io ends[2];
    struct nets_call reader;
    pthread_t thread;
    char byte;
    (void)arg;
    bulky_pair(ends);
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(pthread_create(&thread, NULL, close_thread, &ends[0]), 0);
    EXPECT_EQ(nets_end(&reader), -ECANCELED);
    EXPECT_EQ(hd_read(ends[1], &byte, 1), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    return 0;
}

TEST_DRIVERS(another_thread_closes_one, options) { run(closed_elsewhere, options); }

/* Who has the descriptor too hears of what comes later; the driver does not. */
static int closed_but_open(void *arg)
{
    hd_io ends[2], others[2];
    char byte = 0;
    (void)arg;
    bulky_pair(ends);
    const int copy = fcntl(hd_io_fd(ends[0]), F_DUPFD_CLOEXEC, 0);
    EXPECT(copy >= 0);
    EXPECT_EQ(hd_close(ends[0]), 0);
    bulky_pair(others); /* in its slot */
    EXPECT_EQ(hd_write(ends[1], "c", 1), 1);
    EXPECT_EQ(hd_fd_wait(copy, HD_WAIT_READ, HD_FOREVER), HD_WAIT_READ);
    EXPECT_EQ(read(copy, &byte, 1), 1);
    EXPECT_EQ(byte, 'c');
    pass(others[1], others[0], MESSAGE, 0);
    EXPECT_EQ(close(copy), 0);
    EXPECT_EQ(hd_read(ends[1], &byte, 1), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    nets_close(others[0], others[1]);
    return 0;
}

TEST_DRIVERS(a_descriptor_stays_open_for_others, options) { run(closed_but_open, options); }

static int ended(void *arg)
{
    hd_io ends[2];
    struct nets_call reader;
    char byte;
    (void)arg;
    bulky_pair(ends);
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(nets_end(&reader), 0);
    EXPECT_EQ(hd_read(ends[0], &byte, 1), 0); /* for good */
    EXPECT_EQ(hd_close(ends[0]), 0);
    return 0;
}

TEST_IO(the_end_is_told, options) { run(ended, options); }

static int reset(void *arg)
{
    hd_io ends[2];
    struct nets_call reader;
    const struct linger at_once = {1, 0};
    (void)arg;
    bulky_pair(ends);
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_set_option(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(nets_end(&reader), -ECONNRESET);
    EXPECT_EQ(hd_close(ends[0]), 0);
    return 0;
}

TEST_IO(a_reset_is_told, options) { run(reset, options); }

/* A writer waits for room while the other end's reader is slow. */
static int slow_reader(void *arg)
{
    hd_io ends[2];
    (void)arg;
    bulky_pair(ends);
    const size_t before = nets_fill(ends[0]);
    struct nets_call writer;
    nets_begin(&writer, ends[0], nets_do_write);
    for (size_t left = before + 1; left > 0;) {
        static char block[4096];
        const ssize_t n = hd_read(ends[1], block, left < sizeof(block) ? left : sizeof(block));
        EXPECT(n > 0);
        left -= (size_t)n;
    }
    EXPECT_EQ(nets_end(&writer), 1);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(writers_wait_for_room, options) { run(slow_reader, options); }
