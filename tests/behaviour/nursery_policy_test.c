/* SPDX-License-Identifier: MIT
 *
 * What an error of a child does, what the error set holds, what the result is, and when a
 * nursery is done: cancel, collect, ignore, ask; all, any, first, quorum.
 */
#include "nurseries.h"

TEST_MAIN

static hd_nursery_options with(hd_on_error on_error, hd_join_policy join)
{
    return (hd_nursery_options){
        .size = sizeof(hd_nursery_options), .on_error = on_error, .join = join};
}

static hd_child_error error_at(hd_nursery *n, unsigned i)
{
    hd_child_error error;
    EXPECT_EQ(hd_nursery_error(n, i, &error), 0);
    return error;
}

static void expect_errors(hd_nursery *n, unsigned kept, const int *errors)
{
    hd_child_error error = {.error = 12345};
    for (unsigned i = 0; i < kept; i++) EXPECT_EQ(error_at(n, i).error, errors[i]);
    EXPECT_EQ(hd_nursery_error(n, kept, &error), -ENOENT);
    EXPECT_EQ(hd_nursery_error(n, ~0u, &error), -ENOENT);
    EXPECT_EQ(error.error, 12345);
}

/* ---- on_error ---- */

FIBER_TEST(cancel_is_the_default_and_the_first_error_wins)
{
    hd_nursery n;
    struct nur_actor a[4];
    nur_open(&n, NULL);
    for (int i = 0; i < 4; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], 0); /* success cancels nobody */
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_end(&n, &a[1], -EIO);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    a[2].doomed = a[3].doomed = true;
    nur_end(&n, &a[2], -ENXIO);
    nur_end(&n, &a[3], -ECANCELED);
    expect_errors(&n, 2, (int[]){-EIO, -ENXIO});
    const hd_nursery_info info = hd_nursery_look(&n);
    EXPECT_EQ(info.succeeded, 1);
    EXPECT_EQ(info.failed, 2);
    EXPECT_EQ(info.cancelled, 1);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    for (int i = 0; i < 4; i++) EXPECT_EQ(a[i].cancelled, i > 1);
    return 0;
}

FIBER_TEST(collect_lets_the_others_go_on)
{
    const hd_nursery_options options = with(HD_ON_ERROR_COLLECT, HD_JOIN_ALL);
    hd_nursery n;
    struct nur_actor a[4];
    nur_open(&n, &options);
    for (int i = 0; i < 4; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -EIO);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    EXPECT(!hd_cancelled());
    nur_end(&n, &a[1], -ENXIO);
    nur_go(&n, nur_nothing, NULL); /* still open */
    nur_let_end(&a[2], 0);
    nur_let_end(&a[3], 0);
    EXPECT_EQ(hd_nursery_wait(&n), -EIO);
    expect_errors(&n, 2, (int[]){-EIO, -ENXIO});
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), -EIO);
    for (int i = 0; i < 4; i++) EXPECT(!a[i].cancelled);
    return 0;
}

FIBER_TEST(ignore_keeps_errors_in_the_set_only)
{
    const hd_nursery_options options = with(HD_ON_ERROR_IGNORE, HD_JOIN_ALL);
    hd_nursery n;
    struct nur_actor a[3];
    nur_open(&n, &options);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -EIO);
    nur_end(&n, &a[1], -ENXIO);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_let_end(&a[2], 0);
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    expect_errors(&n, 2, (int[]){-EIO, -ENXIO});
    EXPECT_EQ(hd_nursery_look(&n).failed, 2);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT(!a[2].cancelled);
    return 0;
}

struct asked {
    int calls;
    hd_on_error answers[4];
    hd_child_error seen[4];
};

static hd_on_error answer(const hd_child_error *error, void *arg)
{
    struct asked *asked = arg;
    asked->seen[asked->calls] = *error;
    return asked->answers[asked->calls++];
}

FIBER_TEST(ask_decides_each_time)
{
    struct asked asked = {
        .answers = {HD_ON_ERROR_IGNORE, HD_ON_ERROR_COLLECT, HD_ON_ERROR_CANCEL},
    };
    hd_nursery_options options = with(HD_ON_ERROR_ASK, HD_JOIN_ALL);
    options.on_error_fn = answer;
    options.on_error_arg = &asked;
    hd_nursery n;
    struct nur_actor a[5];
    nur_open(&n, &options);
    for (int i = 0; i < 4; i++) nur_go_actor(&n, &a[i]);
    nur_actor_init(&a[4]);
    hd_detach(nur_spawn(&n, nur_act, &a[4], "the-last", 0));
    nur_end(&n, &a[0], 5); /* no error: nobody is asked */
    EXPECT_EQ(asked.calls, 0);
    nur_end(&n, &a[1], -EIO);
    nur_end(&n, &a[2], -ENXIO);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    EXPECT_EQ(asked.calls, 2);
    nur_end(&n, &a[4], -EXDEV);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_let_end(&a[3], -ECANCELED); /* no error either */
    EXPECT_EQ(hd_nursery_wait(&n), -ENXIO); /* the first that was not ignored */
    EXPECT_EQ(asked.calls, 3);
    expect_errors(&n, 3, (int[]){-EIO, -ENXIO, -EXDEV});
    EXPECT_EQ(asked.seen[0].error, -EIO);
    EXPECT_EQ(asked.seen[1].task, a[2].id);
    EXPECT(strcmp(asked.seen[2].name, "the-last") == 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ENXIO);
    return 0;
}

