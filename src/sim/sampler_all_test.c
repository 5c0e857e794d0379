/* SPDX-License-Identifier: MIT
 *
 * sampler_all: it runs as many schedules as there are, each class of them within its bound, and
 * says each of them by a text.
 *
 * The program here is a toy: straight-line tasks on a few words, with locks and yields, run step by
 * step as sim/schedule.c would.
 */
#include "sim/sampler.h"

#include "sim/branch.h"
#include "sim/schedule.h"
#include "test.h"

enum { TASKS_MAX = 128, STEPS_MAX = 12, WORDS = 4, TRACE_MAX = 512 };

enum act {
    READ,   /* a register takes the word */
    WRITE,  /* the word becomes the register plus 1 */
    LOCK,   /* waits while the word is not 0 */
    UNLOCK, /* and wakes one that waits */
    YIELD,
    AWAIT,  /* yields until the word is not 0 */
    START,  /* makes the next task ready */
    ANY,    /* touches nothing that is known */
};

struct act_on {
    enum act act;
    unsigned word;
};

struct toy {
    unsigned tasks, started; /* the tasks from `started` on are not ready at first */
    unsigned counts[TASKS_MAX];
    struct act_on steps[TASKS_MAX][STEPS_MAX];
};

/* One run of it. */
struct run {
    const struct toy *toy;
    struct hdi_schedule schedule;
    struct hd_task tasks[TASKS_MAX];
    struct hd_task *ready[TASKS_MAX];
    unsigned count;
    int running; /* who took the last step; -1: nobody */
    unsigned at[TASKS_MAX];
    bool awaiting[TASKS_MAX]; /* a lock */
    unsigned words[WORDS], registers[TASKS_MAX];
    unsigned preemptions, trace_count;
    uint8_t trace[TRACE_MAX]; /* who took each step, */
    const struct act_on *acts[TRACE_MAX]; /* and what it was */
    uint64_t class_id;
    bool stuck;
};

static struct hdi_actor *actor_of(struct run *run, unsigned task)
{
    return hdi_actors_find(&run->schedule.actors, task);
}

/* What a task stands before. */
static void announce(struct run *run, unsigned task)
{
    struct hdi_actor *actor = actor_of(run, task);
    const struct act_on *next = &run->toy->steps[task][run->at[task]];
    actor->object = &run->words[next->word % WORDS]; /* START has a task there. */
    switch (next->act) {
    case READ: actor->kind = HD_TOUCH_READ; break;
    case AWAIT: actor->kind = HD_TOUCH_LOAD; break;
    case WRITE:
    case LOCK:
    case UNLOCK: actor->kind = HD_TOUCH_UPDATE; break;
    case YIELD:
    case START:
        actor->object = actor; /* Only its own. */
        actor->kind = HD_TOUCH_UPDATE;
        break;
    case ANY:
        actor->object = NULL;
        actor->kind = HD_TOUCH_ANY;
        break;
    }
}

static void make_ready(struct run *run, unsigned task)
{
    run->ready[run->count++] = &run->tasks[task];
    actor_of(run, task)->ready_since = run->schedule.steps;
    announce(run, task);
}

static struct run *run_begin(const struct toy *toy, struct hdi_sampler *sampler)
{
    static struct run run;
    hdi_actors_fini(&run.schedule.actors);
    memset(&run, 0, sizeof(run));
    run.toy = toy;
    run.running = -1;
    run.schedule.sampler = sampler;
    for (unsigned i = 0; i < TASKS_MAX; i++) {
        run.tasks[i].id = i + 1;
        (void)hdi_actors_begin(&run.schedule.actors, i);
    }
    for (unsigned i = 0; i < toy->started; i++) make_ready(&run, i);
    return &run;
}

