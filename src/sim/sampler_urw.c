/* SPDX-License-Identifier: MIT
 *
 * sampler_urw: a random walk that meets each schedule about as often as any other (Zhao et al.,
 * ASPLOS 2025).
 *
 * A plain random walk favours schedules in which short tasks run early. Here each task is weighed
 * by the steps that it still has before it, and those of the tasks that it will still spawn: so
 * many schedules begin with it.
 *
 * The parameters are these steps for each task, in the order of spawns: its own and those of all
 * the tasks that come from it. What a task spawns is taken from it when it does. The last number
 * stands for all further tasks too, so that the text is short however many there are. A task that
 * has used up its steps has one: it is ready, so there is at least one.
 *
 * Left out, they are learned as averages; the first schedule has equal weights. A task that spins
 * for another takes more steps the more it weighs, but that does not feed on itself: each step it
 * takes makes it lighter.
 *
 * SAMPLER-2 holds by chance, as in sampler_random.
 */
#include <stdio.h>
#include <string.h>

#include "os/memory.h"
#include "sim/schedule.h"

/* So many numbers of so many digits are less than HD_SAMPLER_TEXT_MAX. */
#define LIST_MAX  40
#define STEPS_MAX 99999
_Static_assert(sizeof("urw:") + LIST_MAX * sizeof("99999") <= HD_SAMPLER_TEXT_MAX, "urw: text");

#define REMEMBER   64    /* an average is over about so many tasks, to follow what changes */
#define KEPT       32    /* weights of so many candidates are not worked out twice */
#define FAMILY_MAX 65536 /* of a schedule with more tasks, it learns from these */

/* Of the tasks with one number, or for the last in the list, all with that or a higher one. */
struct average {
    uint64_t sum;
    uint32_t count;
};

/* By number, of the schedule under way. */
struct family {
    uint32_t parent; /* a higher number than its own: it was not spawned by a task */
    uint32_t total;  /* its steps; at the end of the schedule also those of all it spawned */
    bool begun;
};

/* In memory that is shared with processes forked later: each of their schedules counts too. */
struct sampler_urw {
    struct hdi_sampler base;
    struct hdi_prng prng;
    struct hdi_schedule *schedule; /* under way */
    bool learns;
    uint32_t list_count; /* LIST-1: in [1, LIST_MAX] */
    uint32_t list[LIST_MAX];
    struct average averages[LIST_MAX];
    uint32_t average_count;
    uint32_t family_count; /* one more than the highest that has begun */
    struct family families[FAMILY_MAX];
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- parameters ---- */

static bool parse(struct sampler_urw *urw, const char *at)
{
    for (;;) {
        uint32_t n = 0;
        const char *first = at;
        while (*at >= '0' && *at <= '9' && n <= STEPS_MAX) n = n * 10 + (uint32_t)(*at++ - '0');
        if (at == first || n > STEPS_MAX || urw->list_count == LIST_MAX) return false;
        urw->list[urw->list_count++] = n;
        if (!*at) return true;
        if (*at++ != ',') return false;
    }
}

static void destroy(struct hdi_sampler *sampler)
{
    hdi_memory_unmap(sampler, sizeof(struct sampler_urw));
}

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    struct sampler_urw *urw = hdi_memory_map_shared(sizeof(*urw));
    if (!urw) return NULL;
    urw->learns = !*parameters;
    if (urw->learns) {
        urw->list[urw->list_count++] = 1;
    } else if (!parse(urw, parameters)) {
        *error = "urw:N,N,... takes at most 40 numbers of steps, each from 0 to 99999";
        destroy(&urw->base);
        return NULL;
    }
    return &urw->base;
}

static int text(const struct hdi_sampler *sampler, char *to, size_t size)
{
    const struct sampler_urw *urw = (const struct sampler_urw *)sampler;
    int length = 0;
    for (uint32_t i = 0; i < urw->list_count; i++) {
        const size_t used = (size_t)length < size ? (size_t)length : size;
        length += snprintf(to + used, size - used, i > 0 ? ",%u" : "%u", (unsigned)urw->list[i]);
    }
    return length;
}

/* ---- learning ---- */

static void use_learned(struct sampler_urw *urw)
{
    urw->list_count = urw->average_count;
    for (uint32_t i = 0; i < urw->average_count; i++) {
        const struct average *average = &urw->averages[i];
        const uint64_t count = average->count ? average->count : 1; /* No task had that number. */
        const uint64_t rounded = (average->sum + count / 2) / count;
        urw->list[i] = (uint32_t)(rounded < STEPS_MAX ? rounded : STEPS_MAX);
    }
}

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    struct sampler_urw *urw = (struct sampler_urw *)sampler;
    hdi_prng_init(&urw->prng, seed);
    urw->schedule = schedule;
    memset(urw->families, 0, urw->family_count * sizeof(urw->families[0]));
    urw->family_count = 0;
    if (urw->average_count > 0) use_learned(urw);
}