/* ---- the error set ---- */

static const hd_site where = {"some/where.c", 4711, "somebody"};

FIBER_TEST(an_error_names_the_child_and_where_it_was_spawned)
{
    hd_nursery n;
    int number = -EIO;
    const hd_nursery_options collect = with(HD_ON_ERROR_COLLECT, HD_JOIN_ALL);
    nur_open(&n, &collect);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.nursery = &n;
    spawn.name = "0123456789012345678901234567890123456789";
    spawn.site = &where;
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, nur_return, &number, &spawn), 0);
    const uint64_t id = hd_task_id(task);
    EXPECT_EQ(rt_join(task), -EIO);
    nur_until_live(&n, 0);
    const int line = __LINE__ + 1;
    EXPECT_EQ(hd_go(&n, nur_return, &number), 0);
    EXPECT_EQ(hd_nursery_wait(&n), -EIO);
    hd_child_error error = error_at(&n, 0);
    EXPECT_EQ(error.task, id);
    EXPECT(strcmp(error.name, "0123456789012345678901234567890") == 0); /* 31 bytes */
    EXPECT(error.site == &where);
    error = error_at(&n, 1);
    EXPECT(error.task != id && error.task != 0);
    EXPECT(strcmp(error.name, "") == 0);
    EXPECT(strstr(error.site->file, "nursery_policy_test.c"));
    EXPECT_EQ(error.site->line, line);
    EXPECT_EQ(hd_nursery_leave(&n), -EIO);
    return 0;
}

static void fail_often(hd_nursery *n, unsigned count)
{
    static int numbers[40];
    for (unsigned i = 0; i < count; i++) {
        numbers[i] = -1000 - (int)i;
        nur_go(n, nur_return, &numbers[i]);
        nur_until_live(n, 0); /* one after the other */
    }
}

FIBER_TEST(at_most_so_many_are_kept_the_first_and_the_others_counted)
{
    static const unsigned maxima[] = {1, 2, 5, 16, 30, 0};
    for (unsigned m = 0; m < 6; m++) {
        hd_nursery_options options = with(HD_ON_ERROR_COLLECT, HD_JOIN_ALL);
        options.errors_max = maxima[m];
        const unsigned kept = maxima[m] ? maxima[m] : 16;
        hd_nursery n;
        nur_open(&n, &options);
        fail_often(&n, 33);
        EXPECT_EQ(hd_nursery_wait(&n), -1000);
        for (unsigned i = 0; i < kept; i++) EXPECT_EQ(error_at(&n, i).error, -1000 - (int)i);
        hd_child_error none;
        EXPECT_EQ(hd_nursery_error(&n, kept, &none), -ENOENT);
        EXPECT_EQ(hd_nursery_look(&n).failed, 33);
        EXPECT_EQ(hd_nursery_leave(&n), -1000);
    }
    return 0;
}

/* ---- errors and cancels ---- */

FIBER_TEST(an_error_beats_a_cancel_that_came_first)
{
    hd_nursery n;
    struct nur_actor a[3];
    nur_open(&n, NULL);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    hd_nursery_cancel(&n);
    nur_end(&n, &a[0], -ECANCELED);
    nur_end(&n, &a[1], -EIO);
    nur_end(&n, &a[2], -ECANCELED);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 2);
    EXPECT_EQ(hd_nursery_look(&n).failed, 1);
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    return 0;
}

FIBER_TEST(an_error_beats_a_cancel_that_came_later)
{
    hd_nursery n;
    struct nur_actor a[3];
    const hd_nursery_options collect = with(HD_ON_ERROR_COLLECT, HD_JOIN_ALL);
    nur_open(&n, &collect);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -EIO);
    hd_nursery_cancel(&n);
    nur_end(&n, &a[1], -ECANCELED);
    nur_end(&n, &a[2], -ECANCELED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    return 0;
}

FIBER_TEST(a_cancel_that_no_child_returned_is_no_error)
{
    hd_nursery n;
    struct nur_actor a[2];
    nur_open(&n, NULL);
    for (int i = 0; i < 2; i++) nur_go_actor(&n, &a[i]);
    hd_nursery_cancel(&n);
    nur_end(&n, &a[0], 0);
    nur_end(&n, &a[1], 7);
    EXPECT_EQ(hd_nursery_look(&n).succeeded, 2);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0);
    EXPECT(a[0].cancelled && a[1].cancelled);
    return 0;
}