/* Returns whether the task can go on at once. */
static bool act(struct run *run, unsigned task)
{
    const struct act_on *step = &run->toy->steps[task][run->at[task]++];
    unsigned *word = &run->words[step->word % WORDS];
    actor_of(run, task)->yielded = false;
    switch (step->act) {
    case READ: run->registers[task] = *word; break;
    case WRITE: *word = run->registers[task] + 1; break;
    case LOCK:
        run->awaiting[task] = *word != 0;
        *word = 1;
        break;
    case UNLOCK:
        *word = 0;
        for (unsigned i = 0; i < run->toy->tasks; i++) {
            if (!run->awaiting[i]) continue;
            if (run->toy->steps[i][run->at[i] - 1].word != step->word) continue;
            *word = 1;
            run->awaiting[i] = false;
            if (run->at[i] < run->toy->counts[i]) make_ready(run, i);
            break;
        }
        break;
    case YIELD: actor_of(run, task)->yielded = true; break;
    case AWAIT:
        if (*word) break;
        actor_of(run, task)->yielded = true;
        run->at[task]--;
        break;
    case START: make_ready(run, step->word); break;
    case ANY: break;
    }
    return !run->awaiting[task] && run->at[task] < run->toy->counts[task];
}

static void run_step(struct run *run, unsigned index)
{
    const unsigned task = (unsigned)(run->ready[index] - run->tasks);
    const struct hdi_sampler_kind *kind = run->schedule.sampler->kind;
    if (kind->stepped) kind->stepped(run->schedule.sampler, actor_of(run, task), task);
    EXPECT(run->trace_count < TRACE_MAX);
    run->acts[run->trace_count] = &run->toy->steps[task][run->at[task]];
    run->trace[run->trace_count++] = (uint8_t)task;
    run->schedule.steps++;
    actor_of(run, task)->steps++;
    run->ready[index] = run->ready[--run->count];
    run->running = (int)task;
    if (act(run, task)) make_ready(run, task);
}

static int running_index(struct run *run)
{
    for (unsigned i = 0; i < run->count; i++) {
        if (run->ready[i] - run->tasks != run->running) continue;
        return actor_of(run, (unsigned)run->running)->yielded ? -1 : (int)i;
    }
    return -1;
}

/* The order of the steps of different tasks on each word, and where each task ended: what two
 * schedules that only swap independent steps have in common. */
