/* SPDX-License-Identifier: MIT
 *
 * Reader-writer locks.
 */
#include "locks.h"

#include "death.h"

TEST_MAIN

static int read_lock(void *rwlock, int64_t deadline)
{
    return hd_rwlock_read_lock_until(rwlock, deadline);
}

static int write_lock(void *rwlock, int64_t deadline)
{
    return hd_rwlock_write_lock_until(rwlock, deadline);
}

static int write_and_unlock(void *rwlock, int64_t deadline)
{
    const int err = hd_rwlock_write_lock_until(rwlock, deadline);
    if (!err) hd_rwlock_write_unlock(rwlock);
    return err;
}

static void read_unlock(void *rwlock)
{
    hd_rwlock_read_unlock(rwlock);
}

static void write_unlock(void *rwlock)
{
    hd_rwlock_write_unlock(rwlock);
}

TEST(readers_together_a_writer_alone)
{
    hd_rwlock rwlock;
    memset(&rwlock, 0xff, sizeof(rwlock));
    hd_rwlock_init(&rwlock);
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    EXPECT_EQ(hd_rwlock_read_lock_try(&rwlock), 0);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), -EAGAIN);
    EXPECT_EQ(hd_rwlock_write_lock_until(&rwlock, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_rwlock_read_lock_try(&rwlock), 0); /* Nobody waits to write any more. */
    for (int i = 0; i < 3; i++) hd_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(hd_rwlock_write_lock(&rwlock), 0);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), -EDEADLK);
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), -EDEADLK);
    hd_rwlock_write_unlock(&rwlock);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), 0);
    hd_rwlock_write_unlock(&rwlock);
    hd_rwlock_fini(&rwlock);
}

/* A look that fails must not keep others out. */
TEST(a_look_leaves_nothing_behind)
{
    hd_rwlock rwlock = {0};
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    hd_case c = HD_WRITE_LOCK(&rwlock);
    EXPECT_EQ(hd_select_until(&c, 1, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), -EAGAIN);
    EXPECT_EQ(hd_rwlock_read_lock_try(&rwlock), 0);
    hd_rwlock_read_unlock(&rwlock);
    hd_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), 0);
    hd_rwlock_write_unlock(&rwlock);
    hd_rwlock_fini(&rwlock);
}

/* ---- phases ---- */

static int phases(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    struct locks_call writer, reader;
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    locks_begin(&writer, write_and_unlock, &rwlock, HD_FOREVER);
    locks_begin(&reader, read_lock, &rwlock, HD_FOREVER);
    EXPECT_WAITS(&writer);
    EXPECT_WAITS(&reader);
    EXPECT_EQ(hd_rwlock_read_lock_try(&rwlock), -EAGAIN);
    hd_rwlock_read_unlock(&rwlock);
    EXPECT_ENDED(&writer, 0);
    EXPECT_ENDED(&reader, 0);
    hd_rwlock_read_unlock(&rwlock); /* Reading belongs to nobody in particular. */
    hd_rwlock_fini(&rwlock);
    return 0;
}

TEST_WORLDS(a_waiting_writer_comes_before_later_readers, options) { locks_run(phases, options, 1); }

struct turns {
    hd_rwlock rwlock;
    char log[16];
    int length;
};

static void note(struct turns *t, char who)
{
    t->log[t->length++] = who;
}

static int read_turn(void *arg, int64_t deadline)
{
    struct turns *t = arg;
    EXPECT_EQ(hd_rwlock_read_lock_until(&t->rwlock, deadline), 0);
    note(t, 'r');
    hd_yield();
    hd_rwlock_read_unlock(&t->rwlock);
    return 0;
}

static int write_turn(void *arg, int64_t deadline)
{
    struct turns *t = arg;
    EXPECT_EQ(hd_rwlock_write_lock_until(&t->rwlock, deadline), 0);
    note(t, 'W');
    hd_yield();
    hd_rwlock_write_unlock(&t->rwlock);
    return 0;
}

/* Writers and readers by turns; all readers that wait go together. */
static int take_turns(void *arg)
{
    (void)arg;
    struct turns t = {.length = 0};
    struct locks_call calls[6];
    EXPECT_EQ(hd_rwlock_write_lock(&t.rwlock), 0);
    locks_begin(&calls[0], write_turn, &t, HD_FOREVER);
    locks_begin(&calls[1], read_turn, &t, HD_FOREVER);
    locks_begin(&calls[2], write_turn, &t, HD_FOREVER);
    locks_begin(&calls[3], read_turn, &t, HD_FOREVER);
    locks_begin(&calls[4], write_turn, &t, HD_FOREVER);
    locks_begin(&calls[5], read_turn, &t, HD_FOREVER);
    hd_rwlock_write_unlock(&t.rwlock);
    for (int i = 0; i < 6; i++) EXPECT_ENDED(&calls[i], 0);
    EXPECT(strcmp(t.log, "rrrWWW") == 0);
    hd_rwlock_fini(&t.rwlock);
    return 0;
}