/* There was no deadline: it is an error like any other, cancelled or not. */
FIBER_TEST(a_timeout_of_the_child_s_own_is_an_error)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        hd_nursery n;
        struct nur_actor a[2];
        nur_open(&n, NULL);
        for (int i = 0; i < 2; i++) nur_go_actor(&n, &a[i]);
        if (cancelled) hd_nursery_cancel(&n);
        nur_end(&n, &a[0], -ETIMEDOUT);
        EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
        expect_errors(&n, 1, (int[]){-ETIMEDOUT});
        const hd_cause cause = hd_nursery_look(&n).cause;
        EXPECT_EQ(cause.reason, cancelled ? HD_REASON_EXPLICIT : HD_REASON_FAILURE);
        nur_let_end(&a[1], -ECANCELED);
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ETIMEDOUT);
    }
    return 0;
}

/* Whoever told it so: it says that it was cancelled, and that is no failure. */
FIBER_TEST(a_child_that_says_it_was_cancelled_is_believed)
{
    hd_nursery n;
    struct nur_actor a[2];
    nur_open(&n, NULL);
    for (int i = 0; i < 2; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -ECANCELED);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    expect_errors(&n, 0, NULL);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 1);
    nur_let_end(&a[1], 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), -ECANCELED);
    EXPECT(!a[1].cancelled);
    return 0;
}

/* One child alone is cancelled, by its handle: the others do not suffer, yet it is told. */
FIBER_TEST(a_child_cancelled_alone_is_reported_and_cancels_nobody)
{
    hd_nursery n;
    struct nur_actor bystander;
    nur_open(&n, NULL);
    nur_go_actor(&n, &bystander);
    hd_task *task = nur_spawn(&n, nur_park, NULL, NULL, 0);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    nur_until_live(&n, 1);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 1);
    EXPECT_EQ(hd_nursery_look(&n).failed, 0);
    nur_let_end(&bystander, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), -ECANCELED);
    EXPECT(!bystander.cancelled);
    return 0;
}

/* ---- any ---- */

FIBER_TEST(any_ends_with_the_first_success)
{
    const hd_nursery_options any = with(HD_ON_ERROR_CANCEL, HD_JOIN_ANY);
    hd_nursery n;
    struct nur_actor a[4];
    nur_open(&n, &any);
    for (int i = 0; i < 4; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -EIO); /* not yet the end */
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    EXPECT_EQ(hd_nursery_look(&n).winner, 0);
    nur_end(&n, &a[1], 0);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    const uint64_t winner = hd_nursery_look(&n).winner;
    a[2].doomed = a[3].doomed = true;
    nur_end(&n, &a[2], -ECANCELED);
    nur_end(&n, &a[3], 0); /* a second winner changes nothing */
    EXPECT_EQ(hd_nursery_look(&n).winner, winner);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0); /* errors only if none did */
    EXPECT_EQ(winner, a[1].id);
    EXPECT(a[2].cancelled && a[3].cancelled);
    return 0;
}

FIBER_TEST(any_reports_the_first_error_if_none_succeeded)
{
    const hd_nursery_options any = with(HD_ON_ERROR_CANCEL, HD_JOIN_ANY);
    hd_nursery n;
    struct nur_actor a[3];
    nur_open(&n, &any);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    for (int i = 0; i < 3; i++) nur_end(&n, &a[i], -100 - i);
    EXPECT_EQ(hd_nursery_wait(&n), -100);
    EXPECT_EQ(hd_nursery_look(&n).winner, 0);
    expect_errors(&n, 3, (int[]){-100, -101, -102});
    EXPECT_EQ(hd_nursery_leave(&n), -100);
    for (int i = 0; i < 3; i++) EXPECT(!a[i].cancelled);
    return 0;
}

FIBER_TEST(any_of_none_is_no_error)
{
    const hd_nursery_options any = with(HD_ON_ERROR_CANCEL, HD_JOIN_ANY);
    hd_nursery n;
    EXPECT_EQ(nur_leave_as(nur_open(&n, &any), HD_NURSERY_CLOSED), 0);
    return 0;
}

/* ---- first ---- */

