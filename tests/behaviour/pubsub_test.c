/* SPDX-License-Identifier: MIT
 *
 * Oneshot, broadcast and watch: who gets which value, and how they end.
 */
#include "rt.h"

#include "death.h"

TEST_MAIN

/* ---- oneshot ---- */

struct answer {
    hd_oneshot oneshot;
    atomic_int waits;
    int err, value;
};

static int await_answer(void *arg)
{
    struct answer *answer = arg;
    atomic_store(&answer->waits, 1);
    answer->err = hd_oneshot_recv(&answer->oneshot, &answer->value);
    return 0;
}

static void init(hd_oneshot *oneshot)
{
    EXPECT_EQ(hd_oneshot_init(oneshot, sizeof(int), NULL), 0);
}

static hd_task *spawn_waiting(struct answer *answer)
{
    init(&answer->oneshot);
    atomic_store(&answer->waits, 0);
    answer->value = -1;
    hd_task *task = rt_spawn(NULL, await_answer, answer);
    rt_until(&answer->waits);
    return task;
}

static int answer_in_all_orders(void *arg)
{
    (void)arg;
    struct answer answer;
    hd_task *task = spawn_waiting(&answer); /* waits, then is sent */
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){5}), 0);
    rt_join(task);
    EXPECT_EQ(answer.err, 0);
    EXPECT_EQ(answer.value, 5);

    init(&answer.oneshot); /* sent, then received */
    EXPECT_EQ(hd_oneshot_recv_try(&answer.oneshot, &answer.value), -EAGAIN);
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){6}), 0);
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){7}), -EINVAL);
    EXPECT_EQ(hd_oneshot_recv(&answer.oneshot, &answer.value), 0);
    EXPECT_EQ(answer.value, 6);
    EXPECT_EQ(hd_oneshot_recv(&answer.oneshot, &answer.value), -EPIPE);

    task = spawn_waiting(&answer); /* waits, then the sender gives up */
    EXPECT_EQ(hd_oneshot_close(&answer.oneshot), 0);
    rt_join(task);
    EXPECT_EQ(answer.err, -EPIPE);
    EXPECT_EQ(answer.value, -1);

    init(&answer.oneshot); /* the receiver gives up first */
    EXPECT_EQ(hd_oneshot_close(&answer.oneshot), 0);
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){8}), -EPIPE);
    EXPECT_EQ(hd_oneshot_close(&answer.oneshot), -EPIPE);
    EXPECT_EQ(hd_oneshot_recv_try(&answer.oneshot, &answer.value), -EPIPE);

    init(&answer.oneshot); /* the receiver gives up, but the value was there */
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){9}), 0);
    EXPECT_EQ(hd_oneshot_close(&answer.oneshot), -EPIPE);
    EXPECT_EQ(hd_oneshot_recv_try(&answer.oneshot, &answer.value), 0);
    EXPECT_EQ(answer.value, 9);
    return 0;
}

TEST_WORLDS(a_oneshot_brings_one_value, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(answer_in_all_orders, NULL, &one);
}

static int give_up_waiting(void *arg)
{
    (void)arg;
    struct answer answer;
    hd_task *task = spawn_waiting(&answer);
    hd_cancel(task);
    rt_join(task);
    EXPECT_EQ(answer.err, -ECANCELED);
    EXPECT_EQ(answer.value, -1);
    EXPECT_EQ(hd_oneshot_recv_until(&answer.oneshot, &answer.value, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){4}), 0); /* It may still come. */
    EXPECT_EQ(hd_oneshot_recv_until(&answer.oneshot, &answer.value, 1), 0);
    EXPECT_EQ(answer.value, 4);

    task = spawn_waiting(&answer); /* done, and then cancelled: done */
    EXPECT_EQ(hd_oneshot_send(&answer.oneshot, &(int){3}), 0);
    hd_cancel(task);
    rt_join(task);
    EXPECT_EQ(answer.err, 0);
    EXPECT_EQ(answer.value, 3);
    return 0;
}

TEST_WORLDS(a_oneshot_can_be_given_up, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(give_up_waiting, NULL, &one);
}

struct large {
    char text[100];
};

static int send_large(void *arg)
{
    struct large large = {"far more than sixteen bytes of text"};
    return hd_oneshot_send(arg, &large);
}