TEST_WORLDS(readers_that_wait_go_together, options) { locks_run(take_turns, options, 1); }

/* ---- giving up ---- */

static int give_up(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    struct locks_call writer, late, reader;
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    locks_begin(&writer, write_lock, &rwlock, HD_FOREVER);
    locks_begin(&late, write_lock, &rwlock, hd_after_ms(5));
    locks_begin(&reader, read_lock, &rwlock, HD_FOREVER);
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    EXPECT_WAITS(&reader);
    hd_cancel(writer.task);
    EXPECT_ENDED(&writer, -ECANCELED);
    EXPECT_ENDED(&reader, 0); /* Nothing keeps it from reading together with us. */
    hd_rwlock_read_unlock(&rwlock);
    hd_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), 0);
    locks_begin(&reader, read_lock, &rwlock, HD_FOREVER);
    EXPECT_WAITS(&reader);
    hd_cancel(reader.task);
    EXPECT_ENDED(&reader, -ECANCELED);
    hd_rwlock_write_unlock(&rwlock);
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), 0);
    hd_rwlock_write_unlock(&rwlock);
    hd_rwlock_fini(&rwlock);
    return 0;
}

TEST_WORLDS(who_gives_up_has_no_effect, options) { locks_run(give_up, options, 1); }

/* ---- stackless tasks ---- */

static int stackless(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    EXPECT_EQ(hd_rwlock_write_lock(&rwlock), 0);
    hd_task *late = locks_poll(NULL, (hd_case)HD_READ_LOCK(&rwlock), hd_after_ms(5), NULL);
    hd_task *readers[] = {
        locks_poll_careless(NULL, (hd_case)HD_READ_LOCK(&rwlock)),
        locks_poll(NULL, (hd_case)HD_READ_LOCK(&rwlock), HD_FOREVER, read_unlock),
    };
    hd_task *writers[] = {
        locks_poll_careless(NULL, (hd_case)HD_WRITE_LOCK(&rwlock)),
        locks_poll(NULL, (hd_case)HD_WRITE_LOCK(&rwlock), HD_FOREVER, write_unlock),
    };
    locks_settle(); /* All have queued, however long that took. */
    EXPECT_EQ(rt_join(late), -ETIMEDOUT);
    hd_rwlock_write_unlock(&rwlock);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(rt_join(readers[i]), 1 - i);
        EXPECT_EQ(rt_join(writers[i]), 1 - i);
    }
    EXPECT_EQ(hd_rwlock_write_lock_try(&rwlock), 0);
    hd_rwlock_write_unlock(&rwlock);
    hd_rwlock_fini(&rwlock);
    return 0;
}

TEST_WORLDS(stackless_tasks_lock_by_select, options) { locks_run(stackless, options, 1); }

/* ---- many ---- */

enum { FIBERS = 8, ROUNDS = 60 };

struct book {
    hd_rwlock rwlock;
    atomic_int readers, most;
    int pages[2]; /* equal, except while somebody writes */
};

static int use_book(void *arg)
{
    struct book *b = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0) {
            EXPECT_EQ(hd_rwlock_write_lock(&b->rwlock), 0);
            b->pages[0]++;
            hd_yield();
            b->pages[1]++;
            hd_rwlock_write_unlock(&b->rwlock);
        } else {
            EXPECT_EQ(hd_rwlock_read_lock(&b->rwlock), 0);
            const int now = atomic_fetch_add(&b->readers, 1) + 1;
            if (now > atomic_load(&b->most)) atomic_store(&b->most, now);
            EXPECT_EQ(b->pages[0], b->pages[1]);
            hd_yield();
            atomic_fetch_sub(&b->readers, 1);
            hd_rwlock_read_unlock(&b->rwlock);
        }
    }
    return 0;
}

TEST_WORLDS(what_is_written_is_read_whole, options)
{
    struct book b = {.readers = 0};
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(runtime, use_book, &b);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(b.pages[0], FIBERS * ROUNDS / 4);
    EXPECT(b.most > 1);
    hd_rwlock_fini(&b.rwlock);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static void read_unlock_free(void *arg)
{
    (void)arg;
    hd_rwlock_read_unlock(&(hd_rwlock){{0}});
}

static void write_unlock_read(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    hd_rwlock_write_unlock(&rwlock);
}

static void read_unlock_written(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    EXPECT_EQ(hd_rwlock_write_lock(&rwlock), 0);
    hd_rwlock_read_unlock(&rwlock);
}

static void end_held(void *arg)
{
    (void)arg;
    hd_rwlock rwlock = {0};
    EXPECT_EQ(hd_rwlock_read_lock(&rwlock), 0);
    hd_rwlock_fini(&rwlock);
}

TEST(misuse_is_told)
{
    expect_abort(read_unlock_free, NULL, "unlocked for reading that nobody reads");
    expect_abort(read_unlock_written, NULL, "unlocked for reading that nobody reads");
    expect_abort(write_unlock_read, NULL, "unlocked for writing by one who does not write");
    expect_abort(end_held, NULL, "a reader-writer lock ends while it is held");
}