FIBER_TEST(first_takes_whatever_comes_first)
{
    const hd_nursery_options first = with(HD_ON_ERROR_CANCEL, HD_JOIN_FIRST);
    static const int outcomes[] = {0, -EIO};
    for (int k = 0; k < 2; k++) {
        hd_nursery n;
        struct nur_actor a[3];
        nur_open(&n, &first);
        for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
        nur_end(&n, &a[1], outcomes[k]);
        EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
        nur_expect_refused(&n, -ECANCELED);
        const uint64_t winner = hd_nursery_look(&n).winner;
        a[0].doomed = a[2].doomed = true;
        nur_end(&n, &a[0], -ENXIO); /* too late to matter */
        nur_end(&n, &a[2], -ECANCELED);
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), outcomes[k]);
        EXPECT_EQ(winner, a[1].id);
        EXPECT(!a[1].cancelled && a[0].cancelled && a[2].cancelled);
    }
    return 0;
}

FIBER_TEST(first_of_one_is_its_outcome)
{
    const hd_nursery_options first = with(HD_ON_ERROR_COLLECT, HD_JOIN_FIRST);
    int number = -EXDEV;
    hd_nursery n;
    nur_open(&n, &first);
    nur_go(&n, nur_return, &number);
    EXPECT_EQ(hd_nursery_leave(&n), -EXDEV);
    return 0;
}

/* ---- quorum ---- */

static hd_nursery_options quorum_of(unsigned quorum)
{
    hd_nursery_options options = with(HD_ON_ERROR_CANCEL, HD_JOIN_QUORUM);
    options.quorum = quorum;
    return options;
}

FIBER_TEST(a_quorum_cancels_the_rest)
{
    const hd_nursery_options options = quorum_of(2);
    hd_nursery n;
    struct nur_actor a[5];
    nur_open(&n, &options);
    for (int i = 0; i < 5; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], 0);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_end(&n, &a[1], -EIO); /* It can still be reached. */
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_end(&n, &a[2], 3);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    a[3].doomed = a[4].doomed = true;
    nur_let_end(&a[3], -ECANCELED);
    nur_let_end(&a[4], -ECANCELED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0);
    EXPECT(a[3].cancelled && a[4].cancelled);
    return 0;
}

/* Whatever failed, more may be spawned while it is open. */
FIBER_TEST(an_open_quorum_can_always_be_reached)
{
    const hd_nursery_options options = quorum_of(2);
    hd_nursery n;
    struct nur_actor a[5];
    nur_open(&n, &options);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    for (int i = 0; i < 3; i++) nur_end(&n, &a[i], -EIO);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    for (int i = 3; i < 5; i++) nur_go_actor(&n, &a[i]);
    for (int i = 3; i < 5; i++) nur_end(&n, &a[i], 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0);
    return 0;
}

FIBER_TEST(an_unreachable_quorum_gives_up_at_once)
{
    const hd_nursery_options options = quorum_of(3);
    hd_nursery n;
    struct nur_actor a[4];
    nur_open(&n, &options);
    for (int i = 0; i < 4; i++) nur_go_actor(&n, &a[i]);
    hd_nursery_close(&n);
    nur_end(&n, &a[0], 0);
    nur_end(&n, &a[1], -EIO);
    EXPECT_STATE(&n, HD_NURSERY_CLOSING); /* Two are left, and two are needed. */
    nur_end(&n, &a[2], -ENXIO);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    a[3].doomed = true;
    nur_let_end(&a[3], 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    EXPECT(a[3].cancelled);
    return 0;
}

FIBER_TEST(closing_a_quorum_that_has_become_unreachable_gives_up)
{
    const hd_nursery_options options = quorum_of(2);
    hd_nursery n;
    struct nur_actor a[2];
    nur_open(&n, &options);
    for (int i = 0; i < 2; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], -EIO);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    hd_nursery_close(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_let_end(&a[1], -ECANCELED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    return 0;
}

/* Nobody failed: there were not enough. */
FIBER_TEST(a_quorum_of_more_than_there_are)
{
    const hd_nursery_options options = quorum_of(3);
    hd_nursery n;
    struct nur_actor a[2];
    EXPECT_EQ(hd_nursery_leave(nur_open(&n, &options)), -ECHILD);
    nur_open(&n, &options);
    for (int i = 0; i < 2; i++) nur_go_actor(&n, &a[i]);
    nur_end(&n, &a[0], 0);
    EXPECT_STATE(&n, HD_NURSERY_OPEN); /* More may come. */
    hd_nursery_close(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_let_end(&a[1], 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECHILD);
    return 0;
}

FIBER_TEST(a_quorum_of_all)
{
    const hd_nursery_options options = quorum_of(3);
    hd_nursery n;
    struct nur_actor a[3];
    nur_open(&n, &options);
    for (int i = 0; i < 3; i++) nur_go_actor(&n, &a[i]);
    hd_nursery_close(&n);
    for (int i = 0; i < 3; i++) {
        EXPECT_STATE(&n, HD_NURSERY_CLOSING);
        nur_end(&n, &a[i], 0);
    }
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(hd_nursery_leave(&n), 0);
    for (int i = 0; i < 3; i++) EXPECT(!a[i].cancelled);
    return 0;
}