static void fold(uint64_t *hash, uint64_t value)
{
    *hash = hdi_mix64(*hash ^ (value + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t class_of(const struct run *run)
{
    uint64_t chains[WORDS] = {0}, looks[WORDS] = {0}, sum = 0, barrier = 0;
    unsigned at[TASKS_MAX] = {0};
    for (unsigned i = 0; i < run->trace_count; i++) {
        const unsigned task = run->trace[i];
        const struct act_on *step = run->acts[i];
        uint64_t id = barrier;
        fold(&id, (uint64_t)task << 32 | ++at[task]);
        if (step->act == READ || step->act == AWAIT) {
            uint64_t look = chains[step->word];
            fold(&look, id);
            looks[step->word] += look;
            sum += look;
        } else if (step->act == WRITE || step->act == LOCK || step->act == UNLOCK) {
            fold(&chains[step->word], looks[step->word] ^ id);
            looks[step->word] = 0;
            sum += chains[step->word];
        } else if (step->act == ANY) {
            fold(&barrier, sum ^ id);
            sum += barrier;
        }
    }
    return sum;
}

static struct run *run_all(const struct toy *toy, struct hdi_sampler *sampler)
{
    struct run *run = run_begin(toy, sampler);
    const struct hdi_sampler_kind *kind = sampler->kind;
    if (kind->begin) kind->begin(sampler, &run->schedule, 1);
    while (run->count > 0) {
        const int running = running_index(run);
        unsigned index = 0;
        if (run->count > 1) {
            index = kind->pick(sampler, &run->schedule, run->ready, run->count, running);
            EXPECT(index < run->count);
            run->preemptions += running >= 0 && (unsigned)running != index;
        }
        run_step(run, index);
    }
    for (unsigned i = 0; i < toy->tasks; i++) run->stuck |= run->at[i] < toy->counts[i];
    if (kind->end) kind->end(sampler, &run->schedule);
    run->class_id = class_of(run);
    return run;
}

static struct hdi_sampler *sampler_of(const char *text)
{
    struct hdi_sampler *sampler = NULL;
    const char *error = NULL;
    const int err = hdi_sampler_create(&sampler, text, &error);
    if (err) test_fail(__FILE__, __LINE__, "%s: %s", text, error ? error : strerror(-err));
    return sampler;
}

/* ---- sets of classes ---- */

enum { CLASSES_MAX = 1 << 16 };
struct classes {
    unsigned count;
    uint64_t ids[CLASSES_MAX];
};

static bool classes_add(struct classes *classes, uint64_t id)
{
    for (unsigned i = 0; i < classes->count; i++) {
        if (classes->ids[i] == id) return false;
    }
    EXPECT(classes->count < CLASSES_MAX);
    classes->ids[classes->count++] = id;
    return true;
}

/* How many schedules the sampler runs. */
static unsigned enumerate(const struct toy *toy, const char *text, struct classes *classes)
{
    struct hdi_sampler *sampler = sampler_of(text);
    unsigned bound = UINT32_MAX, count = 0;
    (void)sscanf(text, "all:%u", &bound);
    do {
        const struct run *run = run_all(toy, sampler);
        count++;
        EXPECT(run->preemptions <= bound);
        EXPECT(!sampler->kind->diverged(sampler));
        if (classes) classes_add(classes, run->class_id);
    } while (sampler->kind->more(sampler));
    EXPECT(sampler->kind->complete(sampler));
    hdi_sampler_destroy(sampler);
    return count;
}

/* ---- all there are, without any reduction ---- */

struct brute {
    struct hdi_sampler base;
    unsigned bound, depth, fixed, spent;
    struct {
        uint8_t pick, count;
        int running;
        uint8_t spent;
    } path[TRACE_MAX];
};

static void brute_begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule;
    (void)seed;
    struct brute *brute = (struct brute *)sampler;
    brute->depth = brute->spent = 0;
}

static bool brute_may(const struct brute *brute, unsigned depth, unsigned pick)
{
    const int running = brute->path[depth].running;
    return running < 0 || (int)pick == running || brute->path[depth].spent < brute->bound;
}

static unsigned brute_pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                           struct hd_task *const *ready, unsigned count, int running)
{
    (void)schedule;
    (void)ready;
    struct brute *brute = (struct brute *)sampler;
    const unsigned d = brute->depth++;
    if (d >= brute->fixed) {
        brute->path[d].count = (uint8_t)count;
        brute->path[d].running = running;
        brute->path[d].spent = (uint8_t)brute->spent;
        brute->path[d].pick = 0;
        while (!brute_may(brute, d, brute->path[d].pick)) brute->path[d].pick++;
    }
    brute->spent += running >= 0 && brute->path[d].pick != running;
    return brute->path[d].pick;
}

static bool brute_more(struct hdi_sampler *sampler)
{
    struct brute *brute = (struct brute *)sampler;
    while (brute->depth > 0) {
        const unsigned d = brute->depth - 1;
        while (++brute->path[d].pick < brute->path[d].count) {
            if (!brute_may(brute, d, brute->path[d].pick)) continue;
            brute->fixed = brute->depth;
            return true;
        }
        brute->depth--;
    }
    return false;
}

static const struct hdi_sampler_kind brute_kind = {
    .name = "brute", .begin = brute_begin, .pick = brute_pick, .more = brute_more};

static unsigned enumerate_brute(const struct toy *toy, unsigned bound, struct classes *classes)
{
    struct brute brute = {.base = {&brute_kind}, .bound = bound};
    unsigned count = 0;
    do {
        const struct run *run = run_all(toy, &brute.base);
        if (classes) classes_add(classes, run->class_id);
        count++;
    } while (brute_more(&brute.base));
    return count;
}

/* ---- known numbers ---- */

static struct toy straight(unsigned tasks, unsigned steps, enum act what, bool apart)
{
    struct toy toy = {.tasks = tasks, .started = tasks};
    for (unsigned i = 0; i < tasks; i++) {
        toy.counts[i] = steps;
        for (unsigned k = 0; k < steps; k++) {
            toy.steps[i][k] = (struct act_on){what, apart ? i % WORDS : 0};
        }
    }
    return toy;
}

TEST(dependent_steps_in_every_order)
{
    struct toy toy = straight(2, 3, WRITE, false);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 20); /* C(6, 3) */
    toy = straight(2, 5, WRITE, false);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 252); /* C(10, 5) */
    toy = straight(3, 2, WRITE, false);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 90); /* 6! / 2!^3 */
    toy = straight(3, 3, ANY, true);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 1680); /* 9! / 3!^3 */
}