static int receive_large(void *arg)
{
    (void)arg;
    hd_oneshot oneshot;
    struct large storage, got;
    EXPECT_EQ(hd_oneshot_init(&oneshot, sizeof(got), NULL), -EINVAL);
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(hd_oneshot_init(&oneshot, sizeof(got), &storage), 0);
        hd_task *task = rt_spawn(NULL, send_large, &oneshot);
        if (i % 2) rt_join(task);
        memset(&got, 0, sizeof(got));
        EXPECT_EQ(hd_oneshot_recv(&oneshot, &got), 0);
        EXPECT(strcmp(got.text, "far more than sixteen bytes of text") == 0);
        if (i % 2 == 0) rt_join(task);
    }
    return 0;
}

TEST_WORLDS(a_large_value_has_its_storage, options)
{
    rt_run(receive_large, NULL, options);
}

/* The receiver's stack frame is gone as soon as it has the value. */
struct question {
    hd_oneshot *reply;
    int number;
};

static int answer_questions(void *arg)
{
    struct question question;
    while (hd_chan_recv(arg, &question) == 0) {
        const int answer = question.number * 2;
        if (question.number % 7 == 0) {
            (void)hd_oneshot_close(question.reply);
        } else {
            EXPECT_EQ(hd_oneshot_send(question.reply, &answer), 0);
        }
    }
    return 0;
}

static __attribute__((noinline)) int ask(hd_chan *questions, int number)
{
    hd_oneshot reply;
    init(&reply);
    const struct question question = {&reply, number};
    EXPECT_EQ(hd_chan_send(questions, &question), 0);
    int answer = -1;
    const int err = hd_oneshot_recv(&reply, &answer);
    memset(&reply, 0xff, sizeof(reply));
    EXPECT_EQ(err, number % 7 ? 0 : -EPIPE);
    return answer;
}

static int ask_questions(void *arg)
{
    (void)arg;
    hd_chan *questions = hd_chan_create(sizeof(struct question), 4);
    EXPECT(questions != NULL);
    hd_task *task = rt_spawn(NULL, answer_questions, questions);
    for (int i = 0; i < 500; i++) EXPECT_EQ(ask(questions, i), i % 7 ? i * 2 : -1);
    EXPECT_EQ(hd_chan_close(questions), 0);
    rt_join(task);
    hd_chan_destroy(questions);
    return 0;
}

TEST_WORLDS(a_oneshot_may_lie_on_the_receivers_stack, options)
{
    rt_run(ask_questions, NULL, options);
}

/* ---- broadcast ---- */

enum { VALUES = 200, LISTENERS = 5 };

struct listener {
    hd_broadcast_receiver receiver;
    int64_t received, lost;
    int last;
};

/* Every value is received or counted as lost. */
static int listen_to_end(void *arg)
{
    struct listener *listener = arg;
    int v, err;
    while ((err = hd_broadcast_recv(&listener->receiver, &v)) != -EPIPE) {
        if (err == -EOVERFLOW) {
            EXPECT(hd_broadcast_lost(&listener->receiver) > 0);
            listener->lost += (int64_t)hd_broadcast_lost(&listener->receiver);
            continue;
        }
        EXPECT_EQ(err, 0);
        EXPECT(v > listener->last);
        listener->last = v;
        listener->received++;
        EXPECT_EQ(v, listener->received + listener->lost - 1);
    }
    hd_broadcast_unsubscribe(&listener->receiver);
    return 0;
}

static int broadcast_to_all(void *arg)
{
    (void)arg;
    for (size_t capacity = 1; capacity <= 256; capacity *= 4) {
        hd_broadcast *cast = hd_broadcast_create(sizeof(int), capacity);
        EXPECT(cast != NULL);
        EXPECT_EQ(hd_broadcast_send(cast, &(int){-1}), 0); /* Nobody is there yet. */
        struct listener listeners[LISTENERS];
        hd_task *tasks[LISTENERS];
        for (int i = 0; i < LISTENERS; i++) {
            listeners[i] = (struct listener){.last = -1};
            EXPECT_EQ(hd_broadcast_subscribe(cast, &listeners[i].receiver), 0);
            tasks[i] = rt_spawn(NULL, listen_to_end, &listeners[i]);
        }
        for (int i = 0; i < VALUES; i++) {
            EXPECT_EQ(hd_broadcast_send(cast, &i), LISTENERS);
            if (i % 3 == 0) hd_yield();
        }
        EXPECT_EQ(hd_broadcast_close(cast), 0);
        EXPECT_EQ(hd_broadcast_close(cast), -EPIPE);
        EXPECT_EQ(hd_broadcast_send(cast, &(int){0}), -EPIPE);
        for (int i = 0; i < LISTENERS; i++) {
            rt_join(tasks[i]);
            EXPECT_EQ(listeners[i].last, VALUES - 1);
            EXPECT_EQ(listeners[i].received + listeners[i].lost, VALUES);
            if (capacity == 256) EXPECT_EQ(listeners[i].lost, 0);
        }
        hd_broadcast_receiver late;
        EXPECT_EQ(hd_broadcast_subscribe(cast, &late), -EPIPE);
        hd_broadcast_destroy(cast);
    }
    return 0;
}