static void learn(struct sampler_urw *urw, uint32_t number, uint32_t total)
{
    const uint32_t i = least(number, LIST_MAX - 1);
    struct average *average = &urw->averages[i];
    if (average->count == REMEMBER) {
        average->sum /= 2;
        average->count /= 2;
    }
    average->sum += total;
    average->count++;
    if (i >= urw->average_count) urw->average_count = i + 1;
}

static void end(struct hdi_sampler *sampler, struct hdi_schedule *schedule)
{
    struct sampler_urw *urw = (struct sampler_urw *)sampler;
    if (!urw->learns) return;
    /* Who is spawned has a higher number than who did it. */
    for (uint32_t i = urw->family_count; i-- > 0;) {
        struct family *family = &urw->families[i];
        if (!family->begun) continue;
        const struct hdi_actor *left = hdi_actors_find(&schedule->actors, i);
        if (left) family->total += left->steps;
        if (family->parent < i) urw->families[family->parent].total += family->total;
        learn(urw, i, family->total);
    }
}

/* ---- weights ---- */

static uint32_t steps_of(const struct sampler_urw *urw, uint32_t number)
{
    return urw->list[least(number, urw->list_count - 1)];
}

/* An actor's value: what it had of steps, less those of the tasks it has spawned. */
static void spawned(struct hdi_sampler *sampler, struct hdi_actor *actor, uint32_t number)
{
    struct sampler_urw *urw = (struct sampler_urw *)sampler;
    const uint32_t parent = (uint32_t)(urw->schedule->running - 1); /* The highest, if none. */
    actor->value = steps_of(urw, number);
    if (number < FAMILY_MAX) {
        urw->families[number] = (struct family){.parent = parent, .begun = true};
        if (number >= urw->family_count) urw->family_count = number + 1;
    }
    if (parent >= number) return;
    struct hdi_actor *from = hdi_actors_find(&urw->schedule->actors, parent);
    if (from) from->value -= from->value < actor->value ? from->value : actor->value;
}

static void ended(struct hdi_sampler *sampler, const struct hdi_actor *actor, uint32_t number)
{
    if (number < FAMILY_MAX) ((struct sampler_urw *)sampler)->families[number].total = actor->steps;
}

static uint64_t weight_of(const struct hdi_actor *actor)
{
    const int64_t left = (int64_t)actor->value - (int64_t)actor->steps;
    return (uint64_t)(left > 1 ? left : 1);
}

/* As hdi_prng_below(): many tasks with many steps weigh more than 32 bits. */
static uint64_t below(struct hdi_prng *prng, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)hdi_prng_next(prng) * n) >> 64);
}

/* More than sums are kept of, or in a schedule that is not small. */
static __attribute__((noinline)) unsigned pick_of_many(struct sampler_urw *urw,
                                                       struct hdi_schedule *schedule,
                                                       struct hd_task *const *ready,
                                                       unsigned count)
{
    uint64_t sum = 0, up_to = 0;
    for (unsigned i = 0; i < count; i++) sum += weight_of(hdi_schedule_find(schedule, ready[i]));
    const uint64_t at = below(&urw->prng, sum);
    unsigned index = 0;
    while ((up_to += weight_of(hdi_schedule_find(schedule, ready[index]))) <= at) index++;
    return index;
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)running;
    struct sampler_urw *urw = (struct sampler_urw *)sampler;
    if (hdi_unlikely(count > KEPT || !hdi_schedule_is_small(schedule))) {
        return pick_of_many(urw, schedule, ready, count);
    }
    uint64_t up_to[KEPT], sum = weight_of(hdi_schedule_candidate(schedule, ready[0], true));
    for (unsigned i = 1; i < count; i++) {
        up_to[i] = sum;
        sum += weight_of(hdi_schedule_candidate(schedule, ready[i], true));
    }
    const uint64_t at = below(&urw->prng, sum);
    unsigned index = 0; /* To the end: a branch would be guessed wrong. */
    for (unsigned i = 1; i < count; i++) index += at >= up_to[i];
    return index;
}

const struct hdi_sampler_kind hdi_sampler_urw = {.name = "urw",
                                                 .create = create,
                                                 .destroy = destroy,
                                                 .begin = begin,
                                                 .end = end,
                                                 .spawned = spawned,
                                                 .pick = pick,
                                                 .ended = ended,
                                                 .text = text};