TEST(independent_steps_in_one_order)
{
    struct toy toy = straight(2, 10, WRITE, true);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 1);
    toy = straight(4, 6, WRITE, true);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 1);
    EXPECT_EQ(enumerate(&toy, "all:3", NULL), 1);
    toy = straight(3, 4, READ, false);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 1);
}

/* Of two tasks with n steps each, m runs of steps are m - 2 preemptions: the last switch but one is
 * from a task that has ended. There are 2 C(n-1, m/2 - 1) C(n-1, (m-1)/2) of these. */
TEST(as_many_as_the_bound_allows)
{
    const struct toy toy = straight(2, 3, WRITE, false);
    EXPECT_EQ(enumerate(&toy, "all:0", NULL), 2);
    EXPECT_EQ(enumerate(&toy, "all:1", NULL), 2 + 4);
    EXPECT_EQ(enumerate(&toy, "all", NULL), 2 + 4 + 8);
    EXPECT_EQ(enumerate(&toy, "all:3", NULL), 2 + 4 + 8 + 4);
    EXPECT_EQ(enumerate(&toy, "all:4", NULL), 20);
    EXPECT_EQ(enumerate(&toy, "all:1000", NULL), 20);
    const struct toy three = straight(3, 1, WRITE, false);
    EXPECT_EQ(enumerate(&three, "all:0", NULL), 6);
}

/* Two classes: who has the lock first. The order of the rest follows. */
TEST(locks_are_two_classes)
{
    const struct toy toy = {.tasks = 2, .started = 2, .counts = {4, 4},
                            .steps = {{{LOCK, 0}, {READ, 1}, {WRITE, 1}, {UNLOCK, 0}},
                                      {{LOCK, 0}, {READ, 1}, {WRITE, 1}, {UNLOCK, 0}}}};
    static struct classes found;
    const unsigned runs = enumerate(&toy, "all:none", &found);
    static struct classes there;
    enumerate_brute(&toy, UINT32_MAX, &there);
    EXPECT_EQ(found.count, there.count);
    EXPECT(runs <= 2 * there.count);
}

/* ---- nothing is lost ---- */

static struct toy draw_toy(struct hdi_prng *prng)
{
    struct toy toy = {.tasks = 2 + hdi_prng_below(prng, 3)};
    toy.started = toy.tasks;
    const unsigned steps = toy.tasks == 2 ? 5 : toy.tasks == 3 ? 3 : 2;
    const unsigned words = 1 + hdi_prng_below(prng, 3);
    const bool locked = hdi_prng_below(prng, 2) == 0, vague = hdi_prng_below(prng, 4) == 0;
    for (unsigned i = 0; i < toy.tasks; i++) {
        unsigned n = 0;
        if (locked && hdi_prng_below(prng, 3) > 0) toy.steps[i][n++] = (struct act_on){LOCK, 3};
        const bool holds = n > 0;
        const unsigned own = 1 + hdi_prng_below(prng, holds ? steps - 1 : steps);
        for (unsigned k = 0; k < own; k++) {
            enum act what = hdi_prng_below(prng, 2) == 0 ? READ : WRITE;
            if (vague && hdi_prng_below(prng, 4) == 0) what = ANY;
            toy.steps[i][n++] = (struct act_on){what, hdi_prng_below(prng, words)};
        }
        if (holds && hdi_prng_below(prng, 5) > 0) toy.steps[i][n++] = (struct act_on){UNLOCK, 3};
        toy.counts[i] = n;
    }
    if (hdi_prng_below(prng, 3) == 0) { /* The last one is started by the first. */
        toy.started--;
        for (unsigned k = toy.counts[0]++; k > 0; k--) toy.steps[0][k] = toy.steps[0][k - 1];
        toy.steps[0][0] = (struct act_on){START, toy.tasks - 1};
    }
    return toy;
}