TEST_WORLDS(everybody_gets_every_value_or_knows_what_was_lost, options)
{
    rt_run(broadcast_to_all, NULL, options);
}

TEST(who_lags_goes_on_with_the_oldest_kept)
{
    hd_broadcast *cast = hd_broadcast_create(sizeof(int), 3); /* not a power of two */
    EXPECT(cast != NULL);
    hd_broadcast_receiver receiver;
    EXPECT_EQ(hd_broadcast_subscribe(cast, &receiver), 0);
    EXPECT_EQ(hd_broadcast_lost(&receiver), 0);
    int v = -1;
    EXPECT_EQ(hd_broadcast_recv_try(&receiver, &v), -EAGAIN);
    for (int i = 0; i < 10; i++) EXPECT_EQ(hd_broadcast_send(cast, &i), 1);
    EXPECT_EQ(hd_broadcast_recv_try(&receiver, &v), -EOVERFLOW);
    EXPECT_EQ(v, -1);
    EXPECT_EQ(hd_broadcast_lost(&receiver), 7);
    for (int i = 7; i < 10; i++) {
        EXPECT_EQ(hd_broadcast_recv_try(&receiver, &v), 0);
        EXPECT_EQ(v, i);
    }
    EXPECT_EQ(hd_broadcast_recv_until(&receiver, &v, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_broadcast_send(cast, &(int){10}), 1);
    EXPECT_EQ(hd_broadcast_close(cast), 0);
    EXPECT_EQ(hd_broadcast_recv_try(&receiver, &v), 0); /* What is kept is still received. */
    EXPECT_EQ(v, 10);
    EXPECT_EQ(hd_broadcast_recv_try(&receiver, &v), -EPIPE);
    hd_broadcast_unsubscribe(&receiver);
    hd_broadcast_destroy(cast);
    hd_broadcast_destroy(NULL);
    EXPECT(hd_broadcast_create(4, 0) == NULL);
    EXPECT(hd_broadcast_create((1 << 20) + 1, 1) == NULL);
}

static int cancelled_listener(void *arg)
{
    struct listener *listener = arg;
    int v = 77;
    atomic_store((atomic_int *)&listener->last, 1);
    EXPECT_EQ(hd_broadcast_recv(&listener->receiver, &v), -ECANCELED);
    EXPECT_EQ(v, 77);
    return 0;
}

static int cancel_a_listener(void *arg)
{
    (void)arg;
    hd_broadcast *cast = hd_broadcast_create(sizeof(int), 8);
    struct listener listener = {.last = 0};
    EXPECT_EQ(hd_broadcast_subscribe(cast, &listener.receiver), 0);
    hd_task *task = rt_spawn(NULL, cancelled_listener, &listener);
    rt_until((atomic_int *)&listener.last);
    hd_cancel(task);
    rt_join(task);
    int v;
    EXPECT_EQ(hd_broadcast_recv_until(&listener.receiver, &v, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_broadcast_send(cast, &(int){1}), 1); /* Nothing of it was consumed. */
    EXPECT_EQ(hd_broadcast_recv(&listener.receiver, &v), 0);
    EXPECT_EQ(v, 1);
    hd_broadcast_unsubscribe(&listener.receiver);
    hd_broadcast_destroy(cast);
    return 0;
}

TEST_WORLDS(a_cancelled_listener_misses_nothing, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_a_listener, NULL, &one);
}

static void destroy_subscribed(void *arg)
{
    (void)arg;
    hd_broadcast *cast = hd_broadcast_create(4, 1);
    hd_broadcast_receiver receiver;
    if (hd_broadcast_subscribe(cast, &receiver) == 0) hd_broadcast_destroy(cast);
}

TEST(destroying_a_broadcast_with_receivers_is_told)
{
    expect_abort(destroy_subscribed, NULL, "while somebody is subscribed");
}

/* ---- watch ---- */

struct watcher {
    hd_watch_receiver receiver;
    int changes, last;
};

static int watch_to_end(void *arg)
{
    struct watcher *watcher = arg;
    int v = 0, err;
    while ((err = hd_watch_changed(&watcher->receiver, &v)) == 0) {
        EXPECT(v > watcher->last); /* Some may be missed, none comes back. */
        watcher->last = v;
        watcher->changes++;
    }
    EXPECT_EQ(err, -EPIPE);
    return 0;
}

static int change_for_all(void *arg)
{
    (void)arg;
    hd_watch *watch = hd_watch_create(sizeof(int), &(int){0});
    EXPECT(watch != NULL);
    struct watcher watchers[LISTENERS];
    hd_task *tasks[LISTENERS];
    for (int i = 0; i < LISTENERS; i++) {
        watchers[i] = (struct watcher){.last = 0};
        hd_watch_subscribe(watch, &watchers[i].receiver);
        tasks[i] = rt_spawn(NULL, watch_to_end, &watchers[i]);
    }
    for (int i = 1; i <= VALUES; i++) {
        EXPECT_EQ(hd_watch_set(watch, &i), 0);
        if (i % 5 == 0) hd_yield();
    }
    EXPECT_EQ(hd_watch_close(watch), 0);
    EXPECT_EQ(hd_watch_close(watch), -EPIPE);
    EXPECT_EQ(hd_watch_set(watch, &(int){0}), -EPIPE);
    for (int i = 0; i < LISTENERS; i++) {
        rt_join(tasks[i]);
        EXPECT_EQ(watchers[i].last, VALUES); /* The latest is never missed. */
        EXPECT(watchers[i].changes >= 1 && watchers[i].changes <= VALUES);
    }
    int v = 0;
    hd_watch_get(watch, &v);
    EXPECT_EQ(v, VALUES);
    hd_watch_destroy(watch);
    return 0;
}

TEST_WORLDS(nobody_misses_the_latest_value, options)
{
    rt_run(change_for_all, NULL, options);
}

TEST(a_change_is_seen_once)
{
    hd_watch *watch = hd_watch_create(sizeof(int), &(int){1});
    hd_watch_receiver receiver;
    hd_watch_subscribe(watch, &receiver);
    int v = 0;
    EXPECT_EQ(hd_watch_changed_try(&receiver, &v), -EAGAIN); /* The first counts as seen. */
    EXPECT_EQ(hd_watch_set(watch, &(int){2}), 0);
    EXPECT_EQ(hd_watch_set(watch, &(int){3}), 0);
    EXPECT_EQ(hd_watch_changed(&receiver, &v), 0);
    EXPECT_EQ(v, 3);
    EXPECT_EQ(hd_watch_changed_until(&receiver, &v, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_watch_set(watch, &(int){3}), 0); /* An equal value is a change too. */
    EXPECT_EQ(hd_watch_close(watch), 0);
    EXPECT_EQ(hd_watch_changed(&receiver, NULL), 0);
    EXPECT_EQ(hd_watch_changed(&receiver, &v), -EPIPE);
    hd_watch_destroy(watch);
    hd_watch_destroy(NULL);
    EXPECT(hd_watch_create((1 << 20) + 1, NULL) == NULL);
}

TEST(a_borrowed_value_stays_as_it_is)
{
    hd_watch *watch = hd_watch_create(sizeof(int), &(int){0});
    const int *borrowed[10];
    for (int i = 0; i < 10; i++) {
        borrowed[i] = hd_watch_borrow(watch);
        EXPECT_EQ(hd_watch_set(watch, &(int){i + 1}), 0);
    }
    for (int i = 0; i < 10; i++) EXPECT_EQ(*borrowed[i], i);
    for (int i = 0; i < 10; i++) hd_watch_return(watch, borrowed[i * 7 % 10]);
    const int *twice = hd_watch_borrow(watch);
    EXPECT(hd_watch_borrow(watch) == twice);
    hd_watch_return(watch, twice);
    EXPECT_EQ(*twice, 10);
    hd_watch_return(watch, twice);
    hd_watch_destroy(watch);
}

static void destroy_borrowed(void *arg)
{
    (void)arg;
    hd_watch *watch = hd_watch_create(4, &(int){0});
    const void *value = hd_watch_borrow(watch);
    if (value) hd_watch_destroy(watch);
}

TEST(destroying_a_watch_with_a_borrowed_value_is_told)
{
    expect_abort(destroy_borrowed, NULL, "while a value is borrowed");
}

static int give_up_watching(void *arg)
{
    struct watcher *watcher = arg;
    int v = 5;
    atomic_store((atomic_int *)&watcher->changes, 1);
    EXPECT_EQ(hd_watch_changed(&watcher->receiver, &v), -ECANCELED);
    EXPECT_EQ(v, 5);
    return 0;
}

static int cancel_a_watcher(void *arg)
{
    (void)arg;
    hd_watch *watch = hd_watch_create(sizeof(int), &(int){0});
    struct watcher watcher = {.last = 0};
    hd_watch_subscribe(watch, &watcher.receiver);
    hd_task *task = rt_spawn(NULL, give_up_watching, &watcher);
    rt_until((atomic_int *)&watcher.changes);
    hd_cancel(task);
    rt_join(task);
    EXPECT_EQ(hd_watch_changed_until(&watcher.receiver, NULL, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_watch_set(watch, &(int){8}), 0);
    int v = 0;
    EXPECT_EQ(hd_watch_changed(&watcher.receiver, &v), 0);
    EXPECT_EQ(v, 8);
    hd_watch_destroy(watch);
    return 0;
}

TEST_WORLDS(a_cancelled_watcher_misses_nothing, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_a_watcher, NULL, &one);
}

/* ---- as cases ---- */

struct sources {
    hd_oneshot oneshot;
    hd_broadcast *cast;
    hd_watch *watch;
    int order;
};

static int trigger(void *arg)
{
    struct sources *sources = arg;
    for (int i = 0; i < 3; i++) {
        switch ((sources->order + i) % 3) {
        case 0: EXPECT_EQ(hd_oneshot_send(&sources->oneshot, &(int){10}), 0); break;
        case 1: EXPECT_EQ(hd_broadcast_send(sources->cast, &(int){20}), 1); break;
        case 2: EXPECT_EQ(hd_watch_set(sources->watch, &(int){30}), 0); break;
        }
        hd_yield();
    }
    return 0;
}

/* Each of the three happens exactly once, in whatever order. */
static int select_all(void *arg)
{
    (void)arg;
    for (int order = 0; order < 3; order++) {
        struct sources sources = {.order = order};
        hd_broadcast_receiver listener;
        hd_watch_receiver watcher;
        init(&sources.oneshot);
        sources.cast = hd_broadcast_create(sizeof(int), 4);
        sources.watch = hd_watch_create(sizeof(int), &(int){0});
        EXPECT_EQ(hd_broadcast_subscribe(sources.cast, &listener), 0);
        hd_watch_subscribe(sources.watch, &watcher);
        hd_task *task = rt_spawn(NULL, trigger, &sources);
        int values[3] = {0};
        hd_case cases[] = {HD_ONESHOT(&sources.oneshot, &values[0]),
                           HD_BROADCAST(&listener, &values[1]), HD_CHANGED(&watcher, &values[2])};
        for (int i = 0; i < 3; i++) {
            const int which = hd_select(cases, 3);
            EXPECT(which >= 0 && which < 3);
            EXPECT_EQ(cases[which].result, 0);
            EXPECT_EQ(values[which], 10 * (which + 1));
            cases[which] = (hd_case)HD_NEVER;
        }
        rt_join(task);
        hd_broadcast_unsubscribe(&listener);
        hd_broadcast_destroy(sources.cast);
        hd_watch_destroy(sources.watch);
    }
    return 0;
}

TEST_WORLDS(all_three_can_be_selected, options)
{
    rt_run(select_all, NULL, options);
}

TEST_WORLDS(threads_receive_too, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sources sources = {.cast = hd_broadcast_create(sizeof(int), 4),
                              .watch = hd_watch_create(sizeof(int), &(int){0})};
    hd_broadcast_receiver listener;
    hd_watch_receiver watcher;
    init(&sources.oneshot);
    EXPECT_EQ(hd_broadcast_subscribe(sources.cast, &listener), 0);
    hd_watch_subscribe(sources.watch, &watcher);
    hd_task *task = rt_spawn(runtime, trigger, &sources);
    int v = 0;
    EXPECT_EQ(hd_watch_changed(&watcher, &v), 0);
    EXPECT_EQ(v, 30);
    EXPECT_EQ(hd_oneshot_recv(&sources.oneshot, &v), 0);
    EXPECT_EQ(v, 10);
    EXPECT_EQ(hd_broadcast_recv(&listener, &v), 0);
    EXPECT_EQ(v, 20);
    rt_join(task);
    hd_runtime_destroy(runtime);
    hd_broadcast_unsubscribe(&listener);
    hd_broadcast_destroy(sources.cast);
    hd_watch_destroy(sources.watch);
}