static void expect_subset(const struct classes *some, struct classes *of, unsigned seed, int bound)
{
    for (unsigned i = 0; i < some->count; i++) {
        if (!classes_add(of, some->ids[i])) continue;
        test_fail(__FILE__, __LINE__, "toy %u, bound %d: class %u is lost", seed, bound, i);
    }
}

static unsigned long compare(unsigned seed, int bound, unsigned long *brute_runs,
                             unsigned long *ids)
{
    struct hdi_prng prng;
    hdi_prng_init(&prng, seed);
    const struct toy toy = draw_toy(&prng);
    static struct classes there, found;
    there.count = found.count = 0;
    *brute_runs += enumerate_brute(&toy, bound < 0 ? UINT32_MAX : (unsigned)bound, &there);
    char text[16] = "all:none";
    if (bound >= 0) snprintf(text, sizeof(text), "all:%d", bound);
    const unsigned runs = enumerate(&toy, text, &found);
    *ids += there.count;
    expect_subset(&there, &found, seed, bound);
    return runs;
}

TEST(no_class_is_lost)
{
    unsigned long runs = 0, brute = 0, classes = 0;
    for (unsigned seed = 0; seed < 300; seed++) runs += compare(seed, -1, &brute, &classes);
    printf("# %lu schedules of %lu, %lu classes\n", runs, brute, classes);
    EXPECT(runs < brute / 2);
    EXPECT(runs < classes + classes / 4);
}

TEST(no_class_is_lost_within_a_bound)
{
    for (int bound = 0; bound < 4; bound++) {
        unsigned long runs = 0, brute = 0, classes = 0;
        for (unsigned seed = 0; seed < 300; seed++) runs += compare(seed, bound, &brute, &classes);
        printf("# bound %d: %lu schedules of %lu, %lu classes\n", bound, runs, brute, classes);
        EXPECT(runs <= brute);
    }
}

/* ---- yields ---- */

static const struct toy waits_by_yielding = {.tasks = 3, .started = 3, .counts = {2, 2, 3},
                                             .steps = {{{AWAIT, 0}, {WRITE, 1}},
                                                       {{AWAIT, 1}, {WRITE, 2}},
                                                       {{READ, 2}, {READ, 3}, {WRITE, 0}}}};

TEST(waiting_by_yielding_ends)
{
    static struct classes found;
    EXPECT(enumerate(&waits_by_yielding, "all:none", &found) < 2000);
    EXPECT(found.count > 3);
    EXPECT(enumerate(&waits_by_yielding, "all:1", NULL) < 200);
}

/* A yield is no more than a place to switch: the register may also be written at once. */
TEST(after_a_yield_the_same_may_go_on)
{
    const struct toy toy = {.tasks = 2, .started = 2, .counts = {3, 1},
                            .steps = {{{WRITE, 0}, {YIELD, 0}, {WRITE, 0}}, {{READ, 0}}}};
    EXPECT_EQ(enumerate(&toy, "all:0", NULL), 3);
    EXPECT_EQ(enumerate(&toy, "all:none", NULL), 3);
}

/* ---- a fault ---- */

/* Both read before either writes: one write is lost. */
static bool loses_an_update(const struct run *run)
{
    return run->words[0] < 2;
}

static const struct toy lost_update = {
    .tasks = 2, .started = 2, .counts = {4, 4},
    .steps = {{{READ, 1}, {READ, 0}, {WRITE, 0}, {READ, 2}},
              {{READ, 2}, {READ, 0}, {WRITE, 0}, {READ, 1}}}};

static unsigned find(const char *sampler_text, char *text, size_t size)
{
    struct hdi_sampler *sampler = sampler_of(sampler_text);
    unsigned count = 0, found = 0;
    do {
        count++;
        if (!loses_an_update(run_all(&lost_update, sampler)) || found) continue;
        found = count;
        EXPECT((size_t)hdi_sampler_text(sampler, text, size) < size);
    } while (sampler->kind->more(sampler));
    hdi_sampler_destroy(sampler);
    return found;
}

TEST(finds_a_lost_update)
{
    char text[HD_SAMPLER_TEXT_MAX];
    EXPECT_EQ(find("all:0", text, sizeof(text)), 0); /* It takes a preemption. */
    EXPECT(find("all:1", text, sizeof(text)) <= 4);
    EXPECT(find("all:none", text, sizeof(text)) <= 4);
}

/* ---- texts ---- */

/* Every schedule is repeated by its text, and that only once; and by the sampler itself, which only
 * compares up to the last branch what it has to work out from a text. */
static void expect_repeats(const struct toy *toy, const char *sampler_text)
{
    struct hdi_sampler *sampler = sampler_of(sampler_text);
    unsigned cut = 0, count = 0;
    do {
        static struct run first;
        first = *run_all(toy, sampler);
        const struct run *same = run_all(toy, sampler);
        EXPECT_EQ(same->trace_count, first.trace_count);
        EXPECT(memcmp(same->trace, first.trace, first.trace_count) == 0);
        char text[HD_SAMPLER_TEXT_MAX], again[HD_SAMPLER_TEXT_MAX];
        EXPECT((size_t)hdi_sampler_text(sampler, text, sizeof(text)) < sizeof(text));
        count++;
        if (text[strlen(text) - 1] == '~') {
            cut++;
            continue;
        }
        struct hdi_sampler *one = sampler_of(text);
        const struct run *second = run_all(toy, one);
        EXPECT_EQ(second->trace_count, first.trace_count);
        EXPECT(memcmp(second->trace, first.trace, first.trace_count) == 0);
        EXPECT((size_t)hdi_sampler_text(one, again, sizeof(again)) < sizeof(again));
        EXPECT(strcmp(text, again) == 0);
        EXPECT(!one->kind->diverged(one));
        if (count > 1) EXPECT(!one->kind->more(one));
        hdi_sampler_destroy(one);
    } while (sampler->kind->more(sampler));
    EXPECT_EQ(cut, 0);
    hdi_sampler_destroy(sampler);
}

TEST(every_schedule_has_a_text)
{
    for (unsigned seed = 0; seed < 40; seed++) {
        struct hdi_prng prng;
        hdi_prng_init(&prng, seed);
        const struct toy toy = draw_toy(&prng);
        expect_repeats(&toy, "all:none");
        expect_repeats(&toy, "all:1");
    }
    expect_repeats(&waits_by_yielding, "all:none"); /* The path has yields before the branch. */
    expect_repeats(&waits_by_yielding, "all:2");
}

TEST(texts_are_short)
{
    const struct toy toy = straight(2, 3, WRITE, false);
    struct hdi_sampler *sampler = sampler_of("all");
    char text[HD_SAMPLER_TEXT_MAX];
    run_all(&toy, sampler);
    hdi_sampler_text(sampler, text, sizeof(text));
    EXPECT(strcmp(text, "all:2") == 0); /* The first is the one that needs no picks. */
    EXPECT(sampler->kind->more(sampler));
    run_all(&toy, sampler);
    hdi_sampler_text(sampler, text, sizeof(text));
    EXPECT(strcmp(text, "all:2@0:3,1") == 0 || strcmp(text, "all:2@0:2,1") == 0);
    hdi_sampler_destroy(sampler);
}

/* The first task's step was tried before the others', and sleeps nearly to the end, as the first
 * option whenever one of them has ended; their second steps need no switch. So the picks are 1, 0,
 * 1, 0 and so on, up to those who race at the end. */
TEST(what_is_too_long_for_a_text_says_so)
{
    struct toy toy = straight(TASKS_MAX, 2, READ, false);
    const unsigned last = TASKS_MAX - 1;
    toy.started = last;
    toy.counts[0] = toy.counts[last] = 1;
    toy.steps[0][0] = toy.steps[last][0] = (struct act_on){WRITE, 2};
    toy.steps[last - 1][1] = (struct act_on){START, last};
    toy.steps[last - 2][1] = toy.steps[last - 3][1] = (struct act_on){WRITE, 3};
    struct hdi_sampler *sampler = sampler_of("all:none");
    char text[HD_SAMPLER_TEXT_MAX + 1];
    const char *error = NULL;
    bool cut = false;
    for (unsigned i = 0; i < 10 && !cut; i++) {
        run_all(&toy, sampler);
        EXPECT((size_t)hdi_sampler_text(sampler, text, sizeof(text)) <= HD_SAMPLER_TEXT_MAX);
        cut = text[strlen(text) - 1] == '~';
        if (!sampler->kind->more(sampler)) break;
    }
    EXPECT(cut);
    hdi_sampler_destroy(sampler);
    EXPECT_EQ(hdi_sampler_create(&sampler, text, &error), -EINVAL);
    EXPECT(strstr(error, "log"));
}

TEST(bad_texts_are_refused)
{
    static const char *const bad[] = {
        "all:x", "all:-1", "all:1001", "all:2@", "all:2@,", "all:2@1,", "all:2@1:", "all:2@1:0x",
        "all:2@1+", "all:2@1+2.", "all:2@1+x", "all:2 ", "all:none1", "all:2@99999999999",
        "all:2@0:70000", "all:2@0~"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct hdi_sampler *sampler = NULL;
        const char *error = NULL;
        EXPECT_EQ(hdi_sampler_create(&sampler, bad[i], &error), -EINVAL);
        EXPECT(error && !sampler);
    }
}

/* ---- programs that do not repeat themselves ---- */

TEST(another_program_is_a_divergence)
{
    const struct toy toy = straight(2, 3, WRITE, false), other = straight(3, 3, WRITE, false);
    const struct toy shorter = straight(2, 1, WRITE, false);
    struct hdi_sampler *sampler = sampler_of("all");
    run_all(&toy, sampler);
    EXPECT(sampler->kind->more(sampler));
    run_all(&other, sampler);
    EXPECT(sampler->kind->diverged(sampler));
    EXPECT(!sampler->kind->more(sampler));
    hdi_sampler_destroy(sampler);

    sampler = sampler_of("all:2");
    run_all(&toy, sampler);
    EXPECT(sampler->kind->more(sampler));
    run_all(&shorter, sampler);
    EXPECT(sampler->kind->diverged(sampler));
    hdi_sampler_destroy(sampler);

    sampler = sampler_of("all:2@0,5"); /* There is no sixth. */
    run_all(&toy, sampler);
    EXPECT(sampler->kind->diverged(sampler));
    hdi_sampler_destroy(sampler);
}

/* ---- processes ---- */

TEST(schedules_may_run_in_children)
{
    const struct toy toy = straight(2, 3, WRITE, false);
    struct hdi_sampler *sampler = sampler_of("all:none");
    unsigned count = 0;
    do {
        const pid_t child = fork();
        if (child == 0) {
            run_all(&toy, sampler);
            _exit(0);
        }
        int status;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        count++;
    } while (sampler->kind->more(sampler));
    EXPECT_EQ(count, 20);
    hdi_sampler_destroy(sampler);
}

TEST_MAIN
